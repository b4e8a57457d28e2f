/* test_files.c - the files of a job go to nodes without one: blocks from all who have that job and from nobody else,
 * one block at a time to each who asks. */
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { JOB = 1, GROUP = 1, BLOCKS = 12, ROOM = 4096 }; /* job: that of the HELLOs of lone.h */

static uint8_t body[ROOM];

/* --- Taking --- */

static struct lone *
meet(const unsigned *ids, size_t count)
{
    struct lone *lone = LONE(.id = 5, .wants_job = true);
    for (size_t i = 0; i < count; i++) {
        lone_found(lone, ids[i]);
        lone_up(lone, ids[i]);
        lone_hello(lone, ids[i], true);
    }
    lone_forget_sent(lone);
    return lone;
}

static struct lone *
seeker(const unsigned *ids, size_t count)
{
    struct lone *lone = meet(ids, count);
    core_want_files(lone->core, lone->now,
                    &(struct core_files){.job = JOB, .group = GROUP, .first = 3, .count = BLOCKS});
    return lone;
}

static void
give_of(struct lone *lone, unsigned from, unsigned object, uint64_t block, uint64_t blocks,
        size_t size)
{
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {.object = object, .round = GROUP, .label = JOB, .block = block, .commit = blocks}};
    msg.give.check = transfer_check(&msg.give, 0, body, size);
    lone_say_bulk(lone, from, &msg, body, size);
}

static void
give(struct lone *lone, unsigned from, uint64_t block, size_t size)
{
    give_of(lone, from, PROTO_OBJECT_FILES, block, 99, size);
}

/* Who was asked for it last; 0: nobody. */
static unsigned
asked_of(const struct lone *lone, const unsigned *ids, size_t count, uint64_t block)
{
    unsigned who = 0;
    uint64_t first = lone->sent_count > LONE_SENT_MAX ? lone->sent_count - LONE_SENT_MAX : 0;
    for (uint64_t k = first; k < lone->sent_count; k++) {
        const struct lone_sent *sent = &lone->sent[k % LONE_SENT_MAX];
        const struct proto_fetch *fetch = &sent->msg.fetch;
        if (sent->msg.type == PROTO_FETCH && fetch->object == PROTO_OBJECT_FILES &&
            block >= fetch->block && block < fetch->block + fetch->count)
            for (size_t i = 0; i < count; i++)
                who = sent->to == ids[i] ? ids[i] : who;
    }
    return who;
}

TEST(all_who_have_the_job_are_asked_and_each_block_is_handed_over)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = seeker(ids, 2);
    assert_true(lone_asked_count(lone, 6, LONE_FILES) > 0);
    assert_true(lone_asked_count(lone, 7, LONE_FILES) > 0);
    assert_false(core_files_here(lone->core));
    for (uint64_t b = 3; b < 3 + BLOCKS; b++) {
        unsigned who = asked_of(lone, ids, 2, b);
        assert_true(who != 0);
        give(lone, who, b, 9);
        assert_int_equal(lone->files_came, b - 2);
        assert_int_equal(lone->file.block, b);
        assert_int_equal(lone->file.group, GROUP);
        assert_int_equal(lone->file.blocks, 99);
        assert_int_equal(lone->file.size, 9);
        assert_false(lone->file.names);
        give(lone, who, b, 9); /* again: it is here */
        assert_int_equal(lone->files_came, b - 2);
    }
    assert_true(core_files_here(lone->core));
}

TEST(what_is_of_something_else_is_dropped)
{
    const unsigned ids[] = {6};
    OWNED(lone_destroy) struct lone *lone = seeker(ids, 1);
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {.object = PROTO_OBJECT_FILES, .round = GROUP, .label = JOB, .block = 3}};
    const struct proto_give right = msg.give;
    for (int i = 0; i < 5; i++) {
        msg.give = right;
        msg.give.object = i == 0 ? PROTO_OBJECT_NAMES : i == 1 ? PROTO_OBJECT_PAGE : right.object;
        msg.give.round += i == 2;
        msg.give.label += i == 3;
        msg.give.block += i == 4 ? BLOCKS : 0;
        msg.give.check = transfer_check(&msg.give, 0, body, 9);
        lone_say_bulk(lone, 6, &msg, body, 9);
    }
    assert_int_equal(lone->files_came, 0);
    give(lone, 8, 3, 9); /* no session */
    assert_int_equal(lone->files_came, 0);
    assert_false(core_files_here(lone->core));
}

TEST(who_sends_a_wrong_block_is_named_and_left)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = seeker(ids, 2);
    unsigned liar = asked_of(lone, ids, 2, 3), other = 13 - liar;
    lone->file_wrong = true;
    give(lone, liar, 3, 9);
    lone->file_wrong = false;
    assert_non_null(strstr(lone->log, "sent a block of the data that is wrong"));
    size_t before = lone_asked_count(lone, liar, LONE_FILES);
    for (uint64_t b = 3; b < 3 + BLOCKS; b++) {
        lone_run(lone, 10);
        give(lone, other, b, 9);
    }
    assert_true(core_files_here(lone->core));
    assert_int_equal(lone_asked_count(lone, liar, LONE_FILES), before);
}

TEST(who_has_none_is_asked_again_when_nobody_is_left)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = seeker(ids, 2);
    give(lone, 6, 3, 0);
    assert_int_equal(asked_of(lone, ids, 2, 3), 7);
    give(lone, 7, 3, 0);
    size_t before = lone_asked_count(lone, 6, LONE_FILES) + lone_asked_count(lone, 7, LONE_FILES);
    lone_run(lone, FILES_REST_US / 1000 - 50);
    assert_int_equal(lone_asked_count(lone, 6, LONE_FILES) + lone_asked_count(lone, 7, LONE_FILES),
                     before);
    lone_run(lone, 100);
    assert_true(lone_asked_count(lone, 6, LONE_FILES) + lone_asked_count(lone, 7, LONE_FILES) >
                before);
}

/* One of two finishes, and the other one finishes, leaves, or dies. */
TEST(a_run_is_over_when_one_has_finished_and_nobody_is_left)
{
    const unsigned ids[] = {6, 7};
    for (int way = 0; way < 3; way++) {
        OWNED(lone_destroy) struct lone *lone = seeker(ids, 2);
        struct proto_msg bye = {.type = PROTO_BYE};
        lone_say(lone, 6,
                 way == 0 ? &(struct proto_msg){.type = PROTO_BYE, .bye.done = true} : &bye);
        assert_false(core_files_over(lone->core));
        bye.bye.done = way == 1;
        if (way < 2)
            lone_say(lone, 7, &bye);
        else
            lone_down(lone, 7);
        assert_int_equal(core_files_over(lone->core), way < 2);
        if (way > 0)
            continue;
        lone->incarnation[7]++; /* it is started again */
        lone_found(lone, 7);
        lone_up(lone, 7);
        lone_hello(lone, 7, true);
        assert_false(core_files_over(lone->core));
    }
}

/* --- A manifest: nobody knows how many blocks it has --- */

static const unsigned donors[] = {6, 7};

static struct lone *
reader(void)
{
    struct lone *lone = meet(donors, 2);
    core_want_files(lone->core, lone->now,
                    &(struct core_files){.job = JOB, .group = GROUP, .names = true, .count = 1});
    return lone;
}

/* Who was asked for it last, of blocks of the manifest? 0: nobody since lone_forget_sent. */
static unsigned
names_asked(const struct lone *lone, uint64_t block)
{
    unsigned who = 0;
    uint64_t first = lone->sent_count > LONE_SENT_MAX ? lone->sent_count - LONE_SENT_MAX : 0;
    for (uint64_t k = first; k < lone->sent_count; k++) {
        const struct lone_sent *sent = &lone->sent[k % LONE_SENT_MAX];
        const struct proto_fetch *fetch = &sent->msg.fetch;
        if (sent->msg.type == PROTO_FETCH && fetch->object == PROTO_OBJECT_NAMES &&
            block >= fetch->block && block < fetch->block + fetch->count)
            who = sent->to;
    }
    return who;
}

static void
name(struct lone *lone, unsigned from, uint64_t block, uint64_t blocks)
{
    give_of(lone, from, PROTO_OBJECT_NAMES, block, blocks, 9);
}

static void
run(struct lone *lone, unsigned ms)
{
    lone_run_with(lone, ms, donors, 2, 1, false);
}

TEST(a_manifest_is_taken_whole_from_one_node)
{
    OWNED(lone_destroy) struct lone *lone = reader();
    unsigned from = names_asked(lone, 0), other = 13 - from;
    name(lone, from, 0, 4);
    assert_int_equal(lone->files_came, 1);
    for (uint64_t b = 1; b < 4; b++) {
        assert_int_equal(names_asked(lone, b), from);
        name(lone, other, b, 4); /* not asked: who answers for the rest would be blamed for it */
        assert_int_equal(lone->files_came, b);
        name(lone, from, b, 4);
        assert_int_equal(lone->files_came, b + 1);
    }
    assert_true(core_files_here(lone->core));
}

/* The liar says 500 blocks and sends one each second, one, or all with a wrong end: soon all come from the other. */
TEST(a_liar_about_the_number_of_a_manifests_blocks_is_left)
{
    for (int way = 0; way < 4; way++) {
        OWNED(lone_destroy) struct lone *lone = reader();
        unsigned liar = names_asked(lone, 0), other = 13 - liar;
        uint64_t blocks = way == 3 ? CORE_FILES_RUN + 1 : 500, b = 0;
        lone_forget_sent(lone);
        name(lone, liar, b++, blocks);
        for (int s = 0; way == 0 && s < FILES_NAMES_US / 1000000 + 1; s++, run(lone, 1000))
            name(lone, liar, b++, blocks);
        if (way == 1)
            run(lone, FILES_NAMES_US / 1000 + 100);
        while (way == 2 && b < blocks) {
            lone->file_wrong = b + 1 == blocks;
            name(lone, liar, b++, blocks);
        }
        lone->file_wrong = false;
        lone_run(lone, 100);
        assert_int_equal(names_asked(lone, 0), other);
        assert_int_equal(way < 2, !strstr(lone->log, "sent a block of the data that is wrong"));
        name(lone, liar, 0, 1); /* too late */
        assert_false(core_files_here(lone->core));
        name(lone, other, 0, 1);
        assert_true(core_files_here(lone->core));
    }
}

TEST(a_slow_node_that_is_the_only_one_has_twice_the_time_at_each_try)
{
    OWNED(lone_destroy) struct lone *lone = reader();
    unsigned gone = names_asked(lone, 0), slow = 13 - gone, tries = 0;
    lone_say(lone, gone, &(struct proto_msg){.type = PROTO_BYE});
    for (uint64_t b = 0; !core_files_here(lone->core) && tries < 9; lone_run(lone, 1000)) {
        if (names_asked(lone, 0) == slow) {
            lone_forget_sent(lone);
            b = 0;
            tries++;
        }
        name(lone, slow, b++, 20);
    }
    assert_true(core_files_here(lone->core));
    assert_int_equal(tries, 3); /* 5, 10, 20 s */
}

TEST(a_manifest_is_begun_anew_when_its_donor_has_gone)
{
    OWNED(lone_destroy) struct lone *lone = reader();
    unsigned from = names_asked(lone, 0), other = 13 - from;
    name(lone, from, 0, 4);
    lone_say(lone, from, &(struct proto_msg){.type = PROTO_BYE});
    assert_int_equal(names_asked(lone, 0), other);
    name(lone, other, 0, 1);
    assert_true(core_files_here(lone->core));
}

/* --- Giving --- */

static void
meet_bare(struct lone *lone, unsigned id)
{
    struct proto_msg msg = {.type = PROTO_HELLO,
                            .hello = {.wants_job = true,
                                      .control_port = (uint16_t)(20000 + id),
                                      .bulk_port = (uint16_t)(30000 + id)}};
    lone_say(lone, id, &msg);
    lone_up(lone, id);
    msg.hello.answers = lone->asked[id];
    lone_say(lone, id, &msg);
}

/* Node 5 has the job; those of ids[] have none. */
static struct lone *
giver(const unsigned *ids, size_t count)
{
    struct lone *lone = LONE(.id = 5);
    for (size_t i = 0; i < count; i++)
        meet_bare(lone, ids[i]);
    return lone;
}

static void
ask(struct lone *lone, unsigned from, uint64_t job, uint64_t block, uint16_t count)
{
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.object = PROTO_OBJECT_FILES,
                                      .round = GROUP,
                                      .label = job,
                                      .block = block,
                                      .count = count}};
    lone_say(lone, from, &msg);
}

TEST(blocks_are_read_one_at_a_time_for_one_node_after_the_other)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = giver(ids, 2);
    ask(lone, 6, JOB, 10, 2);
    ask(lone, 6, JOB, 30, 1);
    ask(lone, 7, JOB, 20, 2);
    static const struct {
        unsigned to;
        uint64_t block;
    } order[] = {{6, 10}, {7, 20}, {6, 11}, {7, 21}, {6, 30}};
    for (unsigned k = 0; k < 5; k++) {
        assert_int_equal(lone->files_wanted, k + 1);
        assert_int_equal(lone->file.block, order[k].block);
        assert_int_equal(lone->file.group, GROUP);
        core_on_file(lone->core, lone->now, 99, body, 100 + k);
        const struct lone_sent *sent = lone_gave(lone, order[k].to, LONE_FILES);
        assert_int_equal(sent->msg.give.block, order[k].block);
        assert_int_equal(sent->msg.give.commit, 99);
        assert_int_equal(sent->body_size, 100 + k);
    }
    assert_int_equal(lone->files_wanted, 5);
}

TEST(who_asks_for_another_job_gets_nothing_and_who_goes_is_forgotten)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = giver(ids, 2);
    ask(lone, 6, JOB + 1, 10, 2);
    assert_int_equal(lone_gave(lone, 6, LONE_FILES)->body_size, 0);
    assert_int_equal(lone->files_wanted, 0);
    ask(lone, 6, JOB, 10, 2);
    assert_int_equal(lone->files_wanted, 1);
    lone_say(lone, 6, &(struct proto_msg){.type = PROTO_BYE});
    size_t before = lone_gave_count(lone, 6, LONE_FILES);
    core_on_file(lone->core, lone->now, 99, body, 100);
    assert_int_equal(lone_gave_count(lone, 6, LONE_FILES), before);
    assert_int_equal(lone->files_wanted, 1);
    ask(lone, 7, JOB, 4, 1);
    assert_int_equal(lone->files_wanted, 2);
    core_on_file(lone->core, lone->now, 0, NULL, 0); /* it is not here */
    assert_int_equal(lone_gave(lone, 7, LONE_FILES)->body_size, 0);
}

TEST(who_trains_with_others_rests_after_each_block)
{
    const unsigned members[] = {8};
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 2);
    lone_meet(lone, 8);
    for (unsigned t = 0; t < 2000 && lone_members(lone) != 2; t += 10)
        lone_run_with(lone, 10, members, 1, 0, true);
    assert_int_equal(lone_members(lone), 2);
    meet_bare(lone, 6);
    ask(lone, 6, JOB, 10, 2);
    assert_int_equal(lone->files_wanted, 1);
    core_on_file(lone->core, lone->now, 99, body, ROOM);
    assert_int_equal(lone->files_wanted, 1);
    uint64_t pause_us = UINT64_C(1000000) * FILES_SHARE * 2 * ROOM / FILES_LINE;
    lone_run_with(lone, (unsigned)(1 + pause_us / 1000), members, 1, 0, false);
    assert_int_equal(lone->files_wanted, 2);
    core_on_file(lone->core, lone->now, 99, body, ROOM);
    lone_run_with(lone, 50, members, 1, 0, false); /* the block is on its way */
    ask(lone, 6, JOB, 12, 1);
    lone_run_with(lone, FILES_SHARE * 2 * 50 - 100, members, 1, 0, false);
    assert_int_equal(lone->files_wanted, 2);
    lone_run_with(lone, 100, members, 1, 0, false);
    assert_int_equal(lone->files_wanted, 3);
}

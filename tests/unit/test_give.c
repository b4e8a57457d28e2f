/* What a node gives to those that are behind: a copy of its state, and the totals since. */
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { BLOCKS = 40, SIZE = 39 * TRANSFER_BLOCK + 12345 };

static void
ask(struct lone *lone, unsigned id, uint64_t round)
{
    struct proto_msg msg = {.type = PROTO_FETCH, .fetch = {.round = round, .holds = 1}};
    lone_say(lone, id, &msg);
}

static void
fetch(struct lone *lone, unsigned id, uint64_t round, uint64_t block, uint16_t count)
{
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.object = PROTO_OBJECT_STATE,
                                      .round = round,
                                      .label = lone->core->give.hash,
                                      .block = block,
                                      .count = count,
                                      .holds = 1}};
    lone_say(lone, id, &msg);
}

/* Totals of these segments: from `round` on if they are to begin again, else so many blocks more. */
static void
follow_for(struct lone *lone, unsigned id, uint64_t holds, uint64_t round, uint16_t count,
           bool again)
{
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.object = PROTO_OBJECT_TOTAL,
                                      .round = round,
                                      .count = count,
                                      .again = again,
                                      .holds = holds}};
    lone_say(lone, id, &msg);
}

static void
follow(struct lone *lone, unsigned id, uint64_t round, uint16_t count, bool again)
{
    follow_for(lone, id, 1, round, count, again);
}

/* Nodes 7 and 8, at round 0. */
static void
others_come(struct lone *lone)
{
    lone_run(lone, 20);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_beat(lone, 7, 0, true);
    lone_beat(lone, 8, 0, true);
    lone_run(lone, 200);
}

/* Node 5 at round 4 trains alone; nodes 7 and 8 have come, and are at round 0. */
static struct lone *
ahead(size_t state_size)
{
    struct lone *lone = LONE(.id = 5, .state_size = state_size, .unstarted = true);
    core_on_applied(lone->core, lone->now, &(struct core_state){.round = 4, .hash = 1004});
    others_come(lone);
    assert_true(lone->compute);
    return lone;
}

static void
step(struct lone *lone)
{
    uint64_t round = lone->core->round;
    for (int k = 0; k < 10 && lone->core->round == round; k++) {
        lone_train(lone);
        lone_run_with(lone, 50, (unsigned[]){7, 8}, 2, 0, true);
    }
    assert_int_equal(lone->core->round, round + 1);
}

TEST(the_copy_is_of_the_round_named_and_equal_for_all)
{
    OWNED(lone_destroy) struct lone *lone = ahead(64);
    ask(lone, 7, 5);
    ask(lone, 8, 6);
    lone_run(lone, 50);
    assert_null(lone_gave(lone, 7, LONE_LIST));
    step(lone);
    assert_int_equal(lone->core->round, 5);
    assert_int_equal(lone_gave(lone, 7, LONE_LIST)->msg.give.round, 5);
    assert_int_equal(lone_gave(lone, 8, LONE_LIST)->msg.give.round, 5);
    assert_int_equal(lone_gave(lone, 7, LONE_LIST)->msg.give.label, 78 + 4);
    lone->state[3] ^= 1; /* it goes on */
    step(lone);
    assert_int_equal(lone->state_in[3], 0);
    fetch(lone, 7, 5, 0, 1);
    assert_int_equal(lone_gave(lone, 7, LONE_STATE)->body_size, 64);
}

TEST(a_large_copy_is_made_in_parts_and_complete_before_the_state_changes)
{
    OWNED(lone_destroy) struct lone *lone = ahead(SIZE);
    memset(lone->state, 1, SIZE);
    ask(lone, 7, 4);
    assert_int_equal(lone->state_in[0], 1);
    assert_int_equal(lone->state_in[SIZE - 1], 0);
    assert_null(lone_gave(lone, 7, LONE_LIST));
    lone->compute = false;
    core_on_bucket(lone->core, lone->now, 0);
    core_on_bucket(lone->core, lone->now, 1);
    assert_true(lone->commit);
    assert_int_equal(lone->state_in[SIZE - 1], 1);
    memset(lone->state, 2, SIZE);
    lone_train(lone);
    assert_int_equal(lone_gave(lone, 7, LONE_LIST)->msg.give.round, 4);
    assert_int_equal(lone_gave(lone, 7, LONE_LIST)->body_size, BLOCKS * sizeof(uint64_t));
    fetch(lone, 7, 4, BLOCKS - 2, 1000);
    assert_int_equal(lone_gave_count(lone, 7, LONE_STATE), 2);
    assert_int_equal(lone_gave(lone, 7, LONE_STATE)->body_size, SIZE % TRANSFER_BLOCK);
    for (int k = 0; k < 1000; k++)
        fetch(lone, 7, 4, BLOCKS - 2, 1000); /* a storm */
    assert_int_equal(lone_gave_count(lone, 7, LONE_STATE), 2);
    fetch(lone, 7, 5, 0, 1); /* no such copy */
    fetch(lone, 7, 4, BLOCKS, 1);
    assert_int_equal(lone_gave_count(lone, 7, LONE_STATE), 3);
    assert_int_equal(lone_gave(lone, 7, LONE_STATE)->body_size, 0);
    fetch(lone, 7, 4, 0, 1000);
    assert_int_equal(lone_gave_count(lone, 7, LONE_STATE), 3 + TRANSFER_RUN);
}

TEST(a_round_that_is_never_reached_is_not_waited_for)
{
    OWNED(lone_destroy) struct lone *lone = ahead(64);
    ask(lone, 7, PROTO_ROUND_MAX);
    lone_run_with(lone, 250, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone_gave(lone, 7, LONE_LIST)->msg.give.round, 4);
}

TEST(totals_are_pushed_as_far_as_was_allowed)
{
    OWNED(lone_destroy) struct lone *lone = ahead(64);
    follow(lone, 7, 4, 2, true);
    assert_null(lone_gave(lone, 7, LONE_TOTAL));
    step(lone);
    assert_int_equal(lone_gave(lone, 7, LONE_TOTAL)->msg.give.round, 4);
    assert_int_equal(lone_gave(lone, 7, LONE_TOTAL)->body_size, sizeof lone->sum);
    step(lone);
    step(lone);
    assert_int_equal(lone_gave_count(lone, 7, LONE_TOTAL), 2);
    follow(lone, 7, 5, 1, false);
    assert_int_equal(lone_gave_count(lone, 7, LONE_TOTAL), 3);
    assert_int_equal(lone_gave(lone, 7, LONE_TOTAL)->msg.give.round, 6);
    follow(lone, 7, 5, 2, true); /* it lost some */
    assert_int_equal(lone_gave_count(lone, 7, LONE_TOTAL), 5);
    follow(lone, 8, 9, 2, true); /* is ahead */
    step(lone);
    assert_null(lone_gave(lone, 8, LONE_TOTAL));
}

TEST(who_is_too_slow_for_the_log_is_told)
{
    OWNED(lone_destroy) struct lone *lone = ahead(64);
    follow(lone, 7, 4, 1, true);
    for (int k = 0; k < 6; k++) /* the log has room for four */
        step(lone);
    assert_int_equal(lone_gave_count(lone, 7, LONE_TOTAL), 1);
    follow(lone, 7, 6, 1, true);
    assert_int_equal(lone_gave(lone, 7, LONE_TOTAL)->msg.give.round, 6);
    assert_int_equal(lone_gave(lone, 7, LONE_TOTAL)->body_size, sizeof lone->sum);
    follow(lone, 8, 5, 1, true);
    assert_int_equal(lone_gave(lone, 8, LONE_TOTAL)->msg.give.round, 5);
    assert_int_equal(lone_gave(lone, 8, LONE_TOTAL)->body_size, 0);
}

TEST(nothing_is_kept_when_nobody_asks_any_more)
{
    OWNED(lone_destroy) struct lone *lone = ahead(64);
    ask(lone, 7, 4);
    assert_true(lone->core->give.logs);
    lone_run_with(lone, 2500, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->core->give.state, GIVE_COPIED);
    assert_int_equal(lone->forgets, 0);
    lone_run_with(lone, 1000, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->forgets, 1);
    assert_int_equal(lone->core->give.state, GIVE_NONE);
    assert_false(lone->core->give.logs);
    fetch(lone, 7, 4, 0, 1);
    assert_int_equal(lone_gave(lone, 7, LONE_STATE)->body_size, 0);
    lone_run_with(lone, 4000, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->forgets, 1); /* there was nothing more */
    follow(lone, 7, lone->core->round, 1, true);
    lone_run_with(lone, 4000, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->forgets, 2);
}

/* A header, and two segments: node 5 holds the second one, 7 both, 8 the second one. */
static const struct core_span spans[] = {{0, 20, CORE_ALL_HOLD}, {20, 40, 0}, {60, 24, 1}};
enum { OUTPUT = 2, BOTH = 3, IN_SEGMENTS = 84 };

static struct lone *
ahead_with_a_segment(uint64_t holds)
{
    struct lone *lone = LONE(.id = 5, .state_size = IN_SEGMENTS, .spans = spans, .span_count = 3,
                             .block_size = 64, .holds = holds, .unstarted = true);
    lone->theirs[8] = OUTPUT;
    memset(lone->state, 1, IN_SEGMENTS);
    memset(lone->state_in, 0x55, IN_SEGMENTS);
    lone_applied(lone, 4, 1004, false);
    others_come(lone);
    return lone;
}

static void
ask_for(struct lone *lone, unsigned id, uint64_t holds, uint64_t block, uint16_t count)
{
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.object = count ? PROTO_OBJECT_STATE : PROTO_OBJECT_LIST,
                                      .round = 4,
                                      .label = count ? lone->core->give.hash : 0,
                                      .block = block,
                                      .count = count,
                                      .holds = holds}};
    lone_say(lone, id, &msg);
}

TEST(who_holds_a_part_gives_that_and_touches_nothing_else)
{
    OWNED(lone_destroy) struct lone *lone = ahead_with_a_segment(OUTPUT);
    ask_for(lone, 7, BOTH, 0, 0);
    ask_for(lone, 7, 1, 0, 0);
    ask_for(lone, 7, UINT64_MAX, 0, 0);
    lone_run(lone, 50);
    assert_int_equal(lone->core->give.state, GIVE_NONE);
    assert_false(lone->core->give.logs);
    ask_for(lone, 8, OUTPUT, 0, 0);
    lone_run(lone, 50);
    const struct lone_sent *offer = lone_gave(lone, 8, LONE_LIST);
    uint64_t parts[2];
    assert_int_equal(offer->body_size, (2 + 2) * sizeof(uint64_t));
    memcpy(parts, offer->body, sizeof parts);
    assert_int_equal(parts[0], 0);
    assert_int_equal(parts[1], lone_part_hash(4, 1));
    assert_int_equal(lone->state_in[19], 1);
    assert_int_equal(lone->state_in[60], 1);
    for (size_t k = 20; k < 60; k++)
        assert_int_equal(lone->state_in[k], 0x55);
    ask_for(lone, 8, OUTPUT, 0, 1000); /* the one between is not held */
    assert_int_equal(lone_gave_count(lone, 8, LONE_STATE), 2);
    ask_for(lone, 8, BOTH, 1, 1);
    ask_for(lone, 8, OUTPUT, 1, 1);
    assert_int_equal(lone_gave_count(lone, 8, LONE_STATE), 2);
}

/* In one memory both lists are made, one after the other. */
TEST(each_gets_the_list_of_what_it_asked_for)
{
    OWNED(lone_destroy) struct lone *lone = ahead_with_a_segment(BOTH);
    ask_for(lone, 7, BOTH, 0, 0);
    ask_for(lone, 8, OUTPUT, 0, 0);
    lone_run(lone, 50);
    const struct lone_sent *all = lone_gave(lone, 7, LONE_LIST),
                           *some = lone_gave(lone, 8, LONE_LIST);
    uint64_t words[2][5];
    assert_int_equal(all->body_size, sizeof words[0]);
    assert_int_equal(some->body_size, sizeof words[1] - sizeof words[1][0]);
    memcpy(words[0], all->body, all->body_size);
    memcpy(words[1], some->body, some->body_size);
    assert_int_equal(words[0][0], lone_part_hash(4, 0));
    assert_int_equal(words[1][0], 0);
    assert_int_equal(words[0][1], words[1][1]);
    assert_int_equal(words[0][2], words[1][2]); /* the header */
    assert_int_equal(words[0][4], words[1][3]); /* the second segment */
    assert_true(all->msg.give.check != some->msg.give.check);
}

/* Node 5 alone: the sum is its own, word by word. */
static void
count_own(struct lone *lone)
{
    for (int32_t e = 0; e < LONE_VECTOR; e++)
        lone->own[e] = e;
}

/* The words of the blocks of a total that `id` got. */
static size_t
words_sent(const struct lone *lone, unsigned id, int32_t words[LONE_VECTOR])
{
    size_t count = 0;
    for (uint64_t k = 0; k < lone->sent_count; k++) {
        const struct lone_sent *sent = &lone->sent[k % LONE_SENT_MAX];
        if (sent->to != id || sent->msg.type != PROTO_GIVE)
            continue;
        assert_int_equal(sent->msg.give.round, 4);
        memcpy(words + count, sent->body, sent->body_size);
        count += sent->body_size / sizeof *words;
    }
    return count;
}

/* 40 words of the second segment from 60 on, 50 of the first one from 10 on, 10 of all. */
TEST(a_follower_gets_the_totals_of_what_it_holds)
{
    OWNED(lone_destroy) struct lone *lone = ahead_with_a_segment(BOTH);
    int32_t words[LONE_VECTOR];
    follow_for(lone, 7, BOTH, 4, 100, true);
    follow_for(lone, 8, OUTPUT, 4, 100, true);
    count_own(lone);
    step(lone);
    assert_int_equal(words_sent(lone, 7, words), LONE_VECTOR);
    for (int32_t k = 0; k < LONE_VECTOR; k++)
        assert_int_equal(words[k], k < 40 ? 60 + k : k < 90 ? k - 30 : k - 90);
    assert_int_equal(words_sent(lone, 8, words), 50);
    for (int32_t k = 0; k < 50; k++)
        assert_int_equal(words[k], k < 40 ? 60 + k : k - 40);
}

TEST(the_log_of_who_holds_a_part_has_only_that)
{
    OWNED(lone_destroy) struct lone *lone = ahead_with_a_segment(OUTPUT);
    int32_t words[LONE_VECTOR];
    follow_for(lone, 7, BOTH, 4, 100, true);
    follow_for(lone, 7, 1, 4, 100, true);
    assert_false(lone->core->give.logs);
    follow_for(lone, 8, OUTPUT, 4, 100, true);
    lone_forget_sent(lone);
    for (int32_t e = 0; e < LONE_VECTOR; e++)
        lone->sum[e] = e;
    give_committed(&lone->core->give, lone->core);
    lone->core->round++;
    lone_run(lone, 20);
    assert_int_equal(words_sent(lone, 8, words), 50);
    for (int32_t k = 0; k < 50; k++)
        assert_int_equal(words[k], k < 40 ? 60 + k : k - 40);
    assert_null(lone_gave(lone, 7, LONE_TOTAL));
}

/* test_fetch_segments.c - a node that holds a part of the model: what it takes from whom when it catches up, and how it
 * gets the rest at the end. Two segments; a state has a header and two vectors of both. */

#include <xxhash.h>

#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { BLOCK = 16, SIZE = 20 + 2 * (40 + 24), ROUND = 9, INPUT = 1, OUTPUT = 2, BOTH = 3 };

static const struct core_span spans[] = {
    {0, 20, CORE_ALL_HOLD}, {20, 40, 0}, {60, 24, 1}, {84, 40, 0}, {124, 24, 1}};

/* Blocks: 0 and 1 of all, 2 to 4 of the input, 5 and 6 of the output, 7 to 9 of the input, 10 and 11 of the output. */
enum { BLOCKS = 12 };

static uint8_t state_of_round[SIZE];

static void
fill_state(void)
{
    for (size_t k = 0; k < SIZE; k++)
        state_of_round[k] = (uint8_t)(k * 7 + 3);
}

/* What somebody who holds these segments says of them: `words` more or fewer. */
static void
offer_words(struct lone *lone, unsigned from, uint64_t segments, uint64_t checked, int words)
{
    uint64_t list[2 + BLOCKS + 1] = {0}, *next = list;
    for (unsigned s = 0; s < 2; s++)
        *next++ = segments >> s & 1 ? lone_part_hash(ROUND, s) : 0;
    for (uint64_t b = 0; b < BLOCKS; b++) {
        struct transfer_block block = transfer_state_block(&lone->core->transfer, b);
        if (transfer_has(segments, block.segment))
            *next++ = XXH3_64bits(state_of_round + block.offset, block.size);
    }
    size_t size = (size_t)(next - list + words) * sizeof *list;
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {.object = PROTO_OBJECT_LIST, .round = ROUND, .label = 77 + ROUND}};
    msg.give.check = transfer_check(&msg.give, checked, list, size);
    lone_say_bulk(lone, from, &msg, list, size);
}

static void
offer(struct lone *lone, unsigned from, uint64_t segments)
{
    offer_words(lone, from, segments, segments, 0);
}

static void
give(struct lone *lone, unsigned from, uint64_t number)
{
    struct transfer_block block = transfer_state_block(&lone->core->transfer, number);
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {
            .object = PROTO_OBJECT_STATE, .round = ROUND, .label = 77 + ROUND, .block = number}};
    lone_say_bulk(lone, from, &msg, state_of_round + block.offset, block.size);
}

/* All blocks that `id` was asked for. Returns a bitmap of them. */
static uint64_t
give_asked(struct lone *lone, unsigned id)
{
    uint64_t given = 0;
    for (uint64_t k = 0; k < lone->sent_count; k++) {
        const struct lone_sent sent = lone->sent[k % LONE_SENT_MAX];
        const struct proto_fetch *fetch = &sent.msg.fetch;
        if (sent.msg.type != PROTO_FETCH || fetch->object != PROTO_OBJECT_STATE || sent.to != id)
            continue;
        for (uint64_t b = fetch->block; b < fetch->block + fetch->count; b++) {
            given |= UINT64_C(1) << b;
            give(lone, id, b);
        }
    }
    return given;
}

/* Nobody has the total. */
static void
give_none(struct lone *lone, unsigned from, uint64_t segments)
{
    struct proto_msg msg = {.type = PROTO_GIVE, .give = {.object = PROTO_OBJECT_TOTAL}};
    msg.give.check = transfer_check(&msg.give, segments, NULL, 0);
    lone_say_bulk(lone, from, &msg, NULL, 0);
}

static struct lone *
node_holds(uint64_t segments)
{
    fill_state();
    struct lone *lone = LONE(.id = 5, .peers_min = 2, .state_size = SIZE, .spans = spans,
                             .span_count = 5, .block_size = BLOCK, .holds = segments);
    memset(lone->state_in, 0x55, SIZE);
    return lone;
}

/* The peers are at this round, and hold this. */
static void
meet(struct lone *lone, unsigned id, uint64_t holds)
{
    lone->theirs[id] = holds;
    lone_meet(lone, id);
}

/* Node 5 holds the output's segment. Node 7 holds both, node 8 the input's alone; they are ahead, and have no
 * totals. */
static struct lone *
behind(void)
{
    struct lone *lone = node_holds(OUTPUT);
    meet(lone, 7, BOTH);
    meet(lone, 8, INPUT);
    lone_beat(lone, 7, ROUND, true);
    lone_beat(lone, 8, ROUND, true);
    assert_int_equal(lone_asked(lone, 7, LONE_TOTAL)->msg.fetch.holds, OUTPUT);
    give_none(lone, 7, OUTPUT);
    return lone;
}

static bool
is_untouched(const struct lone *lone, int segment)
{
    for (size_t k = 0; k < 5; k++)
        for (size_t at = 0; spans[k].segment == segment && at < spans[k].size; at++)
            if (lone->state_in[spans[k].offset + at] != 0x55)
                return false;
    return true;
}

static bool
is_here(const struct lone *lone, int segment)
{
    for (size_t k = 0; k < 5; k++)
        if (spans[k].segment == segment &&
            memcmp(lone->state_in + spans[k].offset, state_of_round + spans[k].offset,
                   spans[k].size) != 0)
            return false;
    return true;
}

TEST(a_node_takes_what_it_holds_of_who_holds_that)
{
    OWNED(lone_destroy) struct lone *lone = behind();
    assert_null(lone_asked(lone, 8, LONE_COPY));
    assert_null(lone_asked(lone, 8, LONE_TOTAL));
    assert_int_equal(lone_asked(lone, 7, LONE_COPY)->msg.fetch.holds, OUTPUT);
    offer(lone, 7, OUTPUT);
    lone_run(lone, 30);
    uint64_t given = 0;
    for (int k = 0; k < 4 && !lone->adopt; k++)
        given |= give_asked(lone, 7);
    assert_true(lone->adopt);
    assert_int_equal(given, 3 << 0 | 3 << 5 | 3 << 10);
    assert_int_equal(lone->parts[0], 0);
    assert_int_equal(lone->parts[1], lone_part_hash(ROUND, 1));
    assert_true(is_here(lone, CORE_ALL_HOLD) && is_here(lone, 1));
    assert_true(is_untouched(lone, 0));
}

TEST(nobody_is_asked_who_holds_less)
{
    OWNED(lone_destroy) struct lone *lone = node_holds(BOTH);
    meet(lone, 7, OUTPUT);
    meet(lone, 8, INPUT);
    lone_run_with(lone, 1000, (unsigned[]){7, 8}, 2, ROUND, true);
    for (unsigned id = 7; id <= 8; id++) {
        assert_null(lone_asked(lone, id, LONE_COPY));
        assert_null(lone_asked(lone, id, LONE_TOTAL));
    }
}

TEST(offers_and_blocks_of_other_segments_are_ignored)
{
    OWNED(lone_destroy) struct lone *lone = behind();
    offer(lone, 7, INPUT);
    offer(lone, 7, BOTH);
    offer_words(lone, 7, OUTPUT, BOTH, 0); /* as long as it should be, of others */
    offer_words(lone, 7, OUTPUT, OUTPUT, -1);
    offer_words(lone, 7, OUTPUT, OUTPUT, 1);
    offer(lone, 8, OUTPUT); /* does not even hold it */
    lone_run(lone, 30);
    assert_int_equal(lone->core->fetch.state, FETCH_ASKING);
    offer(lone, 7, OUTPUT);
    lone_run(lone, 30);
    for (uint64_t b = 2; b < 5; b++)
        give(lone, 7, b);
    for (uint64_t b = 7; b < 10; b++)
        give(lone, 7, b);
    struct proto_msg none = {
        .type = PROTO_GIVE,
        .give = {
            .object = PROTO_OBJECT_STATE, .round = ROUND, .label = 77 + ROUND, .block = BLOCKS}};
    lone_say_bulk(lone, 7, &none, state_of_round, BLOCK);
    assert_false(lone->adopt);
    assert_true(is_untouched(lone, 0));
    assert_int_equal(lone->core->fetch.take.here, 0);
    for (int k = 0; k < 4 && !lone->adopt; k++)
        give_asked(lone, 7);
    assert_true(lone->adopt);
    assert_true(is_untouched(lone, 0));
}

/* A block of a total, as one gets it who holds these segments: each word says where it is in a total of all. */
static void
give_total(struct lone *lone, uint64_t segments, uint64_t checked, uint64_t number)
{
    static int32_t words[8][BLOCK / sizeof(int32_t)]; /* some are kept */
    static unsigned turn;
    int32_t *body = words[turn++ % 8];
    struct transfer_block block = transfer_total_block(&lone->core->transfer, 0, segments, number);
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .block = number, .label = 77}};
    for (size_t k = 0; k < block.size / sizeof *body; k++)
        body[k] = (int32_t)(block.offset / sizeof *body + k);
    msg.give.check = transfer_check(&msg.give, checked, body, block.size);
    lone_say_bulk(lone, 7, &msg, body, block.size);
}

/* 40 words of segment 1 from 60 on come first, then 50 of segment 0, which are passed over, then 10 of all. */
TEST(a_follower_gets_the_buckets_of_what_it_holds)
{
    OWNED(lone_destroy) struct lone *lone = node_holds(OUTPUT);
    for (size_t e = 0; e < LONE_VECTOR; e++)
        lone->sum[e] = -1;
    meet(lone, 7, BOTH);
    lone_beat(lone, 7, 1, false);
    give_total(lone, BOTH, BOTH, 0); /* for somebody else */
    assert_int_equal(lone->core->fetch.block, 0);
    for (uint64_t b = 0; b < 13; b++) {
        assert_false(lone->commit);
        give_total(lone, BOTH, BOTH, b);
        give_total(lone, OUTPUT, OUTPUT, b);
    }
    assert_true(lone->commit);
    for (int32_t e = 0; e < LONE_VECTOR; e++)
        assert_int_equal(lone->sum[e], e >= 60 ? e - 60 : e >= 10 ? -1 : 90 + e);
}

/* --- The end ------------------------------------------------------------------------------------- */

static void
beat_done(struct lone *lone, unsigned id, bool needs, uint64_t busy_us)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.round = ROUND,
                                          .idle = true,
                                          .done = true,
                                          .needs = needs,
                                          .busy_us = busy_us,
                                          .holds = lone->theirs[id],
                                          .state_hash = 77 + ROUND}};
    struct proto_hears hears = {.count = 1, .nodes = {{.node = lone_node(lone, lone->id)}}};
    lone_say_beat(lone, id, &msg, &hears);
}

static void
run_done(struct lone *lone, unsigned ms, bool needs)
{
    for (unsigned t = 0; t < ms; t += 50) {
        for (unsigned id = 7; id <= 8; id++)
            beat_done(lone, id, needs && id == 8, t * 1000);
        lone_run(lone, 50);
    }
}

/* Node 5 holds the output's segment, 7 both, 8 the output's. All are done. */
static struct lone *
done(void)
{
    fill_state();
    struct lone *lone =
        LONE(.id = 5, .peers_min = 2, .state_size = SIZE, .spans = spans, .span_count = 5,
             .block_size = BLOCK, .holds = OUTPUT, .unstarted = true);
    memcpy(lone->state, state_of_round, SIZE);
    memset(lone->state_in, 0x55, SIZE);
    meet(lone, 7, BOTH);
    meet(lone, 8, OUTPUT);
    lone_applied(lone, ROUND, 77 + ROUND, true);
    run_done(lone, 100, false);
    return lone;
}

TEST(who_is_done_gets_the_other_segments)
{
    OWNED(lone_destroy) struct lone *lone = done();
    assert_false(core_finished(lone->core));
    assert_true(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.needs);
    core_part(lone->core, lone->now, INPUT);
    assert_null(lone_asked(lone, 8, LONE_COPY));
    assert_int_equal(lone_asked(lone, 7, LONE_COPY)->msg.fetch.holds, INPUT);
    assert_int_equal(lone_asked(lone, 7, LONE_COPY)->msg.fetch.round, ROUND);
    offer(lone, 7, INPUT);
    run_done(lone, 50, false);
    uint64_t given = 0;
    for (int k = 0; k < 4 && !lone->part; k++)
        given |= give_asked(lone, 7);
    assert_true(lone->part);
    assert_int_equal(given, 7 << 2 | 7 << 7); /* the header is here */
    assert_int_equal(lone->segments, INPUT);
    assert_int_equal(lone->round, ROUND);
    assert_int_equal(lone->parts[0], lone_part_hash(ROUND, 0));
    assert_true(is_here(lone, 0) && is_untouched(lone, 1) && is_untouched(lone, CORE_ALL_HOLD));
    run_done(lone, 1000, false);
    assert_false(core_finished(lone->core));
    core_part(lone->core, lone->now, 0);
    assert_false(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.needs);
    assert_true(core_finished(lone->core));
}

/* What it gives to others, and what it gets, lie in the same memory. */
TEST(it_gives_its_own_segment_meanwhile)
{
    OWNED(lone_destroy) struct lone *lone = done();
    lone->theirs[8] = INPUT;
    run_done(lone, 50, true);
    core_part(lone->core, lone->now, INPUT);
    struct proto_msg ask = {.type = PROTO_FETCH, .fetch = {.round = ROUND, .holds = OUTPUT}};
    offer(lone, 7, INPUT);
    lone_say(lone, 8, &ask);
    run_done(lone, 50, true);
    assert_int_equal(lone_gave(lone, 8, LONE_LIST)->body_size, (2 + 6) * sizeof(uint64_t));
    for (int k = 0; k < 4 && !lone->part; k++)
        give_asked(lone, 7);
    assert_true(lone->part);
    ask.fetch.object = PROTO_OBJECT_STATE;
    ask.fetch.label = lone->core->state_hash;
    ask.fetch.block = 5;
    ask.fetch.count = 2;
    lone_say(lone, 8, &ask);
    assert_int_equal(lone_gave_count(lone, 8, LONE_STATE), 2);
    assert_true(is_here(lone, CORE_ALL_HOLD) && is_here(lone, 0) && is_here(lone, 1));
}

TEST(a_segment_that_nobody_has_is_not_waited_for_for_ever)
{
    for (int mute = 0; mute < 2; mute++) { /* its holder is gone, or does not answer */
        OWNED(lone_destroy) struct lone *lone = done();
        core_part(lone->core, lone->now, INPUT);
        if (!mute)
            lone_down(lone, 7);
        for (unsigned t = 0; t < HOLDING_STAY_US / 1000 - 100; t += 50) {
            beat_done(lone, 8, false, 0);
            if (mute)
                beat_done(lone, 7, false, 0);
            lone_run(lone, 50);
        }
        assert_false(lone->part);
        run_done(lone, 200, false);
        assert_true(lone->part);
        assert_int_equal(lone->segments, 0);
        core_part(lone->core, lone->now, 0);
        assert_true(core_finished(lone->core));
    }
}

/* Whoever has it lies, or is damaged: after three times nobody has it. */
TEST(a_segment_that_is_wrong_again_and_again_is_given_up)
{
    OWNED(lone_destroy) struct lone *lone = done();
    core_part(lone->core, lone->now, INPUT);
    for (int k = 0; k < FETCH_BAD_MAX; k++) {
        run_done(lone, 600, false);
        offer(lone, 7, INPUT);
        for (int turn = 0; turn < 6 && !lone->part; turn++) {
            run_done(lone, 50, false);
            give_asked(lone, 7);
        }
        assert_true(lone->part);
        assert_int_equal(lone->segments, INPUT);
        lone->part = false;
        lone_forget_sent(lone);
        core_on_damaged(lone->core, lone->now, CORE_COPY_DAMAGED);
    }
    run_done(lone, 50, false);
    assert_true(lone->part);
    assert_int_equal(lone->segments, 0);
}

TEST(a_part_of_a_state_that_was_given_up_meanwhile_is_ignored)
{
    OWNED(lone_destroy) struct lone *lone = done();
    core_part(lone->core, lone->now, INPUT);
    offer(lone, 7, INPUT);
    core_on_damaged(lone->core, lone->now, CORE_STATE_DAMAGED);
    core_part(lone->core, lone->now, INPUT);
    core_on_damaged(lone->core, lone->now, CORE_COPY_DAMAGED);
    run_done(lone, 100, false);
    assert_false(lone->part);
    lone_applied(lone, ROUND - 1, 77 + ROUND - 1, false);
    run_done(lone, 100, false);
    assert_false(core_finished(lone->core));
    assert_int_equal(lone->core->fetch.part, 0);
}

/* Node 8 gets its segments from node 7, of which this node sees only that its trainer makes progress. */
TEST(who_still_needs_segments_is_waited_for_while_they_come)
{
    OWNED(lone_destroy) struct lone *lone = done();
    core_part(lone->core, lone->now, 0);
    assert_true(core_finished(lone->core));
    lone_destroy(&lone);
    lone = done();
    run_done(lone, 50, true);
    core_part(lone->core, lone->now, 0);
    for (int k = 0; k < 4; k++) {
        run_done(lone, 3000, true); /* each time it begins anew */
        assert_false(core_finished(lone->core));
    }
    run_done(lone, 6000, true);
    assert_true(core_finished(lone->core));
}

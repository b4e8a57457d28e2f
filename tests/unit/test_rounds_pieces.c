/* What of a round counts when its plan ends: all of it for the next plan, of pieces one with the same cuts; nothing if
 * the total was damaged, as nobody knows who computed what was wrong, nor when plans of the round are dropped again and
 * again. */
#include "compress/check.h"
#include "mesh/core/internal.h"
#include "mesh/core/rounds/contribution.h"
#include "proto/mix.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum {
    SHARDS = 2,
    ALL = (1 << SHARDS) - 1,
    STAGES = 2,
    PIECES = 3 * STAGES * SHARDS + 1, /* forward, both gradients; the last bucket */
};

static const struct core_bucket buckets[] = {{10, 90}, {0, 10}};

/* Node 3 leads, and node 5 computes everything. */
static void
say_plan(struct lone *lone, uint64_t counter)
{
    struct proto_msg msg = {.type = PROTO_PLAN};
    msg.plan = (struct proto_plan){.counter = counter,
                                   .leader = lone_node(lone, 3),
                                   .complete = ALL,
                                   .cut_count = 1,
                                   .cuts = {{1}},
                                   .count = 2};
    msg.plan.members[0] = (struct proto_member){lone_node(lone, 3), .holds = 3};
    msg.plan.members[1] =
        (struct proto_member){lone_node(lone, 5), .shards = ALL, .holds = 3, .computes = 3};
    lone_say(lone, 3, &msg);
}

/* The trainer does all that it is asked for. Returns how many pieces; `fresh`: how many of them begin a stage again. */
static unsigned
compute_all(struct lone *lone, unsigned *fresh)
{
    unsigned pieces = 0;
    for (*fresh = 0; lone->piece; pieces++) {
        *fresh += lone->asked_piece.fresh;
        lone->piece = false;
        core_on_piece(lone->core, lone->now);
    }
    return pieces;
}

/* Node 3 adds nothing: zeros. */
static void
give_zeros(struct lone *lone)
{
    for (uint16_t b = 0; b < 2; b++) {
        int32_t zeros[LONE_VECTOR] = {0};
        struct core_stats stats;
        core_stats(lone->core, &stats);
        struct proto_msg msg = {.type = PROTO_REDUCE,
                                .chunk = {.plan_hash = stats.plan,
                                          .bucket = b,
                                          .direct = true,
                                          .first = buckets[b].first,
                                          .count = (uint32_t)buckets[b].count,
                                          .check = check_of(zeros, 0, buckets[b].count),
                                          .state_hash = b == 0 ? mix64_pair(77, 0) : 77}};
        lone_say_bulk(lone, 3, &msg, zeros, buckets[b].count * sizeof *zeros);
    }
}

static struct lone *
computed(void)
{
    unsigned fresh;
    struct lone *lone = LONE(.id = 5, .shards = SHARDS, .peers_min = 2, .stages = true);
    lone_meet(lone, 3);
    lone_beat(lone, 3, 0, true);
    say_plan(lone, 1);
    assert_int_equal(compute_all(lone, &fresh), PIECES);
    assert_int_equal(fresh, STAGES);
    lone_return(lone);
    return lone;
}

TEST(what_a_dropped_plan_computed_is_not_computed_again)
{
    unsigned fresh;
    OWNED(lone_destroy) struct lone *lone = computed();
    struct core_stats stats;
    core_stats(lone->core, &stats);
    lone_say(lone, 3, &(struct proto_msg){.type = PROTO_ABORT, .abort = {.plan_hash = stats.plan}});
    say_plan(lone, 2);
    assert_int_equal(compute_all(lone, &fresh), 1); /* the last bucket says who speaks of what */
    give_zeros(lone);
    assert_true(lone->commit);
}

TEST(after_a_damaged_total_all_pieces_are_computed_again)
{
    unsigned fresh;
    OWNED(lone_destroy) struct lone *lone = computed();
    give_zeros(lone);
    assert_true(lone->commit);
    lone->commit = false;
    core_on_damaged(lone->core, lone->now, CORE_TOTAL_DAMAGED);
    assert_non_null(lone_sent(lone, 3, PROTO_ABORT));
    lone_return(lone);
    say_plan(lone, 2);
    assert_int_equal(compute_all(lone, &fresh), PIECES);
    assert_int_equal(fresh, STAGES);
    lone_return(lone);
    give_zeros(lone);
    assert_true(lone->commit);
}

/* Node 5 computes everything, in one piece. */
static void
say_whole_plan(struct lone *lone, uint64_t counter)
{
    struct proto_msg msg = {.type = PROTO_PLAN};
    msg.plan = (struct proto_plan){
        .counter = counter, .leader = lone_node(lone, 3), .complete = ALL, .count = 2};
    msg.plan.members[0] = (struct proto_member){lone_node(lone, 3), .holds = 1, .computes = 1};
    msg.plan.members[1] =
        (struct proto_member){lone_node(lone, 5), .shards = ALL, .holds = 1, .computes = 1};
    lone_say(lone, 3, &msg);
}

/* Node 3 finds each time that the total is wrong, and drops the plan before this node has the total. */
TEST(what_plans_that_are_dropped_again_and_again_have_is_computed_again)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .shards = SHARDS, .peers_min = 2);
    lone_meet(lone, 3);
    lone_beat(lone, 3, 0, true);
    for (unsigned k = 0; k <= CONTRIBUTION_DROPS; k++) {
        struct core_stats stats;
        say_whole_plan(lone, 1 + k);
        assert_int_equal(lone->compute, k % CONTRIBUTION_DROPS == 0);
        assert_true(!lone->compute || (lone->fresh && lone->shards == ALL));
        lone_train(lone);
        lone_return(lone);
        core_stats(lone->core, &stats);
        assert_int_equal(stats.members, 2);
        lone_say(lone, 3,
                 &(struct proto_msg){.type = PROTO_ABORT, .abort = {.plan_hash = stats.plan}});
    }
}

/* --- pieces.c alone ----------------------------------------------------------------------------------
 *
 * Three stages, of which this node has the first and the last, another one of its kind the other shards, and a third
 * one the middle; or two stages, wherever they are cut. Each bucket has a word. */

enum { FEW = 3, BUCKETS = 4, COMPUTED = 7 };

static struct core core;
static struct pieces *const pieces = &core.pieces;
static int32_t own[BUCKETS];

static int32_t *
on_words(void *ctx, struct handover_item item, bool made, uint64_t *count)
{
    static int32_t words[1];
    (void)ctx, (void)item, (void)made;
    *count = 1;
    return words;
}

static void
on_send(void *ctx, unsigned rank, const struct handover_chunk *chunk, const void *body)
{
    (void)ctx, (void)chunk, (void)body;
    assert_true(rank != pieces->rank);
}

static void
on_ask(void *ctx, unsigned rank, struct handover_item first, uint64_t shards)
{
    (void)ctx, (void)rank, (void)first, (void)shards;
}

FIXTURE(open_pieces)
{
    static struct core_bucket table[] = {{3, 1}, {2, 1}, {1, 1}, {0, 1}};
    static const struct core_cut legal[] = {{.bucket = 1, .words = 1}, {.bucket = 2, .words = 1}};
    static const struct handover_ops ops = {on_words, on_send, on_ask};
    static const struct core_wire none = {.keep = NULL};
    memset(&core, 0, sizeof core);
    core.config = (struct core_config){
        .shards = FEW,
        .wire = &none,
        .bucket_count = BUCKETS,
        .buckets = table,
        .own = own,
        .chunk_elems = 8,
        .stages = {
            .count = 3, .schedule = SCHEDULE_1F1B, .cuts = legal, .cut_count = 2, .item_words = 1}};
    core.buckets = table;
    core.rows = core.round = FEW;
    core.state_hash = 77;
    core.holds = 7;
    core.trainer.state = TRAINER_FREE;
    for (size_t b = 0; b < BUCKETS; b++)
        own[b] = COMPUTED;
    return pieces_init(pieces, &core, &ops, NULL);
}

FIXTURE(close_pieces)
{
    pieces_fini(pieces);
    return 0;
}

static struct proto_member
seat(uint64_t id, uint64_t shards, uint64_t computes)
{
    return (struct proto_member){
        .node = {id, 1}, .shards = shards, .holds = 7, .computes = computes};
}

static void
begin_plan(const struct proto_plan *plan)
{
    core.plan.active = true;
    core.plan.now = *plan;
    core.plan.hash++;
    core.plan.rank = 0;
    for (size_t r = 0; r < PROTO_PEERS_MAX; r++)
        core.plan.peer[r] = -1;
    pieces_begin(pieces, &core);
}

/* This node has these shards of the ends. */
static void
plan_of_ends(uint64_t shards)
{
    const uint64_t all = (1 << FEW) - 1;
    begin_plan(&(struct proto_plan){
        .complete = all,
        .cut_count = 2,
        .cuts = {{1}, {2}},
        .count = 3,
        .members = {seat(1, shards, 5), seat(2, all & ~shards, 5), seat(3, all, 2)}});
}

/* The next piece is this one, and is computed. `fresh`: its stage begins with it. */
static void
computes(enum schedule_kind kind, unsigned stage, unsigned shard, bool fresh)
{
    assert_true(pieces_next(pieces, &core, true));
    if (pieces->now.kind != kind || pieces->now.stage != stage || pieces->now.shard != shard ||
        pieces->now.fresh != fresh)
        fail_msg("kind %u, stage %u, shard %u%s, expected %u, %u, %u%s", pieces->now.kind,
                 pieces->now.stage, pieces->now.shard, pieces->now.fresh ? ", fresh" : "", kind,
                 stage, shard, fresh ? ", fresh" : "");
    assert_int_equal(pieces_done(pieces, &core), kind == SCHEDULE_TAIL);
}

static void
input_comes(unsigned stage, unsigned shard)
{
    assert_true(schedule_on_input(&pieces->schedule, stage, shard));
}

static void
gradient_comes(unsigned stage, unsigned shard)
{
    assert_true(schedule_on_gradient(&pieces->schedule, stage, shard));
}

/* Two plans are dropped. In the first one shard 2 was in the last stage's sum and not in the first one's, so the last
 * stage began again. Then shard 0 was done in both, and what the last stage had of it is used up; shard 1 is in the
 * first one's sum of before, and in the last one's not yet. When it goes to another node, the first stage begins
 * again, and needs shard 0 of the last one. */
TEST_WITH(with_tied_ends_the_last_stage_begins_again_with_the_first, open_pieces, close_pieces)
{
    core.config.stages.tied = true;
    plan_of_ends(7);
    for (unsigned shard = 0; shard < FEW; shard++)
        computes(SCHEDULE_FORWARD, 0, shard, false);
    input_comes(2, 1);
    computes(SCHEDULE_FORWARD, 2, 1, false);
    computes(SCHEDULE_BACKWARD, 2, 1, true);
    gradient_comes(0, 1);
    computes(SCHEDULE_BACKWARD, 0, 1, true);
    input_comes(2, 2);
    computes(SCHEDULE_FORWARD, 2, 2, false);
    computes(SCHEDULE_BACKWARD, 2, 2, false);
    plan_of_ends(3);
    input_comes(2, 0);
    gradient_comes(0, 0);
    computes(SCHEDULE_FORWARD, 2, 0, false);
    computes(SCHEDULE_BACKWARD, 2, 0, true);
    computes(SCHEDULE_BACKWARD, 0, 0, false);
    plan_of_ends(1);
    computes(SCHEDULE_FORWARD, 2, 0, false);
    computes(SCHEDULE_BACKWARD, 2, 0, true);
    computes(SCHEDULE_FORWARD, 0, 0, false);
    computes(SCHEDULE_BACKWARD, 0, 0, true);
    computes(SCHEDULE_TAIL, 0, 0, false);
    assert_false(pieces_next(pieces, &core, true));
}

/* All shards of the ends, one after the other. */
static void
compute_ends(uint64_t shards, bool fresh)
{
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        bool first = fresh && left == shards;
        computes(SCHEDULE_FORWARD, 0, shard, false);
        input_comes(2, shard);
        computes(SCHEDULE_FORWARD, 2, shard, false);
        computes(SCHEDULE_BACKWARD, 2, shard, first);
        gradient_comes(0, shard);
        computes(SCHEDULE_BACKWARD, 0, shard, first);
    }
    computes(SCHEDULE_TAIL, 0, 0, false);
    assert_int_equal(pieces_ready(pieces, &core), BUCKETS);
}

/* What it says has been written when no more was to be computed. */
TEST_WITH(the_last_bucket_is_written_again_when_shards_come, open_pieces, close_pieces)
{
    core.config.stages.schedule = SCHEDULE_1F1B;
    plan_of_ends(1);
    compute_ends(1, true);
    plan_of_ends(5);
    assert_true(pieces_ready(pieces, &core) < BUCKETS);
    compute_ends(4, false);
    plan_of_ends(5); /* another member may be the first that computes a stage */
    assert_int_equal(pieces_ready(pieces, &core), BUCKETS - 1);
    computes(SCHEDULE_TAIL, 0, 0, false);
}

/* The model is cut at this bucket into two stages, and this node has one of them. */
static void
plan_cut_at(uint16_t bucket, unsigned stage)
{
    begin_plan(&(struct proto_plan){
        .complete = 1,
        .cut_count = 1,
        .cuts = {{bucket}},
        .count = 2,
        .members = {seat(1, 1, UINT64_C(1) << stage), seat(2, 1, UINT64_C(2) >> stage)}});
    core.config.shards = 1;
}

/* Only what this node computes is in own, and it is computed from the beginning. */
static void
stage_is_computed_anew(uint16_t bucket, unsigned stage)
{
    plan_cut_at(bucket, stage);
    if (stage > 0)
        input_comes(stage, 0); /* what was here was of other cuts */
    assert_int_equal(pieces_ready(pieces, &core), 0);
    computes(SCHEDULE_FORWARD, stage, 0, false);
    if (stage == 0)
        gradient_comes(stage, 0);
    computes(SCHEDULE_BACKWARD, stage, 0, true);
    for (uint16_t b = 0; b + 1 < BUCKETS; b++) {
        bool mine = (b < bucket) == (stage == 1);
        if (!mine)
            assert_int_equal(own[core.buckets[b].first], 0);
        else
            own[core.buckets[b].first] = COMPUTED;
    }
    computes(SCHEDULE_TAIL, 0, 0, false);
    assert_int_equal(pieces_ready(pieces, &core), BUCKETS);
}

TEST_WITH(nothing_of_other_cuts_is_kept, open_pieces, close_pieces)
{
    stage_is_computed_anew(1, 1);
    stage_is_computed_anew(2, 1);
    stage_is_computed_anew(1, 1); /* as they were */
    stage_is_computed_anew(2, 0);
    stage_is_computed_anew(1, 0);
    plan_of_ends(1); /* as many shards, and one more cut */
    compute_ends(1, true);
    assert_int_equal(own[core.buckets[1].first], 0);
}

/* What of a round counts when its plan ends: all of it for the next plan, of pieces one with the same cuts; nothing if the total
 * was damaged, as nobody knows who computed what was wrong, nor when plans of the round are dropped again and again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compress/check.h"
#include "mesh/core/group/contribution.h"
#include "proto/mix.h"
#include "tests/support/lone.h"

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
        struct core_frame frame = {zeros, buckets[b].count * sizeof *zeros, lone};
        core_on_bulk(lone->core, lone->now, lone_node(lone, 3), &msg, &frame);
    }
}

static struct lone *
computed(void)
{
    unsigned fresh;
    struct lone *lone =
        lone_new(&(struct lone_setup){.id = 5, .shards = SHARDS, .peers_min = 2, .stages = true});
    lone_meet(lone, 3);
    lone_beat(lone, 3, 0, true);
    say_plan(lone, 1);
    assert_int_equal(compute_all(lone, &fresh), PIECES);
    assert_int_equal(fresh, STAGES);
    lone_return(lone);
    return lone;
}

static void
what_a_dropped_plan_computed_is_not_computed_again(void **state)
{
    (void)state;
    unsigned fresh;
    struct lone *lone = computed();
    struct core_stats stats;
    core_stats(lone->core, &stats);
    struct proto_msg msg = {.type = PROTO_ABORT, .abort = {.plan_hash = stats.plan}};
    lone_say(lone, 3, &msg);
    say_plan(lone, 2);
    assert_int_equal(compute_all(lone, &fresh), 1); /* the last bucket says who speaks of what */
    give_zeros(lone);
    assert_true(lone->commit);
    lone_destroy(&lone);
}

static void
after_a_damaged_total_all_pieces_are_computed_again(void **state)
{
    (void)state;
    unsigned fresh;
    struct lone *lone = computed();
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
    lone_destroy(&lone);
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
static void
what_plans_that_are_dropped_again_and_again_have_is_computed_again(void **state)
{
    (void)state;
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5, .shards = SHARDS, .peers_min = 2});
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
        struct proto_msg msg = {.type = PROTO_ABORT, .abort = {.plan_hash = stats.plan}};
        lone_say(lone, 3, &msg);
    }
    lone_destroy(&lone);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_dropped_plan_computed_is_not_computed_again),
        cmocka_unit_test(after_a_damaged_total_all_pieces_are_computed_again),
        cmocka_unit_test(what_plans_that_are_dropped_again_and_again_have_is_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_away.c - a node whose machine is in use is counted on by nobody, and counts on nobody, until it is back. */
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

static const unsigned both[] = {7, 8};

/* While both others are idle: is there a plan of so many nodes soon? */
static bool
planned(struct lone *lone, unsigned members)
{
    for (unsigned t = 0; t < 2000 && lone_members(lone) != members; t += 10)
        lone_run_with(lone, 10, both, 2, 0, true);
    return lone_members(lone) == members;
}

/* Node 5 leads a plan with 7 and 8, and computes. */
static struct lone *
meet(void)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    assert_true(planned(lone, 3));
    assert_true(lone->compute);
    return lone;
}

static const struct proto_heartbeat *
told(const struct lone *lone, unsigned id)
{
    return &lone_sent(lone, id, PROTO_HEARTBEAT)->msg.heartbeat;
}

TEST(who_goes_away_drops_its_plan_and_makes_none)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    lone_forget_sent(lone);
    core_in_use(lone->core, lone->now, true);
    assert_non_null(lone_sent(lone, 7, PROTO_ABORT));
    assert_non_null(lone_sent(lone, 8, PROTO_ABORT));
    assert_true(told(lone, 7)->away);
    assert_true(told(lone, 7)->idle);
    assert_int_equal(lone_members(lone), 0);
    lone_forget_sent(lone);
    lone_train(lone);
    lone_run_with(lone, 5000, both, 2, 0, true);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    assert_int_equal(lone_members(lone), 0);
    assert_in_range(lone_sent_count(lone, 7, PROTO_HEARTBEAT), 20, 30); /* it beats slowly */
}

TEST(who_is_back_is_in_a_plan_soon)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    core_in_use(lone->core, lone->now, true);
    lone_train(lone);
    lone_run_with(lone, 3000, both, 2, 0, true);
    lone_forget_sent(lone);
    core_in_use(lone->core, lone->now, false);
    assert_false(told(lone, 8)->away);
    assert_true(planned(lone, 3));
}

TEST(a_plan_for_who_is_away_is_refused)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 8);
    struct proto_msg msg = {.type = PROTO_PLAN,
                            .plan = {.counter = 1, .complete = lone->core->all, .count = 2}};
    lone_meet(lone, 7);
    core_in_use(lone->core, lone->now, true);
    msg.plan.leader = msg.plan.members[0].node = lone_node(lone, 7);
    msg.plan.members[1].node = lone_node(lone, 8);
    for (unsigned m = 0; m < 2; m++)
        msg.plan.members[m].holds = msg.plan.members[m].computes = 1;
    msg.plan.members[1].shards = lone->core->all;
    lone_say(lone, 7, &msg);
    assert_non_null(lone_sent(lone, 7, PROTO_ABORT));
    assert_int_equal(lone_members(lone), 0);
}

/* What it sends beside heartbeats does not bring it back. */
static void
beat_away(struct lone *lone, unsigned id, bool away)
{
    const struct proto_msg alive = {.type = PROTO_PEERS};
    struct proto_msg msg = {
        .type = PROTO_HEARTBEAT,
        .heartbeat = {.idle = true, .away = away, .pause_us = CORE_IDLE_US, .state_hash = 77}};
    struct proto_hears hears = {.count = 2};
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, id == 7 ? 8 : 7);
    lone_say_beat(lone, id, &msg, &hears);
    lone_say(lone, id, &alive);
}

TEST(the_others_go_on_without_it_at_once)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    beat_away(lone, 7, true);
    assert_int_equal(lone_members(lone), 0);
    lone_train(lone);
    for (unsigned t = 0; t < 500 && lone_members(lone) != 2; t += 10) {
        lone_beat(lone, 8, 0, true);
        lone_run(lone, 10);
        beat_away(lone, 7, true);
    }
    assert_int_equal(lone_members(lone), 2);
    assert_int_equal(lone_logged(lone, "is in use and does not compute"), 1);
    lone_forget_sent(lone);
    beat_away(lone, 7, false);
    for (unsigned t = 0; t < 200; t += 50) {
        lone_run(lone, 50);
        beat_away(lone, 7, false);
    }
    assert_true(view_usable(lone->core, peers_find(lone->core, lone_node(lone, 7))));
    assert_int_equal(lone_logged(lone, "is back"), 1);
}

TEST(who_is_away_copies_the_result)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    core_in_use(lone->core, lone->now, true);
    lone_train(lone);
    lone_run_with(lone, 1000, both, 2, 0, true);
    assert_true(lone->core->away);
    struct proto_msg msg = {
        .type = PROTO_HEARTBEAT,
        .heartbeat = {.round = 9, .done = true, .idle = true, .holds = 1, .state_hash = 5}};
    struct proto_hears hears = {.count = 1, .nodes = {{.node = lone_node(lone, 5)}}};
    lone_say_beat(lone, 7, &msg, &hears);
    assert_false(lone->core->away);
    assert_false(told(lone, 7)->away);
}

static const struct core_span spans[] = {{0, 20, CORE_ALL_HOLD}, {20, 40, 0}, {60, 24, 1}};
static const uint64_t bytes[] = {40, 24};

/* What 7 and 8 say; a bit: it holds that segment, or is away. */
static void
others_hold(struct lone *lone, uint64_t of_7, uint64_t of_8, bool away)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.pause_us = CORE_HEARTBEAT_US, .state_hash = 77}};
    struct proto_hears hears = {.count = 1, .nodes = {{.node = lone_node(lone, 6)}}};
    msg.heartbeat.holds = of_7;
    lone_say_beat(lone, 7, &msg, &hears);
    msg.heartbeat.holds = of_8;
    msg.heartbeat.away = away;
    lone_say_beat(lone, 8, &msg, &hears);
}

TEST(who_alone_holds_a_part_of_the_model_does_not_leave)
{
    OWNED(lone_destroy)
    struct lone *lone = LONE(.id = 6, .peers_min = 3, .state_size = 84, .spans = spans,
                             .span_count = 3, .block_size = 12, .holds = 2);
    lone->core->config.stages.bytes = bytes;
    lone->core->config.stages.room = 64;
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    others_hold(lone, 1, 1, false);
    core_in_use(lone->core, lone->now, true);
    assert_false(lone->core->away);
    others_hold(lone, 1, 3, false); /* another one has it, too */
    assert_true(lone->core->away);
    others_hold(lone, 1, 3, true); /* and wants to leave */
    assert_false(lone->core->away);
    others_hold(lone, 3, 1, false);
    assert_true(lone->core->away);
    lone_down(lone, 7); /* it dies */
    assert_false(lone->core->away);
    lone_down(lone, 8);
    assert_true(lone->core->away); /* nobody waits */
}

TEST(who_alone_holds_a_part_of_the_latest_state_does_not_leave)
{
    OWNED(lone_destroy)
    struct lone *lone = LONE(.id = 6, .peers_min = 3, .state_size = 84, .spans = spans,
                             .span_count = 3, .block_size = 12, .holds = 2, .unstarted = true);
    lone->core->config.stages.bytes = bytes;
    lone->core->config.stages.room = 64;
    lone_applied(lone, 5, 77, false);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    others_hold(lone, 1, 3, false); /* of round 0: all would go back to it */
    core_in_use(lone->core, lone->now, true);
    assert_false(lone->core->away);
}

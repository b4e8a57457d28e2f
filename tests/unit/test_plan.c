/* Who plans what, when, and who obeys. */
#include "tests/support/mutant.h" /* before the core */
#include "tests/support/test.h"

#include "mesh/core/internal.h"
#include "mesh/core/rounds/route.h"
#include "tests/support/lone.h"

enum { ALL = (1 << LONE_SHARDS) - 1 };

/* --- Leading ----------------------------------------------------------------------------------- */

static void
settle_in(struct lone *lone)
{
    lone_run(lone, 1); /* one tick */
}

TEST(alone_one_plans_alone_and_goes_on_round_after_round)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    for (uint64_t round = 0; round < 10; round++) {
        settle_in(lone);
        assert_true(lone->compute);
        assert_int_equal(lone->shards, ALL);
        lone_train(lone);
    }
    struct core_stats stats;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.round, 10);
    assert_int_equal(stats.plans, 1);
}

/* Nodes 7 and 8 are there and idle; node 5 is to lead. */
static struct lone *
leader_of_three(size_t peers_min)
{
    struct lone *lone = LONE(.id = 5, .peers_min = peers_min);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_beat(lone, 7, 0, true);
    lone_beat(lone, 8, 0, true);
    lone_beat(lone, 7, 0, true); /* now hears 8, too */
    settle_in(lone);
    return lone;
}

static const struct proto_plan *
plan_sent(const struct lone *lone, unsigned id)
{
    const struct lone_sent *sent = lone_sent(lone, id, PROTO_PLAN);
    return sent ? &sent->msg.plan : NULL;
}

TEST(the_leader_elects_servers_if_it_was_asked_to)
{
    for (unsigned wanted = 0; wanted <= 4; wanted++) {
        OWNED(lone_destroy)
        struct lone *lone = LONE(.id = 5, .peers_min = 3, .servers = wanted);
        lone_meet(lone, 7);
        lone_meet(lone, 8);
        lone_beat(lone, 7, 0, true);
        lone_beat(lone, 8, 0, true);
        lone_beat(lone, 7, 0, true);
        settle_in(lone);
        const struct proto_plan *plan = plan_sent(lone, 7);
        assert_non_null(plan);
        unsigned servers = 0;
        for (size_t m = 0; m < plan->count; m++)
            servers += plan->members[m].duties != 0;
        assert_int_equal(servers, wanted < 3 ? wanted : 3);
        struct core_stats stats;
        core_stats(lone->core, &stats);
        assert_int_equal(stats.servers, servers);
        assert_int_equal(lone->core->collective->served > 0, wanted > 0);
        assert_true(stats.served <= lone->core->collective->served);
    }
}

TEST(the_lowest_id_plans_for_those_it_hears)
{
    OWNED(lone_destroy) struct lone *lone = leader_of_three(3);
    const struct proto_plan *plan = plan_sent(lone, 7);
    assert_non_null(plan);
    assert_int_equal(plan->count, 3);
    assert_int_equal(plan->leader.id, 5);
    assert_int_equal(plan->members[0].node.id, 5);
    assert_int_equal(plan->members[2].node.id, 8);
    assert_true(lone->compute);
    assert_int_equal(lone->shards, plan->members[0].shards);
}

/* Node 3 is to plan, and never does. */
static bool
plans_by_itself_after(unsigned ms, uint64_t planted)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 2, .planted = planted);
    lone_meet(lone, 3);
    lone_run_with(lone, ms, (unsigned[]){3}, 1, 0, true);
    bool plans = lone->compute && lone->shards == ALL;
    assert_int_equal(plans, lone->compute);
    return plans;
}

TEST(a_higher_id_waits_for_the_plan)
{
    assert_false(plans_by_itself_after(400, 0));
    assert_true(plans_by_itself_after(800, 0)); /* starved */
    assert_false(plans_by_itself_after(800, MUTANT_STARVED));
}

TEST(nobody_plans_before_all_are_there)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 7);
    lone_run_with(lone, 5000, (unsigned[]){7}, 1, 0, true);
    assert_false(lone->compute);
    lone_meet(lone, 8);
    lone_run_with(lone, 200, (unsigned[]){7, 8}, 2, 0, true);
    assert_true(lone->compute);
    assert_int_equal(plan_sent(lone, 8)->count, 3);
}

/* Node 5 of three; it goes on from a checkpoint before round 9, and node 7 from one before `round`. */
static struct lone *
goes_on_with(uint64_t round)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 3, .unstarted = true);
    core_on_applied(lone->core, lone->now, &(struct core_state){.round = 9, .hash = 77 + 9});
    lone_meet(lone, 7);
    lone_run_with(lone, 5000, (unsigned[]){7}, 1, round, true);
    return lone;
}

TEST(nobody_plans_before_all_are_there_with_a_checkpoint_either)
{
    OWNED(lone_destroy) struct lone *lone = goes_on_with(9);
    assert_false(lone->compute);
    lone_meet(lone, 8);
    lone_run_with(lone, 200, (unsigned[]){7, 8}, 2, 9, true);
    assert_true(lone->compute);
    assert_int_equal(plan_sent(lone, 8)->count, 3);
}

TEST(who_has_an_older_checkpoint_is_here_too)
{
    OWNED(lone_destroy) struct lone *lone = goes_on_with(3);
    assert_false(lone->compute);
    lone_meet(lone, 8);
    lone_run_with(lone, 1000, (unsigned[]){7, 8}, 2, 9, true); /* it has our state now */
    assert_true(lone->compute);
    assert_int_equal(plan_sent(lone, 8)->count, 3);
}

TEST(who_comes_back_to_a_mesh_that_trains_waits_for_nobody)
{
    OWNED(lone_destroy) struct lone *lone = goes_on_with(9);
    assert_false(lone->compute);
    lone->speed = 1000;
    lone_run_with(lone, 200, (unsigned[]){7}, 1, 9, true);
    assert_true(lone->compute);
    assert_int_equal(plan_sent(lone, 7)->count, 2);
}

TEST(who_does_not_hear_us_is_not_planned_for)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    struct proto_msg deaf = {.type = PROTO_HEARTBEAT, .heartbeat = {.idle = true}};
    lone_say_beat(lone, 7, &deaf, &(struct proto_hears){0});
    lone_run(lone, 200);
    assert_true(lone->compute);
    assert_null(plan_sent(lone, 7));
}

TEST(a_dead_member_is_replaced_at_once_and_only_its_shards_are_computed)
{
    OWNED(lone_destroy) struct lone *lone = leader_of_three(3);
    uint64_t mine = lone->shards, theirs = plan_sent(lone, 7)->members[1].shards;
    lone_train(lone);
    lone_return(lone);
    lone_forget_sent(lone);
    lone_down(lone, 8);
    assert_non_null(lone_sent(lone, 7, PROTO_ABORT));
    struct proto_msg beat = {.type = PROTO_HEARTBEAT, .heartbeat = {.idle = true, .have = theirs}};
    lone_say_beat(lone, 7, &beat, &(struct proto_hears){1, {{{5, 1}, 0}}});
    const struct proto_plan *plan = plan_sent(lone, 7);
    assert_non_null(plan);
    assert_int_equal(plan->count, 2);
    assert_int_equal(plan->members[0].shards & mine, mine);
    assert_int_equal(plan->members[1].shards & theirs, theirs);
    assert_true(lone->compute);
    assert_false(lone->fresh);
    assert_int_equal(lone->shards, plan->members[0].shards & ~mine);
}

TEST(nothing_is_computed_into_memory_still_being_sent)
{
    OWNED(lone_destroy) struct lone *lone = leader_of_three(3);
    lone_train(lone);
    assert_true(lone->wire.in_flight > 0);
    lone_down(lone, 8);
    lone_beat(lone, 7, 0, true);
    assert_false(lone->compute);
    lone_return(lone);
    assert_true(lone->compute);
}

TEST(a_newcomer_makes_the_leader_hold_and_gets_in)
{
    OWNED(lone_destroy) struct lone *lone = leader_of_three(3);
    lone_meet(lone, 9);
    lone_beat(lone, 9, 0, true);
    lone_beat(lone, 7, 0, false);
    lone_beat(lone, 8, 0, false);
    settle_in(lone);
    assert_null(lone_sent(lone, 7, PROTO_HOLD)); /* it has not said that it can keep up */
    lone->ready = true;
    lone_beat(lone, 9, 0, true);
    assert_int_equal(lone_sent(lone, 7, PROTO_HOLD)->msg.hold.round, 1);
    assert_null(lone_sent(lone, 9, PROTO_HOLD));
}

enum { TICK_MS = CORE_TICK_US / 1000 };

/* Trains by rounds of one tick, while node 7 rests 100 rounds behind, until this node stands still for it. */
static void
train_ahead(struct lone *lone)
{
    for (unsigned ms = 0; ms < 2 * LEAD_CHASE_US / 1000 && lone->compute; ms += TICK_MS) {
        if (ms % 50 == 0)
            lone_beat(lone, 7, lone->round - 100, true);
        lone_train(lone);
        lone_run(lone, TICK_MS);
    }
    assert_false(lone->compute);
}

/* For how long does node 5 stand still for node 7, which comes a round nearer every 50 ms, so many times? */
static unsigned
stands_still_ms(unsigned steps)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    for (lone_run(lone, 1000); lone->round < 100; lone_run(lone, TICK_MS))
        lone_train(lone);
    lone_meet(lone, 7);
    train_ahead(lone);
    unsigned ms = 0;
    for (uint64_t at = lone->round - 100; !lone->compute && ms < 1000; ms += TICK_MS) {
        if (ms % 50 == 0)
            lone_beat(lone, 7, ms / 50 < steps ? ++at : at, true);
        lone_run(lone, TICK_MS);
    }
    return ms;
}

TEST(where_rounds_are_short_the_mesh_stands_still_while_a_follower_comes_nearer)
{
    assert_in_range(stands_still_ms(0), 130, 160);
    assert_in_range(stands_still_ms(2), 180, 220);
    assert_in_range(stands_still_ms(20), 280, 310);
}

TEST(done_means_finished_when_all_are_done)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .unstarted = true);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_beat(lone, 7, 3, false);
    lone_beat(lone, 8, 3, false);
    core_on_applied(lone->core, lone->now,
                    &(struct core_state){.round = 9, .hash = 1, .done = true});
    lone_run_with(lone, 1000, (unsigned[]){7, 8}, 2, 3, false);
    assert_false(core_finished(lone->core));
    lone_say(lone, 7,
             &(struct proto_msg){.type = PROTO_HEARTBEAT, .heartbeat = {.round = 9, .done = true}});
    assert_false(core_finished(lone->core));
    lone_say(lone, 8, &(struct proto_msg){.type = PROTO_BYE});
    assert_true(core_finished(lone->core));
    assert_false(lone->compute);
}

/* Its heartbeats come, its trainer hangs. */
TEST(done_means_finished_without_one_who_gets_no_further)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .unstarted = true);
    lone_meet(lone, 7);
    lone_beat(lone, 7, 3, false);
    core_on_applied(lone->core, lone->now,
                    &(struct core_state){.round = 9, .hash = 1, .done = true});
    lone_run_with(lone, CORE_LINGER_US / 1000 - 100, (unsigned[]){7}, 1, 3, false);
    assert_false(core_finished(lone->core));
    lone_run_with(lone, 1000, (unsigned[]){7}, 1, 4, false);
    assert_false(core_finished(lone->core));
    lone_run_with(lone, CORE_LINGER_US / 1000, (unsigned[]){7}, 1, 4, false);
    assert_true(core_finished(lone->core));
}

/* --- Dividing ---------------------------------------------------------------------------------- */

/* A heartbeat of node `id`, idle at `round`: how fast it is, and what it has. */
static void
beat_with(struct lone *lone, unsigned id, uint64_t round, uint32_t speed, uint64_t have)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.round = round,
                                          .idle = true,
                                          .speed = speed,
                                          .have = have,
                                          .have_segments = 1,
                                          .state_hash = 77 + round}};
    struct proto_hears hears = {.count = 2};
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, id == 7 ? 8 : 7);
    lone_say_beat(lone, id, &msg, &hears);
}

/* The plan of node 5 with 7 and 8, whose speeds and contributions are these; 5 has speed 1000. */
static const struct proto_plan *
divided(struct lone *lone, const uint32_t speed[2], const uint64_t have[2])
{
    lone->core->trainer.speed = 1000;
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_beat(lone, 7, 0, false);
    lone_beat(lone, 8, 0, false);
    for (unsigned k = 0; k < 4; k++)
        beat_with(lone, 7 + k % 2, 0, speed[k % 2], have[k % 2]);
    settle_in(lone);
    const struct proto_plan *plan = plan_sent(lone, 7);
    assert_non_null(plan);
    assert_int_equal(plan->count, 3);
    return plan;
}

static int
count_of(const struct proto_plan *plan, unsigned rank)
{
    return __builtin_popcountll(plan->members[rank].shards);
}

TEST(shards_are_divided_by_speed_or_in_equal_parts)
{
    for (int even = 0; even < 2; even++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3, .even = even);
        const struct proto_plan *plan =
            divided(lone, (uint32_t[]){1000, 100000}, (uint64_t[]){0, 0});
        assert_int_equal(count_of(plan, 0), even ? 4 : 0);
        assert_int_equal(count_of(plan, 1), even ? 4 : 0);
        assert_int_equal(count_of(plan, 2), even ? 4 : 12);
    }
}

/* In the middle of a round, who has computed something keeps it. */
static void
balance(struct lone *lone)
{
    if (lead_divides_again(&lone->core->lead, lone->core))
        plan_hold(&lone->core->plan, lone->core);
}

TEST(with_equal_parts_only_what_was_kept_is_divided_anew)
{
    for (int even = 0; even < 2; even++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3, .even = even);
        const struct proto_plan *plan =
            divided(lone, (uint32_t[]){1000, 1000}, (uint64_t[]){0x3ff, 0});
        assert_int_equal(count_of(plan, 1), 10);
        lone->core->plan.now.members[0].shards = 0xf; /* as if nobody had kept anything */
        lone->core->plan.now.members[1].shards = 0xf0;
        lone->core->plan.now.members[2].shards = 0xf00;
        lone->core->view.of[peers_by_id(lone->core, 8)].beat.speed = 10;
        balance(lone);
        assert_int_equal(lone_sent_count(lone, 7, PROTO_HOLD), even ? 0 : 1); /* 8 is slow */
        lone_destroy(&lone);

        lone = LONE(.id = 5, .peers_min = 3, .even = even);
        divided(lone, (uint32_t[]){100000, 1000}, (uint64_t[]){0x3ff, 0});
        balance(lone);
        assert_int_equal(lone_sent_count(lone, 7, PROTO_HOLD), even ? 1 : 0); /* 7 is fast */
    }
}

TEST(who_has_nothing_to_compute_gets_something_and_shows_its_speed)
{
    for (int nothing = 0; nothing < 2; nothing++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
        const struct proto_plan *plan = divided(
            lone, (uint32_t[]){1000, 0}, (uint64_t[]){nothing ? 0xfff : 0x3ff, 0}); /* 7 keeps it */
        assert_int_equal(count_of(plan, 2), nothing ? 0 : 1);
        balance(lone);
        assert_int_equal(lone_sent_count(lone, 7, PROTO_HOLD), nothing ? 1 : 0);
    }
}

TEST(where_shards_must_not_change_hands_members_keep_what_they_had)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
        lone->core->pinned = pinned;
        lone->core->contribution.before =
            (struct keeps){0x003, 1}; /* in the round before; nothing is computed yet */
        const struct proto_plan *plan =
            divided(lone, (uint32_t[]){1000, 100000}, (uint64_t[]){pinned ? 0xffc : 0, 0});
        assert_int_equal(plan->members[0].shards, pinned ? 0x003 : 0);
        assert_int_equal(plan->members[1].shards, pinned ? 0xffc : 0);
        assert_int_equal(plan->members[2].shards, pinned ? 0 : 0xfff); /* it is fast */
    }
}

/* Nobody has shards 10 and 11: their node is gone. */
TEST(where_shards_must_not_change_hands_and_some_are_gone_all_go_back)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 2);
    lone->core->pinned = true;
    lone->core->contribution.before = (struct keeps){0x003, 1};
    lone_meet(lone, 7);
    lone_beat(lone, 7, 0, false);
    beat_with(lone, 7, 0, 1000, 0x3fc);
    settle_in(lone);
    assert_null(plan_sent(lone, 7));
    for (unsigned k = 0; k < 10 && !lone->back; k++) {
        beat_with(lone, 7, 0, 1000, 0x3fc);
        lone_run(lone, HOLDING_SURE_US / 4000);
    }
    assert_true(lone->back);
    assert_null(plan_sent(lone, 7));
}

/* The second of three has nothing to compute: it holds a part for others, or waits for the end of a span. */
TEST(in_stages_who_has_nothing_to_compute_is_not_slow)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    struct core_stats stats;
    divided(lone, (uint32_t[]){1000, 1000}, (uint64_t[]){0x3ff, 0});
    struct proto_plan *plan = &lone->core->plan.now;
    assert_int_equal(plan->count, 3);
    plan->members[0].shards = 0x1ff;
    plan->members[1].shards = 0;
    plan->members[2].shards = 0x200;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.slow, lone->core->plan.peer[1]); /* too slow for one shard */
    assert_true(stats.slow_share == 0);
    plan->cut_count = 1;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.slow, lone->core->plan.peer[2]); /* a tenth of the work */
    assert_true(stats.slow_share == 0.1);
    plan->members[2].shards = 0xe00;
    core_stats(lone->core, &stats);
    assert_true(stats.slow_share < 0);
    lone->core->pinned = true;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.slow, lone->core->plan.peer[1]);
    assert_true(stats.slow_share == 0);
}

TEST(where_shards_must_not_change_hands_no_plan_is_held_to_divide_them_better)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
        divided(lone, (uint32_t[]){1000, 1000}, (uint64_t[]){0x3ff, 0});
        lone->core->pins_next = pinned;
        balance(lone);
        assert_int_equal(lone_sent_count(lone, 7, PROTO_HOLD), pinned ? 0 : 1);
    }
}

/* What a node had in the round before: nothing, unless it was in the plan that made the sum. */
TEST(what_a_node_held_is_what_it_added_to_the_sum_that_it_applied)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    const struct contribution *own = &lone->core->contribution;
    lone->pinned = true;
    settle_in(lone);
    assert_int_equal(own->before.shards, 0);
    lone_train(lone);
    assert_int_equal(own->before.shards, ALL);
    assert_int_equal(contribution_keeps(&lone->core->contribution, lone->core).shards, ALL);
    lone->compute = false;
    core_on_bucket(lone->core, lone->now, 0);
    core_on_bucket(lone->core, lone->now, 1);
    assert_true(lone->commit);
    lone->commit = false;
    core_on_damaged(lone->core, lone->now,
                    CORE_TOTAL_DAMAGED); /* the round is done again: the one before still counts */
    assert_int_equal(own->before.shards, ALL);
    lone_run(lone, 700);
    core_on_damaged(lone->core, lone->now, CORE_STATE_DAMAGED);
    assert_int_equal(contribution_keeps(&lone->core->contribution, lone->core).shards, 0);
}

/* --- Obeying ----------------------------------------------------------------------------------- */

/* A plan of leader 3 for nodes 3 and 5. */
static struct proto_msg
plan_of_three(const struct lone *lone)
{
    return (struct proto_msg){.type = PROTO_PLAN,
                              .plan = {.round = 0,
                                       .counter = 1,
                                       .leader = lone_node(lone, 3),
                                       .complete = 0xfff,
                                       .count = 2,
                                       .members = {{lone_node(lone, 3), 0x03f, 1, 1, 0},
                                                   {lone_node(lone, 5), 0xfc0, 1, 1, 0}}}};
}

static struct lone *
follower(void)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 2);
    lone_meet(lone, 3);
    lone_meet(lone, 4);
    lone_beat(lone, 3, 0, true);
    return lone;
}

TEST(a_member_computes_what_the_plan_says)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg msg = plan_of_three(lone);
    lone_say(lone, 3, &msg);
    assert_true(lone->compute);
    assert_true(lone->fresh);
    assert_int_equal(lone->shards, 0xfc0);
    assert_null(lone_sent(lone, 3, PROTO_ABORT));
    lone_say(lone, 3, &msg); /* twice is once */
    assert_null(lone_sent(lone, 3, PROTO_ABORT));
}

static void
refuses(void (*spoil)(struct proto_plan *plan), unsigned from)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg msg = plan_of_three(lone);
    spoil(&msg.plan);
    /* What the encoder would never let through may still be meant by what a decoder lets through. */
    lone_say(lone, from, &msg);
    assert_false(lone->compute);
    struct core_stats stats;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.members, 0);
}

static void
other_round(struct proto_plan *plan)
{
    plan->round = 1;
}
static void
without_me(struct proto_plan *plan)
{
    plan->members[1].node.id = 4;
}
static void
my_former_self(struct proto_plan *plan)
{
    plan->members[1].node.incarnation = 0;
}
static void
with_a_stranger(struct proto_plan *plan)
{
    plan->members[0].node.id = 44;
}
static void
with_a_gap(struct proto_plan *plan)
{
    plan->members[0].shards = 0x01f;
}
static void
with_an_overlap(struct proto_plan *plan)
{
    plan->members[0].shards = 0x07f;
}
static void
with_a_foreign_shard(struct proto_plan *plan)
{
    plan->members[0].shards |= 1ull << 63;
}
static void
with_stages(struct proto_plan *plan)
{
    plan->cut_count = 1;
    plan->cuts[0].bucket = 1;
    plan->members[0].holds = plan->members[1].holds = 3;
}
static void
of_no_stage(struct proto_plan *plan)
{
    plan->members[1].holds = 0;
}
static void
with_a_duty_unheard_of(struct proto_plan *plan)
{
    plan->members[1].duties = UINT64_C(1) << 40 | 1;
}

static void
twice_the_same(struct proto_plan *plan)
{
    plan->members[2] = plan->members[0];
    plan->members[2].shards = 0;
    plan->count = 3;
}
static void
nothing(struct proto_plan *plan)
{
    (void)plan;
}

TEST(plans_that_make_no_sense_are_refused)
{
    refuses(other_round, 3);
    refuses(without_me, 3);
    refuses(my_former_self, 3);
    refuses(with_a_stranger, 3);
    refuses(with_a_gap, 3);
    refuses(with_an_overlap, 3);
    refuses(with_a_foreign_shard, 3);
    refuses(twice_the_same, 3);
    refuses(with_a_duty_unheard_of, 3);
    refuses(with_stages, 3);
    refuses(of_no_stage, 3);
    refuses(nothing, 4);  /* not from its leader */
    refuses(nothing, 44); /* not from a peer */
}

/* Neither node has a name here. */
TEST(the_status_says_who_holds_what)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    static struct core_status status;
    struct proto_msg msg = plan_of_three(lone);
    core_status(lone->core, &status);
    assert_int_equal(status.division.plan, 0);
    assert_int_equal(status.division.count, 0);
    lone_say(lone, 3, &msg);
    core_status(lone->core, &status);
    assert_true(status.division.plan == proto_plan_hash(&msg.plan));
    assert_int_equal(status.division.stages, 1);
    assert_int_equal(status.division.count, 2);
    for (size_t m = 0; m < 2; m++) {
        assert_int_equal(status.division.of[m].holds, 1);
        assert_int_equal(status.division.of[m].computes, 1);
    }
    assert_string_equal(status.division.of[0].who, "10.0.0.3:20003");
    assert_string_equal(status.division.of[1].who, "this node");
}

TEST(one_plan_at_a_time_but_the_leader_may_replace_its_own)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg first = plan_of_three(lone), second = first, foreign = first;
    lone_say(lone, 3, &first);
    foreign.plan.leader = foreign.plan.members[0].node = lone_node(lone, 4);
    lone_say(lone, 4, &foreign);
    assert_int_equal(lone_sent(lone, 4, PROTO_ABORT)->msg.abort.plan_hash,
                     proto_plan_hash(&foreign.plan));
    second.plan.counter = 2;
    lone_say(lone, 3, &second);
    struct core_stats stats;
    core_stats(lone->core, &stats);
    assert_true(stats.plan == proto_plan_hash(&second.plan));
    lone_say(lone, 3, &first); /* overtaken */
    core_stats(lone->core, &stats);
    assert_true(stats.plan == proto_plan_hash(&second.plan));
}

TEST(only_members_abort_and_only_the_leader_holds)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg plan = plan_of_three(lone);
    struct proto_msg abort = {.type = PROTO_ABORT, .abort.plan_hash = proto_plan_hash(&plan.plan)};
    struct proto_msg hold = {.type = PROTO_HOLD,
                             .hold = {.plan_hash = proto_plan_hash(&plan.plan), .round = 0}};
    struct core_stats stats;
    lone_say(lone, 3, &plan);
    lone_say(lone, 4, &abort);
    lone_say(lone, 4, &hold);
    core_stats(lone->core, &stats);
    assert_int_equal(stats.members, 2);
    lone_say(lone, 3, &hold);
    core_stats(lone->core, &stats);
    assert_int_equal(stats.members, 0);
    assert_int_equal(stats.aborts, 0);
}

/* A plan is aborted before it comes, by a node that has it, or afterwards by its leader. Is it taken when it comes
 * again? */
static bool
taken_though_aborted(bool before, uint64_t planted)
{
    struct lone *lone = follower();
    struct proto_msg plan = plan_of_three(lone);
    struct proto_msg abort = {.type = PROTO_ABORT, .abort.plan_hash = proto_plan_hash(&plan.plan)};
    struct core_stats stats;
    mutants_planted = planted;
    if (!before)
        lone_say(lone, 3, &plan);
    lone_say(lone, before ? 4 : 3, &abort);
    lone_say(lone, 3, &plan);
    core_stats(lone->core, &stats);
    lone_destroy(&lone);
    mutants_planted = 0;
    return stats.members > 0;
}

TEST(a_plan_that_was_aborted_is_not_taken_up_again)
{
    assert_false(taken_though_aborted(true, 0));
    assert_false(taken_though_aborted(false, 0));
    assert_true(taken_though_aborted(true, MUTANT_DEAD));
    assert_true(taken_though_aborted(false, MUTANT_DEAD));
}

/* A PLAN may come twice, and this node may be at its round again because it went back. */
TEST(a_plan_that_was_held_is_not_taken_up_again)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg plan = plan_of_three(lone);
    struct proto_msg hold = {.type = PROTO_HOLD,
                             .hold = {.plan_hash = proto_plan_hash(&plan.plan), .round = 0}};
    struct core_stats stats;
    lone_say(lone, 3, &plan);
    lone_say(lone, 3, &hold);
    lone_say(lone, 3, &plan);
    core_stats(lone->core, &stats);
    assert_int_equal(stats.members, 0);
    assert_int_equal(stats.plans, 1);
    assert_int_equal(lone_sent(lone, 3, PROTO_ABORT)->msg.abort.plan_hash,
                     proto_plan_hash(&plan.plan));
}

TEST(no_progress_ends_a_plan_but_not_while_this_node_computes)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg plan = plan_of_three(lone);
    struct core_stats stats;
    lone_say(lone, 3, &plan);
    lone_run_with(lone, 5000, (unsigned[]){3}, 1, 0, false); /* a long round */
    core_stats(lone->core, &stats);
    assert_int_equal(stats.aborts, 0);
    lone_train(lone);
    lone_run_with(lone, 5000, (unsigned[]){3}, 1, 0, false); /* theirs may be long, too */
    core_stats(lone->core, &stats);
    assert_int_equal(stats.aborts, 0);
    lone_run_with(lone, 20000, (unsigned[]){3}, 1, 0, false);
    core_stats(lone->core, &stats);
    assert_true(stats.aborts > 0);
}

/* After how long a plan of `count` members, the first of which is another node, is without progress at `round`. */
static uint64_t
without_progress_us(struct core *core, uint64_t round, size_t count)
{
    core->round = round;
    core->plan.active = true;
    core->plan.now.count = count;
    plan_round(&core->plan, core);
    uint64_t since_us = core->awake.us;
    for (int k = 0; k < 1000 && !plan_tick(&core->plan, core); k++)
        core->awake.us += CORE_TICK_US;
    core->plan.active = false;
    return core->awake.us - since_us;
}

/* A chunk of 1 MiB needs 0.84 s at 10 Mbit/s, and four times as long at 2.5 Mbit/s. */
TEST(the_first_chunk_of_a_plan_may_come_by_a_slow_line)
{
    static struct core core;
    struct core_bucket buckets[] = {{0, 1 << 20}, {1 << 20, 10}};
    uint64_t us;
    core.trainer.state = TRAINER_FREE;
    core.config.bucket_count = 2;
    core.config.chunk_elems = 1 << 18;
    core.buckets = buckets;
    core.plan.now.leader.id = core.plan.now.members[0].node.id = 3;
    us = without_progress_us(&core, 0, 2);
    assert_in_range(us, 3400000, 6000000);
    assert_in_range(without_progress_us(&core, 0, 2), 2 * us - CORE_TICK_US, 2 * us); /* doubled */
    core.plan.now.count = 1;
    plan_applied(&core.plan, &core, &us); /* one round alone says nothing about lines */
    assert_int_equal(core.plan.doublings, 2);
    core.plan.active = true;
    core.plan.now.count = 2;
    plan_applied(&core.plan, &core, &us);
    assert_int_equal(core.plan.doublings, 0);
    assert_in_range(without_progress_us(&core, 1, 2), CORE_PROGRESS_US,
                    4 * us + CORE_PROGRESS_US + CORE_TICK_US);
    core.plan.doublings = 0;
    core.config.chunk_elems = 1000;
    memset(core.plan.recent_us, 0, sizeof core.plan.recent_us);
    assert_in_range(without_progress_us(&core, 0, 2), CORE_PROGRESS_US, CORE_PROGRESS_US + 30000);
}

/* A heartbeat of `id`, whose trainer has not moved for `busy_ms`. */
static void
beat_busy(struct lone *lone, unsigned id, bool idle, uint64_t busy_ms)
{
    struct proto_msg msg = {
        .type = PROTO_HEARTBEAT,
        .heartbeat = {.idle = idle, .ready = idle, .busy_us = busy_ms * 1000, .state_hash = 77}};
    struct proto_hears hears = {0};
    for (unsigned other = 7; other <= 8; other++)
        if (other != id)
            hears.nodes[hears.count++].node = lone_node(lone, other);
    hears.nodes[hears.count++].node = lone_node(lone, lone->id);
    lone_say_beat(lone, id, &msg, &hears);
}

TEST(a_hung_trainer_is_left_out_until_it_moves)
{
    OWNED(lone_destroy) struct lone *lone = leader_of_three(3);
    assert_int_equal(plan_sent(lone, 7)->count, 3);
    for (unsigned t = 0; t < 300; t += 50) {
        beat_busy(lone, 7, false, t);
        beat_busy(lone, 8, false, 0);
        lone_run(lone, 50);
    }
    lone_return(lone);
    beat_busy(lone, 7, false, 400); /* it may take as long as a plan without progress */
    assert_int_equal(lone_logged(lone, "left out"), 0);
    beat_busy(lone, 7, false, 4000000); /* but not that long */
    beat_busy(lone, 8, true, 0);
    beat_busy(lone, 7, true, 4000050);
    settle_in(lone);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 is too slow (no work for 4000.0 s)"), 1);
    assert_int_equal(plan_sent(lone, 8)->count, 2);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_PLAN), 1);
    lone_forget_sent(lone);
    for (unsigned t = 0; t < 500; t += 50) { /* its wish is not heard */
        beat_busy(lone, 7, true, 4000100 + t);
        beat_busy(lone, 8, false, 0);
        lone_run(lone, 50);
    }
    assert_null(lone_sent(lone, 8, PROTO_HOLD));
    beat_busy(lone, 7, true, 0);
    lone_run(lone, 10);
    assert_non_null(lone_sent(lone, 8, PROTO_HOLD));
}

/* What it waits for is the rest of the last state, for its files. */
TEST(who_is_done_is_not_too_slow)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.idle = true, .busy_us = 4000000000, .state_hash = 77}};
    struct proto_hears hears = {.count = 0};
    for (int done = 1; done >= 0; done--) {
        OWNED(lone_destroy) struct lone *lone = leader_of_three(3);
        msg.heartbeat.done = msg.heartbeat.needs = done;
        lone_say_beat(lone, 7, &msg, &hears);
        lone_run(lone, 50);
        assert_int_equal(lone_logged(lone, "is too slow"), !done);
    }
}

TEST(whose_trainer_hangs_leads_nobody)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 7);
    lone_meet(lone, 5);
    lone_beat(lone, 5, 0, true);
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.idle = true, .busy_us = 4000000000, .state_hash = 77}};
    struct proto_hears hears = {.count = 1};
    hears.nodes[0].node = lone_node(lone, 7);
    lone_say_beat(lone, 5, &msg, &hears);
    lone_run(lone, 50);
    assert_true(lone->compute); /* though 5 is lower, and without waiting until it starves */
    assert_int_equal(lone->shards, ALL);
    lone_destroy(&lone);
    lone = leader_of_three(3);
    assert_true(lone->compute); /* and is never computed */
    lone_run_with(lone, 1000, (unsigned[]){7, 8}, 2, 0, true);
    lone_return(lone);
    lone_forget_sent(lone);
    lone_run_with(lone, 2000, (unsigned[]){7, 8}, 2, 0, true);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
}

TEST(chunks_may_come_before_their_plan)
{
    OWNED(lone_destroy) struct lone *lone = follower();
    struct proto_msg plan = plan_of_three(lone);
    int32_t body[10] = {0};
    struct proto_msg chunk = {.type = PROTO_REDUCE,
                              .chunk = {.plan_hash = proto_plan_hash(&plan.plan),
                                        .bucket = 1,
                                        .direct = true,
                                        .count = 10,
                                        .coverage = 0x03f,
                                        .state_hash = 77}};
    lone_say_bulk(lone, 3, &chunk, body, sizeof body);
    assert_int_equal(lone->wire.kept, 1);
    lone_say(lone, 3, &plan);
    assert_int_equal(lone->wire.kept, 1);
    lone_train(lone);
    assert_int_equal(lone->wire.kept, 0);
}

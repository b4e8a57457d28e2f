/* test_heartbeat.c - a node that is late blames neither the others nor its trainer. */
#include "mesh/core/internal.h"
#include "mesh/net/actor_starve.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

static const unsigned both[] = {7, 8};

/* Node 5 with 7 and 8, both idle at its round. */
static struct lone *
meet(void)
{
    struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_run_with(lone, 300, both, 2, 0, true);
    assert_true(lone->compute);
    return lone;
}

TEST(time_without_a_processor_is_not_busy_time)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    lone_run_with(lone, 200, both, 2, 0, false);
    uint64_t busy_us = trainer_busy_us(&lone->core->trainer, lone->core->awake);
    assert_true(busy_us > 200000);
    core_on_starved(lone->core, lone->now, 150000);
    assert_int_equal(trainer_busy_us(&lone->core->trainer, lone->core->awake), busy_us - 150000);
    core_on_starved(lone->core, lone->now, 1000000000); /* of several threads, or counted late */
    assert_int_equal(trainer_busy_us(&lone->core->trainer, lone->core->awake), 1);
    lone_run_with(lone, 100, both, 2, 0, false);
    busy_us = trainer_busy_us(&lone->core->trainer, lone->core->awake);
    assert_true(busy_us > 90000);
    core_on_starved(lone->core, lone->now, 0); /* it hangs */
    assert_int_equal(trainer_busy_us(&lone->core->trainer, lone->core->awake), busy_us);
    lone_train(lone);
    core_on_starved(lone->core, lone->now, 1000000000);
}

/* Messages of 8 come without a break, but the ticks are late: what 7 sent may wait, too. */
TEST(late_ticks_stretch_deadlines_though_messages_come)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    const struct proto_msg alive = {.type = PROTO_PEERS};
    struct awake awake = lone->core->awake;
    for (unsigned k = 0; k < 100; k++) {
        lone->now += 5000;
        lone_say(lone, 8, &alive);
    }
    core_on_tick(lone->core, lone->now);
    assert_true(awake_since(lone->core->awake, awake) <= CORE_GAPS_MAX * core_tick_us(lone->core));
    int i = peers_find(lone->core, lone_node(lone, 7));
    assert_true(i >= 0);
    assert_false(lone->core->view.of[i].suspected);
    for (unsigned k = 0; k < 100; k++) { /* and where ticks come in time, 7 is silent */
        lone->now += 5000;
        lone_say(lone, 8, &alive);
        if (k % 2)
            core_on_tick(lone->core, lone->now);
    }
    assert_true(lone->core->view.of[i].suspected);
}

/* A message that says nothing else keeps a peer alive: its core may be busy. */
TEST(an_empty_list_of_peers_says_that_a_node_is_alive)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    const struct proto_msg alive = {.type = PROTO_PEERS};
    for (unsigned k = 0; k < 20; k++) {
        lone_say(lone, 7, &alive);
        lone_run(lone, 50);
    }
    int seven = peers_find(lone->core, lone_node(lone, 7));
    int eight = peers_find(lone->core, lone_node(lone, 8));
    assert_false(lone->core->view.of[seven].suspected);
    assert_true(lone->core->view.of[eight].suspected);
}

TEST(threads_that_did_not_wait_add_nothing)
{
    struct starve starve = {.count = 0};
    assert_int_equal(starve_us(&starve), 0); /* the first call */
    assert_true(starve.count <= STARVE_THREADS_MAX);
    if (starve.count == 0)
        return;                               /* this system does not count */
    starve.threads[0].waited_ns = UINT64_MAX; /* a number that was taken again */
    assert_true(starve_us(&starve) < 1000000000);
}

/* A heartbeat of `id`, which hears us and the other one, and says when the next one comes. */
static void
beat_slowly(struct lone *lone, unsigned id, uint32_t pause_us)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.idle = true, .pause_us = pause_us, .state_hash = 77}};
    struct proto_hears hears = {.count = 2};
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, id == 7 ? 8 : 7);
    lone_say_beat(lone, id, &msg, &hears);
}

static bool
is_suspected(const struct lone *lone, unsigned id)
{
    return lone->core->view.of[peers_find(lone->core, lone_node(lone, id))].suspected;
}

/* A heartbeat of 7 before a round, sent at `sent_us`. */
static uint64_t
round_after(struct lone *lone, uint64_t round, uint64_t sent_us)
{
    struct proto_msg msg = {
        .type = PROTO_HEARTBEAT,
        .heartbeat = {.idle = true, .round = round, .state_hash = 77, .sent_us = sent_us}};
    struct proto_hears hears = {.count = 1};
    hears.nodes[0].node = lone_node(lone, 5);
    lone_say_beat(lone, 7, &msg, &hears);
    return lone->core->view.of[peers_find(lone->core, lone_node(lone, 7))].beat.round;
}

TEST(a_heartbeat_that_was_overtaken_says_nothing)
{
    OWNED(lone_destroy) struct lone *lone = meet();
    assert_int_equal(round_after(lone, 3, 5000000), 3);
    assert_int_equal(round_after(lone, 0, 5100000), 0);
    assert_int_equal(round_after(lone, 3, 5050000), 0);
    assert_int_equal(round_after(lone, 1, 5100000), 1);
    /* unless a bit of the time of the newer one flipped */
    assert_int_equal(round_after(lone, 2, UINT64_MAX / 2), 2);
    assert_int_equal(round_after(lone, 3, 5200000), 3);
}

static struct proto_msg
looks_around(const struct lone *lone, unsigned id)
{
    return (struct proto_msg){.type = PROTO_HELLO,
                              .hello = {.wants_job = true,
                                        .control_port = (uint16_t)(20000 + id),
                                        .bulk_port = (uint16_t)(30000 + id),
                                        .answers = lone->asked[id]}};
}

TEST(who_only_looks_hears_heartbeats_and_lists_now_and_then)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    struct proto_msg hello = looks_around(lone, 9);
    lone_say(lone, 9, &hello);
    lone_up(lone, 9);
    hello = looks_around(lone, 9);
    lone_say(lone, 9, &hello);
    lone_forget_sent(lone);
    lone_run_with(lone, 2000, (unsigned[]){7}, 1, 0, true);
    assert_in_range(lone_sent_count(lone, 9, PROTO_HEARTBEAT), 4, 6);
    assert_int_equal(lone_sent(lone, 9, PROTO_HEARTBEAT)->msg.heartbeat.pause_us, HEARTBEAT_FAR_US);
    assert_true(lone_sent_count(lone, 7, PROTO_HEARTBEAT) > 20);
    lone_say(lone, 9, &(struct proto_msg){.type = PROTO_WHOM});
    assert_int_equal(lone_sent(lone, 9, PROTO_HEARS)->msg.hears.count, 1);
}

TEST(a_node_without_a_job_knows_who_is_alive_and_how_fast_their_lines_are)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .wants_job = true);
    struct core_status status;
    struct proto_msg beat = {.type = PROTO_HEARTBEAT,
                             .heartbeat = {.pause_us = HEARTBEAT_FAR_US, .sent_us = 1}};
    struct proto_hears hears = {.count = 2};
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    hears.nodes[0] = (struct proto_hearing){lone_node(lone, 5), 0};
    hears.nodes[1] = (struct proto_hearing){lone_node(lone, 8), 1250000};
    lone_say_beat(lone, 7, &beat, &hears);
    hears.nodes[1] = (struct proto_hearing){lone_node(lone, 7), UINT32_MAX};
    lone_say_beat(lone, 8, &beat, &hears);
    core_status(lone->core, &status);
    assert_int_equal(status.here, 3);
    assert_int_equal(status.line, 1250000);
    for (uint64_t us = 0; us < CORE_FORGET_US; us += HEARTBEAT_FAR_US) {
        lone_run(lone, HEARTBEAT_FAR_US / 1000);
        beat.heartbeat.sent_us += HEARTBEAT_FAR_US;
        lone_say_beat(lone, 8, &beat, &hears);
    }
    lone_run(lone, 100);
    assert_int_equal(peers_find(lone->core, lone_node(lone, 7)), -1);
    assert_false(is_suspected(lone, 8));
    core_status(lone->core, &status);
    assert_int_equal(status.here, 2);
}

TEST(who_says_that_it_beats_slowly_may_be_silent_for_longer)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 9);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    beat_slowly(lone, 7, CORE_IDLE_US);
    for (unsigned t = 0; t < 1200; t += 50) {
        assert_int_equal(is_suspected(lone, 7), t > 1000);
        beat_slowly(lone, 8, CORE_HEARTBEAT_US);
        lone_run(lone, 50);
    }
    assert_true(is_suspected(lone, 7));
    assert_false(is_suspected(lone, 8));
    beat_slowly(lone, 7,
                PROTO_PAUSE_MAX_US); /* whatever it says: its session ends as soon as any other */
    lone_run(lone, 2 * CORE_FORGET_US / 1000);
    assert_int_equal(peers_find(lone->core, lone_node(lone, 7)), -1);
}

TEST(a_node_that_waits_beats_slowly_until_all_have_come)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 7);
    beat_slowly(lone, 7, CORE_IDLE_US);
    lone_run(lone, 200);
    lone_forget_sent(lone);
    for (unsigned t = 0; t < 2000; t += 200) {
        beat_slowly(lone, 7, CORE_IDLE_US);
        lone_run(lone, 200);
    }
    assert_in_range(lone_sent_count(lone, 7, PROTO_HEARTBEAT), 8, 11);
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.pause_us, CORE_IDLE_US);
    assert_true(core_tick_us(lone->core) > CORE_TICK_US);
    lone_meet(lone, 8);
    beat_slowly(lone, 8, CORE_IDLE_US);
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.pause_us,
                     CORE_HEARTBEAT_US);
    lone_run(lone, 10);
    assert_int_equal(core_tick_us(lone->core), CORE_TICK_US);
}

/* Ticks were due every 40 ms until the last one that was waited for came. */
TEST(the_clock_of_deadlines_never_runs_back)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 7);
    beat_slowly(lone, 7, CORE_IDLE_US);
    lone_meet(lone, 8);
    lone_run(lone, 300);
    lone->now += 3 * CORE_TICK_US;
    struct awake before = lone->core->awake;
    beat_slowly(lone, 8, CORE_IDLE_US);
    struct awake then = lone->core->awake;
    lone->now += 1000;
    beat_slowly(lone, 8, CORE_HEARTBEAT_US);
    assert_true(awake_before(before, then));
    assert_false(awake_before(lone->core->awake, then));
}

/* 7 has lost its power since its last heartbeat, and nobody had a reason to notice. */
TEST(no_plan_is_built_on_who_was_not_heard_lately)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 7);
    beat_slowly(lone, 7, CORE_IDLE_US);
    lone_run(lone, 500);
    assert_false(is_suspected(lone, 7));
    lone_meet(lone, 8);
    beat_slowly(lone, 7, CORE_IDLE_US); /* it hears 8; then it is silent */
    for (unsigned t = 0; t < 300; t += 10)
        lone_run(lone, 10);
    beat_slowly(lone, 8, CORE_IDLE_US);
    lone_run(lone, 100);
    assert_null(lone_sent(lone, 8, PROTO_PLAN));
    beat_slowly(lone, 8, CORE_HEARTBEAT_US);
    beat_slowly(lone, 7, CORE_HEARTBEAT_US); /* it was only slow */
    lone_run(lone, 10);
    assert_int_equal(lone_sent(lone, 8, PROTO_PLAN)->msg.plan.count, 3);
}

static const unsigned crowd[] = {2, 3, 4, 7, 8};

/* Node 5 among one more than may beat at the full rate. It leads no time soon: 2, 3 and 4 do. */
static struct lone *
crowd_new(void)
{
    struct lone *lone = LONE(.id = 5, .crowd = 5, .peers_min = 2);
    for (size_t k = 0; k < 5; k++)
        lone_meet(lone, crowd[k]);
    lone_run_with(lone, 1000, crowd, 5, 0, false);
    return lone;
}

TEST(in_a_crowd_only_those_who_lead_hear_everybody_at_the_full_rate)
{
    OWNED(lone_destroy) struct lone *lone = crowd_new();
    lone_forget_sent(lone);
    lone_run_with(lone, 2000, crowd, 5, 0, false);
    assert_in_range(lone_sent_count(lone, 4, PROTO_HEARTBEAT), 30, 45);
    assert_int_equal(lone_sent(lone, 4, PROTO_HEARTBEAT)->msg.heartbeat.pause_us,
                     CORE_HEARTBEAT_US);
    assert_in_range(lone_sent_count(lone, 7, PROTO_HEARTBEAT), 4, 6);
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.pause_us, HEARTBEAT_FAR_US);
}

/* 2 is left out: it does not lead, so 5 is one of the three. */
TEST(in_a_crowd_who_is_left_out_gives_its_place_to_the_next)
{
    OWNED(lone_destroy) struct lone *lone = crowd_new();
    const struct proto_msg benched = {
        .type = PROTO_HEARTBEAT, .heartbeat = {.benched = true, .idle = true, .state_hash = 77}};
    for (unsigned t = 0; t < 500; t += 50) {
        lone_say(lone, 2, &benched);
        lone_run_with(lone, 50, crowd + 1, 4, 0, false);
    }
    assert_false(is_suspected(lone, 2));
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.pause_us,
                     CORE_HEARTBEAT_US);
}

/* 2 was to lead, and is silent. So is 7, which beats at the rate of a crowd and is not suspected for long. */
TEST(who_has_missed_a_slow_beat_is_waited_for_as_anybody)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 2);
    lone_meet(lone, 2);
    beat_slowly(lone, 2, CORE_HEARTBEAT_US);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    beat_slowly(lone, 7, HEARTBEAT_FAR_US);
    for (unsigned t = 0; t < 700; t += 50) {
        if (t < 300)
            beat_slowly(lone, 2, CORE_HEARTBEAT_US);
        beat_slowly(lone, 8, CORE_HEARTBEAT_US);
        lone_run(lone, 50);
    }
    assert_true(is_suspected(lone, 2));
    assert_false(is_suspected(lone, 7));
    assert_int_equal(lone_sent(lone, 8, PROTO_PLAN)->msg.plan.count, 2);
}

TEST(one_more_than_a_crowd_may_be_hears_at_the_full_rate_when_one_is_gone)
{
    OWNED(lone_destroy) struct lone *lone = crowd_new();
    lone_say(lone, 4, &(struct proto_msg){.type = PROTO_BYE});
    lone_run_with(lone, 500, (unsigned[]){2, 3, 7, 8}, 4, 0, false);
    lone_forget_sent(lone);
    lone_run_with(lone, 1000, (unsigned[]){2, 3, 7, 8}, 4, 0, false);
    assert_in_range(lone_sent_count(lone, 7, PROTO_HEARTBEAT), 15, 23);
}

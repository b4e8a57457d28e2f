/* test_gossip_plan.c - whom a node waits for before its first plan, and which plans of others it follows. */
#include "tests/support/gossip_lone.h"
#include "tests/support/test.h"

static struct core *core;

/* This node has values, waits for 3 nodes, and has met node 2. */
static void
open_waiting(void)
{
    static const struct core_wire wire = {.send_bulk = NULL};
    static const struct gossip_keeper keeper = {.note = NULL};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .steps = 9, .count = GOSSIP_LONE_VALUES};
    core = gossip_lone(&gossip, &wire, 3);
    core->gossip.status = GOSSIP_NEW;
}

static void
hears(enum gossip_status status)
{
    struct proto_heartbeat *beat = &core->view.of[0].beat;
    *beat =
        (struct proto_heartbeat){.replica_count = 1, .replicas = {{.status = (uint16_t)status}}};
    engine_gossip.beat(core, 0, &(struct heartbeat_news){0});
}

TEST(a_node_waits_for_as_many_as_it_was_told)
{
    open_waiting();
    hears(GOSSIP_NEW);
    assert_true(gossip_plan_waits(core));
    core_destroy(&core);
}

/* Else it would wait for ever when those who train have died. */
TEST(a_node_that_heard_others_train_waits_for_nobody)
{
    open_waiting();
    hears(GOSSIP_TRAINING);
    core->peers.peers[0].state = PEER_FREE;
    assert_false(gossip_plan_waits(core));
    core_destroy(&core);
}

/* Under load a node met the leader when that had begun already, and trained alone at once, as it had waited for so
 * long. */
TEST(a_node_that_waited_for_others_gives_their_leader_time_for_a_plan)
{
    open_waiting();
    core->config.self.id = 3; /* node 2 leads */
    core->view.of[0].hears_me = true;
    hears(GOSSIP_NEW);
    core->awake = awake_after(core->awake, 60000000);
    core->view.of[0].heard_at = core->awake;
    assert_false(gossip_plan_step(&core->gossip.plan, core));
    hears(GOSSIP_TRAINING);
    assert_false(gossip_plan_waits(core));
    assert_false(gossip_plan_step(&core->gossip.plan, core));
    core->awake = awake_after(core->awake, CORE_STARVED_US + 1);
    assert_true(gossip_plan_step(&core->gossip.plan, core));
    assert_true(core->gossip.plan.now.count == 1);
    core_destroy(&core);
}

static bool
follows(uint64_t counter)
{
    const struct proto_plan plan = {
        .counter = counter,
        .leader = {2, 1},
        .complete = 15,
        .count = 2,
        .members = {{.node = {2, 1}, .shards = 3}, {.node = {1, 1}, .shards = 12}}};
    return gossip_plan_on_plan(&core->gossip.plan, core, 0, &plan);
}

/* A leader that did not see our session with it end repeats its plan. Schedule 90011211: with the old plan came the
 * snapshot that was named in it, older than those saved since, and both nodes waited for one another. */
TEST(a_plan_that_was_dropped_is_not_followed_again_after_however_many_others)
{
    open_waiting();
    core->gossip.status = GOSSIP_TRAINING;
    core->view.of[0].hears_me = true;
    assert_true(follows(1));
    assert_false(follows(1));
    core->view.of[0].suspected = true;
    for (int k = 0; k < 32; k++)
        gossip_plan_again(&core->gossip.plan, core); /* alone */
    core->view.of[0].suspected = false;
    core->gossip.plan.active = false;
    assert_false(follows(1));
    assert_true(follows(2));
    core_destroy(&core);
}

static unsigned wanted;

static void
on_wanted(void *ctx, const struct core_file_block *block)
{
    (void)ctx, (void)block;
    wanted++;
}

static void
on_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size)
{
    (void)ctx, (void)link, (void)msg, (void)body, (void)size;
}

TEST(who_trains_with_others_rests_after_each_block_of_a_file_that_it_gives)
{
    static const struct core_program program = {.file_wanted = on_wanted};
    static const struct core_wire wire = {.send = on_send};
    static const uint8_t body[4096];
    uint64_t now = 1000000, pause_us = UINT64_C(1000000) * FILES_SHARE * 2 * sizeof body;
    open_waiting();
    core->config.program = &program;
    core->config.wire = &wire;
    core->gossip.status = GOSSIP_TRAINING;
    core->view.of[0].hears_me = true;
    assert_true(follows(1));
    files_on_fetch(&core->files, core, 0,
                   &(struct proto_fetch){.object = PROTO_OBJECT_FILES, .count = 2});
    files_step(&core->files, core);
    assert_int_equal(wanted, 1);
    core_on_file(core, now, 99, body, sizeof body);
    assert_int_equal(wanted, 1);
    for (uint64_t at = 0; at <= pause_us / FILES_LINE; at += CORE_TICK_US) {
        assert_int_equal(wanted, 1);
        core_on_tick(core, now += CORE_TICK_US);
    }
    assert_int_equal(wanted, 2);
    core_destroy(&core);
}

/* test_gossip_copy.c - copies of values: what is given to whom, and what counts of that which comes. */
#include "tests/support/gossip_lone.h"
#include "tests/support/test.h"

enum { RANGES = GOSSIP_LONE_VALUES }; /* of one value each */

static struct core *core;
static unsigned gives, fetches;
static struct proto_fetch asked; /* the first one */

static void
on_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size)
{
    (void)ctx, (void)link, (void)body, (void)size;
    if (msg->type == PROTO_FETCH && fetches++ == 0)
        asked = msg->fetch;
}

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    (void)ctx, (void)link, (void)body, (void)lent;
    gives += msg->type == PROTO_GIVE && size == sizeof(int32_t);
}

/* This node has met node 2, and both are in plan 5. */
static int
begin(void **state)
{
    static const struct core_wire wire = {.send = on_send, .send_bulk = on_send_bulk};
    static const struct gossip_keeper keeper = {.note = NULL};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .steps = 9, .count = GOSSIP_LONE_VALUES};
    static const struct proto_plan plan = {
        .count = 2, .leader = {1, 1}, .members = {{.node = {1, 1}}, {.node = {2, 1}}}};
    (void)state;
    core = gossip_lone_in(&gossip, &wire, 1, 1);
    core->view.of[0].hears_me = true;
    core->gossip.plan.active = true;
    core->gossip.plan.hash = 5;
    core->gossip.plan.now = plan;
    gives = fetches = 0;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    core_destroy(&core);
    return 0;
}
TEST_EACH(begin, end)

/* How many blocks is peer 0 given of those that it asks for? */
static unsigned
given(unsigned object, uint64_t label, uint64_t block, uint16_t count)
{
    int32_t scratch[1];
    const struct proto_fetch fetch = {
        .object = (uint16_t)object, .label = label, .block = block, .count = count};
    gives = 0;
    gossip_copy_give(&core->gossip.copy, scratch, core, 0, &fetch);
    return gives;
}

TEST(a_node_gives_what_it_has_under_its_label)
{
    core->gossip.status = GOSSIP_TRAINING;
    assert_int_equal(given(PROTO_OBJECT_VALUES, 1, 0, RANGES), RANGES);
    assert_int_equal(given(PROTO_OBJECT_VALUES, 2, 0, RANGES), 0);
    assert_int_equal(given(PROTO_OBJECT_VALUES, 1, RANGES - 1, 2), 1);
    assert_int_equal(given(PROTO_OBJECT_VALUES, 1, 0, TRANSFER_RUN + 1), 0);
    assert_int_equal(given(PROTO_OBJECT_LAST, 5, 0, 1), 0);
    assert_int_equal(given(PROTO_OBJECT_RESULT, 0, 0, 1), 0);
    core->gossip.status = GOSSIP_QUIET;
    assert_int_equal(given(PROTO_OBJECT_LAST, 5, 0, 1), 1);
    assert_int_equal(given(PROTO_OBJECT_LAST, 6, 0, 1), 0);
    assert_int_equal(given(PROTO_OBJECT_LAST, 5, RANGES, 1), 0); /* that of the other member */
    core->gossip.status = GOSSIP_DONE;
    core->gossip.result = 77;
    assert_int_equal(given(PROTO_OBJECT_RESULT, 77, 1, 1), 1);
    assert_int_equal(given(PROTO_OBJECT_VALUES, 1, 0, 1), 0);
}

/* Peer 0 says so of itself. */
static void
says(enum gossip_status status)
{
    core->view.of[0].beat = (struct proto_heartbeat){
        .replica_count = 1,
        .replicas = {{.status = (uint16_t)status, .plan_hash = 5, .result = 77}}};
    engine_gossip.beat(core, 0, &(struct heartbeat_news){0});
    gossip_copy_step(&core->gossip.copy, &core->gossip.replica, core);
}

/* A block comes with value 3. */
static bool
counts(unsigned object, uint64_t label, uint64_t block, uint64_t weight)
{
    const int32_t value = 3;
    struct proto_give give = {
        .object = (uint16_t)object, .label = label, .block = block, .commit = weight};
    give.check = transfer_check(&give, 0, &value, sizeof value);
    return gossip_copy_take(&core->gossip.copy, &core->gossip.replica, core, 0, &give, &value,
                            sizeof value);
}

TEST(the_mean_is_of_each_members_own_blocks)
{
    core->gossip.status = GOSSIP_QUIET;
    says(GOSSIP_QUIET);
    assert_int_equal(asked.object, PROTO_OBJECT_LAST);
    assert_int_equal(asked.block, RANGES); /* node 2 has rank 1 */
    assert_false(counts(PROTO_OBJECT_LAST, 5, 0, GOSSIP_ONE));
    assert_false(counts(PROTO_OBJECT_LAST, 4, RANGES, GOSSIP_ONE));
    assert_false(counts(PROTO_OBJECT_VALUES, 5, RANGES, GOSSIP_ONE));
    assert_false(counts(PROTO_OBJECT_LAST, 5, RANGES, GOSSIP_WEIGHT_MAX + 1));
    assert_false(counts(PROTO_OBJECT_LAST, 5, 2 * RANGES, GOSSIP_ONE));
    for (uint64_t p = RANGES; p < 2 * RANGES; p++) {
        assert_int_equal(gossip_copy_end(&core->gossip.copy, &core->gossip.replica, core), 0);
        assert_true(counts(PROTO_OBJECT_LAST, 5, p, GOSSIP_ONE));
        assert_false(counts(PROTO_OBJECT_LAST, 5, p, GOSSIP_ONE)); /* again */
        says(GOSSIP_QUIET);
    }
    assert_int_equal(gossip_copy_end(&core->gossip.copy, &core->gossip.replica, core),
                     PROTO_OBJECT_LAST);
}

TEST(a_result_comes_under_its_hash)
{
    core->gossip.status = GOSSIP_TRAINING;
    says(GOSSIP_DONE);
    assert_int_equal(asked.object, PROTO_OBJECT_RESULT);
    assert_false(counts(PROTO_OBJECT_RESULT, 78, 0, GOSSIP_ONE));
    for (uint64_t p = 0; p < RANGES; p++) {
        assert_true(counts(PROTO_OBJECT_RESULT, 77, p, GOSSIP_ONE));
        says(GOSSIP_DONE);
    }
    assert_int_equal(gossip_copy_end(&core->gossip.copy, &core->gossip.replica, core),
                     PROTO_OBJECT_RESULT);
    assert_int_equal(core->gossip.replica.values[RANGES - 1], 3);
}

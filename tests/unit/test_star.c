/* Sums by elected servers: a worked example step by step, and what is refused. */
#include "compress/check.h"
#include "mesh/core/group/servers.h"
#include "tests/support/mutant.h"
#include "tests/support/rings.h"
#include "tests/support/test.h"

enum { ALL = (1 << RINGS_SHARDS) - 1, ELEMS = 8, WINDOW = 2 };

static const struct core_bucket bucket = {0, ELEMS};

/* Four members, of which `servers`, a bitmap, serve; eight ranges of one element. */
static struct rings *
mesh_of_four(unsigned servers, struct rand *rand)
{
    struct rings *rings = rings_new(4, &bucket, 1, 1, 0, rand);
    for (unsigned i = 0; i < 4; i++)
        rings->duties[i] = servers >> i & 1 ? servers_pack((struct servers_duty){1, 0, 63}) : 0;
    rings_plan(rings, 0xf, 1, rand);
    return rings;
}

static void
deliver_step(struct rings *rings)
{
    for (size_t k = rings_waiting(rings); k > 0; k--)
        rings_deliver(rings, 0);
}

static void
deliver_all(struct rings *rings)
{
    while (rings_waiting(rings) > 0)
        rings_deliver(rings, 0);
}

/* A member has WINDOW contributions under way: the next ones leave when the totals of these come back. */
TEST(one_server_sums_a_window_in_two_steps)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = mesh_of_four(1 << 2, &rand);
    for (unsigned i = 0; i < 4; i++)
        rings_ready(rings, i, 1);
    for (unsigned done = 0; done < ELEMS; done += WINDOW) {
        assert_int_equal(collective_status(rings->nodes[2].ring), COLLECTIVE_RUNNING);
        assert_int_equal(rings_waiting(rings), 3 * WINDOW);
        for (size_t k = 0; k < rings_waiting(rings); k++)
            assert_int_equal(rings->queue[k]->to, 2);
        deliver_step(rings);
        assert_int_equal(rings_waiting(rings), 3 * WINDOW);
        deliver_step(rings);
    }
    assert_int_equal(collective_status(rings->nodes[2].ring), COLLECTIVE_FINAL);
    assert_int_equal(rings_waiting(rings), 0);
    assert_true(rings_right(rings, 0));
    assert_int_equal(rings->nodes[2].bytes, 3 * ELEMS * sizeof(int32_t));
    assert_int_equal(rings->nodes[0].bytes, ELEMS * sizeof(int32_t));
    assert_int_equal(collective_served(rings->nodes[2].ring), ELEMS * sizeof(int32_t));
    assert_int_equal(collective_served(rings->nodes[0].ring), 0);
    assert_int_equal(rings->nodes[0].ring->served, ELEMS * sizeof(int32_t));
}

/* They are added as they come; only the last one of each range waits for our own one. */
TEST(a_server_that_computes_still_adds_what_comes)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = mesh_of_four(1, &rand);
    for (unsigned i = 1; i < 4; i++)
        rings_ready(rings, i, 1);
    collective_open(rings->nodes[0].ring);
    deliver_step(rings);
    assert_int_equal(rings->nodes[0].ring->kept_count, WINDOW);
    rings_ready(rings, 0, 1);
    assert_int_equal(rings->nodes[0].ring->kept_count, 0);
    deliver_all(rings);
    assert_true(rings_right(rings, 0));
}

/* While the trainer reads sum, nothing is written there. */
TEST(nothing_is_added_before_sum_may_be_written)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = mesh_of_four(1, &rand);
    for (unsigned i = 1; i < 4; i++)
        rings_ready(rings, i, 1);
    deliver_step(rings);
    assert_int_equal(rings->nodes[0].ring->kept_count, 3 * WINDOW);
    for (unsigned e = 0; e < ELEMS; e++)
        assert_int_equal(rings->nodes[0].sum[e], 0x77777777);
    collective_open(rings->nodes[0].ring);
    assert_int_equal(rings->nodes[0].ring->kept_count, WINDOW);
    rings_ready(rings, 0, 1);
    deliver_all(rings);
    assert_true(rings_right(rings, 0));
}

TEST(each_may_serve_a_part)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = mesh_of_four(0xf, &rand);
    for (unsigned i = 0; i < 4; i++)
        rings_ready(rings, i, 1);
    deliver_step(rings);
    deliver_step(rings);
    assert_int_equal(rings_waiting(rings), 0);
    assert_true(rings_right(rings, 0));
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(rings->nodes[i].bytes, rings_cost(rings, i, 0, 0));
}

/* --- What is refused ------------------------------------------------------------------------------ */

/* To node 0, which serves alone and has computed: a message with this body from node 3. */
static struct proto_msg
good_reduce(const int32_t *body)
{
    return (struct proto_msg){
        .type = PROTO_REDUCE,
        .chunk = {.plan_hash = 1, .hop = 5, .first = 5, .count = 1, .check = check_of(body, 0, 1)}};
}

/* To node 0 when node 1 serves alone: a total. */
static struct proto_msg
good_gather(const int32_t *body)
{
    struct proto_msg msg = good_reduce(body);
    msg.type = PROTO_GATHER;
    msg.chunk.coverage = ALL;
    return msg;
}

static enum collective_status
after(unsigned servers, bool ready, unsigned from, const struct proto_msg *msg, int32_t value,
      size_t size)
{
    int32_t body[2] = {value, value};
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = mesh_of_four(servers, &rand);
    static struct rings_message message;
    message = (struct rings_message){.uses = 1000};
    struct core_frame frame = {body, size, &message};
    if (ready)
        rings_ready(rings, 0, 1);
    else
        collective_open(rings->nodes[0].ring);
    collective_chunk(rings->nodes[0].ring, (struct proto_node){from + 1, 1}, msg, &frame, 0);
    enum collective_status status = collective_status(rings->nodes[0].ring);
    return status;
}

TEST(a_contribution_that_contradicts_the_plan_breaks_it)
{
    const int32_t body[1] = {12};
    struct proto_msg good = good_reduce(body);
    for (int ready = 0; ready < 2; ready++) {
        assert_int_equal(after(1, ready, 3, &good, 12, 4), COLLECTIVE_RUNNING);
        assert_int_equal(after(1, ready, 3, &good, 13, 4), COLLECTIVE_BROKEN);
        assert_int_equal(after(1, ready, 3, &good, 12, 3), COLLECTIVE_BROKEN);
        assert_int_equal(after(2, ready, 3, &good, 12, 4), COLLECTIVE_BROKEN); /* not our range */
        assert_int_equal(after(1, ready, 8, &good, 12, 4), COLLECTIVE_BROKEN);
#define SPOILT(field, value)                                                                       \
    do {                                                                                           \
        struct proto_msg bad = good;                                                               \
        bad.chunk.field = (value);                                                                 \
        assert_int_equal(after(1, ready, 3, &bad, 12, bad.chunk.count == 2 ? 8 : 4),               \
                         COLLECTIVE_BROKEN);                                                       \
    } while (0)
        SPOILT(hop, 4);
        SPOILT(hop, UINT16_MAX);
        SPOILT(first, 4);
        SPOILT(first, ELEMS);
        SPOILT(first, UINT64_MAX);
        SPOILT(count, 0);
        SPOILT(count, 2);
        SPOILT(bucket, 1);
        SPOILT(coverage, ALL);
        SPOILT(check, good.chunk.check + 1);
        SPOILT(direct, true);
        SPOILT(state_hash, 1);
#undef SPOILT
    }
}

TEST(a_total_that_contradicts_the_plan_breaks_it)
{
    const int32_t body[1] = {12};
    struct proto_msg good = good_gather(body);
    assert_int_equal(after(2, true, 1, &good, 12, 4), COLLECTIVE_RUNNING);
    assert_int_equal(after(2, true, 1, &good, 13, 4), COLLECTIVE_BROKEN);
    assert_int_equal(after(2, true, 3, &good, 12, 4), COLLECTIVE_BROKEN);  /* from no server */
    assert_int_equal(after(2, false, 1, &good, 12, 4), COLLECTIVE_BROKEN); /* without us */
    struct proto_msg bad = good;
    bad.chunk.coverage = ALL & ~1;
    assert_int_equal(after(2, true, 1, &bad, 12, 4), COLLECTIVE_BROKEN);
    bad = good;
    bad.chunk.hop = 6;
    assert_int_equal(after(2, true, 1, &bad, 12, 4), COLLECTIVE_BROKEN);
}

/* No schedule of the simulator finds this one: a sum by the wrong server would still need the shards of all. */
TEST(who_serves_a_range_is_compared_and_nothing_else_would_stop_another)
{
    const int32_t body[1] = {12};
    struct proto_msg reduce = good_reduce(body), gather = good_gather(body);
    for (int planted = 0; planted < 2; planted++) {
        enum collective_status want = planted ? COLLECTIVE_RUNNING : COLLECTIVE_BROKEN;
        mutants_planted = planted ? MUTANT_STAR_OWNER : 0;
        assert_int_equal(after(2, true, 3, &reduce, 12, 4), want);
        assert_int_equal(after(2, true, 3, &gather, 12, 4), want);
    }
    mutants_planted = 0;
}

/* A member without shards must be waited for, too: it says so with a contribution of zeros. */
TEST(the_same_contribution_again_changes_nothing)
{
    struct rand rand = {1};
    OWNED(rings_destroy) struct rings *rings = mesh_of_four(1, &rand);
    rings_ready(rings, 0, 1);
    static struct rings_message message;
    message = (struct rings_message){.uses = 1000};
    int32_t body[1] = {12};
    struct core_frame frame = {body, 4, &message};
    struct proto_msg msg = good_reduce(body);
    for (int k = 0; k < 5; k++)
        collective_chunk(rings->nodes[0].ring, (struct proto_node){4, 1}, &msg, &frame, 0);
    assert_int_equal(collective_status(rings->nodes[0].ring), COLLECTIVE_RUNNING);
    assert_int_equal(rings->nodes[0].sum[5], rings->nodes[0].own[5] + 12);
    assert_int_equal(rings_waiting(rings), 0);
}

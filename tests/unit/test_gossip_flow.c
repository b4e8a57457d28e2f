/* The arithmetic of flows: nothing is lost, nothing overflows. */
#include "mesh/core/gossip/gossip_flow.h"
#include "tests/support/test.h"

TEST(an_average_flows_from_one_end_to_the_other)
{
    int64_t giver[4] = {9, -9, 10, 0}, taker[4] = {0, 0, 3, 0};
    int32_t mine[4], theirs[4], flow[4];
    gossip_flow_clamp(mine, giver, 4);
    gossip_flow_clamp(theirs, taker, 4);
    gossip_flow_average(flow, mine, theirs, 2, 4);
    gossip_flow_give(giver, flow, 4);
    gossip_flow_add(taker, flow, 4);
    const int64_t left[4] = {5, -5, 7, 0}, came[4] = {4, -4, 6, 0}; /* remainders stay */
    assert_memory_equal(giver, left, sizeof left);
    assert_memory_equal(taker, came, sizeof came);
}

/* AD-PSGD: x_i, x_j <- (x_i + x_j) / 2; D-PSGD on a ring: thirds. */
TEST(the_reference_cases)
{
    int64_t giver = 8 * GOSSIP_ONE, taker = 2 * GOSSIP_ONE;
    int32_t mine = (int32_t)giver, theirs = (int32_t)taker, flow;
    gossip_flow_average(&flow, &mine, &theirs, 2, 1);
    gossip_flow_give(&giver, &flow, 1);
    gossip_flow_add(&taker, &flow, 1);
    assert_true(giver == 5 * GOSSIP_ONE && taker == 5 * GOSSIP_ONE);
    int64_t x[3] = {9, 0, 3}; /* ring of three: all 4 after one round */
    int32_t at[3] = {9, 0, 3};
    for (int k = 0; k < 3; k++) {
        gossip_flow_average(&flow, &at[k], &at[(k + 1) % 3], 3, 1);
        gossip_flow_give(&x[k], &flow, 1);
        gossip_flow_add(&x[(k + 1) % 3], &flow, 1);
    }
    for (int k = 0; k < 3; k++)
        assert_int_equal(x[k], 4);
}

TEST(shares_leave_the_rest_at_home)
{
    int64_t values[3] = {10, -10, 1};
    int32_t mine[3], flow[3];
    gossip_flow_clamp(mine, values, 3);
    gossip_flow_share(flow, mine, 3, 3);
    gossip_flow_give(values, flow, 3);
    const int32_t part[3] = {3, -3, 0};
    const int64_t rest[3] = {7, -7, 1};
    assert_memory_equal(flow, part, sizeof part);
    assert_memory_equal(values, rest, sizeof rest);
}

TEST(extremes_do_not_overflow)
{
    int64_t giver[2] = {INT32_MAX, INT32_MIN}, far[2] = {INT64_C(1) << 40, -(INT64_C(1) << 40)};
    int32_t mine[2] = {INT32_MAX, INT32_MIN}, theirs[2] = {INT32_MIN, INT32_MAX}, flow[2], out[2];
    gossip_flow_average(flow, mine, theirs, 2, 2);
    gossip_flow_give(giver, flow, 2);
    assert_int_equal(flow[0], INT32_MAX);
    assert_int_equal(giver[0], 0);
    gossip_flow_clamp(out, far, 2);
    assert_int_equal(out[0], INT32_MAX);
    assert_int_equal(out[1], INT32_MIN);
    assert_true(gossip_flow_fits(GOSSIP_WEIGHT_MAX - 5, 5));
    assert_false(gossip_flow_fits(GOSSIP_WEIGHT_MAX - 5, 6));
    assert_false(gossip_flow_fits(0, -1));
    assert_false(gossip_flow_fits(0, INT64_MAX));
}

TEST(bodies_may_have_any_alignment)
{
    uint8_t bytes[9];
    int32_t body[2] = {-7, 8}, mine[2] = {0, 0}, flow[2];
    int64_t values[2] = {0, 0};
    memcpy(bytes + 1, body, sizeof body);
    gossip_flow_set(values, bytes + 1, 2);
    gossip_flow_add(values, bytes + 1, 2);
    gossip_flow_average(flow, mine, bytes + 1, 2, 2);
    gossip_flow_give(values, flow, 2);
    const int64_t expected[2] = {-14 - 3, 16 + 4};
    assert_memory_equal(values, expected, sizeof expected);
    assert_true(gossip_flow_square(flow, 2) == 9 + 16);
}

/* What was told flows, and the largest of the rest; what was not is told later. */
TEST(few_are_told_and_the_rest_comes_later)
{
    struct codec half = *codec_of(CODEC_topk);
    half.share = 0.5;
    int64_t giver[4] = {100, -9, 10, 0}, taker[4] = {0, 40, 3, -7};
    int32_t mine[4], theirs[4], change[4], flow[4], asked[4] = {0}, given[4] = {0};
    for (int round = 0; round < 2; round++) {
        gossip_flow_clamp(theirs, taker, 4);
        gossip_flow_clamp(mine, giver, 4);
        gossip_flow_tell(change, asked, theirs, &half, 4);
        assert_int_equal(change[1], round ? 0 : 40);
        assert_int_equal(change[2], round ? 3 : 0);
        gossip_flow_few(flow, given, mine, change, &half, 2, 4);
        gossip_flow_give(giver, flow, 4);
        gossip_flow_add(taker, flow, 4);
        gossip_flow_follow(asked, flow, 4);
        assert_memory_equal(asked, given, sizeof asked);
    }
    const int64_t left[4] = {50, 15, 7, -3}, came[4] = {50, 16, 6, -4};
    assert_memory_equal(giver, left, sizeof left);
    assert_memory_equal(taker, came, sizeof came);
    const int32_t far[1] = {INT32_MAX};
    int32_t copy[1] = {INT32_MIN};
    gossip_flow_tell(change, copy, far, &half, 1); /* twice as far as an int32 goes */
    assert_int_equal(copy[0], -1);
    gossip_flow_tell(change, copy, far, &half, 1);
    gossip_flow_tell(change, copy, far, &half, 1);
    assert_int_equal(copy[0], INT32_MAX);
}

TEST(means_are_exact_and_rounded_towards_zero)
{
    int64_t sums[5] = {7, -7, 64 * (int64_t)INT32_MAX, 9, 11};
    const int64_t weight[3] = {2 * GOSSIP_ONE, 64 * GOSSIP_ONE, 0};
    gossip_flow_mean(sums, weight, 2, 2);
    assert_int_equal(sums[0], 3);
    assert_int_equal(sums[1], -3);
    gossip_flow_mean(sums + 2, weight + 1, 1, 2); /* each has another weight */
    assert_int_equal(sums[2], INT32_MAX);
    assert_int_equal(sums[3], 9);
    assert_int_equal(sums[4], 11);
    assert_int_equal(gossip_flow_ratio(5, GOSSIP_ONE / 2), 10);
}

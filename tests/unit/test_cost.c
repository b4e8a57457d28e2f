/* How shards are divided over the members of a plan, and how long a round takes. */
#include "mesh/core/group/cost.h"
#include "mesh/core/group/servers.h"
#include "mesh/core/pipeline/divide.h"
#include "proto/proto.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { ALL = 0xfff, MS = 1000, MIB = 1 << 20 };

TEST(divisions_are_disjoint_and_complete_whatever_goes_in)
{
    struct rand rand = {4};
    for (int k = 0; k < 5000; k++) {
        size_t n = (size_t)rand_range(&rand, 1, PROTO_PEERS_MAX);
        unsigned count = (unsigned)rand_range(&rand, 1, 64);
        uint64_t all = count == 64 ? UINT64_MAX : (1ull << count) - 1;
        uint64_t have[PROTO_PEERS_MAX], shards[PROTO_PEERS_MAX], seen = 0;
        uint32_t speed[PROTO_PEERS_MAX];
        for (size_t m = 0; m < n; m++) {
            have[m] = rand_bool(&rand) ? rand_any(&rand) : 0;
            speed[m] = (uint32_t)rand_any(&rand);
        }
        divide_shards(all, n, have, speed, shards);
        for (size_t m = 0; m < n; m++) {
            assert_int_equal(seen & shards[m], 0);
            seen |= shards[m];
        }
        assert_true(seen == all);
    }
}

TEST(equals_get_equal_shares)
{
    uint64_t have[5] = {0}, shards[5];
    uint32_t unknown[5] = {0, 9, 9, 9, 9};
    divide_shards(ALL, 5, have, unknown, shards);
    for (int m = 0; m < 5; m++)
        assert_in_range(__builtin_popcountll(shards[m]), 2, 3);
}

TEST(the_fast_get_more)
{
    uint64_t have[3] = {0}, shards[3];
    uint32_t speed[3] = {10, 20, 30};
    divide_shards(ALL, 3, have, speed, shards);
    for (int m = 0; m < 3; m++)
        assert_int_equal(__builtin_popcountll(shards[m]), 2 * (m + 1));
}

/* What is left out of a shard's gradient (core_state.pinned) is with them, and is not with others. */
TEST(a_shard_goes_to_one_of_those_who_have_it)
{
    uint64_t have[4] = {0x00f, 0x0f3, 0xf0c, 0}, shards[4];
    uint32_t speed[4] = {1, 1, 1, 100};
    divide_shards(ALL, 4, have, speed, shards);
    for (int m = 0; m < 3; m++)
        assert_int_equal(shards[m] & ~have[m], 0);
    assert_int_equal(shards[0] | shards[1] | shards[2], ALL);
}

TEST(what_is_computed_already_is_kept_whole_or_not_at_all)
{
    uint64_t have[3] = {0x0f0, 0x00f, 0x810}, shards[3];
    uint32_t speed[3] = {0};
    divide_shards(ALL, 3, have, speed, shards);
    assert_int_equal(shards[0] & 0x0f0, 0x0f0);
    assert_int_equal(shards[1] & 0x00f, 0x00f);
    assert_int_equal(shards[0] | shards[1] | shards[2], ALL);
    assert_int_equal(shards[2], 0xf00); /* overlaps with the first: starts anew */
}

TEST(the_last_member_to_finish_decides_how_long_it_takes)
{
    const uint32_t speed[3] = {100000000, 50000000, 1}; /* a shard in 10 ms, in 20, in 1e6 s */
    assert_int_equal(cost_computed_us(3, (uint64_t[]){0x7, 0x8, 0}, speed), 30000);
    assert_int_equal(cost_computed_us(3, (uint64_t[]){0x1, 0x6, 0}, speed), 40000);
    assert_int_equal(cost_computed_us(3, (uint64_t[]){0, 0, UINT64_MAX}, speed),
                     UINT64_C(64000000000000));
    assert_int_equal(cost_computed_us(0, NULL, NULL), 0);
}

/* --- Rounds --------------------------------------------------------------------------------------- */

static const struct core_bucket one_bucket[] = {{0, 500000}}; /* 2 MB */

/* n equal members: a shard in 10 ms, lines of 100 Mbit/s. */
static struct cost
equal(size_t n)
{
    struct cost cost = {.n = n,
                        .shards = 12,
                        .buckets = one_bucket,
                        .bucket_count = 1,
                        .chunk_elems = PROTO_CHUNK_MAX};
    for (size_t m = 0; m < n; m++)
        cost.of[m] = (struct cost_member){.speed = 100000000, .apply_us = MS, .line = 12500000};
    return cost;
}

static uint64_t
all_of(const struct cost *cost)
{
    return (UINT64_C(1) << cost->n) - 1;
}

/* 2 MB at 12.5 MB/s: 160 ms one way. */
TEST(bytes_on_the_lines_are_those_of_the_route)
{
    struct cost cost = equal(4);
    assert_in_range(cost_ring_us(&cost, 2000000), 240 * MS, 243 * MS); /* 2 x 3/4 */
    assert_int_equal(cost_sums_us(&cost), cost_ring_us(&cost, 2000000));
    for (size_t m = 0; m < 4; m++)
        cost.of[m].weight = 1;
    assert_in_range(cost_star_us(&cost, 2000000), 300 * MS, 303 * MS); /* 2 x 3/4, crowded */
    for (size_t m = 1; m < 4; m++)
        cost.of[m].weight = 0;
    assert_in_range(cost_star_us(&cost, 2000000), 600 * MS, 603 * MS); /* all to one */
    cost = equal(2);
    assert_in_range(cost_ring_us(&cost, 2000000), 160 * MS, 161 * MS);
    for (size_t m = 0; m < 2; m++)
        cost.of[m].line = 0;
    assert_in_range(cost_ring_us(&cost, 2000000), 1, MS);
}

TEST(alone_a_round_is_computed_and_applied)
{
    struct cost cost = equal(4);
    cost.fixed_us = 2 * MS;
    assert_int_equal(cost_round_us(&cost, 1), 123 * MS);
    cost.of[0].speed *= 2;
    assert_int_equal(cost_round_us(&cost, 1), 63 * MS);
    assert_int_equal(cost_round_us(&cost, 2), 123 * MS);
    for (size_t m = 0; m < 4; m++)
        cost.of[m].speed = 0;
    assert_int_equal(cost_round(&cost, 15).compute_us, 0);
}

TEST(a_bucket_travels_while_the_next_one_is_computed)
{
    const struct core_bucket four[] = {
        {0, 125000}, {125000, 125000}, {250000, 125000}, {375000, 125000}};
    struct cost cost = equal(4), late = cost;
    cost.buckets = four;
    cost.bucket_count = 4;
    assert_in_range(cost_round(&late, 15).compute_us, 30 * MS, 30 * MS);
    assert_in_range(cost_round(&late, 15).lines_us, 240 * MS, 242 * MS);
    /* the lines are busy from the first bucket on, after 10 + 5 ms */
    assert_in_range(cost_round(&cost, 15).lines_us, 225 * MS, 227 * MS);
    for (size_t m = 0; m < 4; m++)
        cost.of[m].speed /= 100;
    assert_in_range(cost_round(&cost, 15).lines_us, 60 * MS, 62 * MS); /* the last bucket */
}

TEST(the_slowest_line_and_the_slowest_trainer_decide)
{
    struct cost cost = equal(4);
    uint64_t before_us = cost_round_us(&cost, 15);
    cost.of[2].line = 1250000;
    assert_in_range(cost_round_us(&cost, 15), before_us + 2159 * MS, before_us + 2161 * MS);
    assert_in_range(cost_round(&cost, 11).lines_us, 213 * MS, 215 * MS); /* 2 x 2/3 */
    cost.of[1].apply_us = 50 * MS;
    assert_int_equal(cost_round(&cost, 11).apply_us, 50 * MS);
    assert_int_equal(cost_round(&cost, 13).apply_us, MS);
}

TEST(who_is_slow_gets_fewer_shards_but_for_equal_parts)
{
    struct cost cost = equal(2);
    cost.of[1].speed /= 5;
    assert_int_equal(cost_round(&cost, 3).compute_us, 100 * MS); /* 10 and 2 */
    cost.even = true;
    assert_int_equal(cost_round(&cost, 3).compute_us, 300 * MS);
}

/* The rounds of all sets against the same question asked of the members alone. */
TEST(a_set_costs_what_its_members_cost_by_themselves)
{
    struct rand rand = {28};
    for (int k = 0; k < 300; k++) {
        struct cost cost = equal((size_t)rand_range(&rand, 1, 6));
        for (size_t m = 0; m < cost.n; m++)
            cost.of[m] = (struct cost_member){.speed = (uint32_t)rand_any(&rand) | 1,
                                              .apply_us = (uint32_t)rand_range(&rand, 0, MIB),
                                              .line = (uint32_t)rand_range(&rand, 0, MIB)};
        for (uint64_t set = 1; set <= all_of(&cost); set++) {
            struct cost own = cost;
            own.n = 0;
            for (size_t m = 0; m < cost.n; m++)
                if (set >> m & 1)
                    own.of[own.n++] = cost.of[m];
            assert_int_equal(cost_round_us(&cost, set), cost_round_us(&own, all_of(&own)));
            struct cost_round round = cost_round(&cost, set);
            assert_int_equal(cost_round_us(&cost, set),
                             round.compute_us + round.lines_us + round.apply_us);
            assert_true(round.lines_us == 0 || own.n > 1);
        }
    }
}

/* Nothing overflows into a small time, whatever members say of themselves. */
TEST(any_claims_have_a_time)
{
    struct cost cost = equal(4);
    cost.of[3] = (struct cost_member){.speed = 1, .apply_us = UINT32_MAX, .line = 1};
    assert_true(cost_round_us(&cost, 15) > 3600 * UINT64_C(1000000));
}

/* All members must agree, so these are numbers of the protocol: at 64 KiB and fewer, 68 kB among 3, 53 kB among 4, 35
 * kB among 16. */
TEST(small_buckets_go_directly_only_where_that_pays)
{
    enum { SMALL = 64 << 10 };
    assert_true(servers_direct(1, 0, 2 * MIB) && servers_direct(2, SMALL, MIB));
    assert_false(servers_direct(2, 0, 4) || servers_direct(2, SMALL, 2 * MIB));
    assert_true(servers_direct(3, SMALL, SMALL) && !servers_direct(3, SMALL, SMALL + 4));
    assert_true(servers_direct(4, SMALL, 53332) && !servers_direct(4, SMALL, 53336));
    assert_true(servers_direct(16, SMALL, 35552) && !servers_direct(16, SMALL, 35556));
    for (size_t n = 3; n <= 64; n++)
        assert_true(servers_direct(n, SMALL, 32000) && !servers_direct(n, 0, 4));
    static const struct core_bucket small[] = {{0, 2500}}; /* 10 kB: 3 of them in 2.4 ms, crowded */
    struct cost cost = equal(4);
    cost.buckets = small;
    cost.direct_bytes = SMALL;
    assert_in_range(cost_sums_us(&cost), 3 * MS, 4 * MS);
}

/* Who serves which range, how few ranges move, and who is elected. */
#include "mesh/core/group/plan_elect.h"
#include "mesh/core/group/servers.h"
#include "proto/mix.h"
#include "tests/support/test.h"

enum { RANGES = 4096, MIB = 1 << 20 };

static const struct servers_duty all_sizes = {1, 0, SERVERS_SIZE_MAX};

/* n members whose ids come from `seed`, all of them servers of this weight. */
static struct proto_plan
plan_of(size_t n, unsigned weight, uint64_t seed)
{
    struct proto_plan plan = {.count = n};
    struct servers_duty duty = all_sizes;
    duty.weight = weight;
    for (size_t m = 0; m < n; m++) {
        plan.members[m].node.id = mix64_pair(seed, m);
        plan.members[m].duties = servers_pack(duty);
    }
    return plan;
}

/* The ids of the servers of RANGES ranges of bucket 0. */
static const uint64_t *
owners(const struct proto_plan *plan, uint64_t ids[RANGES])
{
    struct servers_deal deal;
    servers_deal(&deal, plan, MIB, 0, RANGES);
    for (size_t r = 0; r < RANGES; r++)
        ids[r] = plan->members[servers_deal_next(&deal)].node.id;
    return ids;
}

/* --- Duties and geometry -------------------------------------------------------------------------- */

TEST(duties_are_packed_and_unpacked)
{
    struct servers_duty duty = {7, 16, 24}, again = servers_unpack(servers_pack(duty));
    assert_memory_equal(&duty, &again, sizeof duty);
    assert_int_equal(servers_pack((struct servers_duty){0, 16, 24}), 0);
    struct proto_plan plan = plan_of(2, 3, 1);
    assert_true(servers_valid(&plan));
    static const uint64_t bad[] = {
        17, 31, 1 << 5, 1u << 14 | 1, 0x100, UINT64_C(1) << 22 | 1, UINT64_MAX};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        plan.members[1].duties = bad[k];
        assert_false(servers_valid(&plan));
    }
}

static void
check_cut(const struct core_bucket *bucket, uint32_t chunk, const struct proto_plan *plan)
{
    struct servers_ranges cut = servers_divide(bucket, chunk, plan);
    uint64_t at = bucket->first;
    for (size_t r = 0; r < cut.count; r++) {
        assert_int_equal(servers_begin(&cut, bucket, r), at);
        uint64_t end = servers_end(&cut, bucket, r);
        assert_in_range(end - at, 1, chunk);
        at = end;
    }
    assert_int_equal(at, bucket->first + bucket->count);
    assert_in_range(cut.count, 0, servers_ranges_max(bucket, chunk));
}

TEST(ranges_cover_a_bucket_and_none_is_longer_than_a_chunk)
{
    static const uint64_t firsts[] = {0, 1, 15, 16, 1000003};
    static const uint64_t counts[] = {0, 1, 17, 65536, 1 << 20, 4000037, 40000000};
    for (size_t n = 1; n <= PROTO_PEERS_MAX; n = n < 6 ? n + 1 : n * 2 - 3) {
        struct proto_plan alike = plan_of(n, 16, 1), unlike = alike;
        unlike.members[0].duties = servers_pack((struct servers_duty){3, 0, SERVERS_SIZE_MAX});
        for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (uint32_t chunk = 1 << 10; chunk <= PROTO_CHUNK_MAX; chunk *= 4) {
                    struct core_bucket bucket = {firsts[f], counts[c]};
                    if (counts[c] > 0) {
                        check_cut(&bucket, chunk, &alike);
                        check_cut(&bucket, chunk, &unlike);
                    }
                }
    }
    struct core_bucket none = {5, 0};
    assert_int_equal(servers_ranges_max(&none, 100), 0);
}

/* The ranges of a bucket of so many MiB, and the most that one server has. */
static size_t
most_ranges(const struct proto_plan *plan, uint64_t mib, size_t *ranges)
{
    struct core_bucket bucket = {16 * 999 + 3, mib * MIB / sizeof(int32_t)};
    struct servers_deal deal;
    size_t most = 0;
    *ranges = servers_divide(&bucket, PROTO_CHUNK_MAX, plan).count;
    servers_deal(&deal, plan, mib * MIB, 0, *ranges);
    for (size_t m = 0; m < plan->count; m++)
        most = deal.room[m] > most ? deal.room[m] : most;
    return most;
}

TEST(servers_alike_have_equally_many_ranges)
{
    static const struct {
        size_t servers, mib, ranges, most;
    } cases[] = {{4, 1, 4, 1}, {4, 4, 12, 3},  {4, 16, 36, 9},    {3, 16, 33, 11},
                 {1, 1, 3, 3}, {8, 16, 40, 5}, {5, 100, 205, 41}, {4, 15, 32, 8}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct proto_plan plan = plan_of(cases[k].servers, 9, k);
        size_t ranges;
        assert_int_equal(most_ranges(&plan, cases[k].mib, &ranges), cases[k].most);
        assert_int_equal(ranges, cases[k].ranges);
    }
}

TEST(buckets_of_other_sizes_have_no_server)
{
    struct proto_plan plan = plan_of(3, 1, 1);
    assert_true(servers_take(&plan, 4));
    for (size_t m = 0; m < 3; m++)
        plan.members[m].duties = servers_pack((struct servers_duty){1, 16, 20});
    assert_false(servers_take(&plan, 1 << 16));
    assert_true(servers_take(&plan, (1 << 16) + 4));
    assert_true(servers_take(&plan, 1 << 20));
    assert_false(servers_take(&plan, (1 << 20) + 4));
}

/* --- Rendezvous ----------------------------------------------------------------------------------- */

static size_t
differ(const uint64_t *a, const uint64_t *b)
{
    size_t many = 0;
    for (size_t r = 0; r < RANGES; r++)
        many += a[r] != b[r];
    return many;
}

/* Those of the member that went or came, and few others: who has its share passes some on. */
TEST(a_member_that_comes_or_goes_moves_few_ranges_beside_its_own)
{
    static uint64_t a[RANGES], b[RANGES];
    for (size_t n = 1; n < 12; n++)
        for (unsigned weight = 1; weight <= SERVERS_WEIGHT_MAX; weight += 5) {
            struct proto_plan more = plan_of(n + 1, weight, n), less = plan_of(n, weight, n);
            size_t moved = differ(owners(&more, a), owners(&less, b));
            assert_in_range(moved, RANGES / (n + 1), RANGES / (n + 1) * 13 / 10);
        }
}

TEST(the_order_of_members_does_not_matter)
{
    static uint64_t a[RANGES], b[RANGES];
    struct proto_plan plan = plan_of(5, 4, 9), turned = plan;
    for (size_t m = 0; m < 5; m++)
        turned.members[m] = plan.members[4 - m];
    assert_int_equal(differ(owners(&plan, a), owners(&turned, b)), 0);
}

/* How many of `ranges` ranges each of three servers with weights 4, 12 and 0 gets. */
static void
count_shares(size_t ranges, size_t count[3])
{
    static const unsigned weight[3] = {4, 12, 0};
    struct proto_plan plan = plan_of(3, 1, 5);
    struct servers_duty duty = all_sizes;
    for (unsigned m = 0; m < 3; m++) {
        duty.weight = weight[m];
        plan.members[m].duties = servers_pack(duty);
    }
    struct servers_deal deal;
    servers_deal(&deal, &plan, MIB, 1, ranges);
    for (size_t r = 0; r < ranges; r++)
        count[servers_deal_next(&deal)]++;
}

TEST(no_server_has_more_than_its_share_by_weight_rounded_up)
{
    for (size_t ranges = 1; ranges < 300; ranges++) {
        size_t count[3] = {0};
        count_shares(ranges, count);
        assert_true(count[0] <= (ranges + 3) / 4 && count[1] <= (3 * ranges + 3) / 4);
        assert_int_equal(count[0] + count[1], ranges);
    }
}

/* A change of weight by one sixteenth moves about as many ranges. */
TEST(a_change_of_weight_moves_few_ranges)
{
    static uint64_t a[RANGES], b[RANGES];
    struct proto_plan before = plan_of(4, 16, 3), after = before;
    struct servers_duty duty = all_sizes;
    duty.weight = 15;
    after.members[2].duties = servers_pack(duty);
    assert_in_range(differ(owners(&before, a), owners(&after, b)), 1, RANGES / 64 * 3);
}

/* --- Electing ------------------------------------------------------------------------------------- */

static struct cost
cost_of(size_t n)
{
    return (struct cost){.n = n, .chunk_elems = PROTO_CHUNK_MAX, .direct_bytes = 1 << 16};
}

/* Bitmap of the servers. */
static unsigned
elected(const struct cost *cost, unsigned wanted, struct proto_plan *plan)
{
    unsigned set = 0;
    *plan = plan_of(cost->n, 1, 1);
    plan_elect_duties(cost, wanted, plan);
    assert_true(servers_valid(plan));
    for (size_t m = 0; m < cost->n; m++)
        set |= (unsigned)(plan->members[m].duties != 0) << m;
    return set;
}

TEST(as_many_as_wanted_serve_or_all)
{
    struct proto_plan plan;
    for (unsigned wanted = 1; wanted <= 6; wanted++) {
        struct cost cost = cost_of(4);
        unsigned set = elected(&cost, wanted, &plan);
        assert_int_equal(__builtin_popcount(set), wanted < 4 ? wanted : 4);
        assert_true(servers_take(&plan, 4) && servers_take(&plan, UINT64_C(1) << 40));
    }
}

TEST(the_fastest_serve_with_weights_by_speed_and_line)
{
    struct proto_plan plan;
    struct cost cost = cost_of(4);
    cost.of[0].speed = 1000, cost.of[1].speed = 4000, cost.of[2].speed = 4000,
    cost.of[3].speed = 2000;
    cost.of[1].line = 100, cost.of[2].line = 1000, cost.of[3].line = 1000, cost.of[0].line = 1000;
    assert_int_equal(elected(&cost, 2, &plan), 1 << 2 | 1 << 3);
    assert_int_equal(servers_unpack(plan.members[2].duties).weight, 16);
    assert_int_equal(servers_unpack(plan.members[3].duties).weight, 8);
}

TEST(who_served_before_stays_among_equals)
{
    struct proto_plan plan;
    struct cost cost = cost_of(4);
    assert_int_equal(elected(&cost, 1, &plan), 1);
    cost.of[2].weight = 1;
    assert_int_equal(elected(&cost, 1, &plan), 4);
    cost.of[0].speed = cost.of[1].speed = cost.of[3].speed = 1000, cost.of[2].speed = 500;
    assert_int_equal(elected(&cost, 1, &plan), 1);
}

TEST(auto_takes_the_ring_for_two_members_and_small_buckets)
{
    struct proto_plan plan;
    struct cost cost = cost_of(2);
    assert_int_equal(elected(&cost, CORE_SERVERS_AUTO, &plan), 0);
    cost = cost_of(4);
    assert_int_equal(elected(&cost, CORE_SERVERS_AUTO, &plan), 15);
    assert_false(servers_take(&plan, 1 << 16));
    assert_true(servers_take(&plan, 1 << 18));
}

/* On slow equal lines the bytes decide, and the busiest server has more of them than a member of the ring. */
TEST(auto_takes_the_ring_for_large_buckets_on_slow_lines)
{
    struct proto_plan plan;
    struct cost cost = cost_of(4);
    for (size_t m = 0; m < 4; m++)
        cost.of[m].line = 12500000; /* 100 Mbit/s */
    elected(&cost, CORE_SERVERS_AUTO, &plan);
    assert_false(servers_take(&plan, 16 * MIB));
    cost = cost_of(8); /* on one slow line, the ring waits for it twice as long */
    for (size_t m = 0; m < 8; m++)
        cost.of[m].line = m == 3 ? 1000000 : 100000000;
    elected(&cost, CORE_SERVERS_AUTO, &plan);
    assert_true(servers_take(&plan, 16 * MIB));
    assert_int_equal(servers_unpack(plan.members[3].duties).weight, 1);
}

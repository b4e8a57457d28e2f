/* Whatever the number of members, the sizes, the order of arrival and of buckets: the plain sum, for the
 * bytes of the cost model; and after a plan that broke off anywhere, the survivors' plan the same. */
#include "mesh/core/group/servers.h"
#include "proto/bits.h"
#include "tests/support/rings.h"
#include "tests/support/test.h"

enum { BUCKETS_MAX = 5 };

/* Deliveries and buckets becoming ready, in random order, until nothing is left or `steps` are done. */
static void
run(struct rings *rings, struct rand *rand, uint64_t steps)
{
    size_t ready[RINGS_MAX] = {0};
    uint64_t unready = rings->members;
    while (steps-- > 0 && unready + rings_waiting(rings) > 0) {
        uint64_t pick = rand_below(rand, unready + rings_waiting(rings));
        if (pick >= unready) {
            rings_deliver(rings, (size_t)(pick - unready));
            continue;
        }
        unsigned r = (unsigned)rand_below(rand, rings->members);
        while (ready[r] == rings->bucket_count)
            r = (r + 1) % rings->members;
        rings_ready(rings, rings->member[r], ++ready[r]);
        unready -= ready[r] == rings->bucket_count;
    }
}

static void
bytes_are_the_models(const struct rings *rings, uint64_t direct_bytes)
{
    for (unsigned r = 0; r < rings->members; r++)
        assert_int_equal(rings->nodes[rings->member[r]].bytes,
                         rings_cost(rings, r, direct_bytes, 0));
}

TEST(one_bucket_of_any_size_over_any_number_of_members)
{
    struct rand rand = {1};
    for (unsigned n = 1; n <= RINGS_MAX; n++)
        for (uint64_t count = 1; count <= 3 * n + 1; count++) {
            struct core_bucket bucket = {0, count};
            uint32_t chunk = (uint32_t)rand_range(&rand, 1, 4);
            OWNED(rings_destroy) struct rings *rings = rings_new(n, &bucket, 1, chunk, 0, &rand);
            rings_plan(rings, (1u << n) - 1, 1, &rand);
            run(rings, &rand, UINT64_MAX);
            assert_true(rings_right(rings, 0));
            bytes_are_the_models(rings, 0);
        }
}

/* Buckets fill the vector from its end, as back-propagation does; some are empty. */
static size_t
random_buckets(struct rand *rand, struct core_bucket *buckets)
{
    size_t count = (size_t)rand_range(rand, 1, BUCKETS_MAX);
    uint64_t first = 0;
    for (size_t b = count; b-- > 0;) {
        uint64_t size = rand_below(rand, 4) == 0 ? 0 : rand_below(rand, 90);
        buckets[b] = (struct core_bucket){first, size};
        first += size;
    }
    return count;
}

/* Each member serves with a weight of its own, or not at all; in some meshes only buckets of some sizes. */
static void
random_servers(struct rings *rings, struct rand *rand)
{
    struct servers_duty duty = {.above = 0, .upto = SERVERS_SIZE_MAX};
    if (rand_below(rand, 3) == 0) {
        duty.above = (unsigned)rand_below(rand, 6);
        duty.upto = duty.above + (unsigned)rand_below(rand, 4);
    }
    unsigned most = (unsigned)rand_range(rand, 1, SERVERS_WEIGHT_MAX);
    for (unsigned i = 0; i < rings->n; i++) {
        duty.weight = rand_bool(rand) ? 0 : (unsigned)rand_range(rand, 1, most);
        rings->duties[i] = servers_pack(duty);
    }
}

/* What comes of plan 1 is run to its end, or breaks off, and three more plans of fewer members follow, while its
 * messages are still under way. All get the plain sum. `servers`: members serve, and others do in the next plan. */
static void
run_random(struct rand *rand, unsigned fewest, bool servers, bool breaks_off)
{
    struct core_bucket buckets[BUCKETS_MAX];
    size_t count = random_buckets(rand, buckets);
    unsigned n = (unsigned)rand_range(rand, fewest, RINGS_MAX), survivors = 0;
    uint32_t chunk = (uint32_t)rand_range(rand, 1, 20);
    uint64_t direct = rand_below(rand, 200);
    OWNED(rings_destroy) struct rings *rings = rings_new(n, buckets, count, chunk, direct, rand);
    if (servers)
        random_servers(rings, rand);
    rings_plan(rings, (1u << n) - 1, 1, rand);
    for (uint64_t plan = 2; breaks_off && plan < 5; plan++) {
        run(rings, rand, rand_below(rand, 200));
        while (survivors == 0)
            survivors = (unsigned)rand_below(rand, 1u << n);
        if (servers)
            random_servers(rings, rand);
        rings_plan(rings, survivors, plan, rand);
    }
    run(rings, rand, UINT64_MAX);
    assert_true(rings_right(rings, 0));
    if (!breaks_off)
        bytes_are_the_models(rings, direct);
}

TEST(random_buckets_small_ones_directly)
{
    struct rand rand = {2};
    for (int k = 0; k < 600; k++)
        run_random(&rand, 1, false, false);
}

TEST(survivors_of_a_plan_that_broke_off_get_the_same_sum)
{
    struct rand rand = {3};
    for (int k = 0; k < 600; k++)
        run_random(&rand, 2, false, true);
}

TEST(servers_of_any_weight_give_the_plain_sum)
{
    struct rand rand = {4};
    for (int k = 0; k < 600; k++)
        run_random(&rand, 2, true, false);
}

/* The servers die with the others: the next plan has other ones, or none. */
TEST(survivors_of_servers_get_the_same_sum)
{
    struct rand rand = {5};
    for (int k = 0; k < 600; k++)
        run_random(&rand, 2, true, true);
}

/* Some buckets to each stage; its members serve, or go round their own ring. Two stages may be held by the same ones,
 * as those of tied weights are. */
static void
random_stages(struct rings *rings, unsigned members, struct rand *rand)
{
    unsigned groups = 0, group[RINGS_CUTS + 1];
    bool mirrors = rand_bool(rand); /* some hold what they do not compute */
    rings->cut_count = 0;
    for (uint16_t b = 1; b < rings->bucket_count && rings->cut_count < RINGS_CUTS; b++)
        if (rand_bool(rand))
            rings->cuts[rings->cut_count++].bucket = b;
    for (size_t stage = 0; stage <= rings->cut_count; stage++) {
        bool own = groups == 0 || (groups < members && rand_below(rand, 4) > 0);
        group[stage] = own ? groups++ : (unsigned)rand_below(rand, groups);
    }
    unsigned next = 0; /* a group gets a member of its own before others get two */
    for (unsigned i = 0; i < rings->n; i++) {
        unsigned g = next < groups ? next++ : (unsigned)rand_below(rand, groups);
        rings->computes[i] = 0;
        for (size_t stage = 0; stage <= rings->cut_count; stage++)
            rings->computes[i] |= group[stage] == g ? UINT64_C(1) << stage : 0;
        rings->holds[i] = rings->computes[i];
        if (mirrors)
            rings->holds[i] |= rand_u64(rand) & bits_below(rings->cut_count + 1);
    }
}

/* Members of a stage sum its buckets, all sum the last one; and again with other stages, after a plan that broke
 * off. */
TEST(each_stage_sums_its_own_buckets)
{
    struct rand rand = {6};
    for (int k = 0; k < 600; k++) {
        struct core_bucket buckets[BUCKETS_MAX];
        size_t count = random_buckets(&rand, buckets);
        unsigned n = (unsigned)rand_range(&rand, 1, RINGS_MAX);
        uint32_t chunk = (uint32_t)rand_range(&rand, 1, 20);
        OWNED(rings_destroy)
        struct rings *rings = rings_new(n, buckets, count, chunk, rand_below(&rand, 200), &rand);
        for (uint64_t plan = 1; plan < 4; plan++) {
            random_stages(rings, n, &rand);
            if (rand_bool(&rand))
                random_servers(rings, &rand);
            rings_plan(rings, (1u << n) - 1, plan, &rand);
            run(rings, &rand, plan == 3 ? UINT64_MAX : rand_below(&rand, 200));
        }
        assert_true(rings_right(rings, 0));
    }
}

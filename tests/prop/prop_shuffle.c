/* prop_shuffle.c - data_shuffle is a permutation of any count, another one for each epoch and seed, and
 * no place is favoured. */
#include <stdio.h>

#include "nn/data.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

static void
check_permutation(uint64_t seed, uint64_t epoch, uint32_t count)
{
    OWNED(memory_free) uint8_t *seen = calloc(count, 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = data_shuffle(seed, epoch, i, count);
        if (at >= count || seen[at])
            fail_msg("seed %ju epoch %ju count %u: position %u of %u is out of range or taken",
                     seed, epoch, count, at, i);
        seen[at] = 1;
    }
}

TEST(it_is_a_permutation_of_every_count)
{
    struct rand rand = {1};
    for (uint32_t count = 1; count <= 2000; count++)
        check_permutation(rand_u64(&rand), rand_any(&rand), count);
    for (int i = 0; i < 5; i++)
        check_permutation(rand_u64(&rand), rand_any(&rand),
                          (uint32_t)rand_range(&rand, 2000, 300000));
    static const uint32_t edges[] = {255, 256, 257, 65535, 65536, 65537, 99856, 1 << 18};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        check_permutation(7, i, edges[i]);
}

/* Too large to mark: no two of many sampled positions may meet, all stay in range. */
static int
compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

TEST(the_largest_counts_stay_in_range_without_collisions)
{
    enum { N = 100000 };
    static const uint32_t counts[] = {UINT32_MAX, UINT32_MAX - 1, 1U << 31, (1U << 31) + 1};
    OWNED(memory_free) uint32_t *at = malloc(N * sizeof *at);
    for (size_t c = 0; c < 4; c++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t from = i % 2 ? i : counts[c] - 1 - i;
            at[i] = data_shuffle(3, 4, from, counts[c]);
            assert_true(at[i] < counts[c]);
        }
        qsort(at, N, sizeof *at, compare_u32);
        for (size_t i = 1; i < N; i++)
            assert_true(at[i] != at[i - 1]);
    }
}

/* Two independent permutations agree in one place on average (variance 1). */
TEST(epochs_and_seeds_give_unrelated_orders)
{
    enum { PAIRS = 400 };
    unsigned same = 0, next = 0;
    for (uint64_t k = 0; k < PAIRS; k++) {
        uint64_t seed = k / 2, other_seed = k % 2 ? seed : seed + 1, other = k % 2 ? k + 1 : k;
        for (uint32_t i = 0; i < 1000; i++) {
            uint32_t a = data_shuffle(seed, k, i, 1000),
                     b = data_shuffle(other_seed, other, i, 1000);
            same += a == b;
            next += (a + 1) % 1000 == b;
        }
    }
    /* Poisson with mean 400: six standard deviations */
    assert_in_range(same, PAIRS - 120, PAIRS + 120);
    assert_in_range(next, PAIRS - 120, PAIRS + 120);
}

/* Chi-square of where sample i goes, over epochs; 99.99 % quantiles are about n + 3.7 sqrt(2n) + 9. */
static void
check_uniform(uint32_t count, uint32_t i, uint32_t cells, unsigned draws)
{
    unsigned hits[64] = {0};
    assert_true(cells <= 64);
    for (uint64_t epoch = 0; epoch < draws; epoch++)
        hits[(uint64_t)data_shuffle(11, epoch, i, count) * cells / count]++;
    double expected = (double)draws / cells, chi = 0;
    for (uint32_t k = 0; k < cells; k++)
        chi += (hits[k] - expected) * (hits[k] - expected) / expected;
    if (chi > cells + 60)
        fail_msg("count %u, sample %u: chi-square %.1f over %u cells", count, i, chi, cells);
}

TEST(every_place_is_equally_likely)
{
    for (uint32_t count = 2; count <= 20; count++) {
        for (uint32_t i = 0; i < count; i += 3)
            check_uniform(count, i, count, 2000);
    }
    check_uniform(64, 0, 64, 20000);
    check_uniform(12000, 0, 50, 20000);
    check_uniform(12000, 11999, 50, 20000);
    check_uniform(4000000000U, 5, 50, 20000);
}

/* All 24 orders of four samples. */
TEST(every_order_is_equally_likely)
{
    enum { DRAWS = 12000 };
    unsigned hits[256] = {0}, orders = 0;
    for (uint64_t epoch = 0; epoch < DRAWS; epoch++) {
        unsigned order = 0;
        for (uint32_t i = 0; i < 4; i++)
            order = order * 4 + data_shuffle(5, epoch, i, 4);
        hits[order]++;
    }
    for (int k = 0; k < 256; k++) {
        orders += hits[k] > 0;
        if (hits[k])
            assert_in_range(hits[k], 500 - 140, 500 + 140);
    }
    assert_int_equal(orders, 24);
}

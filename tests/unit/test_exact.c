/* test_exact.c - quantise, add, read back, and how exponents move. */
#include "compress/check.h"
#include "compress/exact.h"

#include <float.h>
#include <math.h>

#include "compress/exact_simd.h"
#include "proto/mix.h"
#include "proto/simd.h"
#include "tests/support/exact_all.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

static float
from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static struct exact *
table(const size_t *count, size_t tensors, unsigned shards)
{
    struct exact *exact = NULL;
    assert_int_equal(exact_new(&exact, count, tensors, shards), 0);
    return exact;
}

TEST(blocks_never_straddle_two_tensors)
{
    const size_t count[] = {1, 0, 1024, 1025, 10, 2048};
    struct exact *exact = table(count, 6, 12);
    const size_t first[] = {0, 1, 1025, 2049, 2050, 2060, 3084, 4108};
    assert_int_equal(exact_blocks(exact), 7);
    for (size_t b = 0; b <= 7; b++)
        assert_int_equal(exact_block_first(exact, b), first[b]);
    exact_destroy(&exact);
    exact_destroy(&exact);
    assert_null(exact);
}

TEST(an_empty_model_has_no_blocks)
{
    OWNED(exact_destroy) struct exact *exact = table(NULL, 0, 1);
    assert_int_equal(exact_blocks(exact), 0);
    assert_int_equal(exact_block_first(exact, 0), 0);
    int32_t bad = 0;
    exact_add(exact, NULL, 0, NULL, 0, 1, 0, NULL, NULL, &bad, NULL);
    exact_follow_all(exact, NULL, false, NULL);
    assert_int_equal(exact_raise(exact, NULL, NULL), 0);
}

/* One shard: 31 bits, so with exponent 31 the unit is 1. */
static int32_t
quantise(float g, int16_t exponent, unsigned shards, int32_t *over, int32_t *bad)
{
    const size_t one = 1;
    OWNED(exact_destroy) struct exact *exact = table(&one, 1, shards);
    int32_t own = 0;
    *over = *bad = 0;
    exact_add(exact, &exponent, 0, &g, 1, 1, 0, &own, over, bad, NULL);
    return own;
}

TEST(worked_examples_come_out)
{
    static const struct {
        float g;
        int16_t exponent;
        unsigned shards;
        int32_t own, over, bad;
    } row[] = {
        {0.0f, 31, 1, 0, 0, 0},
        {-0.0f, 31, 1, 0, 0, 0},
        {1.0f, 31, 1, 1, 0, 0},
        {0.5f, 31, 1, 0, 0, 0}, /* ties go to even */
        {1.5f, 31, 1, 2, 0, 0},
        {2.5f, 31, 1, 2, 0, 0},
        {-2.5f, 31, 1, -2, 0, 0},
        {-3.5f, 31, 1, -4, 0, 0},
        {0.50000006f, 31, 1, 1, 0, 0},
        {1.0f, 4, 12, 1 << 23, 0, 0}, /* 12 shards: 27 bits */
        {15.999999f, 4, 12, (1 << 27) - 8, 0, 0},
        {-15.999999f, 4, 12, 8 - (1 << 27), 0, 0},
        {16.0f, 4, 12, (1 << 27) - 8, 1, 0},
        {-1e30f, 4, 12, 8 - (1 << 27), 1, 0},
        {8.0f, 4, 64, 1 << 24, 0, 0},
        {8.0f, 4, 33, 1 << 24, 0, 0},
        {8.0f, 4, 32, 1 << 25, 0, 0},
        {INFINITY, 4, 12, (1 << 27) - 8, 0, 1},
        {-INFINITY, 4, 12, 8 - (1 << 27), 0, 1},
        {NAN, 4, 12, (1 << 27) - 8, 0, 1},
        {-NAN, 4, 12, (1 << 27) - 8, 0, 1},
        {1e30f, -95, 1, INT32_MAX - 127, 1, 0}, /* the product is infinite, the element is not */
        {FLT_MIN, -95, 1, 1, 0, 0},
        {FLT_TRUE_MIN, -95, 1, 0, 0, 0},
        {FLT_MIN * 0.75f, -95, 1, 1, 0, 0}, /* denormal */
        {FLT_MAX, 128, 1, INT32_MAX - 127, 0, 0},
        {-FLT_MAX, 128, 64, 2 - (1 << 25), 0, 0},
        {FLT_TRUE_MIN, 128, 64, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int32_t over, bad;
        int32_t own = quantise(row[i].g, row[i].exponent, row[i].shards, &over, &bad);
        if (own != row[i].own || over != row[i].over || bad != row[i].bad)
            fail_msg("row %zu: own %d over %d bad %d", i, own, over, bad);
    }
}

TEST(summed_shards_have_a_wider_range)
{
    const size_t one = 1;
    OWNED(exact_destroy) struct exact *exact = table(&one, 1, 4); /* 29 bits */
    int16_t exponent = 0;
    int32_t own = 0, over = 0, bad = 0;
    float g = 2.5f;
    exact_add(exact, &exponent, 0, &g, 1, 3, 0, &own, &over, &bad, NULL);
    assert_int_equal(own, 5 << 28);
    assert_int_equal(over, 0);
    g = 1.5f;
    exact_add(exact, &exponent, 0, &g, 1, 1, 0, &own, &over, &bad, NULL);
    assert_int_equal(own, (7 << 28) - 32);
    assert_int_equal(over, 1);
    g = 3.0f;
    own = 0;
    exact_add(exact, &exponent, 0, &g, 1, 3, 0, &own, &over, &bad, NULL);
    assert_int_equal(own, (3 << 29) - 128);
    assert_int_equal(over, 2);
}

TEST(sixty_four_shards_of_maximal_values_do_not_overflow)
{
    enum { N = 37 };
    const size_t n = N;
    for (unsigned shards = 1; shards <= EXACT_SHARDS_MAX; shards++) {
        OWNED(exact_destroy) struct exact *exact = table(&n, 1, shards);
        int16_t exponent = 0;
        int32_t own[N] = {0}, over = 0, bad = 0;
        float g[N];
        for (size_t i = 0; i < N; i++)
            g[i] = i % 3 == 0 ? 0x1.fffffep-1f : i % 3 == 1 ? -0x1.fffffep-1f : -FLT_MAX;
        for (unsigned s = 0; s < shards; s++)
            exact_add(exact, &exponent, 0, g, N, 1, 0, own, &over, &bad, NULL);
        int bits = 31;
        while ((1u << (31 - bits)) < shards)
            bits--;
        int64_t most = (INT64_C(1) << bits) - (INT64_C(1) << bits >> 24);
        assert_true(most * shards <= INT32_MAX);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(own[i], (i % 3 == 0 ? most : -most) * shards);
        assert_int_equal(over, (int)shards * 12);
        assert_int_equal(bad, 0);
        exact_read(exact, &exponent, own, 0, g, N);
        assert_true(fabsf(g[0] - (float)shards) <= (float)shards * 0x1p-23f);
    }
}

TEST(counters_belong_to_the_block_of_the_element)
{
    const size_t count[] = {1500, 3};
    OWNED(exact_destroy) struct exact *exact = table(count, 2, 2);
    int16_t exponent[3] = {0, 0, 0};
    int32_t own[1503] = {0}, over[3] = {0}, bad = 0;
    float g[1503] = {0};
    g[1023] = 2.0f;
    g[1024] = -3.0f;
    g[1025] = 4.0f;
    g[1502] = NAN;
    g[1501] = INFINITY;
    g[1500] = 2.0f;
    exact_add(exact, exponent, 1000, g + 1000, 503, 1, 0, own, over, &bad, NULL);
    assert_int_equal(over[0], 1);
    assert_int_equal(over[1], 2);
    assert_int_equal(over[2], 1);
    assert_int_equal(bad, 1);
    assert_int_equal(own[1023], (1 << 30) - 64);
    assert_int_equal(own[1024], 64 - (1 << 30));
    assert_int_equal(own[999], 0);
}

/* The checksum by its definition. */
static uint64_t
naive_check(const int32_t *x, size_t first, size_t n)
{
    uint32_t low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low += (uint32_t)x[i];
        high += (2 * (uint32_t)(first + i) + 1) * (uint32_t)x[i];
    }
    return (uint64_t)high << 32 | low;
}

TEST(checksums_are_linear_and_see_every_bit)
{
    enum { N = 333 };
    int32_t a[N], b[N], sum[N];
    for (size_t n = 0; n <= N; n += n < 70 ? 1 : 37) {
        size_t first = mix64(n) % 100000;
        for (size_t i = 0; i < n; i++) {
            a[i] = (int32_t)mix64(n * N + i);
            b[i] = (int32_t)mix64(~(n * N + i));
            sum[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
        }
        uint64_t check = check_of(sum, first, n);
        assert_true(check_of(a, first, n) == naive_check(a, first, n));
        assert_true(check == check_add(check_of(a, first, n), check_of(b, first, n)));
        for (size_t i = 0; i < n; i += 11)
            for (int bit = 0; bit < 32; bit++) {
                int32_t kept = sum[i];
                sum[i] = (int32_t)((uint32_t)kept ^ 1u << bit);
                uint64_t flipped = check_of(sum, first, n);
                assert_true((uint32_t)flipped != (uint32_t)check && flipped >> 32 != check >> 32);
                sum[i] = kept;
            }
    }
}

/* Pieces of any length give what one call gives. */
TEST(pieces_equal_the_whole)
{
    enum { N = 5000 };
    const size_t count[] = {1700, 1, 3299};
    OWNED(exact_destroy) struct exact *exact = table(count, 3, 12);
    int16_t exponent[8];
    assert_in_range(exact_blocks(exact), 1, 8);
    exact_first(exact, exponent);
    exponent[1] = -3;
    assert_true(exact_valid(exact, exponent));
    static float g[N], value[N];
    static int32_t whole[N], pieces[N];
    int32_t over[2][8] = {{0}}, bad = 0;
    uint64_t check[2] = {0};
    for (size_t i = 0; i < N; i++)
        g[i] = (float)((double)mix64(i) / 1e18 - 9.2);
    memset(whole, 0, sizeof whole);
    memset(pieces, 0, sizeof pieces);
    exact_add(exact, exponent, 0, g, N, 1, 0, whole, over[0], &bad, &check[0]);
    for (size_t i = 0, n, calls = 0; i < N; i += n) {
        n = mix64(calls++) % 700;
        n = n < N - i ? n : N - i;
        exact_add(exact, exponent, i, g + i, n, 1, 0, pieces, over[1], &bad, &check[1]);
        exact_read(exact, exponent, pieces, i, value + i, n);
    }
    assert_memory_equal(whole, pieces, sizeof whole);
    assert_true(check[0] == check[1] && check[0] == check_of(whole, 0, N));
    assert_memory_equal(over[0], over[1], sizeof over[0]);
    assert_true(over[0][1] > 0);
    assert_int_equal(bad, 0);
    exact_read(exact, exponent, whole, 0, g, N);
    assert_memory_equal(g, value, sizeof g);
}

/* A float of any exponent, sign and kind; every third near a rounding or saturation border. */
static float
any_float(uint64_t i, float scale, float limit)
{
    uint64_t r = mix64(i);
    float near = 0;
    switch (r % 6) {
    case 0:
        return from_bits((uint32_t)(r >> 32));
    case 1:
        near = limit / scale;
        break;
    case 2:
        near = ((float)(r >> 50) + 0.5f) / scale;
        break;
    case 3:
        return r & 64 ? FLT_TRUE_MIN : r & 128 ? NAN : r & 256 ? -INFINITY : from_bits(r >> 41);
    default:
        near = (float)((double)(int64_t)r / 9e18) * limit / scale;
    }
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    bits += (uint32_t)(r >> 10) % 5 - 2;
    return from_bits(r & 512 ? bits : bits ^ 0x80000000u);
}

TEST_OF_VARIANTS(both_instruction_sets_give_the_same_bits)
{
    enum { N = 1024 };
    static float g[N], out[2][N];
    static int32_t own[2][N];
    if (!simd_avx2())
        skip();
    for (int k = -103; k <= 126; k++) {
        float scale = ldexpf(1.0f, k), limit = ldexpf((float)(1 + k % 3 * (k % 3)), 24 + k % 5);
        size_t n = N - (size_t)(k + 103) % 23, at = (size_t)(k + 103) % 7;
        for (size_t i = 0; i < N; i++) {
            g[i] = any_float(((uint64_t)(k + 200) << 32) + i, scale, limit);
            own[0][i] = own[1][i] = (int32_t)(mix64(i) >> 33) - (1 << 30);
        }
        n -= at;
        struct check_sums sums[2];
        uint32_t a = exact_add_base(own[0] + at, g + at, n, scale, limit, &sums[0]);
        uint32_t b = SIMD_PICK(exact_add)(own[1] + at, g + at, n, scale, limit, &sums[1]);
        assert_memory_equal(&sums[0], &sums[1], sizeof sums[0]);
        assert_int_equal(a, b);
        assert_memory_equal(own[0], own[1], sizeof own[0]);
        exact_read_base(out[0] + at, own[0] + at, n, scale);
        SIMD_PICK(exact_read)(out[1] + at, own[0] + at, n, scale);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
}

TEST(exponents_follow_the_sum)
{
    enum { BITS = 27 };
    static const struct {
        int32_t sum;
        int now, next;
    } row[] = {
        {0, 4, 4},             /* silent: unchanged */
        {1 << 23, 4, 5},       /* 2^23 < 2^24: 24 - 27 + 4 + 4 */
        {(1 << 23) - 1, 4, 4}, /* exactly the headroom */
        {1 << 22, 4, 4},
        {(1 << 22) - 1, 4, 3}, /* one bit less */
        {1, 4, 3},             /* would be -19, but falls one bit at a time */
        {-(1 << 23), 4, 5},    /* the sign does not matter */
        {-(1 << 30), 4, 12},   /* 31 - 27 + 4 + 4 */
        {1, EXACT_EXPONENT_MIN, EXACT_EXPONENT_MIN},
        {1 << 30, EXACT_EXPONENT_MAX, EXACT_EXPONENT_MAX},
    };
    const size_t one = 1;
    OWNED(exact_destroy) struct exact *exact = table(&one, 1, 12);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int16_t exponent = (int16_t)row[i].now;
        exact_follow_all(exact, &row[i].sum, false, &exponent);
        if (exponent != row[i].next)
            fail_msg("row %zu: %d, expected %d", i, exponent, row[i].next);
    }
    int16_t exponent = 4;
    const int32_t sum = 1;
    exact_follow_all(exact, &sum, true, &exponent);
    assert_int_equal(exponent, 1 - BITS + 4 + EXACT_HEADROOM);
}

TEST(silent_blocks_stay_near_the_loudest_of_their_tensor)
{
    const size_t count[] = {(size_t)3 * EXACT_BLOCK, EXACT_BLOCK};
    OWNED(exact_destroy) struct exact *exact = table(count, 2, 12);
    static int32_t sum[4 * EXACT_BLOCK];
    int16_t exponent[4] = {10, -20, 7, -20};
    sum[7] = 1 << 22;
    exact_follow_all(exact, sum, false, exponent);
    assert_int_equal(exponent[0], 10);
    assert_int_equal(exponent[1], 10 - EXACT_SPREAD);
    assert_int_equal(exponent[2], 7);
    assert_int_equal(exponent[3], -20);
    const int32_t over[4] = {3, 0, 0, 0};
    assert_int_equal(exact_raise(exact, over, exponent), 1);
    assert_int_equal(exponent[0], 18);
    assert_int_equal(exponent[1], 18 - EXACT_SPREAD);
    assert_int_equal(exponent[2], 18 - EXACT_SPREAD);
    assert_int_equal(exponent[3], -20);
}

/* Each block of a tensor beside each other one, at every distance. */
TEST(what_is_as_far_below_as_it_may_be_stays)
{
    const size_t count[] = {(size_t)3 * EXACT_BLOCK, EXACT_BLOCK};
    OWNED(exact_destroy) struct exact *exact = table(count, 2, 12);
    for (int below = 0; below <= EXACT_SPREAD + 3; below++)
        for (size_t loudest = 0; loudest < 3; loudest++) {
            int16_t low = (int16_t)(30 - below), least = 30 - EXACT_SPREAD;
            int16_t exponent[4] = {low, low, low, -20};
            exponent[loudest] = 30;
            exact_floor(exact, exponent);
            for (size_t b = 0; b < 3; b++)
                assert_int_equal(exponent[b], b == loudest ? 30 : low > least ? low : least);
            assert_int_equal(exponent[3], -20);
        }
}

/* Add until nothing overflows, as the trainer does; returns the number of rounds that were redone. */
static unsigned
rounds_until_it_fits(const struct exact *exact, int16_t *exponent, const float *g, size_t n,
                     int32_t *own)
{
    int32_t over[8];
    for (unsigned redone = 0;; redone++) {
        int32_t bad = 0;
        memset(over, 0, sizeof over);
        memset(own, 0, n * sizeof *own);
        exact_add(exact, exponent, 0, g, n, 1, 0, own, over, &bad, NULL);
        assert_int_equal(bad, 0);
        if (!exact_raise(exact, over, exponent))
            return redone;
        assert_true(redone < 40);
    }
}

TEST(a_scale_that_jumps_by_2_to_the_40_needs_five_redone_rounds)
{
    enum { N = 6000 };
    const size_t n = N;
    OWNED(exact_destroy) struct exact *exact = table(&n, 1, 12);
    static float g[N], back[N];
    static int32_t own[N];
    int16_t exponent[8];
    exact_first(exact, exponent);
    for (size_t i = 0; i < N; i++)
        g[i] = 0.01f * (float)(int64_t)mix64(i) / 9.3e18f;
    for (int step = 0; step < 40; step++) {
        assert_int_equal(rounds_until_it_fits(exact, exponent, g, N, own), 0);
        exact_follow_all(exact, own, false, exponent);
    }
    for (size_t b = 0; b < exact_blocks(exact); b++)
        assert_int_equal(exponent[b], -6 + EXACT_HEADROOM);
    for (size_t i = 0; i < N; i++)
        g[i] *= 0x1p40f;
    assert_int_equal(rounds_until_it_fits(exact, exponent, g, N, own), 5);
    exact_read(exact, exponent, own, 0, back, N);
    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(back[i] - g[i]) <= 0x1p12f);
    g[5000] = FLT_MAX;
    assert_in_range(rounds_until_it_fits(exact, exponent, g, N, own), 1, 13);
}

TEST(exponents_out_of_range_are_recognised)
{
    const size_t count = 2000;
    OWNED(exact_destroy) struct exact *exact = table(&count, 1, 12);
    int16_t exponent[2] = {EXACT_EXPONENT_MIN, EXACT_EXPONENT_MAX};
    assert_true(exact_valid(exact, exponent));
    exponent[0]--;
    assert_false(exact_valid(exact, exponent));
    exponent[0]++;
    exponent[1]++;
    assert_false(exact_valid(exact, exponent));
}

TEST(exponents_out_of_range_count_as_the_nearest_one)
{
    static const int16_t wild[] = {INT16_MIN, EXACT_EXPONENT_MIN - 1, EXACT_EXPONENT_MAX + 1,
                                   INT16_MAX};
    const size_t one = 1;
    OWNED(exact_destroy) struct exact *exact = table(&one, 1, 12);
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        int16_t exponent = wild[i], tame = wild[i] < 0 ? EXACT_EXPONENT_MIN : EXACT_EXPONENT_MAX;
        int32_t own[2] = {0}, over[2] = {0}, bad[2] = {0};
        float g = 0x1p-90f, back[2];
        exact_add(exact, &exponent, 0, &g, 1, 1, 0, &own[0], &over[0], &bad[0], NULL);
        exact_add(exact, &tame, 0, &g, 1, 1, 0, &own[1], &over[1], &bad[1], NULL);
        assert_int_equal(own[0], own[1]);
        assert_int_equal(over[0], over[1]);
        exact_read(exact, &exponent, own, 0, &back[0], 1);
        exact_read(exact, &tame, own, 0, &back[1], 1);
        assert_memory_equal(&back[0], &back[1], sizeof back[0]);
    }
}

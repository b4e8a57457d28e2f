/* test_kept.c - codecs with memory: nothing of a gradient is lost, it only comes later; the units that they find; the
 * same with every instruction set. */
#include <math.h>

#include "compress/check.h"
#include "compress/exact.h"
#include "compress/exact_simd.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { N = 2500, SHARDS = 4, BLOCKS = 3, STEPS = 1000 };

static const enum codec_kind kinds[] = {CODEC_topk, CODEC_onebit, CODEC_randk};
enum { KINDS = sizeof kinds / sizeof *kinds };

static float g[N], rest[SHARDS][N], next[N], value[N];
static int32_t own[N], over[BLOCKS];
static int16_t exponent[BLOCKS];
static double given[N], summed[N];

static struct exact *
coded_with(const struct codec *codec, bool flush)
{
    struct exact *exact;
    const size_t count = N;
    assert_int_equal(exact_new(&exact, &count, 1, SHARDS), 0);
    exact_code(exact, 0, codec, 1, flush);
    return exact;
}

static struct exact *
coded(enum codec_kind kind, bool flush)
{
    return coded_with(codec_of(kind), flush);
}

static void
begin_with(const struct exact *exact, float deviation)
{
    double squares[BLOCKS];
    for (size_t b = 0; b < BLOCKS; b++) {
        size_t n = exact_block_first(exact, b + 1) - exact_block_first(exact, b);
        squares[b] = (double)n * SHARDS * (double)deviation * (double)deviation;
        exponent[b] = -2;
    }
    exact_begin(exact, squares, exponent);
    memset(rest, 0, sizeof rest);
    memset(given, 0, sizeof given);
    memset(summed, 0, sizeof summed);
}

static void
begin(enum codec_kind kind, float deviation)
{
    OWNED(exact_destroy) struct exact *exact = coded(kind, false);
    begin_with(exact, deviation);
}

static void
draw(struct rand *rand, float deviation)
{
    for (size_t i = 0; i < N; i++) {
        g[i] = rand_normal(rand) * deviation;
        given[i] += (double)g[i];
    }
}

static void
adapt(const struct exact *exact)
{
    uint64_t squares[BLOCKS];
    uint32_t bits;
    for (size_t b = 0; b < BLOCKS; b++) {
        float block[EXACT_BLOCK];
        exact_take(exact, exponent, own, b, block, &bits);
        exact_follow(exact, b, bits, false, exponent);
        squares[b] = exact_squares(exact, own, b);
    }
    if (exact_adapts(exact, 0))
        exact_adapt(exact, 0, squares, over, exponent);
    exact_floor(exact, exponent);
}

/* A step of all shards. Returns the share of elements of a shard that are not zero. */
static double
step(const struct exact *exact, struct rand *rand, float deviation, bool flush)
{
    size_t kept = 0;
    int32_t bad = 0;
    uint32_t key = (uint32_t)rand_u64(rand);
    uint64_t check = 0;
    memset(own, 0, sizeof own);
    memset(over, 0, sizeof over);
    for (unsigned s = 0; s < SHARDS; s++) {
        static int32_t before[N];
        memcpy(before, own, sizeof own);
        draw(rand, deviation);
        for (size_t i = 0; i < N; i++)
            rest[s][i] += g[i];
        exact_add_kept(exact, exponent, 0, rest[s], N, key, own, over, &bad, &check);
        memset(rest[s], 0, flush ? sizeof next : 0);
        for (size_t i = 0; i < N; i++)
            kept += own[i] != before[i];
    }
    assert_int_equal(bad, 0);
    assert_true(check == check_of(own, 0, N));
    exact_read(exact, exponent, own, 0, value, N);
    for (size_t i = 0; i < N; i++)
        summed[i] += (double)value[i];
    adapt(exact);
    return (double)kept / (N * SHARDS);
}

/* What was given and what was summed differ by what is kept, and what a span begins with is nothing. */
TEST(all_that_is_left_out_comes_later)
{
    for (size_t k = 0; k < KINDS; k++) {
        struct rand rand = {kinds[k]};
        OWNED(exact_destroy)
        struct exact *exact = coded(kinds[k], false), *flush = coded(kinds[k], true);
        begin(kinds[k], 0.01f);
        double most = 0;
        for (int s = 0; s < STEPS; s++)
            step(exact, &rand, 0.01f, false);
        for (size_t i = 0; i < N; i++) {
            double kept = 0;
            for (unsigned s = 0; s < SHARDS; s++)
                kept += (double)rest[s][i];
            assert_true(fabs(given[i] - summed[i] - kept) < 1e-3);
            most = fmax(most, fabs(kept));
        }
        assert_true(most <
                    0.01 * SHARDS * 100); /* of the order of what it gets in a hundred steps */
        int16_t before = exponent[0];
        step(flush, &rand, 0.01f, true);
        assert_int_equal(exponent[0], before);
        double unit =
            ldexp(1, before - codec_of(kinds[k])->bits - (codec_of(kinds[k])->bits < 15 ? 8 : 0));
        for (size_t i = 0; i < N; i++)
            assert_true(fabs(given[i] - summed[i]) < 1e-3 + SHARDS * unit);
    }
}

TEST(as_many_are_kept_as_the_codec_says)
{
    for (size_t k = 0; k < KINDS; k++) {
        struct rand rand = {7 + k};
        OWNED(exact_destroy) struct exact *exact = coded(kinds[k], false);
        bool all = kinds[k] == CODEC_onebit;
        begin(kinds[k], 0.01f);
        double share = 0;
        for (int s = 0; s < 300; s++) {
            double now = step(exact, &rand, 0.01f, false);
            share += s >= 200 ? now / 100 : 0;
        }
        assert_true(all ? share > 0.05 && share < 0.6 : share > 0.004 && share < 0.02);
    }
}

/* An exponent of the largest floats: 2^-128 would be no normal one. */
TEST(no_exponent_is_too_large)
{
    for (unsigned kind = CODEC_int16; kind < CODECS; kind++)
        for (int flush = 0; flush <= codec_of(kind)->memory; flush++) {
            OWNED(exact_destroy) struct exact *exact = coded((enum codec_kind)kind, flush);
            int32_t bad = 0;
            uint64_t check = 0;
            memset(own, 0, sizeof own);
            for (size_t i = 0; i < N; i++)
                g[i] = i % 2 ? 3e38f : -3e38f;
            exponent[0] = exponent[1] = exponent[2] = EXACT_EXPONENT_MAX;
            if (codec_of(kind)->memory)
                exact_add_kept(exact, exponent, 0, g, N, 9, own, over, &bad, &check);
            else
                exact_add(exact, exponent, 0, g, N, 1, 9, own, over, &bad, &check);
            assert_int_equal(bad, 0);
        }
}

/* Also from a unit that is far from right. */
TEST(the_unit_of_a_sign_comes_to_rest)
{
    for (int far = -8; far <= 8; far += 8) {
        struct rand rand = {9};
        OWNED(exact_destroy) struct exact *exact = coded(CODEC_onebit, false);
        begin(CODEC_onebit, 0.01f);
        for (size_t b = 0; b < BLOCKS; b++)
            exponent[b] = (int16_t)(exponent[b] + far);
        for (int s = 0; s < 200; s++)
            step(exact, &rand, 0.01f, false);
        int16_t least = exponent[0], most = exponent[0];
        for (int s = 0; s < 100; s++) {
            step(exact, &rand, 0.01f, false);
            least = exponent[0] < least ? exponent[0] : least;
            most = exponent[0] > most ? exponent[0] : most;
        }
        assert_true(most - least <= 1);
    }
}

static double
clipped(void)
{
    double sum = 0;
    for (size_t b = 0; b < BLOCKS; b++)
        sum += over[b];
    return sum / (N * SHARDS);
}

/* Of few bits: nearly all that is kept is sent, little of it does not fit, and nothing is lost. */
TEST(few_bits_find_their_unit)
{
    for (unsigned bits = 1; bits < 5; bits++)
        for (int far = -8; far <= 8; far += 8) {
            struct codec codec = *codec_of(CODEC_topk);
            struct rand rand = {bits};
            codec_round(&codec, bits);
            OWNED(exact_destroy)
            struct exact *exact = coded_with(&codec, false), *flush = coded_with(&codec, true);
            double share = 0, outside = 0;
            begin_with(exact, 0.01f);
            for (size_t b = 0; b < BLOCKS; b++)
                exponent[b] = (int16_t)(exponent[b] + far);
            for (int s = 0; s < 400; s++) {
                double now = step(exact, &rand, 0.01f, false);
                share += s >= 200 ? now / 200 : 0;
                outside += s >= 200 ? clipped() / 200 : 0;
            }
            assert_true(share > 0.006 && share < 0.012);
            assert_true(outside < 0.005);
            step(flush, &rand, 0.01f, true);
            double unit = ldexp(1, exponent[0] - codec.bits - 8);
            for (size_t i = 0; i < N; i++)
                assert_true(fabs(given[i] - summed[i]) < 1e-3 + SHARDS * unit);
        }
}

TEST(the_same_elements_are_chosen_for_all_shards)
{
    struct rand rand = {3};
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_randk, false);
    int32_t bad = 0, first[N];
    uint64_t check = 0;
    begin(CODEC_randk, 0.01f);
    for (int shard = 0; shard < 2; shard++) {
        memset(own, 0, sizeof own);
        for (size_t i = 0; i < N; i++)
            g[i] = 1 + (float)rand_below(&rand, 100) / 100;
        memcpy(next, g, sizeof next);
        exact_add_kept(exact, exponent, 0, next, N, 77, own, over, &bad, &check);
        for (size_t i = 0; i < N && shard == 1; i++)
            assert_int_equal(first[i] != 0, own[i] != 0);
        memcpy(first, own, sizeof first);
    }
    size_t chosen = 0;
    for (size_t i = 0; i < N; i++) {
        chosen += own[i] != 0;
        assert_true(own[i] != 0 || next[i] == g[i]);
    }
    assert_true(chosen > N / 200 && chosen < N / 50);
}

/* Seide et al.'s vector (reference case), with one unit for all: what is far below it waits. */
TEST(the_sign_of_a_vector)
{
    const float x[6] = {0.1f, 0.15f, -0.2f, 20, 15.3f, -1.222f};
    const int32_t sign[6] = {0, 0, 0, 1, 1, 0};
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_onebit, false);
    int32_t bad = 0;
    uint64_t check = 0;
    memset(own, 0, sizeof own);
    memset(over, 0, sizeof over);
    exponent[0] = exponent[1] = exponent[2] = 3; /* a unit of 8 */
    memcpy(next, x, sizeof x);
    exact_add_kept(exact, exponent, 0, next, 6, 0, own, over, &bad, &check);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(own[i], sign[i]);
        assert_true(next[i] == x[i] - 8 * (float)sign[i]);
    }
    assert_int_equal(over[0], 3); /* 20 and 15.3 are two units and one */
}

/* Blocks at a time: as all at once. */
TEST(parts_give_the_same)
{
    static int32_t whole[N];
    for (size_t k = 0; k < KINDS; k++) {
        struct rand rand = {5};
        OWNED(exact_destroy) struct exact *exact = coded(kinds[k], false);
        int32_t bad = 0;
        uint64_t check[2] = {0, 0};
        begin(kinds[k], 0.01f);
        draw(&rand, 0.01f);
        memset(whole, 0, sizeof whole);
        memset(own, 0, sizeof own);
        memcpy(next, g, sizeof next);
        exact_add_kept(exact, exponent, 0, next, N, 5, whole, over, &bad, &check[0]);
        for (size_t b = 0; b < BLOCKS; b++) {
            size_t at = exact_block_first(exact, b), n = exact_block_first(exact, b + 1) - at;
            exact_add_kept(exact, exponent, at, g + at, n, 5, own, over, &bad, &check[1]);
        }
        assert_memory_equal(whole, own, sizeof own);
        assert_memory_equal(g, next, sizeof next);
        assert_true(check[0] == check[1]);
    }
}

/* The largest ones of each block, about one in a hundred. */
TEST(the_largest_are_kept)
{
    struct rand rand = {6};
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_topk, false);
    int32_t bad = 0;
    uint64_t check = 0;
    draw(&rand, 0.01f);
    memset(own, 0, sizeof own);
    exponent[0] = exponent[1] = exponent[2] = -3;
    memcpy(next, g, sizeof next);
    exact_add_kept(exact, exponent, 0, next, N, 0, own, over, &bad, &check);
    for (size_t b = 0; b < BLOCKS; b++) {
        size_t kept = 0, n = exact_block_first(exact, b + 1) - exact_block_first(exact, b);
        float least = 1, most = 0;
        for (size_t i = exact_block_first(exact, b); i < exact_block_first(exact, b + 1); i++) {
            kept += own[i] != 0;
            least = own[i] != 0 ? fminf(least, fabsf(g[i])) : least;
            most = own[i] == 0 ? fmaxf(most, fabsf(g[i])) : most;
        }
        assert_true(least > most);
        assert_true(kept >= n / 100 && kept < n / 50);
    }
}

TEST(what_is_no_number_is_told)
{
    for (size_t k = 0; k < KINDS; k++)
        for (int flush = 0; flush < 2; flush++) {
            struct rand rand = {5};
            OWNED(exact_destroy) struct exact *exact = coded(kinds[k], flush);
            int32_t bad = 0;
            uint64_t check = 0;
            begin(kinds[k], 0.01f);
            draw(&rand, 0.01f);
            g[7] = NAN;
            g[1200] = -INFINITY;
            exact_add_kept(exact, exponent, 0, g, N, 5, own, over, &bad, &check);
            assert_int_equal(bad, 2);
        }
}

TEST_OF_VARIANTS(every_instruction_set_gives_the_same)
{
    static int32_t q[2][N];
    static float left[2][N];
    static uint16_t at[2][N + 1];
    struct check_sums sums[2];
    struct rand rand = {11};
    uint32_t units[2];
    draw(&rand, 0.01f);
    for (size_t n = 1; n <= N && n <= EXACT_FEW_MAX; n += n < 70 ? 1 : 97) {
        size_t count = exact_few_base(at[0], g, n, 0.3f, 99);
        assert_int_equal(count, SIMD_PICK(exact_few)(at[1], g, n, 0.3f, 99));
        assert_memory_equal(at[0], at[1], count * sizeof at[0][0]);
        count = exact_top_base(at[0], g, n, (n + 9) / 10);
        assert_int_equal(count, SIMD_PICK(exact_top)(at[1], g, n, (n + 9) / 10));
        assert_memory_equal(at[0], at[1], count * sizeof at[0][0]);
        memset(q, 0, sizeof q);
        memcpy(left[0], g, sizeof left[0]);
        memcpy(left[1], g, sizeof left[1]);
        assert_true(exact_sign_base(q[0], left[0], n, 64, 0x1p-6f, &sums[0], &units[0]) ==
                    SIMD_PICK(exact_sign)(q[1], left[1], n, 64, 0x1p-6f, &sums[1], &units[1]));
        assert_int_equal(units[0], units[1]);
        assert_memory_equal(&sums[0], &sums[1], sizeof *sums);
        exact_keep_base(own, left[0], q[0], n, 0x1p-6f);
        SIMD_PICK(exact_keep)(own, left[1], q[1], n, 0x1p-6f);
        assert_memory_equal(q[0], q[1], sizeof q[0]);
        assert_memory_equal(left[0], left[1], sizeof left[0]);
    }
}

static int
rising(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x > y) - (x < y);
}

/* As many as are wanted, or more where several begin with the same 14 bits; none that is left out is larger by so
 * much. */
TEST(the_largest_are_chosen_of_any_numbers)
{
    struct rand rand = {12};
    for (int k = 0; k < 2000; k++) {
        float a[EXACT_FEW_MAX], sorted[EXACT_FEW_MAX];
        uint16_t at[EXACT_FEW_MAX + 1];
        size_t n = (size_t)rand_range(&rand, 1, EXACT_FEW_MAX);
        size_t count = (size_t)rand_range(&rand, 1, n);
        count = k % 2 ? codec_few(codec_of(CODEC_topk), n) : count;
        for (size_t i = 0; i < n; i++)
            a[i] = sorted[i] =
                k % 3 == 0 ? (float)rand_range(&rand, 0, 3)
                           : ldexpf((float)rand_normal(&rand), (int)rand_range(&rand, 0, k % 40));
        qsort(sorted, n, sizeof *sorted, rising);
        size_t found = SIMD_PICK(exact_top)(at, a, n, count), above = 0;
        float least = fabsf(sorted[n - count]);
        assert_in_range(found, count, n);
        for (size_t i = 0; i < n; i++)
            above += fabsf(a[i]) >= least * (1 - 1 / 64.0f);
        assert_true(found <= above);
        for (size_t i = 0; i < found; i++) {
            assert_true(fabsf(a[at[i]]) >= least * (1 - 1 / 64.0f));
            assert_true(i == 0 || at[i] > at[i - 1]);
        }
    }
}

/* The list for rules of the configuration says what the table says. */
TEST(the_list_names_all_with_memory)
{
    char list[64] = "";
    for (unsigned kind = CODEC_none + 1; kind < CODECS; kind++)
        if (codec_of(kind)->memory) {
            strcat(list, *list ? "|" : "");
            strcat(list, codec_of(kind)->name);
        }
    assert_string_equal(list, CODECS_WITH_MEMORY);
}

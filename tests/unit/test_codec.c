/* test_codec.c - what codecs make of gradients: within their bits, right in the mean, the same with every instruction
 * set, and what they do about values that do not fit. */
#include <math.h>

#include "compress/check.h"
#include "compress/exact.h"
#include "compress/exact_simd.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { N = 1500, DRAWS = 10000, SHARDS = 12 };
enum { FORGET = CODEC_topk }; /* from here on codecs have a memory: test_kept.c */

static float g[N], value[N];
static int32_t own[N], over[2];
static int16_t exponent[2];

/* Two tensors of one block each would not do: one of two blocks, whose largest element is below 2^-3. */
static struct exact *
coded(enum codec_kind kind)
{
    struct exact *exact;
    struct rand rand = {7};
    const size_t count = N;
    assert_int_equal(exact_new(&exact, &count, 1, SHARDS), 0);
    if (kind != CODEC_none)
        exact_code(exact, 0, codec_of(kind), 1, false);
    for (size_t i = 0; i < N; i++)
        g[i] = ((float)(rand_u64(&rand) >> 40) * 0x1p-23f - 1) * 0.12f;
    exponent[0] = exponent[1] = -3;
    memset(own, 0, sizeof own);
    memset(over, 0, sizeof over);
    return exact;
}

static int32_t
add(const struct exact *exact, uint32_t key)
{
    int32_t bad = 0;
    uint64_t check = 0;
    exact_add(exact, exponent, 0, g, N, 1, key, own, over, &bad, &check);
    assert_true(check == check_of(own, 0, N) || key > 0);
    return bad;
}

TEST(integers_are_within_their_bits)
{
    for (unsigned kind = CODEC_int16; kind < FORGET; kind++) {
        OWNED(exact_destroy) struct exact *exact = coded((enum codec_kind)kind);
        const struct codec *codec = codec_of(kind);
        assert_int_equal(add(exact, 0), 0);
        exact_read(exact, exponent, own, 0, value, N);
        float unit = ldexpf(1, -3 - codec->bits), largest = 0;
        float worst = codec->rounding == CODEC_DRAWN ? unit : unit / 2;
        for (size_t i = 0; i < N; i++) {
            float rounded = codec->dropped ? ldexpf(0.125f, codec->dropped - 24) : 0;
            assert_true(abs(own[i]) <= 1 << codec->bits);
            assert_true(fabsf(value[i] - g[i]) <= worst + rounded);
            largest = fmaxf(largest, fabsf(value[i] - g[i]));
        }
        assert_true(largest > unit / 4); /* it is the grid of the codec */
        assert_int_equal(over[0] + over[1], 0);
    }
}

/* The mean of 10,000 draws is within six standard deviations of the gradient, for each element; that of one draw is 1/2
 * at most. */
static void
mean_is_right(enum codec_kind kind)
{
    OWNED(exact_destroy) struct exact *exact = coded(kind);
    for (uint32_t draw = 0; draw < DRAWS; draw++)
        add(exact, 0x9e3779b9u * (draw + 1));
    const double scale = ldexp(1, codec_of(kind)->bits + 3), deviation = 0.5 / sqrt(DRAWS);
    double all = 0;
    for (size_t i = 0; i < N; i++) {
        double error = own[i] / (double)DRAWS - (double)g[i] * scale;
        assert_true(fabs(error) < 6 * deviation);
        all += error;
    }
    assert_true(fabs(all / N) < 6 * deviation / sqrt(N));
}

TEST(what_is_drawn_is_right_in_the_mean)
{
    for (unsigned kind = CODEC_int16; kind < FORGET; kind++)
        if (codec_of(kind)->rounding == CODEC_DRAWN)
            mean_is_right((enum codec_kind)kind);
}

/* Of elements below the unit, Q is not zero with the chance |g| / unit, and then one unit: so the mean of its squares
 * is |g| * unit (Wangni et al., section 3; Wen et al., equation 3). */
TEST(elements_are_kept_in_proportion_to_their_size)
{
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_terngrad);
    double expected = 0, squares = 0;
    for (size_t i = 0; i < N; i++)
        expected += fabs((double)g[i]) * 8;
    for (uint32_t draw = 0; draw < 1000; draw++) {
        memset(own, 0, sizeof own);
        add(exact, 0x85ebca6bu * (draw + 1));
        for (size_t i = 0; i < N; i++)
            squares += (double)own[i] * own[i];
    }
    assert_true(fabs(squares / 1000 - expected) < 6 * sqrt(N / 4.0 / 1000));
}

static void
draw_normal(struct rand *rand, float deviation)
{
    for (size_t i = 0; i < N; i++)
        g[i] = rand_normal(rand) * deviation;
}

/* A step of all shards, and what its sum makes of the exponents. Returns the share of elements of a shard that are not
 * zero. */
static double
step_adapts(const struct exact *exact, struct rand *rand, float deviation)
{
    uint64_t squares[2];
    size_t kept = 0;
    memset(own, 0, sizeof own);
    memset(over, 0, sizeof over);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        static int32_t before[N];
        memcpy(before, own, sizeof own);
        draw_normal(rand, deviation);
        add(exact, (uint32_t)rand_u64(rand));
        for (size_t i = 0; i < N; i++)
            kept += own[i] != before[i];
    }
    if (exact_raise(exact, over, exponent))
        return 1;
    for (size_t b = 0; b < 2; b++)
        squares[b] = exact_squares(exact, own, b);
    exact_adapt(exact, 0, squares, over, exponent);
    return (double)kept / (N * SHARDS);
}

TEST(as_many_are_kept_as_the_codec_says)
{
    for (unsigned kind = CODEC_int16; kind < FORGET; kind++) {
        const struct codec *codec = codec_of(kind);
        struct rand rand = {kind};
        OWNED(exact_destroy) struct exact *exact = coded((enum codec_kind)kind);
        for (int far = -20; far <= 20 && codec->percent > 0; far += 10) {
            exponent[0] = (int16_t)far;
            exponent[1] = (int16_t)(far + 3);
            for (int steps = 0; steps < 40; steps++)
                step_adapts(exact, &rand, 0.01f);
            for (int steps = 0; steps < 10; steps++) {
                double share = step_adapts(exact, &rand, 0.01f) * 100 / codec->percent;
                assert_int_equal(exponent[0], exponent[1]);
                assert_true(share > 0.45 && share < 1.8);
                assert_true(over[0] + over[1] < N * SHARDS / 50);
            }
        }
    }
}

TEST(small_tensors_have_no_unit_of_their_own)
{
    assert_true(codec_takes(codec_of(CODEC_sparse), CODEC_SMALL, 1, true));
    assert_false(codec_takes(codec_of(CODEC_sparse), CODEC_SMALL - 1, 1, true));
    assert_true(codec_takes(codec_of(CODEC_int8), 1, 1, true));
    assert_true(codec_takes(codec_of(CODEC_terngrad), CODEC_SMALL, 1, false));
    assert_false(codec_takes(codec_of(CODEC_terngrad), CODEC_SMALL, 1, true));
}

/* A quarter of a tensor is too large: all its blocks are raised, and the round is repeated. */
TEST(a_tensor_is_raised_as_one)
{
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_terngrad);
    over[0] = N * SHARDS / EXACT_CLIPPED_TENSOR;
    assert_int_equal(exact_raise(exact, over, exponent), 0);
    over[1] = 1;
    assert_int_equal(exact_raise(exact, over, exponent), 1);
    assert_int_equal(exponent[0], -3 + EXACT_RAISE_CODED);
    assert_int_equal(exponent[1], exponent[0]);
    exponent[0] = exponent[1] = EXACT_EXPONENT_MAX;
    assert_int_equal(exact_raise(exact, over, exponent), 0);
}

TEST(two_keys_draw_different_numbers)
{
    static int32_t first[N];
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_int8);
    add(exact, 1);
    memcpy(first, own, sizeof own);
    memset(own, 0, sizeof own);
    add(exact, 1);
    assert_memory_equal(first, own, sizeof own);
    memset(own, 0, sizeof own);
    add(exact, 2);
    size_t differ = 0;
    for (size_t i = 0; i < N; i++)
        differ += first[i] != own[i];
    assert_true(differ > N / 8 && differ < N);
}

TEST(formats_have_their_bits)
{
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_bf16);
    g[0] = 0x1.01p-4f, g[1] = 0x1.03p-4f, g[2] = -0x1.03p-4f, g[3] = 0x1.fffp-5f;
    add(exact, 0);
    exact_read(exact, exponent, own, 0, value, 4);
    assert_true(value[0] == 0x1p-4f && value[1] == 0x1.04p-4f); /* to even */
    assert_true(value[2] == -0x1.04p-4f && value[3] == 0x1p-4f);
    exact_destroy(&exact);
    exact = coded(CODEC_fp16);
    g[0] = 0x1.002p-4f, g[1] = 0x1.006p-4f, g[2] = 0x1.ffffp-5f;
    add(exact, 0);
    exact_read(exact, exponent, own, 0, value, 3);
    assert_true(value[0] == 0x1p-4f && value[1] == 0x1.008p-4f && value[2] == 0x1p-4f);
}

TEST(few_saturated_elements_do_no_harm)
{
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_int8);
    const int harmless = 1024 * SHARDS / EXACT_CLIPPED;
    g[0] = 1, g[1] = -3e38f, g[2] = 0x1p-149f, g[3] = 0;
    assert_int_equal(add(exact, 5), 0);
    assert_int_equal(over[0], 2);
    assert_true(own[0] >= 127 && own[0] <= 128 && own[1] <= -127 && own[1] >= -128);
    assert_true(own[2] == 0 || own[2] == 1);
    assert_int_equal(own[3], 0);
    over[0] = harmless;
    assert_int_equal(exact_raise(exact, over, exponent), 0);
    over[0] = harmless + 1;
    assert_int_equal(exact_raise(exact, over, exponent), 1);
    assert_true(exponent[0] == -3 + EXACT_RAISE_CODED && exponent[1] == -3);
    exponent[0] = EXACT_EXPONENT_MAX; /* the rounds that are repeated come to an end */
    assert_int_equal(exact_raise(exact, over, exponent), 0);
}

TEST(what_is_no_number_is_told)
{
    for (unsigned kind = CODEC_int16; kind < FORGET; kind++) {
        OWNED(exact_destroy) struct exact *exact = coded((enum codec_kind)kind);
        g[7] = NAN;
        g[1200] = -INFINITY;
        assert_int_equal(add(exact, 0), 2);
        assert_true(abs(own[7]) <= 1 << codec_of(kind)->bits);
    }
}

/* Exponents mean the same on both grids, but for the headroom: a coded sum says the same to the next step. */
TEST(exponents_follow_as_without_a_codec)
{
    int16_t plain[2] = {0};
    for (unsigned kind = CODEC_none; kind < FORGET; kind++) {
        struct exact *exact = coded((enum codec_kind)kind);
        uint32_t bits;
        if (exact_adapts(exact, 0)) {
            exact_destroy(&exact);
            continue;
        }
        add(exact, 3);
        for (size_t b = 0; b < 2; b++) {
            exact_take(exact, exponent, own, b, value, &bits);
            exact_follow(exact, b, bits, true, exponent);
            int headroom = kind == CODEC_none ? EXACT_HEADROOM : EXACT_HEADROOM_CODED;
            plain[b] = kind == CODEC_none ? exponent[b] : plain[b];
            assert_int_equal(exponent[b] - headroom, plain[b] - EXACT_HEADROOM);
        }
        exact_destroy(&exact);
    }
}

TEST_OF_VARIANTS(every_instruction_set_gives_the_same)
{
    static int32_t q[2][N];
    struct check_sums sums[2];
    OWNED(exact_destroy) struct exact *exact = coded(CODEC_int8);
    assert_non_null(exact);
    g[3] = NAN, g[11] = 1e38f, g[12] = 1e-42f;
    for (size_t n = 0; n <= N; n += n < 70 ? 1 : 97) {
        memset(q, 0, sizeof q);
        uint32_t a = exact_drawn_base(q[0], g, n, 1024, 127.5f, 99, &sums[0]);
        uint32_t b = SIMD_PICK(exact_drawn)(q[1], g, n, 1024, 127.5f, 99, &sums[1]);
        assert_true(a == b);
        assert_memory_equal(&sums[0], &sums[1], sizeof *sums);
        assert_memory_equal(q[0], q[1], sizeof q[0]);
        memset(q, 0, sizeof q);
        exact_rounded_base(q[0], g, n, 1024, 127.5f, 13, &sums[0]);
        SIMD_PICK(exact_rounded)(q[1], g, n, 1024, 127.5f, 13, &sums[1]);
        assert_memory_equal(&sums[0], &sums[1], sizeof *sums);
        assert_memory_equal(q[0], q[1], sizeof q[0]);
        assert_true(exact_squares_base(q[0], n) == SIMD_PICK(exact_squares)(q[1], n));
    }
}

TEST(a_share_of_a_block_is_a_whole_number)
{
    struct codec codec = *codec_of(CODEC_topk);
    for (size_t n = 1; n <= 1024; n++)
        assert_int_equal(codec_few(&codec, n), (n + 99) / 100);
    codec.share = 1e-6;
    assert_int_equal(codec_few(&codec, 1024), 1);
    codec.share = 1;
    assert_int_equal(codec_few(&codec, 700), 700);
}

/* test_lowrank.c - products with a few vectors (PowerSGD, ACP-SGD): what they keep of a matrix, that nothing else is
 * lost, and the same bits with every instruction set. */
#include <math.h>

#include "compress/check.h"
#include "compress/exact.h"
#include "compress/lowrank.h"
#include "compress/lowrank_simd.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { ROWS = 70, COLS = 50, N = ROWS * COLS, MOST = COLS * ROWS, STEPS = 40, SHARDS = 3 };

static float a[N], rest[N], p[MOST], basis[MOST + 1], next[MOST + 1], g[N];
static const float nothing[MOST]; /* is left of a product */
static int32_t sum[MOST];

static void
random_matrix(struct rand *rand, size_t rank)
{
    memset(a, 0, sizeof a);
    for (size_t k = 0; k < rank; k++) {
        float u[ROWS], v[COLS];
        for (size_t i = 0; i < ROWS; i++)
            u[i] = rand_normal(rand);
        for (size_t j = 0; j < COLS; j++)
            v[j] = rand_normal(rand);
        for (size_t i = 0; i < N; i++)
            a[i] += u[i / COLS] * v[i % COLS];
    }
}

static double
norm(const float *x, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

static bool
on_the_left(void)
{
    return basis[0] == 2;
}

static void
assert_orthonormal(const float *vectors, size_t count, size_t n)
{
    for (size_t k = 0; k < count; k++)
        for (size_t l = 0; l <= k; l++) {
            double dot = 0;
            for (size_t i = 0; i < n; i++)
                dot += (double)vectors[k * n + i] * (double)vectors[l * n + i];
            assert_true(fabs(dot - (k == l)) < 1e-5);
        }
}

/* One step of a matrix that stays the same, without error feedback. Returns the share of it that is left out. */
static double
step(const struct lowrank *m, float unit)
{
    memcpy(rest, a, sizeof rest);
    size_t n = lowrank_project(m, basis, rest, p);
    assert_int_equal(n, m->rank * (on_the_left() ? m->cols : m->rows));
    lowrank_take(m, basis, p, nothing, rest);
    for (size_t i = 0; i < n; i++)
        sum[i] = (int32_t)lrintf(p[i] / unit);
    lowrank_next(m, basis, sum, 5, next);
    assert_orthonormal(next + 1, m->rank, on_the_left() ? m->cols : m->rows);
    memcpy(basis, next, sizeof basis);
    return norm(rest, N) / norm(a, N);
}

/* As many vectors as the smaller side has elements. */
TEST(full_rank_is_exact)
{
    struct rand rand = {1};
    const struct lowrank m = {ROWS, COLS, COLS};
    random_matrix(&rand, 60);
    lowrank_draw(&m, 3, basis);
    assert_orthonormal(basis + 1, COLS, COLS);
    for (int s = 0; s < 4; s++)
        assert_true(step(&m, 0x1p-10f) < 1e-4);
}

/* Of a matrix of rank 3, two steps are one iteration of the paper: exact to rounding from a generic start. */
TEST(one_iteration_finds_a_matrix_of_this_rank)
{
    struct rand rand = {2};
    const struct lowrank m = {ROWS, COLS, 3};
    random_matrix(&rand, 3);
    lowrank_draw(&m, 3, basis);
    assert_true(step(&m, 0x1p-14f) > 0.5);
    for (int s = 0; s < 4; s++)
        assert_true(step(&m, 0x1p-14f) < 1e-3);
}

/* A matrix of singular values 8, 4, 2, 1, 1/2 ...: what is left out comes down to those behind the first two. */
TEST(it_comes_to_the_largest_singular_vectors)
{
    struct rand rand = {3};
    const struct lowrank m = {ROWS, COLS, 2}, all = {ROWS, COLS, 8};
    static float u[8 * ROWS + 1], v[8 * COLS + 1];
    double behind = 0, squares = 0;
    lowrank_draw(&(struct lowrank){COLS, ROWS, 8}, rand_u64(&rand), u);
    lowrank_draw(&all, rand_u64(&rand), v);
    memset(a, 0, sizeof a);
    for (size_t k = 0; k < 8; k++) {
        double value = ldexp(8, -(int)k);
        squares += value * value;
        behind += k < 2 ? 0 : value * value;
        for (size_t i = 0; i < N; i++)
            a[i] += (float)value * u[1 + k * ROWS + i / COLS] * v[1 + k * COLS + i % COLS];
    }
    lowrank_draw(&m, 4, basis);
    double left = 1;
    for (int s = 0; s < STEPS; s++)
        left = step(&m, 0x1p-14f);
    assert_true(fabs(left - sqrt(behind / squares)) < 1e-3);
}

/* What the integers of a product stand for is what was taken, in whatever parts it is read. */
TEST(what_is_read_is_what_was_taken)
{
    struct rand rand = {4};
    const struct lowrank m = {ROWS, COLS, 2};
    static float part[N];
    const float unit = 0x1p-8f;
    random_matrix(&rand, 40);
    lowrank_draw(&m, 5, basis);
    for (int side = 0; side < 2; side++) {
        memcpy(rest, a, sizeof rest);
        size_t n = lowrank_project(&m, basis, rest, p);
        for (size_t i = 0; i < n; i++) {
            sum[i] = (int32_t)lrintf(p[i] / unit);
            p[i] = (float)sum[i] * unit;
        }
        lowrank_take(&m, basis, p, nothing, rest);
        lowrank_read(&m, basis, sum, unit, 0, g, N);
        for (size_t i = 0; i < N; i++)
            assert_true(fabsf(a[i] - rest[i] - g[i]) < 1e-4f);
        for (size_t at = 0, count; at < N; at += count) {
            count = rand_range(&rand, 1, 130);
            count = count < N - at ? count : N - at;
            lowrank_read(&m, basis, sum, unit, at, part + at, count);
        }
        assert_memory_equal(part, g, sizeof g);
        lowrank_next(&m, basis, sum, 5, next);
        memcpy(basis, next, sizeof basis);
    }
}

/* Zeros, equal rows, a basis that is no number: there is always a next basis. */
TEST(vectors_that_depend_on_others_are_drawn_anew)
{
    const struct lowrank m = {ROWS, COLS, 3};
    for (int kind = 0; kind < 3; kind++) {
        lowrank_draw(&m, 6, basis);
        for (size_t i = 0; i < 3 * ROWS; i++)
            sum[i] = kind == 0 ? 0 : kind == 1 ? (int32_t)(i % ROWS) : INT32_MIN;
        basis[1] = kind == 2 ? NAN : basis[1];
        lowrank_next(&m, basis, sum, 6, next);
        assert_orthonormal(next + 1, 3, ROWS);
    }
    for (size_t i = 0; i < N; i++)
        a[i] = i == 99 ? NAN : 1;
    lowrank_draw(&m, 6, basis);
    lowrank_project(&m, basis, a, p);
    assert_true(isnan(p[99 / COLS]));
}

TEST(matrices_for_which_it_pays)
{
    const struct codec *codec = codec_of(CODEC_powersgd);
    assert_true(codec_takes(codec, 2560, 256, true));
    assert_false(codec_takes(codec, 4000, 1, true)); /* a vector */
    assert_false(codec_takes(codec, 512, 32, true)); /* a small one */
    assert_false(codec_takes(codec, 4096, 4, true));
    assert_int_equal(lowrank_most(&(struct lowrank){256, 10, 2}), 512);
    assert_int_equal(lowrank_least(&(struct lowrank){256, 10, 2}), 20);
}

/* --- As a codec ---------------------------------------------------------------------------------- */

static struct exact *
coded(bool flush)
{
    struct exact *exact;
    const size_t count[2] = {N, 100};
    assert_int_equal(exact_new(&exact, count, 2, SHARDS), 0);
    exact_code(exact, 0, codec_of(CODEC_powersgd), ROWS, flush);
    return exact;
}

/* One step of all shards with error feedback. Returns how many elements were saturated. */
static int32_t
coded_step(const struct exact *exact, struct rand *rand, int16_t *exponent, float left[SHARDS][N],
           double *given, double *summed)
{
    static int32_t own[N + 100];
    int32_t over[8] = {0}, bad = 0;
    uint64_t check = 0, squares[8];
    const struct lowrank *m = exact_matrix(exact, 0);
    memset(own, 0, sizeof own);
    for (unsigned s = 0; s < SHARDS; s++) {
        static float quantised[MOST];
        for (size_t i = 0; i < N; i++) {
            float x = rand_normal(rand) + 3 * sinf((float)(i / COLS)) * cosf((float)(i % COLS));
            left[s][i] += x;
            given[i] += (double)x;
        }
        if (!m) {
            exact_add_kept(exact, exponent, 0, left[s], N, 1, own, over, &bad, &check);
            memset(left[s], 0, sizeof left[s]);
            continue;
        }
        size_t n = lowrank_project(m, basis, left[s], p);
        memcpy(quantised, p, n * sizeof *p);
        exact_add_kept(exact, exponent, 0, quantised, n, 1, own, over, &bad, &check);
        lowrank_take(m, basis, p, quantised, left[s]);
    }
    assert_int_equal(bad, 0);
    assert_true(check == check_of(own, 0, N));
    if (m)
        lowrank_read(m, basis, own, exact_unit(exact, exponent, 0), 0, g, N);
    else
        exact_read(exact, exponent, own, 0, g, N);
    for (size_t i = 0; i < N; i++)
        summed[i] += (double)g[i];
    for (size_t b = 0; b < exact_tensor_first(exact, 1); b++)
        squares[b] = exact_squares(exact, own, b);
    int32_t outside = over[0] + over[1] + over[2] + over[3];
    exact_adapt(exact, 0, squares, over, exponent);
    if (m) {
        lowrank_next(m, basis, own, 7, next);
        memcpy(basis, next, sizeof basis);
    }
    return outside;
}

/* What was given and what was summed differ by what is kept; the end of a span sends that; the unit comes to rest. */
TEST(nothing_is_lost)
{
    static float left[SHARDS][N];
    static double given[N], summed[N], squares[8];
    struct rand rand = {8};
    OWNED(exact_destroy) struct exact *exact = coded(false), *flush = coded(true);
    int16_t exponent[8];
    assert_null(exact_matrix(flush, 0));
    assert_null(exact_matrix(exact, 1));
    assert_int_equal(exact_product_most(exact), codec_of(CODEC_powersgd)->rank * ROWS);
    exact_first(exact, exponent);
    squares[0] = 100.0 * N;
    exact_begin(exact, squares, exponent);
    lowrank_draw(exact_matrix(exact, 0), 9, basis);
    for (int s = 0; s < 200; s++) {
        int32_t outside = coded_step(exact, &rand, exponent, left, given, summed);
        assert_true(outside == 0 || s < 20);
        for (size_t b = 1; b < exact_tensor_first(exact, 1); b++)
            assert_int_equal(exponent[b], exponent[0]);
    }
    for (size_t i = 0; i < N; i++) {
        double kept = (double)left[0][i] + (double)left[1][i] + (double)left[2][i];
        assert_true(fabs(given[i] - summed[i] - kept) < 0.05);
        assert_true(fabs(kept) < 200);
    }
    assert_int_equal(coded_step(flush, &rand, exponent, left, given, summed), 0);
    double unit = (double)exact_unit(flush, exponent, 0);
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(given[i] - summed[i]) < 0.05 + SHARDS * unit);
}

/* What does not fit is counted; one in 64 of a product may be outside. */
TEST(a_unit_that_is_too_small_is_raised)
{
    OWNED(exact_destroy) struct exact *exact = coded(false);
    int16_t exponent[8];
    int32_t over[8] = {0};
    exact_first(exact, exponent);
    over[1] = (int32_t)codec_of(CODEC_powersgd)->rank * COLS * SHARDS / EXACT_CLIPPED;
    assert_int_equal(exact_raise(exact, over, exponent), 0);
    over[0] = 1;
    assert_int_equal(exact_raise(exact, over, exponent), 1);
    for (size_t b = 0; b < exact_tensor_first(exact, 1); b++)
        assert_int_equal(exponent[b], EXACT_EXPONENT_FIRST + EXACT_RAISE_CODED);
}

TEST_OF_VARIANTS(every_instruction_set_gives_the_same_bits)
{
    struct rand rand = {10};
    for (size_t n = 0; n < 200; n++) {
        float x[200], y[2][200];
        int32_t q[200];
        for (size_t i = 0; i < n; i++) {
            x[i] = rand_normal(&rand);
            y[0][i] = y[1][i] = rand_normal(&rand);
            q[i] = (int32_t)rand_below(&rand, 1 << 22) - (1 << 21);
        }
        float dot = lowrank_dot_base(x, y[0], n);
        assert_true(SIMD_PICK(lowrank_dot)(x, y[0], n) == dot);
        lowrank_add_base(y[0], x, dot, n);
        SIMD_PICK(lowrank_add)(y[1], x, dot, n);
        lowrank_add_int_base(y[0], q, 0.3f, n);
        SIMD_PICK(lowrank_add_int)(y[1], q, 0.3f, n);
        assert_memory_equal(y[0], y[1], n * sizeof *x);
    }
}

/* The product loop gives, bit for bit, what three nested loops give: for every tile shape, for views with
 * two strides per index, in every variant. Packing and transposing move each element to its place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/arithmetic/gemm.h"
#include "nn/arithmetic/simd.h"
#include "tests/support/rand.h"

enum { SIZE = 1 << 16, LDC = 23 };

static float a[SIZE], b[SIZE], c[SIZE], expected[SIZE];

static void
fill(struct rand *rand, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rand_below(rand, 2001) / 977.0f - 1;
}

static void
three_loops(const struct gemm_view *v, size_t m, size_t n, size_t k, const float *panel, bool add,
            float *out)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = add ? out[i * LDC + j] : 0;
            for (size_t t = 0; t < k; t++) {
                float x = v->at[i / v->width * v->line + i % v->width * v->row +
                                t / v->run * v->jump + t % v->run * v->step];
                sum = fmaf(x, panel[t * GEMM_COLUMNS + j], sum);
            }
            out[i * LDC + j] = sum;
        }
}

static void
every_shape_equals_three_loops(void **state)
{
    (void)state;
    struct rand rand = {1};
    gemm_panel_fn *f[GEMM_VARIANTS];
    size_t variants = gemm_variants(f);
    fill(&rand, a, SIZE);
    fill(&rand, b, SIZE);
    for (size_t m = 1; m < 30; m++)
        for (size_t n = 1; n <= GEMM_COLUMNS; n++)
            for (size_t i = 0; i < 2 * variants; i++) {
                size_t runs = 1 + rand_below(&rand, 4), run = 1 + rand_below(&rand, 9);
                bool add = rand_below(&rand, 2);
                struct gemm_view view = {a + rand_below(&rand, 9),
                                         1 + rand_below(&rand, m + 3),
                                         rand_below(&rand, 900),
                                         rand_below(&rand, 60),
                                         run,
                                         rand_below(&rand, 500),
                                         1 + rand_below(&rand, 40)};
                fill(&rand, c, 30 * LDC);
                memcpy(expected, c, 30 * LDC * sizeof *c);
                three_loops(&view, m, n, runs * run, b, add, expected);
                f[i % variants](&view, m, n, runs * run, b, add, c, LDC);
                assert_memory_equal(c, expected, 30 * LDC * sizeof *c);
            }
}

static void
a_row_does_not_depend_on_the_rows_around_it(void **state)
{
    (void)state;
    struct rand rand = {2};
    fill(&rand, a, SIZE);
    fill(&rand, b, SIZE);
    for (size_t m = 1; m < 40; m++) {
        struct gemm_view all = {a, m, 0, 100, 100, 0, 1},
                         one = {a + (m - 1) * 100, 1, 0, 0, 100, 0, 1};
        gemm_panel(&all, m, 16, 100, b, false, c, LDC);
        gemm_panel(&one, 1, 16, 100, b, false, expected, LDC);
        assert_memory_equal(c + (m - 1) * LDC, expected, 16 * sizeof *c);
    }
}

static void
transposing_moves_every_element(void **state)
{
    (void)state;
    struct rand rand = {3};
    fill(&rand, a, SIZE);
    for (size_t m = 0; m < 21; m++)
        for (size_t n = 0; n < 21; n++) {
            fill(&rand, c, 1000);
            memcpy(expected, c, 1000 * sizeof *c);
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++)
                    expected[j * (m + 2) + i] = a[i * (n + 3) + j];
            gemm_transpose(a, n + 3, m, n, c, m + 2);
            assert_memory_equal(c, expected, 1000 * sizeof *c);
            gemm_transpose_base(a, n + 3, m, n, c, m + 2);
            assert_memory_equal(c, expected, 1000 * sizeof *c);
        }
}

static void
panels_hold_the_matrix_and_zeros(void **state)
{
    (void)state;
    struct rand rand = {4};
    fill(&rand, a, SIZE);
    for (size_t k = 1; k < 20; k++)
        for (size_t n = 1; n < 40; n++) {
            size_t size = gemm_packed_size(k, n), whole = (n + 15) / 16;
            assert_int_equal(size, whole * 16 * k);
            for (size_t j = 0; j < whole * 16; j++)
                for (size_t i = 0; i < k; i++)
                    expected[j / 16 * k * 16 + i * 16 + j % 16] = j < n ? a[i * 50 + j] : 0;
            gemm_pack(a, 50, k, n, c);
            assert_memory_equal(c, expected, size * sizeof *c);
            gemm_transpose(a, 50, k, n, b, 50);
            memset(c, 0xff, size * sizeof *c);
            gemm_pack_transposed(b, 50, k, n, c);
            assert_memory_equal(c, expected, size * sizeof *c);
        }
}

static void
shares_of_the_depth_are_even_and_moderate(void **state)
{
    (void)state;
    for (size_t k = 1; k < 5000; k++) {
        size_t share = gemm_depth(k), count = (k + share - 1) / share;
        assert_in_range(share, 1, 3 * GEMM_DEPTH / 2);
        assert_true(share * count - k < count);
    }
}

/* Random bits: denormals, infinities and sums that cancel are among them. */
static float
any_float(struct rand *rand, uint32_t exponents)
{
    uint32_t bits = (uint32_t)(rand_below(rand, 1 << 23) | rand_below(rand, 2) << 31);
    float x;
    bits |= (uint32_t)(exponents == 256 ? rand_below(rand, 256) : 127 + rand_below(rand, exponents))
            << 23;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A tile of one step, c0 + a b, where fusing or rounding once too often shows. */
static void
every_step_is_rounded_once(void **state)
{
    (void)state;
    struct rand rand = {7};
    gemm_panel_fn *f[GEMM_VARIANTS];
    const struct gemm_view view = {a, 1, 0, 1, 1, 0, 1};
    for (size_t i = 0, variants = gemm_variants(f); i < 200000; i++) {
        uint32_t exponents = i % 3 == 0 ? 256 : i % 3 == 1 ? 3 : 30;
        a[0] = any_float(&rand, exponents);
        for (size_t j = 0; j < GEMM_COLUMNS; j++) {
            b[j] = any_float(&rand, exponents);
            c[j] = expected[j] = any_float(&rand, exponents);
            if (i % 5 == 0) /* near cancellation */
                c[j] = expected[j] = -a[0] * b[j];
            expected[j] = fmaf(a[0], b[j], expected[j]);
        }
        f[i % variants](&view, 1, GEMM_COLUMNS, 1, b, true, c, LDC);
        for (size_t j = 0; j < GEMM_COLUMNS; j++)
            if (!isnan(c[j]) || !isnan(expected[j]))
                assert_memory_equal(c + j, expected + j, sizeof *c);
    }
}

static void
wrong_in_one_tile(const struct gemm_view *view, size_t m, size_t n, size_t k, const float *panel,
                  bool add, float *out, size_t ldc)
{
    gemm_panel_base(view, m, n, k, panel, add, out, ldc);
    if (m == 5 && n == 16)
        out[4 * ldc + 15] *= 1.0000001f;
}

static void
the_check_finds_a_wrong_variant(void **state)
{
    (void)state;
    gemm_panel_fn *f[GEMM_VARIANTS];
    size_t variants = gemm_variants(f);
    for (size_t i = 0; i < variants; i++)
        assert_true(gemm_check(f[i]));
    assert_false(gemm_check(wrong_in_one_tile));
    assert_true(gemm_init());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_check_finds_a_wrong_variant),
        cmocka_unit_test(every_step_is_rounded_once),
        cmocka_unit_test(every_shape_equals_three_loops),
        cmocka_unit_test(a_row_does_not_depend_on_the_rows_around_it),
        cmocka_unit_test(transposing_moves_every_element),
        cmocka_unit_test(panels_hold_the_matrix_and_zeros),
        cmocka_unit_test(shares_of_the_depth_are_even_and_moderate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

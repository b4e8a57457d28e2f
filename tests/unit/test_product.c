/* Every element of a product is what three loops of fmaf give, for random shapes, views and instruction sets; its
 * integers are those of exact_add, and so are its checksums. */
#include <math.h>

#include "nn/arithmetic/least.h"
#include "nn/arithmetic/product.h"
#include "tests/support/bf16_chain.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"
#include "tests/support/sums.h"
#include "tests/support/test.h"

enum { SIZE = 1 << 19 };

static float a[SIZE], b[SIZE], c[SIZE], expected[SIZE], bias[1200], scratch[SIZE], packed[SIZE];
static enum simd_set widest;

static void
any_variant(struct rand *rand)
{
    simd_set = (enum simd_set)rand_below(rand, widest + 1u);
    product_bf16 = rand_below(rand, 2);
    product_paired = product_pairs_here() && rand_below(rand, 2);
}

static void
fill(struct rand *rand, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rand_below(rand, 2001) / 977.0f - 1;
}

static float
element(const struct gemm_view *v, size_t i, size_t t)
{
    return v->at[i / v->width * v->line + i % v->width * v->row + t / v->run * v->jump +
                 t % v->run * v->step];
}

static float
chain(const struct product *p, size_t i, size_t j, size_t from, size_t to, float sum)
{
    struct bf16_chain chain = bf16_begin(sum);
    for (size_t t = from; product_bf16 && t < to; t++)
        bf16_next(&chain, element(&p->a, i, t), element(&p->b, j, t));
    if (product_bf16)
        return bf16_end(&chain);
    for (size_t t = from; t < to; t++)
        sum = fmaf(element(&p->a, i, t), element(&p->b, j, t), sum);
    return sum;
}

/* Of m rows and k elements each: stored in rows, in columns, or with two strides per index. */
static struct gemm_view
any_view(struct rand *rand, const float *at, size_t m, size_t k)
{
    size_t ld = k + rand_below(rand, 5), width = 1 + rand_below(rand, m + 3),
           run = 1 + rand_below(rand, k + 3);
    switch (rand_below(rand, 3)) {
    case 0:
        return product_rows(at, ld);
    case 1:
        return product_columns(at, m + rand_below(rand, 5));
    default:
        return (struct gemm_view){at,
                                  width,
                                  rand_below(rand, 900),
                                  rand_below(rand, 40),
                                  run,
                                  rand_below(rand, 500),
                                  1 + rand_below(rand, 3)};
    }
}

static size_t
any_size(struct rand *rand)
{
    static const size_t most[] = {4, 20, 100, 300};
    return rand_below(rand, most[rand_below(rand, 4)]);
}

TEST(every_element_equals_three_loops)
{
    struct rand rand = {1};
    fill(&rand, a, SIZE), fill(&rand, b, SIZE), fill(&rand, bias, 1200);
    for (size_t round = cases(400); round > 0; round--) {
        product_tune((size_t)rand_below(&rand, 80) << 10, (size_t)rand_below(&rand, 20) << 17);
        any_variant(&rand);
        size_t m = any_size(&rand), n = any_size(&rand), k = any_size(&rand) * 2;
        size_t ldc = n + rand_below(&rand, 4);
        struct product p = {m,
                            n,
                            k,
                            any_view(&rand, a, m, k),
                            any_view(&rand, b, n, k),
                            .c = c,
                            .ldc = ldc,
                            .add = rand_below(&rand, 2),
                            .bias = rand_below(&rand, 2) ? bias : NULL,
                            .relu = rand_below(&rand, 2)};
        fill(&rand, c, m * ldc + 9);
        memcpy(expected, c, (m * ldc + 9) * sizeof *c);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) {
                float *at = &expected[i * ldc + j];
                *at = chain(&p, i, j, 0, k, p.add ? *at : 0);
                *at += p.bias ? bias[j] : 0;
                *at = p.relu && 0.0f > *at ? 0.0f : *at;
            }
        assert_true(product_scratch(m, n, k) + 8 < SIZE);
        /* memory for many rows is enough for fewer */
        assert_true(product_scratch(rand_below(&rand, m + 1), n, k) <= product_scratch(m, n, k));
        memset(scratch, 0xff, sizeof scratch);
        if (rand_below(&rand, 2)) {
            memset(packed, 0xff, sizeof packed);
            product_pack(&p.b, n, k, packed);
            assert_true(isnan(packed[product_packed(n, k)])); /* untouched */
            p.packed = packed;
            p.b = (struct gemm_view){NULL, 1, 0, 0, 1, 0, 1};
        }
        product_run(&p, scratch);
        assert_memory_equal(c, expected, (m * ldc + 9) * sizeof *c);
        for (size_t i = product_scratch(m, n, k); i < product_scratch(m, n, k) + 8; i++)
            assert_true(isnan(scratch[i])); /* untouched */
    }
}

/* Wider and deeper than one block. */
TEST(blocks_change_nothing)
{
    struct rand rand = {2};
    fill(&rand, a, SIZE), fill(&rand, b, SIZE);
    for (size_t v = 0; v < 4u * (widest + 2); v++) {
        simd_set = (enum simd_set)least(v / 4, widest);
        product_paired = product_pairs_here() && v / 4 > widest;
        product_bf16 = v / 2 % 2;
        size_t m = 270, n = 1100, k = 200 + v;
        struct product p = {m, n, k, product_rows(a, k), product_rows(b, k), .c = c, .ldc = n};
        if (v % 2) {
            product_pack(&p.b, n, k, packed);
            p.packed = packed;
        }
        product_run(&p, scratch);
        for (size_t i = 0; i < m; i += 19)
            for (size_t j = 0; j < n; j += 7)
                assert_true(c[i * n + j] == chain(&p, i, j, 0, k, 0));
    }
}

TEST(transposing_moves_every_element)
{
    struct rand rand = {3};
    fill(&rand, a, SIZE);
    for (size_t m = 0; m < 21; m++)
        for (size_t n = 0; n < 21; n++) {
            fill(&rand, c, 1000);
            memcpy(expected, c, 1000 * sizeof *c);
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++)
                    expected[j * (m + 2) + i] = a[i * (n + 3) + j];
            product_transpose(a, n + 3, m, n, c, m + 2);
            assert_memory_equal(c, expected, 1000 * sizeof *c);
            product_transpose_base(a, n + 3, m, n, c, m + 2);
            assert_memory_equal(c, expected, 1000 * sizeof *c);
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
TEST(every_step_is_rounded_once)
{
    enum { N = 50 };
    struct rand rand = {7};
    const struct product p = {
        1, N, 1, product_rows(a, 1), product_columns(b, N), .c = c, .ldc = N, .add = true};
    for (size_t i = 0; i < 60000; i++) {
        uint32_t exponents = i % 3 == 0 ? 256 : i % 3 == 1 ? 3 : 30;
        any_variant(&rand);
        product_bf16 = false;
        a[0] = any_float(&rand, exponents);
        for (size_t j = 0; j < N; j++) {
            b[j] = any_float(&rand, exponents);
            c[j] = expected[j] = any_float(&rand, exponents);
            if (i % 5 == 0) /* near cancellation */
                c[j] = expected[j] = -a[0] * b[j];
            expected[j] = fmaf(a[0], b[j], expected[j]);
        }
        product_run(&p, scratch);
        for (size_t j = 0; j < N; j++)
            if (!isnan(c[j]) || !isnan(expected[j]))
                assert_memory_equal(c + j, expected + j, sizeof *c);
    }
}

/* Random bits here, too: rounding, what is too small, what overflows. */
TEST(every_operand_is_rounded_once)
{
    struct rand rand = {8};
    for (size_t i = 0; i < cases(3000); i++) {
        uint32_t exponents = i % 3 == 0 ? 256 : i % 3 == 1 ? 3 : 30;
        size_t m = 1 + rand_below(&rand, 9), n = 1 + rand_below(&rand, 50),
               k = 1 + rand_below(&rand, 70);
        struct product p = {
            m, n, k, product_rows(a, k), product_columns(b, n), .c = c, .ldc = n, .add = i % 2};
        any_variant(&rand);
        product_bf16 = true;
        for (size_t j = 0; j < m * k; j++)
            a[j] = any_float(&rand, exponents);
        for (size_t j = 0; j < k * n; j++)
            b[j] = any_float(&rand, exponents);
        for (size_t j = 0; j < m * n; j++)
            c[j] = expected[j] = any_float(&rand, exponents);
        for (size_t j = 0; j < m * n; j++)
            expected[j] = chain(&p, j / n, j % n, 0, k, p.add ? expected[j] : 0);
        product_run(&p, scratch);
        for (size_t j = 0; j < m * n; j++)
            if (!isnan(c[j]) || !isnan(expected[j]))
                assert_memory_equal(c + j, expected + j, sizeof *c);
    }
}

/* The smallest numbers that are not 0, which a CPU could take for 0, are no denormals. */
TEST(no_sum_of_rounded_operands_is_a_denormal)
{
    enum { M = 6, N = 50 };
    struct rand rand = {9};
    for (size_t i = 0; i < cases(3000); i++) {
        size_t k = 1 + rand_below(&rand, 70);
        struct product p = {
            M, N, k, product_rows(a, k), product_columns(b, N), .c = c, .ldc = N, .add = i % 2};
        any_variant(&rand);
        product_bf16 = true;
        for (size_t j = 0; j < M * k; j++)
            a[j] = ldexpf(any_float(&rand, 2), -53);
        for (size_t j = 0; j < k * N; j++)
            b[j] = ldexpf(any_float(&rand, 2), -53);
        for (size_t j = 0; j < M * N; j++)
            c[j] = ldexpf(any_float(&rand, 2), -(int)rand_below(&rand, 149));
        product_run(&p, scratch);
        for (size_t j = 0; j < M * N; j++)
            assert_true(c[j] == 0 || isnormal(c[j]));
    }
}

/* Is element (i, j) on or below the diagonal of this shape? */
static bool
lower(const struct product *p, size_t i, size_t j)
{
    return j <= i + p->diagonal;
}

/* A of m rows, k elements each, with zeros where its shape has them; stored in rows or in columns. */
static void
shape_zeros(struct rand *rand, struct product *p)
{
    bool columns = rand_below(rand, 2);
    size_t ld = (columns ? p->m : p->k) + rand_below(rand, 5);
    p->a = columns ? product_columns(a, ld) : product_rows(a, ld);
    for (size_t i = 0; i < p->m; i++)
        for (size_t t = 0; t < p->k; t++) {
            float *at = &a[columns ? i + t * ld : i * ld + t];
            *at = (float)rand_below(rand, 2001) / 977.0f - 1;
            if ((p->shape == PRODUCT_A_LOWER && !lower(p, i, t)) ||
                (p->shape == PRODUCT_A_UPPER && t < i + p->diagonal))
                *at = 0;
        }
}

/* Triangles: zeros are left out, and what is above the diagonal of C may be anything. */
TEST(what_a_shape_leaves_out_changes_nothing)
{
    struct rand rand = {11};
    fill(&rand, b, SIZE);
    for (size_t round = 0; round < 400; round++) {
        any_variant(&rand);
        size_t m = any_size(&rand), k = any_size(&rand) * 2;
        size_t n = rand_below(&rand, 2) ? 16 * (1 + rand_below(&rand, 4)) : any_size(&rand);
        struct product p = {
            m, n, k, .b = any_view(&rand, b, n, k), .c = c, .ldc = n, .add = rand_below(&rand, 2)};
        p.shape = (enum product_shape)(1 + rand_below(&rand, 3));
        p.diagonal = rand_below(&rand, 3) ? rand_below(&rand, 100) : 0;
        shape_zeros(&rand, &p);
        fill(&rand, c, m * n);
        memcpy(expected, c, m * n * sizeof *c);
        product_run(&p, scratch);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) {
                float *at = &expected[i * n + j];
                *at = chain(&p, i, j, 0, k, p.add ? *at : 0);
                if (p.shape != PRODUCT_C_LOWER || lower(&p, i, j))
                    assert_memory_equal(at, &c[i * n + j], sizeof *at);
            }
    }
}

static void
wrong_in_one_tile(const struct product *p, float *memory)
{
    product_run_base(p, memory);
    if (p->m == 5 && p->n == 16)
        p->c[4 * p->ldc + 15] *= 1.0000001f;
}

TEST(the_check_finds_a_wrong_variant)
{
    simd_set = widest;
    product_bf16 = false;
    assert_true(product_check(product_run));
    assert_true(product_check(product_run_base));
    assert_false(product_check(wrong_in_one_tile));
    assert_true(product_init());
    assert_int_equal(simd_set, widest);
}

/* --- sums --- */

enum { PARTS_MAX = 12 };

static struct sums sums;

/* One random product both ways. `wild`: some elements do not fit, some are no numbers. */
static void
compare_sums(struct rand *rand, bool wild)
{
    any_variant(rand);
    size_t m = 1 + any_size(rand), n = 1 + any_size(rand), count = m * n, k = 0,
           parts = 1 + rand_below(rand, PARTS_MAX), end[PARTS_MAX];
    for (size_t i = 0; i < parts; i++)
        end[i] = k += rand_below(rand, 4) ? rand_below(rand, 30) : rand_below(rand, 250);
    struct product p = {m, n, k, any_view(rand, a, m, k), any_view(rand, b, n, k), .c = NULL};
    sums_begin(&sums, rand, count, PARTS_MAX, wild);
    for (size_t i = 0, from = 0; i < parts; from = end[i++]) {
        for (size_t at = 0; at < count; at++)
            expected[at] = chain(&p, at / n, at % n, from, end[i], 0);
        sums_add(&sums.plain, i, 0, expected, count);
    }
    struct product_sum to = sums_to(&sums, end, parts, n);
    size_t size = product_sum_scratch(m, n, k);
    assert_true(size + 8 < SIZE);
    memset(scratch, 0xff, sizeof scratch);
    product_sum(&p, &to, scratch);
    for (size_t i = size; i < size + 8; i++)
        assert_true(isnan(scratch[i]));
    sums_equal(&sums, &to);
}

TEST(integers_are_those_of_exact_add)
{
    struct rand rand = {3};
    fill(&rand, a, SIZE), fill(&rand, b, SIZE);
    for (size_t round = cases(150); round > 0; round--)
        compare_sums(&rand, false);
    for (size_t round = cases(100); round > 0; round--)
        compare_sums(&rand, true);
    for (size_t i = 0; i < SIZE; i += 1 + rand_below(&rand, 3000))
        a[i] = i % 2 ? NAN : INFINITY;
    for (size_t round = cases(60); round > 0; round--)
        compare_sums(&rand, false);
}

int
main(void)
{
    widest = simd_set;
    return test_run();
}

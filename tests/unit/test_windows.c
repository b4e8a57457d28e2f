/* Products with windows of images are what loops of fmaf over the padded image give, for random shapes, strides and
 * instruction sets; integers and checksums of gradients are those of exact_add. */
#include <math.h>

#include "nn/arithmetic/least.h"
#include "nn/arithmetic/windows.h"
#include "tests/support/bf16_chain.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"
#include "tests/support/sums.h"
#include "tests/support/test.h"

enum { SIZE = 1 << 18, IMAGES_MAX = 5 };

static float x[SIZE], a[SIZE], y[SIZE], expected[SIZE], scratch[SIZE], bias[100];
static enum simd_set widest;

static void
any_variant(struct rand *rand)
{
    simd_set = (enum simd_set)rand_below(rand, widest + 1u);
    product_bf16 = rand_below(rand, 2);
    product_paired = product_pairs_here() && rand_below(rand, 2);
}

static void
fill(struct rand *rand, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)rand_below(rand, 2001) / 977.0f - 1;
}

/* Mostly small; windows may hang over each side of the image, or lie outside of it. */
static struct windows
any_windows(struct rand *rand)
{
    size_t most = rand_below(rand, 3) ? 12 : 40;
    return (struct windows){
        .channels = 1 + rand_below(rand, rand_below(rand, 2) ? 5 : 40),
        .height = 1 + rand_below(rand, 12),
        .width = 1 + rand_below(rand, most),
        .lines = 1 + rand_below(rand, 9),
        .columns = 1 + rand_below(rand, most),
        .tall = 1 + rand_below(rand, 4),
        .wide = 1 + rand_below(rand, 5),
        .stride = 1 + rand_below(rand, 3),
        .top = 1 - (ptrdiff_t)rand_below(rand, 5),
        .left = 1 - (ptrdiff_t)rand_below(rand, 6),
    };
}

static size_t
window_size(const struct windows *w)
{
    return w->channels * w->tall * w->wide;
}

/* Element (channel, ki, kj) of a window. */
static float
element(const struct windows *w, size_t image, size_t line, size_t column, size_t channel,
        size_t ki, size_t kj)
{
    ptrdiff_t i = (ptrdiff_t)(line * w->stride + ki) + w->top;
    ptrdiff_t j = (ptrdiff_t)(column * w->stride + kj) + w->left;
    if (i < 0 || j < 0 || i >= (ptrdiff_t)w->height || j >= (ptrdiff_t)w->width)
        return 0;
    return x[((image * w->channels + channel) * w->height + (size_t)i) * w->width + (size_t)j];
}

static float
output(const struct windows_product *p, size_t image, size_t i, size_t line, size_t column)
{
    const struct windows *w = &p->windows;
    float sum = 0;
    struct bf16_chain chain = bf16_begin(0);
    for (size_t k = 0; k < window_size(w); k++) {
        size_t place = k / w->channels;
        float v =
            element(w, image, line, column, k % w->channels, place / w->wide, place % w->wide);
        sum = fmaf(p->a[windows_at(window_size(w), i, k)], v, sum);
        bf16_next(&chain, p->a[windows_at(window_size(w), i, k)], v);
    }
    sum = product_bf16 ? bf16_end(&chain) : sum;
    sum += p->bias == NULL ? 0 : p->bias[i];
    return p->relu && 0.0f > sum ? 0.0f : sum;
}

static void
guard_scratch(size_t size)
{
    assert_true(size + 8 < SIZE);
    memset(scratch, 0, sizeof scratch);
    for (size_t i = size; i < size + 8; i++)
        scratch[i] = NAN;
}

static void
check_scratch(size_t size)
{
    for (size_t i = size; i < size + 8; i++)
        assert_true(isnan(scratch[i])); /* untouched */
}

TEST(run_equals_loops)
{
    struct rand rand = {1};
    fill(&rand, x, SIZE), fill(&rand, bias, 100);
    for (size_t round = cases(400); round > 0; round--) {
        any_variant(&rand);
        size_t step = 1 + rand_below(&rand, 3) / 2, m = 1 + rand_below(&rand, 20);
        product_tune((size_t)rand_below(&rand, 80) << 10, 0);
        struct windows_product p = {.windows = any_windows(&rand),
                                    .x = x,
                                    .images = rand_below(&rand, IMAGES_MAX),
                                    .m = m,
                                    .a = a,
                                    .bias = rand_below(&rand, 2) ? bias : NULL,
                                    .relu = rand_below(&rand, 2),
                                    .y = y,
                                    .y_step = step};
        const struct windows *w = &p.windows;
        p.y_line = w->columns * step + rand_below(&rand, 2);
        p.y_plane = p.y_line * w->lines + rand_below(&rand, 2);
        p.y_image = p.y_plane * m + rand_below(&rand, 2);
        size_t panels = windows_panels(m, window_size(w)), size = windows_scratch(w, m);
        memset(a, 0, panels * sizeof *a);
        for (size_t i = 0; i < m; i++)
            for (size_t k = 0; k < window_size(w); k++)
                fill(&rand, &a[windows_at(window_size(w), i, k)], 1);
        memset(y, 0xff, sizeof y), memset(expected, 0xff, sizeof expected);
        for (size_t n = 0; n < p.images * m * w->lines * w->columns; n++) {
            size_t column = n % w->columns, line = n / w->columns % w->lines;
            size_t i = n / w->columns / w->lines % m, image = n / w->columns / w->lines / m;
            expected[image * p.y_image + i * p.y_plane + line * p.y_line + column * step] =
                output(&p, image, i, line, column);
        }
        product_operand_panels(a, m, window_size(w));
        guard_scratch(size);
        windows_run(&p, scratch);
        check_scratch(size);
        assert_memory_equal(y, expected, sizeof y);
    }
}

/* Gradient of filter f at position u = (channel, ki, kj) from images [first, end), to out[count, u]. */
static void
gradient_loops(const struct windows_gradient *g, size_t first, size_t end, float *out)
{
    const struct windows *w = &g->windows;
    size_t P = w->lines * w->columns;
    for (size_t f = g->first; f < g->first + g->count; f++)
        for (size_t u = 0; u < window_size(w); u++, out++) {
            size_t channel = u / (w->tall * w->wide), ki = u / w->wide % w->tall;
            struct bf16_chain chain = bf16_begin(0);
            *out = 0;
            for (size_t image = first; image < end; image++) {
                for (size_t p = 0; p < P; p++) {
                    float dy = g->dy[(image * g->filters + f) * P + p],
                          v = element(w, image, p / w->columns, p % w->columns, channel, ki,
                                      u % w->wide);
                    if (product_bf16)
                        bf16_next(&chain, dy, v);
                    else
                        *out = fmaf(dy, v, *out);
                }
                *out = product_bf16 ? bf16_end(&chain) : *out;
            }
        }
}

static struct windows_gradient
any_gradient(struct rand *rand)
{
    struct windows_gradient g = {any_windows(rand), x, a, 1 + rand_below(rand, 90), 0, 0, false};
    g.first = rand_below(rand, g.filters);
    g.count = 1 + rand_below(rand, g.filters - g.first);
    return g;
}

TEST(floats_equal_loops)
{
    struct rand rand = {2};
    fill(&rand, x, SIZE), fill(&rand, a, SIZE);
    for (size_t round = cases(100); round > 0; round--) {
        any_variant(&rand);
        struct windows_gradient g = any_gradient(&rand);
        size_t images = rand_below(&rand, IMAGES_MAX), count = g.count * window_size(&g.windows),
               size = windows_sum_scratch(&g.windows, g.count);
        gradient_loops(&g, 0, images, expected);
        guard_scratch(size);
        windows_floats(&g, images, y, scratch);
        check_scratch(size);
        assert_memory_equal(y, expected, count * sizeof *y);
    }
}

/* An image that is cut into several strips. */
TEST(strips_change_nothing)
{
    struct rand rand = {3};
    fill(&rand, x, SIZE), fill(&rand, a, SIZE);
    const struct windows deep = {14, 60, 60, 60, 60, 3, 3, 1, -1, -1},
                         flat = {2, 90, 90, 44, 44, 5, 5, 2, -1, -1};
    for (size_t v = 0; v < 2u * (widest + 2); v++)
        for (size_t i = 0; i < 2; i++) {
            simd_set = (enum simd_set)least(v / 2, widest);
            product_paired = product_pairs_here() && v / 2 > widest;
            product_bf16 = v % 2;
            struct windows_gradient g = {i ? deep : flat, x, a, 9, 3, 5, false};
            struct windows_strip strip = windows_strip(&g.windows);
            assert_true(strip.lines < g.windows.lines);
            assert_true((strip.row > 0) == (i == 0));
            gradient_loops(&g, 0, 2, expected);
            guard_scratch(windows_sum_scratch(&g.windows, 5));
            windows_floats(&g, 2, y, scratch);
            check_scratch(windows_sum_scratch(&g.windows, 5));
            assert_memory_equal(y, expected, 5 * window_size(&g.windows) * sizeof *y);
        }
}

/* --- sums --- */

static struct sums sums;

/* One random gradient both ways. `wild`: some elements do not fit, some are no numbers. */
static void
compare_sums(struct rand *rand, bool wild)
{
    any_variant(rand);
    struct windows_gradient g = any_gradient(rand);
    g.sparse = rand_below(rand, 2);
    size_t K = window_size(&g.windows), count = g.filters * K, parts = 1 + rand_below(rand, 4),
           end[4], images = 0;
    for (size_t i = 0; i < parts; i++)
        end[i] = images += rand_below(rand, 3);
    sums_begin(&sums, rand, count, IMAGES_MAX, wild);
    for (size_t i = 0, from = 0; i < parts; from = end[i++]) {
        gradient_loops(&g, from, end[i], expected);
        sums_add(&sums.plain, i, g.first * K, expected, g.count * K);
    }
    struct product_sum to = sums_to(&sums, end, parts, K);
    to.first = g.first * K;
    size_t size = windows_sum_scratch(&g.windows, g.count);
    guard_scratch(size);
    windows_sum(&g, &to, scratch);
    check_scratch(size);
    sums_equal(&sums, &to);
}

TEST(integers_are_those_of_exact_add)
{
    struct rand rand = {4};
    fill(&rand, x, SIZE), fill(&rand, a, SIZE);
    for (size_t round = cases(60); round > 0; round--)
        compare_sums(&rand, false);
    for (size_t round = cases(40); round > 0; round--)
        compare_sums(&rand, true);
    for (size_t i = 0; i < SIZE; i += 1 + rand_below(&rand, 3000))
        a[i] = i % 2 ? NAN : INFINITY;
    for (size_t round = cases(20); round > 0; round--)
        compare_sums(&rand, false);
}

/* Most slopes are 0; that is skipped, but for images that have something infinite: 0 times that is no number. */
TEST(zeros_change_nothing)
{
    struct rand rand = {5};
    fill(&rand, x, SIZE), fill(&rand, a, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        a[i] = rand_below(&rand, 5) ? (rand_below(&rand, 2) ? 0.0f : -0.0f) : a[i];
    for (size_t round = 0; round < 60; round++)
        compare_sums(&rand, round % 4 == 0);
    for (size_t i = 0; i < SIZE; i += 1 + rand_below(&rand, 3000))
        x[i] = i % 2 ? NAN : INFINITY;
    for (size_t round = 0; round < 60; round++)
        compare_sums(&rand, false);
    for (size_t i = 0; i < SIZE; i += 1 + rand_below(&rand, 3000))
        a[i] = i % 2 ? NAN : -INFINITY;
    for (size_t round = 0; round < 20; round++)
        compare_sums(&rand, false);
}

int
main(void)
{
    widest = simd_set;
    return test_run();
}

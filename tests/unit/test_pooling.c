/* Pools of known numbers: ties, NaN, minus infinity, overlap, padding; all vector widths. */
#include <math.h>

#include "tests/support/one_layer.h"
#include "tests/support/rand.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

static const struct nn_shape line = {3, {1, 1, 4}}, square = {3, {1, 3, 3}};

TEST(the_first_largest_wins_and_gets_the_gradient)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_shape input = {3, {1, 2, 4}};
    const struct nn_layer_spec spec = LAYER(MAXPOOL, .kernel = 2);
    const float x[] = {1, 3, 5, 5, 3, 2, 5, 5}, dy[] = {7, 8};
    float y[2], dx[8];
    one_layer_open(&one, &input, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){3, 5}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){0, 7, 8, 0, 0, 0, 0, 0}), sizeof dx);
}

TEST(overlapping_windows_add_their_gradients)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(MAXPOOL, .kernel = 2, .stride = 1);
    const float x[] = {1, 2, 3, 4, 9, 5, 6, 7, 8}, dy[] = {1, 2, 3, 4};
    float y[4], dx[9];
    one_layer_open(&one, &square, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){9, 9, 9, 9}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){0, 0, 0, 0, 10, 0, 0, 0, 0}), sizeof dx);
}

TEST(padding_never_wins_a_maximum)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(MAXPOOL, .kernel = 3, .stride = 2, .pad = 1);
    float x[9], y[4];
    for (size_t i = 0; i < 9; i++)
        x[i] = -(float)i - 1;
    one_layer_open(&one, &square, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){-1, -2, -4, -5}), sizeof y);
}

TEST(padding_counts_as_zeros_in_an_average)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(AVGPOOL, .kernel = 2, .stride = 2, .pad = 1);
    const float x[] = {4, 8, 12, 16, 20, 24, 28, 32, 36}, dy[] = {4, 4, 4, 4};
    float y[4], dx[9];
    one_layer_open(&one, &square, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){1, 5, 11, 28}), sizeof y);
    one_layer_backward(&one, dy, dx);
    for (size_t i = 0; i < 9; i++)
        assert_true(dx[i] == 1);
}

TEST(nan_wins_and_minus_infinity_is_a_number)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(MAXPOOL, .kernel = 1, .stride = 1);
    const struct nn_layer_spec pairs = LAYER(MAXPOOL, .kernel = 2);
    const struct nn_shape two = {3, {1, 2, 2}};
    const float x[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, z[] = {1, NAN, 5, 2},
                dy[] = {1};
    float y[4], dx[4];
    one_layer_open(&one, &line, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, x, sizeof y);
    one_layer_close(&one);
    one_layer_open(&one, &two, &pairs, 1, NULL);
    one_layer_forward(&one, z, y);
    assert_true(isnan(y[0]));
    one_layer_backward(&one, dy, dx);
    assert_true(dx[1] == 1);
    one_layer_forward(&one, x, y);
    one_layer_backward(&one, dy, dx);
    assert_true(dx[0] == 1);
}

TEST_OF_VARIANTS(every_variant_gives_the_same_maxima)
{
    struct rand rand = {9};
    float x[400], y[64], z[64];
    uint32_t at[64], too[64];
    if (!simd_avx2())
        skip();
    for (size_t i = 0; i < 3000; i++) {
        size_t stride = rand_range(&rand, 1, 4), rows = rand_range(&rand, 1, 3);
        size_t columns = rand_range(&rand, 1, 4), n = rand_range(&rand, 4, 20);
        size_t width = (n - 1) * stride + columns;
        for (size_t j = 0; j < 400; j++)
            x[j] = rand_below(&rand, 40) == 0 ? NAN : (float)rand_below(&rand, 9);
        pooling_max_line_base(x, width, rows, columns, stride, 5, y, at, n);
        SIMD_PICK(pooling_max_line)(x, width, rows, columns, stride, 5, z, too, n);
        assert_memory_equal(at, too, n * sizeof *at);
        for (size_t j = 0; j < n; j++)
            assert_true(y[j] == z[j] || (isnan(y[j]) && isnan(z[j])));
    }
}

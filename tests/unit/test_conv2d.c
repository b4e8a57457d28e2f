/* Convolutions of known numbers: padding, stride, several channels, and the one-pixel filter. */
#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

static const float counted[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(a_window_slides_over_the_image)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_shape input = {3, {1, 3, 3}};
    const struct nn_layer_spec spec = LAYER(CONV2D, .units = 1, .kernel = 2);
    const float params[] = {1, 10, 100, 1000, 0.5f}, dy[] = {1, 0, 0, 2};
    float y[4], dx[9];
    one_layer_open(&one, &input, &spec, 1, params);
    one_layer_forward(&one, counted, y);
    assert_memory_equal(y, ((const float[]){5421.5f, 6532.5f, 8754.5f, 9865.5f}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){1, 10, 0, 100, 1002, 20, 0, 200, 2000}), sizeof dx);
    assert_memory_equal(one.grad, ((const float[]){11, 14, 20, 23, 3}), 5 * sizeof(float));
}

TEST(padding_counts_as_zero_and_stride_skips)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_shape input = {3, {1, 3, 3}};
    const struct nn_layer_spec spec = {
        .kind = NN_CONV2D, .units = 1, .kernel = 3, .stride = 2, .pad = 1, .no_bias = true};
    const float params[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, dy[] = {1, 2, 3, 4};
    float y[4], dx[9];
    one_layer_open(&one, &input, &spec, 1, params);
    one_layer_forward(&one, counted, y);
    assert_memory_equal(y, ((const float[]){12, 16, 24, 28}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){1, 3, 2, 4, 10, 6, 3, 7, 4}), sizeof dx);
}

TEST(a_stride_wider_than_the_filter_leaves_pixels_without_gradient)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_shape input = {3, {1, 3, 3}};
    const struct nn_layer_spec spec = {
        .kind = NN_CONV2D, .units = 1, .kernel = 1, .stride = 2, .no_bias = true};
    const float params[] = {3}, dy[] = {1, 2, 3, 4};
    float y[4], dx[9];
    one_layer_open(&one, &input, &spec, 1, params);
    one_layer_forward(&one, counted, y);
    assert_memory_equal(y, ((const float[]){3, 9, 21, 27}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){3, 0, 6, 0, 0, 0, 9, 0, 12}), sizeof dx);
    assert_true(one.grad[0] == 1 + 6 + 21 + 36);
}

TEST(channels_add_up_in_pytorchs_axis_order)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_shape input = {3, {2, 1, 2}};
    const struct nn_layer_spec spec = LAYER(CONV2D, .units = 2, .kernel = 1, .no_bias = true);
    const float params[] = {1, 10, 100, 1000}, x[] = {1, 2, 3, 4}, dy[] = {1, 0, 0, 1};
    float y[4], dx[4];
    one_layer_open(&one, &input, &spec, 1, params);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){31, 42, 3100, 4200}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){1, 100, 10, 1000}), sizeof dx);
    assert_memory_equal(one.grad, ((const float[]){1, 3, 2, 4}), 4 * sizeof(float));
}

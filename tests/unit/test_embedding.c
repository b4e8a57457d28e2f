/* Tokens become rows of a table, positions are added, and what is no token is bad. */
#include <math.h>

#include "tests/support/one_layer.h"
#include "tests/support/refused.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

TEST(each_token_is_a_row_and_collects_its_gradient)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(EMBEDDING, .units = 2, .tokens = 3);
    const float w[] = {1, 2, 3, 4, 5, 6}, x[] = {2, 0, 2, 1, 2, 2};
    const float dy[] = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60};
    float y[12], none[12];
    one_layer_open(&one, &(struct nn_shape){1, {3}}, &spec, 2, w);
    one_layer_forward(&one, x, y);
    const float expected[] = {5, 6, 1, 2, 5, 6, 3, 4, 5, 6, 5, 6};
    assert_memory_equal(y, expected, sizeof y);
    one_layer_backward(&one, dy, none);
    const float grad[] = {2, 20, 4, 40, 15, 150};
    assert_memory_equal(one.grad, grad, sizeof grad);
}

TEST(what_is_no_token_is_nan)
{
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(EMBEDDING, .units = 1, .tokens = 3);
    const float w[] = {1, 2, 3}, x[] = {-1, 3, 0.5f, NAN, INFINITY, 1e30f, -0.0f, 2};
    const float dy[] = {1, 1, 1, 1, 1, 1, 1, 1};
    float y[8], none[8];
    one_layer_open(&one, &(struct nn_shape){1, {8}}, &spec, 1, w);
    one_layer_forward(&one, x, y);
    for (size_t i = 0; i < 6; i++)
        assert_true(isnan(y[i]));
    assert_true(y[6] == 1 && y[7] == 3);
    one_layer_backward(&one, dy, none);
    assert_true(one.grad[0] == 1 && one.grad[1] == 0 && one.grad[2] == 1);
}

TEST(positions_are_added_to_every_row)
{
    enum { T = 50, C = 6, N = T * C };
    static float x[2 * N], y[2 * N], dy[2 * N], dx[2 * N], w[N];
    for (int sinusoidal = 0; sinusoidal < 2; sinusoidal++) {
        OWNED(one_layer_close) struct one_layer one;
        const struct nn_layer_spec spec = LAYER(POSITIONS, .sinusoidal = sinusoidal);
        for (size_t i = 0; i < 2 * N; i++)
            x[i] = (float)i, dy[i] = (float)(i % 7), w[i % N] = 0.5f * (float)(i % N);
        one_layer_open(&one, &(struct nn_shape){2, {T, C}}, &spec, 2, w);
        assert_int_equal(one.layer->weight_count, sinusoidal ? 0 : N);
        one_layer_forward(&one, x, y);
        one_layer_backward(&one, dy, dx);
        assert_memory_equal(dx, dy, sizeof dx);
        for (size_t i = 0; i < 2 * N; i++) {
            double t = (double)(i % N / C), k = (double)(i % C - i % 2);
            double angle = t / pow(10000, k / C);
            double p = sinusoidal ? (i % 2 ? cos(angle) : sin(angle)) : (double)w[i % N];
            assert_true(fabs((double)y[i] - (double)x[i] - p) <= 1e-7 * (10 + (double)x[i]));
        }
        for (size_t i = 0; !sinusoidal && i < N; i++)
            assert_true(one.grad[i] == dy[i] + dy[N + i]);
    }
}

TEST(misplaced_layers_are_refused)
{
    const struct nn_layer_spec table = LAYER(EMBEDDING, .units = 2, .tokens = 3);
    const struct {
        struct nn_shape input;
        struct nn_layer_spec layers[2];
        const char *text;
    } wrong[] = {
        {{1, {4}},
         {LAYER(RELU), table},
         "layer 1 (embedding): expected as the first layer: its inputs are numbers of tokens"},
        {{3, {1, 2, 2}},
         {table, table},
         "layer 0 (embedding): input has 3 dimensions, expected 1: tokens"},
        {{1, {4}},
         {LAYER(EMBEDDING, .units = 2), table},
         "layer 0 (embedding): tokens = 0, expected 1..16777216"},
        {{1, {4}},
         {LAYER(POSITIONS), table},
         "layer 0 (positions): input has 1 dimension, expected 2: positions, features"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        model_refused(&wrong[i].input, wrong[i].layers, 2, NN_CROSS_ENTROPY, wrong[i].text);
}

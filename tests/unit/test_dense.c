/* A dense layer of known numbers, forward and backward; any row count. */
#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

static const struct nn_shape input = {1, {3}};
static const float params[] = {1, 2, 3, -1, 0, 1, 10, 20}; /* W [2, 3], b [2] */

static void
known_numbers(void **state)
{
    nn_init(*state);
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = DENSE(2);
    const float x[] = {1, 0, 2, -1, 1, 0}, dy[] = {1, 2, 0, -1};
    float y[4], dx[6];
    one_layer_open(&one, &input, &spec, 2, params);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){17, 21, 11, 21}), sizeof y);
    one_layer_backward(&one, dy, dx);
    assert_memory_equal(dx, ((const float[]){-1, 2, 5, 1, 0, -1}), sizeof dx);
    assert_memory_equal(one.grad, ((const float[]){1, 0, 2, 3, -1, 4, 1, 1}), 8 * sizeof(float));
}
TEST_OF(known_numbers, "portable")
TEST_OF(known_numbers, "openblas")

static void
without_bias(void **state)
{
    nn_init(*state);
    OWNED(one_layer_close) struct one_layer one;
    const struct nn_layer_spec spec = LAYER(DENSE, .units = 2, .no_bias = true);
    const float x[] = {1, 0, 2};
    float y[2];
    one_layer_open(&one, &input, &spec, 1, params);
    assert_int_equal(nn_tensor_count(one.model), 3);
    one_layer_forward(&one, x, y);
    assert_memory_equal(y, ((const float[]){7, 1}), sizeof y);
}
TEST_OF(without_bias, "portable")
TEST_OF(without_bias, "openblas")

/* Sums run in order over the inputs, so a row's bits do not depend on its shard. (OpenBLAS does not promise
 * that.) */
TEST(a_row_has_the_same_bits_in_any_shard)
{
    nn_init("portable");
    enum { IN = 333, OUT = 70, ROWS = 150 };
    static float w[IN * OUT + OUT], x[IN * ROWS], y[OUT * ROWS], alone[OUT];
    const struct nn_layer_spec spec = DENSE(OUT);
    const struct nn_shape wide = {1, {IN}};
    OWNED(one_layer_close) struct one_layer all, one;
    for (size_t i = 0; i < IN * OUT + OUT; i++)
        w[i] = (float)(i % 101) / 37 - 1;
    for (size_t i = 0; i < IN * ROWS; i++)
        x[i] = (float)(i % 97) / 31 - 1;
    one_layer_open(&all, &wide, &spec, ROWS, w);
    one_layer_open(&one, &wide, &spec, 1, w);
    one_layer_forward(&all, x, y);
    for (size_t r = 0; r < ROWS; r += 7) {
        one_layer_forward(&one, x + r * IN, alone);
        assert_memory_equal(y + r * OUT, alone, sizeof alone);
    }
}

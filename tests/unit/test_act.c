/* Activations against their formulas, flatten as a view. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/one_layer.h"

static const float x[] = {-2, -0.5f, 0, 0.25f, 3}, dy[] = {1, -2, 3, 4, 5};

static void
check(enum nn_kind kind, double (*f)(double), double (*slope)(double))
{
    struct one_layer one;
    const struct nn_shape input = {1, {5}};
    const struct nn_layer_spec spec = {.kind = kind};
    float y[5], dx[5];
    one_layer_open(&one, &input, &spec, 1, NULL);
    one_layer_forward(&one, x, y);
    one_layer_backward(&one, dy, dx);
    for (size_t i = 0; i < 5; i++) {
        assert_true(fabs((double)y[i] - f((double)x[i])) <= 2e-7);
        assert_true(fabs((double)dx[i] - (double)dy[i] * slope((double)x[i])) <= 2e-6);
    }
    one_layer_close(&one);
}

static double
relu(double t)
{
    return t > 0 ? t : 0;
}

static double
relu_slope(double t)
{
    return t > 0 ? 1 : 0;
}

static double
sigmoid(double t)
{
    return 1 / (1 + exp(-t));
}

static double
sigmoid_slope(double t)
{
    return sigmoid(t) * (1 - sigmoid(t));
}

static double
tanh_slope(double t)
{
    return 1 - tanh(t) * tanh(t);
}

static double
gelu(double t)
{
    return t * erfc(-t / sqrt(2)) / 2;
}

static double
gelu_slope(double t)
{
    return erfc(-t / sqrt(2)) / 2 + t * exp(-t * t / 2) / sqrt(2 * acos(-1));
}

static double
silu(double t)
{
    return t * sigmoid(t);
}

static double
silu_slope(double t)
{
    return sigmoid(t) * (1 + t * (1 - sigmoid(t)));
}

static void
formulas_hold(void **state)
{
    (void)state;
    check(NN_RELU, relu, relu_slope);
    check(NN_SIGMOID, sigmoid, sigmoid_slope);
    check(NN_TANH, tanh, tanh_slope);
    check(NN_GELU, gelu, gelu_slope);
    check(NN_SILU, silu, silu_slope);
}

static void
flatten_is_the_same_memory(void **state)
{
    (void)state;
    const struct nn_layer_spec layers[] = {{.kind = NN_FLATTEN}, {.kind = NN_DENSE, .units = 2}};
    const struct nn_shape input = {3, {2, 3, 4}};
    struct nn_model *model;
    struct why why;
    assert_int_equal(nn_model_new(&model, &input, layers, 2, NN_CROSS_ENTROPY, &why), 0);
    assert_int_equal(nn_layer_output(model, 0)->dims, 1);
    assert_int_equal(nn_layer_output(model, 0)->dim[0], 24);
    assert_true(nn_model_layer(model, 0)->in_place);
    assert_true(nn_layer_flops(model, 0) == 0);
    nn_model_destroy(&model);
}

/* relu, flatten and dropout may overwrite; a tanh whose output is needed must keep it. */
static void
layers_work_in_place_only_where_nothing_is_lost(void **state)
{
    (void)state;
    const struct nn_layer_spec layers[] = {
        {.kind = NN_RELU}, {.kind = NN_DENSE, .units = 4}, {.kind = NN_TANH},
        {.kind = NN_RELU}, {.kind = NN_DENSE, .units = 4}, {.kind = NN_DROPOUT},
        {.kind = NN_RELU}, {.kind = NN_DROPOUT},           {.kind = NN_DENSE, .units = 2}};
    const bool expected[] = {false, false, true, false, false, true, true, false, false};
    struct nn_model *model;
    struct why why;
    assert_int_equal(
        nn_model_new(&model, &(struct nn_shape){1, {3}}, layers, 9, NN_CROSS_ENTROPY, &why), 0);
    for (size_t l = 0; l < 9; l++)
        assert_int_equal(nn_model_layer(model, l)->in_place, expected[l]);
    nn_model_destroy(&model);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_hold),
        cmocka_unit_test(flatten_is_the_same_memory),
        cmocka_unit_test(layers_work_in_place_only_where_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Activations against their formulas, flatten as a view. */
#include <math.h>

#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

static const float x[] = {-2, -0.5f, 0, 0.25f, 3}, dy[] = {1, -2, 3, 4, 5};

static void
check(enum nn_kind kind, double (*f)(double), double (*slope)(double))
{
    OWNED(one_layer_close) struct one_layer one;
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

TEST(formulas_hold)
{
    check(NN_RELU, relu, relu_slope);
    check(NN_SIGMOID, sigmoid, sigmoid_slope);
    check(NN_TANH, tanh, tanh_slope);
    check(NN_GELU, gelu, gelu_slope);
    check(NN_SILU, silu, silu_slope);
}

TEST(flatten_is_the_same_memory)
{
    const struct nn_layer_spec layers[] = {LAYER(FLATTEN), DENSE(2)};
    const struct nn_shape input = {3, {2, 3, 4}};
    OWNED(nn_model_destroy) struct nn_model *model;
    struct why why;
    assert_int_equal(nn_model_new(&model, &input, layers, 2, NN_CROSS_ENTROPY, &why), 0);
    assert_int_equal(nn_layer_output(model, 0)->dims, 1);
    assert_int_equal(nn_layer_output(model, 0)->dim[0], 24);
    assert_true(nn_model_layer(model, 0)->in_place);
    assert_true(nn_layer_flops(model, 0) == 0);
}

/* relu, flatten and dropout may overwrite; a tanh whose output is needed must keep it. */
TEST(layers_work_in_place_only_where_nothing_is_lost)
{
    const struct nn_layer_spec layers[] = {LAYER(RELU), DENSE(4),       LAYER(TANH),
                                           LAYER(RELU), DENSE(4),       LAYER(DROPOUT),
                                           LAYER(RELU), LAYER(DROPOUT), DENSE(2)};
    const bool expected[] = {false, false, true, false, false, true, true, false, false};
    OWNED(nn_model_destroy) struct nn_model *model;
    struct why why;
    assert_int_equal(
        nn_model_new(&model, &(struct nn_shape){1, {3}}, layers, 9, NN_CROSS_ENTROPY, &why), 0);
    for (size_t l = 0; l < 9; l++)
        assert_int_equal(nn_model_layer(model, l)->in_place, expected[l]);
}

static void
keep(void *ctx, size_t first, const float *g, size_t n)
{
    memcpy((float *)ctx + first, g, n * sizeof *g);
}

/* Output and gradient of a step. If `apart`, each relu and gelu is a pass of its own. */
static void
step(const struct nn_shape *input, const struct nn_layer_spec *spec, size_t count, bool apart,
     float *out, float *grad)
{
    enum { ROWS = 5 };
    const struct nn_context context = {.seed = 1, .training = true};
    const struct nn_sink sink = {.add = keep, .ctx = grad};
    OWNED(nn_model_destroy) struct nn_model *model;
    OWNED(nn_pass_destroy) struct nn_pass *pass;
    struct nn_result result;
    struct why why;
    assert_int_equal(nn_model_new(&model, input, spec, count, NN_CROSS_ENTROPY, &why), 0);
    for (size_t l = 0; apart && l < count; l++) {
        struct layer *layer = (struct layer *)(uintptr_t)nn_model_layer(model, l);
        layer->fused = (struct layer_fused){.sparse_after = layer->fused.sparse_after};
    }
    OWNED(memory_free) float *params = calloc(nn_param_count(model), sizeof *params);
    assert_non_null(params);
    assert_int_equal(nn_pass_new(&pass, model, ROWS, true), 0);
    nn_init_params(model, 1, params);
    struct nn_batch *batch = nn_pass_batch(pass);
    batch->rows = ROWS;
    for (size_t i = 0; i < ROWS * nn_input_size(model); i++)
        batch->x[i] = (float)((int)(i * 7919 % 2003) - 900) / 977.0f;
    for (size_t i = 0; i < ROWS; i++)
        batch->label[i] = (int32_t)i % 3;
    for (size_t l = 0; l < count; l++)
        nn_forward(model, l, pass, params, &context);
    memcpy(out, nn_pass_output(pass), ROWS * nn_output_size(model) * sizeof *out);
    nn_loss(model, pass, 1, &result);
    for (size_t l = count; l-- > 0;) { /* as in a run: the gradient, then dx */
        nn_gradient(model, l, pass, params, &context, &sink);
        nn_backward(model, l, pass, params, &context, NULL);
    }
}

TEST(neighbours_compute_a_relu_with_the_same_bits)
{
    static const struct nn_shape image = {3, {2, 9, 11}};
    static const struct nn_layer_spec spec[] = {
        LAYER(CONV2D, .units = 5, .kernel = 3, .pad = 1),
        LAYER(RELU),
        LAYER(MAXPOOL, .kernel = 3, .stride = 1),
        LAYER(CONV2D, .units = 6, .kernel = 3, .no_bias = true),
        LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f),
        LAYER(RELU),
        LAYER(CONV2D, .units = 6, .kernel = 2),
        LAYER(FLATTEN),
        DENSE(37),
        LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f),
        LAYER(RELU),
        DENSE(21),
        LAYER(RELU),
        DENSE(3),
    };
    enum { LAYERS = sizeof spec / sizeof *spec };
    static float grad[2][20000], out[2][15];
    struct nn_model *model;
    struct why why;
    size_t joined = 0;
    assert_int_equal(nn_model_new(&model, &image, spec, LAYERS, NN_CROSS_ENTROPY, &why), 0);
    assert_in_range(nn_param_count(model), 1, 20000);
    for (size_t l = 0; l < LAYERS; l++)
        joined += nn_model_layer(model, l)->fused.forward_done +
                  nn_model_layer(model, l)->fused.backward_done;
    assert_int_equal(joined, 7); /* all but the gradient of the one between dense layers */
    nn_model_destroy(&model);
    for (int apart = 0; apart < 2; apart++)
        step(&image, spec, LAYERS, apart, out[apart], grad[apart]);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_memory_equal(grad[0], grad[1], sizeof grad[0]);
}

/* Both formulas, before a dense layer and before another one, in blocks that end within a vector. */
TEST(dense_layers_compute_a_gelu_with_the_same_bits)
{
    static const struct nn_shape input = {1, {19}};
    static const struct nn_layer_spec spec[] = {
        DENSE(37),   LAYER(GELU),
        DENSE(1100), LAYER(GELU, .approximate = true),
        DENSE(9),    LAYER(GELU, .approximate = true),
        LAYER(TANH), DENSE(3),
    };
    enum { LAYERS = sizeof spec / sizeof *spec };
    static float grad[2][60000], out[2][15];
    struct nn_model *model;
    struct why why;
    size_t joined = 0;
    assert_int_equal(nn_model_new(&model, &input, spec, LAYERS, NN_CROSS_ENTROPY, &why), 0);
    assert_in_range(nn_param_count(model), 1, 60000);
    for (size_t l = 0; l < LAYERS; l++)
        joined += nn_model_layer(model, l)->fused.forward_done +
                  nn_model_layer(model, l)->fused.backward_done;
    assert_int_equal(joined, 5);
    nn_model_destroy(&model);
    const enum simd_set widest = simd_set;
    for (unsigned set = 0; set <= widest; set++)
        for (int apart = 0; apart < 2; apart++) {
            const bool first = set == 0 && apart == 0;
            simd_set = (enum simd_set)set;
            step(&input, spec, LAYERS, apart, out[!first], grad[!first]);
            if (!first) {
                assert_memory_equal(out[0], out[1], sizeof out[0]);
                assert_memory_equal(grad[0], grad[1], sizeof grad[0]);
            }
        }
    simd_set = widest;
}

/* Residuals: names and places within lists, buffers that stay as long as they are held. */
#include <errno.h>

#include "nn/layers/layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

#define BEGIN                                                                                      \
    {                                                                                              \
        .kind = NN_RESIDUAL                                                                        \
    }
#define END                                                                                        \
    {                                                                                              \
        .kind = NN_RESIDUAL_END                                                                    \
    }

/* relu, residual [dense, residual [residual [tanh, dense], flatten, relu]], residual [flatten], dropout, dense */
static const struct nn_layer_spec nested[] = {
    LAYER(RELU), BEGIN,          DENSE(5),    BEGIN, BEGIN, LAYER(TANH), DENSE(5),
    END,         LAYER(FLATTEN), LAYER(RELU), END,   END,   BEGIN,       LAYER(FLATTEN),
    END,         LAYER(DROPOUT), DENSE(3)};
enum { COUNT = sizeof nested / sizeof nested[0], ROWS = 3, IN = 5 };

static struct nn_model *
open_nested(void)
{
    struct nn_model *model;
    struct why why = {""};
    nn_model_new(&model, &(struct nn_shape){1, {IN}}, nested, COUNT, NN_CROSS_ENTROPY, &why);
    assert_string_equal(why.line, "");
    return model;
}

TEST(names_say_the_way_through_the_lists)
{
    OWNED(nn_model_destroy) struct nn_model *model = open_nested();
    static const char *const names[] = {
        "0.relu",       "1.residual",    "1.0.dense",  "1.1.residual",  "1.1.0.residual",
        "1.1.0.0.tanh", "1.1.0.1.dense", "1.1.0.add",  "1.1.1.flatten", "1.1.2.relu",
        "1.1.add",      "1.add",         "2.residual", "2.0.flatten",   "2.add",
        "3.dropout",    "4.dense"};
    static const char *const tensors[] = {"1.0.dense.weight",     "1.0.dense.bias",
                                          "1.1.0.1.dense.weight", "1.1.0.1.dense.bias",
                                          "4.dense.weight",       "4.dense.bias"};
    for (size_t l = 0; l < COUNT; l++)
        assert_string_equal(nn_layer_name(model, l), names[l]);
    assert_int_equal(nn_tensor_count(model), 6);
    for (size_t t = 0; t < 6; t++)
        assert_string_equal(nn_tensor(model, t)->name, tensors[t]);
}

/* The same network on arrays that nobody shares. */
static void
by_hand(const float *params, const float *x, float *y)
{
    float a[IN], b[IN], c[IN], d[IN];
    const float *w = params, *v = w + 30, *last = v + 30;
    for (size_t i = 0; i < IN; i++)
        a[i] = x[i] > 0 ? x[i] : 0;
    for (size_t i = 0; i < IN; i++) {
        b[i] = w[25 + i];
        for (size_t k = 0; k < IN; k++)
            b[i] += w[i * IN + k] * a[k];
    }
    for (size_t i = 0; i < IN; i++) {
        c[i] = v[25 + i];
        for (size_t k = 0; k < IN; k++)
            c[i] += v[i * IN + k] * __builtin_tanhf(b[k]);
    }
    for (size_t i = 0; i < IN; i++) {
        float inner = c[i] + b[i];
        d[i] = 2 * ((inner > 0 ? inner : 0) + b[i] + a[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        y[i] = last[15 + i];
        for (size_t k = 0; k < IN; k++)
            y[i] += last[i * IN + k] * d[k];
    }
}

TEST(outputs_are_the_sums_in_training_and_evaluation)
{
    OWNED(nn_model_destroy) struct nn_model *model = open_nested();
    const struct nn_context context = {.seed = 1};
    float params[78], first[ROWS * 3], expected[3];
    assert_int_equal(nn_param_count(model), 78);
    nn_init_params(model, 9, params);
    for (int training = 0; training < 2; training++) {
        OWNED(nn_pass_destroy) struct nn_pass *pass;
        assert_int_equal(nn_pass_new(&pass, model, ROWS, training), 0);
        struct nn_batch *batch = nn_pass_batch(pass);
        batch->rows = ROWS;
        for (size_t i = 0; i < ROWS * IN; i++)
            batch->x[i] = (float)(i * 7 % 11) / 3 - 1;
        for (size_t l = 0; l < COUNT; l++)
            nn_forward(model, l, pass, params, &context);
        for (size_t i = 0; i < ROWS; i++) {
            by_hand(params, batch->x + i * IN, expected);
            for (size_t k = 0; k < 3; k++) {
                float error = nn_pass_output(pass)[i * 3 + k] - expected[k];
                assert_true(error < 1e-5f && error > -1e-5f);
            }
        }
        if (training)
            assert_memory_equal(nn_pass_output(pass), first, sizeof first);
        memcpy(first, nn_pass_output(pass), sizeof first);
    }
}

TEST(lists_nest_four_deep_and_no_deeper)
{
    for (unsigned depth = 4; depth <= 5; depth++) {
        struct nn_layer_spec layers[12] = {DENSE(2)};
        OWNED(nn_model_destroy) struct nn_model *model;
        struct why why = {""};
        for (unsigned i = 0; i < depth; i++) {
            layers[1 + i].kind = NN_RESIDUAL;
            layers[2 + depth + i].kind = NN_RESIDUAL_END;
        }
        layers[1 + depth].kind = NN_RELU;
        int rc = nn_model_new(&model, &(struct nn_shape){1, {2}}, layers, 2 * depth + 2,
                              NN_CROSS_ENTROPY, &why);
        assert_int_equal(rc, depth == 4 ? 0 : -EINVAL);
        assert_string_equal(
            why.line, depth == 4 ? "" : "layer 1.0.0.0.0 (residual): nested more than 4 deep");
    }
}

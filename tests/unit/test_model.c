/* A layer list becomes shapes, names and offsets, or is refused with a line that names the fault. */
#include <math.h>

#include "nn/nn.h"
#include "tests/support/digits_model.h"
#include "tests/support/refused.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

static const struct nn_shape image = IMAGE(1, 28, 28), flat = FLAT(20), nothing = FLAT(0),
                             huge = IMAGE(1 << 15, 1 << 15, 2), of_15 = {2, {4, 15}},
                             of_12 = {2, {4, 12}};

TEST(shapes_names_and_offsets_follow_the_list)
{
    OWNED(nn_model_destroy) struct nn_model *model = open_digits();
    static const struct {
        const char *name;
        size_t first, count, fan_in, fan_out;
    } tensor[] = {
        {"0.conv.weight", 0, 400, 25, 400},   {"0.conv.bias", 400, 16, 25, 400},
        {"3.conv.weight", 416, 576, 144, 36}, {"7.dense.weight", 992, 1440, 144, 10},
        {"7.dense.bias", 2432, 10, 144, 10},
    };
    assert_int_equal(nn_tensor_count(model), 5);
    for (size_t i = 0; i < 5; i++) {
        const struct nn_tensor *t = nn_tensor(model, i);
        assert_string_equal(t->name, tensor[i].name);
        assert_int_equal(t->first, tensor[i].first);
        assert_int_equal(t->count, tensor[i].count);
        assert_int_equal(t->fan_in, tensor[i].fan_in);
        assert_int_equal(t->fan_out, tensor[i].fan_out);
    }
    assert_int_equal(nn_param_count(model), 2442);
    assert_int_equal(nn_layer_count(model), 8);
    assert_string_equal(nn_layer_name(model, 2), "2.maxpool");
    assert_int_equal(nn_layer_output(model, 3)->dims, 3);
    assert_int_equal(nn_layer_output(model, 3)->dim[1], 6);
    assert_int_equal(nn_input_size(model), 784);
    assert_int_equal(nn_output_size(model), 10);
    assert_true(nn_layer_flops(model, 0) == 2.0 * 25 * 784 * 16);
    assert_true(nn_layer_flops(model, 7) == 2.0 * 1440);
    assert_true(nn_layer_train_flops(model, 0) == 2 * nn_layer_flops(model, 0));
    assert_true(nn_layer_train_flops(model, 7) == 3 * nn_layer_flops(model, 7));
    nn_model_destroy(&model);
    assert_null(model);
}

static const struct wrong {
    const struct nn_shape *input;
    enum nn_loss loss;
    const char *text;
    size_t count;
    struct nn_layer_spec layers[3];
} wrong[] = {
#define WRONG(input, loss, text, ...)                                                              \
    {                                                                                              \
        input, loss, text, LAYERS(__VA_ARGS__)                                                     \
    }
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 0 (dense): units = 0, expected at least 1", LAYER(DENSE)),
    WRONG(&image, NN_CROSS_ENTROPY,
          "layer 1 (dense): input has 3 dimensions; put a flatten layer before", LAYER(RELU),
          DENSE(2)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "line 7: layer 0 (conv): input has 1 dimension, expected 3: channels, height, width",
          LAYER(CONV2D, .units = 2, .kernel = 3, .line = 7)),
    WRONG(&image, NN_CROSS_ENTROPY,
          "layer 0 (conv): kernel = 31 is larger than the padded input 30 x 30",
          LAYER(CONV2D, .units = 2, .kernel = 31, .pad = 1)),
    WRONG(&image, NN_CROSS_ENTROPY, "layer 0 (conv): filters = 0, expected at least 1",
          LAYER(CONV2D, .kernel = 3)),
    WRONG(&image, NN_CROSS_ENTROPY, "layer 0 (maxpool): kernel = 0, expected at least 1",
          LAYER(MAXPOOL)),
    WRONG(&image, NN_CROSS_ENTROPY, "layer 0 (avgpool): pad = 2, expected less than kernel = 2",
          LAYER(AVGPOOL, .kernel = 2, .pad = 2)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (dropout): drop = 1, expected 0 or more and less than 1",
          LAYER(DROPOUT, .drop = 1), DENSE(2)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (dropout): drop = nan, expected 0 or more and less than 1",
          LAYER(DROPOUT, .drop = NAN), DENSE(2)),
    WRONG(&flat, NN_LOGISTIC, "layer 0 (dense): 2 outputs, the logistic loss expects 1", DENSE(2)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (dense): 1 output, the cross-entropy loss expects at least 2", DENSE(1)),
    WRONG(&image, NN_CROSS_ENTROPY,
          "layer 0 (conv): the last output has 3 dimensions, expected 1; add flatten",
          LAYER(CONV2D, .units = 2, .kernel = 3)),
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 0 (relu): the model has no parameters to train",
          LAYER(RELU)),
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 0 (?): kind = 99, expected 0..23",
          {.kind = (enum nn_kind)99}),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (dense): too large, expected at most 1073741824 elements", DENSE(1u << 30)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 1 (dense): too large, expected at most 1073741824 elements", DENSE(40000),
          DENSE(27000)),
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 2 (dense): more than 1073741824 parameters", DENSE(30000),
          DENSE(30000), DENSE(30000)),
    {&flat, NN_CROSS_ENTROPY, "0 layers, expected 1..256", 0, {{0}}},
    WRONG(&nothing, NN_CROSS_ENTROPY,
          "input: expected 1..3 dimensions of 1.., at most 1073741824 elements", DENSE(2)),
    WRONG(&huge, NN_CROSS_ENTROPY,
          "input: expected 1..3 dimensions of 1.., at most 1073741824 elements", DENSE(2)),
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 1 (?): the end of no residual", DENSE(2),
          LAYER(RESIDUAL_END)),
    WRONG(&flat, NN_CROSS_ENTROPY, "line 3: layer 0 (residual): has no end",
          LAYER(RESIDUAL, .line = 3), DENSE(2)),
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 0 (residual): no layers, expected at least one",
          LAYER(RESIDUAL), LAYER(RESIDUAL_END), DENSE(2)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (residual): its layers make another shape of their input, so they cannot be "
          "added to it",
          LAYER(RESIDUAL), DENSE(2), LAYER(RESIDUAL_END)),
    WRONG(&flat, NN_CROSS_ENTROPY, "layer 0.0 (dense): units = 0, expected at least 1",
          LAYER(RESIDUAL), LAYER(DENSE), LAYER(RESIDUAL_END)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 1 (dense): tied to no embedding of 2 tokens and 2 units, expected as the first "
          "layer",
          DENSE(2), LAYER(DENSE, .units = 2, .tied = true)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 1 (dense): tied to no embedding of 2 tokens and 2 units, expected as the first "
          "layer",
          LAYER(EMBEDDING, .units = 2, .tokens = 3), LAYER(DENSE, .units = 2, .tied = true)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (globalpool): input has 1 dimension, expected an image or a sequence",
          LAYER(GLOBALPOOL)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (batchnorm): momentum = 0, expected more than 0 and at most 1",
          LAYER(BATCHNORM, .epsilon = 1e-5f)),
    WRONG(&flat, NN_CROSS_ENTROPY,
          "layer 0 (attention): input has 1 dimension, expected 2: positions, features",
          LAYER(ATTENTION, .units = 2)),
    WRONG(&of_15, NN_CROSS_ENTROPY,
          "layer 0 (attention): input has 15 features, expected a multiple of 3 x 2: queries, keys "
          "and values of 2 heads, from a dense layer",
          LAYER(ATTENTION, .units = 2)),
    WRONG(&of_12, NN_CROSS_ENTROPY, "layer 0 (attention): heads = 0, expected at least 1",
          LAYER(ATTENTION)),
    WRONG(&flat, (enum nn_loss)5, "loss = 5, expected 0..3", DENSE(2)),
};

TEST(nonsense_is_refused_with_one_clear_line)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        model_refused(wrong[i].input, wrong[i].layers, wrong[i].count, wrong[i].loss,
                      wrong[i].text);
}

TEST(initial_parameters_have_the_promised_spread)
{
    const struct nn_layer_spec layers[] = {DENSE(300), LAYER(RELU), DENSE(200), LAYER(TANH),
                                           LAYER(DENSE, .units = 2, .init = NN_INIT_ZERO)};
    const double variance[] = {2.0 / 400, 0, 2.0 / 500, 0, 0, 0};
    OWNED(nn_model_destroy) struct nn_model *model;
    struct why why;
    assert_int_equal(
        nn_model_new(&model, &(struct nn_shape){1, {400}}, layers, 5, NN_CROSS_ENTROPY, &why), 0);
    size_t bytes = nn_param_count(model) * sizeof(float);
    OWNED(memory_free) float *params = malloc(bytes), *again = malloc(bytes);
    nn_init_params(model, 42, params);
    nn_init_params(model, 42, again);
    assert_memory_equal(params, again, bytes);
    nn_init_params(model, 43, again);
    assert_memory_not_equal(params, again, bytes);
    for (size_t t = 0; t < nn_tensor_count(model); t++) {
        const struct nn_tensor *tensor = nn_tensor(model, t);
        double sum = 0, squares = 0;
        for (size_t i = 0; i < tensor->count; i++) {
            double w = (double)params[tensor->first + i];
            sum += w;
            squares += w * w;
        }
        double n = (double)tensor->count, v = variance[t];
        assert_true(fabs(sum / n) <= 5 * sqrt(v / n));
        assert_true(fabs(squares / n - v) <= 5 * v * sqrt(2 / n));
    }
}

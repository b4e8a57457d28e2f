/* Recurrent layers: the fast path has the bits of the definition, evaluation those of training, and the two halves of
 * back-propagation those of the whole; a sequence does not depend on the others beside it. */
#include <math.h>
#include <stdio.h>

#include "nn/arithmetic/rng.h"
#include "tests/support/naive.h"
#include "tests/support/one_layer.h"
#include "tests/support/refused.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { ELEMENTS = 300000 };

static const enum nn_kind kinds[] = {NN_RNN, NN_LSTM, NN_GRU};
static float params[ELEMENTS], x[ELEMENTS], dy[ELEMENTS], y[2][ELEMENTS], dx[2][ELEMENTS];

static void
fill(float *to, uint64_t seed, float scale)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        to[i] = scale * (float)(2 * rng_uniform((uint32_t)mix64(seed + i)) - 1);
}

struct size {
    size_t rows, steps, inputs;
    unsigned units;
};

/* Around the widths of tiles, panels and tapes. */
static const struct size sizes[] = {{1, 1, 1, 1},    {3, 2, 5, 3},     {5, 9, 16, 17},
                                    {7, 8, 33, 15},  {2, 17, 3, 33},   {13, 7, 10, 48},
                                    {4, 20, 70, 67}, {6, 3, 300, 130}, {0, 4, 3, 5}};

static struct nn_layer_spec
spec_of(size_t kind, const struct size *size, bool last)
{
    return (struct nn_layer_spec){.kind = kinds[kind], .units = size->units, .last = last};
}

static void
open_layer(struct one_layer *one, size_t kind, const struct size *size, bool last)
{
    const struct nn_layer_spec spec = spec_of(kind, size, last);
    one_layer_open(one, &(struct nn_shape){2, {size->steps, size->inputs}}, &spec, size->rows,
                   params);
}

TEST_OF_VARIANTS(the_fast_path_has_the_bits_of_the_definition)
{
    for (size_t i = 0; i < 2 * 3 * sizeof sizes / sizeof sizes[0]; i++) {
        const struct size *size = &sizes[i / 6];
        OWNED(one_layer_close) struct one_layer fast, naive;
        open_layer(&fast, i % 3, size, i / 3 % 2);
        open_layer(&naive, i % 3, size, i / 3 % 2);
        struct layer_kind kind = *naive.layer->kind;
        struct layer layer = *naive.layer;
        kind.forward = naive_forward;
        kind.backward = naive_backward;
        layer.kind = &kind;
        naive.layer = &layer;
        one_layer_forward(&fast, x, y[0]);
        one_layer_forward(&naive, x, y[1]);
        assert_memory_equal(y[0], y[1], size->rows * layer.out_size * sizeof(float));
        one_layer_backward(&fast, dy, dx[0]);
        one_layer_backward(&naive, dy, dx[1]);
        assert_memory_equal(dx[0], dx[1], size->rows * layer.in_size * sizeof(float));
        assert_memory_equal(fast.grad, naive.grad, nn_param_count(fast.model) * sizeof(float));
    }
}

TEST(evaluation_has_the_bits_of_training)
{
    for (size_t i = 0; i < 2 * 3 * sizeof sizes / sizeof sizes[0]; i++) {
        const struct size *size = &sizes[i / 6];
        OWNED(one_layer_close) struct one_layer one;
        open_layer(&one, i % 3, size, i / 3 % 2);
        one_layer_forward(&one, x, y[0]);
        void *saved = one.io.saved;
        one.io.saved = NULL;
        one_layer_forward(&one, x, y[1]);
        one.io.saved = saved;
        assert_memory_equal(y[0], y[1], size->rows * one.layer->out_size * sizeof(float));
    }
}

/* Gradients of the weights first, then those of the inputs, as training asks for them. */
TEST(halves_are_the_whole)
{
    for (size_t i = 0; i < 3; i++) {
        const struct size *size = &sizes[4];
        OWNED(one_layer_close) struct one_layer whole, halves;
        open_layer(&whole, i, size, false);
        open_layer(&halves, i, size, false);
        one_layer_forward(&whole, x, y[0]);
        one_layer_backward(&whole, dy, dx[0]);
        one_layer_forward(&halves, x, y[1]);
        const struct nn_sink sink = {.add = one_layer_add, .ctx = halves.grad};
        halves.io.dy = dy;
        halves.io.sink = &sink;
        halves.io.dx = NULL;
        halves.layer->kind->backward(halves.layer, &halves.io);
        halves.io.sink = NULL;
        halves.io.dx = dx[1];
        halves.layer->kind->backward(halves.layer, &halves.io);
        assert_memory_equal(dx[0], dx[1], size->rows * whole.layer->in_size * sizeof(float));
        assert_memory_equal(whole.grad, halves.grad, nn_param_count(whole.model) * sizeof(float));
    }
}

TEST(a_sequence_does_not_see_the_others)
{
    for (size_t i = 0; i < 3; i++) {
        const struct size *size = &sizes[5];
        struct size alone = *size;
        OWNED(one_layer_close) struct one_layer all, one;
        alone.rows = 1;
        open_layer(&all, i, size, false);
        open_layer(&one, i, &alone, false);
        one_layer_forward(&all, x, y[0]);
        for (size_t r = 0; r < size->rows; r++) {
            one_layer_forward(&one, x + r * one.layer->in_size, y[1]);
            assert_memory_equal(y[0] + r * one.layer->out_size, y[1],
                                one.layer->out_size * sizeof(float));
        }
    }
}

/* The state sees the past alone, so what comes later changes no output before it. */
TEST(the_future_is_not_seen)
{
    for (size_t i = 0; i < 3; i++) {
        const struct size size = {1, 12, 6, 20};
        OWNED(one_layer_close) struct one_layer one;
        open_layer(&one, i, &size, false);
        one_layer_forward(&one, x, y[0]);
        float keep = x[7 * 6];
        x[7 * 6] += 1;
        one_layer_forward(&one, x, y[1]);
        x[7 * 6] = keep;
        assert_memory_equal(y[0], y[1], 7 * 20 * sizeof(float));
        for (size_t t = 7; t < 12; t++)
            assert_memory_not_equal(y[0] + t * 20, y[1] + t * 20, 20 * sizeof(float));
    }
}

TEST(parameters_are_those_of_pytorch)
{
    const struct {
        const char *name;
        size_t dims, dim[2];
    } expected[] = {{"0.lstm.weight_ih_l0", 2, {28, 5}},
                    {"0.lstm.weight_hh_l0", 2, {28, 7}},
                    {"0.lstm.bias_ih_l0", 1, {28}},
                    {"0.lstm.bias_hh_l0", 1, {28}}};
    const struct size size = {2, 3, 5, 7};
    OWNED(one_layer_close) struct one_layer one;
    open_layer(&one, 1, &size, true);
    float first[28 * 5 + 28 * 7 + 28 + 28 + 16];
    nn_init_params(one.model, 1, first);
    for (size_t t = 0; t < 4; t++) {
        const struct nn_tensor *tensor = nn_tensor(one.model, t);
        assert_string_equal(tensor->name, expected[t].name);
        assert_int_equal(tensor->dims, expected[t].dims);
        assert_memory_equal(tensor->dim, expected[t].dim, tensor->dims * sizeof(size_t));
        double largest = 0;
        for (size_t i = 0; i < tensor->count; i++)
            largest = fmax(largest, fabs((double)first[tensor->first + i]));
        assert_true(largest <= 1 / sqrt(7) && largest > 0.8 / sqrt(7));
    }
}

TEST(wrong_shapes_are_refused)
{
    const struct {
        struct nn_shape input;
        struct nn_layer_spec layer;
        const char *text;
    } wrong[] = {{{1, {4}},
                  LAYER(LSTM, .units = 3),
                  "layer 0 (lstm): input has 1 dimension, expected 2: positions, features"},
                 {{2, {4, 2}}, LAYER(GRU), "layer 0 (gru): units = 0, expected 1..18918"},
                 {{2, {4, 1}},
                  LAYER(LSTM, .units = 16385),
                  "layer 0 (lstm): units = 16385, expected 1..16384"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        model_refused(&wrong[i].input, &wrong[i].layer, 1, NN_CROSS_ENTROPY, wrong[i].text);
}

int
main(void)
{
    fill(params, 1, 0.5f);
    fill(x, 1 << 20, 1);
    fill(dy, 1 << 24, 1);
    return test_run();
}

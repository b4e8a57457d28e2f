/* digits_model.h - a small network of every kind of layer that images need, of one channel of 28 x 28. */
#ifndef SUPPORT_DIGITS_MODEL_H
#define SUPPORT_DIGITS_MODEL_H

#include "nn/nn.h"
#include "proto/why.h"
#include "tests/support/test.h"

static const struct nn_layer_spec digits[] = {
    {.kind = NN_CONV2D, .units = 16, .kernel = 5, .pad = 2},
    {.kind = NN_RELU},
    {.kind = NN_MAXPOOL, .kernel = 2},
    {.kind = NN_CONV2D, .units = 4, .kernel = 3, .stride = 2, .no_bias = true},
    {.kind = NN_TANH},
    {.kind = NN_DROPOUT, .drop = 0.2f},
    {.kind = NN_FLATTEN},
    {.kind = NN_DENSE, .units = 10},
};

static inline struct nn_model *
open_digits(void)
{
    struct nn_model *model;
    struct why why = {""};
    int rc = nn_model_new(&model, &(const struct nn_shape){3, {1, 28, 28}}, digits, 8,
                          NN_CROSS_ENTROPY, &why);
    assert_string_equal(why.line, "");
    assert_int_equal(rc, 0);
    return model;
}

#endif

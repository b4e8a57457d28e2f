/* digits_model.h - a small network of every kind of layer that images need, of one channel of 28 x 28. */
#ifndef SUPPORT_DIGITS_MODEL_H
#define SUPPORT_DIGITS_MODEL_H

#include "nn/nn.h"
#include "proto/why.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

static const struct nn_layer_spec digits[] = {
    LAYER(CONV2D, .units = 16, .kernel = 5, .pad = 2),
    LAYER(RELU),
    LAYER(MAXPOOL, .kernel = 2),
    LAYER(CONV2D, .units = 4, .kernel = 3, .stride = 2, .no_bias = true),
    LAYER(TANH),
    LAYER(DROPOUT, .drop = 0.2f),
    LAYER(FLATTEN),
    DENSE(10),
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

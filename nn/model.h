/* model.h - internals of a model, for the files that set its parameters and run passes. Internal to nn/. */
#ifndef NN_MODEL_H
#define NN_MODEL_H

#include "nn/layers/layer.h"
#include "nn/loss.h"

struct nn_model {
    struct nn_shape input;
    size_t input_size;
    size_t layer_count, tensor_count, param_count;
    struct loss_spec loss;
    struct layer layer[NN_LAYERS_MAX];
    struct nn_tensor tensor[4 * NN_LAYERS_MAX];
};

#endif

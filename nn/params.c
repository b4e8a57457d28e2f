/* params.c - the first parameters of a model, drawn from the seed: each tensor from random numbers of its own. */
#include <math.h>
#include <string.h>

#include "nn/arithmetic/rng.h"
#include "nn/arithmetic/vmath.h"
#include "nn/model.h"

/* He when the first activation after the layer, and before the next parameters, is relu. */
static enum nn_init
init_choose(const struct nn_model *model, const struct layer *layer)
{
    if (layer->spec.init != NN_INIT_AUTO)
        return layer->spec.init;
    for (size_t l = layer->index + 1u; l < model->layer_count; l++) {
        const struct layer *next = &model->layer[l];
        if (next->kind == &relu_kind)
            return NN_INIT_HE;
        if (next->weight_count > 0 || next->kind == &sigmoid_kind || next->kind == &tanh_kind)
            break;
    }
    return NN_INIT_GLOROT;
}

/* An initial weight from a uniform number in (0, 1). */
static double
element_draw(const struct nn_tensor *tensor, enum nn_init init, double u)
{
    double in = (double)tensor->fan_in, out = (double)tensor->fan_out;
    if (init == NN_INIT_ONE)
        return 1;
    if (init == NN_INIT_SMALL)
        return 0.02 * vmath_normal(u);
    if (init == NN_INIT_UNITS)
        return (2 * u - 1) / sqrt(in);
    return init == NN_INIT_HE ? sqrt(2.0 / in) * vmath_normal(u)
                              : sqrt(6.0 / (in + out)) * (2 * u - 1);
}

static void
tensor_fill(const struct nn_tensor *tensor, enum nn_init init, struct rng_key key, float *w)
{
    for (size_t i = 0; i < tensor->count; i += 4) {
        uint32_t word[4];
        rng_block(key, 0, i / 4, word);
        for (size_t j = 0; j < 4 && i + j < tensor->count; j++) {
            double u = rng_uniform(word[j]);
            w[i + j] = (float)element_draw(tensor, init, u);
        }
    }
}

void
nn_init_params(const struct nn_model *model, uint64_t seed, float *params)
{
    nn_init_range(model, seed, 0, model->param_count, params);
}

void
nn_init_range(const struct nn_model *model, uint64_t seed, size_t first, size_t end, float *params)
{
    memset(params + first, 0, (end - first) * sizeof *params);
    for (size_t t = 0; t < model->tensor_count; t++) {
        const struct nn_tensor *tensor = &model->tensor[t];
        if (tensor->first < first || tensor->first >= end)
            continue;
        const struct layer *layer = &model->layer[tensor->layer];
        enum nn_init init = init_choose(model, layer);
        bool variance = tensor->average > 0 && t > 0 && model->tensor[t - 1].average > 0 &&
                        model->tensor[t - 1].layer == tensor->layer;
        bool drawn = layer->kind->recurrent || tensor->first == layer->weight_first;
        if ((variance || drawn) && init != NN_INIT_ZERO)
            tensor_fill(tensor, init, rng_key(seed, RNG_INIT, t, 0), params + tensor->first);
    }
}

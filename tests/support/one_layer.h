/* one_layer.h - a single layer on arrays of the test's own.
 *
 *     OWNED(one_layer_close) struct one_layer one;
 *     one_layer_open(&one, &input, &spec, rows, params);   // params may be NULL for layers without
 *     one_layer_forward(&one, x, y);
 *     one_layer_backward(&one, dy, dx);                    // gradients in one.grad */
#ifndef SUPPORT_ONE_LAYER_H
#define SUPPORT_ONE_LAYER_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nn/layers/layer.h"
#include "proto/why.h"
#include "tests/support/spec.h"

struct one_layer {
    struct nn_model
        *model; /* the layer, then flatten and a dense layer so that it is a whole one */
    const struct layer *layer;
    struct nn_context context;
    struct layer_io io;
    float *grad; /* [parameters of the layer] */
};

static void
one_layer_add(void *ctx, size_t first, const float *g, size_t n)
{
    float *grad = ctx;
    for (size_t i = 0; i < n; i++)
        grad[first + i] += g[i];
}

static inline void
one_layer_open(struct one_layer *one, const struct nn_shape *input,
               const struct nn_layer_spec *spec, size_t rows, const float *params)
{
    const struct nn_layer_spec layers[] = {*spec, LAYER(FLATTEN), DENSE(2)};
    struct why why;
    int rc = nn_model_new(&one->model, input, layers, 3, NN_CROSS_ENTROPY, &why);
    assert(rc == 0);
    const struct layer *layer = one->layer = nn_model_layer(one->model, 0);
    size_t saved = layer->kind->saved == NULL ? 0 : layer->kind->saved(layer);
    size_t scratch = layer->kind->scratch == NULL ? 0 : layer->kind->scratch(layer, rows);
    one->context = (struct nn_context){.seed = 1, .training = true};
    one->io = (struct layer_io){
        .rows = rows,
        .params = params,
        .context = &one->context,
        .saved = calloc(rows * saved + 1, 1),
        .scratch = calloc(scratch + 1, sizeof(float)),
    };
    one->grad = calloc(nn_param_count(one->model), sizeof(float));
    assert(one->io.saved != NULL);
    assert(one->io.scratch != NULL);
    assert(one->grad != NULL);
}

static inline void
one_layer_forward(struct one_layer *one, const float *x, float *y)
{
    one->io.x = x;
    one->io.y = y;
    one->layer->kind->forward(one->layer, &one->io);
}

/* dy is copied, so element-wise layers give dx, too. */
static inline void
one_layer_backward(struct one_layer *one, const float *dy, float *dx)
{
    const struct nn_sink sink = {.add = one_layer_add, .ctx = one->grad};
    size_t count = one->io.rows * one->layer->out_size;
    float *copy = malloc((count + 1) * sizeof *copy);
    assert(copy != NULL);
    memcpy(copy, dy, count * sizeof *copy);
    one->io.dy = copy;
    one->io.dx = one->layer->kind->element_wise ? copy : dx;
    one->io.sink = &sink;
    one->layer->kind->backward(one->layer, &one->io);
    if (one->layer->kind->element_wise)
        memcpy(dx, copy, count * sizeof *dx);
    free(copy);
}

static inline void
one_layer_close(struct one_layer *one)
{
    free(one->io.saved);
    free(one->io.scratch);
    free(one->grad);
    nn_model_destroy(&one->model);
}

#endif

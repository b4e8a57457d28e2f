/* norm.c - layer and root-mean-square normalisation of every vector along the last dimension.
 *
 * layernorm: y = w (x - mean) / sqrt(variance + epsilon) + b (Ba, Kiros, Hinton: Layer Normalization, 2016).
 * rmsnorm: y = w x / sqrt(mean of x^2 + epsilon), no bias (Zhang and Sennrich, NeurIPS 2019).
 *
 * With z the normalised vector, r one over the root, g = w dy and <.> the mean over a vector:
 *
 *     dx = r (g - <g> - z <g z>)      rmsnorm without <g>      dw = sum of dy z, db = sum of dy over vectors
 *
 * Mean and r of each vector are kept for back-propagation. */
#include <errno.h>
#include <string.h>

#include "nn/layers/layer.h"

enum { STATS = 2 }; /* per vector: mean, r */

static size_t
width(const struct layer *layer)
{
    return layer->in.dim[layer->in.dims - 1];
}

/* A layernorm, not an rmsnorm? */
static bool
centred(const struct layer *layer)
{
    return layer->spec.kind == NN_LAYERNORM;
}

static int
norm_shape(struct layer *layer, struct why *why)
{
    float epsilon = layer->spec.epsilon;
    if (!(epsilon > 0) || !(epsilon <= 1))
        return why_error(why, -EINVAL, "epsilon = %g, expected more than 0 and at most 1",
                         (double)epsilon);
    layer->weight = (struct nn_shape){1, {width(layer)}};
    layer->spec.init = NN_INIT_ONE;
    layer->spec.no_bias |= !centred(layer);
    return layer_same_shape(layer, why);
}

static size_t
norm_saved(const struct layer *layer)
{
    return layer->in_size / width(layer) * STATS * sizeof(float);
}

static size_t
norm_scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    return 2 * width(layer);
}

static double
norm_flops(const struct layer *layer)
{
    return 5.0 * (double)layer->in_size;
}

static void
normalise(const struct layer *layer, const struct layer_io *io)
{
    size_t n = width(layer), vectors = io->rows * (layer->in_size / n);
    const float *w = io->params + layer->weight_first, *b = io->params + layer->bias_first;
    float *stats = io->saved, unkept[STATS];
    for (size_t v = 0; v < vectors; v++)
        norm_forward(io->x + v * n, w, layer->spec.no_bias ? NULL : b, layer->spec.epsilon,
                     centred(layer), io->y + v * n, stats == NULL ? unkept : stats + v * STATS, n);
}

static void
denormalise(const struct layer *layer, const struct layer_io *io)
{
    size_t n = width(layer), vectors = io->rows * (layer->in_size / n);
    const float *w = io->params + layer->weight_first, *stats = io->saved;
    float *dw = io->scratch, *db = dw + n;
    memset(dw, 0, 2 * n * sizeof *dw);
    for (size_t v = 0; io->sink != NULL && v < vectors; v++)
        norm_gradient(io->x + v * n, io->dy + v * n, stats + v * STATS, dw, db, n);
    if (io->sink != NULL)
        layer_sink(io, layer->weight_first, dw, n);
    if (io->sink != NULL && !layer->spec.no_bias)
        layer_sink(io, layer->bias_first, db, n);
    for (size_t v = 0; io->dx != NULL && v < vectors; v++)
        norm_backward(io->x + v * n, io->dy + v * n, w, stats + v * STATS, centred(layer),
                      io->dx + v * n, n);
}

#define KIND(name)                                                                                 \
    {                                                                                              \
        .word = (name), .by_rows = true, .shape = norm_shape, .saved = norm_saved,                 \
        .scratch = norm_scratch, .flops = norm_flops, .forward = normalise,                        \
        .backward = denormalise,                                                                   \
    }

const struct layer_kind layernorm_kind = KIND("layernorm");
const struct layer_kind rmsnorm_kind = KIND("rmsnorm");

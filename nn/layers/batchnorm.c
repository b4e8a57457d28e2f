/* batchnorm.c - batch normalisation (Ioffe and Szegedy, ICML 2015) of each channel of [C, H, W], or each feature of
 * [T, C] or [C].
 *
 * In training mean and variance are those of the shard, whatever else a node computes, so that a shard's gradient
 * stays a function of shard and state (small "ghost" batches: Hoffer, Hubara, Soudry, NeurIPS 2017). With z the
 * normalised input, n values per channel, r = 1 / sqrt(variance + epsilon):
 *
 *     y = w z + b      dw = sum dy z      db = sum dy      dx = w r (dy - db / n - z dw / n)
 *
 * Evaluation uses running averages. They stand among the parameters but are no weights: what goes to the sink for
 * them is (average - statistic of the shard) times the shard's share of the rows, the sum over shards is exact like
 * all others, and the average moves by `momentum` times that sum, by no optimizer (nn_tensor.average). So every node
 * has the same ones. As in PyTorch the variance that is averaged is the unbiased one. */
#include <assert.h>
#include <errno.h>
#include <math.h>

#include "nn/arithmetic/product.h"
#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

static size_t
channels_of(const struct layer *layer)
{
    return layer->in.dim[layer->in.dims == 2 ? 1 : 0];
}

/* [T, C] and [C] are not images: to lie together, their channels are transposed to [C, rows]. */
static bool
features(const struct layer *layer)
{
    return layer->in.dims != 3;
}

static struct batchnorm_channel
channel_of(const struct layer *layer, size_t rows)
{
    size_t channels = channels_of(layer), plane = layer->in_size / channels;
    return features(layer) ? (struct batchnorm_channel){1, rows * plane, 0}
                           : (struct batchnorm_channel){rows, plane, layer->in_size};
}

static int
batchnorm_shape(struct layer *layer, struct why *why)
{
    float epsilon = layer->spec.epsilon, momentum = layer->spec.momentum;
    if (!(epsilon > 0) || !(epsilon <= 1))
        return why_error(why, -EINVAL, "epsilon = %g, expected more than 0 and at most 1",
                         (double)epsilon);
    if (!(momentum > 0) || !(momentum <= 1))
        return why_error(why, -EINVAL, "momentum = %g, expected more than 0 and at most 1",
                         (double)momentum);
    layer->weight = (struct nn_shape){1, {channels_of(layer)}};
    layer->spec.no_bias = false;
    layer->spec.init = NN_INIT_ONE;
    return layer_same_shape(layer, why);
}

/* Mean and variance of each channel, and the sums of backward: dx is often asked for in a call of its own, after the
 * gradient. They are of all rows, but memory is counted by the row. */
static size_t
batchnorm_saved(const struct layer *layer)
{
    return channels_of(layer) * (2 * sizeof(float) + 2 * sizeof(double));
}

/* [channels][2]; the first one is no number as long as they are not known. */
static double *
sums_of(const struct layer *layer, const struct layer_io *io)
{
    return (void *)((float *)io->saved + 2 * channels_of(layer));
}

/* 4 numbers per channel for the sink, and transposed x and dy. */
static size_t
batchnorm_scratch(const struct layer *layer, size_t rows)
{
    return 4 * channels_of(layer) + (features(layer) ? 2 * rows * layer->in_size : 0);
}

static double
batchnorm_flops(const struct layer *layer)
{
    return 4.0 * (double)layer->in_size;
}

static float
inverse_std(const struct layer *layer, float variance)
{
    double positive = variance < 0 ? 0 : (double)variance;
    return (float)(1 / sqrt(positive + (double)layer->spec.epsilon));
}

/* Rows [rows, channels] as [channels, rows]. */
static float *
transpose(const float *x, size_t rows, size_t channels, float *to)
{
    product_transpose(x, channels, rows, channels, to, rows);
    return to;
}

static void
statistics(const struct batchnorm_channel *c, const float *x, float *mean, float *variance)
{
    double sum, count = (double)(c->planes * c->plane);
    batchnorm_sum(c, x, &sum);
    *mean = count > 0 ? (float)(sum / count) : 0;
    batchnorm_squares(c, x, *mean, &sum);
    *variance = count > 0 ? (float)(sum / count) : 0;
}

static void
batchnorm_layer_forward(const struct layer *layer, const struct layer_io *io)
{
    const struct batchnorm_channel c = channel_of(layer, io->rows);
    size_t n = channels_of(layer);
    const float *w = io->params + layer->weight_first, *b = w + n, *mean = b + n;
    const float *x = io->x;
    float *y = io->y, *kept = io->context->training ? io->saved : NULL;
    if (features(layer))
        x = y = transpose(io->x, c.plane, n, io->scratch);
    if (kept != NULL) {
        mean = kept;
        sums_of(layer, io)[0] = (double)NAN;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = i * c.plane;
        if (kept != NULL)
            statistics(&c, x + at, &kept[i], &kept[n + i]);
        batchnorm_forward(&c, x + at, mean[i], inverse_std(layer, mean[n + i]) * w[i], b[i],
                          layer->fused.relu_after, y + at);
    }
    if (features(layer))
        product_transpose(y, c.plane, n, c.plane, io->y, n);
}

/* What goes to the sink for a channel, g[0], g[n], g[2 n], g[3 n]. */
static void
gradient(const struct layer *layer, const struct layer_io *io, size_t channel, double dw, double db,
         float *g)
{
    const struct batchnorm_channel c = channel_of(layer, io->rows);
    size_t n = channels_of(layer);
    const float *stats = (float *)io->saved + channel;
    const float *running = io->params + layer->weight_first + 2 * n + channel;
    double share = (double)io->rows * (double)io->scale, count = (double)(c.planes * c.plane);
    double unbiased = count > 1 ? count / (count - 1) : 1;
    g[0] = (float)dw;
    g[n] = (float)db;
    g[2 * n] = (float)(((double)running[0] - (double)stats[0]) * share);
    g[3 * n] = (float)(((double)running[n] - (double)stats[n] * unbiased) * share);
}

/* Sums of dy and of dy (x - mean) for each channel, with dy behind the relu that backward includes. */
static void
sums_find(const struct layer *layer, const struct layer_io *io, const float *x, float *dy)
{
    const struct batchnorm_channel c = channel_of(layer, io->rows);
    const float *mean = io->saved,
                *y = layer->fused.relu_grad_after && !features(layer) ? io->y : NULL;
    double *sum = sums_of(layer, io);
    for (size_t i = 0; i < channels_of(layer); i++, sum += 2, x += c.plane, dy += c.plane) {
        batchnorm_gradient(&c, x, y, dy, mean[i], sum);
        y = y == NULL ? NULL : y + c.plane;
    }
}

static void
batchnorm_layer_backward(const struct layer *layer, const struct layer_io *io)
{
    assert(io->context->training);
    const struct batchnorm_channel c = channel_of(layer, io->rows);
    size_t n = channels_of(layer);
    const float *w = io->params + layer->weight_first, *mean = io->saved, *x = io->x;
    float *g = io->scratch, *side = g + 4 * n, *dx = io->dx, *dy = io->dy;
    double *sum = sums_of(layer, io), count = (double)(c.planes * c.plane);
    bool known = io->sink == NULL && !isnan(sum[0]);
    if (features(layer) && layer->fused.relu_grad_after && !known)
        vmath_relu_grad(io->y, io->dy, io->rows * layer->in_size);
    if (features(layer)) {
        x = transpose(io->x, c.plane, n, side);
        dy = transpose(io->dy, c.plane, n, side + c.plane * n);
        dx = io->dx == NULL ? NULL : side;
    }
    if (!known)
        sums_find(layer, io, x, dy);
    for (size_t i = 0; i < n; i++) {
        size_t at = i * c.plane;
        float r = inverse_std(layer, mean[n + i]);
        double dw = sum[2 * i + 1] * (double)r, db = sum[2 * i];
        gradient(layer, io, i, dw, db, g + i);
        const struct batchnorm_slope slope = {mean[i], r, w[i] * r, (float)(db / count),
                                              (float)(dw / count)};
        if (dx != NULL)
            batchnorm_backward(&c, x + at, dy + at, &slope, dx + at);
    }
    if (io->sink != NULL)
        layer_sink(io, layer->weight_first, g, 4 * n);
    if (io->dx != NULL)
        sum[0] = (double)NAN; /* the next backward may be of another dy */
    if (dx != NULL && features(layer))
        product_transpose(dx, c.plane, n, c.plane, io->dx, n);
}

const struct layer_kind batchnorm_kind = {
    .word = "batchnorm",
    .running = true,
    .shape = batchnorm_shape,
    .saved = batchnorm_saved,
    .scratch = batchnorm_scratch,
    .flops = batchnorm_flops,
    .joins_relu = true,
    .joins_relu_grad = true,
    .forward = batchnorm_layer_forward,
    .backward = batchnorm_layer_backward,
};

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
 * all others, and the average moves by `momentum` times that sum, by no optimiser (nn_tensor.average). So every node
 * has the same ones. As in PyTorch the variance that is averaged is the unbiased one. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/layer.h"

/* x as [outer, channels, inner]. */
struct view {
    size_t outer, channels, inner;
    double count; /* values per channel */
};

static size_t
channels_of(const struct layer *layer)
{
    return layer->in.dim[layer->in.dims == 2 ? 1 : 0];
}

static struct view
view_of(const struct layer *layer, size_t rows)
{
    struct view v = {.channels = channels_of(layer)};
    v.inner = layer->in.dims == 3 ? layer->in.dim[1] * layer->in.dim[2] : 1;
    v.outer = rows * (layer->in_size / (v.channels * v.inner));
    v.count = (double)(v.outer * v.inner);
    return v;
}

static int
shape(struct layer *layer, char *why, size_t why_size)
{
    float epsilon = layer->spec.epsilon, momentum = layer->spec.momentum;
    if (!(epsilon > 0) || !(epsilon <= 1)) {
        snprintf(why, why_size, "epsilon = %g, expected more than 0 and at most 1",
                 (double)epsilon);
        return -EINVAL;
    }
    if (!(momentum > 0) || !(momentum <= 1)) {
        snprintf(why, why_size, "momentum = %g, expected more than 0 and at most 1",
                 (double)momentum);
        return -EINVAL;
    }
    layer->weight = (struct nn_shape){1, {channels_of(layer)}};
    layer->spec.no_bias = false;
    layer->spec.init = NN_INIT_ONE;
    return layer_same_shape(layer, why, why_size);
}

/* Mean and variance of each channel; they are of all rows, but memory is counted by the row. */
static size_t
saved(const struct layer *layer)
{
    return 2 * channels_of(layer) * sizeof(float);
}

static size_t
scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    return 4 * channels_of(layer) + 2 * channels_of(layer) * (sizeof(double) / sizeof(float));
}

static double
flops(const struct layer *layer)
{
    return 4.0 * (double)layer->in_size;
}

/* sum[c] = sum of (x - mean[c])^power over the channel, power 1 or 2. */
static void
moments(const struct view *v, const float *x, const float *mean, int power, double *sum)
{
    memset(sum, 0, v->channels * sizeof *sum);
    for (size_t o = 0; o < v->outer; o++)
        for (size_t c = 0; c < v->channels; c++)
            for (size_t k = 0; k < v->inner; k++) {
                double d = (double)*x++ - (power == 2 ? (double)mean[c] : 0);
                sum[c] += power == 2 ? d * d : d;
            }
}

static void
statistics(const struct view *v, const float *x, double *sum, float *mean, float *variance)
{
    double count = v->count > 0 ? v->count : 1;
    moments(v, x, NULL, 1, sum);
    for (size_t c = 0; c < v->channels; c++)
        mean[c] = (float)(sum[c] / count);
    moments(v, x, mean, 2, sum);
    for (size_t c = 0; c < v->channels; c++)
        variance[c] = (float)(sum[c] / count);
}

static float
root(const struct layer *layer, float variance)
{
    double positive = variance < 0 ? 0 : (double)variance;
    return (float)(1 / sqrt(positive + (double)layer->spec.epsilon));
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    struct view v = view_of(layer, io->rows);
    double *sum = (double *)(void *)io->scratch;
    const float *w = io->params + layer->weight_first, *b = w + v.channels;
    const float *mean = b + v.channels, *variance = mean + v.channels, *x = io->x;
    float *y = io->y, *kept = io->saved;
    if (io->context->training && kept != NULL) {
        statistics(&v, x, sum, kept, kept + v.channels);
        mean = kept;
        variance = kept + v.channels;
    }
    for (size_t o = 0; o < v.outer; o++)
        for (size_t c = 0; c < v.channels; c++) {
            float scale = root(layer, variance[c]) * w[c];
            for (size_t k = 0; k < v.inner; k++)
                *y++ = (*x++ - mean[c]) * scale + b[c];
        }
}

/* dw and db of each channel. */
static void
sums(const struct layer *layer, const struct layer_io *io, const struct view *v, double *dw,
     double *db)
{
    const float *mean = io->saved, *variance = mean + v->channels, *x = io->x, *dy = io->dy;
    memset(dw, 0, v->channels * sizeof *dw);
    memset(db, 0, v->channels * sizeof *db);
    for (size_t o = 0; o < v->outer; o++)
        for (size_t c = 0; c < v->channels; c++)
            for (size_t k = 0; k < v->inner; k++, x++, dy++) {
                dw[c] += (double)*dy * ((double)*x - (double)mean[c]);
                db[c] += (double)*dy;
            }
    for (size_t c = 0; c < v->channels; c++)
        dw[c] *= (double)root(layer, variance[c]);
}

static void
sink_all(const struct layer *layer, const struct layer_io *io, const struct view *v,
         const double *dw, const double *db, float *g)
{
    size_t n = v->channels;
    const float *stats = io->saved, *running = io->params + layer->weight_first + 2 * n;
    double share = (double)io->rows * (double)io->scale;
    double unbiased = v->count > 1 ? v->count / (v->count - 1) : 1;
    for (size_t c = 0; c < n; c++) {
        g[c] = (float)dw[c];
        g[n + c] = (float)db[c];
        g[2 * n + c] = (float)(((double)running[c] - (double)stats[c]) * share);
        g[3 * n + c] = (float)(((double)running[n + c] - (double)stats[n + c] * unbiased) * share);
    }
    layer_sink(io, layer->weight_first, g, 4 * n);
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    assert(io->context->training);
    struct view v = view_of(layer, io->rows);
    double *dw = (double *)(void *)io->scratch, *db = dw + v.channels;
    const float *w = io->params + layer->weight_first, *mean = io->saved;
    const float *variance = mean + v.channels, *x = io->x, *dy = io->dy;
    float *dx = io->dx;
    sums(layer, io, &v, dw, db);
    if (io->sink != NULL)
        sink_all(layer, io, &v, dw, db, (float *)(void *)(db + v.channels));
    for (size_t o = 0; dx != NULL && o < v.outer; o++)
        for (size_t c = 0; c < v.channels; c++) {
            float r = root(layer, variance[c]), plain = (float)(db[c] / v.count);
            float along = (float)(dw[c] / v.count);
            for (size_t k = 0; k < v.inner; k++, x++)
                *dx++ = (w[c] * r) * ((*dy++ - plain) - ((*x - mean[c]) * r) * along);
        }
}

const struct layer_kind batchnorm_kind = {
    .word = "batchnorm",
    .running = true,
    .shape = shape,
    .saved = saved,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
};

/* pooling.c - maximum and average over square windows of each channel, and the average of all of it.
 *
 * Max: the first largest element wins (a NaN beats all), its position is kept for back-propagation, marked if the relu
 * that backward includes stops its gradient; padding never wins. Average: padding counts as zeros, the divisor is
 * always kernel^2. */
#include <errno.h>
#include <string.h>

#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

struct window {
    size_t top, bottom, left, right; /* rows [top, bottom), columns [left, right) of the image */
};

static void
clip(size_t out, const struct nn_layer_spec *spec, size_t size, size_t *first, size_t *end)
{
    size_t start = out * spec->stride, stop = start + spec->kernel; /* in the padded image */
    *first = start > spec->pad ? start - spec->pad : 0;
    *end = stop - spec->pad < size ? stop - spec->pad : size;
}

static struct window
window_at(const struct layer *layer, size_t row, size_t column)
{
    struct window w;
    clip(row, &layer->spec, layer->in.dim[1], &w.top, &w.bottom);
    clip(column, &layer->spec, layer->in.dim[2], &w.left, &w.right);
    return w;
}

static size_t
max_saved(const struct layer *layer)
{
    return layer->out_size * sizeof(uint32_t);
}

static double
pooling_flops(const struct layer *layer)
{
    return (double)layer->out_size * layer->spec.kernel * layer->spec.kernel;
}

/* Position of the largest element of a window in the plane x[height, width]. */
static size_t
window_max(const float *x, size_t width, struct window w)
{
    size_t best = w.top * width + w.left;
    for (size_t i = w.top; i < w.bottom; i++)
        for (size_t j = w.left; j < w.right; j++) {
            float v = x[i * width + j];
            if (v > x[best] || v != v)
                best = i * width + j;
        }
    return best;
}

/* Outputs [first, end) of a line whose windows lie inside the image from left to right. */
static void
inside(const struct layer *layer, size_t *first, size_t *end)
{
    const struct nn_layer_spec *spec = &layer->spec;
    size_t fit = layer->in.dim[2] + spec->pad; /* right edge of the image in padded columns */
    *first = (spec->pad + spec->stride - 1) / spec->stride;
    *end = fit < spec->kernel ? 0 : (fit - spec->kernel) / spec->stride + 1;
    if (*end < *first + 4 || *end > layer->out.dim[2]) /* too few for a vector */
        *end = *first = 0;
}

/* One line of outputs: windows inside by vectors, the others one by one. */
static void
max_line(const struct layer *layer, const float *x, size_t row, float *y, uint32_t *at)
{
    const struct nn_layer_spec *spec = &layer->spec;
    size_t width = layer->in.dim[2], n = layer->out.dim[2], first, end;
    struct window lines = window_at(layer, row, 0);
    inside(layer, &first, &end);
    for (size_t j = 0; j < n; j++) {
        if (j == first && end > first)
            j = end;
        if (j == n)
            break;
        at[j] = (uint32_t)window_max(x, width, window_at(layer, row, j));
        y[j] = x[at[j]];
    }
    if (end > first) {
        size_t from = lines.top * width + first * spec->stride - spec->pad;
        pooling_max_line(x + from, width, lines.bottom - lines.top, spec->kernel, spec->stride,
                         (uint32_t)from, y + first, at + first, end - first);
    }
}

static void
max_plane(const struct layer *layer, const float *x, float *y, uint32_t *at)
{
    size_t width = layer->out.dim[2];
    for (size_t i = 0; i < layer->out.dim[1]; i++)
        max_line(layer, x, i, y + i * width, at + i * width);
}

/* In evaluation the positions of one plane go to scratch. */
static size_t
max_scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    return layer->out.dim[1] * layer->out.dim[2];
}

static void
max_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in.dim[1] * layer->in.dim[2], out = layer->out.dim[1] * layer->out.dim[2];
    for (size_t p = 0; p < io->rows * layer->in.dim[0]; p++) {
        float *y = io->y + p * out;
        uint32_t *at = io->saved == NULL ? (void *)io->scratch : (uint32_t *)io->saved + p * out;
        max_plane(layer, io->x + p * in, y, at);
        if (layer->fused.relu_before)
            pooling_mark(y, at, out);
    }
}

static void
max_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in.dim[1] * layer->in.dim[2], out = layer->out.dim[1] * layer->out.dim[2];
    const uint32_t *at = io->saved;
    for (size_t p = 0; io->dx != NULL && p < io->rows * layer->in.dim[0]; p++, at += out) {
        const float *dy = io->dy + p * out;
        float *dx = io->dx + p * in;
        memset(dx, 0, in * sizeof *dx);
        for (size_t i = 0; i < out; i++) {
            const float d[2] = {dy[i], 0}; /* no branch: half of them are marked */
            dx[at[i] & ~POOLING_MARK] += d[at[i] / POOLING_MARK];
        }
    }
}

static float
window_sum(const float *x, size_t width, struct window w)
{
    float sum = 0;
    for (size_t i = w.top; i < w.bottom; i++)
        for (size_t j = w.left; j < w.right; j++)
            sum += x[i * width + j];
    return sum;
}

static void
window_add(float *x, size_t width, struct window w, float d)
{
    for (size_t i = w.top; i < w.bottom; i++)
        for (size_t j = w.left; j < w.right; j++)
            x[i * width + j] += d;
}

static void
average_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in.dim[1] * layer->in.dim[2], width = layer->in.dim[2];
    size_t kernel = layer->spec.kernel;
    float share = 1.0f / (float)(kernel * kernel), *y = io->y;
    for (size_t p = 0; p < io->rows * layer->in.dim[0]; p++)
        for (size_t i = 0; i < layer->out.dim[1]; i++)
            for (size_t j = 0; j < layer->out.dim[2]; j++)
                *y++ = window_sum(io->x + p * in, width, window_at(layer, i, j)) * share;
}

static void
average_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in.dim[1] * layer->in.dim[2], width = layer->in.dim[2];
    size_t kernel = layer->spec.kernel;
    float share = 1.0f / (float)(kernel * kernel);
    const float *dy = io->dy;
    if (io->dx == NULL)
        return;
    memset(io->dx, 0, io->rows * layer->in_size * sizeof *io->dx);
    for (size_t p = 0; p < io->rows * layer->in.dim[0]; p++)
        for (size_t i = 0; i < layer->out.dim[1]; i++)
            for (size_t j = 0; j < layer->out.dim[2]; j++)
                window_add(io->dx + p * in, width, window_at(layer, i, j), *dy++ * share);
}

static int
global_shape(struct layer *layer, struct why *why)
{
    if (layer->in.dims < 2)
        return why_error(why, -EINVAL, "input has 1 dimension, expected an image or a sequence");
    layer->out = (struct nn_shape){1, {layer->in.dim[layer->in.dims == 2 ? 1 : 0]}};
    return 0;
}

static double
global_flops(const struct layer *layer)
{
    return (double)layer->in_size;
}

static void
global_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t channels = layer->out_size, count = layer->in_size / channels;
    for (size_t r = 0; r < io->rows; r++) {
        const float *x = io->x + r * layer->in_size;
        float *y = io->y + r * channels, share = 1.0f / (float)count;
        memset(y, 0, channels * sizeof *y);
        if (layer->in.dims == 2)
            vmath_sum_rows(x, channels, count, y, channels);
        for (size_t c = 0; layer->in.dims == 3 && c < channels; c++) {
            double sum;
            vmath_sum(x + c * count, count, &sum);
            y[c] = (float)sum;
        }
        for (size_t c = 0; c < channels; c++)
            y[c] *= share;
    }
}

static void
global_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t channels = layer->out_size, count = layer->in_size / channels;
    float share = 1.0f / (float)count;
    size_t across = layer->in.dims == 2 ? channels : count, down = layer->in_size / across;
    float *dx = io->dx;
    for (size_t r = 0; dx != NULL && r < io->rows; r++)
        for (size_t i = 0; i < down; i++, dx += across) {
            const float *dy = io->dy + r * channels;
            for (size_t j = 0; j < across; j++)
                dx[j] = dy[layer->in.dims == 2 ? j : i] * share;
        }
}

static int
pooling_shape(struct layer *layer, struct why *why)
{
    int rc = layer_window_shape(layer, why);
    layer->out.dim[0] = layer->in.dim[0];
    return rc;
}

const struct layer_kind maxpool_kind = {
    .word = "maxpool",
    .by_rows = true,
    .shape = pooling_shape,
    .saved = max_saved,
    .scratch = max_scratch,
    .flops = pooling_flops,
    .forward = max_forward,
    .backward = max_backward,
    .joins_relu_before = true,
};

const struct layer_kind globalpool_kind = {
    .word = "globalpool",
    .by_rows = true,
    .shape = global_shape,
    .flops = global_flops,
    .forward = global_forward,
    .backward = global_backward,
};

const struct layer_kind avgpool_kind = {
    .word = "avgpool",
    .by_rows = true,
    .shape = pooling_shape,
    .flops = pooling_flops,
    .forward = average_forward,
    .backward = average_backward,
};

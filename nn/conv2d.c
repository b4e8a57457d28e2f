/* conv2d.c - convolution (cross-correlation, as everywhere in this field) of images [C, H, W] with
 * filters W [F, C, k, k], as a matrix product (im2col: Chellapilla, Puri, Simard, IWFHR 2006).
 *
 * One image at a time is unrolled into col [K, P], K = C k k (channel, row and column in the window),
 * P = output pixels; then
 *
 *     y [F, P] = W [F, K] col + b,   dW = sum over images of dy [F, P] col^T,   dcol = W^T dy
 *
 * and dx gathers from dcol what each input pixel was copied to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nn/blas.h"
#include "nn/layer.h"
#include "nn/vmath.h"

struct conv {
    size_t channels, height, width;        /* of the input */
    size_t filters, out_height, out_width; /* of the output */
    size_t kernel, stride, pad, K, P;
};

static struct conv
conv_of(const struct layer *layer)
{
    const struct nn_layer_spec *spec = &layer->spec;
    return (struct conv){
        .channels = layer->in.dim[0],
        .height = layer->in.dim[1],
        .width = layer->in.dim[2],
        .filters = layer->out.dim[0],
        .out_height = layer->out.dim[1],
        .out_width = layer->out.dim[2],
        .kernel = spec->kernel,
        .stride = spec->stride,
        .pad = spec->pad,
        .K = layer->in.dim[0] * spec->kernel * spec->kernel,
        .P = layer->out.dim[1] * layer->out.dim[2],
    };
}

static int
shape(struct layer *layer, char *why, size_t why_size)
{
    if (layer->spec.units == 0) {
        snprintf(why, why_size, "filters = 0, expected at least 1");
        return -EINVAL;
    }
    int rc = layer_window_shape(layer, why, why_size);
    layer->out.dim[0] = layer->spec.units;
    layer->weight = (struct nn_shape){
        4, {layer->spec.units, layer->in.dim[0], layer->spec.kernel, layer->spec.kernel}};
    return rc;
}

/* col and dcol share memory; dW and the bias gradient have their own. */
static size_t
scratch(const struct layer *layer)
{
    struct conv c = conv_of(layer);
    return c.K * c.P + c.filters * c.K + c.filters;
}

static double
flops(const struct layer *layer)
{
    struct conv c = conv_of(layer);
    return 2.0 * (double)c.K * (double)c.P * (double)c.filters;
}

/* Outputs [first, end) along an axis of `out` that see the image, not padding, at window offset k. */
static void
seen(const struct conv *c, size_t k, size_t size, size_t out, size_t *first, size_t *end)
{
    size_t s = c->stride;
    *first = k >= c->pad ? 0 : (c->pad - k + s - 1) / s;
    *end = size + c->pad <= k ? 0 : (size + c->pad - k - 1) / s + 1;
    if (*end > out)
        *end = out;
    if (*first > *end)
        *first = *end;
}

static void
copy_strided(const float *x, size_t stride, float *y, size_t n)
{
    if (stride == 1)
        memcpy(y, x, n * sizeof *y);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = x[i * stride];
}

/* One row of col: channel plane x at window offset (ki, kj). */
static void
unroll_row(const struct conv *c, const float *x, size_t ki, size_t kj, float *col)
{
    size_t top, bottom, left, right;
    seen(c, ki, c->height, c->out_height, &top, &bottom);
    seen(c, kj, c->width, c->out_width, &left, &right);
    memset(col, 0, top * c->out_width * sizeof *col);
    for (size_t i = top; i < bottom; i++) {
        float *to = col + i * c->out_width;
        const float *from = x + (i * c->stride + ki - c->pad) * c->width;
        memset(to, 0, left * sizeof *to);
        if (right > left)
            copy_strided(from + left * c->stride + kj - c->pad, c->stride, to + left, right - left);
        memset(to + right, 0, (c->out_width - right) * sizeof *to);
    }
    memset(col + bottom * c->out_width, 0, (c->out_height - bottom) * c->out_width * sizeof *col);
}

static void
unroll(const struct conv *c, const float *x, float *col)
{
    for (size_t ch = 0; ch < c->channels; ch++)
        for (size_t ki = 0; ki < c->kernel; ki++)
            for (size_t kj = 0; kj < c->kernel; kj++, col += c->P)
                unroll_row(c, x + ch * c->height * c->width, ki, kj, col);
}

/* dx plane += one row of dcol. */
static void
gather_row(const struct conv *c, const float *col, size_t ki, size_t kj, float *dx)
{
    size_t top, bottom, left, right;
    seen(c, ki, c->height, c->out_height, &top, &bottom);
    seen(c, kj, c->width, c->out_width, &left, &right);
    for (size_t i = top; i < bottom && right > left; i++) {
        float *to = dx + (i * c->stride + ki - c->pad) * c->width + left * c->stride + kj - c->pad;
        const float *from = col + i * c->out_width + left;
        for (size_t j = 0; j < right - left; j++)
            to[j * c->stride] += from[j];
    }
}

static void
gather(const struct conv *c, const float *col, float *dx)
{
    memset(dx, 0, c->channels * c->height * c->width * sizeof *dx);
    for (size_t ch = 0; ch < c->channels; ch++)
        for (size_t ki = 0; ki < c->kernel; ki++)
            for (size_t kj = 0; kj < c->kernel; kj++, col += c->P)
                gather_row(c, col, ki, kj, dx + ch * c->height * c->width);
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    const float *w = io->params + layer->weight_first, *b = io->params + layer->bias_first;
    for (size_t r = 0; r < io->rows; r++) {
        float *y = io->y + r * layer->out_size;
        for (size_t p = 0; p < layer->out_size; p++)
            y[p] = layer->spec.no_bias ? 0 : b[p / c.P];
        unroll(&c, io->x + r * layer->in_size, io->scratch);
        blas_gemm(false, false, c.filters, c.P, c.K, w, c.K, io->scratch, c.P, 1, y, c.P);
    }
}

static void
bias_gradient(const struct layer *layer, const struct layer_io *io, size_t P, float *db)
{
    for (size_t f = 0; f < layer->out.dim[0]; f++) {
        double sum = 0, plane;
        for (size_t r = 0; r < io->rows; r++, sum += plane)
            vmath_sum(io->dy + r * layer->out_size + f * P, P, &plane);
        db[f] = (float)sum;
    }
    layer_sink(io, layer->bias_first, db, layer->out.dim[0]);
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    const float *w = io->params + layer->weight_first;
    float *col = io->scratch, *dw = col + c.K * c.P;
    memset(dw, 0, layer->weight_count * sizeof *dw);
    for (size_t r = 0; r < io->rows; r++) {
        const float *dy = io->dy + r * layer->out_size;
        unroll(&c, io->x + r * layer->in_size, col);
        blas_gemm(false, true, c.filters, c.K, c.P, dy, c.P, col, c.P, 1, dw, c.K);
        if (io->dx == NULL)
            continue;
        blas_gemm(true, false, c.K, c.P, c.filters, w, c.K, dy, c.P, 0, col, c.P);
        gather(&c, col, io->dx + r * layer->in_size);
    }
    layer_sink(io, layer->weight_first, dw, layer->weight_count);
    if (!layer->spec.no_bias)
        bias_gradient(layer, io, c.P, dw + layer->weight_count);
}

/* Input position of output (oi, oj) and window offset (ki, kj) within a plane, or -1 for padding. */
static ptrdiff_t
source(const struct conv *c, size_t p, size_t k)
{
    size_t i = p / c->out_width * c->stride + k / c->kernel % c->kernel;
    size_t j = p % c->out_width * c->stride + k % c->kernel;
    if (i < c->pad || j < c->pad || i - c->pad >= c->height || j - c->pad >= c->width)
        return -1;
    size_t channel = k / (c->kernel * c->kernel);
    return (ptrdiff_t)((channel * c->height + i - c->pad) * c->width + j - c->pad);
}

static void
forward_naive(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    for (size_t r = 0; r < io->rows; r++)
        for (size_t f = 0; f < c.filters; f++)
            for (size_t p = 0; p < c.P; p++) {
                const float *x = io->x + r * layer->in_size;
                const float *w = io->params + layer->weight_first + f * c.K;
                double sum = layer->spec.no_bias ? 0 : (double)io->params[layer->bias_first + f];
                for (size_t k = 0; k < c.K; k++) {
                    ptrdiff_t at = source(&c, p, k);
                    sum += at < 0 ? 0 : (double)x[at] * (double)w[k];
                }
                io->y[r * layer->out_size + f * c.P + p] = (float)sum;
            }
}

/* Add what output (f, p) of one row with gradient d gives to dW[f], db and dx. */
static void
scatter_naive(const struct layer *layer, const struct layer_io *io, size_t r, size_t f, size_t p)
{
    struct conv c = conv_of(layer);
    float d = io->dy[r * layer->out_size + f * c.P + p];
    float *dw = io->scratch + f * c.K;
    for (size_t k = 0; k < c.K; k++) {
        ptrdiff_t at = source(&c, p, k);
        if (at < 0)
            continue;
        dw[k] += d * io->x[r * layer->in_size + (size_t)at];
        if (io->dx != NULL)
            io->dx[r * layer->in_size + (size_t)at] +=
                d * io->params[layer->weight_first + f * c.K + k];
    }
    io->scratch[layer->weight_count + f] += d;
}

static void
backward_naive(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    memset(io->scratch, 0, (layer->weight_count + c.filters) * sizeof *io->scratch);
    if (io->dx != NULL)
        memset(io->dx, 0, io->rows * layer->in_size * sizeof *io->dx);
    for (size_t r = 0; r < io->rows; r++)
        for (size_t f = 0; f < c.filters; f++)
            for (size_t p = 0; p < c.P; p++)
                scatter_naive(layer, io, r, f, p);
    layer_sink(io, layer->weight_first, io->scratch, layer->weight_count);
    if (!layer->spec.no_bias)
        layer_sink(io, layer->bias_first, io->scratch + layer->weight_count, c.filters);
}

const struct layer_kind conv2d_kind = {
    .word = "conv",
    .shape = shape,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .forward_naive = forward_naive,
    .backward_naive = backward_naive,
};

/* conv2d.c - convolution (cross-correlation, as everywhere in this field) of images [C, H, W] with
 * filters W [F, C, k, k].
 *
 * Nothing is unrolled in memory: an image is copied once, padded and with the channel last, and the product
 * loop walks over it (gemm.h). With u = (ki, kj, c) a position in the window, p an output pixel:
 *
 *     y[p, f]  = sum over u of image[p * stride + u] W[u, f] + b[f]
 *     dW[u, f] = sum over rows and p of image[p * stride + u] dy[p, f]
 *
 * where for dW the image is stored line by line, all channels of a line together, so that the sum over p
 * runs along memory.
 *
 * dx is again a convolution, of dy in a margin of zeros with the filters flipped. With a stride s,
 * an input pixel whose padded row is a mod s has met only window rows a, a + s, ..., so there are s * s
 * phases, each a convolution of stride 1 with its share of the filter:
 *
 *     dx[i, c] = sum over t, f of dy[(i + pad - a) / s - t, f] W[a + s t, c, f]    a = (i + pad) mod s
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nn/arithmetic/gemm.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

struct conv {
    size_t channels, height, width;        /* of the input */
    size_t filters, out_height, out_width; /* of the output */
    size_t kernel, stride, pad;
    size_t K, P;                      /* positions in a window, output pixels */
    size_t wide, image;               /* padded input: pixels per line, floats */
    size_t margin, dy_wide, dy_image; /* the same of dy in its margin */
};

static size_t
greatest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Lines of dy with its margin: enough for the last input pixel to look back from. */
static size_t
margin_lines(size_t in, size_t out, const struct nn_layer_spec *spec, size_t margin)
{
    return margin + greatest(out, (in - 1 + spec->pad) / spec->stride + 1);
}

static struct conv
conv_of(const struct layer *layer)
{
    const struct nn_layer_spec *spec = &layer->spec;
    const size_t *in = layer->in.dim, *out = layer->out.dim;
    struct conv c = {
        .channels = in[0],
        .height = in[1],
        .width = in[2],
        .filters = out[0],
        .out_height = out[1],
        .out_width = out[2],
        .kernel = spec->kernel,
        .stride = spec->stride,
        .pad = spec->pad,
        .K = in[0] * spec->kernel * spec->kernel,
        .P = out[1] * out[2],
        .wide = in[2] + 2 * (size_t)spec->pad,
        .margin = (size_t)(spec->kernel - 1) / spec->stride,
    };
    c.image = (in[1] + 2 * (size_t)spec->pad) * c.wide * c.channels;
    c.dy_wide = margin_lines(in[2], out[2], spec, c.margin);
    c.dy_image = margin_lines(in[1], out[1], spec, c.margin) * c.dy_wide * c.filters;
    return c;
}

static int
shape(struct layer *layer, struct why *why)
{
    if (layer->spec.units == 0)
        return why_error(why, -EINVAL, "filters = 0, expected at least 1");
    int rc = layer_window_shape(layer, why);
    layer->out.dim[0] = layer->spec.units;
    layer->weight = (struct nn_shape){
        4, {layer->spec.units, layer->in.dim[0], layer->spec.kernel, layer->spec.kernel}};
    return rc;
}

static size_t
scratch(const struct layer *layer, size_t rows)
{
    struct conv c = conv_of(layer);
    size_t forward = c.image + c.P * c.filters + gemm_packed_size(c.K, c.filters);
    size_t weights = c.image + c.P * GEMM_COLUMNS + c.K * (c.filters + 2 * GEMM_COLUMNS);
    size_t inputs = c.dy_image + c.height * c.width * c.channels +
                    gemm_packed_size(c.kernel * c.kernel * c.filters, c.channels);
    (void)rows;
    return greatest(forward, greatest(weights, inputs)) + c.filters;
}

static double
flops(const struct layer *layer)
{
    struct conv c = conv_of(layer);
    return 2.0 * (double)c.K * (double)c.P * (double)c.filters;
}

/* Planes x [channels, height, width] into an image with the channel last, `wide` pixels per line. */
static void
interleave(const float *x, size_t channels, size_t height, size_t width, float *image, size_t wide)
{
    for (size_t i = 0; i < height; i++)
        gemm_transpose(x + i * width, height * width, channels, width, image + i * wide * channels,
                       channels);
}

/* The image of row r of the batch; the margin is zero already. */
static void
image_fill(const struct conv *c, const struct layer_io *io, size_t r, float *image)
{
    interleave(io->x + r * c->channels * c->height * c->width, c->channels, c->height, c->width,
               image + (c->pad * c->wide + c->pad) * c->channels, c->wide);
}

/* Panels of B[u, f] = W[f, u]. */
static void
filters_pack(const struct conv *c, const float *w, float *out)
{
    memset(out, 0, gemm_packed_size(c->K, c->filters) * sizeof *out);
    for (size_t f = 0; f < c->filters; f++) {
        float *panel = out + f / GEMM_COLUMNS * c->K * GEMM_COLUMNS + f % GEMM_COLUMNS;
        for (size_t ch = 0; ch < c->channels; ch++)
            for (size_t k = 0; k < c->kernel * c->kernel; k++)
                panel[(k * c->channels + ch) * GEMM_COLUMNS] = *w++;
    }
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    const float *b = io->params + layer->bias_first;
    float *image = io->scratch, *out = image + c.image, *w = out + c.P * c.filters;
    size_t line = c.wide * c.channels;
    struct gemm_view view = {
        image, c.out_width, c.stride * line, c.stride * c.channels, c.kernel * c.channels, line, 1};
    filters_pack(&c, io->params + layer->weight_first, w);
    memset(image, 0, c.image * sizeof *image);
    for (size_t r = 0; r < io->rows; r++) {
        float *y = io->y + r * layer->out_size;
        image_fill(&c, io, r, image);
        for (size_t f = 0; f < c.filters; f += GEMM_COLUMNS)
            gemm_panel(&view, c.P, c.filters - f, c.K, w + f * c.K, false, out + f, c.filters);
        gemm_transpose(out, c.filters, c.P, c.filters, y, c.P);
        for (size_t f = 0; !layer->spec.no_bias && f < c.filters; f++)
            vmath_add_scalar(y + f * c.P, b[f], c.P);
    }
}

/* Row r of the batch with the lines of all channels next to each other: image [height, channels, wide]. */
static void
lines_fill(const struct conv *c, const struct layer_io *io, size_t r, float *image)
{
    const float *x = io->x + r * c->channels * c->height * c->width;
    for (size_t ch = 0; ch < c->channels; ch++)
        for (size_t i = 0; i < c->height; i++, x += c->width)
            memcpy(image + ((i + c->pad) * c->channels + ch) * c->wide + c->pad, x,
                   c->width * sizeof *x);
}

/* One filter from the order (ki, c, kj) into that of the parameters, (c, ki, kj). */
static void
filter_sort(const struct conv *c, const float *from, float *to)
{
    for (size_t ki = 0; ki < c->kernel; ki++)
        for (size_t ch = 0; ch < c->channels; ch++, from += c->kernel)
            memcpy(to + (ch * c->kernel + ki) * c->kernel, from, c->kernel * sizeof *to);
}

/* Give dw [K, filters] to the sink in the order of the parameters, a panel of filters at a time. */
static void
weights_sink(const struct conv *c, const struct layer *layer, const struct layer_io *io,
             const float *dw, float *piece)
{
    float *transposed = piece + GEMM_COLUMNS * c->K;
    for (size_t f = 0; f < c->filters; f += GEMM_COLUMNS) {
        size_t n = c->filters - f < GEMM_COLUMNS ? c->filters - f : GEMM_COLUMNS;
        if (!layer_part(io, f / GEMM_COLUMNS))
            continue;
        gemm_transpose(dw + f, c->filters, c->K, n, transposed, c->K);
        for (size_t i = 0; i < n; i++)
            filter_sort(c, transposed + i * c->K, piece + i * c->K);
        layer_sink(io, layer->weight_first + f * c->K, piece, n * c->K);
    }
}

static void
weights_backward(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    float *image = io->scratch, *dy = image + c->image, *dw = dy + c->P * GEMM_COLUMNS;
    struct gemm_view view = {
        image, c->kernel, c->wide, 1, c->out_width, c->stride * c->wide * c->channels, c->stride};
    memset(image, 0, c->image * sizeof *image);
    memset(dw, 0, c->K * c->filters * sizeof *dw);
    for (size_t r = 0; r < io->rows; r++) {
        lines_fill(c, io, r, image);
        for (size_t f = 0; f < c->filters; f += GEMM_COLUMNS) {
            size_t n = c->filters - f < GEMM_COLUMNS ? c->filters - f : GEMM_COLUMNS;
            if (!layer_part(io, f / GEMM_COLUMNS))
                continue;
            gemm_pack_transposed(io->dy + r * layer->out_size + f * c->P, c->P, c->P, n, dy);
            gemm_panel(&view, c->K, n, c->P, dy, true, dw + f, c->filters);
        }
    }
    weights_sink(c, layer, io, dw, dw + c->K * c->filters);
}

static void
bias_backward(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    for (size_t f = 0; f < c->filters; f++) {
        double sum = 0, plane;
        for (size_t r = 0; r < io->rows; r++, sum += plane)
            vmath_sum(io->dy + r * layer->out_size + f * c->P, c->P, &plane);
        io->scratch[f] = (float)sum;
    }
    layer_sink(io, layer->bias_first, io->scratch, c->filters);
}

/* Along one axis: the input positions that belong to a phase, and what they meet. */
struct phase {
    size_t taps;         /* window positions a, a + stride, ... */
    size_t first, count; /* input positions first, first + stride, ... */
    size_t from;         /* line of dy with margin where the first one's look back begins */
};

static struct phase
phase_of(const struct conv *c, size_t a, size_t size)
{
    size_t s = c->stride, taps = a < c->kernel ? (c->kernel - a - 1) / s + 1 : 0;
    size_t m = c->pad > a ? (c->pad - a + s - 1) / s : 0; /* first i is a + s m - pad */
    size_t first = a + s * m - c->pad;
    return (struct phase){taps, first, first < size ? (size - first - 1) / s + 1 : 0,
                          m + c->margin + 1 - taps};
}

/* Panels of B[(t, t', f), c] = W[f, c, flipped] of one phase. */
static void
flipped_pack(const struct conv *c, const float *w, size_t a, size_t b, struct phase rows,
             struct phase columns, float *out)
{
    size_t depth = rows.taps * columns.taps * c->filters, window = c->kernel * c->kernel;
    memset(out, 0, gemm_packed_size(depth, c->channels) * sizeof *out);
    for (size_t i = 0; i < rows.taps; i++)
        for (size_t j = 0; j < columns.taps; j++) {
            size_t ki = a + c->stride * (rows.taps - 1 - i);
            size_t kj = b + c->stride * (columns.taps - 1 - j);
            const float *from = w + ki * c->kernel + kj;
            for (size_t f = 0; f < c->filters; f++, out += GEMM_COLUMNS)
                for (size_t ch = 0; ch < c->channels; ch++, from += window)
                    out[ch / GEMM_COLUMNS * depth * GEMM_COLUMNS + ch % GEMM_COLUMNS] = *from;
        }
}

/* dx of one phase from pixels out [count * count', channels]. */
static void
phase_scatter(const struct conv *c, struct phase rows, struct phase columns, const float *out,
              float *dx)
{
    size_t P = c->height * c->width;
    if (c->stride == 1) {
        gemm_transpose(out, c->channels, P, c->channels, dx, P);
        return;
    }
    for (size_t i = 0; i < rows.count; i++)
        for (size_t j = 0; j < columns.count; j++)
            for (size_t ch = 0; ch < c->channels; ch++)
                dx[ch * P + (rows.first + i * c->stride) * c->width + columns.first +
                   j * c->stride] = *out++;
}

static void
phase_backward(const struct conv *c, struct phase rows, struct phase columns, const float *dy,
               const float *w, float *out, float *dx)
{
    size_t line = c->dy_wide * c->filters, depth = rows.taps * columns.taps * c->filters;
    size_t pixels = rows.count * columns.count;
    if (pixels == 0)
        return;
    memset(out, 0, (depth == 0 ? pixels * c->channels : 0) * sizeof *out);
    struct gemm_view view = {dy + rows.from * line + columns.from * c->filters,
                             columns.count,
                             line,
                             c->filters,
                             columns.taps * c->filters,
                             line,
                             1};
    for (size_t ch = 0; depth > 0 && ch < c->channels; ch += GEMM_COLUMNS)
        gemm_panel(&view, pixels, c->channels - ch, depth, w + ch * depth, false, out + ch,
                   c->channels);
    phase_scatter(c, rows, columns, out, dx);
}

/* For each phase: pack its filters (r == SIZE_MAX) or compute its pixels of row r. */
static void
phases(const struct conv *c, const struct layer *layer, const struct layer_io *io, size_t r)
{
    float *dy = io->scratch, *out = dy + c->dy_image, *w = out + c->height * c->width * c->channels;
    for (size_t a = 0; a < c->stride; a++)
        for (size_t b = 0; b < c->stride; b++) {
            struct phase rows = phase_of(c, a, c->height), columns = phase_of(c, b, c->width);
            if (r == SIZE_MAX)
                flipped_pack(c, io->params + layer->weight_first, a, b, rows, columns, w);
            else
                phase_backward(c, rows, columns, dy, w, out, io->dx + r * layer->in_size);
            w += gemm_packed_size(rows.taps * columns.taps * c->filters, c->channels);
        }
}

static void
inputs_backward(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    float *dy = io->scratch;
    memset(dy, 0, c->dy_image * sizeof *dy);
    phases(c, layer, io, SIZE_MAX);
    for (size_t r = 0; r < io->rows; r++) {
        interleave(io->dy + r * layer->out_size, c->filters, c->out_height, c->out_width,
                   dy + (c->margin * c->dy_wide + c->margin) * c->filters, c->dy_wide);
        phases(c, layer, io, r);
    }
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    if (io->sink != NULL)
        weights_backward(&c, layer, io);
    if (io->sink != NULL && !layer->spec.no_bias && layer_part(io, 0))
        bias_backward(&c, layer, io);
    if (io->dx != NULL)
        inputs_backward(&c, layer, io);
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
    .by_rows = true,
    .by_units = true,
    .shape = shape,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .forward_naive = forward_naive,
    .backward_naive = backward_naive,
};

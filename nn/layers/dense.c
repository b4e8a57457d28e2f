/* dense.c - fully connected layer: y = x W^T + b, W [out, in], and its gradients
 * dx = dy W, dW = dy^T x, db = sum of dy over rows. On a sequence [T, C] it works on each position alone, as if
 * that were a row.
 *
 * Products run through OpenBLAS or our own loop (nn_init). Our own: W is by far the largest operand of a
 * small shard, so it is read where it lies: forward computes y^T = W x^T, with x^T in panels. dW is
 * computed some rows at a time, so that they are still in cache when the sink reads them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/gemm.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

enum {
    CHUNK = 48, /* units at a time: their weights to a depth of GEMM_DEPTH stay in cache */
    BLOCK = 64, /* rows at a time, forward */
    STRIPE = 4 * GEMM_COLUMNS, /* inputs at a time, gradient of x */
};

static size_t
inputs(const struct layer *layer)
{
    return layer->in.dim[layer->in.dims - 1];
}

/* Rows of the products: one per row, or one per position of each row. */
static size_t
vectors(const struct layer *layer, const struct layer_io *io)
{
    return io->rows * (layer->in_size / inputs(layer));
}

static int
shape(struct layer *layer, struct why *why)
{
    if (layer->in.dims > 2)
        return why_error(why, -EINVAL, "input has %zu dimensions; put a flatten layer before",
                         layer->in.dims);
    if (layer->spec.units == 0)
        return why_error(why, -EINVAL, "units = 0, expected at least 1");
    layer->out = layer->in;
    layer->out.dim[layer->in.dims - 1] = layer->spec.units;
    layer->weight = (struct nn_shape){2, {layer->spec.units, inputs(layer)}};
    return 0;
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t
scratch(const struct layer *layer, size_t rows)
{
    size_t in = inputs(layer), out = layer->spec.units;
    rows *= layer->in_size / in;
    size_t forward = gemm_packed_size(in, least(rows, BLOCK)) + CHUNK * BLOCK;
    size_t weights = gemm_packed_size(rows, in) + CHUNK * in + CHUNK * rows;
    size_t inputs = gemm_depth(out) * STRIPE;
    size_t most = forward > weights ? forward : weights;
    most = most > inputs ? most : inputs;
    return most > out ? most : out;
}

static double
flops(const struct layer *layer)
{
    return 2.0 * (double)layer->weight_count * (double)(layer->in_size / inputs(layer));
}

/* yt[units, BLOCK] = W[first .., :] xt, xt packed for `rows` rows. */
static void
units_forward(const struct layer *layer, const float *w, size_t units, const float *xt, size_t rows,
              float *yt)
{
    size_t in = inputs(layer), share = gemm_depth(in);
    for (size_t k = 0; k < in; k += share) {
        size_t depth = least(in - k, share);
        struct gemm_view view = {w + k, units, 0, in, depth, 0, 1};
        for (size_t r = 0; r < rows; r += GEMM_COLUMNS)
            gemm_panel(&view, units, least(rows - r, GEMM_COLUMNS), depth,
                       xt + r * in + k * GEMM_COLUMNS, k > 0, yt + r, BLOCK);
    }
}

static void
forward_blas(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units;
    bool bias = !layer->spec.no_bias;
    if (bias)
        vmath_spread(io->params + layer->bias_first, io->y, vectors(layer, io), out);
    blas_gemm(false, true, vectors(layer, io), out, in, io->x, in, io->params + layer->weight_first,
              in, bias, io->y, out);
}

static void
forward_own(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units;
    const float *w = io->params + layer->weight_first, *b = io->params + layer->bias_first;
    float *yt = io->scratch, *xt = yt + CHUNK * BLOCK;
    for (size_t r = 0; r < vectors(layer, io); r += BLOCK) {
        size_t rows = least(vectors(layer, io) - r, BLOCK);
        gemm_pack_transposed(io->x + r * in, in, in, rows, xt);
        for (size_t o = 0; o < out; o += CHUNK) {
            size_t units = least(out - o, CHUNK);
            units_forward(layer, w + o * in, units, xt, rows, yt);
            for (size_t u = 0; !layer->spec.no_bias && u < units; u++)
                vmath_add_scalar(yt + u * BLOCK, b[o + u], rows);
            gemm_transpose(yt, BLOCK, units, rows, io->y + r * out + o, out);
        }
    }
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    (blas_used ? forward_blas : forward_own)(layer, io);
}

/* As many units at a time as the scratch memory of our own loop has room for. */
static void
weights_backward_blas(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units, most = CHUNK + vectors(layer, io);
    for (size_t o = 0; o < out; o += most) {
        size_t units = least(out - o, most);
        blas_gemm(true, false, units, in, vectors(layer, io), io->dy + o, out, io->x, in, 0,
                  io->scratch, in);
        layer_sink(io, layer->weight_first + o * in, io->scratch, units * in);
    }
}

/* Each element of dW sums over rows in order. */
static void
weights_backward_own(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units, rows = vectors(layer, io);
    float *dw = io->scratch, *dyt = dw + CHUNK * in, *x = dyt + CHUNK * rows;
    gemm_pack(io->x, in, rows, in, x);
    for (size_t o = 0; o < out; o += CHUNK) {
        if (!layer_part(io, o / CHUNK))
            continue;
        size_t units = least(out - o, CHUNK);
        struct gemm_view view = {dyt, units, 0, rows, rows > 0 ? rows : 1, 0, 1};
        gemm_transpose(io->dy + o, out, rows, units, dyt, rows);
        for (size_t i = 0; i < in; i += GEMM_COLUMNS)
            gemm_panel(&view, units, least(in - i, GEMM_COLUMNS), rows, x + i * rows, false, dw + i,
                       in);
        layer_sink(io, layer->weight_first + o * in, dw, units * in);
    }
}

static void
bias_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t out = layer->spec.units, rows = vectors(layer, io);
    memset(io->scratch, 0, out * sizeof *io->scratch);
    vmath_sum_rows(io->dy, out, rows, io->scratch, out);
    layer_sink(io, layer->bias_first, io->scratch, out);
}

static void
inputs_backward_blas(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units;
    blas_gemm(false, false, vectors(layer, io), in, out, io->dy, out,
              io->params + layer->weight_first, in, 0, io->dx, in);
}

static void
inputs_backward_own(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units, share = gemm_depth(out);
    const float *w = io->params + layer->weight_first;
    for (size_t i = 0; i < in; i += STRIPE)
        for (size_t k = 0; k < out; k += share) {
            size_t width = least(in - i, STRIPE), depth = least(out - k, share);
            struct gemm_view view = {io->dy + k, vectors(layer, io), 0, out, depth, 0, 1};
            gemm_pack(w + k * in + i, in, depth, width, io->scratch);
            for (size_t j = 0; j < width; j += GEMM_COLUMNS)
                gemm_panel(&view, vectors(layer, io), least(width - j, GEMM_COLUMNS), depth,
                           io->scratch + j * depth, k > 0, io->dx + i + j, in);
        }
}

void
dense_weights_backward(const struct layer *layer, const struct layer_io *io)
{
    (blas_used ? weights_backward_blas : weights_backward_own)(layer, io);
}

/* Of a tied layer: dy, from which the embedding computes the gradient of the weight, its own with it. */
static size_t
saved(const struct layer *layer)
{
    return layer->tied != NULL ? layer->out_size * sizeof(float) : 0;
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    if (layer->tied == NULL && io->sink != NULL)
        dense_weights_backward(layer, io);
    if (layer->tied != NULL && layer_part(io, 0))
        memcpy(io->saved, io->dy, io->rows * layer->out_size * sizeof *io->dy);
    if (io->sink != NULL && !layer->spec.no_bias && layer_part(io, 0))
        bias_backward(layer, io);
    if (io->dx != NULL)
        (blas_used ? inputs_backward_blas : inputs_backward_own)(layer, io);
}

static void
forward_naive(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units;
    for (size_t r = 0; r < vectors(layer, io); r++)
        for (size_t o = 0; o < out; o++) {
            const float *w = io->params + layer->weight_first + o * in;
            double sum = layer->spec.no_bias ? 0 : (double)io->params[layer->bias_first + o];
            for (size_t i = 0; i < in; i++)
                sum += (double)io->x[r * in + i] * (double)w[i];
            io->y[r * out + o] = (float)sum;
        }
}

/* Gradient of one unit: dW[o, :] in scratch[in], db[o] returned. */
static double
unit_gradient(const struct layer *layer, const struct layer_io *io, size_t o)
{
    size_t in = inputs(layer), out = layer->spec.units;
    double bias = 0;
    for (size_t i = 0; i < in; i++) {
        double sum = 0;
        for (size_t r = 0; r < vectors(layer, io); r++)
            sum += (double)io->dy[r * out + o] * (double)io->x[r * in + i];
        io->scratch[i] = (float)sum;
    }
    for (size_t r = 0; r < vectors(layer, io); r++)
        bias += (double)io->dy[r * out + o];
    return bias;
}

static void
backward_naive(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units;
    for (size_t o = 0; o < out; o++) {
        float bias = (float)unit_gradient(layer, io, o);
        layer_sink(io, layer->weight_first + o * in, io->scratch, in);
        if (!layer->spec.no_bias)
            layer_sink(io, layer->bias_first + o, &bias, 1);
    }
    for (size_t r = 0; io->dx != NULL && r < vectors(layer, io); r++)
        for (size_t i = 0; i < in; i++) {
            double sum = 0;
            for (size_t o = 0; o < out; o++)
                sum += (double)io->dy[r * out + o] *
                       (double)io->params[layer->weight_first + o * in + i];
            io->dx[r * in + i] = (float)sum;
        }
}

const struct layer_kind dense_kind = {
    .word = "dense",
    .by_rows = true,
    .by_units = true,
    .shape = shape,
    .saved = saved,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .forward_naive = forward_naive,
    .backward_naive = backward_naive,
};

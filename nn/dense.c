/* dense.c - fully connected layer: y = x W^T + b, W [out, in], and its gradients
 * dx = dy W, dW = dy^T x, db = sum of dy over rows.
 *
 * dW is computed in panels of a few rows, so that a panel is still in the level-2 cache when the sink
 * reads it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nn/blas.h"
#include "nn/layer.h"
#include "nn/vmath.h"

enum { PANEL = 48 * 1024 }; /* floats of dW at a time */

static int
shape(struct layer *layer, char *why, size_t why_size)
{
    if (layer->in.dims != 1) {
        snprintf(why, why_size, "input has %zu dimensions; put a flatten layer before",
                 layer->in.dims);
        return -EINVAL;
    }
    if (layer->spec.units == 0) {
        snprintf(why, why_size, "units = 0, expected at least 1");
        return -EINVAL;
    }
    layer->out = (struct nn_shape){1, {layer->spec.units}};
    layer->weight = (struct nn_shape){2, {layer->spec.units, layer->in.dim[0]}};
    return 0;
}

static size_t
panel_rows(const struct layer *layer)
{
    size_t rows = PANEL / layer->in_size / 8 * 8;
    if (rows < 8)
        rows = 8;
    return rows < layer->out_size ? rows : layer->out_size;
}

static size_t
scratch(const struct layer *layer)
{
    size_t panel = panel_rows(layer) * layer->in_size;
    return panel > layer->out_size ? panel : layer->out_size;
}

static double
flops(const struct layer *layer)
{
    return 2.0 * (double)layer->weight_count;
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in_size, out = layer->out_size;
    if (layer->spec.no_bias)
        memset(io->y, 0, io->rows * out * sizeof *io->y);
    else
        vmath_spread(io->params + layer->bias_first, io->y, io->rows, out);
    blas_gemm(false, true, io->rows, out, in, io->x, in, io->params + layer->weight_first, in, 1,
              io->y, out);
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in_size, out = layer->out_size, panel = panel_rows(layer);
    for (size_t o = 0; o < out; o += panel) {
        size_t n = out - o < panel ? out - o : panel;
        blas_gemm(true, false, n, in, io->rows, io->dy + o, out, io->x, in, 0, io->scratch, in);
        layer_sink(io, layer->weight_first + o * in, io->scratch, n * in);
    }
    if (!layer->spec.no_bias) {
        memset(io->scratch, 0, out * sizeof *io->scratch);
        vmath_sum_rows(io->dy, out, io->rows, io->scratch, out);
        layer_sink(io, layer->bias_first, io->scratch, out);
    }
    if (io->dx != NULL)
        blas_gemm(false, false, io->rows, in, out, io->dy, out, io->params + layer->weight_first,
                  in, 0, io->dx, in);
}

static void
forward_naive(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in_size, out = layer->out_size;
    for (size_t r = 0; r < io->rows; r++)
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
    size_t in = layer->in_size, out = layer->out_size;
    double bias = 0;
    for (size_t i = 0; i < in; i++) {
        double sum = 0;
        for (size_t r = 0; r < io->rows; r++)
            sum += (double)io->dy[r * out + o] * (double)io->x[r * in + i];
        io->scratch[i] = (float)sum;
    }
    for (size_t r = 0; r < io->rows; r++)
        bias += (double)io->dy[r * out + o];
    return bias;
}

static void
backward_naive(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in_size, out = layer->out_size;
    for (size_t o = 0; o < out; o++) {
        float bias = (float)unit_gradient(layer, io, o);
        layer_sink(io, layer->weight_first + o * in, io->scratch, in);
        if (!layer->spec.no_bias)
            layer_sink(io, layer->bias_first + o, &bias, 1);
    }
    for (size_t r = 0; io->dx != NULL && r < io->rows; r++)
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
    .shape = shape,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .forward_naive = forward_naive,
    .backward_naive = backward_naive,
};

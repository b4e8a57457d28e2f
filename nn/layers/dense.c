/* dense.c - fully connected layer: y = x W^T + b, W [out, in], and its gradients
 * dx = dy W, dW = dy^T x, db = sum of dy over rows. On a sequence [T, C] it works on each position alone, as if
 * that were a row.
 *
 * Products run through our own library (product.h). Where results need not be exact, large ones run through OpenBLAS,
 * but not dW, whose integers it does not know. */
#include <errno.h>
#include <string.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/least.h"
#include "nn/arithmetic/product.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

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
dense_shape(struct layer *layer, struct why *why)
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
dense_scratch(const struct layer *layer, size_t rows)
{
    size_t in = inputs(layer), out = layer->spec.units;
    rows *= layer->in_size / in;
    size_t forward = product_scratch(rows, out, in), inputs = product_scratch(rows, in, out);
    return greatest(greatest(forward, inputs), greatest(layer_weights_scratch(out, in, rows), out));
}

static double
dense_flops(const struct layer *layer)
{
    return 2.0 * (double)layer->weight_count * (double)(layer->in_size / inputs(layer));
}

/* A gelu, or its slope, beside the blocks of a product. */
struct beside {
    bool approximate, keeps;
    float *c, *after; /* from the product's first column on */
    const float *slope;
    size_t ld;
};

/* after = gelu(c); in training c becomes its slope. */
static void
gelu_block(void *ctx, size_t i, size_t j, size_t m, size_t n)
{
    const struct beside *b = ctx;
    for (size_t at = i * b->ld + j; m-- > 0; at += b->ld) {
        if (b->keeps)
            (b->approximate ? vmath_gelu_tanh_keep : vmath_gelu_keep)(b->c + at, b->after + at, n);
        else
            (b->approximate ? vmath_gelu_tanh : vmath_gelu)(b->c + at, b->after + at, n);
    }
}

/* c *= slope */
static void
slope_block(void *ctx, size_t i, size_t j, size_t m, size_t n)
{
    const struct beside *b = ctx;
    for (size_t at = i * b->ld + j; m-- > 0; at += b->ld)
        vmath_multiply(b->slope + at, b->c + at, n);
}

/* Of the gelu after or before the layer; `first` is the first column at hand. */
static struct beside
beside_forward(const struct layer *layer, const struct layer_io *io, size_t first)
{
    if (!layer->fused.gelu_after)
        return (struct beside){0};
    return (struct beside){.approximate = layer[1].spec.approximate,
                           .keeps = io->keeps,
                           .c = io->y + first,
                           .after = io->after + first,
                           .ld = layer->spec.units};
}

static struct beside
beside_backward(const struct layer *layer, const struct layer_io *io, size_t first)
{
    if (!layer->fused.gelu_before)
        return (struct beside){0};
    return (struct beside){.c = io->dx + first, .slope = io->slope + first, .ld = inputs(layer)};
}

/* Through OpenBLAS. Columns [first, end) of y. */
static void
forward_blas(const struct layer *layer, const struct layer_io *io, size_t first, size_t end)
{
    size_t in = inputs(layer), out = layer->spec.units, m = vectors(layer, io), n = end - first;
    struct beside beside = beside_forward(layer, io, first);
    float *y = io->y + first;
    bool bias = !layer->spec.no_bias;
    for (size_t r = 0; bias && r < m; r++)
        memcpy(y + r * out, io->params + layer->bias_first + first, n * sizeof *y);
    blas_gemm(false, true, m, n, in, io->x, in, io->params + layer->weight_first + first * in, in,
              bias, y, out);
    for (size_t r = 0; layer->fused.relu_after && r < m; r++)
        vmath_relu(y + r * out, y + r * out, n);
    if (layer->fused.gelu_after)
        gelu_block(&beside, 0, 0, m, n);
}

static void
dense_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units, first,
           end = layer_share(io, out, PRODUCT_COLUMNS_MAX, &first);
    struct beside beside = beside_forward(layer, io, first);
    const struct product product = {
        .m = vectors(layer, io),
        .n = end - first,
        .k = in,
        .a = product_rows(io->x, in),
        .b = product_rows(io->params + layer->weight_first + first * in, in),
        .c = io->y + first,
        .ldc = out,
        .bias = layer->spec.no_bias ? NULL : io->params + layer->bias_first + first,
        .relu = layer->fused.relu_after,
        .done = layer->fused.gelu_after ? gelu_block : NULL,
        .ctx = &beside,
    };
    if (blas_gains(product.m, product.n, product.k))
        forward_blas(layer, io, first, end);
    else
        product_run(&product, io->scratch);
}

void
dense_weights_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units;
    const struct layer_weights weights = {
        .tensor = layer->weight_first,
        .units = out,
        .n = in,
        .each = layer->in_size / in,
        .dy = product_columns(io->dy, out),
        .x = product_columns(io->x, in),
    };
    layer_weights(io, &weights);
}

static void
bias_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t out = layer->spec.units, each = layer->in_size / inputs(layer);
    size_t shards = io->end == NULL ? 1 : io->shards;
    for (size_t s = 0, row = 0, end; s < shards; s++, row = end) {
        end = io->end == NULL ? io->rows : io->end[s];
        memset(io->scratch, 0, out * sizeof *io->scratch);
        vmath_sum_rows(io->dy + row * each * out, out, (end - row) * each, io->scratch, out);
        io->sink[s].add(io->sink[s].ctx, layer->bias_first, io->scratch, out);
    }
}

static void
inputs_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t in = inputs(layer), out = layer->spec.units, first,
           end = layer_share(io, in, PRODUCT_COLUMNS_MAX, &first);
    struct beside beside = beside_backward(layer, io, first);
    const struct product product = {
        .m = vectors(layer, io),
        .n = end - first,
        .k = out,
        .a = product_rows(io->dy, out),
        .b = product_columns(io->params + layer->weight_first + first, in),
        .c = io->dx + first,
        .ldc = in,
        .done = layer->fused.gelu_before ? slope_block : NULL,
        .ctx = &beside,
    };
    if (!blas_gains(product.m, product.n, product.k)) {
        product_run(&product, io->scratch);
        return;
    }
    blas_gemm(false, false, product.m, product.n, out, io->dy, out, product.b.at, in, 0, product.c,
              in);
    if (layer->fused.gelu_before)
        slope_block(&beside, 0, 0, product.m, product.n);
}

/* Of a tied layer: dy, from which the embedding computes the gradient of the weight, its own with it. */
static size_t
dense_saved(const struct layer *layer)
{
    return layer->tied != NULL ? layer->out_size * sizeof(float) : 0;
}

static void
dense_backward(const struct layer *layer, const struct layer_io *io)
{
    if (layer->tied == NULL && io->sink != NULL)
        dense_weights_backward(layer, io);
    if (layer->tied != NULL && layer_part(io, 0))
        memcpy(io->saved, io->dy, io->rows * layer->out_size * sizeof *io->dy);
    if (io->sink != NULL && !layer->spec.no_bias && layer_part(io, 0))
        bias_backward(layer, io);
    if (io->dx != NULL)
        inputs_backward(layer, io);
}

const struct layer_kind dense_kind = {
    .word = "dense",
    .by_rows = true,
    .by_units = true,
    .by_columns = true,
    .by_shards = true,
    .joins_relu = true,
    .saves_gradient = true,
    .shape = dense_shape,
    .saved = dense_saved,
    .scratch = dense_scratch,
    .flops = dense_flops,
    .forward = dense_forward,
    .backward = dense_backward,
};

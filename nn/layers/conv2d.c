/* conv2d.c - convolution (cross-correlation, as everywhere in this field) of images [C, H, W] with
 * filters W [F, C, k, k].
 *
 * Products run over windows of the images (windows.h), which are not unrolled in memory. With u = (ki, kj, c) a
 * position in the window, p an output pixel:
 *
 *     y[p, f]  = sum over u of image[p * stride + u] W[u, f] + b[f]
 *     dW[u, f] = sum over rows and p of image[p * stride + u] dy[p, f]
 *
 * dx is again a convolution, of dy with the filters flipped. With a stride s, an input pixel whose padded row is a
 * mod s has met only window rows a, a + s, ..., so there are s * s phases, each a convolution of stride 1 with its
 * share of the filter:
 *
 *     dx[i, c] = sum over t, f of dy[(i + pad - a) / s - t, f] W[a + s t, c, f]    a = (i + pad) mod s
 */
#include <errno.h>
#include <string.h>

#include "nn/arithmetic/least.h"
#include "nn/arithmetic/vmath.h"
#include "nn/arithmetic/windows.h"
#include "nn/layers/layer.h"

enum {
    PIECE = 16, /* filters of dW at a time, as floats; the fingerprint sees these pieces */
};

struct conv {
    size_t channels, height, width;        /* of the input */
    size_t filters, out_height, out_width; /* of the output */
    size_t kernel, stride, pad;
    size_t K, P; /* positions in a window, output pixels */
};

static struct conv
conv_of(const struct layer *layer)
{
    const struct nn_layer_spec *spec = &layer->spec;
    const size_t *in = layer->in.dim, *out = layer->out.dim;
    return (struct conv){
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
    };
}

static struct windows
windows_of(const struct conv *c)
{
    return (struct windows){
        .channels = c->channels,
        .height = c->height,
        .width = c->width,
        .lines = c->out_height,
        .columns = c->out_width,
        .tall = c->kernel,
        .wide = c->kernel,
        .stride = c->stride,
        .top = -(ptrdiff_t)c->pad,
        .left = -(ptrdiff_t)c->pad,
    };
}

static int
conv2d_shape(struct layer *layer, struct why *why)
{
    if (layer->spec.units == 0)
        return why_error(why, -EINVAL, "filters = 0, expected at least 1");
    int rc = layer_window_shape(layer, why);
    layer->out.dim[0] = layer->spec.units;
    layer->weight = (struct nn_shape){
        4, {layer->spec.units, layer->in.dim[0], layer->spec.kernel, layer->spec.kernel}};
    return rc;
}

/* Along one axis: the input positions that belong to a phase, and what they meet. */
struct phase {
    size_t taps;         /* window positions a, a + stride, ... */
    size_t first, count; /* input positions first, first + stride, ... */
    ptrdiff_t from;      /* line of dy where the first one's look back begins */
};

static struct phase
phase_of(const struct conv *c, size_t a, size_t size)
{
    size_t s = c->stride, taps = a < c->kernel ? (c->kernel - a - 1) / s + 1 : 0;
    size_t m = c->pad > a ? (c->pad - a + s - 1) / s : 0; /* first i is a + s m - pad */
    size_t first = a + s * m - c->pad;
    return (struct phase){taps, first, first < size ? (size - first - 1) / s + 1 : 0,
                          (ptrdiff_t)(m + 1) - (ptrdiff_t)taps};
}

/* The phase of dx that is (a, b) mod stride, as windows of dy. */
static struct windows
phase_windows(const struct conv *c, const struct phase *rows, const struct phase *columns)
{
    return (struct windows){
        .channels = c->filters,
        .height = c->out_height,
        .width = c->out_width,
        .lines = rows->count,
        .columns = columns->count,
        .tall = rows->taps,
        .wide = columns->taps,
        .stride = 1,
        .top = rows->from,
        .left = columns->from,
    };
}

static size_t
conv2d_scratch(const struct layer *layer, size_t rows)
{
    const struct conv c = conv_of(layer);
    const struct windows windows = windows_of(&c);
    struct phase first = phase_of(&c, 0, c.height), across = phase_of(&c, 0, c.width);
    struct windows phase = phase_windows(&c, &first, &across); /* no other one has larger windows */
    size_t taps = first.taps * across.taps;
    size_t forward = windows_panels(c.filters, c.K) + windows_scratch(&windows, c.filters);
    size_t weights =
        least(c.filters, WINDOWS_FILTERS) * c.K + windows_sum_scratch(&windows, c.filters);
    size_t inputs =
        windows_panels(c.channels, taps * c.filters) + windows_scratch(&phase, c.channels);
    (void)rows;
    return greatest(forward, greatest(weights, inputs)) + c.filters;
}

static double
conv2d_flops(const struct layer *layer)
{
    struct conv c = conv_of(layer);
    return 2.0 * (double)c.K * (double)c.P * (double)c.filters;
}

/* A[f, u] = W[f, u] in panels. */
static void
filters_pack(const struct conv *c, const float *w, float *out)
{
    memset(out, 0, windows_panels(c->filters, c->K) * sizeof *out);
    for (size_t f = 0; f < c->filters; f++)
        for (size_t ch = 0; ch < c->channels; ch++)
            for (size_t k = 0; k < c->kernel * c->kernel; k++)
                out[windows_at(c->K, f, k * c->channels + ch)] = *w++;
    product_operand_panels(out, c->filters, c->K);
}

static void
conv2d_forward(const struct layer *layer, const struct layer_io *io)
{
    const struct conv c = conv_of(layer);
    const struct windows_product product = {
        .windows = windows_of(&c),
        .x = io->x,
        .images = io->rows,
        .m = c.filters,
        .a = io->scratch,
        .bias = layer->spec.no_bias ? NULL : io->params + layer->bias_first,
        .relu = layer->fused.relu_after,
        .y = io->y,
        .y_image = layer->out_size,
        .y_plane = c.P,
        .y_line = c.out_width,
        .y_step = 1,
    };
    filters_pack(&c, io->params + layer->weight_first, io->scratch);
    windows_run(&product, io->scratch + windows_panels(c.filters, c.K));
}

static struct windows_gradient
gradient_of(const struct conv *c, const struct layer_io *io, size_t first, size_t end)
{
    return (struct windows_gradient){windows_of(c), io->x,       io->dy, c->filters,
                                     first,         end - first, false};
}

static void
weights_backward_floats(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    size_t first, end = layer_share(io, c->filters, PIECE, &first),
                  most = least(c->filters, WINDOWS_FILTERS);
    for (size_t next; first < end; first = next) {
        next = least(end, first + WINDOWS_FILTERS);
        struct windows_gradient g = gradient_of(c, io, first, next);
        windows_floats(&g, io->rows, io->scratch, io->scratch + most * c->K);
        for (size_t f = first; f < next; f += PIECE)
            layer_sink(io, layer->weight_first + f * c->K, io->scratch + (f - first) * c->K,
                       least(next - f, PIECE) * c->K);
    }
}

/* The integers of all shards. */
static void
weights_backward_sum(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    size_t first, last = layer_share(io, c->filters, PRODUCT_GROUP, &first);
    struct windows_gradient g = gradient_of(c, io, first, last);
    g.sparse = layer->fused.sparse_after;
    struct layer_integers integers;
    if (first >= last)
        return;
    layer_integers_begin(&integers, io, layer->weight_first, first * c->K, c->K);
    windows_sum(&g, &integers.sum, io->scratch);
    layer_integers_end(&integers);
}

static void
bias_backward(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    size_t shards = io->end == NULL ? 1 : io->shards;
    for (size_t s = 0, first = 0, end; s < shards; s++, first = end) {
        end = io->end == NULL ? io->rows : io->end[s];
        for (size_t f = 0; f < c->filters; f++) {
            double sum = 0, plane;
            for (size_t r = first; r < end; r++, sum += plane)
                vmath_sum(io->dy + r * layer->out_size + f * c->P, c->P, &plane);
            io->scratch[f] = (float)sum;
        }
        io->sink[s].add(io->sink[s].ctx, layer->bias_first, io->scratch, c->filters);
    }
}

/* A[c, (t, t', f)] = W[f, c, flipped] of phase (a, b) in panels. */
static void
flipped_pack(const struct conv *c, const float *w, size_t a, size_t b, const struct phase *rows,
             const struct phase *columns, float *out)
{
    size_t window = c->kernel * c->kernel, K = rows->taps * columns->taps * c->filters;
    memset(out, 0, windows_panels(c->channels, K) * sizeof *out);
    for (size_t i = 0; i < rows->taps; i++)
        for (size_t j = 0; j < columns->taps; j++) {
            size_t ki = a + c->stride * (rows->taps - 1 - i);
            size_t kj = b + c->stride * (columns->taps - 1 - j);
            const float *from = w + ki * c->kernel + kj;
            for (size_t f = 0; f < c->filters; f++)
                for (size_t ch = 0; ch < c->channels; ch++, from += window)
                    out[windows_at(K, ch, (i * columns->taps + j) * c->filters + f)] = *from;
        }
    product_operand_panels(out, c->channels, K);
}

static void
phase_backward(const struct conv *c, const struct layer *layer, const struct layer_io *io, size_t a,
               size_t b)
{
    struct phase rows = phase_of(c, a, c->height), columns = phase_of(c, b, c->width);
    const struct windows_product product = {
        .windows = phase_windows(c, &rows, &columns),
        .x = io->dy,
        .images = io->rows,
        .m = c->channels,
        .a = io->scratch,
        .y = io->dx + rows.first * c->width + columns.first,
        .y_image = layer->in_size,
        .y_plane = c->height * c->width,
        .y_line = c->stride * c->width,
        .y_step = c->stride,
    };
    size_t K = rows.taps * columns.taps * c->filters;
    if (K == 0 || rows.count == 0 || columns.count == 0)
        return;
    flipped_pack(c, io->params + layer->weight_first, a, b, &rows, &columns, io->scratch);
    windows_run(&product, io->scratch + windows_panels(c->channels, K));
}

static void
inputs_backward(const struct conv *c, const struct layer *layer, const struct layer_io *io)
{
    if (c->kernel < c->stride) /* some pixels are in no window */
        memset(io->dx, 0, io->rows * layer->in_size * sizeof *io->dx);
    for (size_t a = 0; a < c->stride; a++)
        for (size_t b = 0; b < c->stride; b++)
            phase_backward(c, layer, io, a, b);
}

static void
conv2d_backward(const struct layer *layer, const struct layer_io *io)
{
    struct conv c = conv_of(layer);
    if (io->sink != NULL && io->sink->integers != NULL)
        weights_backward_sum(&c, layer, io);
    else if (io->sink != NULL)
        weights_backward_floats(&c, layer, io);
    if (io->sink != NULL && !layer->spec.no_bias && layer_part(io, 0))
        bias_backward(&c, layer, io);
    if (io->dx != NULL)
        inputs_backward(&c, layer, io);
}

const struct layer_kind conv2d_kind = {
    .word = "conv",
    .by_rows = true,
    .by_units = true,
    .by_shards = true,
    .joins_relu = true,
    .shape = conv2d_shape,
    .scratch = conv2d_scratch,
    .flops = conv2d_flops,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
};

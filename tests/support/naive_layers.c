/* naive_layers.c - naive.h for layers without a state from step to step. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "nn/arithmetic/vmath.h"
#include "tests/support/naive.h"

/* Zeros; the caller's to release. */
static float *
zeros(size_t n)
{
    float *v = calloc(n + 1, sizeof *v);
    assert(v);
    return v;
}

/* dx = 0, if it is wanted. */
static void
clear_dx(const struct layer *layer, const struct layer_io *io)
{
    for (size_t i = 0; io->dx != NULL && i < io->rows * layer->in_size; i++)
        io->dx[i] = 0;
}

/* Dense: one row per position. */
struct dense {
    size_t rows, in, out;
};

static struct dense
dense_of(const struct layer *layer, const struct layer_io *io)
{
    size_t in = layer->in.dim[layer->in.dims - 1];
    return (struct dense){io->rows * (layer->in_size / in), in, layer->spec.units};
}

static void
dense_forward(const struct layer *layer, const struct layer_io *io)
{
    struct dense d = dense_of(layer, io);
    for (size_t r = 0; r < d.rows; r++)
        for (size_t o = 0; o < d.out; o++) {
            const float *w = io->params + layer->weight_first + o * d.in;
            double sum = layer->spec.no_bias ? 0 : (double)io->params[layer->bias_first + o];
            for (size_t i = 0; i < d.in; i++)
                sum += (double)io->x[r * d.in + i] * (double)w[i];
            io->y[r * d.out + o] = (float)sum;
        }
}

static void
dense_unit_backward(const struct layer *layer, const struct layer_io *io, size_t o)
{
    struct dense d = dense_of(layer, io);
    double bias = 0;
    for (size_t i = 0; i < d.in; i++) {
        double sum = 0;
        for (size_t r = 0; r < d.rows; r++)
            sum += (double)io->dy[r * d.out + o] * (double)io->x[r * d.in + i];
        layer_sink(io, layer->weight_first + o * d.in + i, &(float){(float)sum}, 1);
    }
    for (size_t r = 0; r < d.rows; r++)
        bias += (double)io->dy[r * d.out + o];
    if (!layer->spec.no_bias)
        layer_sink(io, layer->bias_first + o, &(float){(float)bias}, 1);
}

static void
dense_backward(const struct layer *layer, const struct layer_io *io)
{
    struct dense d = dense_of(layer, io);
    for (size_t o = 0; o < d.out; o++)
        dense_unit_backward(layer, io, o);
    for (size_t r = 0; io->dx != NULL && r < d.rows; r++)
        for (size_t i = 0; i < d.in; i++) {
            const float *w = io->params + layer->weight_first + i;
            double sum = 0;
            for (size_t o = 0; o < d.out; o++)
                sum += (double)io->dy[r * d.out + o] * (double)w[o * d.in];
            io->dx[r * d.in + i] = (float)sum;
        }
}

/* Index in one row of the input of position k in the window at output pixel p, or -1 for padding. */
static ptrdiff_t
window_source(const struct layer *layer, size_t p, size_t k)
{
    const struct nn_layer_spec *spec = &layer->spec;
    size_t size = spec->kernel, height = layer->in.dim[1], width = layer->in.dim[2];
    size_t i = p / layer->out.dim[2] * spec->stride + k / size % size;
    size_t j = p % layer->out.dim[2] * spec->stride + k % size;
    if (i < spec->pad || j < spec->pad || i - spec->pad >= height || j - spec->pad >= width)
        return -1;
    return (ptrdiff_t)((k / (size * size) * height + i - spec->pad) * width + j - spec->pad);
}

/* Pixels of an output plane, positions in a window of all channels. */
static void
conv_sizes(const struct layer *layer, size_t *pixels, size_t *positions)
{
    *pixels = layer->out.dim[1] * layer->out.dim[2];
    *positions = layer->in.dim[0] * layer->spec.kernel * layer->spec.kernel;
}

static void
conv_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t pixels, positions;
    conv_sizes(layer, &pixels, &positions);
    for (size_t o = 0; o < io->rows * layer->out_size; o++) {
        size_t f = o / pixels % layer->out.dim[0];
        const float *x = io->x + o / layer->out_size * layer->in_size;
        const float *w = io->params + layer->weight_first + f * positions;
        double sum = layer->spec.no_bias ? 0 : (double)io->params[layer->bias_first + f];
        for (size_t k = 0; k < positions; k++) {
            ptrdiff_t at = window_source(layer, o % pixels, k);
            sum += at < 0 ? 0 : (double)x[at] * (double)w[k];
        }
        io->y[o] = (float)sum;
    }
}

static void
conv_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t pixels, positions, filters = layer->out.dim[0];
    conv_sizes(layer, &pixels, &positions);
    float *dw = zeros(filters * positions), *db = zeros(filters);
    clear_dx(layer, io);
    for (size_t o = 0; o < io->rows * layer->out_size; o++) {
        size_t row = o / layer->out_size * layer->in_size, f = o / pixels % filters;
        const float *w = io->params + layer->weight_first + f * positions;
        for (size_t k = 0; k < positions; k++) {
            ptrdiff_t at = window_source(layer, o % pixels, k);
            if (at < 0)
                continue;
            dw[f * positions + k] += io->dy[o] * io->x[row + (size_t)at];
            if (io->dx != NULL)
                io->dx[row + (size_t)at] += io->dy[o] * w[k];
        }
        db[f] += io->dy[o];
    }
    layer_sink(io, layer->weight_first, dw, filters * positions);
    if (!layer->spec.no_bias)
        layer_sink(io, layer->bias_first, db, filters);
    free(dw);
    free(db);
}

/* Index in one row of the input of the first largest element of output o's window; a NaN beats all. */
static size_t
max_source(const struct layer *layer, const float *x, size_t o)
{
    size_t pixels = layer->out.dim[1] * layer->out.dim[2];
    size_t plane = o / pixels * layer->in.dim[1] * layer->in.dim[2];
    ptrdiff_t best = -1;
    for (size_t k = 0; k < (size_t)layer->spec.kernel * layer->spec.kernel; k++) {
        ptrdiff_t at = window_source(layer, o % pixels, k);
        if (at >= 0 && (best < 0 || x[plane + (size_t)at] > x[plane + (size_t)best] ||
                        isnan(x[plane + (size_t)at])))
            best = at;
    }
    assert(best >= 0);
    return plane + (size_t)best;
}

static void
max_forward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t o = 0; o < io->rows * layer->out_size; o++) {
        const float *x = io->x + o / layer->out_size * layer->in_size;
        io->y[o] = x[max_source(layer, x, o % layer->out_size)];
    }
}

static void
max_backward(const struct layer *layer, const struct layer_io *io)
{
    clear_dx(layer, io);
    for (size_t o = 0; io->dx != NULL && o < io->rows * layer->out_size; o++) {
        size_t row = o / layer->out_size * layer->in_size;
        io->dx[row + max_source(layer, io->x + row, o % layer->out_size)] += io->dy[o];
    }
}

static size_t
upsample_source(const struct layer *layer, size_t o)
{
    size_t factor = layer->spec.kernel, width = layer->out.dim[2], height = layer->out.dim[1];
    size_t plane = o / (width * height), y = o / width % height, x = o % width;
    return (plane * layer->in.dim[1] + y / factor) * layer->in.dim[2] + x / factor;
}

static void
upsample_forward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t o = 0; o < io->rows * layer->out_size; o++)
        io->y[o] = io->x[upsample_source(layer, o)];
}

static void
upsample_backward(const struct layer *layer, const struct layer_io *io)
{
    clear_dx(layer, io);
    for (size_t o = 0; io->dx != NULL && o < io->rows * layer->out_size; o++)
        io->dx[upsample_source(layer, o)] += io->dy[o];
}

/* One head of one row: positions, features per head, features of the layer's input and output. */
struct head {
    size_t T, d, in, out;
    const float *q, *k, *v; /* rows `in` apart */
    float *p, *dp;          /* [T] of one query */
};

static struct head
head_of(const struct layer *layer, const struct layer_io *io, size_t row, size_t h)
{
    size_t T = layer->in.dim[0], in = layer->in.dim[1], out = in / 3, d = out / layer->spec.units;
    const float *q = io->x + row * layer->in_size + h * d;
    return (struct head){T, d, in, out, q, q + out, q + 2 * out, zeros(T), zeros(T)};
}

static void
head_release(struct head *head)
{
    free(head->p);
    free(head->dp);
}

static double
dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* p[0..i] of query i. */
static void
softmax(const struct head *head, size_t i)
{
    float *p = head->p;
    double sum = 0, top = -(double)INFINITY, scale = 1 / sqrt((double)head->d);
    for (size_t j = 0; j <= i; j++) {
        double s = dot(head->q + i * head->in, head->k + j * head->in, head->d) * scale;
        p[j] = (float)s;
        top = s > top ? s : top;
    }
    for (size_t j = 0; j <= i; j++)
        p[j] -= (float)top;
    vmath_exp(p, p, i + 1);
    for (size_t j = 0; j <= i; j++)
        sum += (double)p[j];
    for (size_t j = 0; j <= i; j++)
        p[j] = (float)((double)p[j] / sum);
}

static void
head_forward(const struct head *head, float *y)
{
    for (size_t i = 0; i < head->T; i++) {
        softmax(head, i);
        for (size_t c = 0; c < head->d; c++) {
            double sum = 0;
            for (size_t j = 0; j <= i; j++)
                sum += (double)head->p[j] * (double)head->v[j * head->in + c];
            y[i * head->out + c] = (float)sum;
        }
    }
}

/* What query i gives to dx, whose rows before i have what those before it gave. */
static void
query_backward(const struct head *head, size_t i, const float *dy, float *dx)
{
    size_t in = head->in, out = head->out;
    double mean = 0, scale = 1 / sqrt((double)head->d);
    softmax(head, i);
    for (size_t j = 0; j <= i; j++) {
        double dp = dot(dy + i * out, head->v + j * in, head->d);
        mean += (double)head->p[j] * dp;
        head->dp[j] = (float)dp;
    }
    for (size_t j = 0; j <= i; j++)
        head->dp[j] = (float)((double)head->p[j] * ((double)head->dp[j] - mean) * scale);
    for (size_t c = 0; c < head->d; c++) {
        double q = 0;
        for (size_t j = 0; j <= i; j++) {
            float *k = dx + j * in + out + c, *v = k + out;
            q += (double)head->dp[j] * (double)head->k[j * in + c];
            *k = (j < i ? *k : 0) + head->dp[j] * head->q[i * in + c];
            *v = (j < i ? *v : 0) + head->p[j] * dy[i * out + c];
        }
        dx[i * in + c] = (float)q;
    }
}

static void
attention_forward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            head_forward(&head, io->y + r * layer->out_size + h * head.d);
            head_release(&head);
        }
}

static void
attention_backward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            const float *dy = io->dy + r * layer->out_size + h * head.d;
            for (size_t i = 0; i < head.T; i++)
                query_backward(&head, i, dy, io->dx + r * layer->in_size + h * head.d);
            head_release(&head);
        }
}

static const struct naive {
    enum nn_kind kind;
    void (*forward)(const struct layer *layer, const struct layer_io *io);
    void (*backward)(const struct layer *layer, const struct layer_io *io);
} table[] = {
    {NN_DENSE, dense_forward, dense_backward},
    {NN_CONV2D, conv_forward, conv_backward},
    {NN_MAXPOOL, max_forward, max_backward},
    {NN_UPSAMPLE, upsample_forward, upsample_backward},
    {NN_ATTENTION, attention_forward, attention_backward},
    {NN_RNN, naive_recurrent_forward, naive_recurrent_backward},
    {NN_LSTM, naive_recurrent_forward, naive_recurrent_backward},
    {NN_GRU, naive_recurrent_forward, naive_recurrent_backward},
};

static const struct naive *
naive_of(const struct layer *layer)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].kind == layer->spec.kind)
            return &table[i];
    abort();
}

void
naive_forward(const struct layer *layer, const struct layer_io *io)
{
    naive_of(layer)->forward(layer, io);
}

void
naive_backward(const struct layer *layer, const struct layer_io *io)
{
    naive_of(layer)->backward(layer, io);
}

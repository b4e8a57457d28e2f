/* attention.c - multi-head causal self-attention (Vaswani et al., NeurIPS 2017) of a sequence [T, 3 C] of
 * queries, keys and values side by side, as a dense layer makes them, to [T, C].
 *
 * Head h has features h d to (h + 1) d - 1 of each, d = C / heads. With Q, K, V [T, d] of one row and head:
 *
 *     S = Q K^T / sqrt d      P[i] = softmax of S[i][0..i], 0 beyond      Y = P V
 *     dV = P^T dY      dP = dY V^T      dS = P (dP - rowsum(P dP)) / sqrt d      dQ = dS K      dK = dS^T Q
 *
 * Of P and dP there is only a strip at a time: STRIP queries by the keys up to the last of them. So memory grows with
 * T, not with its square. Back-propagation computes P again, the same bits, from what is kept of each query: its
 * largest score and 1 / its sum of exponentials (as Dao et al., NeurIPS 2022, who cut up the keys, too; here a strip
 * has whole rows). Strips add to dV and dK in the order of queries, so their height changes no bit. Products run
 * through our own loop (gemm.h) and leave out what is above the diagonal in steps of a panel. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/arithmetic/gemm.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

enum {
    STRIP = 48, /* queries at a time: a multiple of STEP and of the rows of a product's tile */
    STEP = GEMM_COLUMNS /* that the zeros above the diagonal are left out in */
};

/* One head of one row: positions, features per head, features of the layer's input and output. */
struct head {
    size_t T, d, in, out;
    const float *q, *k, *v; /* rows `in` apart */
    size_t wide;   /* from row to row of a strip: odd in cache lines, so a column's share no set */
    float *p, *dp; /* [STRIP, wide] */
    float *kept;   /* [T, 2] of each query, from forward to backward; NULL: not */
    float *keys, *values; /* packed operands of [d, T] or [T, d] */
    float *along, *few;   /* the same of [T, d] and of [STRIP, d] */
};

static int
shape(struct layer *layer, struct why *why)
{
    size_t heads = layer->spec.units, features = layer->in.dim[1];
    if (layer->in.dims != 2)
        why_set(why, "input has %zu dimension%s, expected 2: positions, features", layer->in.dims,
                layer->in.dims == 1 ? "" : "s");
    else if (heads == 0)
        why_set(why, "heads = 0, expected at least 1");
    else if (features % 3 != 0 || features / 3 % heads != 0)
        why_set(why,
                "input has %zu features, expected a multiple of 3 x %zu: queries, keys and values "
                "of %zu heads, from a dense layer",
                features, heads, heads);
    else {
        layer->out = (struct nn_shape){2, {layer->in.dim[0], features / 3}};
        return 0;
    }
    return -EINVAL;
}

static size_t
strip_width(const struct layer *layer)
{
    return ((layer->in.dim[0] / STEP + 1) | 1) * STEP;
}

static size_t
saved(const struct layer *layer)
{
    return layer->spec.units * layer->in.dim[0] * 2 * sizeof(float);
}

static size_t
scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    size_t T = layer->in.dim[0], d = layer->out.dim[1] / layer->spec.units;
    return 2 * STRIP * strip_width(layer) + 2 * gemm_packed_size(d, T) +
           gemm_packed_size(T + STRIP, d);
}

static struct head
head_of(const struct layer *layer, const struct layer_io *io, size_t row, size_t h)
{
    size_t T = layer->in.dim[0], in = layer->in.dim[1], out = in / 3, d = out / layer->spec.units;
    const float *q = io->x + row * layer->in_size + h * d;
    struct head head = {T, d, in, out, q, q + out, q + 2 * out, .wide = strip_width(layer)};
    if (io->saved != NULL)
        head.kept = (float *)io->saved + (row * layer->spec.units + h) * 2 * T;
    head.p = io->scratch;
    head.dp = head.p + STRIP * head.wide;
    head.keys = head.dp + STRIP * head.wide;
    head.values = head.keys + gemm_packed_size(d, T);
    head.along = head.values + gemm_packed_size(d, T);
    head.few = head.along + gemm_packed_size(T, d);
    return head;
}

/* Half of two products [T, C] by [C, T], the other half being zero. */
static double
flops(const struct layer *layer)
{
    return 2.0 * (double)layer->in.dim[0] * (double)layer->out_size;
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* s[rows, i + rows] = A B^T for the strip at query i, but for what lies STEP above the diagonal; a [rows, d] of the
 * strip, b [d, T] packed. */
static void
strip_product(const struct head *head, size_t i, size_t rows, const float *a, size_t lda,
              const float *b, float *s)
{
    size_t d = head->d;
    for (size_t j = 0; j < i + rows; j += STEP) {
        size_t above = j < i ? 0 : j - i;
        struct gemm_view view = {a + above * lda, rows, 0, lda, d, 0, 1};
        gemm_panel(&view, rows - above, least(i + rows - j, STEP), d, b + j * d, false,
                   s + above * head->wide + j, head->wide);
    }
}

/* c[rows, d] = P B for the strip at query i; b [T, d] packed. */
static void
strip_times(const struct head *head, size_t i, size_t rows, const float *p, const float *b,
            float *c, size_t ldc)
{
    size_t d = head->d, T = head->T, k = i + rows;
    struct gemm_view view = {p, rows, 0, head->wide, k, 0, 1};
    for (size_t j = 0; j < d; j += GEMM_COLUMNS)
        gemm_panel(&view, rows, least(d - j, GEMM_COLUMNS), k, b + j * T, false, c + j, ldc);
}

/* The strip's part of c[T, d] = P^T B, b [rows, d]: added for keys before the strip, the first for others. */
static void
strip_across(const struct head *head, size_t i, size_t rows, const float *p, const float *b,
             size_t ldb, float *c, size_t ldc)
{
    size_t d = head->d, wide = head->wide;
    gemm_pack(b, ldb, rows, d, head->few);
    for (size_t j = 0; j < d; j += GEMM_COLUMNS) {
        struct gemm_view view = {p, i + rows, 0, 1, rows, 0, wide};
        size_t n = least(d - j, GEMM_COLUMNS);
        const float *panel = head->few + j * rows;
        if (i > 0)
            gemm_panel(&view, i, n, rows, panel, true, c + j, ldc);
        for (size_t t = 0; t < rows; t += STEP) {
            view = (struct gemm_view){p + t * wide + i + t, STEP, 0, 1, rows - t, 0, wide};
            gemm_panel(&view, least(rows - t, STEP), n, rows - t, panel + t * GEMM_COLUMNS, false,
                       c + (i + t) * ldc + j, ldc);
        }
    }
}

static float
scale_of(const struct head *head)
{
    return (float)(1 / sqrt((double)head->d));
}

/* Of the strip at query i: p[r][0..i+r] = softmax of scale * s, in place; zeros beyond. */
static void
strip_softmax(const struct head *head, size_t i, size_t rows, bool recompute)
{
    for (size_t r = 0; r < rows; r++) {
        float *p = head->p + r * head->wide, unkept[2];
        float *kept = head->kept == NULL ? unkept : head->kept + 2 * (i + r);
        if (recompute)
            softmax_recompute(p, scale_of(head), kept, i + r + 1);
        else
            softmax_forward(p, scale_of(head), kept, i + r + 1);
        memset(p + i + r + 1, 0, (rows - r - 1) * sizeof *p);
    }
}

/* dp[r][0..i+r] becomes dS; zeros beyond. */
static void
strip_softmax_backward(const struct head *head, size_t i, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        float *dp = head->dp + r * head->wide;
        softmax_backward(head->p + r * head->wide, dp, scale_of(head), i + r + 1);
        memset(dp + i + r + 1, 0, (rows - r - 1) * sizeof *dp);
    }
}

static void
head_forward(const struct head *head, float *y)
{
    size_t T = head->T, d = head->d, in = head->in, out = head->out;
    gemm_pack_transposed(head->k, in, d, T, head->keys);
    gemm_pack(head->v, in, T, d, head->along);
    for (size_t i = 0; i < T; i += STRIP) {
        size_t rows = least(T - i, STRIP);
        strip_product(head, i, rows, head->q + i * in, in, head->keys, head->p);
        strip_softmax(head, i, rows, false);
        strip_times(head, i, rows, head->p, head->along, y + i * out, out);
    }
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            head_forward(&head, io->y + r * layer->out_size + h * head.d);
        }
}

static void
head_backward(const struct head *head, const float *dy, float *dx)
{
    size_t T = head->T, d = head->d, in = head->in, out = head->out;
    gemm_pack_transposed(head->k, in, d, T, head->keys);
    gemm_pack_transposed(head->v, in, d, T, head->values);
    gemm_pack(head->k, in, T, d, head->along);
    for (size_t i = 0; i < T; i += STRIP, dy += STRIP * out) {
        size_t rows = least(T - i, STRIP);
        const float *q = head->q + i * in;
        strip_product(head, i, rows, q, in, head->keys, head->p);
        strip_softmax(head, i, rows, true);
        strip_across(head, i, rows, head->p, dy, out, dx + 2 * out, in);
        strip_product(head, i, rows, dy, out, head->values, head->dp);
        strip_softmax_backward(head, i, rows);
        strip_times(head, i, rows, head->dp, head->along, dx + i * in, in);
        strip_across(head, i, rows, head->dp, q, in, dx + out, in);
    }
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; io->dx != NULL && r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            head_backward(&head, io->dy + r * layer->out_size + h * head.d,
                          io->dx + r * layer->in_size + h * head.d);
        }
}

static double
dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* p[0..i] of query i by the definition. */
static void
softmax_naive(const struct head *head, size_t i)
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
forward_naive(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            float *y = io->y + r * layer->out_size + h * head.d;
            for (size_t i = 0; i < head.T; i++) {
                softmax_naive(&head, i);
                for (size_t c = 0; c < head.d; c++) {
                    double sum = 0;
                    for (size_t j = 0; j <= i; j++)
                        sum += (double)head.p[j] * (double)head.v[j * head.in + c];
                    y[i * head.out + c] = (float)sum;
                }
            }
        }
}

/* What query i gives to dx, whose rows before i have what those before it gave. */
static void
query_backward_naive(const struct head *head, size_t i, const float *dy, float *dx)
{
    size_t in = head->in, out = head->out;
    double mean = 0, scale = 1 / sqrt((double)head->d);
    softmax_naive(head, i);
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
backward_naive(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            for (size_t i = 0; i < head.T; i++)
                query_backward_naive(&head, i, io->dy + r * layer->out_size + h * head.d,
                                     io->dx + r * layer->in_size + h * head.d);
        }
}

const struct layer_kind attention_kind = {
    .word = "attention",
    .by_rows = true,
    .shape = shape,
    .saved = saved,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .forward_naive = forward_naive,
    .backward_naive = backward_naive,
};

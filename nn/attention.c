/* attention.c - multi-head causal self-attention (Vaswani et al., NeurIPS 2017) of a sequence [T, 3 C] of
 * queries, keys and values side by side, as a dense layer makes them, to [T, C].
 *
 * Head h has features h d to (h + 1) d - 1 of each, d = C / heads. With Q, K, V [T, d] of one row and head:
 *
 *     S = Q K^T / sqrt d      P[i] = softmax of S[i][0..i], 0 beyond      Y = P V
 *     dV = P^T dY      dP = dY V^T      dS = P (dP - rowsum(P dP)) / sqrt d      dQ = dS K      dK = dS^T Q
 *
 * P is computed again in back-propagation, the same bits, instead of being kept: it would be larger than all else.
 * Products run through our own loop (gemm.h) and leave out the blocks that are zero. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/gemm.h"
#include "nn/layer.h"
#include "nn/vmath.h"

enum { BLOCK = 48 }; /* rows of a product at a time */

/* One head of one row: positions, features per head, features of the layer's input and output. */
struct head {
    size_t T, d, in, out;
    const float *q, *k, *v; /* rows `in` apart */
    float *p, *dp, *panels; /* [T, T], [T, T], scratch of either operand */
};

static int
shape(struct layer *layer, char *why, size_t why_size)
{
    size_t heads = layer->spec.units, features = layer->in.dim[1];
    if (layer->in.dims != 2)
        snprintf(why, why_size, "input has %zu dimension%s, expected 2: positions, features",
                 layer->in.dims, layer->in.dims == 1 ? "" : "s");
    else if (heads == 0)
        snprintf(why, why_size, "heads = 0, expected at least 1");
    else if (features % 3 != 0 || features / 3 % heads != 0)
        snprintf(why, why_size,
                 "input has %zu features, expected a multiple of 3 x %zu: queries, keys and values "
                 "of %zu heads, from a dense layer",
                 features, heads, heads);
    else {
        layer->out = (struct nn_shape){2, {layer->in.dim[0], features / 3}};
        return 0;
    }
    return -EINVAL;
}

static struct head
head_of(const struct layer *layer, const struct layer_io *io, size_t row, size_t h)
{
    size_t T = layer->in.dim[0], in = layer->in.dim[1], out = in / 3, d = out / layer->spec.units;
    const float *q = io->x + row * layer->in_size + h * d;
    return (struct head){
        .T = T,
        .d = d,
        .in = in,
        .out = out,
        .q = q,
        .k = q + out,
        .v = q + 2 * out,
        .p = io->scratch,
        .dp = io->scratch + T * T,
        .panels = io->scratch + 2 * T * T,
    };
}

static size_t
scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    size_t T = layer->in.dim[0], d = layer->out.dim[1] / layer->spec.units;
    size_t across = gemm_packed_size(d, T), along = gemm_packed_size(T, d);
    return 2 * T * T + (across > along ? across : along);
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

/* s[T, T] = A B^T below and in the blocks on the diagonal; A, B [T, d]. */
static void
lower_product(const struct head *head, const float *a, size_t lda, const float *b, size_t ldb,
              float *s)
{
    size_t T = head->T, d = head->d;
    gemm_pack_transposed(b, ldb, d, T, head->panels);
    for (size_t j = 0; j < T; j += GEMM_COLUMNS) {
        struct gemm_view view = {a + j * lda, T - j, 0, lda, d, 0, 1};
        gemm_panel(&view, T - j, least(T - j, GEMM_COLUMNS), d, head->panels + j * d, false,
                   s + j * T + j, T);
    }
}

/* c[T, d] = P B for lower triangular P [T, T]. */
static void
lower_times(const struct head *head, const float *p, const float *b, size_t ldb, float *c,
            size_t ldc)
{
    size_t T = head->T, d = head->d;
    gemm_pack(b, ldb, T, d, head->panels);
    for (size_t i = 0; i < T; i += BLOCK) {
        size_t rows = least(T - i, BLOCK), k = i + rows;
        struct gemm_view view = {p + i * T, rows, 0, T, k, 0, 1};
        for (size_t j = 0; j < d; j += GEMM_COLUMNS)
            gemm_panel(&view, rows, least(d - j, GEMM_COLUMNS), k, head->panels + j * T, false,
                       c + i * ldc + j, ldc);
    }
}

/* c[T, d] = P^T B. */
static void
upper_times(const struct head *head, const float *p, const float *b, size_t ldb, float *c,
            size_t ldc)
{
    size_t T = head->T, d = head->d;
    gemm_pack(b, ldb, T, d, head->panels);
    for (size_t i = 0; i < T; i += BLOCK) {
        size_t rows = least(T - i, BLOCK), k = T - i;
        struct gemm_view view = {p + i * T + i, rows, 0, 1, k, 0, T};
        for (size_t j = 0; j < d; j += GEMM_COLUMNS)
            gemm_panel(&view, rows, least(d - j, GEMM_COLUMNS), k,
                       head->panels + j * T + i * GEMM_COLUMNS, false, c + i * ldc + j, ldc);
    }
}

static float
scale_of(const struct head *head)
{
    return (float)(1 / sqrt((double)head->d));
}

/* p[i][0..i] = softmax of scale * s, in place; zeros beyond. */
static void
softmax(const struct head *head)
{
    float scale = scale_of(head);
    for (size_t i = 0; i < head->T; i++) {
        float *p = head->p + i * head->T, top = p[0];
        double sum;
        for (size_t j = 1; j <= i; j++)
            top = p[j] > top ? p[j] : top;
        for (size_t j = 0; j <= i; j++)
            p[j] = (p[j] - top) * scale;
        vmath_exp(p, p, i + 1);
        vmath_sum(p, i + 1, &sum);
        float share = (float)(1 / sum);
        for (size_t j = 0; j <= i; j++)
            p[j] *= share;
        memset(p + i + 1, 0, (head->T - i - 1) * sizeof *p);
    }
}

/* dp[i][0..i] becomes dS; zeros beyond. */
static void
softmax_backward(const struct head *head)
{
    float scale = scale_of(head);
    for (size_t i = 0; i < head->T; i++) {
        const float *p = head->p + i * head->T;
        float *dp = head->dp + i * head->T;
        double sum = 0;
        for (size_t j = 0; j <= i; j++)
            sum += (double)p[j] * (double)dp[j];
        float mean = (float)sum;
        for (size_t j = 0; j <= i; j++)
            dp[j] = (p[j] * (dp[j] - mean)) * scale;
        memset(dp + i + 1, 0, (head->T - i - 1) * sizeof *dp);
    }
}

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            lower_product(&head, head.q, head.in, head.k, head.in, head.p);
            softmax(&head);
            lower_times(&head, head.p, head.v, head.in, io->y + r * layer->out_size + h * head.d,
                        head.out);
        }
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; io->dx != NULL && r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            const float *dy = io->dy + r * layer->out_size + h * head.d;
            float *dx = io->dx + r * layer->in_size + h * head.d;
            lower_product(&head, head.q, head.in, head.k, head.in, head.p);
            softmax(&head);
            upper_times(&head, head.p, dy, head.out, dx + 2 * head.out, head.in);
            lower_product(&head, dy, head.out, head.v, head.in, head.dp);
            softmax_backward(&head);
            lower_times(&head, head.dp, head.k, head.in, dx, head.in);
            upper_times(&head, head.dp, head.q, head.in, dx + head.out, head.in);
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

/* p[i][0..i] by the definition; zeros beyond. */
static void
shares_naive(const struct head *head)
{
    for (size_t i = 0; i < head->T; i++) {
        float *p = head->p + i * head->T;
        double sum = 0, top = -(double)INFINITY, scale = 1 / sqrt((double)head->d);
        for (size_t j = 0; j < head->T; j++) {
            double s = dot(head->q + i * head->in, head->k + j * head->in, head->d) * scale;
            p[j] = j <= i ? (float)s : -INFINITY;
            top = j <= i && s > top ? s : top;
        }
        for (size_t j = 0; j < head->T; j++)
            p[j] -= (float)top;
        vmath_exp(p, p, head->T);
        for (size_t j = 0; j < head->T; j++)
            sum += (double)p[j];
        for (size_t j = 0; j < head->T; j++)
            p[j] = (float)((double)p[j] / sum);
    }
}

static void
forward_naive(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            float *y = io->y + r * layer->out_size + h * head.d;
            shares_naive(&head);
            for (size_t i = 0; i < head.T; i++)
                for (size_t c = 0; c < head.d; c++) {
                    double sum = 0;
                    for (size_t j = 0; j < head.T; j++)
                        sum += (double)head.p[i * head.T + j] * (double)head.v[j * head.in + c];
                    y[i * head.out + c] = (float)sum;
                }
        }
}

static void
head_backward_naive(const struct head *head, const float *dy, float *dx)
{
    size_t T = head->T, in = head->in, out = head->out;
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++) {
            double mean = 0, scale = 1 / sqrt((double)head->d);
            for (size_t m = 0; m < T; m++)
                mean += (double)head->p[i * T + m] * dot(dy + i * out, head->v + m * in, head->d);
            double dp = dot(dy + i * out, head->v + j * in, head->d);
            head->dp[i * T + j] = (float)((double)head->p[i * T + j] * (dp - mean) * scale);
        }
    for (size_t i = 0; i < T; i++)
        for (size_t c = 0; c < head->d; c++) {
            double q = 0, k = 0, v = 0;
            for (size_t j = 0; j < T; j++) {
                q += (double)head->dp[i * T + j] * (double)head->k[j * in + c];
                k += (double)head->dp[j * T + i] * (double)head->q[j * in + c];
                v += (double)head->p[j * T + i] * (double)dy[j * out + c];
            }
            dx[i * in + c] = (float)q;
            dx[i * in + out + c] = (float)k;
            dx[i * in + 2 * out + c] = (float)v;
        }
}

static void
backward_naive(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            shares_naive(&head);
            head_backward_naive(&head, io->dy + r * layer->out_size + h * head.d,
                                io->dx + r * layer->in_size + h * head.d);
        }
}

const struct layer_kind attention_kind = {
    .word = "attention",
    .by_rows = true,
    .shape = shape,
    .scratch = scratch,
    .flops = flops,
    .forward = forward,
    .backward = backward,
    .forward_naive = forward_naive,
    .backward_naive = backward_naive,
};

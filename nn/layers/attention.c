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
 * has whole rows). Strips add to dV and dK in the order of queries, so their height changes no bit. Products
 * (product.h) leave out what is above the diagonal, but for what a tile in registers takes along. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "nn/arithmetic/least.h"
#include "nn/arithmetic/product.h"
#include "nn/layers/layer.h"

enum {
    STRIP = 64, /* queries at a time: a multiple of PRODUCT_BLOCK and of a product's rows */
    LINE = 16   /* floats of a cache line */
};

/* One head of one row: positions, features per head, features of the layer's input and output. */
struct head {
    size_t T, d, in, out;
    const float *q, *k, *v; /* rows `in` apart */
    size_t wide;   /* from row to row of a strip: odd in cache lines, so a column's share no set */
    float *p, *dp; /* [STRIP, wide] */
    float *kept;   /* [T, 2] of each query, from forward to backward; NULL: not */
    float *keys, *values; /* K^T and V^T, packed */
    float *scratch;       /* of products */
};

static int
attention_shape(struct layer *layer, struct why *why)
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
    return ((layer->in.dim[0] / LINE + 1) | 1) * LINE;
}

static size_t
attention_saved(const struct layer *layer)
{
    return layer->spec.units * layer->in.dim[0] * 2 * sizeof(float);
}

static size_t
attention_scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    size_t T = layer->in.dim[0], d = layer->out.dim[1] / layer->spec.units;
    size_t products = greatest(product_scratch(STRIP, T, d), product_scratch(STRIP, d, T));
    return 2 * STRIP * strip_width(layer) + 2 * product_packed(T, d) +
           greatest(products, product_scratch(T, d, STRIP));
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
    head.values = head.keys + product_packed(T, d);
    head.scratch = head.values + product_packed(T, d);
    return head;
}

/* Half of two products [T, C] by [C, T], the other half being zero. */
static double
attention_flops(const struct layer *layer)
{
    return 2.0 * (double)layer->in.dim[0] * (double)layer->out_size;
}

/* s[rows, T] = A B^T up to the diagonal, for the strip at query i; a [rows, d] of the strip, b [T, d] packed. */
static void
strip_product(const struct head *head, size_t i, size_t rows, const float *a, size_t lda,
              const float *b, float *s)
{
    const struct product product = {
        .m = rows,
        .n = head->T,
        .k = head->d,
        .a = product_rows(a, lda),
        .packed = b,
        .c = s,
        .ldc = head->wide,
        .shape = PRODUCT_C_LOWER,
        .diagonal = i,
    };
    product_run(&product, head->scratch);
}

/* c[rows, d] = P B for the strip at query i; b [T, d], rows `in` apart. */
static void
strip_times(const struct head *head, size_t i, size_t rows, const float *p, const float *b,
            float *c, size_t ldc)
{
    const struct product product = {
        .m = rows,
        .n = head->d,
        .k = i + rows,
        .a = product_rows(p, head->wide),
        .b = product_columns(b, head->in),
        .c = c,
        .ldc = ldc,
        .shape = PRODUCT_A_LOWER,
        .diagonal = i,
    };
    product_run(&product, head->scratch);
}

/* The strip's part of c[T, d] = P^T B, b [rows, d]: added for keys before the strip, the first for others. */
static void
strip_across(const struct head *head, size_t i, size_t rows, const float *p, const float *b,
             size_t ldb, float *c, size_t ldc)
{
    struct product product = {
        .m = i,
        .n = head->d,
        .k = rows,
        .a = product_columns(p, head->wide),
        .b = product_columns(b, ldb),
        .c = c,
        .ldc = ldc,
        .add = true,
    };
    product_run(&product, head->scratch);
    product.m = rows;
    product.a.at += i;
    product.c += i * ldc;
    product.add = false;
    product.shape = PRODUCT_A_UPPER;
    product_run(&product, head->scratch);
}

static float
scale_of(const struct head *head)
{
    return (float)(1 / sqrt((double)head->d));
}

/* Zeros from n on, as far as a tile that holds row n - 1 of the triangle reads: to the end of its block of k. */
static void
zeros(const struct head *head, float *p, size_t n)
{
    size_t end = (n + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK * PRODUCT_BLOCK;
    memset(p + n, 0, (least(end, head->wide) - n) * sizeof *p);
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
        zeros(head, p, i + r + 1);
    }
}

/* dp[r][0..i+r] becomes dS; zeros beyond. */
static void
strip_softmax_backward(const struct head *head, size_t i, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        float *dp = head->dp + r * head->wide;
        softmax_backward(head->p + r * head->wide, dp, scale_of(head), i + r + 1);
        zeros(head, dp, i + r + 1);
    }
}

static void
head_forward(const struct head *head, float *y)
{
    size_t T = head->T, d = head->d, in = head->in, out = head->out;
    const struct gemm_view keys = product_rows(head->k, in);
    product_pack(&keys, T, d, head->keys);
    for (size_t i = 0; i < T; i += STRIP) {
        size_t rows = least(T - i, STRIP);
        strip_product(head, i, rows, head->q + i * in, in, head->keys, head->p);
        strip_softmax(head, i, rows, false);
        strip_times(head, i, rows, head->p, head->v, y + i * out, out);
    }
}

static void
attention_forward(const struct layer *layer, const struct layer_io *io)
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
    const struct gemm_view keys = product_rows(head->k, in), values = product_rows(head->v, in);
    product_pack(&keys, T, d, head->keys);
    product_pack(&values, T, d, head->values);
    for (size_t i = 0; i < T; i += STRIP, dy += STRIP * out) {
        size_t rows = least(T - i, STRIP);
        const float *q = head->q + i * in;
        strip_product(head, i, rows, q, in, head->keys, head->p);
        strip_softmax(head, i, rows, true);
        strip_across(head, i, rows, head->p, dy, out, dx + 2 * out, in);
        strip_product(head, i, rows, dy, out, head->values, head->dp);
        strip_softmax_backward(head, i, rows);
        strip_times(head, i, rows, head->dp, head->k, dx + i * in, in);
        strip_across(head, i, rows, head->dp, q, in, dx + out, in);
    }
}

static void
attention_backward(const struct layer *layer, const struct layer_io *io)
{
    for (size_t r = 0; io->dx != NULL && r < io->rows; r++)
        for (size_t h = 0; h < layer->spec.units; h++) {
            struct head head = head_of(layer, io, r, h);
            head_backward(&head, io->dy + r * layer->out_size + h * head.d,
                          io->dx + r * layer->in_size + h * head.d);
        }
}

const struct layer_kind attention_kind = {
    .word = "attention",
    .by_rows = true,
    .shape = attention_shape,
    .saved = attention_saved,
    .scratch = attention_scratch,
    .flops = attention_flops,
    .forward = attention_forward,
    .backward = attention_backward,
};

/* simd.h - the vector functions of nn/: declares the variants of each, and the plain name that chooses one.
 *
 * nn/<file>_simd.c defines SIMD_NAME(f) for every f here. nn/arithmetic/simd.c defines f from the same list. */
#ifndef NN_SIMD_H
#define NN_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

/* A channel consists of `planes` pieces of `plane` values, `stride` apart. */
struct batchnorm_channel {
    size_t planes, plane, stride;
};

/* dx = scale ((dy - plain) - z along), z = (x - mean) r. */
struct batchnorm_slope {
    float mean, r, scale, plain, along;
};

/* One step of all rows, which are `line` floats apart: gates [gates units], all others [units]; c0 and h0 before the
 * step, c and h after it. */
struct recurrent_step {
    size_t rows, units, line;
    float *gates, *extra;
    const float *c0, *h0;
    float *c, *h;
};

enum { LOSS_ROWS = 8 };

/* pooling_mark sets it in the positions of those that are not above 0. */
#define POOLING_MARK UINT32_C(0x80000000)

/* X(name, parameters, arguments): functions without a result */
#define NN_SIMD_LIST(X)                                                                            \
    X(data_scale, (const uint8_t *in, float scale, float shift, float *out, size_t n),             \
      (in, scale, shift, out, n))                                                                  \
    X(vmath_exp, (const float *x, float *y, size_t n), (x, y, n))                                  \
    X(vmath_tanh, (const float *x, float *y, size_t n), (x, y, n))                                 \
    X(vmath_sigmoid, (const float *x, float *y, size_t n), (x, y, n))                              \
    X(vmath_relu, (const float *x, float *y, size_t n), (x, y, n))                                 \
    X(vmath_relu_grad, (const float *y, float *dy, size_t n), (y, dy, n))                          \
    X(vmath_tanh_grad, (const float *y, float *dy, size_t n), (y, dy, n))                          \
    X(vmath_sigmoid_grad, (const float *y, float *dy, size_t n), (y, dy, n))                       \
    X(vmath_sum_rows, (const float *x, size_t stride, size_t rows, float *sum, size_t n),          \
      (x, stride, rows, sum, n))                                                                   \
    X(product_transpose, (const float *x, size_t ldx, size_t m, size_t n, float *y, size_t ldy),   \
      (x, ldx, m, n, y, ldy))                                                                      \
    X(product_rounded, (const float *x, float *y, size_t n), (x, y, n))                            \
    X(product_settled, (float *c, size_t n), (c, n))                                               \
    X(pooling_max_line,                                                                            \
      (const float *x, size_t width, size_t rows, size_t columns, size_t stride, uint32_t from,    \
       float *y, uint32_t *at, size_t n),                                                          \
      (x, width, rows, columns, stride, from, y, at, n))                                           \
    X(pooling_mark, (const float *y, uint32_t *at, size_t n), (y, at, n))                          \
    X(vmath_gelu, (const float *x, float *y, size_t n), (x, y, n))                                 \
    X(vmath_gelu_grad, (const float *x, const float *dy, float *dx, size_t n), (x, dy, dx, n))     \
    X(vmath_gelu_tanh, (const float *x, float *y, size_t n), (x, y, n))                            \
    X(vmath_gelu_tanh_grad, (const float *x, const float *dy, float *dx, size_t n),                \
      (x, dy, dx, n))                                                                              \
    X(vmath_gelu_keep, (float *x, float *y, size_t n), (x, y, n))                                  \
    X(vmath_gelu_tanh_keep, (float *x, float *y, size_t n), (x, y, n))                             \
    X(vmath_multiply, (const float *x, float *y, size_t n), (x, y, n))                             \
    X(vmath_bf16, (float *x, size_t n), (x, n))                                                    \
    X(vmath_silu, (const float *x, float *y, size_t n), (x, y, n))                                 \
    X(vmath_silu_grad, (const float *x, const float *dy, float *dx, size_t n), (x, dy, dx, n))     \
    X(norm_forward,                                                                                \
      (const float *x, const float *w, const float *b, float epsilon, bool centred, float *y,      \
       float *stats, size_t n),                                                                    \
      (x, w, b, epsilon, centred, y, stats, n))                                                    \
    X(norm_gradient,                                                                               \
      (const float *x, const float *dy, const float *stats, float *dw, float *db, size_t n),       \
      (x, dy, stats, dw, db, n))                                                                   \
    X(norm_backward,                                                                               \
      (const float *x, const float *dy, const float *w, const float *stats, bool centred,          \
       float *dx, size_t n),                                                                       \
      (x, dy, w, stats, centred, dx, n))                                                           \
    X(recurrent_lstm, (const struct recurrent_step *s, const float *p), (s, p))                    \
    X(recurrent_lstm_grad, (const struct recurrent_step *s, float *dh, float *dc), (s, dh, dc))    \
    X(recurrent_gru, (const struct recurrent_step *s, const float *p, const float *hidden),        \
      (s, p, hidden))                                                                              \
    X(recurrent_gru_grad, (const struct recurrent_step *s, float *dh), (s, dh))                    \
    X(recurrent_rnn, (const struct recurrent_step *s, const float *p), (s, p))                     \
    X(recurrent_rnn_grad, (const struct recurrent_step *s, float *dh), (s, dh))                    \
    X(softmax_forward, (float *s, float scale, float kept[2], size_t n), (s, scale, kept, n))      \
    X(softmax_recompute, (float *s, float scale, const float kept[2], size_t n),                   \
      (s, scale, kept, n))                                                                         \
    X(softmax_backward, (const float *p, float *dp, float scale, size_t n), (p, dp, scale, n))     \
    X(loss_finite, (const float *z, size_t n, float *zero), (z, n, zero))                          \
    X(loss_largest, (const float *z, size_t n, size_t *at), (z, n, at))                            \
    X(loss_exp, (const float *z, float top, float *p, size_t n), (z, top, p, n))                   \
    X(loss_sums, (const float *p, size_t rows, size_t n, double *sum), (p, rows, n, sum))          \
    X(loss_slope, (float *p, float share, float other, float scale, size_t n),                     \
      (p, share, other, scale, n))                                                                 \
    X(vmath_add, (const float *a, const float *b, float *y, size_t n), (a, b, y, n))               \
    X(vmath_sum, (const float *x, size_t n, double *sum), (x, n, sum))                             \
    X(vmath_squares, (const float *x, float mean, size_t n, double *sum), (x, mean, n, sum))       \
    X(batchnorm_sum, (const struct batchnorm_channel *c, const float *x, double *sum),             \
      (c, x, sum))                                                                                 \
    X(batchnorm_squares,                                                                           \
      (const struct batchnorm_channel *c, const float *x, float mean, double *sum),                \
      (c, x, mean, sum))                                                                           \
    X(batchnorm_gradient,                                                                          \
      (const struct batchnorm_channel *c, const float *x, const float *y, float *dy, float mean,   \
       double sum[2]),                                                                             \
      (c, x, y, dy, mean, sum))                                                                    \
    X(batchnorm_forward,                                                                           \
      (const struct batchnorm_channel *c, const float *x, float mean, float scale, float b,        \
       bool relu, float *y),                                                                       \
      (c, x, mean, scale, b, relu, y))                                                             \
    X(batchnorm_backward,                                                                          \
      (const struct batchnorm_channel *c, const float *x, const float *dy,                         \
       const struct batchnorm_slope *s, float *dx),                                                \
      (c, x, dy, s, dx))

#define NN_SIMD_DECLARE(name, parameters, arguments)                                               \
    SIMD_DECLARE(void, name, parameters);                                                          \
    void name parameters;

NN_SIMD_LIST(NN_SIMD_DECLARE)

#endif

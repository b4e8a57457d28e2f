/* batchnorm_simd.c - one channel of batchnorm.c. Sums run over 16 lanes for PIECE values at a time, then lane by lane
 * and piece by piece in double. */
#include "nn/arithmetic/simd.h"

enum { LANES = 16, PIECE = 4096 };

static double
sum_lanes(const float lane[LANES])
{
    double sum = 0;
    for (size_t j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

static size_t
piece_size(const struct batchnorm_channel *c, size_t from)
{
    return c->plane - from < PIECE ? c->plane - from : PIECE;
}

void
SIMD_NAME(batchnorm_sum)(const struct batchnorm_channel *c, const float *x, double *sum)
{
    double piece;
    *sum = 0;
    for (size_t p = 0; p < c->planes; p++, x += c->stride)
        for (size_t i = 0; i < c->plane; i += PIECE, *sum += piece)
            SIMD_NAME(vmath_sum)(x + i, piece_size(c, i), &piece);
}

void
SIMD_NAME(batchnorm_squares)(const struct batchnorm_channel *c, const float *x, float mean,
                             double *sum)
{
    double piece;
    *sum = 0;
    for (size_t p = 0; p < c->planes; p++, x += c->stride)
        for (size_t i = 0; i < c->plane; i += PIECE, *sum += piece)
            SIMD_NAME(vmath_squares)(x + i, mean, piece_size(c, i), &piece);
}

/* dy behind a relu that gave y. */
static inline float
slope(bool relu, const float *y, float *dy, size_t i)
{
    if (relu)
        dy[i] = y[i] > 0 ? dy[i] : 0;
    return dy[i];
}

static inline __attribute__((always_inline)) void
piece_gradient(bool relu, const float *x, const float *y, float *dy, float mean, size_t n,
               double sum[2])
{
    float plain[LANES] = {0}, along[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            float d = slope(relu, y, dy, i + j);
            plain[j] += d;
            along[j] += d * (x[i + j] - mean);
        }
    for (size_t j = 0; i + j < n; j++) {
        float d = slope(relu, y, dy, i + j);
        plain[j] += d;
        along[j] += d * (x[i + j] - mean);
    }
    sum[0] += sum_lanes(plain);
    sum[1] += sum_lanes(along);
}

static inline __attribute__((always_inline)) void
channel_gradient(bool relu, const struct batchnorm_channel *c, const float *x, const float *y,
                 float *dy, float mean, double sum[2])
{
    sum[0] = sum[1] = 0;
    for (size_t p = 0; p < c->planes; p++, x += c->stride, dy += c->stride) {
        for (size_t i = 0; i < c->plane; i += PIECE)
            piece_gradient(relu, x + i, relu ? y + i : NULL, dy + i, mean, piece_size(c, i), sum);
        y = relu ? y + c->stride : NULL;
    }
}

/* Sums of dy and of dy (x - mean). With y, dy first passes through the relu that gave y. */
void
SIMD_NAME(batchnorm_gradient)(const struct batchnorm_channel *c, const float *x, const float *y,
                              float *dy, float mean, double sum[2])
{
    if (y != NULL)
        channel_gradient(true, c, x, y, dy, mean, sum);
    else
        channel_gradient(false, c, x, NULL, dy, mean, sum);
}

static inline __attribute__((always_inline)) void
normalise(bool relu, const struct batchnorm_channel *c, const float *x, float mean, float scale,
          float b, float *y)
{
    for (size_t p = 0; p < c->planes; p++, x += c->stride, y += c->stride)
        for (size_t i = 0; i < c->plane; i++) {
            float v = (x[i] - mean) * scale + b;
            y[i] = relu && 0.0f > v ? 0.0f : v;
        }
}

void
SIMD_NAME(batchnorm_forward)(const struct batchnorm_channel *c, const float *x, float mean,
                             float scale, float b, bool relu, float *y)
{
    if (relu)
        normalise(true, c, x, mean, scale, b, y);
    else
        normalise(false, c, x, mean, scale, b, y);
}

void
SIMD_NAME(batchnorm_backward)(const struct batchnorm_channel *c, const float *x, const float *dy,
                              const struct batchnorm_slope *s, float *dx)
{
    const float mean = s->mean, r = s->r, scale = s->scale, plain = s->plain, along = s->along;
    for (size_t p = 0; p < c->planes; p++, x += c->stride, dy += c->stride, dx += c->stride)
        for (size_t i = 0; i < c->plane; i++)
            dx[i] = scale * ((dy[i] - plain) - ((x[i] - mean) * r) * along);
}

/* batchnorm_simd.c - one channel of batchnorm.c. Sums run over 16 lanes for PIECE values at a time, then lane by lane
 * and piece by piece in double. */
#include "nn/arithmetic/simd.h"

enum { LANES = 16, PIECE = 4096 };

/* Sum over the channel of: x, (x - mean)^2, dy (x - mean). */
enum sum { PLAIN, SQUARES, ALONG };

static inline float
term(enum sum kind, float x, float dy, float mean)
{
    return kind == PLAIN ? x : (kind == SQUARES ? x - mean : dy) * (x - mean);
}

static inline __attribute__((always_inline)) double
piece_sum(enum sum kind, const float *x, const float *dy, float mean, size_t n)
{
    float lane[LANES] = {0};
    double sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += term(kind, x[i + j], dy[i + j], mean);
    for (size_t j = 0; i + j < n; j++)
        lane[j] += term(kind, x[i + j], dy[i + j], mean);
    for (size_t j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

static inline __attribute__((always_inline)) double
channel_sum(enum sum kind, const struct batchnorm_channel *c, const float *x, const float *dy,
            float mean)
{
    double sum = 0;
    for (size_t p = 0; p < c->planes; p++, x += c->stride, dy += c->stride)
        for (size_t i = 0; i < c->plane; i += PIECE)
            sum +=
                piece_sum(kind, x + i, dy + i, mean, c->plane - i < PIECE ? c->plane - i : PIECE);
    return sum;
}

void
SIMD_NAME(batchnorm_sum)(const struct batchnorm_channel *c, const float *x, double *sum)
{
    *sum = channel_sum(PLAIN, c, x, x, 0);
}

void
SIMD_NAME(batchnorm_squares)(const struct batchnorm_channel *c, const float *x, float mean,
                             double *sum)
{
    *sum = channel_sum(SQUARES, c, x, x, mean);
}

void
SIMD_NAME(batchnorm_along)(const struct batchnorm_channel *c, const float *x, const float *dy,
                           float mean, double *sum)
{
    *sum = channel_sum(ALONG, c, x, dy, mean);
}

void
SIMD_NAME(batchnorm_forward)(const struct batchnorm_channel *c, const float *x, float mean,
                             float scale, float b, float *y)
{
    for (size_t p = 0; p < c->planes; p++, x += c->stride, y += c->stride)
        for (size_t i = 0; i < c->plane; i++)
            y[i] = (x[i] - mean) * scale + b;
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

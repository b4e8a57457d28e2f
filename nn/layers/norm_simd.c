/* norm_simd.c - one vector of norm.c. Sums run over 16 lanes, then lane by lane in double. */
#include "nn/arithmetic/simd.h"

#include <math.h>

enum { LANES = 16 };

static inline double
lanes_sum(const float lane[LANES])
{
    double sum = 0;
    for (size_t j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

void
SIMD_NAME(norm_forward)(const float *x, const float *w, const float *b, float epsilon, bool centred,
                        float *y, float *stats, size_t n)
{
    double sum = 0, squares;
    if (centred)
        SIMD_NAME(vmath_sum)(x, n, &sum);
    float mean = (float)(sum / (double)n);
    SIMD_NAME(vmath_squares)(x, mean, n, &squares);
    double square = squares / (double)n;
    float r = (float)(1 / sqrt(square + (double)epsilon)); /* rounded exactly, as IEEE 754 wants */
    stats[0] = mean;
    stats[1] = r;
    for (size_t i = 0; b == NULL && i < n; i++)
        y[i] = ((x[i] - mean) * r) * w[i];
    for (size_t i = 0; b != NULL && i < n; i++)
        y[i] = ((x[i] - mean) * r) * w[i] + b[i];
}

void
SIMD_NAME(norm_gradient)(const float *x, const float *dy, const float *stats, float *dw, float *db,
                         size_t n)
{
    float mean = stats[0], r = stats[1];
    for (size_t i = 0; i < n; i++) {
        dw[i] += dy[i] * ((x[i] - mean) * r);
        db[i] += dy[i];
    }
}

void
SIMD_NAME(norm_backward)(const float *x, const float *dy, const float *w, const float *stats,
                         bool centred, float *dx, size_t n)
{
    float mean = stats[0], r = stats[1], plain[LANES] = {0}, along[LANES] = {0};
    size_t i = 0;
    for (size_t k = 0; k < n; k++)
        dx[k] = dy[k] * w[k];
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            plain[j] += dx[i + j];
            along[j] += dx[i + j] * ((x[i + j] - mean) * r);
        }
    for (size_t j = 0; i + j < n; j++) {
        plain[j] += dx[i + j];
        along[j] += dx[i + j] * ((x[i + j] - mean) * r);
    }
    float g = centred ? (float)(lanes_sum(plain) / (double)n) : 0;
    float gz = (float)(lanes_sum(along) / (double)n);
    for (size_t k = 0; k < n; k++)
        dx[k] = r * ((dx[k] - g) - ((x[k] - mean) * r) * gz);
}

/* loss_simd.c - the loops of loss.c over the outputs of one position. */
#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath_one.h"

enum { LANES = 16 };

/* *zero = 0 if all z[n] are finite, else NaN. */
void
SIMD_NAME(loss_finite)(const float *z, size_t n, float *zero)
{
    float lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += z[i + j] * 0.0f;
    for (size_t j = 0; i + j < n; j++)
        lane[j] += z[i + j] * 0.0f;
    for (size_t j = 0; j < LANES; j++)
        sum += lane[j];
    *zero = sum;
}

/* Number of the first of the largest of z[n], n >= 1, no NaN among them. */
void
SIMD_NAME(loss_largest)(const float *z, size_t n, size_t *at)
{
    float lane[LANES], top = z[0];
    size_t i = 0;
    for (size_t j = 0; j < LANES; j++)
        lane[j] = top;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] = z[i + j] > lane[j] ? z[i + j] : lane[j];
    for (; i < n; i++)
        top = z[i] > top ? z[i] : top;
    for (size_t j = 0; j < LANES; j++)
        top = lane[j] > top ? lane[j] : top;
    for (i = 0; z[i] != top;)
        i++;
    *at = i;
}

/* p[n] = exp(z - top) */
void
SIMD_NAME(loss_exp)(const float *z, float top, float *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = exp_below(z[i] - top);
}

/* sum[rows] = p[r][0] + ... + p[r][n - 1] in this order, of LOSS_ROWS rows at once, since each addition waits for the
 * one before. */
void
SIMD_NAME(loss_sums)(const float *p, size_t rows, size_t n, double *sum)
{
    for (; rows >= LOSS_ROWS; rows -= LOSS_ROWS, p += LOSS_ROWS * n, sum += LOSS_ROWS) {
        double s[LOSS_ROWS] = {0};
        for (size_t i = 0; i < n; i++)
            for (size_t r = 0; r < LOSS_ROWS; r++)
                s[r] += (double)p[r * n + i];
        for (size_t r = 0; r < LOSS_ROWS; r++)
            sum[r] = s[r];
    }
    for (size_t r = 0; r < rows; r++) {
        sum[r] = 0;
        for (size_t i = 0; i < n; i++)
            sum[r] += (double)p[r * n + i];
    }
}

/* p[n] = (p share - other) scale */
void
SIMD_NAME(loss_slope)(float *p, float share, float other, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (p[i] * share - other) * scale;
}

/* lowrank_simd.c - plain loops that the compiler turns into vectors. */
#include "compress/lowrank_simd.h"

enum { SUMS = 16 };

float
SIMD_NAME(lowrank_dot)(const float *x, const float *y, size_t n)
{
    float sum[SUMS] = {0}, all = 0;
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            sum[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i + k < n; k++)
        sum[k] += x[i + k] * y[i + k];
    for (size_t k = 0; k < SUMS; k++)
        all += sum[k];
    return all;
}

void
SIMD_NAME(lowrank_add)(float *y, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i] * factor;
}

void
SIMD_NAME(lowrank_add_int)(float *y, const int32_t *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += (float)x[i] * factor;
}

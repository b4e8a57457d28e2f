/* exact_simd.c - quantise and add: plain loops that the compiler turns into vectors.
 *
 * Scaling by a power of two is exact (or ends below half a unit), a comparison with NaN is false, and rintf rounds to
 * nearest even: so all widths of vectors give the same integers. */
#include "compress/exact_simd.h"

#include <math.h>

#include "proto/float_bits.h"
#include "proto/simd.h"

uint32_t
SIMD_NAME(exact_add)(int32_t *restrict own, const float *restrict g, size_t n, float scale,
                     float limit, struct check_sums *sums)
{
    uint32_t largest = 0, plain = 0, weighted = 0;
    for (size_t i = 0; i < n; i++) {
        float x = g[i] * scale;
        uint32_t bits = float_bits(x) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        x = x < limit ? x : limit;
        x = x > -limit ? x : -limit;
        uint32_t q = (uint32_t)(int32_t)rintf(x);
        own[i] = (int32_t)((uint32_t)own[i] + q);
        plain += q;
        weighted += q * (uint32_t)i;
    }
    *sums = (struct check_sums){plain, weighted};
    return largest;
}

void
SIMD_NAME(exact_read)(float *g, const int32_t *sum, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        g[i] = (float)sum[i] * scale;
}

uint32_t
SIMD_NAME(exact_take)(float *g, const int32_t *sum, size_t n, float scale, struct check_sums *sums)
{
    uint32_t bits = 0, plain = 0, weighted = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)sum[i];
        g[i] = (float)sum[i] * scale;
        bits |= sum[i] < 0 ? 0u - x : x;
        plain += x;
        weighted += x * (uint32_t)i;
    }
    *sums = (struct check_sums){plain, weighted};
    return bits;
}

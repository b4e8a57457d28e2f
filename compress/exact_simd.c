/* exact_simd.c - quantise and add: plain loops that the compiler turns into vectors.
 *
 * Scaling by a power of two is exact (or ends below half a unit), a comparison with NaN is false, and rintf rounds to
 * nearest even: so all widths of vectors give the same integers. */
#include "compress/exact_simd.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "proto/float_bits.h"
#include "proto/simd.h"

enum rounding { NEAREST, ROUNDED, DRAWN };

/* To nearest even, of a float with fewer bits. */
static inline float
drop_bits(float x, int dropped)
{
    uint32_t bits = float_bits(x);
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return float_of(bits & ~0u << dropped);
}

/* 0 <= it < 1, from a number: a hash of 32 bits in which each bit of the input changes half of the output. */
static inline float
random_unit(uint32_t x)
{
    x *= 0x9e3779b1u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (float)(int32_t)(x >> 8) * 0x1p-24f;
}

/* `with`: bits to drop, or the key. */
static inline __attribute__((always_inline)) uint32_t
add_rounded(int32_t *restrict own, const float *restrict g, size_t n, float scale, float limit,
            enum rounding rounding, uint32_t with, struct check_sums *sums)
{
    uint32_t largest = 0, plain = 0, weighted = 0;
    for (size_t i = 0; i < n; i++) {
        float x = g[i] * scale;
        uint32_t bits = float_bits(x) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        x = x < limit ? x : limit;
        x = x > -limit ? x : -limit;
        if (rounding == ROUNDED)
            x = drop_bits(x, (int)with);
        x = rounding == DRAWN ? floorf(x + random_unit(with + (uint32_t)i)) : rintf(x);
        uint32_t q = (uint32_t)(int32_t)x;
        own[i] = (int32_t)((uint32_t)own[i] + q);
        plain += q;
        weighted += q * (uint32_t)i;
    }
    *sums = (struct check_sums){plain, weighted};
    return largest;
}

uint32_t
SIMD_NAME(exact_add)(int32_t *restrict own, const float *restrict g, size_t n, float scale,
                     float limit, struct check_sums *sums)
{
    return add_rounded(own, g, n, scale, limit, NEAREST, 0, sums);
}

uint32_t
SIMD_NAME(exact_rounded)(int32_t *restrict own, const float *restrict g, size_t n, float scale,
                         float limit, int dropped, struct check_sums *sums)
{
    return add_rounded(own, g, n, scale, limit, ROUNDED, (uint32_t)dropped, sums);
}

uint32_t
SIMD_NAME(exact_drawn)(int32_t *restrict own, const float *restrict g, size_t n, float scale,
                       float limit, uint32_t key, struct check_sums *sums)
{
    return add_rounded(own, g, n, scale, limit, DRAWN, key, sums);
}

uint32_t
SIMD_NAME(exact_sign)(int32_t *restrict q, const float *restrict a, size_t n, float scale,
                      struct check_sums *sums)
{
    uint32_t largest = 0, plain = 0, weighted = 0;
    for (size_t i = 0; i < n; i++) {
        float x = a[i] * scale;
        uint32_t bits = float_bits(x) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        q[i] = (x >= 0.5f) - (x <= -0.5f);
        plain += (uint32_t)q[i];
        weighted += (uint32_t)q[i] * (uint32_t)i;
    }
    *sums = (struct check_sums){plain, weighted};
    return largest;
}

void
SIMD_NAME(exact_few)(float *restrict few, const float *restrict a, size_t n, float share,
                     uint32_t key)
{
    for (size_t i = 0; i < n; i++) {
        bool chosen = random_unit(key + (uint32_t)i) < share || !(fabsf(a[i]) <= FLT_MAX);
        few[i] = chosen ? a[i] : 0.0f;
    }
}

/* Bit by bit, from the highest one: the largest number, of its 8 bits of exponent and 6 more, that at least `count` reach. */
static inline uint32_t
threshold(const float *a, size_t n, size_t count)
{
    uint32_t least = 0;
    for (int bit = 30; bit >= 17; bit--) {
        uint32_t above = 0, next = least | 1u << bit;
        for (size_t i = 0; i < n; i++)
            above += (float_bits(a[i]) & 0x7fffffffu) >= next;
        least = above >= count ? next : least;
    }
    return least;
}

void
SIMD_NAME(exact_top)(float *restrict few, const float *restrict a, size_t n, size_t count)
{
    uint32_t least = threshold(a, n, count);
    for (size_t i = 0; i < n; i++)
        few[i] = (float_bits(a[i]) & 0x7fffffffu) >= least ? a[i] : 0.0f;
}

void
SIMD_NAME(exact_keep)(int32_t *restrict own, float *restrict a, const int32_t *restrict q, size_t n,
                      float unit)
{
    for (size_t i = 0; i < n; i++) {
        own[i] = (int32_t)((uint32_t)own[i] + (uint32_t)q[i]);
        a[i] -= (float)q[i] * unit;
    }
}

uint32_t
SIMD_NAME(exact_units)(const float *a, size_t n, float scale)
{
    uint32_t units = 0;
    for (size_t i = 0; i < n; i++) {
        float x = fabsf(a[i] * scale);
        units += (uint32_t)(int32_t)(x < EXACT_UNITS ? x : EXACT_UNITS);
    }
    return units;
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

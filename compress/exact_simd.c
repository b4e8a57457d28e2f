/* exact_simd.c - quantise and add: plain loops that the compiler turns into vectors.
 *
 * Scaling by a power of two is exact (or ends below half a unit), a comparison with NaN is false, and rintf rounds to
 * nearest even: so all widths of vectors give the same integers. */
#include "compress/exact_simd.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

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
SIMD_NAME(exact_sign)(int32_t *restrict own, float *restrict a, size_t n, float scale, float unit,
                      struct check_sums *sums, uint32_t *units)
{
    uint32_t largest = 0, plain = 0, weighted = 0, whole = 0;
    for (size_t i = 0; i < n; i++) {
        float x = a[i] * scale, size = fabsf(x);
        uint32_t bits = float_bits(size);
        int32_t q = (x >= 0.5f) - (x <= -0.5f);
        largest = bits > largest ? bits : largest;
        whole += (uint32_t)(int32_t)(size < EXACT_UNITS ? size : EXACT_UNITS);
        own[i] = (int32_t)((uint32_t)own[i] + (uint32_t)q);
        a[i] -= (float)q * unit;
        plain += (uint32_t)q;
        weighted += (uint32_t)q * (uint32_t)i;
    }
    *sums = (struct check_sums){plain, weighted};
    *units = whole;
    return largest;
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

/* --- A few ---------------------------------------------------------------------------------------- */

enum { LANES = 32 };

static inline uint32_t
size_bits(float x)
{
    return float_bits(x) & 0x7fffffffu;
}

/* at = where hit[n] is 1; else it is 0, and so it is behind the end, up to a multiple of LANES. Returns how many. */
static inline size_t
positions(uint16_t *at, const uint8_t *hit, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, hit + i, sizeof word);
        for (; word; word &= word - 1)
            at[found++] = (uint16_t)(i + (size_t)__builtin_ctzll(word) / 8);
    }
    return found;
}

size_t
SIMD_NAME(exact_few)(uint16_t *restrict at, const float *restrict a, size_t n, float share,
                     uint32_t key)
{
    uint8_t hit[EXACT_FEW_MAX + LANES];
    for (size_t i = 0; i < n; i++)
        hit[i] = random_unit(key + (uint32_t)i) < share || !(fabsf(a[i]) <= FLT_MAX);
    memset(hit + n, 0, LANES);
    return positions(at, hit, n);
}

/* Bit by bit, from the highest one: the largest number, of its 8 bits of exponent and 6 more, that at least `count` reach. */
static inline uint32_t
threshold(const uint32_t *bits, size_t n, size_t count)
{
    uint32_t least = 0;
    for (int bit = 30; bit >= 17; bit--) {
        uint32_t above = 0, next = least | 1u << bit;
        for (size_t i = 0; i < n; i++)
            above += bits[i] >= next;
        least = above >= count ? next : least;
    }
    return least;
}

/* What the largest of all lanes say of the threshold of all: it is no lower. */
static inline uint32_t
threshold_least(const uint32_t *bits, size_t n, size_t count)
{
    uint32_t lane[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] = bits[i + k] > lane[k] ? bits[i + k] : lane[k];
    return threshold(lane, LANES, count);
}

size_t
SIMD_NAME(exact_top)(uint16_t *restrict at, const float *restrict a, size_t n, size_t count)
{
    uint32_t bits[EXACT_FEW_MAX + LANES];
    uint8_t hit[EXACT_FEW_MAX + LANES];
    size_t whole = (n + LANES - 1) / LANES * LANES, chosen = 0;
    for (size_t i = 0; i < n; i++)
        bits[i] = size_bits(a[i]);
    memset(bits + n, 0, (whole - n) * sizeof *bits);
    uint32_t least = threshold_least(bits, whole, count);
    for (size_t i = 0; i < whole; i++)
        hit[i] = i < n && bits[i] >= least;
    size_t found = positions(at, hit, n); /* these and maybe some more */
    for (size_t k = 0; k < found; k++)
        bits[k] = bits[at[k]];
    least = threshold(bits, found, count);
    for (size_t k = 0; k < found; k++) {
        at[chosen] = at[k];
        chosen += bits[k] >= least;
    }
    return chosen;
}

/* --- Read ----------------------------------------------------------------------------------------- */

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

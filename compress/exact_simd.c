/* exact_simd.c - quantise and add: plain loops that the compiler turns into vectors; where checksums go along, by rows.
 *
 * Scaling by a power of two is exact (or ends below half a unit), a comparison with NaN is false, and rintf rounds to
 * nearest even: so all widths of vectors give the same integers. */
#include "compress/exact_simd.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "proto/float_bits.h"
#include "proto/mix.h"
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

MIX24_DEFINE(random_bits, uint32_t)

/* What a loop by rows of CHECK_LANES elements gathers: see check_lanes in check.h. The last row is filled up with
 * zeros, in memory of its own. */
struct lanes {
    uint32_t a[CHECK_LANES], b[CHECK_LANES], most[CHECK_LANES], more[CHECK_LANES];
};

static inline __attribute__((always_inline)) void
lanes_take(struct lanes *lanes, size_t k, uint32_t q)
{
    lanes->a[k] += q;
    lanes->b[k] += lanes->a[k];
}

static inline __attribute__((always_inline)) void
lanes_most(struct lanes *lanes, size_t k, uint32_t bits)
{
    lanes->most[k] = bits > lanes->most[k] ? bits : lanes->most[k];
}

static inline uint32_t
largest_lane(const struct lanes *lanes)
{
    uint32_t largest = 0;
    for (size_t k = 0; k < CHECK_LANES; k++)
        largest = lanes->most[k] > largest ? lanes->most[k] : largest;
    return largest;
}

/* After all n elements. */
static inline struct check_sums
lanes_sums(const struct lanes *lanes, size_t n)
{
    struct check_sums sums = {0, 0};
    check_lanes(&sums, lanes->a, lanes->b, CHECK_LANES, (n + CHECK_LANES - 1) / CHECK_LANES);
    return sums;
}

/* Up by this chance, of so many 2^24ths. */
static inline float
raised(float x, uint32_t chance)
{
#if defined(__FMA__) /* a product with a power of two is exact: the same, in one instruction */
    return __builtin_fmaf((float)(int32_t)chance, 0x1p-24f, x);
#else
    return x + (float)(int32_t)chance * 0x1p-24f;
#endif
}

/* `with`: bits to drop, or the key of the first element times MIX24_STEP. */
static inline __attribute__((always_inline)) void
quantise_row(int32_t *restrict own, const float *restrict g, float scale, float limit,
             enum rounding rounding, uint32_t with, struct lanes *lanes)
{
    for (size_t k = 0; k < CHECK_LANES; k++) {
        float x = g[k] * scale;
        lanes_most(lanes, k, float_bits(x) & 0x7fffffffu);
        x = x < limit ? x : limit;
        x = x > -limit ? x : -limit;
        if (rounding == ROUNDED)
            x = drop_bits(x, (int)with);
        x = rounding == DRAWN ? floorf(raised(x, random_bits(with + (uint32_t)k * MIX24_STEP)))
                              : rintf(x);
        uint32_t q = (uint32_t)(int32_t)x;
        own[k] = (int32_t)((uint32_t)own[k] + q);
        lanes_take(lanes, k, q);
    }
}

static inline __attribute__((always_inline)) uint32_t
add_rounded(int32_t *restrict own, const float *restrict g, size_t n, float scale, float limit,
            enum rounding rounding, uint32_t with, struct check_sums *sums)
{
    struct lanes lanes = {0};
    uint32_t step = rounding == DRAWN ? CHECK_LANES * MIX24_STEP : 0;
    size_t i = 0;
    for (; i + CHECK_LANES <= n; i += CHECK_LANES, with += step)
        quantise_row(own + i, g + i, scale, limit, rounding, with, &lanes);
    if (i < n) {
        int32_t last[CHECK_LANES] = {0};
        float from[CHECK_LANES] = {0};
        memcpy(last, own + i, (n - i) * sizeof *last);
        memcpy(from, g + i, (n - i) * sizeof *from);
        quantise_row(last, from, scale, limit, rounding, with, &lanes);
        memcpy(own + i, last, (n - i) * sizeof *last);
    }
    *sums = lanes_sums(&lanes, n);
    return largest_lane(&lanes);
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
    return add_rounded(own, g, n, scale, limit, DRAWN, key * MIX24_STEP, sums);
}

static inline __attribute__((always_inline)) void
signs_row(int32_t *restrict own, float *restrict a, float scale, float unit, struct lanes *lanes)
{
    for (size_t k = 0; k < CHECK_LANES; k++) {
        float x = a[k] * scale, size = fabsf(x);
        int32_t q = (x >= 0.5f) - (x <= -0.5f);
        lanes_most(lanes, k, float_bits(size));
        lanes->more[k] += (uint32_t)(int32_t)(size < EXACT_UNITS ? size : EXACT_UNITS);
        own[k] = (int32_t)((uint32_t)own[k] + (uint32_t)q);
        a[k] -= (float)q * unit;
        lanes_take(lanes, k, (uint32_t)q);
    }
}

uint32_t
SIMD_NAME(exact_sign)(int32_t *restrict own, float *restrict a, size_t n, float scale, float unit,
                      struct check_sums *sums, uint32_t *units)
{
    struct lanes lanes = {0};
    size_t i = 0;
    for (; i + CHECK_LANES <= n; i += CHECK_LANES)
        signs_row(own + i, a + i, scale, unit, &lanes);
    if (i < n) {
        int32_t last[CHECK_LANES] = {0};
        float from[CHECK_LANES] = {0};
        memcpy(last, own + i, (n - i) * sizeof *last);
        memcpy(from, a + i, (n - i) * sizeof *from);
        signs_row(last, from, scale, unit, &lanes);
        memcpy(own + i, last, (n - i) * sizeof *last);
        memcpy(a + i, from, (n - i) * sizeof *from);
    }
    *units = 0;
    for (size_t k = 0; k < CHECK_LANES; k++)
        *units += lanes.more[k];
    *sums = lanes_sums(&lanes, n);
    return largest_lane(&lanes);
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

/* Of 8 elements from i on. Returns how many are 1. */
static inline size_t
positions_of(uint16_t *at, uint64_t word, size_t i)
{
    size_t found = 0;
    for (; word; word &= word - 1)
        at[found++] = (uint16_t)(i + (size_t)__builtin_ctzll(word) / 8);
    return found;
}

/* at = where hit[n] is 1; else it is 0, and so it is behind the end, up to a multiple of LANES. Returns how many. */
static inline size_t
positions(uint16_t *at, const uint8_t *hit, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i += 16) {
        uint64_t word[2];
        memcpy(word, hit + i, sizeof word);
        if (!(word[0] | word[1]))
            continue;
        found += positions_of(at + found, word[0], i);
        found += positions_of(at + found, word[1], i + 8);
    }
    return found;
}

size_t
SIMD_NAME(exact_few)(uint16_t *restrict at, const float *restrict a, size_t n, float share,
                     uint32_t key)
{
    uint8_t hit[EXACT_FEW_MAX + LANES];
    int32_t below = (int32_t)ceilf(share * 0x1p24f);
    for (size_t i = 0; i < n; i++)
        hit[i] = ((int32_t)random_bits((key + (uint32_t)i) * MIX24_STEP) < below) |
                 !(fabsf(a[i]) <= FLT_MAX);
    memset(hit + n, 0, LANES);
    return positions(at, hit, n);
}

/* Bit by bit, from the highest one: the largest number, of its 8 bits of exponent and 6 more, that at least `count`
 * reach. */
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

/* The sizes of a[n], with zeros behind them, in whole rows of LANES. Returns what the largest of all lanes say of the
 * threshold of all: it is no lower. */
static inline uint32_t
threshold_least(uint32_t *bits, const float *a, size_t n, size_t count)
{
    uint32_t lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            bits[i + k] = size_bits(a[i + k]);
            lane[k] = bits[i + k] > lane[k] ? bits[i + k] : lane[k];
        }
    for (size_t k = 0; k < LANES; k++) {
        bits[i + k] = i + k < n ? size_bits(a[i + k]) : 0;
        lane[k] = bits[i + k] > lane[k] ? bits[i + k] : lane[k];
    }
    return threshold(lane, LANES, count);
}

size_t
SIMD_NAME(exact_top)(uint16_t *restrict at, const float *restrict a, size_t n, size_t count)
{
    uint32_t bits[EXACT_FEW_MAX + LANES];
    uint8_t hit[EXACT_FEW_MAX + LANES];
    size_t chosen = 0;
    uint32_t least = threshold_least(bits, a, n, count);
    for (size_t i = 0; i < n; i++)
        hit[i] = bits[i] >= least;
    memset(hit + n, 0, LANES);
    size_t found = positions(at, hit, n); /* these and maybe some more */
    for (size_t k = 0; k < found; k++)
        bits[k] = bits[at[k]];
    least = found > count ? threshold(bits, found, count) : 0;
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

uint64_t
SIMD_NAME(exact_squares)(const int32_t *sum, size_t n)
{
    uint64_t squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (uint64_t)((int64_t)sum[i] * sum[i]);
    return squares;
}

static inline __attribute__((always_inline)) void
floats_row(float *g, const int32_t *sum, float scale, struct lanes *lanes)
{
    for (size_t k = 0; k < CHECK_LANES; k++) {
        uint32_t x = (uint32_t)sum[k];
        g[k] = (float)sum[k] * scale;
        lanes->more[k] |= sum[k] < 0 ? 0u - x : x;
        lanes_take(lanes, k, x);
    }
}

uint32_t
SIMD_NAME(exact_take)(float *g, const int32_t *sum, size_t n, float scale, struct check_sums *sums)
{
    struct lanes lanes = {0};
    size_t i = 0;
    for (; i + CHECK_LANES <= n; i += CHECK_LANES)
        floats_row(g + i, sum + i, scale, &lanes);
    if (i < n) {
        int32_t from[CHECK_LANES] = {0};
        float last[CHECK_LANES];
        memcpy(from, sum + i, (n - i) * sizeof *from);
        floats_row(last, from, scale, &lanes);
        memcpy(g + i, last, (n - i) * sizeof *last);
    }
    uint32_t bits = 0;
    for (size_t k = 0; k < CHECK_LANES; k++)
        bits |= lanes.more[k];
    *sums = lanes_sums(&lanes, n);
    return bits;
}

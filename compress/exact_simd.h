/* exact_simd.h - the inner loops of exact.c on one block, one variant per instruction set.
 *
 * All variants compute the same bits. Pointers need no alignment. */
#ifndef COMPRESS_EXACT_SIMD_H
#define COMPRESS_EXACT_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "compress/check.h"
#include "proto/simd.h"

enum { EXACT_UNITS = 255, EXACT_FEW_MAX = 1024 };

/* own[n] += nearest-even(clamp(g[n] * scale, -limit, limit)), NaN as +limit; 0 < limit < 2^31. Returns the bits of
 * the largest |g * scale|; such bits have the order of the floats, with NaN above all. Sets *sums to the sums of what
 * was added to own. */
SIMD_DECLARE(uint32_t, exact_add,
             (int32_t * own, const float *g, size_t n, float scale, float limit,
              struct check_sums *sums));
/* The same, of floats whose last `dropped` bits are rounded away first, 1..22. */
SIMD_DECLARE(uint32_t, exact_rounded,
             (int32_t * own, const float *g, size_t n, float scale, float limit, int dropped,
              struct check_sums *sums));
/* The same, but rounded up or down by chance, so that the mean is what is rounded: element i by a number drawn from key
 * + i. */
SIMD_DECLARE(uint32_t, exact_drawn,
             (int32_t * own, const float *g, size_t n, float scale, float limit, uint32_t key,
              struct check_sums *sums));
/* Codecs with memory. own[n] += -1, 0 or 1, the sign of what of a[n] is above half a unit, which is 1 / scale; and a[n]
 * becomes what is left. Returns and sets what exact_add does, and *units: how many whole units there were in all |a[n]|
 * together, of none more than EXACT_UNITS. */
SIMD_DECLARE(uint32_t, exact_sign,
             (int32_t * own, float *a, size_t n, float scale, float unit, struct check_sums *sums,
              uint32_t *units));
/* Which elements of a[n] are chosen, n <= EXACT_FEW_MAX, in rising order: at[n + 1]; returns how many. A share that is
 * drawn from key + i, and what is not finite. */
SIMD_DECLARE(size_t, exact_few,
             (uint16_t * at, const float *a, size_t n, float share, uint32_t key));
/* The same: about the `count` largest of all; 0 < count. */
SIMD_DECLARE(size_t, exact_top, (uint16_t * at, const float *a, size_t n, size_t count));
/* own[n] += q[n], and a[n] -= q[n] * unit. */
SIMD_DECLARE(void, exact_keep, (int32_t * own, float *a, const int32_t *q, size_t n, float unit));
/* g[n] = (float)sum[n] * scale */
SIMD_DECLARE(void, exact_read, (float *g, const int32_t *sum, size_t n, float scale));
/* The same; sets *sums to the sums of sum[n], and returns the bitwise or of all |sum[n]|: it has as many bits as the
 * largest one. */
SIMD_DECLARE(uint32_t, exact_take,
             (float *g, const int32_t *sum, size_t n, float scale, struct check_sums *sums));
/* The sum of their squares. */
SIMD_DECLARE(uint64_t, exact_squares, (const int32_t *sum, size_t n));

#endif

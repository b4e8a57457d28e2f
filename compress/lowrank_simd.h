/* lowrank_simd.h - the inner loops of lowrank.c, one variant per instruction set. All variants compute the same
 * bits. */
#ifndef COMPRESS_LOWRANK_SIMD_H
#define COMPRESS_LOWRANK_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

/* The sum of all x[n] * y[n]: in 16 sums, element i in sum i % 16, which are then added in order. */
SIMD_DECLARE(float, lowrank_dot, (const float *x, const float *y, size_t n));
/* y[n] += x[n] * factor */
SIMD_DECLARE(void, lowrank_add, (float *y, const float *x, float factor, size_t n));
/* The same of integers below 2^24. */
SIMD_DECLARE(void, lowrank_add_int, (float *y, const int32_t *x, float factor, size_t n));

#endif

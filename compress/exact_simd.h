/* exact_simd.h - the four inner loops of exact.c on one block, one variant per instruction set.
 *
 * All variants compute the same bits. Pointers need no alignment. */
#ifndef COMPRESS_EXACT_SIMD_H
#define COMPRESS_EXACT_SIMD_H

#include <stddef.h>
#include <stdint.h>

/* own[n] += nearest-even(clamp(g[n] * scale, -limit, limit)), NaN as +limit; 0 < limit < 2^31. Returns the bits of
 * the largest |g * scale|; such bits have the order of the floats, with NaN above all. Sets *sums to the sums of what
 * was added to own. */
#define EXACT_ADD_DECLARE(name)                                                                    \
    uint32_t name(int32_t *own, const float *g, size_t n, float scale, float limit,                \
                  struct exact_sums *sums)
/* Sets *sums to the sums of x[n]. */
#define EXACT_SUMS_DECLARE(name) void name(const int32_t *x, size_t n, struct exact_sums *sums)
/* g[n] = (float)sum[n] * scale */
#define EXACT_READ_DECLARE(name) void name(float *g, const int32_t *sum, size_t n, float scale)
/* Bitwise or of all |sum[n]|: it has as many bits as the largest one. */
#define EXACT_BITS_DECLARE(name) uint32_t name(const int32_t *sum, size_t n)

/* Modulo 2^32. */
struct exact_sums {
    uint32_t plain;    /* of x[i] */
    uint32_t weighted; /* of i * x[i] */
};

EXACT_ADD_DECLARE(exact_add_base);
EXACT_ADD_DECLARE(exact_add_avx2);
EXACT_SUMS_DECLARE(exact_sums_base);
EXACT_SUMS_DECLARE(exact_sums_avx2);
EXACT_READ_DECLARE(exact_read_base);
EXACT_READ_DECLARE(exact_read_avx2);
EXACT_BITS_DECLARE(exact_bits_base);
EXACT_BITS_DECLARE(exact_bits_avx2);

#endif

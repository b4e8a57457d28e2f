/* packed_simd.h - the variants of packed.h that the Makefile builds from packed_simd.c; for packed.c and tests. */
#ifndef COMPRESS_PACKED_SIMD_H
#define COMPRESS_PACKED_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

/* One block, n <= PACKED_BLOCK. Sets the widths of its groups. Returns how many elements are not zero. */
SIMD_DECLARE(size_t, packed_measure, (const int32_t *x, size_t n, uint8_t *width));
/* Writes its words to `to`. */
SIMD_DECLARE(void, packed_pack, (uint8_t * to, const int32_t *x, size_t n, const uint8_t *width));
/* Returns all bits that must be zero, one or the other. */
SIMD_DECLARE(uint32_t, packed_unpack,
             (int32_t * x, const uint8_t *from, size_t n, const uint8_t *width));

#endif

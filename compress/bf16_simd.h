/* bf16_simd.h - the loops of bf16.c, one variant per instruction set. Pointers need no alignment. */
#ifndef COMPRESS_BF16_SIMD_H
#define COMPRESS_BF16_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

SIMD_DECLARE(void, bf16_pack, (void *out, const float *x, size_t n));
SIMD_DECLARE(void, bf16_unpack, (float *x, const void *in, size_t n));

#endif

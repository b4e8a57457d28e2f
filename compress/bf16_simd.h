/* bf16_simd.h - the variants of bf16.h that the Makefile builds from bf16_simd.c; for bf16.c and tests. */
#ifndef COMPRESS_BF16_SIMD_H
#define COMPRESS_BF16_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

SIMD_DECLARE(void, bf16_pack, (int32_t * out, const float *x, size_t n));
SIMD_DECLARE(void, bf16_unpack, (float *x, const int32_t *in, size_t n));

#endif

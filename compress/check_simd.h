/* check_simd.h - the variants of check.h that the Makefile builds from check_simd.c; for check.c and tests. */
#ifndef COMPRESS_CHECK_SIMD_H
#define COMPRESS_CHECK_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "compress/check.h"
#include "proto/simd.h"

/* Sets *sums to the sums of x[n]. */
SIMD_DECLARE(void, check_of, (const void *x, size_t n, struct check_sums *sums));
SIMD_DECLARE(void, check_sum,
             (void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check,
              uint64_t *out_check));
SIMD_DECLARE(void, check_sum_copy,
             (int32_t * out, const int32_t *a, void *b, size_t n, uint64_t *a_check,
              uint64_t *out_check));
SIMD_DECLARE(uint64_t, check_copy, (int32_t * out, const void *b, size_t n));

#endif

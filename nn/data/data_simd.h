/* data_simd.h - the variants of data_simd.c. */
#ifndef NN_DATA_SIMD_H
#define NN_DATA_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

/* out[i] = in[i] * scale + shift */
SIMD_DECLARE(void, data_scale, (const uint8_t *in, float scale, float shift, float *out, size_t n));

static inline void
data_scale(const uint8_t *in, float scale, float shift, float *out, size_t n)
{
    SIMD_PICK(data_scale)(in, scale, shift, out, n);
}

#endif

/* data_simd.h - the variants of data_simd.c. */
#ifndef NN_DATA_SIMD_H
#define NN_DATA_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

/* out[i] = in[i] * scale + shift */
void data_scale_base(const uint8_t *in, float scale, float shift, float *out, size_t n);
void data_scale_avx2(const uint8_t *in, float scale, float shift, float *out, size_t n);

static inline void
data_scale(const uint8_t *in, float scale, float shift, float *out, size_t n)
{
    if (simd_avx2())
        data_scale_avx2(in, scale, shift, out, n);
    else
        data_scale_base(in, scale, shift, out, n);
}

#endif

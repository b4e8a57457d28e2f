/* bf16_simd.c - the upper halves of floats, one after the other: plain loops that the compiler turns into vectors. */
#include "compress/bf16_simd.h"

#include "proto/float_bits.h"

typedef uint16_t half __attribute__((may_alias)); /* of a word */

void
SIMD_NAME(bf16_pack)(int32_t *out, const float *x, size_t n)
{
    half *to = (half *)out;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint16_t)(float_bits(x[i]) >> 16);
    if (n % 2)
        to[n] = 0;
}

void
SIMD_NAME(bf16_unpack)(float *x, const int32_t *in, size_t n)
{
    const half *from = (const half *)in;
    for (size_t i = 0; i < n; i++)
        x[i] = float_of((uint32_t)from[i] << 16);
}

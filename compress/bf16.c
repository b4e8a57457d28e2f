/* bf16.c - picks the variant of bf16_simd.c that this CPU can run; all give the same bits. */
#include "compress/bf16.h"

#include "compress/bf16_simd.h"

void
bf16_pack(int32_t *out, const float *x, size_t n)
{
    SIMD_PICK(bf16_pack)(out, x, n);
}

void
bf16_unpack(float *x, const int32_t *in, size_t n)
{
    SIMD_PICK(bf16_unpack)(x, in, n);
}

/* bf16.h - floats that are bfloat16 values, which have 0 in their lower 16 bits, in half the bytes.
 *
 * Two values make a word of 32 bits: the first is its lower half. The upper half of the last word of an odd number is
 * 0. Uses proto/simd.h. */
#ifndef COMPRESS_BF16_H
#define COMPRESS_BF16_H

#include <stddef.h>
#include <stdint.h>

static inline size_t
bf16_words(size_t n)
{
    return n / 2 + n % 2;
}

/* out[bf16_words(n)] from x[n], of which the lower 16 bits are lost. */
void bf16_pack(int32_t *out, const float *x, size_t n);
/* x[n] from in[bf16_words(n)]. */
void bf16_unpack(float *x, const int32_t *in, size_t n);

#endif

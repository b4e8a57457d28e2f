/* bf16.c - packs and unpacks in blocks, whose checksum is computed while they are in the nearest cache. */
#include "compress/bf16.h"

#include "compress/bf16_simd.h"
#include "compress/check.h"

enum { BLOCK = 4096 }; /* values; even */

static size_t
block_of(size_t left)
{
    return left < BLOCK ? left : BLOCK;
}

uint64_t
bf16_pack(int32_t *out, const float *x, size_t n)
{
    uint64_t check = 0;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = block_of(n - at), word = at / 2;
        SIMD_PICK(bf16_pack)(out + word, x + at, count);
        check = check_add(check, check_of(out + word, word, bf16_words(count)));
    }
    return check;
}

uint64_t
bf16_unpack(float *x, const void *in, size_t n)
{
    const int32_t *words = in;
    uint64_t check = 0;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = block_of(n - at), word = at / 2;
        check = check_add(check, check_of(words + word, word, bf16_words(count)));
        SIMD_PICK(bf16_unpack)(x + at, words + word, count);
    }
    return check;
}

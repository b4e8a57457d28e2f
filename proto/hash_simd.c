/* hash_simd.c - xxhash's own code, compiled for one instruction set. */
#include "proto/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t
SIMD_NAME(hash64)(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

uint64_t
SIMD_NAME(hash64_seeded)(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}

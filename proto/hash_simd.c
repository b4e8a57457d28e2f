/* hash_simd.c - xxhash's own code, compiled for one instruction set. */
#include "proto/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t
SIMD_NAME(hash64)(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

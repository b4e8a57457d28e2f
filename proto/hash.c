/* hash.c - see hash.h. */
#include "proto/hash.h"

#include "proto/hash_simd.h"
#include "proto/simd.h"

uint64_t
hash64(const void *data, size_t size)
{
    return SIMD_PICK(hash64)(data, size);
}

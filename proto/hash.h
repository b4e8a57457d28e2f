/* hash.h - XXH3-64 with the widest vector instructions of the machine.
 *
 * The system's library is built for any x86-64 CPU. The same hash with AVX2 is twice as fast on data in the caches.
 * Uses xxhash and proto/simd.h. */
#ifndef PROTO_HASH_H
#define PROTO_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

SIMD_DECLARE(uint64_t, hash64, (const void *data, size_t size));

/* The same with a seed. */
SIMD_DECLARE(uint64_t, hash64_seeded, (const void *data, size_t size, uint64_t seed));

static inline uint64_t
hash64_seeded(const void *data, size_t size, uint64_t seed)
{
    return SIMD_PICK(hash64_seeded)(data, size, seed);
}

static inline uint64_t
hash64(const void *data, size_t size)
{
    return SIMD_PICK(hash64)(data, size);
}

#endif

/* hash_simd.h - the variants of hash.h. */
#ifndef PROTO_HASH_SIMD_H
#define PROTO_HASH_SIMD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/simd.h"

SIMD_DECLARE(uint64_t, hash64, (const void *data, size_t size));

#endif

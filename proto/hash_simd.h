/* hash_simd.h - the variants of hash.h. */
#ifndef PROTO_HASH_SIMD_H
#define PROTO_HASH_SIMD_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64_base(const void *data, size_t size);
uint64_t hash64_avx2(const void *data, size_t size);

#endif

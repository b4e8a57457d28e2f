/* bits.h - bitmaps of up to 64 shards, members or ranks, and lengths of numbers. Uses nothing. */
#ifndef PROTO_BITS_H
#define PROTO_BITS_H

#include <stdint.h>

/* Bits 0 to n - 1, for n of 0 to 64. */
static inline uint64_t
bits_below(uint64_t n)
{
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* Bits of a number without leading zeros: 0 for 0, 32 at most. */
static inline unsigned
bits_length(uint32_t x)
{
    return x ? 32 - (unsigned)__builtin_clz(x) : 0;
}

#endif

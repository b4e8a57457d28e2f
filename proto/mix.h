/* mix.h - the mixers that all nodes use, of 64 bits and of 32.
 *
 * The first one is the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
 * OOPSLA 2014). Test vector: mix64(0) = 0xe220a8397b1dcdaf.
 * The other one is a hash of two multiplications (Wellons: Prospecting for Hash Functions, 2018). Uses nothing. */
#ifndef PROTO_MIX_H
#define PROTO_MIX_H

#include <stdint.h>

static inline uint64_t
mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* The order matters: mix64_pair(a, b) != mix64_pair(b, a). */
static inline uint64_t
mix64_pair(uint64_t a, uint64_t b)
{
    return mix64(mix64(a) ^ b);
}

#define MIX24_STEP 0x9e3779b1u

/* Defines `type name(type x)`: 24 bits drawn from x, a number times MIX24_STEP. Each bit of the number changes half of
 * them. `type` is uint32_t, or a vector of them. */
#define MIX24_DEFINE(name, type)                                                                   \
    static inline type name(type x)                                                                \
    {                                                                                              \
        x ^= x >> 16;                                                                              \
        x *= 0x7feb352du;                                                                          \
        x ^= x >> 15;                                                                              \
        x *= 0x846ca68bu;                                                                          \
        x ^= x >> 16;                                                                              \
        return x >> 8;                                                                             \
    }

#endif

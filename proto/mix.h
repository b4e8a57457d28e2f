/* mix.h - the 64-bit mixer that all nodes use.
 *
 * It is the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
 * 2014). Test vector: mix64(0) = 0xe220a8397b1dcdaf. Uses nothing. */
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

#endif

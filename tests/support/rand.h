/* rand.h - the seeded generator of the tests: same seed, same test, on every machine.
 *
 *     struct rand rand = {seed};
 *     size_t n = rand_below(&rand, 100);
 *
 * A counter through the mixer of proto/mix.h, so any state is a good state. */
#ifndef SUPPORT_RAND_H
#define SUPPORT_RAND_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/mix.h"

struct rand {
    uint64_t state;
};

static inline uint64_t
rand_u64(struct rand *rand)
{
    return mix64(rand->state++);
}

/* 0..limit-1, without bias worth a test: limit is far below 2^64. */
static inline uint64_t
rand_below(struct rand *rand, uint64_t limit)
{
    assert(limit > 0);
    return rand_u64(rand) % limit;
}

/* low..high, both included. */
static inline uint64_t
rand_range(struct rand *rand, uint64_t low, uint64_t high)
{
    assert(low <= high);
    return high - low == UINT64_MAX ? rand_u64(rand) : low + rand_below(rand, high - low + 1);
}

static inline bool
rand_bool(struct rand *rand)
{
    return rand_u64(rand) >> 63;
}

/* Uniform in [0, 1). */
static inline double
rand_real(struct rand *rand)
{
    return (double)(rand_u64(rand) >> 11) * 0x1p-53;
}

/* Normally distributed with deviation 1, by the sum of twelve numbers. */
static inline float
rand_normal(struct rand *rand)
{
    float sum = -6;
    for (int k = 0; k < 12; k++)
        sum += (float)(rand_u64(rand) >> 40) * 0x1p-24f;
    return sum;
}

/* A number of random length in bits: small ones and powers of two are as likely as large ones. */
static inline uint64_t
rand_any(struct rand *rand)
{
    uint64_t value = rand_u64(rand), bits = rand_below(rand, 65);
    return bits == 0 ? 0 : value >> (64 - bits);
}

static inline void
rand_fill(struct rand *rand, void *to, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = (uint8_t)rand_u64(rand);
}

#endif

/* rng.h - random numbers as a pure function of (key, counter).
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC'11). There is no
 * state, so any node draws the same number for the same sample, in any order.
 *
 *     struct rng_key key = rng_key(seed, RNG_DROPOUT, step, layer);
 *     rng_block(key, row, block, out);             // four uniform 32-bit words
 *
 * Test vectors, counter / key -> output:
 *     00000000 00000000 00000000 00000000 / 00000000 00000000
 *         -> 6627e8d5 e169c58d bc57ac4c 9b00dbd8
 *     ffffffff ffffffff ffffffff ffffffff / ffffffff ffffffff
 *         -> 408f276d 41c83b0e a20bc7c6 6d5451fd
 *     243f6a88 85a308d3 13198a2e 03707344 / a4093822 299f31d0
 *         -> d16cfe09 94fdcceb 5001e420 24126ea1
 *
 * Uses proto/mix.h. No allocation. */
#ifndef NN_RNG_H
#define NN_RNG_H

#include <stdint.h>

#include "proto/mix.h"

enum rng_use { RNG_INIT = 1, RNG_DROPOUT = 2, RNG_AUGMENT = 3, RNG_SAMPLE = 4 };

struct rng_key {
    uint32_t word[2];
};

/* One independent stream per (seed, use, a, b). */
static inline struct rng_key
rng_key(uint64_t seed, enum rng_use use, uint64_t a, uint64_t b)
{
    uint64_t k = mix64_pair(mix64_pair(mix64_pair(seed, (uint64_t)use), a), b);
    return (struct rng_key){{(uint32_t)k, (uint32_t)(k >> 32)}};
}

static inline void
rng_philox(const uint32_t counter[4], struct rng_key key, uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ key.word[0];
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ key.word[1];
        x3 = (uint32_t)p0;
        key.word[0] += 0x9E3779B9u;
        key.word[1] += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* Block `block` of row `row`: words 4*block .. 4*block+3 of that row's stream. */
static inline void
rng_block(struct rng_key key, uint64_t row, uint64_t block, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)row,
                                 (uint32_t)(row >> 32)};
    rng_philox(counter, key, out);
}

/* Uniform in the open interval (0, 1): the midpoints of 2^32 equal cells, exact in double. */
static inline double
rng_uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

#endif

/* exact_all.h - the next exponents of all blocks, after a sum without overflow, by the definition. */
#ifndef SUPPORT_EXACT_ALL_H
#define SUPPORT_EXACT_ALL_H

#include "compress/exact.h"

static inline void
exact_follow_blocks(const struct exact *exact, const int32_t *sum, bool settle, int16_t *exponent)
{
    for (size_t b = 0, i = 0; b < exact_blocks(exact); b++) {
        uint32_t bits = 0;
        for (; i < exact_block_first(exact, b + 1); i++)
            bits |= sum[i] < 0 ? 0u - (uint32_t)sum[i] : (uint32_t)sum[i];
        exact_follow(exact, b, bits, settle, exponent);
    }
}

/* With the floor. */
static inline void
exact_follow_all(const struct exact *exact, const int32_t *sum, bool settle, int16_t *exponent)
{
    exact_follow_blocks(exact, sum, settle, exponent);
    exact_floor(exact, exponent);
}

#endif

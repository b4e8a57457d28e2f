/* exact_all.h - the next exponents of all blocks, after a sum without overflow. */
#ifndef SUPPORT_EXACT_ALL_H
#define SUPPORT_EXACT_ALL_H

#include "compress/exact.h"

static inline void
exact_follow_all(const struct exact *exact, const int32_t *sum, bool settle, int16_t *exponent)
{
    exact_follow(exact, sum, 0, exact_blocks(exact), settle, exponent);
    exact_floor(exact, exponent);
}

#endif

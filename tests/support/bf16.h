/* bf16.h - rounding to bfloat16 by its definition, one number at a time. */
#ifndef SUPPORT_BF16_H
#define SUPPORT_BF16_H

#include <math.h>
#include <stdint.h>

#include "proto/float_bits.h"

/* The value of the bfloat16 with these bits; infinity counts as the number that would follow the largest one. */
static inline double
bf16_value(uint32_t upper)
{
    return (upper & 0x7fff) == 0x7f80 ? copysign(0x1p128, upper > 0x7fff ? -1.0 : 1.0)
                                      : (double)float_of(upper << 16);
}

/* The nearer one of the two bfloat16 between which x is, or of the same distance the even one. */
static inline float
bf16_nearest(float x)
{
    uint32_t inner = float_bits(x) >> 16; /* nearer to 0 */
    if (isnan(x) || isinf(x))
        return x;
    double below = fabs((double)x - bf16_value(inner)),
           above = fabs(bf16_value(inner + 1) - (double)x);
    return float_of((above < below || (above == below && inner % 2) ? inner + 1 : inner) << 16);
}

#endif

/* vmath_one.h - exp, tanh and sigmoid of one number, for the vector loops of nn/. vmath_simd.c explains them. */
#ifndef NN_VMATH_ONE_H
#define NN_VMATH_ONE_H

#include <stdint.h>

#include "proto/float_bits.h"

static const float EXP_MAX = 89.0f,
                   EXP_MIN = -104.5f; /* above the first exp overflows, below the second it is 0 */
static const float LOG2_E = 1.44269504f, LN2_HI = 0.693359375f, LN2_LO = -2.12194440e-4f;
static const float SHIFT = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */

static inline float
exp_one(float x)
{
    float t = x > EXP_MAX ? EXP_MAX : x;
    t = t < EXP_MIN ? EXP_MIN : t; /* NaN passes both */
    float shifted = t * LOG2_E + SHIFT;
    int32_t n = (int32_t)(float_bits(shifted) - float_bits(SHIFT));
    float whole = shifted - SHIFT;
    float r = (t - whole * LN2_HI) - whole * LN2_LO;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = (p * r) * r + r;
    int32_t half = n >> 1;
    float y = ((1.0f + p) * power_of_two(half)) * power_of_two(n - half);
    return x != x ? x : y;
}

static inline float
tanh_one(float x)
{
    float size = float_of(float_bits(x) & 0x7fffffff), square = x * x;
    float q = -0x1.75e1cep-8f;
    q = q * square + 0x1.52269cp-6f;
    q = q * square - 0x1.b83c5ap-5f;
    q = q * square + 0x1.110726p-3f;
    q = q * square - 0x1.555532p-2f;
    float small = (q * square) * x + x;
    float large = 1.0f - 2.0f / (exp_one(size + size) + 1.0f);
    float y = size < 0.625f ? small : large;
    return float_of((float_bits(y) & 0x7fffffff) | (float_bits(x) & 0x80000000));
}

static inline float
sigmoid_one(float x)
{
    float e = exp_one(float_of(float_bits(x) | 0x80000000));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

#endif

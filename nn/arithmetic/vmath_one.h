/* vmath_one.h - exp, tanh and sigmoid of one number, for the vector loops of nn/. vmath_simd.c explains them. */
#ifndef NN_VMATH_ONE_H
#define NN_VMATH_ONE_H

#include <stdint.h>

#include "proto/float_bits.h"

static const float EXP_MAX = 89.0f, EXP_MIN = -104.5f; /* above: exp overflows; below: it is 0 */
static const float LOG2_E = 1.44269504f, LN2_HI = 0.693359375f, LN2_LO = -2.12194440e-4f;
static const float SHIFT = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */

/* 2^up exp x, for x between the limits above. A float must hold it without loss. NaN gives anything. */
static inline float
exp_raised(float x, uint32_t up)
{
    float shifted = x * LOG2_E + SHIFT; /* its low bits are n */
    float whole = shifted - SHIFT;
    float r = (x - whole * LN2_HI) - whole * LN2_LO;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = (p * r) * r + r;
    return float_of(float_bits(1.0f + p) + (float_bits(shifted) << 23) + (up << 23));
}

static inline float
exp_one(float x)
{
    float t = x > EXP_MAX ? EXP_MAX : x;
    t = t < EXP_MIN ? EXP_MIN : t;
    float y = t < 0 ? exp_raised(t, 32) * 0x1p-32f : exp_raised(t, (uint32_t)-2) * 0x1p2f;
    return x != x ? x : y;
}

/* exp x for x <= 0, and NaN for NaN. */
static inline float
exp_below(float x)
{
    float t = x < EXP_MIN ? EXP_MIN : x, y = exp_raised(t, 32) * 0x1p-32f;
    return x <= 0 ? y : x;
}

/* From 0.625 on by exp; where that is large it gives 1, as does a smaller one. */
static inline float
tanh_one(float x)
{
    float size = float_of(float_bits(x) & 0x7fffffff), square = x * x;
    float q = -0x1.75e1cep-8f;
    q = q * square + 0x1.52269cp-6f;
    q = q * square - 0x1.b83c5ap-5f;
    q = q * square + 0x1.110726p-3f;
    q = q * square - 0x1.555532p-2f;
    float small = (q * square) * x + x, twice = size + size;
    float large = 1.0f - 2.0f / (exp_raised(twice < 40 ? twice : 40, 0) + 1.0f);
    float y = size >= 0.625f ? large : small;
    return float_of((float_bits(y) & 0x7fffffff) | (float_bits(x) & 0x80000000));
}

static inline float
sigmoid_one(float x)
{
    float e = exp_below(float_of(float_bits(x) | 0x80000000));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

#endif

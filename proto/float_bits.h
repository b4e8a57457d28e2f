/* float_bits.h - converts a float to its bits and back; makes powers of two. Uses libc. */
#ifndef PROTO_FLOAT_BITS_H
#define PROTO_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t
float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float
float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n for -126 <= n <= 127. */
static inline float
power_of_two(int32_t n)
{
    return float_of((uint32_t)(n + 127) << 23);
}

#endif

/* vmath_simd.c - the loops of vmath.h, written so that a compiler turns each into vector code.
 *
 * exp: x = n ln 2 + r, |r| <= ln(2)/2; exp r by its Taylor series to r^7 (truncation 5e-9); 2^n as two
 * factors, so that both ends of the range round only once more. ln 2 is split in two so that n * LN2_HI
 * is exact (Cody and Waite: Software Manual for the Elementary Functions, 1980).
 * tanh: below 5/8 x + x^3 Q(x^2), minimax as well (4e-9); above 1 - 2 / (exp 2x + 1).
 * gelu: with t = |x|, P(normal < -t) = exp(-t^2/2) s Q(s), s = 1 / (1 + 0.4 t), Q minimax for the relative error on
 * 0 <= t <= 14.5 (2.7e-7 with rounding), so that the lower tail keeps its digits.
 * sigmoid: with e = exp -|x|, 1 / (1 + e) or e / (1 + e), so that no digit cancels. */
#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath_one.h"

static inline float
below_normal(float x, float bell) /* bell = exp(-x^2/2) */
{
    float size = float_of(float_bits(x) & 0x7fffffff), s = 1.0f / (1.0f + 0.4f * size);
    float q = 0x1.07d96ap-5f;
    q = q * s - 0x1.6a06p-3f;
    q = q * s + 0x1.87564cp-2f;
    q = q * s - 0x1.7ec0d6p-2f;
    q = q * s + 0x1.e85172p-4f;
    q = q * s - 0x1.b4c644p-6f;
    q = q * s + 0x1.75cc7ep-4f;
    q = q * s + 0x1.10b53cp-3f;
    q = q * s + 0x1.46e984p-3f;
    q = q * s + 0x1.46cfccp-3f;
    float tail = (q * s) * bell;
    return x < 0 ? tail : 1.0f - tail;
}

static inline float
gelu_one(float x)
{
    return x * below_normal(x, exp_below(-0.5f * (x * x)));
}

static inline float
gelu_slope(float x)
{
    float bell = exp_below(-0.5f * (x * x));
    return below_normal(x, bell) + x * (bell * 0.398942280f); /* 1 / sqrt(2 pi) */
}

/* sigmoid(x) and sigmoid(-x), which is 1 less that with all its digits: they share exp -|x| and what it is divided
 * by. */
struct both {
    float up, down;
};

static inline struct both
sigmoid_both(float x)
{
    float e = exp_below(float_of(float_bits(x) | 0x80000000)), whole = 1.0f + e;
    return (struct both){(x < 0 ? e : 1.0f) / whole, (x > 0 ? e : 1.0f) / whole};
}

/* (1 + tanh u) / 2 = sigmoid(2 u); beyond |x| = 30 it is 0 or 1. */
static inline float
gelu_tanh_limited(float x)
{
    float t = x > 30 ? 30 : x;
    return t < -30 ? -30 : t;
}

static inline float
gelu_tanh_inner(float t)
{
    return t * (1.59576912f + 0.0713548163f * (t * t)); /* 2 sqrt(2 / pi), times 0.044715 */
}

static inline float
gelu_tanh_share(float x)
{
    return sigmoid_one(gelu_tanh_inner(gelu_tanh_limited(x)));
}

static inline float
gelu_tanh_slope(float x)
{
    float t = gelu_tanh_limited(x), inner = 1.59576912f + 0.214064449f * (t * t);
    struct both s = sigmoid_both(gelu_tanh_inner(t));
    return s.up + (t * inner) * (s.up * s.down);
}

/* The value, and *x becomes the slope; both bit for bit what the functions above give. */
static inline float
gelu_keep(float *x)
{
    float at = *x, bell = exp_below(-0.5f * (at * at)), below = below_normal(at, bell);
    *x = below + at * (bell * 0.398942280f);
    return at * below;
}

static inline float
gelu_tanh_keep(float *x)
{
    float at = *x, t = gelu_tanh_limited(at), inner = 1.59576912f + 0.214064449f * (t * t);
    struct both s = sigmoid_both(gelu_tanh_inner(t));
    *x = s.up + (t * inner) * (s.up * s.down);
    return at * s.up;
}

static inline float
silu_slope(float x)
{
    struct both s = sigmoid_both(x);
    return s.up + (x * s.up) * s.down;
}

/* y[i] = value, of x[i] */
#define EACH(name, value)                                                                          \
    void SIMD_NAME(name)(const float *x, float *y, size_t n)                                       \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (value);                                                                        \
    }
EACH(vmath_exp, exp_one(x[i]))
EACH(vmath_tanh, tanh_one(x[i]))
EACH(vmath_sigmoid, sigmoid_one(x[i]))
EACH(vmath_relu, 0.0f > x[i] ? 0.0f : x[i])
EACH(vmath_gelu, gelu_one(x[i]))
EACH(vmath_gelu_tanh, x[i] * gelu_tanh_share(x[i]))
EACH(vmath_silu, x[i] * sigmoid_one(x[i]))
EACH(vmath_multiply, y[i] * x[i])
EACH(vmath_tanh_grad, y[i] * (1.0f - x[i] * x[i])) /* x: the output, y: its gradient */
EACH(vmath_sigmoid_grad, y[i] * (x[i] * (1.0f - x[i])))

/* dx[i] = dy[i] slope(x[i]) */
#define EACH_SLOPE(name, slope)                                                                    \
    void SIMD_NAME(name)(const float *x, const float *dy, float *dx, size_t n)                     \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            dx[i] = dy[i] * slope(x[i]);                                                           \
    }
EACH_SLOPE(vmath_gelu_grad, gelu_slope)
EACH_SLOPE(vmath_gelu_tanh_grad, gelu_tanh_slope)
EACH_SLOPE(vmath_silu_grad, silu_slope)

/* The value, and x becomes the slope. */
#define EACH_KEEP(name, keep)                                                                      \
    void SIMD_NAME(name)(float *x, float *y, size_t n)                                             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = keep(&x[i]);                                                                    \
    }
EACH_KEEP(vmath_gelu_keep, gelu_keep)
EACH_KEEP(vmath_gelu_tanh_keep, gelu_tanh_keep)

void
SIMD_NAME(vmath_relu_grad)(const float *y, float *dy, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float d = dy[i];
        dy[i] = y[i] > 0 ? d : 0;
    }
}

/* In integers, as the instructions of AVX-512 for it make denormals 0. */
void
SIMD_NAME(vmath_bf16)(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = float_bits(x[i]), odd = bits >> 16 & 1;
        bool nan = (bits & 0x7fffffff) > 0x7f800000;
        x[i] = float_of((nan ? bits | 0x00400000 : bits + 0x7fff + odd) & 0xffff0000);
    }
}

void
SIMD_NAME(vmath_add)(const float *a, const float *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

/* Rows in fours halve the traffic on sum; the order of additions stays that of the rows. */
void
SIMD_NAME(vmath_sum_rows)(const float *x, size_t stride, size_t rows, float *sum, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= rows; i += 4, x += 4 * stride) {
        const float *a = x, *b = x + stride, *c = b + stride, *d = c + stride;
        for (size_t j = 0; j < n; j++)
            sum[j] = (((sum[j] + a[j]) + b[j]) + c[j]) + d[j];
    }
    for (; i < rows; i++, x += stride)
        for (size_t j = 0; j < n; j++)
            sum[j] += x[j];
}

/* *sum = the sum of `term`, of x[at], over 16 lanes, then lane by lane in double. */
#define LANES_SUM(term)                                                                            \
    enum { LANES = 16 };                                                                           \
    float lane[LANES] = {0};                                                                       \
    size_t i = 0;                                                                                  \
    for (size_t at; i + LANES <= n; i += LANES)                                                    \
        for (size_t j = 0; j < LANES; j++)                                                         \
            at = i + j, lane[j] += (term);                                                         \
    for (size_t j = 0, at; (at = i + j) < n; j++)                                                  \
        lane[j] += (term);                                                                         \
    *sum = 0;                                                                                      \
    for (size_t j = 0; j < LANES; j++)                                                             \
        *sum += (double)lane[j];

void
SIMD_NAME(vmath_sum)(const float *x, size_t n, double *sum)
{
    LANES_SUM(x[at])
}

void
SIMD_NAME(vmath_squares)(const float *x, float mean, size_t n, double *sum)
{
    LANES_SUM((x[at] - mean) * (x[at] - mean))
}

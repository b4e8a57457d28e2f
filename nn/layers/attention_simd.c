/* attention_simd.c - one query of attention.c: its softmax, the same again from what was kept, and its derivative. */
#include "nn/arithmetic/simd.h"

#include <math.h>

#include "nn/arithmetic/vmath_one.h"

enum { LANES = 16 };

static inline float
largest(const float *s, size_t n)
{
    float lane[LANES], top = s[0];
    for (size_t j = 0; j < LANES; j++)
        lane[j] = s[j];
    for (size_t i = LANES; i < n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] = s[i + j] > lane[j] ? s[i + j] : lane[j];
    for (size_t j = 0; j < LANES; j++)
        top = lane[j] > top ? lane[j] : top;
    return top;
}

/* Beyond the last key up to whole lanes -inf, the exponential of which is 0. Returns how many there are then. */
static inline size_t
lanes_fill(float *s, size_t n)
{
    for (; n % LANES != 0; n++)
        s[n] = -INFINITY;
    return n;
}

/* kept: the largest score, and 1 / the sum of exponentials. */
void
SIMD_NAME(softmax_forward)(float *s, float scale, float kept[2], size_t n)
{
    double sum;
    n = lanes_fill(s, n);
    float top = largest(s, n);
    for (size_t i = 0; i < n; i++)
        s[i] = exp_below((s[i] - top) * scale);
    SIMD_NAME(vmath_sum)(s, n, &sum);
    float share = (float)(1 / sum);
    for (size_t i = 0; i < n; i++)
        s[i] *= share;
    kept[0] = top;
    kept[1] = share;
}

/* p of softmax_forward once more, the same bits, from what it kept. */
void
SIMD_NAME(softmax_recompute)(float *s, float scale, const float kept[2], size_t n)
{
    float top = kept[0], share = kept[1];
    n = lanes_fill(s, n);
    for (size_t i = 0; i < n; i++)
        s[i] = exp_below((s[i] - top) * scale) * share;
}

void
SIMD_NAME(softmax_backward)(const float *p, float *dp, float scale, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)p[i] * (double)dp[i];
    float mean = (float)sum;
    for (size_t i = 0; i < n; i++)
        dp[i] = (p[i] * (dp[i] - mean)) * scale;
}

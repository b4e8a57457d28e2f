/* pooling_simd.c - one position of the window against a whole line of outputs.
 *
 * A line starts at minus infinity and the position of its first element, which wins if all are. */
#include "nn/simd.h"

/* stride is a constant in every call, which lets the compiler load by shuffles. */
static inline __attribute__((always_inline)) void
line(const float *x, size_t stride, uint32_t from, float *y, uint32_t *at, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float v = x[j * stride], best = y[j];
        int wins = (v > best) | (v != v);
        uint32_t here = from + (uint32_t)(j * stride);
        y[j] = wins ? v : best;
        at[j] = wins ? here : at[j];
    }
}

void
SIMD_NAME(pooling_max_line)(const float *x, size_t stride, uint32_t from, float *y, uint32_t *at,
                            size_t n)
{
    if (stride == 1)
        line(x, 1, from, y, at, n);
    else if (stride == 2)
        line(x, 2, from, y, at, n);
    else
        line(x, stride, from, y, at, n);
}

void
SIMD_NAME(pooling_max_start)(size_t stride, size_t pad, uint32_t from, float *y, uint32_t *at,
                             size_t n)
{
    for (size_t j = 0; j < n; j++) {
        size_t first = j * stride;
        at[j] = from + (uint32_t)(first > pad ? first - pad : 0);
        y[j] = -__builtin_inff();
    }
}

/* pooling_simd.c - the largest element of many neighbouring windows at once: plain loops that the compiler turns into
 * vectors where the size of a window is known. */
#include "nn/arithmetic/simd.h"

/* y and at of n windows of rows x columns elements, the first at x[0], which is element `from`. */
static inline __attribute__((always_inline)) void
line(const float *restrict x, size_t width, size_t rows, size_t columns, size_t stride,
     uint32_t from, float *restrict y, uint32_t *restrict at, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        uint32_t where = from + (uint32_t)(j * stride);
        const uint32_t here = where;
        float best = x[j * stride];
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < columns; k++) {
                float v = x[j * stride + i * width + k];
                bool wins = (v > best) | (v != v);
                best = wins ? v : best;
                where = wins ? here + (uint32_t)(i * width + k) : where;
            }
        y[j] = best;
        at[j] = where;
    }
}
void
SIMD_NAME(pooling_max_line)(const float *x, size_t width, size_t rows, size_t columns,
                            size_t stride, uint32_t from, float *y, uint32_t *at, size_t n)
{
    if (stride == 2 && columns == 2 && rows == 2)
        line(x, width, 2, 2, 2, from, y, at, n);
    else if (stride == 2 && columns == 3 && rows == 3)
        line(x, width, 3, 3, 2, from, y, at, n);
    else if (stride == 1 && columns == 2 && rows == 2)
        line(x, width, 2, 2, 1, from, y, at, n);
    else if (stride == 1 && columns == 3 && rows == 3)
        line(x, width, 3, 3, 1, from, y, at, n);
    else
        line(x, width, rows, columns, stride, from, y, at, n);
}

void
SIMD_NAME(pooling_mark)(const float *y, uint32_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] |= y[i] > 0 ? 0 : POOLING_MARK;
}

/* pooling_simd.c - the largest element of many neighbouring windows at once, one window per lane.
 *
 * The last block of a line is moved back to end with it, so some windows are done twice. */
#include <string.h>

#include "nn/arithmetic/simd.h"

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));

/* v = x[0], x[stride], ... reading nothing beyond the last of them. */
static inline __attribute__((always_inline)) void
load_v8(v8 *v, const float *x, size_t stride)
{
    v8 a, b;
    memcpy(&a, x, sizeof a);
    if (stride == 1) {
        *v = a;
    } else if (stride == 2) {
        memcpy(&b, x + 7, sizeof b);
        *v = (v8){a[0], a[2], a[4], a[6], b[1], b[3], b[5], b[7]};
    } else {
        *v = (v8){x[0],          x[stride],     x[2 * stride], x[3 * stride],
                  x[4 * stride], x[5 * stride], x[6 * stride], x[7 * stride]};
    }
}

static inline __attribute__((always_inline)) void
load_v4(v4 *v, const float *x, size_t stride)
{
    *v = (v4){x[0], x[stride], x[2 * stride], x[3 * stride]};
}

/* y and at of LANES windows of rows x columns elements, the first at x[0], which is element `from`. */
#define BLOCK(vf, vi, LANES)                                                                       \
    static inline __attribute__((always_inline)) void block_##vf(                                  \
        const float *x, size_t width, size_t rows, size_t columns, size_t stride, uint32_t from,   \
        float *y, uint32_t *at)                                                                    \
    {                                                                                              \
        vf best, v;                                                                                \
        vi where, lane = {0};                                                                      \
        load_##vf(&best, x, stride);                                                               \
        for (int j = 0; j < LANES; j++)                                                            \
            lane[j] = (int32_t)(from + (uint32_t)j * (uint32_t)stride);                            \
        where = lane;                                                                              \
        for (size_t i = 0; i < rows; i++)                                                          \
            for (size_t k = 0; k < columns; k++) {                                                 \
                load_##vf(&v, x + i * width + k, stride);                                          \
                vi wins = (v > best) | (v != v);                                                   \
                vi here = lane + (int32_t)(i * width + k);                                         \
                best = (vf)((wins & (vi)v) | (~wins & (vi)best));                                  \
                where = (wins & here) | (~wins & where);                                           \
            }                                                                                      \
        memcpy(y, &best, sizeof best);                                                             \
        memcpy(at, &where, sizeof where);                                                          \
    }

BLOCK(v8, i8, 8)
BLOCK(v4, i4, 4)

static inline __attribute__((always_inline)) void
line(const float *x, size_t width, size_t rows, size_t columns, size_t stride, uint32_t from,
     float *y, uint32_t *at, size_t n)
{
    size_t lanes = n >= 8 ? 8 : 4;
    for (size_t j = 0; j < n; j += lanes) {
        if (j + lanes > n)
            j = n - lanes;
        const float *first = x + j * stride;
        uint32_t here = from + (uint32_t)(j * stride);
        if (lanes == 8)
            block_v8(first, width, rows, columns, stride, here, y + j, at + j);
        else
            block_v4(first, width, rows, columns, stride, here, y + j, at + j);
    }
}

void
SIMD_NAME(pooling_max_line)(const float *x, size_t width, size_t rows, size_t columns,
                            size_t stride, uint32_t from, float *y, uint32_t *at, size_t n)
{
    if (stride == 2 && columns == 2 && rows == 2)
        line(x, width, 2, 2, 2, from, y, at, n); /* constants unroll the loops */
    else if (stride == 2)
        line(x, width, rows, columns, 2, from, y, at, n);
    else if (stride == 1)
        line(x, width, rows, columns, 1, from, y, at, n);
    else
        line(x, width, rows, columns, stride, from, y, at, n);
}

void
SIMD_NAME(pooling_mark)(const float *y, uint32_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] |= y[i] > 0 ? 0 : POOLING_MARK;
}

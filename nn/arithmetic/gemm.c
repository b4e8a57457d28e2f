/* gemm.c - which variant of the product loop runs; sizes of packed operands and of shares of the depth. */
#include "nn/arithmetic/gemm.h"

#include <string.h>

static gemm_panel_fn *chosen = gemm_panel_base;

size_t
gemm_variants(gemm_panel_fn *out[GEMM_VARIANTS])
{
    size_t count = 0;
#if defined(__x86_64__)
    if (simd_avx512())
        out[count++] = gemm_panel_avx512;
    if (simd_avx2())
        out[count++] = gemm_panel_avx2;
#endif
    out[count++] = gemm_panel_base;
    return count;
}

bool
gemm_check(gemm_panel_fn *f)
{
    enum { M = 18, K = 21, RUN = 7 };
    float a[M * K], b[K * GEMM_COLUMNS], c[M * GEMM_COLUMNS], expected[M * GEMM_COLUMNS];
    struct gemm_view view = {a, M, 0, K, RUN, RUN, 1};
    for (size_t i = 0; i < M * K; i++)
        a[i] = (float)((int)(i * 7919 % 2001) - 1000) / 977.0f;
    for (size_t i = 0; i < K * GEMM_COLUMNS; i++)
        b[i] = (float)((int)(i * 6007 % 2003) - 1000) / 991.0f;
    memset(c, 0, sizeof c);
    memset(expected, 0, sizeof expected);
    for (size_t m = 1; m <= M; m++)
        for (size_t n = 1; n <= GEMM_COLUMNS; n++) {
            bool add = (m + n) % 2;
            f(&view, m, n, K, b, add, c, GEMM_COLUMNS);
            gemm_panel_base(&view, m, n, K, b, add, expected, GEMM_COLUMNS);
            if (memcmp(c, expected, sizeof c) != 0)
                return false;
        }
    return true;
}

bool
gemm_init(void)
{
    gemm_panel_fn *f[GEMM_VARIANTS];
    size_t i = 0, count = gemm_variants(f);
    while (i + 1 < count && !gemm_check(f[i]))
        i++;
    chosen = f[i];
    return i == 0;
}

bool
gemm_slow(void)
{
#if defined(__x86_64__)
    return chosen == gemm_panel_base;
#else
    return false;
#endif
}

void
gemm_panel(const struct gemm_view *a, size_t m, size_t n, size_t k, const float *b, bool add,
           float *c, size_t ldc)
{
    chosen(a, m, n, k, b, add, c, ldc);
}

size_t
gemm_packed_size(size_t k, size_t n)
{
    return (n + GEMM_COLUMNS - 1) / GEMM_COLUMNS * GEMM_COLUMNS * k;
}

size_t
gemm_depth(size_t k)
{
    size_t shares = (k + GEMM_DEPTH / 2) / GEMM_DEPTH;
    return shares <= 1 ? k : (k + shares - 1) / shares;
}

/* blas.h - the one include of cblas, and the one way we call it.
 *
 * Bits of its products depend on shape, kernel and threads (measured with OpenBLAS 0.3.21). So a layer that
 * calls it does so with shapes that only its own and the number of rows decide, the kernel is part of
 * what nodes compare when they meet, and a call runs on the caller's thread alone (nn_init). */
#ifndef NN_BLAS_H
#define NN_BLAS_H

#include <cblas.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <assert.h>

/* Dense layers use it; else gemm.h. Set by nn_init. */
extern bool blas_used;

/* C[m, n] = op(A)[m, k] op(B)[k, n] + beta C, all row-major; `at` and `bt`: stored transposed. An empty
 * sum (k = 0) leaves beta C. */
static inline void
blas_gemm(bool at, bool bt, size_t m, size_t n, size_t k, const float *a, size_t lda,
          const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    assert(m <= INT_MAX);
    assert(n <= INT_MAX);
    assert(k <= INT_MAX);
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        for (size_t i = 0; beta == 0 && i < m; i++)
            for (size_t j = 0; j < n; j++)
                c[i * ldc + j] = 0;
        return;
    }
    cblas_sgemm(CblasRowMajor, at ? CblasTrans : CblasNoTrans, bt ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, 1.0f, a, (blasint)lda, b, (blasint)ldb, beta, c,
                (blasint)ldc);
}

#endif

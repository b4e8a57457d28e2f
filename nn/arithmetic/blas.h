/* blas.h - the only include of cblas, and the only way we call it.
 *
 * The bits of its products depend on shape, kernel and number of threads (measured with OpenBLAS 0.3.21). So the
 * shapes of a layer's calls depend only on the layer and the number of rows, nodes compare the kernel when they
 * meet, and a call runs only on the caller's thread (nn_init). */
#ifndef NN_BLAS_H
#define NN_BLAS_H

#include <cblas.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <assert.h>

/* True: dense layers use OpenBLAS; else gemm.h. Set by nn_init. */
extern bool blas_used;

/* C[m, n] = op(A)[m, k] op(B)[k, n] + beta C, all row-major. `at` and `bt`: stored transposed. With k = 0 the
 * result is beta C. */
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

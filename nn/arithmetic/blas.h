/* blas.h - OpenBLAS, for jobs that do not ask for exact results (train.exact: no).
 *
 * The program does not need it: blas_open loads it when a job wants it. The bits of its products depend on shape,
 * kernel and number of threads (measured with OpenBLAS 0.3.21), so nothing exact goes through it. A call runs only
 * on the caller's thread. */
#ifndef NN_BLAS_H
#define NN_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether large products of dense layers go through OpenBLAS. Set by nn_init. */
extern bool blas_used;
/* If so, is this one of them? With few rows, or where all fits into the caches, product.h is as fast or faster. */
bool blas_gains(size_t m, size_t n, size_t k);

/* Loads the library, with one thread. Before there are other threads. Returns the name of its kernel, or NULL if
 * there is no such library here. */
const char *blas_open(void);
/* See nn_reserve. */
int blas_reserve(unsigned threads);

/* C[m, n] = op(A)[m, k] op(B)[k, n] + beta C, all row-major. `at` and `bt`: stored transposed. With k = 0 the
 * result is beta C. After blas_open. */
void blas_gemm(bool at, bool bt, size_t m, size_t n, size_t k, const float *a, size_t lda,
               const float *b, size_t ldb, float beta, float *c, size_t ldc);

#endif

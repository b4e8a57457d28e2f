/* gemm.h - our inner loop of matrix products and convolutions.
 *
 * All convolutions use it, and dense layers unless the job asks for an OpenBLAS kernel (nn_init).
 *
 * Every element of a product is, by definition, the plain sum in order of k,
 *
 *     c[i][j] = ((c0 + a[i][0] b[0][j]) + a[i][1] b[1][j]) + ...          c0 = 0 or the old c[i][j]
 *
 * each multiplication and addition rounded on its own. So its bits depend on nothing but the operands: not on
 * the number of rows or threads, nor on the instruction set, and three nested loops are an exact
 * reference. Separate multiplies and adds run at the speed of fused ones where a core has adders beside
 * its multipliers (AMD Zen), and at half of it where it has not.
 *
 * The loop order is that of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, ACM TOMS
 * 2008) without their packing of A: six rows of A by sixteen columns of B in registers, B in panels
 * [k][16]. A is a view with two strides per index, so the rows may also be the pixels of an image and k
 * the window around a pixel (implicit GEMM: Chetlur et al., cuDNN, 2014):
 *
 *     a[i][k] = at[i / width * line + i % width * row + k / run * jump + k % run * step]
 */
#ifndef NN_GEMM_H
#define NN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/simd.h"

enum {
    GEMM_COLUMNS = 16, /* of a panel of B */
    GEMM_DEPTH = 256,  /* k worth taking at a time: a panel of B then stays in the level-1 cache */
    GEMM_VARIANTS = 3,
};

struct gemm_view {
    const float *at;
    size_t width, line, row; /* width >= 1 */
    size_t run, jump, step;  /* run, step >= 1; k is a multiple of run */
};

/* C[m, n] (rows `ldc` apart) = A[m, k] B[k, n], added to the old C when `add`. b: panel [k][16] of which the
 * first n columns count, all when n > 16. n >= 1, k >= 1. */
void gemm_panel(const struct gemm_view *a, size_t m, size_t n, size_t k, const float *b, bool add,
                float *c, size_t ldc);

/* Choose the widest variant of gemm_panel that this CPU has and that computes what the base variant does,
 * which is in use until then. False when a wider one failed. Before other threads. */
bool gemm_init(void);
/* The variants that this CPU has, the widest first. Returns how many. */
size_t gemm_variants(gemm_panel_fn *out[GEMM_VARIANTS]);
/* Does `f` compute what the base variant does, on tiles of every shape? */
bool gemm_check(gemm_panel_fn *f);

/* Equal shares of k of about GEMM_DEPTH; 1 or more. */
size_t gemm_depth(size_t k);
/* Floats of the panels of a [k, n] matrix. */
size_t gemm_packed_size(size_t k, size_t n);
/* Panels of row-major B [k, n], rows `ldb` apart: out [ceil(n/16)][k][16], filled up with zeros. */
void gemm_pack(const float *b, size_t ldb, size_t k, size_t n, float *out);
/* The same of a B stored as its transpose [n, k]. */
void gemm_pack_transposed(const float *b, size_t ldb, size_t k, size_t n, float *out);
/* y[n, m] = x[m, n] transposed. */
void gemm_transpose(const float *x, size_t ldx, size_t m, size_t n, float *y, size_t ldy);

#endif

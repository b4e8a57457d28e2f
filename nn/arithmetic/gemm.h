/* gemm.h - the definition of our products, and a loop for small ones.
 *
 * Attention uses it. All other layers have product.h and windows.h, of the same definition.
 *
 * By definition, every element of a product is one chain of fused multiply-adds in the order of k,
 *
 *     c[i][j] = fma(a[i][k-1], b[k-1][j], ... fma(a[i][1], b[1][j], fma(a[i][0], b[0][j], c0)))
 *
 * with c0 = 0 or the old c[i][j], and one rounding per step. So its bits depend only on the operands, and not on
 * blocks, on the number of rows or threads, or on the instruction set. Three nested loops with fmaf are an exact
 * reference. A CPU without such an instruction computes the same bits slowly (fused.h).
 *
 * The loop order is that of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, ACM TOMS
 * 2008), but A is not packed: six rows of A by sixteen columns of B in registers, B in panels [k][16]. A is a view
 * with two strides per index, so its rows may also be the pixels of an image and k the window around a pixel
 * (implicit GEMM: Chetlur et al., cuDNN, 2014):
 *
 *     a[i][k] = at[i / width * line + i % width * row + k / run * jump + k % run * step] */
#ifndef NN_GEMM_H
#define NN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/arithmetic/simd.h"

enum {
    GEMM_COLUMNS = 16, /* columns of a panel of B */
    /* how many k to take at a time: a panel of B then stays in the level-1 cache */
    GEMM_DEPTH = 256,
    GEMM_VARIANTS = 3,
};

struct gemm_view {
    const float *at;
    size_t width, line, row; /* width >= 1 */
    size_t run, jump, step;  /* run, step >= 1; k is a multiple of run */
};

/* C[m, n] (rows `ldc` apart) = A[m, k] B[k, n], added to the old C if `add`. b: a panel [k][16]; its first n
 * columns are used, all if n > 16. n >= 1, k >= 1. */
void gemm_panel(const struct gemm_view *a, size_t m, size_t n, size_t k, const float *b, bool add,
                float *c, size_t ldc);

/* Chooses the widest variant of gemm_panel that this CPU has and that computes the same as the base variant; until
 * then the base variant is used. Returns false if a wider variant computed something else. Call it before there are
 * other threads. */
bool gemm_init(void);
/* Does what gemm_init chose go without an instruction for fused multiply-adds? */
bool gemm_slow(void);
/* Lists the variants that this CPU has, the widest first. Returns how many. */
size_t gemm_variants(gemm_panel_fn *out[GEMM_VARIANTS]);
/* Does `f` compute the same as the base variant, on tiles of every shape? */
bool gemm_check(gemm_panel_fn *f);

/* Number of equal parts of k with about GEMM_DEPTH each; at least 1. */
size_t gemm_depth(size_t k);
/* Number of floats in the panels of a [k, n] matrix. */
size_t gemm_packed_size(size_t k, size_t n);
/* Makes panels of row-major B [k, n], rows `ldb` apart: out [ceil(n/16)][k][16], filled up with zeros. */
void gemm_pack(const float *b, size_t ldb, size_t k, size_t n, float *out);
/* The same for a B that is stored transposed, [n, k]. */
void gemm_pack_transposed(const float *b, size_t ldb, size_t k, size_t n, float *out);
/* y[n, m] = x[m, n] transposed. */
void gemm_transpose(const float *x, size_t ldx, size_t m, size_t n, float *y, size_t ldy);

#endif

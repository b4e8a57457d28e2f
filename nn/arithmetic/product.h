/* product.h - products of matrices, C[m, n] = A[m, k] B[k, n], whose every element is the chain of fused
 * multiply-adds that gemm.h defines.
 *
 * The bits of an element depend on nothing but its row of A and its column of B, so the caller is free to cut a
 * product by rows and columns, and the library by depth. Both operands are views (gemm.h), which are packed block by
 * block into panels: A by 8 rows, B by as many columns as a tile in registers has. Blocks stay in the caches (Goto
 * and van de Geijn, ACM TOMS 2008).
 *
 * product_sum is for the gradient of a weight: k runs over the rows of several shards. The chain of each shard stays in
 * registers, is rounded to integers there, and these are added up; floats are never stored. The rule is that of
 * compress/exact.h, and comes as plain numbers. */
#ifndef NN_PRODUCT_H
#define NN_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/arithmetic/gemm.h"

struct product {
    size_t m, n, k; /* any may be 0 */
    struct gemm_view a;
    struct gemm_view b;  /* its row j is column j of B */
    const float *packed; /* not NULL: B as product_pack left it, and b is not used */
    float *c;            /* rows ldc apart */
    size_t ldc;
    bool add;          /* chains start with the old C, else with 0 */
    const float *bias; /* [n], added to each row at the end; or NULL */
    bool relu;         /* then: negative elements become 0 */
};

/* A matrix with rows `ld` apart, and its transposed. */
struct gemm_view product_rows(const float *at, size_t ld);
struct gemm_view product_columns(const float *at, size_t ld);

/* Floats of scratch memory for product_run, and for product_sum. */
size_t product_scratch(size_t m, size_t n, size_t k);
size_t product_sum_scratch(size_t m, size_t n, size_t k);

void product_run(const struct product *p, float *scratch);

/* Packs all of B[k, n] once for many products with it. product_packed: floats of it. */
size_t product_packed(size_t n, size_t k);
void product_pack(const struct gemm_view *b, size_t n, size_t k, float *packed);

struct product_sum {
    const size_t *end; /* [parts] of k, rising; the last one is k */
    size_t parts;
    int32_t *sum; /* of the tensor; element (i, j) is number first + i * ld + j */
    size_t first, ld;
    const float *scale; /* of each `block` elements of the tensor: 2^something */
    size_t block;       /* PRODUCT_WIDE_SUM.. */
    float
        limit; /* an integer: all |element * scale| up to it are rounded to nearest, even ones of two */
    /* Gets row pieces of tiles of a part in which an element is above the limit, or is no number: part, number of the
     * first element, elements. Nothing of them is added to the sum here. */
    void (*outside)(void *ctx, size_t part, size_t first, const float *c, size_t n);
    void *ctx;
    /* Grow by the sum of all integers added, and of each times its number, modulo 2^32. */
    uint32_t plain, weighted;
};

/* sum += the integers of each part of A B. p->c, ldc, add and bias are not used. */
void product_sum(const struct product *p, struct product_sum *sum, float *scratch);

/* One variant per instruction set; product.c chooses. */
SIMD_DECLARE(void, product_run, (const struct product *p, float *scratch));
SIMD_DECLARE(void, product_pack, (const struct gemm_view *b, size_t n, size_t k, float *packed));
SIMD_DECLARE(void, product_sum, (const struct product *p, struct product_sum *sum, float *scratch));

/* Blocks, at most: A of TALL x DEPTH and B of DEPTH x WIDE in the second cache, a panel of B in the first. */
enum {
    PRODUCT_DEPTH = 256,
    PRODUCT_TALL = 256,
    PRODUCT_WIDE = 1008,    /* a multiple of each variant's columns: 48, 24 and 12 */
    PRODUCT_WIDE_SUM = 480, /* where unfinished chains are kept beside it */
    PRODUCT_GROUP = 8,      /* rows in a panel of A */
    PRODUCT_COLUMNS_MAX = 48,
};

/* Those in use, which change nothing but the speed. */
extern struct product_blocks {
    size_t tall, wide;
    size_t panel; /* bytes of a panel of windows (windows.h) */
} product_blocks;
/* Chooses blocks for a first and a second cache of so many bytes; 0: unknown. Call it before there are other threads. */
void product_tune(size_t first, size_t second);

#endif

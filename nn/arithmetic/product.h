/* product.h - products of matrices, C[m, n] = A[m, k] B[k, n], and their definition.
 *
 * By definition, every element is one chain of fused multiply-adds in the order of k,
 *
 *     c[i][j] = fma(a[i][k-1], b[k-1][j], ... fma(a[i][1], b[1][j], fma(a[i][0], b[0][j], c0)))
 *
 * with c0 = 0 or the old c[i][j], and one rounding per step. So its bits depend only on its row of A and its column of
 * B, and not on blocks, on the number of rows or threads, or on the instruction set. Three nested loops with fmaf are
 * an exact reference. A CPU without such an instruction computes the same bits slowly (fused.h).
 *
 * With product_bf16, operands are first rounded to bfloat16 (product_rounded), and k goes in blocks of 32, the last
 * one filled up with zeros:
 *
 *     e = fma(a[i][30], b[30][j], ... fma(a[i][2], b[2][j], fma(a[i][0], b[0][j], 0)))    over even k of the block
 *     o = the same over odd k
 *     c[i][j] = c[i][j] + (e + o)
 *
 * Where c0 is the old c[i][j], less than 2^-100 counts as 0. So everything is a multiple of 2^-123, and no sum can be a
 * denormal, with which CPUs differ: AMX computes just this (TDPBF16PS), and every other CPU the same bits. AVX512_BF16
 * has an instruction for two steps of one chain (VDPBF16PS); the others go twice over a block.
 *
 * The caller is free to divide a product by rows and columns, and the library by depth. Both operands are views. They
 * are packed block by block into panels, A by 8 rows, B by as many columns as a tile in registers has, unless they are
 * small and lie well. Blocks stay in the caches (Goto and van de Geijn: Anatomy of High-Performance Matrix
 * Multiplication, ACM TOMS 2008).
 *
 * Packing B costs much where A has few rows. Then the product is turned round: B is read as it lies, A is packed in
 * its place, and tiles are turned when they are stored (product_turned_simd.c).
 *
 * product_sum is for the gradient of a weight: k runs over the rows of several shards. The chain of each shard stays in
 * registers, is rounded to integers there, to nearest or by chance, and these are added up; floats are never stored.
 * The rule is that of compress/exact.h, and comes as plain numbers. */
#ifndef NN_PRODUCT_H
#define NN_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/arithmetic/simd.h"

/* Which of the two definitions holds, for every product of this process. Set by nn_precision. */
extern bool product_bf16;

/* With it and AVX-512: does VDPBF16PS (AVX512_BF16) compute products? It changes nothing but the speed. Panels then
 * hold pairs, which it multiplies in one instruction: k in the upper half of a float, k + 2 in the lower one. */
extern bool product_paired;

/* A matrix with two strides per index, so that its rows may also be the pixels of an image and k the window around a
 * pixel (implicit GEMM: Chetlur et al., cuDNN, 2014):
 *
 *     a[i][k] = at[i / width * line + i % width * row + k / run * jump + k % run * step] */
struct gemm_view {
    const float *at;
    size_t width, line, row; /* width >= 1 */
    size_t run, jump, step;  /* run, step >= 1 */
};

/* Half of what some products have is zero, or not wanted; row i of C or A has i + diagonal + 1 elements up to the
 * diagonal. */
enum product_shape {
    PRODUCT_WHOLE,
    PRODUCT_C_LOWER, /* what lies above the diagonal of C need not be computed; anything may be there */
    PRODUCT_A_LOWER, /* above the diagonal of A are zeros, */
    PRODUCT_A_UPPER, /* or below it: they may be left out of a chain, which is the same but for NaN, infinity and -0.
                      * Those within a block of PRODUCT_BLOCK k of the diagonal are read, so they must be there. */
};

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
    enum product_shape shape;
    size_t diagonal; /* if the shape has one */
    /* Not NULL: gets each block of C when it is complete, while it is in the second cache: c of rows [i, i + m),
     * columns [j, j + n). */
    void (*done)(void *ctx, size_t i, size_t j, size_t m, size_t n);
    void *ctx;
};

/* A matrix with rows `ld` apart, and its transposed. */
struct gemm_view product_rows(const float *at, size_t ld);
struct gemm_view product_columns(const float *at, size_t ld);

/* Floats of scratch memory for product_run, and for product_sum. */
size_t product_scratch(size_t m, size_t n, size_t k);
size_t product_sum_scratch(size_t m, size_t n, size_t k);

void product_run(const struct product *p, float *scratch);

/* What products do to their operands themselves, for the panels [m, k] that windows_run takes (windows.h). */
void product_operand_panels(float *panels, size_t m, size_t k);
/* Has this CPU an instruction for product_paired? */
bool product_pairs_here(void);

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
    /* |element * scale| up to it become integers; if they are rounded to nearest, even ones of two, it is one, too. */
    float limit;
    /* [parts]; NULL: they are rounded so. Else they are rounded up by a chance, of 2^24, which MIX24_DEFINE
     * (proto/mix.h) draws from (key[part] + the element's number) * MIX24_STEP. */
    const uint32_t *key;
    /* Gets row pieces of tiles of a part in which an element is above the limit, or is no number: part, number of the
     * first element, elements. Nothing of them is added to the sum here. */
    void (*outside)(void *ctx, size_t part, size_t first, const float *c, size_t n);
    void *ctx;
    /* Grow by the sum of all integers added, and of each times its number, modulo 2^32. */
    uint32_t plain, weighted;
};

/* sum += the integers of each part of A B. p->c, ldc, add and bias are not used. */
void product_sum(const struct product *p, struct product_sum *sum, float *scratch);

/* With product_bf16, chooses product_paired. Checks that the variant for the instruction set in use computes the same
 * as the base variant; while it does not, it goes without product_paired, or the next smaller set is used from then on,
 * for everything. Returns false if that was so. Call it before there are other threads. */
bool product_init(void);
/* Does the set in use go without an instruction for fused multiply-adds? */
bool product_slow(void);
/* Does `run` compute the same as product_run_base, on tiles of every shape? */
bool product_check(void (*run)(const struct product *p, float *scratch));

/* One variant per instruction set; product.c chooses. */
SIMD_DECLARE(void, product_run, (const struct product *p, float *scratch));
SIMD_DECLARE(void, product_turned, (const struct product *p, float *scratch));
SIMD_DECLARE(void, product_pack, (const struct gemm_view *b, size_t n, size_t k, float *packed));
SIMD_DECLARE(void, product_operand_panels, (float *panels, size_t m, size_t k));
SIMD_DECLARE(void, product_sum, (const struct product *p, struct product_sum *sum, float *scratch));

/* Blocks, at most: A of TALL x DEPTH and B of DEPTH x WIDE in the second cache, a panel of B in the first. */
enum {
    PRODUCT_DEPTH = 256,
    PRODUCT_TALL = 256,
    PRODUCT_WIDE = 1008,         /* a multiple of each variant's columns: 48, 24 and 12 */
    PRODUCT_WIDE_SUM = 480,      /* where unfinished chains are kept beside it */
    PRODUCT_GROUP = 8,           /* rows in a panel of A */
    PRODUCT_DEPTH_TURNED = 1024, /* of panels that stay in the second cache */
    PRODUCT_COLUMNS_MAX = 48,
    PRODUCT_BLOCK = 32, /* of k, with product_bf16 */
};

/* Where k may be divided: after multiples of this. */
static inline size_t
product_unit(void)
{
    return product_bf16 ? PRODUCT_BLOCK : 1;
}

/* Those in use, which change nothing but the speed. */
extern struct product_blocks {
    size_t tall, wide;
    size_t panel; /* bytes of a panel of windows (windows.h) */
} product_blocks;
/* Chooses blocks for a first and a second cache of so many bytes; 0: unknown. Call it before there are other
 * threads. */
void product_tune(size_t first, size_t second);

/* Rows of A, a multiple of PRODUCT_COLUMNS_MAX, of which panels that deep take as much as a block of B otherwise. */
size_t product_turned_rows(size_t deep);

#endif

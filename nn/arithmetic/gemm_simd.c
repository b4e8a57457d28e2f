/* gemm_simd.c - the loop of gemm.h in vector registers, and the copies that feed it.
 *
 * Each step of k takes one panel row of B and multiplies it with one element per row of A. A machine with
 * narrower vectors goes over the 16 columns several times. */
#include "nn/arithmetic/gemm.h"

#include <string.h>

#include "nn/arithmetic/fused.h"
#include "nn/arithmetic/simd.h"

/* A tile is up to ROWS x VECTORS vectors: as many sums as hide the latency of an addition. */
#if defined(__AVX512F__)
enum { ROWS = 8, VECTORS = 1 };
#else
enum { ROWS = 6, VECTORS = 2 };
#endif
enum { WIDE = VECTORS * LANES };

/* Sums stay in registers only when every loop over them is gone. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Rows at[0..rows) by `vectors` vectors of columns; rows and vectors are constants in every call. */
static inline __attribute__((always_inline)) void
tile(int rows, int vectors, const struct gemm_view *a, const float *const at[ROWS], size_t runs,
     const float *b, bool add, float *c, size_t ldc)
{
    vec s[ROWS][VECTORS];
    const float *p[ROWS];
    const float *from = c;
    UNROLL
    for (int i = 0; i < rows; i++, from += ldc) {
        p[i] = at[i];
        UNROLL
        for (int j = 0; j < vectors; j++)
            s[i][j] = add ? *(const vec *)(from + (size_t)(j * LANES)) : (vec){0};
    }
    const size_t step = a->step, length = a->run * step;
    for (size_t r = 0; r < runs; r++) {
        for (size_t t = 0; t < length; t += step, b += GEMM_COLUMNS) {
            vec v[VECTORS];
            UNROLL
            for (int j = 0; j < vectors; j++)
                v[j] = *(const vec *)(b + j * LANES);
            UNROLL
            for (int i = 0; i < rows; i++) {
                float x = p[i][t];
                UNROLL
                for (int j = 0; j < vectors; j++)
                    s[i][j] = fused(v[j], x, s[i][j]);
            }
        }
        UNROLL
        for (int i = 0; i < rows; i++)
            p[i] += a->jump;
    }
    UNROLL
    for (int i = 0; i < rows; i++, c += ldc) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            *(vec *)(c + (size_t)(j * LANES)) = s[i][j];
    }
}

typedef void tile_fn(const struct gemm_view *a, const float *const at[ROWS], size_t runs,
                     const float *b, bool add, float *c, size_t ldc);

#define TILE(rows, vectors)                                                                        \
    static void tile_##rows##_##vectors(const struct gemm_view *a, const float *const at[ROWS],    \
                                        size_t runs, const float *b, bool add, float *c,           \
                                        size_t ldc)                                                \
    {                                                                                              \
        tile(rows, vectors, a, at, runs, b, add, c, ldc);                                          \
    }
TILE(1, 1)
TILE(2, 1)
TILE(3, 1)
TILE(4, 1)
TILE(5, 1)
TILE(6, 1)
#if defined(__AVX512F__)
TILE(7, 1)
TILE(8, 1)

static tile_fn *const tiles[VECTORS][ROWS] = {
    {tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1},
};
#else
TILE(1, 2)
TILE(2, 2)
TILE(3, 2)
TILE(4, 2)
TILE(5, 2)
TILE(6, 2)

static tile_fn *const tiles[VECTORS][ROWS] = {
    {tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1},
    {tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2},
};
#endif

/* Rows of the next tile: ROWS, but the last two tiles share what is left evenly. */
static size_t
tile_rows(size_t left)
{
    if (left <= ROWS || left >= 2 * ROWS)
        return left < ROWS ? left : ROWS;
    return (left + 1) / 2;
}

/* All columns of one tile. Columns beyond n are computed on the side. */
static void
tile_columns(const struct gemm_view *a, const float *const at[ROWS], size_t rows, size_t n,
             size_t runs, const float *b, bool add, float *c, size_t ldc)
{
    for (size_t j = 0; j < n; j += WIDE) {
        size_t here = n - j < WIDE ? n - j : WIDE, vectors = here > LANES ? 2 : 1;
        tile_fn *f = tiles[vectors - 1][rows - 1];
        float side[ROWS * WIDE];
        if (here == vectors * LANES) {
            f(a, at, runs, b + j, add, c + j, ldc);
            continue;
        }
        memset(side, 0, sizeof side);
        for (size_t i = 0; add && i < rows; i++)
            memcpy(side + i * WIDE, c + i * ldc + j, here * sizeof *c);
        f(a, at, runs, b + j, add, side, WIDE);
        for (size_t i = 0; i < rows; i++)
            memcpy(c + i * ldc + j, side + i * WIDE, here * sizeof *c);
    }
}

void
SIMD_NAME(gemm_panel)(const struct gemm_view *a, size_t m, size_t n, size_t k, const float *b,
                      bool add, float *c, size_t ldc)
{
    const size_t runs = k / a->run;
    const float *line = a->at, *next = a->at; /* of row i: its line and its first element */
    size_t column = 0;
    if (n > GEMM_COLUMNS)
        n = GEMM_COLUMNS;
    for (size_t i = 0, rows; i < m; i += rows) {
        const float *at[ROWS];
        rows = tile_rows(m - i);
        if (rows < a->width - column) { /* no line ends: without a branch per row */
            for (size_t r = 0; r < rows; r++)
                at[r] = next + r * a->row;
            next += rows * a->row;
            column += rows;
        } else {
            for (size_t r = 0; r < rows; r++) {
                at[r] = next;
                next += a->row;
                if (++column == a->width) {
                    column = 0;
                    next = line += a->line;
                }
            }
        }
        tile_columns(a, at, rows, n, runs, b, add, c + i * ldc, ldc);
    }
}

/* Row by row, since the rows of a large B are far apart. */
void
SIMD_NAME(gemm_pack)(const float *b, size_t ldb, size_t k, size_t n, float *out)
{
    size_t whole = n / GEMM_COLUMNS, rest = n % GEMM_COLUMNS;
    for (size_t i = 0; i < k; i++, b += ldb, out += GEMM_COLUMNS) {
        for (size_t j = 0; j < whole; j++)
            memcpy(out + j * k * GEMM_COLUMNS, b + j * GEMM_COLUMNS, GEMM_COLUMNS * sizeof *out);
        if (rest > 0) {
            float *last = out + whole * k * GEMM_COLUMNS;
            memset(last, 0, GEMM_COLUMNS * sizeof *out);
            memcpy(last, b + whole * GEMM_COLUMNS, rest * sizeof *out);
        }
    }
}

enum { BLOCK = 8 };

/* y[8, 8] = x[8, 8] transposed, in three rounds: single elements, pairs and halves change places. */
static inline void
transpose_block(const float *x, size_t ldx, float *y, size_t ldy)
{
    typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
    v8 r[BLOCK], t[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
        r[i] = *(const v8 *)(x + i * ldx);
    for (size_t i = 0; i < BLOCK; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (size_t i = 0; i < BLOCK; i += 4) {
        r[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (size_t i = 0; i < BLOCK / 2; i++) {
        *(v8 *)(y + i * ldy) = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(v8 *)(y + (i + 4) * ldy) =
            __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

void
SIMD_NAME(gemm_transpose)(const float *x, size_t ldx, size_t m, size_t n, float *y, size_t ldy)
{
    size_t m8 = m / BLOCK * BLOCK, n8 = n / BLOCK * BLOCK;
    for (size_t i = 0; i < m8; i += BLOCK)
        for (size_t j = 0; j < n8; j += BLOCK)
            transpose_block(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
    for (size_t i = 0; i < m; i++)
        for (size_t j = i < m8 ? n8 : 0; j < n; j++)
            y[j * ldy + i] = x[i * ldx + j];
}

void
SIMD_NAME(gemm_pack_transposed)(const float *b, size_t ldb, size_t k, size_t n, float *out)
{
    for (size_t j = 0; j < n; j += GEMM_COLUMNS, out += k * GEMM_COLUMNS) {
        size_t here = n - j < GEMM_COLUMNS ? n - j : GEMM_COLUMNS;
        if (here < GEMM_COLUMNS)
            memset(out, 0, k * GEMM_COLUMNS * sizeof *out);
        SIMD_NAME(gemm_transpose)(b + j * ldb, ldb, here, k, out, GEMM_COLUMNS);
    }
}

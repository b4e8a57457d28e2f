/* product_tile.h - what the loops of products have in common: panels, and tiles of sums in registers. For *_simd.c
 * only.
 *
 * A panel of A holds GROUP rows, one of B COLUMNS columns, both element by element of k. */
#ifndef NN_PRODUCT_TILE_H
#define NN_PRODUCT_TILE_H

#include <string.h>

#include "nn/arithmetic/fused.h"
#include "nn/arithmetic/least.h"
#include "nn/arithmetic/product.h"
#include "nn/arithmetic/simd.h"
#include "proto/float_bits.h"
#include "proto/mix.h"

/* A tile is up to ROWS x VECTORS vectors of sums; with a row of B's panel they fill the registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { ROWS = 8 };
#else
enum { ROWS = 4 };
#endif
enum { VECTORS = 3, COLUMNS = VECTORS * LANES, GROUP = PRODUCT_GROUP };

/* Sums stay in registers only when every loop over them is gone. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

/* A stretch of k within a block: it begins or goes on with the chains of a part, and may end them. */
struct stretch {
    size_t part, from, count;
    bool begins, ends;
};

/* All shards' parts of a block of k. */
struct stretches {
    size_t count;
    struct stretch at[PRODUCT_DEPTH + 1];
};

/* Do panels hold pairs? */
static inline bool
paired(void)
{
#if defined(__AVX512F__)
    return product_bf16 && product_paired;
#else
    return false;
#endif
}

/* Both are rounded. */
INLINE void
pair_row(const uint32_t *high, const uint32_t *low, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i += GROUP) {
        typedef uint32_t v8 __attribute__((vector_size(32), aligned(4), may_alias));
        *(v8 *)(out + i) = *(const v8 *)(high + i) | *(const v8 *)(low + i) >> 16;
    }
}

/* A panel [k][width], which is rounded, becomes one of pairs in place: rows (0, 2), (1, 3), (4, 6), and so on. */
INLINE void
pair_rows(float *panel, size_t k, size_t width)
{
    uint32_t *from = (void *)panel, *out = from;
    for (size_t t = 0; t < k; t++) {
        if (t % 4 >= 2)
            continue;
        if (t + 2 < k)
            pair_row(from + t * width, from + (t + 2) * width, width, out);
        else
            memmove(out, from + t * width, width * sizeof *out);
        out += width;
    }
}

/* With product_bf16: what a panel holds is rounded as soon as it is there, and paired stretch by stretch; NULL: it is
 * one. */
INLINE void
round_panel(float *panel, size_t depth, size_t width, const struct stretches *stretches)
{
    if (!product_bf16)
        return;
    SIMD_NAME(product_rounded)(panel, panel, depth * width);
    if (!paired())
        return;
    if (stretches == NULL)
        pair_rows(panel, depth, width);
    for (size_t s = 0; stretches != NULL && s < stretches->count; s++)
        pair_rows(panel + stretches->at[s].from * width, stretches->at[s].count, width);
}

/* Even shares of n, at most `most` each, but multiples of `unit`. `most` is one. */
static inline size_t
share_of(size_t n, size_t most, size_t unit)
{
    size_t count = (n + most - 1) / most;
    size_t even = count == 0 ? 0 : (n + count - 1) / count;
    return (even + unit - 1) / unit * unit;
}

static inline size_t
beyond(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* The same of k, at most k. */
static inline size_t
deep_of(size_t k, size_t most)
{
    return least(share_of(k, most, product_unit()), k);
}

/* The first multiple of a cache line. */
static inline float *
aligned(float *at)
{
    return (float *)(((uintptr_t)at + 63) & ~(uintptr_t)63);
}

/* --- panels --- */

enum { BLOCK = 8 };

/* out[8, width] = 8 elements of each of 8 rows, transposed in three rounds: single elements, pairs and halves change
 * places. */
static inline void
turn_block(const float *const row[BLOCK], size_t from, float *out, size_t width)
{
    typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
    v8 r[BLOCK], t[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
        r[i] = *(const v8 *)(row[i] + from);
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
        *(v8 *)(out + i * width) =
            __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(v8 *)(out + (i + 4) * width) =
            __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* A call of memcpy costs more than the few vectors of a panel's row. */
INLINE void
copy_row(const float *from, size_t width, float *out)
{
    if (width % LANES != 0) {
        memcpy(out, from, width * sizeof *out);
        return;
    }
    UNROLL
    for (size_t j = 0; j < width; j += LANES)
        *(vec *)(out + j) = *(const vec *)(from + j);
}

/* Of `rows` rows of a panel: elements from, from + step, ... of each. */
INLINE void
pack_run(const float *const *row, size_t rows, size_t width, size_t from, size_t step, size_t count,
         bool adjacent, float *out)
{
    size_t t = 0, whole = step == 1 ? rows / BLOCK * BLOCK : 0;
    if (adjacent) {
        for (; t < count; t++) {
            const float *first = row[0] + from + t * step;
            if (rows == width)
                copy_row(first, width, out + t * width);
            else
                memcpy(out + t * width, first, rows * sizeof *out);
        }
        return;
    }
    for (; t + BLOCK <= count && whole > 0; t += BLOCK) {
        for (size_t r = 0; r < whole; r += BLOCK)
            turn_block(row + r, from + t, out + t * width + r, width);
        for (size_t i = 0; i < BLOCK; i++)
            for (size_t r = whole; r < rows; r++)
                out[(t + i) * width + r] = row[r][from + t + i];
    }
    for (; t < count; t++)
        for (size_t r = 0; r < rows; r++)
            out[t * width + r] = row[r][from + t * step];
}

/* One panel [depth][width] of rows [i, i + rows) and elements [k, k + depth). */
INLINE void
pack_panel(const struct gemm_view *v, size_t i, size_t rows, size_t k, size_t depth, size_t width,
           float *out)
{
    const float *row[COLUMNS > GROUP ? COLUMNS : GROUP];
    bool adjacent = true;
    for (size_t r = 0; r < rows; r++) {
        row[r] = v->at + (i + r) / v->width * v->line + (i + r) % v->width * v->row;
        adjacent = adjacent && row[r] == row[0] + r;
    }
    if (rows < width)
        memset(out, 0, depth * width * sizeof *out);
    for (size_t t = 0, count; t < depth; t += count) {
        size_t run = (k + t) / v->run, in = (k + t) % v->run;
        count = least(depth - t, v->run - in);
        pack_run(row, rows, width, run * v->jump + in * v->step, v->step, count, adjacent,
                 out + t * width);
    }
}

/* Panels of rows [i, i + m), filled up with zeros. */
INLINE void
pack(const struct gemm_view *v, size_t i, size_t m, size_t k, size_t depth, size_t width,
     const struct stretches *stretches, float *out)
{
    for (size_t done = 0; done < m; done += width, out += depth * width) {
        pack_panel(v, i + done, least(m - done, width), k, depth, width, out);
        round_panel(out, depth, width, stretches);
    }
}

enum { TOGETHER = 8 * GROUP, AHEAD = 16, LINE = 64 / sizeof(float) };

/* Of TOGETHER rows that lie side by side: all their panels at once, since a single one would read half a cache line of
 * each k. Elements of k may be pages apart, so those AHEAD come into the caches meanwhile. */
static inline void
pack_together(const struct gemm_view *v, size_t i, size_t k, size_t depth, float *out)
{
    const float *at = v->at + i / v->width * v->line + i % v->width;
    for (size_t t = 0, count; t < depth; t += count) {
        size_t run = (k + t) / v->run, in = (k + t) % v->run;
        count = least(depth - t, v->run - in);
        const float *from = at + run * v->jump + in * v->step;
        for (size_t s = t; s < t + count; s++, from += v->step) {
            for (size_t g = 0; g < TOGETHER && s + AHEAD < t + count; g += LINE)
                __builtin_prefetch(from + AHEAD * v->step + g);
            for (size_t g = 0; g < TOGETHER; g += GROUP)
                memcpy(out + g * depth + s * GROUP, from + g, GROUP * sizeof *out);
        }
    }
}

static inline void
pack_a(const struct gemm_view *v, size_t i, size_t m, size_t k, size_t depth,
       const struct stretches *stretches, float *out)
{
    size_t done = 0;
    for (; v->row == 1 && done + TOGETHER <= m; done += TOGETHER) {
        if ((i + done) % v->width + TOGETHER > v->width)
            break;
        pack_together(v, i + done, k, depth, out + done * depth);
        for (size_t g = done; g < done + TOGETHER; g += GROUP)
            round_panel(out + g * depth, depth, GROUP, stretches);
    }
    pack(v, i + done, m - done, k, depth, GROUP, stretches, out + done * depth);
}

static inline void
pack_b(const struct gemm_view *v, size_t j, size_t n, size_t k, size_t depth,
       const struct stretches *stretches, float *out)
{
    pack(v, j, n, k, depth, COLUMNS, stretches, out);
}

/* --- tiles --- */

/* s += A B over a depth of k; a lies in its panel, rows of b are ldb apart. */
INLINE void
chain(int rows, int vectors, size_t k, const float *a, const float *b, size_t ldb,
      vec s[ROWS][VECTORS])
{
    for (size_t t = 0; t < k; t++, a += GROUP, b += ldb) {
        vec v[VECTORS];
        UNROLL
        for (int j = 0; j < vectors; j++)
            v[j] = *(const vec *)(b + j * LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            UNROLL
            for (int j = 0; j < vectors; j++)
                s[i][j] = fused(v[j], a[i], s[i][j]);
        }
    }
}

/* As chain, of every second k. */
INLINE void
chain_seconds(int rows, int vectors, size_t k, const float *a, const float *b, size_t ldb,
              vec s[ROWS][VECTORS])
{
    for (size_t t = 0; t < k; t += 2, a += 2 * (size_t)GROUP, b += 2 * ldb)
        chain(rows, vectors, 1, a, b, ldb, s);
}

INLINE void
load_sums(int rows, int vectors, const float *c, size_t ldc, vec s[ROWS][VECTORS])
{
    UNROLL
    for (int i = 0; i < rows; i++, c += ldc) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            s[i][j] = *(const vec *)(c + (size_t)(j * LANES));
    }
}

INLINE void
zero_sums(int rows, int vectors, vec s[ROWS][VECTORS])
{
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            s[i][j] = (vec){0};
    }
}

INLINE void
store(int rows, int vectors, vec s[ROWS][VECTORS], float *c, size_t ldc)
{
    UNROLL
    for (int i = 0; i < rows; i++, c += ldc) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            *(vec *)(c + (size_t)(j * LANES)) = s[i][j];
    }
}

/* Of a block of k: the sums c before it, and those over its even k. */
struct halves {
    vec c[ROWS][VECTORS], e[ROWS][VECTORS];
};

/* s becomes c + (e + s). What is in memory stays there meanwhile: registers are for chains. */
INLINE void
add_halves(int rows, int vectors, const struct halves *h, vec s[ROWS][VECTORS])
{
    __asm__("" : "+r"(h)::"memory");
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            s[i][j] = h->c[i][j] + (h->e[i][j] + s[i][j]);
    }
}

INLINE void
put_half(int rows, int vectors, vec s[ROWS][VECTORS], vec half[ROWS][VECTORS])
{
    store(rows, vectors, s, (float *)half, COLUMNS);
    __asm__("" ::"r"(half) : "memory");
    zero_sums(rows, vectors, s);
}

/* The sums of product_bf16. The first k is number `at` of its block. */
INLINE void
chain_blocks(int rows, int vectors, size_t at, size_t k, const float *a, const float *b, size_t ldb,
             vec s[ROWS][VECTORS])
{
    struct halves h;
    for (size_t n; k > 0; k -= n, a += n * GROUP, b += n * ldb, at = 0) {
        const size_t even = at % 2, odd = 1 - even;
        n = least(k, PRODUCT_BLOCK - at);
        put_half(rows, vectors, s, h.c);
        chain_seconds(rows, vectors, beyond(n, even), a + even * GROUP, b + even * ldb, ldb, s);
        put_half(rows, vectors, s, h.e);
        chain_seconds(rows, vectors, beyond(n, odd), a + odd * GROUP, b + odd * ldb, ldb, s);
        add_halves(rows, vectors, &h, s);
    }
}

/* Two steps of a chain: s + k of a and b, then k + 2. In assembler: the file is for all CPUs with AVX-512. */
INLINE vec
paired_step(vec b, const float *a, vec s)
{
#if defined(__AVX512F__)
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(s) : "v"(b), "m"(*a));
#else
    (void)a, (void)b; /* never called */
#endif
    return s;
}

/* Where the rows of pairs of B lie: those of a line, two for 4 of k, `odd` and `next` floats apart. */
struct pair_lines {
    const float *at;
    size_t odd, next, quads, line;
};

/* As chain_blocks, from the first k of a block on, with pairs: both chains of a block stay in registers, of one vector
 * of columns at a time. */
INLINE void
chain_pair_lines(int rows, int vectors, size_t k, const float *a, const struct pair_lines *b,
                 vec s[ROWS][VECTORS])
{
    UNROLL
    for (int j = 0; j < vectors; j++) {
        vec c[ROWS];
        const float *ai = a, *line = b->at + j * LANES, *bj = line;
        size_t quads = b->quads;
        UNROLL
        for (int i = 0; i < rows; i++)
            c[i] = s[i][j];
        for (size_t left = k, n; left > 0; left -= n) {
            vec half[2][ROWS];
            n = least(left, PRODUCT_BLOCK);
            UNROLL
            for (int i = 0; i < rows; i++)
                half[0][i] = half[1][i] = (vec){0};
            for (size_t t = 0; t < n; t += 4, ai += 2 * GROUP, bj += b->next, quads--) {
                if (quads == 0) {
                    bj = line += b->line;
                    quads = b->quads;
                }
                const vec even = *(const vec *)bj;
                UNROLL
                for (int i = 0; i < rows; i++)
                    half[0][i] = paired_step(even, ai + i, half[0][i]);
                if (n - t == 1)
                    break;
                const vec odd = *(const vec *)(bj + b->odd);
                UNROLL
                for (int i = 0; i < rows; i++)
                    half[1][i] = paired_step(odd, ai + GROUP + i, half[1][i]);
            }
            UNROLL
            for (int i = 0; i < rows; i++)
                c[i] = c[i] + (half[0][i] + half[1][i]);
        }
        UNROLL
        for (int i = 0; i < rows; i++)
            s[i][j] = c[i];
    }
}

/* The same with B in a panel. */
INLINE void
chain_pairs(int rows, int vectors, size_t k, const float *a, const float *b, size_t ldb,
            vec s[ROWS][VECTORS])
{
    const struct pair_lines lines = {b, ldb, 2 * ldb, SIZE_MAX, 0};
    chain_pair_lines(rows, vectors, k, a, &lines, s);
}

/* s goes on with A and B in panels, by the definition that holds, from the first k of a block on. */
INLINE void
chain_panels(int rows, int vectors, size_t k, const float *a, const float *b, size_t ldb,
             vec s[ROWS][VECTORS])
{
    if (paired())
        chain_pairs(rows, vectors, k, a, b, ldb, s);
    else if (product_bf16)
        chain_blocks(rows, vectors, 0, k, a, b, ldb, s);
    else
        chain(rows, vectors, k, a, b, ldb, s);
}

MIX24_DEFINE(chances, uvec)

/* How the sums of a tile become integers. */
struct rounding {
    const float *scale; /* rows are COLUMNS apart */
    /* Numbers of the elements of the first row, times MIX24_STEP; NULL: to nearest. */
    const uint32_t *number;
    uint32_t row; /* how much larger they are in the next one */
    float limit;
};

/* x up by chances of 2^24: their product with a power of two is exact. */
INLINE vec
raised_by(vec x, uvec chance)
{
    const vec up = __builtin_convertvector((ivec)chance, vec);
#if defined(__AVX2__) || defined(__aarch64__)
    return fused(up, 0x1p-24f, x);
#else
    return up * 0x1p-24f + x;
#endif
}

/* s becomes the nearest integers of s * scale. Do all fit? What is no number, or too large, becomes an integer that
 * does not. */
INLINE bool
nearest_sums(int rows, int vectors, const struct rounding *by, vec s[ROWS][VECTORS])
{
    const uint32_t limit = (uint32_t)(int32_t)by->limit;
    uvec largest[2] = {{0}};
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++) {
            ivec q = nearest(s[i][j] * *(const vec *)(by->scale + i * COLUMNS + j * LANES));
            largest[i % 2] = lanes_greatest(largest[i % 2], (uvec)q + limit);
            s[i][j] = (vec)q;
        }
    }
    return !any_greater(lanes_greatest(largest[0], largest[1]), 2 * limit);
}

/* The same by chance. The bits of sizes have the order of the sizes, with what is no number above all. */
INLINE bool
drawn_sums(int rows, int vectors, const struct rounding *by, uint32_t key, vec s[ROWS][VECTORS])
{
    uvec largest = {0};
    UNROLL
    for (int i = 0; i < rows; i++, key += by->row) {
        UNROLL
        for (int j = 0; j < vectors; j++) {
            vec x = s[i][j] * *(const vec *)(by->scale + i * COLUMNS + j * LANES);
            largest = lanes_greatest(largest, (uvec)x & 0x7fffffff);
            s[i][j] =
                (vec)lower(raised_by(x, chances(*(const uvec *)(by->number + j * LANES) + key)));
        }
    }
    return !any_greater(largest, float_bits(by->limit));
}

/* `key`: of the part, times MIX24_STEP. */
INLINE bool
round_sums(int rows, int vectors, const struct rounding *by, uint32_t key, vec s[ROWS][VECTORS])
{
    return by->number ? drawn_sums(rows, vectors, by, key, s) : nearest_sums(rows, vectors, by, s);
}

/* q += the integers in s */
INLINE void
add_integers(int rows, int vectors, vec s[ROWS][VECTORS], int32_t *q)
{
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            *(uvec *)(q + i * COLUMNS + j * LANES) += (uvec)s[i][j];
    }
}

INLINE void
add_row(int rows, int vectors, const float *row, vec s[ROWS][VECTORS])
{
    UNROLL
    for (int j = 0; j < vectors; j++) {
        vec b = *(const vec *)(row + (size_t)(j * LANES));
        UNROLL
        for (int i = 0; i < rows; i++)
            s[i][j] += b;
    }
}

INLINE void
add_column(int rows, int vectors, const float *column, vec s[ROWS][VECTORS])
{
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            s[i][j] += column[i];
    }
}

/* Negative sums become 0, as in vmath_relu. */
INLINE void
rectify(int rows, int vectors, vec s[ROWS][VECTORS])
{
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            s[i][j] = (vec)((ivec)s[i][j] & ~(ivec)((vec){0} > s[i][j]));
    }
}

static inline size_t
vectors_of(size_t columns)
{
    return (columns + LANES - 1) / LANES;
}

/* X(rows, vectors) for every tile, and the table [ROWS][VECTORS] of functions that X may define, f_1_1 and so on. */
#define TILE_ROWS(X, rows) X(rows, 1) X(rows, 2) X(rows, 3)
#define TILE_ENTRIES(f, rows)                                                                      \
    {                                                                                              \
        f##_##rows##_1, f##_##rows##_2, f##_##rows##_3                                             \
    }
#if defined(__AVX512F__) || defined(__aarch64__)
#define TILES(X)                                                                                   \
    TILE_ROWS(X, 1)                                                                                \
    TILE_ROWS(X, 2)                                                                                \
    TILE_ROWS(X, 3)                                                                                \
    TILE_ROWS(X, 4) TILE_ROWS(X, 5) TILE_ROWS(X, 6) TILE_ROWS(X, 7) TILE_ROWS(X, 8)
#define TILE_TABLE(f)                                                                              \
    {                                                                                              \
        TILE_ENTRIES(f, 1), TILE_ENTRIES(f, 2), TILE_ENTRIES(f, 3), TILE_ENTRIES(f, 4),            \
            TILE_ENTRIES(f, 5), TILE_ENTRIES(f, 6), TILE_ENTRIES(f, 7), TILE_ENTRIES(f, 8)         \
    }
#else
#define TILES(X) TILE_ROWS(X, 1) TILE_ROWS(X, 2) TILE_ROWS(X, 3) TILE_ROWS(X, 4)
#define TILE_TABLE(f)                                                                              \
    {                                                                                              \
        TILE_ENTRIES(f, 1), TILE_ENTRIES(f, 2), TILE_ENTRIES(f, 3), TILE_ENTRIES(f, 4)             \
    }
#endif

#endif

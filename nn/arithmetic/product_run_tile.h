/* product_run_tile.h - tiles of a product that are stored as floats: for *_simd.c only. */
#ifndef NN_PRODUCT_RUN_TILE_H
#define NN_PRODUCT_RUN_TILE_H

#include "nn/arithmetic/product_tile.h"

/* How A lies: its rows `rows` apart and elements of k side by side; or, if that is 0, rows side by side and elements
 * of k `along` apart: in panels, or as in memory. */
struct lying {
    size_t rows, along;
    bool panels;
};

/* What a tile is made of; the same for all tiles of a block but for a, b, k and what follows. */
struct tile {
    const float *a, *b; /* rows of b are ldb apart */
    struct lying lying;
    size_t ldb, k;
    size_t at; /* with product_bf16, a in panels: the first k in its block; or 0 if paired() */
    float *c;  /* all vectors of its rows may be written */
    size_t ldc;
    bool add, relu;
    const float *bias, *rise; /* added at the end, to each row or to each column; or NULL */
};

/* As chain, of columns of A that lie `along` apart. */
INLINE void
chain_columns(int rows, int vectors, const struct tile *tile, vec s[ROWS][VECTORS])
{
    const float *a = tile->a, *b = tile->b;
    const size_t along = tile->lying.along, ldb = tile->ldb;
    for (size_t t = 0; t < tile->k; t++, a += along, b += ldb)
        chain(rows, vectors, 1, a, b, ldb, s);
}

/* The same of rows of A. */
INLINE void
chain_rows(int rows, int vectors, const struct tile *tile, vec s[ROWS][VECTORS])
{
    const float *low = tile->a, *b = tile->b;
    const size_t ldb = tile->ldb;
    size_t ld = tile->lying.rows, ld3 = 3 * ld;
    const float *high = low + 4 * ld;
    for (size_t t = 0; t < tile->k; t++, b += ldb, low++, high++) {
        vec v[VECTORS];
        __asm__("" : "+r"(low), "+r"(high), "+r"(ld), "+r"(ld3));
        UNROLL
        for (int j = 0; j < vectors; j++)
            v[j] = *(const vec *)(b + j * LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            const float *at = i < 4 ? low : high;
            float x = at[i % 4 == 0 ? 0 : i % 4 == 1 ? ld : i % 4 == 2 ? 2 * ld : ld3];
            UNROLL
            for (int j = 0; j < vectors; j++)
                s[i][j] = fused(v[j], x, s[i][j]);
        }
    }
}

INLINE void
tile_run(int rows, int vectors, const struct tile *tile)
{
    vec s[ROWS][VECTORS];
    if (tile->add)
        load_sums(rows, vectors, tile->c, tile->ldc, s);
    else
        zero_sums(rows, vectors, s);
    if (paired())
        chain_pairs(rows, vectors, tile->k, tile->a, tile->b, tile->ldb, s);
    else if (product_bf16)
        chain_blocks(rows, vectors, tile->at, tile->k, tile->a, tile->b, tile->ldb, s);
    else if (tile->lying.rows > 0)
        chain_rows(rows, vectors, tile, s);
    else
        chain_columns(rows, vectors, tile, s);
    if (tile->bias != NULL)
        add_row(rows, vectors, tile->bias, s);
    if (tile->rise != NULL)
        add_column(rows, vectors, tile->rise, s);
    if (tile->relu)
        rectify(rows, vectors, s);
    store(rows, vectors, s, tile->c, tile->ldc);
}

typedef void run_fn(const struct tile *tile);

#define TILE(rows, vectors)                                                                        \
    static void run_##rows##_##vectors(const struct tile *tile)                                    \
    {                                                                                              \
        tile_run(rows, vectors, tile);                                                             \
    }
TILES(TILE)
#undef TILE
static run_fn *const run_tile[ROWS][VECTORS] = TILE_TABLE(run);

#endif

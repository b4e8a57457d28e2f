/* product_simd.c - the loops of product.h: panels, tiles in registers, and how they end. See there. */
#include "nn/arithmetic/product_tile.h"

#include <string.h>

/* What a tile is made of; the same for all tiles of a block but for a, b and what follows. */
struct tile {
    const float *a, *b;
    size_t k;
    float *c; /* all vectors of its rows may be written */
    size_t ldc;
    bool add, relu;
    const float *bias;
};

INLINE void
tile_run(int rows, int vectors, const struct tile *tile)
{
    vec s[ROWS][VECTORS];
    if (tile->add)
        load(rows, vectors, tile->c, tile->ldc, s);
    else
        zero(rows, vectors, s);
    chain(rows, vectors, tile->k, tile->a, tile->b, COLUMNS, s);
    if (tile->bias != NULL)
        add_row(rows, vectors, tile->bias, s);
    if (tile->relu)
        rectify(rows, vectors, s);
    store(rows, vectors, s, tile->c, tile->ldc);
}

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

struct sum_tile {
    const float *a, *b;
    float *c; /* unfinished chains, rows ldc apart */
    size_t ldc;
    const struct stretches *stretches;
    vec scale[ROWS][VECTORS];
    int32_t limit;                 /* bits of the largest float that fits */
    ivec q[ROWS][VECTORS];         /* the result */
    float outside[ROWS * COLUMNS]; /* the chains of a stretch that does not fit */
};

/* Returns the number of the stretch from `at` on that does not fit, its chains in tile->outside; or of the last. */
INLINE size_t
tile_sum(int rows, int vectors, struct sum_tile *tile, size_t at)
{
    for (; at < tile->stretches->count; at++) {
        const struct stretch *stretch = &tile->stretches->at[at];
        const float *a = tile->a + stretch->from * GROUP, *b = tile->b + stretch->from * COLUMNS;
        vec s[ROWS][VECTORS];
        ivec largest = {0};
        if (stretch->begins)
            zero(rows, vectors, s);
        else
            load(rows, vectors, tile->c, tile->ldc, s);
        chain(rows, vectors, stretch->count, a, b, COLUMNS, s);
        if (!stretch->ends) {
            store(rows, vectors, s, tile->c, tile->ldc);
            continue;
        }
        UNROLL
        for (int i = 0; i < rows; i++) {
            UNROLL
            for (int j = 0; j < vectors; j++)
                largest = larger(largest, s[i][j] * tile->scale[i][j]);
        }
        if (any_above(largest, tile->limit)) {
            store(rows, vectors, s, tile->outside, COLUMNS);
            return at;
        }
        UNROLL
        for (int i = 0; i < rows; i++) {
            UNROLL
            for (int j = 0; j < vectors; j++)
                tile->q[i][j] += nearest(s[i][j] * tile->scale[i][j]);
        }
    }
    return at;
}

typedef void run_fn(const struct tile *tile);
typedef size_t sum_fn(struct sum_tile *tile, size_t at);

#define TILE(rows, vectors)                                                                        \
    static void run_##rows##_##vectors(const struct tile *tile)                                    \
    {                                                                                              \
        tile_run(rows, vectors, tile);                                                             \
    }                                                                                              \
    static size_t sum_##rows##_##vectors(struct sum_tile *tile, size_t at)                         \
    {                                                                                              \
        return tile_sum(rows, vectors, tile, at);                                                  \
    }
TILES(TILE)
static run_fn *const run_tile[ROWS][VECTORS] = TILE_TABLE(run);
static sum_fn *const sum_tile[ROWS][VECTORS] = TILE_TABLE(sum);

/* --- blocks --- */

/* A tile whose last vector is not all there is computed on the side. */
static void
run_aside(run_fn *f, struct tile tile, size_t rows, size_t columns)
{
    float side[ROWS * COLUMNS], bias[COLUMNS] = {0}, *c = tile.c;
    for (size_t i = 0; tile.add && i < rows; i++) {
        memset(side + i * COLUMNS, 0, sizeof bias);
        memcpy(side + i * COLUMNS, c + i * tile.ldc, columns * sizeof *c);
    }
    if (tile.bias != NULL)
        memcpy(bias, tile.bias, columns * sizeof *bias);
    tile.bias = tile.bias == NULL ? NULL : bias;
    tile.c = side;
    size_t ldc = tile.ldc;
    tile.ldc = COLUMNS;
    f(&tile);
    for (size_t i = 0; i < rows; i++)
        memcpy(c + i * ldc, side + i * COLUMNS, columns * sizeof *c);
}

/* c[m, n] of one block; a and b are its packed operands. */
static void
run_block(const float *a, const float *b, size_t m, size_t n, struct tile tile)
{
    float *c = tile.c;
    const float *bias = tile.bias;
    for (size_t j = 0; j < n; j += COLUMNS) {
        size_t columns = least(n - j, COLUMNS), vectors = vectors_of(columns);
        for (size_t i = 0, rows; i < m; i += rows) {
            rows = least(m - i, ROWS);
            run_fn *f = run_tile[rows - 1][vectors - 1];
            tile.a = a + i / GROUP * GROUP * tile.k + i % GROUP;
            tile.b = b + j * tile.k;
            tile.c = c + i * tile.ldc + j;
            tile.bias = bias == NULL ? NULL : bias + j;
            if (columns == vectors * LANES)
                f(&tile);
            else
                run_aside(f, tile, rows, columns);
        }
    }
}

/* Where the block of B at column j, element k lies when all of it is packed; n: columns of the block. */
static size_t
packed_at(size_t j, size_t n, size_t k, size_t depth)
{
    return j * depth + (n + COLUMNS - 1) / COLUMNS * COLUMNS * k;
}

void
SIMD_NAME(product_pack)(const struct gemm_view *b, size_t n, size_t k, float *packed)
{
    size_t wide = share(n, PRODUCT_WIDE, COLUMNS), deep = share(k, PRODUCT_DEPTH, 1);
    for (size_t j = 0; j < n; j += wide)
        for (size_t t = 0; t < k; t += deep) {
            size_t here = least(n - j, wide);
            pack_b(b, j, here, t, least(k - t, deep), packed + packed_at(j, here, t, k));
        }
}

void
SIMD_NAME(product_run)(const struct product *p, float *scratch)
{
    size_t wide = share(p->n, PRODUCT_WIDE, COLUMNS), deep = share(p->k, PRODUCT_DEPTH, 1),
           tall = share(p->m, PRODUCT_TALL, GROUP);
    for (size_t j = 0; j < p->n; j += wide) {
        size_t n = least(p->n - j, wide), k = 0, depth;
        do {
            depth = least(p->k - k, deep);
            bool last = k + depth == p->k;
            const float *b = scratch + tall * deep;
            if (p->packed != NULL)
                b = p->packed + packed_at(j, n, k, p->k);
            else
                pack_b(&p->b, j, n, k, depth, scratch + tall * deep);
            for (size_t i = 0; i < p->m; i += tall) {
                size_t m = least(p->m - i, tall);
                struct tile tile = {.k = depth, .c = p->c + i * p->ldc + j, .ldc = p->ldc};
                tile.add = k > 0 || p->add;
                tile.bias = last && p->bias != NULL ? p->bias + j : NULL;
                tile.relu = last && p->relu;
                pack_a(&p->a, i, m, k, depth, scratch);
                run_block(scratch, b, m, n, tile);
            }
        } while ((k += depth) < p->k);
    }
}

/* --- sums of integers --- */

/* Block of k from `k` on: whole parts if they fit, else an even share of one. Returns its depth. */
static size_t
stretch_out(const struct product_sum *sum, size_t k, struct stretches *out)
{
    size_t part = 0, begin = 0, depth = 0;
    while (sum->end[part] <= k)
        begin = sum->end[part++];
    out->count = 0;
    size_t left = sum->end[part] - k;
    if (left > PRODUCT_DEPTH || k > begin) {
        depth = share(left, PRODUCT_DEPTH, 1);
        out->at[out->count++] = (struct stretch){part, 0, depth, k == begin, depth == left};
        return depth;
    }
    for (; part < sum->parts && sum->end[part] - k <= PRODUCT_DEPTH; part++) {
        size_t count = sum->end[part] - k - depth;
        if (count > 0)
            out->at[out->count++] = (struct stretch){part, depth, count, true, true};
        depth += count;
    }
    return depth;
}

/* The scales of a tile's elements; lanes beyond them get some scale, too. */
static void
scale_tile(const struct product_sum *sum, size_t at, size_t rows, size_t columns,
           struct sum_tile *tile)
{
    for (size_t i = 0; i < rows; i++, at += sum->ld) {
        size_t block = at / sum->block, next = (block + 1) * sum->block - at;
        const vec scale = (vec){0} + sum->scale[block];
        for (size_t j = 0; j < VECTORS; j++)
            tile->scale[i][j] = scale;
        for (size_t j = next; j < columns; j++)
            tile->scale[i][j / LANES][j % LANES] = sum->scale[block + 1];
    }
}

/* Running sums of a block, lane by lane. */
struct lanes {
    uvec plain, weighted;
};

/* The tile's integers into the sums: with rows at[i], element (i, j) has the number at[i] + j. */
static void
sum_lanes(const struct sum_tile *tile, size_t at, size_t ld, size_t rows, size_t vectors,
          struct lanes *lanes)
{
    uvec column[VECTORS], steps;
    for (size_t j = 0; j < VECTORS; j++)
        column[j] = (uvec){0};
    for (int l = 0; l < LANES; l++)
        steps[l] = (uint32_t)l;
    for (size_t i = 0; i < rows; i++, at += ld) {
        uvec row = {0};
        for (size_t j = 0; j < vectors; j++) {
            row += (uvec)tile->q[i][j];
            column[j] += (uvec)tile->q[i][j];
        }
        lanes->plain += row;
        lanes->weighted += row * (uint32_t)at;
    }
    for (size_t j = 0; j < vectors; j++)
        lanes->weighted += column[j] * (steps + (uint32_t)(j * LANES));
}

/* Adds the tile's integers to the sum. */
static void
sum_store(struct product_sum *sum, size_t at, size_t rows, size_t columns, struct sum_tile *tile,
          struct lanes *lanes)
{
    size_t whole = columns / LANES, rest = columns % LANES;
    for (size_t i = 0; i < rows; i++) {
        int32_t *to = sum->sum + at + i * sum->ld, side[LANES] = {0};
        for (size_t j = 0; j < whole; j++)
            *(ivec *)(to + j * LANES) += tile->q[i][j];
        if (rest == 0)
            continue;
        memcpy(side, &tile->q[i][whole], rest * sizeof *side);
        memcpy(&tile->q[i][whole], side, sizeof side); /* nothing beyond the columns */
        for (size_t l = 0; l < rest; l++)
            to[whole * LANES + l] += side[l];
    }
    sum_lanes(tile, at, sum->ld, rows, vectors_of(columns), lanes);
}

static void
sum_tile_at(struct product_sum *sum, size_t at, size_t rows, size_t columns, struct sum_tile *tile,
            struct lanes *lanes)
{
    sum_fn *f = sum_tile[rows - 1][vectors_of(columns) - 1];
    scale_tile(sum, at, rows, columns, tile);
    memset(tile->q, 0, rows * sizeof tile->q[0]);
    for (size_t s = 0; (s = f(tile, s)) < tile->stretches->count; s++)
        for (size_t i = 0; i < rows; i++)
            sum->outside(sum->ctx, tile->stretches->at[s].part, at + i * sum->ld,
                         tile->outside + i * COLUMNS, columns);
    sum_store(sum, at, rows, columns, tile, lanes);
}

static void
sum_block(struct product_sum *sum, size_t at, size_t m, size_t n, size_t depth, const float *a,
          const float *b, float *unfinished, struct sum_tile *tile, struct lanes *lanes)
{
    for (size_t j = 0; j < n; j += COLUMNS)
        for (size_t i = 0, rows; i < m; i += rows) {
            rows = least(m - i, ROWS);
            tile->a = a + i / GROUP * GROUP * depth + i % GROUP;
            tile->b = b + j * depth;
            tile->c = unfinished + i * tile->ldc + j;
            sum_tile_at(sum, at + i * sum->ld + j, rows, least(n - j, COLUMNS), tile, lanes);
        }
}

void
SIMD_NAME(product_sum)(const struct product *p, struct product_sum *sum, float *scratch)
{
    size_t wide = share(p->n, PRODUCT_WIDE_SUM, COLUMNS), tall = share(p->m, PRODUCT_TALL, GROUP);
    size_t deep = least(p->k, PRODUCT_DEPTH);
    float *b = scratch + tall * deep, *unfinished = b + wide * deep;
    struct stretches stretches;
    struct sum_tile tile = {.ldc = wide, .stretches = &stretches};
    struct lanes lanes = {{0}, {0}};
    memcpy(&tile.limit, &sum->limit, sizeof tile.limit);
    for (size_t j = 0; j < p->n; j += wide)
        for (size_t i = 0; i < p->m; i += tall)
            for (size_t k = 0, depth; k < p->k; k += depth) {
                size_t m = least(p->m - i, tall), n = least(p->n - j, wide);
                depth = stretch_out(sum, k, &stretches);
                pack_b(&p->b, j, n, k, depth, b);
                pack_a(&p->a, i, m, k, depth, scratch);
                sum_block(sum, sum->first + i * sum->ld + j, m, n, depth, scratch, b, unfinished,
                          &tile, &lanes);
            }
    for (int l = 0; l < LANES; l++) {
        sum->plain += lanes.plain[l];
        sum->weighted += lanes.weighted[l];
    }
}

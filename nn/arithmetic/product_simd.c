/* product_simd.c - the loops of product.h: panels, tiles in registers, and how they end. See there. */
#include "nn/arithmetic/product_run_tile.h"

#include <string.h>

struct sum_tile {
    /* Their vectors do not cross cache lines. */
    _Alignas(64) int32_t q[ROWS * COLUMNS]; /* sums of integers */
    _Alignas(64) vec scale[ROWS][VECTORS];
    _Alignas(64) uvec number[VECTORS]; /* for ->rounding */
    struct rounding rounding;
    const uint32_t *key;
    const float *a, *b;
    float *c; /* unfinished chains, rows ld apart */
    size_t ld;
    const struct stretches *stretches;
    bool whole;                    /* all of them begin and end */
    float outside[ROWS * COLUMNS]; /* the chains of a stretch that does not fit */
};

static inline uint32_t
stretch_key(const struct sum_tile *tile, const struct stretch *stretch)
{
    return tile->key ? tile->key[stretch->part] * MIX24_STEP : 0;
}

INLINE void
tile_chain(int rows, int vectors, const struct sum_tile *tile, const struct stretch *stretch,
           vec s[ROWS][VECTORS])
{
    if (stretch->begins)
        zero_sums(rows, vectors, s);
    else
        load_sums(rows, vectors, tile->c, tile->ld, s);
    chain_panels(rows, vectors, stretch->count, tile->a + stretch->from * GROUP,
                 tile->b + stretch->from * COLUMNS, COLUMNS, s);
}

/* Adds the integers of all stretches, which are whole chains. Returns whether all fit; else q is of no use. */
INLINE bool
tile_sum_whole(int rows, int vectors, struct sum_tile *tile)
{
    bool fit = true;
    for (size_t at = 0; at < tile->stretches->count; at++) {
        vec s[ROWS][VECTORS];
        const struct stretch *stretch = &tile->stretches->at[at];
        __asm__("" : "+r"(tile)); /* else gcc keeps a second copy of q on the stack */
        zero_sums(rows, vectors, s);
        chain_panels(rows, vectors, stretch->count, tile->a + stretch->from * GROUP,
                     tile->b + stretch->from * COLUMNS, COLUMNS, s);
        fit &= round_sums(rows, vectors, &tile->rounding, stretch_key(tile, stretch), s);
        add_integers(rows, vectors, s, tile->q);
    }
    return fit;
}

/* Returns the number of the stretch from `at` on that does not fit, its chains in tile->outside; or of the last. */
INLINE size_t
tile_sum(int rows, int vectors, struct sum_tile *tile, size_t at)
{
    if (at == 0 && tile->whole) {
        if (tile_sum_whole(rows, vectors, tile))
            return tile->stretches->count;
        memset(tile->q, 0, sizeof tile->q);
    }
    for (; at < tile->stretches->count; at++) {
        const struct stretch *stretch = &tile->stretches->at[at];
        vec s[ROWS][VECTORS];
        tile_chain(rows, vectors, tile, stretch, s);
        if (!stretch->ends) {
            store(rows, vectors, s, tile->c, tile->ld);
            continue;
        }
        if (!round_sums(rows, vectors, &tile->rounding, stretch_key(tile, stretch), s)) {
            tile_chain(rows, vectors, tile, stretch, s);
            store(rows, vectors, s, tile->outside, COLUMNS);
            return at;
        }
        add_integers(rows, vectors, s, tile->q);
    }
    return at;
}

typedef size_t sum_fn(struct sum_tile *tile, size_t at);

#define TILE(rows, vectors)                                                                        \
    static size_t sum_##rows##_##vectors(struct sum_tile *tile, size_t at)                         \
    {                                                                                              \
        return tile_sum(rows, vectors, tile, at);                                                  \
    }
TILES(TILE)
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

/* One block of a product: rows from i, columns from j and elements from k on. */
struct block {
    const float *a, *b; /* a as it lies; b in panels, or rows ldb apart */
    size_t ldb;         /* 0: in panels */
    size_t i, j, k, m, n, depth;
};

/* What a tile of a block needs of so many columns and of the depth. */
struct extent {
    size_t columns, from, to;
};

/* Of rows [i, i + rows), columns from j on. */
static inline struct extent
extent_of(const struct product *p, const struct block *block, size_t i, size_t rows, size_t j)
{
    struct extent e = {least(block->n - j, COLUMNS), 0, block->depth};
    size_t first = block->i + i, end = first + rows + p->diagonal;
    if (p->shape == PRODUCT_C_LOWER)
        e.columns = least(e.columns, vectors_of(beyond(end, block->j + j)) * LANES);
    if (p->shape == PRODUCT_A_LOWER)
        e.to = least(e.to, beyond(end, block->k));
    if (p->shape == PRODUCT_A_UPPER)
        e.from = least(e.to, beyond(first + p->diagonal, block->k));
    if (paired()) {
        e.from -= e.from % PRODUCT_BLOCK;
        e.to = least(e.to + 3, block->depth + 3) / 4 * 4;
        e.to = least(e.to, block->depth);
    }
    return e;
}

/* Where row i, element k of a block of A lies. */
static inline size_t
lies_at(const struct lying *lying, size_t i, size_t k, size_t depth)
{
    if (lying->rows > 0)
        return i * lying->rows + k;
    return (lying->panels ? i / GROUP * GROUP * depth + i % GROUP : i) + k * lying->along;
}

static void
run_block(const struct product *p, const struct block *block, const struct tile *all)
{
    struct tile tile = *all;
    for (size_t j = 0; j < block->n; j += COLUMNS)
        for (size_t i = 0, rows; i < block->m; i += rows) {
            rows = least(block->m - i, ROWS);
            const struct extent e = extent_of(p, block, i, rows, j);
            size_t vectors = vectors_of(e.columns);
            if (vectors == 0)
                continue;
            run_fn *f = run_tile[rows - 1][vectors - 1];
            size_t from = paired() ? e.from / 2 : e.from; /* rows of panels */
            tile.a = block->a + lies_at(&all->lying, i, from, block->depth);
            tile.b = block->b + (block->ldb > 0 ? j : j * block->depth) + from * tile.ldb;
            tile.k = e.to - e.from;
            tile.at = e.from % PRODUCT_BLOCK;
            tile.c = all->c + i * tile.ldc + j;
            tile.bias = all->bias == NULL ? NULL : all->bias + j;
            if (e.columns == vectors * LANES)
                f(&tile);
            else
                run_aside(f, tile, rows, e.columns);
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
    size_t wide = share_of(n, product_blocks.wide, COLUMNS), deep = deep_of(k, PRODUCT_DEPTH);
    for (size_t j = 0; j < n; j += wide)
        for (size_t t = 0; t < k; t += deep) {
            size_t here = least(n - j, wide);
            pack_b(b, j, here, t, least(k - t, deep), NULL, packed + packed_at(j, here, t, k));
        }
}

/* Few columns do not repay packing A, nor do short rows, which lie close together. With product_bf16 all is packed, for
 * it is rounded there. */
enum { DIRECT_COLUMNS = 192, DIRECT_DEPTH = 128 };

/* Whether A is read as it lies in memory. */
static struct lying
lying_of(const struct product *p)
{
    bool whole = !product_bf16 && p->a.run >= p->k && p->a.width >= p->m;
    if (whole && p->a.step == 1 && (p->n <= DIRECT_COLUMNS || p->k <= DIRECT_DEPTH))
        return (struct lying){.rows = p->a.row};
    if (whole && p->a.row == 1 && p->n <= PRODUCT_COLUMNS_MAX && p->k <= DIRECT_DEPTH)
        return (struct lying){.along = p->a.step};
    return (struct lying){.along = GROUP, .panels = true};
}

/* Distance of the rows of B if they are read as they lie in memory, which must be there for whole vectors; else 0. */
static size_t
direct_b(const struct product *p)
{
    bool whole = !product_bf16 && p->packed == NULL && p->b.row == 1 && p->b.run >= p->k &&
                 p->b.width >= p->n;
    return whole && p->n <= PRODUCT_COLUMNS_MAX && p->n % LANES == 0 && p->m <= PRODUCT_TALL
               ? p->b.step
               : 0;
}

/* C of one block of columns and depth. */
static void
run_rows(const struct product *p, struct block block, size_t tall, float *scratch)
{
    bool last = block.k + block.depth == p->k;
    struct tile tile = {
        .lying = lying_of(p),
        .ldb = block.ldb > 0 ? block.ldb : COLUMNS,
        .ldc = p->ldc,
        .add = block.k > 0 || p->add,
        .bias = last && p->bias != NULL ? p->bias + block.j : NULL,
        .relu = last && p->relu,
    };
    for (block.i = 0; block.i < p->m; block.i += tall) {
        block.m = least(p->m - block.i, tall);
        block.a = p->a.at + lies_at(&tile.lying, block.i, block.k, 0);
        if (tile.lying.panels) {
            pack_a(&p->a, block.i, block.m, block.k, block.depth, NULL, scratch);
            block.a = scratch;
        }
        tile.c = p->c + block.i * p->ldc + block.j;
        run_block(p, &block, &tile);
        if (last && p->done != NULL)
            p->done(p->ctx, block.i, block.j, block.m, block.n);
    }
}

void
SIMD_NAME(product_run)(const struct product *p, float *scratch)
{
    size_t wide = share_of(p->n, product_blocks.wide, COLUMNS), deep = deep_of(p->k, PRODUCT_DEPTH),
           tall = share_of(p->m, product_blocks.tall, GROUP);
    for (size_t j = 0; j < p->n; j += wide) {
        struct block block = {.j = j, .n = least(p->n - j, wide), .ldb = direct_b(p)};
        do {
            block.depth = least(p->k - block.k, deep);
            block.b = scratch + tall * deep;
            if (p->packed != NULL)
                block.b = p->packed + packed_at(j, block.n, block.k, p->k);
            else if (block.ldb > 0)
                block.b = p->b.at + j + block.k * block.ldb;
            else
                pack_b(&p->b, j, block.n, block.k, block.depth, NULL, scratch + tall * deep);
            run_rows(p, block, tall, scratch);
        } while ((block.k += block.depth) < p->k);
    }
}

/* y[n, m] = x[m, n] transposed. */
void
SIMD_NAME(product_transpose)(const float *x, size_t ldx, size_t m, size_t n, float *y, size_t ldy)
{
    size_t m8 = m / BLOCK * BLOCK, n8 = n / BLOCK * BLOCK;
    for (size_t i = 0; i < m8; i += BLOCK) {
        const float *row[BLOCK];
        for (size_t r = 0; r < BLOCK; r++)
            row[r] = x + (i + r) * ldx;
        for (size_t j = 0; j < n8; j += BLOCK)
            turn_block(row, j, y + j * ldy + i, ldy);
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = i < m8 ? n8 : 0; j < n; j++)
            y[j * ldy + i] = x[i * ldx + j];
}

/* y = x rounded to bfloat16: to the nearest, of two to the even one; what is below 2^-52 becomes 0. Beyond the largest
 * it is infinity; NaN stays NaN. y may be x. */
void
SIMD_NAME(product_rounded)(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = float_bits(x[i]), size = bits & 0x7fffffff, odd = bits >> 16 & 1;
        uint32_t near = size > 0x7f800000 ? bits | 0x00400000 : bits + 0x7fff + odd;
        y[i] = float_of(size < 0x25800000 ? 0 : near & 0xffff0000);
    }
}

void
SIMD_NAME(product_operand_panels)(float *panels, size_t m, size_t k)
{
    for (size_t i = 0; i < m; i += GROUP, panels += k * GROUP)
        round_panel(panels, k, GROUP, NULL);
}

/* What is below 2^-100 becomes 0. */
void
SIMD_NAME(product_settled)(float *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = float_bits(c[i]);
        c[i] = float_of((bits & 0x7fffffff) < 0x0d800000 ? 0 : bits);
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
        depth = deep_of(left, PRODUCT_DEPTH);
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

/* What a block of C[m, n] needs, n <= sum->block. */
struct sum_block {
    struct product_sum *sum;
    size_t at, m, n; /* number of its first element */
    struct {
        const float *scale; /* of the first elements of the row, */
        size_t count;       /* so many; the others have the next one */
    } row[PRODUCT_TALL];
    float *unfinished;
    struct stretches stretches;
    struct sum_tile tile;
    uvec plain, weighted; /* of integers added, lane by lane */
};

static void
block_begin(struct sum_block *block, size_t at, size_t m, size_t n)
{
    const struct product_sum *sum = block->sum;
    block->at = at;
    block->m = m;
    block->n = n;
    for (size_t i = 0; i < m; i++, at += sum->ld) {
        block->row[i].scale = &sum->scale[at / sum->block];
        block->row[i].count = sum->block - at % sum->block;
    }
}

/* The scales of a tile's elements; lanes beyond them get some scale, too. */
static void
scale_tile(struct sum_block *block, size_t i, size_t j, size_t rows, size_t columns)
{
    vec(*to)[VECTORS] = block->tile.scale;
    for (size_t r = 0; r < rows; r++) {
        const float *scale = block->row[i + r].scale;
        size_t count = block->row[i + r].count;
        const vec same = (vec){0} + scale[j >= count];
        for (size_t v = 0; v < VECTORS; v++)
            to[r][v] = same;
        for (size_t c = count; j < count && c < j + columns; c++)
            to[r][(c - j) / LANES][(c - j) % LANES] = scale[1];
    }
}

/* What integers of the first row are drawn from. */
static void
number_tile(struct sum_tile *tile, size_t at)
{
    for (size_t c = 0; c < COLUMNS; c++)
        tile->number[c / LANES][c % LANES] = (uint32_t)(at + c) * MIX24_STEP;
}

/* Does a chain end within the block of k? */
static bool
any_ends(const struct stretches *stretches)
{
    return stretches->count > 0 && stretches->at[stretches->count - 1].ends;
}

/* The sum that the tile will be added to comes into the caches meanwhile. */
static void
sum_fetch(const struct sum_block *block, size_t i, size_t j, size_t rows, size_t columns)
{
    const int32_t *to = block->sum->sum + block->at + i * block->sum->ld + j;
    for (size_t r = 0; r < rows; r++, to += block->sum->ld)
        for (size_t c = 0; c < columns; c += 64 / sizeof *to)
            __builtin_prefetch(to + c, 1, 2);
}

/* Adds the integers of a tile of all columns to the sum. Number at + j LANES + l is weighted in two steps: its row, and
 * j LANES + l at the end. */
static void
whole_end(struct sum_block *block, size_t at, size_t rows)
{
    const size_t ld = block->sum->ld;
    int32_t *to = block->sum->sum + at;
    const uvec *q = (const uvec *)block->tile.q;
    uvec column[VECTORS] = {{0}}, weighted = {0}, number;
    for (int l = 0; l < LANES; l++)
        number[l] = (uint32_t)l;
    for (size_t r = 0; r < rows; r++, at += ld, to += ld, q += VECTORS) {
        uvec row = {0};
        UNROLL
        for (int j = 0; j < VECTORS; j++) {
            *(uvec *)(to + j * LANES) += q[j];
            column[j] += q[j];
            row += q[j];
        }
        weighted += row * (uint32_t)at;
    }
    UNROLL
    for (int j = 0; j < VECTORS; j++, number += LANES) {
        block->plain += column[j];
        weighted += column[j] * number;
    }
    block->weighted += weighted;
}

/* The same of a tile at the right edge. */
static void
narrow_end(struct sum_block *block, size_t at, size_t rows, size_t columns)
{
    int32_t *to = block->sum->sum + at;
    const uint32_t *q = (const uint32_t *)block->tile.q;
    uint32_t plain = 0, weighted = 0;
    for (size_t r = 0; r < rows; r++, to += block->sum->ld, at += block->sum->ld, q += COLUMNS)
        for (size_t c = 0; c < columns; c++) {
            to[c] = (int32_t)((uint32_t)to[c] + q[c]);
            plain += q[c];
            weighted += q[c] * (uint32_t)(at + c);
        }
    block->sum->plain += plain;
    block->sum->weighted += weighted;
}

static void
sum_tile_at(struct sum_block *block, size_t i, size_t j, size_t rows, size_t columns)
{
    struct product_sum *sum = block->sum;
    struct sum_tile *tile = &block->tile;
    sum_fn *f = sum_tile[rows - 1][vectors_of(columns) - 1];
    size_t at = block->at + i * sum->ld + j;
    bool ends = any_ends(&block->stretches);
    if (ends) {
        number_tile(tile, at);
        scale_tile(block, i, j, rows, columns);
        sum_fetch(block, i, j, rows, columns);
        memset(tile->q, 0, sizeof tile->q);
    }
    for (size_t s = 0; (s = f(tile, s)) < block->stretches.count; s++)
        for (size_t r = 0; r < rows; r++)
            sum->outside(sum->ctx, block->stretches.at[s].part, at + r * sum->ld,
                         tile->outside + r * COLUMNS, columns);
    if (ends && columns == COLUMNS)
        whole_end(block, at, rows);
    else if (ends)
        narrow_end(block, at, rows, columns);
}

static void
block_add(struct sum_block *block, size_t depth, const float *a, const float *b)
{
    struct sum_tile *tile = &block->tile;
    for (size_t j = 0; j < block->n; j += COLUMNS)
        for (size_t i = 0, rows; i < block->m; i += rows) {
            rows = least(block->m - i, ROWS);
            tile->a = a + i / GROUP * GROUP * depth + i % GROUP;
            tile->b = b + j * depth;
            tile->c = block->unfinished + i * tile->ld + j;
            sum_tile_at(block, i, j, rows, least(block->n - j, COLUMNS));
        }
}

void
SIMD_NAME(product_sum)(const struct product *p, struct product_sum *sum, float *scratch)
{
    size_t wide = share_of(p->n, PRODUCT_WIDE_SUM, COLUMNS),
           tall = share_of(p->m, PRODUCT_TALL, GROUP);
    size_t deep = least(p->k, PRODUCT_DEPTH);
    float *b = scratch + tall * deep;
    struct sum_block block = {.sum = sum, .unfinished = b + wide * deep};
    block.tile.ld = wide;
    block.tile.stretches = &block.stretches;
    block.tile.key = sum->key;
    block.tile.rounding = (struct rounding){(const float *)block.tile.scale,
                                            sum->key ? (const uint32_t *)block.tile.number : NULL,
                                            (uint32_t)sum->ld * MIX24_STEP, sum->limit};
    for (size_t j = 0; j < p->n; j += wide)
        for (size_t i = 0; i < p->m; i += tall) {
            size_t m = least(p->m - i, tall), n = least(p->n - j, wide);
            block_begin(&block, sum->first + i * sum->ld + j, m, n);
            for (size_t k = 0, depth; k < p->k; k += depth) {
                depth = stretch_out(sum, k, &block.stretches);
                block.tile.whole = block.stretches.count > 0 && block.stretches.at[0].begins &&
                                   any_ends(&block.stretches);
                if (i == 0 || depth < p->k) /* else it is there */
                    pack_b(&p->b, j, n, k, depth, &block.stretches, b);
                pack_a(&p->a, i, m, k, depth, &block.stretches, scratch);
                block_add(&block, depth, scratch, b);
            }
        }
    for (int l = 0; l < LANES; l++) {
        sum->plain += block.plain[l];
        sum->weighted += block.weighted[l];
    }
}

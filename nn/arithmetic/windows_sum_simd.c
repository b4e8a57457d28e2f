/* windows_sum_simd.c - gradients of filters: windows_sum and windows_floats of windows.h. See there. */
#include "nn/arithmetic/windows.h"

#include <math.h>
#include <string.h>

#include "nn/arithmetic/product_tile.h"

enum { TILE_SIZE = GROUP * COLUMNS };

/* Everything in the scratch memory of a gradient. Chains, scales and integers lie tile by tile: those of 8 filters, and
 * in them those of one part of a run. */
struct gradient {
    const struct windows_gradient *g;
    struct windows_strip strip;
    size_t K, parts; /* parts of a run, of about as many vectors each */
    float *image, *copied, *dy, *chain, *scale;
    int32_t *q;
    uint32_t *place;   /* [K] of an element in the tiles of 8 filters */
    uint32_t *number;  /* [strip.panels] for struct rounding, the same for all filters */
    size_t groups;     /* size of these tiles */
    uint32_t *pixel;   /* if sparse: where the window of each pixel of a strip begins, */
    uint32_t *at;      /* and of dy of one filter those that are not 0: their .pixel, */
    float *slope;      /* and they themselves */
    const float *read; /* what tiles read, image or copied */
    bool pairs;        /* it holds pairs of windows (p, p + 2), and dy, too */
};

/* First vector of part i of a run. */
static size_t
part_first(const struct gradient *g, size_t i)
{
    return vectors_of(g->strip.run) * i / g->parts;
}

static void
places_fill(const struct gradient *g)
{
    const struct windows *w = &g->g->windows;
    for (size_t part = 0; part < g->parts; part++) {
        size_t end = least(part_first(g, part + 1) * LANES, g->strip.run);
        for (size_t run = 0; run < g->strip.runs; run++)
            for (size_t at = part_first(g, part) * LANES, l = 0; at < end; at++, l++) {
                size_t position = run * g->strip.run + at, channel = position % w->channels;
                size_t element = channel * w->tall * w->wide + position / w->channels;
                g->place[element] = (uint32_t)((run * g->parts + part) * TILE_SIZE + l);
                g->number[(run * g->parts + part) * COLUMNS + l] = (uint32_t)element * MIX24_STEP;
            }
    }
}

static void
pixels_fill(const struct gradient *g)
{
    const struct windows *w = &g->g->windows;
    size_t line = w->stride * g->strip.pixel, step = w->stride * w->channels;
    for (size_t l = 0, p = 0; l < g->strip.lines; l++)
        for (size_t c = 0; c < w->columns; c++, p++)
            g->pixel[p] = (uint32_t)(g->strip.row > 0 ? p * g->strip.row : l * line + c * step);
}

static struct gradient
gradient_of(const struct windows_gradient *of, float *scratch)
{
    const struct windows *w = &of->windows;
    struct gradient g = {.g = of, .strip = windows_strip(w), .image = aligned(scratch)};
    size_t most = (least(of->count, WINDOWS_FILTERS) + GROUP - 1) / GROUP;
    g.K = w->tall * w->wide * w->channels;
    g.parts = (vectors_of(g.strip.run) + VECTORS - 1) / VECTORS;
    g.groups = g.strip.runs * g.parts * TILE_SIZE;
    size_t pixels = g.strip.lines * w->columns;
    g.copied = aligned(g.image + g.strip.image + WINDOWS_SLACK - LANES);
    g.read = g.strip.row > 0 ? g.copied : g.image;
    g.pairs = paired() && (g.strip.row > 0 || w->columns % 4 == 0); /* all in one line */
    g.dy = g.copied + pixels * g.strip.row + WINDOWS_SLACK;
    g.chain = g.dy + pixels * most * GROUP;
    g.scale = g.chain + most * g.groups;
    g.q = (void *)(g.scale + most * g.groups);
    g.place = (void *)(g.q + most * g.groups);
    g.number = g.place + g.K;
    g.pixel = g.number + g.groups / GROUP;
    g.at = g.pixel + pixels;
    g.slope = (void *)(g.at + pixels + LANES);
    memset(g.image, 0, (size_t)(g.dy - g.image) * sizeof *g.image); /* and what fills vectors */
    places_fill(&g);
    if (of->sparse)
        pixels_fill(&g);
    return g;
}

/* One line of an image, with the channel last, and zeros where windows hang over its ends. */
static void
line_fill(const struct windows *w, const float *x, float *out)
{
    size_t across = (w->columns - 1) * w->stride + w->wide;
    size_t skip = (size_t)between(w->left, (ptrdiff_t)w->width);
    size_t before = (size_t)between(-w->left, (ptrdiff_t)across);
    size_t count = least(w->width - skip, across - before), C = w->channels;
    memset(out, 0, before * C * sizeof *out);
    product_transpose(x + skip, w->height * w->width, C, count, out + before * C, C);
    memset(out + (before + count) * C, 0, (across - before - count) * C * sizeof *out);
}

/* Windows of `lines` lines from the image in one run each. */
static void
windows_copy(const struct gradient *g, size_t lines)
{
    const struct windows *w = &g->g->windows;
    float *out = g->copied;
    size_t run = w->wide * w->channels;
    for (size_t l = 0; l < lines; l++)
        for (size_t c = 0; c < w->columns; c++, out += g->strip.row) {
            const float *from =
                g->image + l * w->stride * g->strip.pixel + c * w->stride * w->channels;
            for (size_t i = 0; i < w->tall; i++, from += g->strip.pixel)
                for (size_t at = 0; at < run; at += LANES)
                    *(vec *)(out + i * run + at) = *(const vec *)(from + at);
        }
}

/* The lower half of each float becomes the upper one of that `between` further on. */
static void
pair_along(float *at, size_t between, size_t n)
{
    uint32_t *to = (void *)at;
    size_t i = 0;
    for (; i + LANES <= beyond(n, between); i += LANES)
        *(uvec *)(to + i) |= *(const uvec *)(to + i + between) >> 16;
    for (; i < beyond(n, between); i++)
        to[i] |= to[i + between] >> 16;
}

/* Windows in lines [first, first + lines) of image r. */
static void
strip_fill(const struct gradient *g, size_t r, size_t first, size_t lines)
{
    const struct windows *w = &g->g->windows;
    const float *x = g->g->x + r * w->channels * w->height * w->width;
    size_t count = (lines - 1) * w->stride + w->tall;
    for (size_t i = 0; i < count; i++) {
        ptrdiff_t line = (ptrdiff_t)(first * w->stride + i) + w->top;
        float *out = g->image + i * g->strip.pixel;
        if (line >= 0 && line < (ptrdiff_t)w->height)
            line_fill(w, x + (size_t)line * w->width, out);
        else
            memset(out, 0, g->strip.pixel * sizeof *out);
        if (product_bf16)
            SIMD_NAME(product_rounded)(out, out, g->strip.pixel);
        if (g->pairs && g->strip.row == 0)
            pair_along(out, 2 * w->stride * w->channels, g->strip.pixel);
    }
    if (g->strip.row > 0)
        windows_copy(g, lines);
    if (g->pairs && g->strip.row > 0)
        pair_along(g->copied, 2 * g->strip.row, lines * w->columns * g->strip.row);
}

/* What a tile goes over: lines of windows in a strip, with the panel of dy. */
struct strip_tile {
    const float *a, *b;
    size_t lines, line, columns, step; /* b: lines are `line` floats apart, of `columns` windows */
    float *chain;
    struct rounding rounding;
    uint32_t key; /* of the part, times MIX24_STEP */
    int32_t *q;
    bool begins, ends, pairs;
};

/* As chain_seconds, of n windows from the one at `column` of the line that begins at b. */
INLINE void
chain_windows(int rows, int vectors, const struct strip_tile *tile, size_t n, const float *a,
              const float *b, size_t column, vec s[ROWS][VECTORS])
{
    for (size_t t = 0, count; t < n; t += count, column += count, a += count * GROUP) {
        for (; column >= tile->columns; column -= tile->columns)
            b += tile->line;
        count = least(n - t, tile->columns - column);
        chain_seconds(rows, vectors, count, a, b + column * tile->step, tile->step, s);
        count += count % 2;
    }
}

/* As chain_blocks, over all windows, line by line. */
INLINE void
chain_strip(int rows, int vectors, const struct strip_tile *tile, vec s[ROWS][VECTORS])
{
    const float *a = tile->a, *b = tile->b;
    struct halves h;
    for (size_t left = tile->lines * tile->columns, column = 0, n; left > 0; left -= n) {
        n = least(left, PRODUCT_BLOCK);
        put_half(rows, vectors, s, h.c);
        chain_windows(rows, vectors, tile, n, a, b, column, s);
        put_half(rows, vectors, s, h.e);
        chain_windows(rows, vectors, tile, n - 1, a + GROUP, b, column + 1, s);
        add_halves(rows, vectors, &h, s);
        for (column += n; column >= tile->columns; column -= tile->columns)
            b += tile->line;
        a += n * GROUP;
    }
}

/* The same with pairs. */
INLINE void
strip_pairs(int rows, int vectors, const struct strip_tile *tile, vec s[ROWS][VECTORS])
{
    const size_t quads = tile->lines > 1 ? tile->columns / 4 : SIZE_MAX;
    const struct pair_lines lines = {tile->b, tile->step, 4 * tile->step, quads, tile->line};
    chain_pair_lines(rows, vectors, tile->lines * tile->columns, tile->a, &lines, s);
}

/* Goes on with the chains of a tile. If they end, adds their integers to q, or returns false if one does not fit. */
INLINE bool
tile_strip(int rows, int vectors, const struct strip_tile *tile)
{
    vec s[ROWS][VECTORS];
    const float *a = tile->a, *b = tile->b;
    if (tile->begins)
        zero_sums(rows, vectors, s);
    else
        load_sums(rows, vectors, tile->chain, COLUMNS, s);
    if (paired() && tile->pairs)
        strip_pairs(rows, vectors, tile, s);
    else if (product_bf16)
        chain_strip(rows, vectors, tile, s);
    for (size_t l = 0; !product_bf16 && l < tile->lines;
         l++, a += tile->columns * GROUP, b += tile->line)
        chain(rows, vectors, tile->columns, a, b, tile->step, s);
    store(rows, vectors, s, tile->chain, COLUMNS);
    if (!tile->ends)
        return true;
    if (!round_sums(rows, vectors, &tile->rounding, tile->key, s))
        return false;
    add_integers(rows, vectors, s, tile->q);
    return true;
}

typedef bool strip_fn(const struct strip_tile *tile);

#define TILE(rows, vectors)                                                                        \
    static bool strip_##rows##_##vectors(const struct strip_tile *tile)                            \
    {                                                                                              \
        return tile_strip(rows, vectors, tile);                                                    \
    }
TILES(TILE)
static strip_fn *const strip_tile[ROWS][VECTORS] = TILE_TABLE(strip);

/* A strip in a block of filters. */
struct visit {
    size_t filter, filters; /* from, count */
    size_t lines;
    bool begins, ends; /* the chains of a part */
    size_t part;
    struct product_sum *sum; /* NULL: chains do not end */
};

/* Gives the elements of a tile that does not fit to who can say how. */
static void
tile_outside(const struct gradient *g, const struct visit *v, size_t group, size_t tile, size_t row,
             size_t rows)
{
    const float *chain = g->chain + group * g->groups;
    for (size_t i = row; i < row + rows; i++)
        for (size_t u = 0; u < g->K; u++) {
            size_t f = v->filter - g->g->first + group * GROUP + i;
            if (g->place[u] / TILE_SIZE == tile)
                v->sum->outside(v->sum->ctx, v->part, v->sum->first + f * v->sum->ld + u,
                                chain + g->place[u] + i * COLUMNS, 1);
        }
}

/* How a tile's chains end: `tile` is its number within the group, `filter` its first of those in g. */
static void
rounding_of(const struct gradient *g, const struct visit *v, size_t tile, size_t filter,
            struct strip_tile *t)
{
    const struct product_sum *sum = v->sum;
    size_t first = sum->first + filter * sum->ld;
    t->key = sum->key ? (sum->key[v->part] + (uint32_t)first) * MIX24_STEP : 0;
    t->rounding.number = sum->key ? g->number + tile * COLUMNS : NULL;
    t->rounding.row = (uint32_t)sum->ld * MIX24_STEP;
    t->rounding.limit = sum->limit;
}

/* One part of one run for 8 filters. */
static void
group_visit(const struct gradient *g, const struct visit *v, size_t group, size_t run, size_t part)
{
    const struct windows *w = &g->g->windows;
    size_t first = part_first(g, part), vectors = part_first(g, part + 1) - first;
    size_t tile = run * g->parts + part, at = group * g->groups + tile * TILE_SIZE;
    size_t filters = least(v->filters - group * GROUP, GROUP), pixels = v->lines * w->columns;
    struct strip_tile t = {.lines = v->lines,
                           .line = w->stride * g->strip.pixel,
                           .columns = w->columns,
                           .step = w->stride * w->channels,
                           .begins = v->begins,
                           .pairs = g->pairs,
                           .ends = v->ends && v->sum != NULL};
    t.b = g->read + run * g->strip.pixel + first * LANES;
    if (g->strip.row > 0)
        t.lines = 1, t.columns = pixels, t.step = g->strip.row;
    for (size_t i = 0, rows; i < filters; i += rows) {
        rows = least(filters - i, ROWS);
        t.a = g->dy + group * GROUP * pixels + i;
        t.chain = g->chain + at + i * COLUMNS;
        t.rounding.scale = g->scale + at + i * COLUMNS;
        if (t.ends)
            rounding_of(g, v, tile, v->filter - g->g->first + group * GROUP + i, &t);
        t.q = g->q + at + i * COLUMNS;
        if (!strip_tile[rows - 1][vectors - 1](&t))
            tile_outside(g, v, group, tile, i, rows);
    }
}

static void
groups_visit(const struct gradient *g, const struct visit *v)
{
    for (size_t run = 0; run < g->strip.runs; run++)
        for (size_t part = 0; part < g->parts; part++)
            for (size_t group = 0; group * GROUP < v->filters; group++)
                group_visit(g, v, group, run, part);
}

/* --- where most of dy is 0 ---
 *
 * A product with 0 leaves a chain as it is, unless the other factor is no finite number. So only the pixels whose
 * slope is not 0 are visited, filter by filter, each for several runs at once: there must be enough chains in
 * registers. A chain may keep the sign of a 0 that it would have lost, of which integers know nothing. */

enum { RUNS = 5 };

struct sparse_tile {
    const uint32_t *at;
    const float *slope, *b;
    size_t count;
    size_t run, between; /* floats from a run to the next one: in b; in chain */
    float *chain;
    bool begins;
};

INLINE void
tile_sparse(int runs, int vectors, const struct sparse_tile *tile)
{
    vec s[8][VECTORS]; /* at least RUNS, and ROWS */
    if (tile->begins)
        zero_sums(runs, vectors, s);
    else
        load_sums(runs, vectors, tile->chain, tile->between, s);
    for (size_t n = 0; n < tile->count; n++) {
        const float *b = tile->b + tile->at[n];
        UNROLL
        for (int r = 0; r < runs; r++, b += tile->run) {
            UNROLL
            for (int j = 0; j < vectors; j++)
                s[r][j] = fused(*(const vec *)(b + j * LANES), tile->slope[n], s[r][j]);
        }
    }
    store(runs, vectors, s, tile->chain, tile->between);
}

typedef void sparse_fn(const struct sparse_tile *tile);

#define SPARSE(rows, vectors)                                                                      \
    static void sparse_##rows##_##vectors(const struct sparse_tile *tile)                          \
    {                                                                                              \
        tile_sparse(rows, vectors, tile);                                                          \
    }
TILE_ROWS(SPARSE, 1)
TILE_ROWS(SPARSE, 2)
TILE_ROWS(SPARSE, 3)
TILE_ROWS(SPARSE, 4)
TILE_ROWS(SPARSE, 5)
static sparse_fn *const sparse_tile[RUNS][VECTORS] = {
    TILE_ENTRIES(sparse, 1), TILE_ENTRIES(sparse, 2), TILE_ENTRIES(sparse, 3),
    TILE_ENTRIES(sparse, 4), TILE_ENTRIES(sparse, 5)};

/* at and slope of the n pixels of one filter; returns how many. Up to LANES more are written. */
static size_t
slopes_find(const struct gradient *g, const float *dy, size_t n)
{
    size_t count = 0, p = 0;
#if defined(__AVX512F__)
    for (; p + LANES <= n; p += LANES) {
        __m512i bits = _mm512_loadu_si512(dy + p);
        __mmask16 some = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(INT32_MAX));
        _mm512_storeu_si512(g->slope + count, _mm512_maskz_compress_epi32(some, bits));
        _mm512_storeu_si512(g->at + count,
                            _mm512_maskz_compress_epi32(some, _mm512_loadu_si512(g->pixel + p)));
        count += (size_t)__builtin_popcount(some);
    }
#endif
    for (; p < n; p++) {
        g->slope[count] = dy[p];
        g->at[count] = g->pixel[p];
        count += !(dy[p] == 0.0f); /* no branch */
    }
    return count;
}

/* The chains of filter f of the block go on with one strip of dy. */
static void
filter_visit(const struct gradient *g, const struct visit *v, size_t f, const float *dy)
{
    struct sparse_tile t = {.at = g->at, .slope = g->slope, .begins = v->begins};
    t.count = slopes_find(g, dy, v->lines * g->g->windows.columns);
    t.run = g->strip.pixel;
    t.between = g->parts * TILE_SIZE;
    for (size_t run = 0; run < g->strip.runs; run += RUNS)
        for (size_t part = 0; part < g->parts; part++) {
            size_t first = part_first(g, part), vectors = part_first(g, part + 1) - first,
                   runs = least(g->strip.runs - run, RUNS);
            t.b = g->read + run * g->strip.pixel + first * LANES;
            t.chain = g->chain + f / GROUP * g->groups + (run * g->parts + part) * TILE_SIZE +
                      f % GROUP * COLUMNS;
            sparse_tile[runs - 1][vectors - 1](&t);
        }
}

static bool
all_finite(const float *x, size_t n)
{
    uvec largest = {0}; /* bits of floats have their order, with NaN above all */
    size_t i = 0;
    bool finite = true;
    for (; i + LANES <= n; i += LANES)
        largest = lanes_greatest(largest, *(const uvec *)(x + i) & 0x7fffffff);
    for (; i < n; i++)
        finite = finite && isfinite(x[i]);
    return finite && !any_greater(largest, 0x7f7fffff);
}

static const struct stretches unpaired; /* none */

/* A strip is in the scratch memory; dy: its part of the block's filters, `plane` floats apart. */
static void
strip_visit(const struct gradient *g, const struct visit *v, const float *dy, size_t plane)
{
    const struct windows *w = &g->g->windows;
    size_t pixels = v->lines * w->columns;
    struct visit end = *v;
    if (!g->g->sparse || v->sum == NULL || product_bf16 ||
        !all_finite(g->image, ((v->lines - 1) * w->stride + w->tall) * g->strip.pixel)) {
        struct gemm_view view = product_rows(dy, plane);
        pack_a(&view, 0, v->filters, 0, pixels, g->pairs ? NULL : &unpaired, g->dy);
        groups_visit(g, v);
        return;
    }
    for (size_t f = 0; f < v->filters; f++, dy += plane)
        filter_visit(g, v, f, dy);
    end.begins = false;
    end.lines = 0;
    if (v->ends)
        groups_visit(g, &end);
}

/* Image r in all strips. */
static void
image_visit(const struct gradient *g, struct visit v, size_t r)
{
    const struct windows *w = &g->g->windows;
    const bool begins = v.begins, ends = v.ends;
    size_t P = w->lines * w->columns;
    const float *dy = g->g->dy + (r * g->g->filters + v.filter) * P;
    for (size_t line = 0; line < w->lines; line += v.lines) {
        v.lines = least(w->lines - line, g->strip.lines);
        v.begins = begins && line == 0;
        v.ends = ends && line + v.lines == w->lines;
        strip_fill(g, r, line, v.lines);
        strip_visit(g, &v, dy + line * w->columns, P);
    }
}

/* Scales and empty sums for a block of filters. */
static void
block_begin(const struct gradient *g, const struct visit *v)
{
    const struct product_sum *sum = v->sum;
    size_t groups = (v->filters + GROUP - 1) / GROUP;
    memset(g->q, 0, groups * g->groups * sizeof *g->q);
    memset(g->scale, 0, groups * g->groups * sizeof *g->scale);
    for (size_t f = 0; f < v->filters; f++) {
        size_t at = sum->first + (v->filter - g->g->first + f) * sum->ld;
        size_t block = at / sum->block, next = (block + 1) * sum->block;
        float *scale = g->scale + f / GROUP * g->groups + f % GROUP * COLUMNS;
        for (size_t u = 0; u < g->K; u++, at++) {
            block += at == next;
            next += at == next ? sum->block : 0;
            scale[g->place[u]] = sum->scale[block];
        }
    }
}

static void
block_end(const struct gradient *g, const struct visit *v)
{
    struct product_sum *sum = v->sum;
    uint32_t plain = 0, weighted = 0;
    for (size_t f = 0; f < v->filters; f++) {
        size_t at = sum->first + (v->filter - g->g->first + f) * sum->ld;
        const int32_t *q = g->q + f / GROUP * g->groups + f % GROUP * COLUMNS;
        for (size_t u = 0; u < g->K; u++, at++) {
            int32_t element = q[g->place[u]];
            sum->sum[at] += element;
            plain += (uint32_t)element;
            weighted += (uint32_t)element * (uint32_t)at;
        }
    }
    sum->plain += plain;
    sum->weighted += weighted;
}

void
SIMD_NAME(windows_sum)(const struct windows_gradient *of, struct product_sum *sum, float *scratch)
{
    const struct gradient g = gradient_of(of, scratch);
    for (size_t f = 0; f < of->count; f += WINDOWS_FILTERS) {
        struct visit v = {
            .filter = of->first + f, .filters = least(of->count - f, WINDOWS_FILTERS), .sum = sum};
        block_begin(&g, &v);
        for (size_t r = 0; v.part < sum->parts; r = sum->end[v.part++])
            for (size_t i = r; i < sum->end[v.part]; i++) {
                v.begins = i == r;
                v.ends = i + 1 == sum->end[v.part];
                image_visit(&g, v, i);
            }
        block_end(&g, &v);
    }
}

void
SIMD_NAME(windows_floats)(const struct windows_gradient *of, size_t images, float *out,
                          float *scratch)
{
    const struct gradient g = gradient_of(of, scratch);
    for (size_t first = 0; first < of->count; first += WINDOWS_FILTERS) {
        struct visit v = {.filter = of->first + first,
                          .filters = least(of->count - first, WINDOWS_FILTERS)};
        for (size_t r = 0; r < images; r++) {
            v.begins = r == 0;
            image_visit(&g, v, r);
        }
        for (size_t f = 0; f < v.filters; f++, out += g.K)
            for (size_t u = 0; u < g.K; u++)
                out[u] = images == 0
                             ? 0
                             : g.chain[f / GROUP * g.groups + f % GROUP * COLUMNS + g.place[u]];
    }
}

/* windows_run_simd.c - panels of windows and products with them: windows_run of windows.h. See there. */
#include "nn/arithmetic/windows.h"

#include <string.h>

#include "nn/arithmetic/product_run_tile.h"

/* --- some lanes of a vector --- */

#if defined(__AVX512F__)
#define MASKED 1

typedef __mmask16 lanes_t;

static inline lanes_t
lanes_between(size_t first, size_t end)
{
    return (lanes_t)((1u << end) - (1u << first));
}

/* Zeros in the other lanes, whose memory is not read. */
static inline vec
load_lanes(const float *at, lanes_t lanes)
{
    return (vec)_mm512_maskz_loadu_ps(lanes, at);
}

/* The memory of the other lanes is not written. */
static inline void
store_lanes(float *at, lanes_t lanes, vec v)
{
    _mm512_mask_storeu_ps(at, lanes, (__m512)v);
}

/* Elements 0, 2, 4, ... of a and b. */
static inline vec
every_second(vec a, vec b)
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

#elif defined(__AVX2__)
#define MASKED 1

typedef ivec lanes_t;

static inline lanes_t
lanes_between(size_t first, size_t end)
{
    const ivec lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return (lane >= (int32_t)first) & (lane < (int32_t)end);
}

static inline vec
load_lanes(const float *at, lanes_t lanes)
{
    return (vec)_mm256_maskload_ps(at, (__m256i)lanes);
}

static inline void
store_lanes(float *at, lanes_t lanes, vec v)
{
    _mm256_maskstore_ps(at, (__m256i)lanes, (__m256)v);
}

static inline vec
every_second(vec a, vec b)
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
}

#else
#define MASKED 0
#endif

/* --- panels of windows --- */

/* Neighbouring windows in a line of an image, in lanes of one vector of the panel from `at` on. */
struct piece {
    size_t image, line, column, at, lanes;
    ptrdiff_t top, left; /* line and column of the first window */
    ptrdiff_t from;      /* where lane 0 would read among all floats */
};

/* The pieces of a panel, vector by vector. */
struct pieces {
    size_t count, first[VECTORS + 1];
    struct piece at[COLUMNS];
};

/* Windows [j, j + n). */
static void
pieces_cut(const struct windows *w, size_t j, size_t n, struct pieces *pieces)
{
    size_t windows = w->lines * w->columns, image = j / windows;
    size_t line = j % windows / w->columns, column = j % w->columns;
    pieces->count = 0;
    for (size_t at = 0, lanes; at < n; at += lanes) {
        struct piece *p = &pieces->at[pieces->count];
        if (at % LANES == 0)
            pieces->first[at / LANES] = pieces->count;
        lanes = least(least(w->columns - column, n - at), LANES - at % LANES);
        *p = (struct piece){
            .image = image, .line = line, .column = column, .at = at, .lanes = lanes};
        p->top = (ptrdiff_t)(line * w->stride) + w->top;
        p->left = (ptrdiff_t)(column * w->stride) + w->left;
        p->from = (ptrdiff_t)(image * w->channels * w->height * w->width) +
                  p->top * (ptrdiff_t)w->width + p->left - (ptrdiff_t)(at % LANES * w->stride);
        pieces->count++;
        column += lanes;
        line += column == w->columns;
        column = column == w->columns ? 0 : column;
        image += line == w->lines;
        line = line == w->lines ? 0 : line;
    }
    pieces->first[vectors_of(n)] = pieces->count;
}

/* Which elements of a line a piece reads, for one kj: those from `first` to before `end` are inside and needed. Lane l
 * reads element l * stride. */
struct edges {
    ptrdiff_t first, end;
#if MASKED
    lanes_t lanes[2]; /* the same of one vector; with stride 2 of two */
#endif
};

/* For one place in the windows of a piece: where its elements come from in the first channel. */
struct source {
    const float *from; /* element 0 */
    const struct edges *edges;
};

/* The same of all pieces of a panel, vector by vector. */
struct sources {
    struct source at[VECTORS][LANES];
};

INLINE struct edges
edges_between(ptrdiff_t first, ptrdiff_t end, size_t stride)
{
    struct edges e = {.first = first, .end = end};
#if MASKED
    for (ptrdiff_t v = 0; v < (ptrdiff_t)stride; v++)
        e.lanes[v] = lanes_between((size_t)between(first - v * LANES, LANES),
                                   (size_t)between(end - v * LANES, LANES));
#else
    (void)stride;
#endif
    return e;
}

INLINE struct edges
edges_find(const struct windows *w, const struct piece *piece, ptrdiff_t kj, size_t stride)
{
    ptrdiff_t column = piece->left + kj, span = (ptrdiff_t)((piece->lanes - 1) * w->stride + 1),
              skip = (ptrdiff_t)(piece->at % LANES * w->stride);
    ptrdiff_t first = between(-column, span), end = between((ptrdiff_t)w->width - column, span);
    return edges_between(skip + first, skip + (end > first ? end : first), stride);
}

INLINE void
source_find(const struct windows *w, const float *x, const struct piece *piece,
            const struct edges *edges, ptrdiff_t ki, ptrdiff_t kj, struct source *s)
{
    static const struct edges none;
    bool inside = (size_t)(piece->top + ki) < w->height; /* it may be negative */
    s->from = inside ? x + piece->from + ki * (ptrdiff_t)w->width + kj : x;
    s->edges = inside ? edges : &none;
}

/* One vector of `count` channels, a row of the panel each, from sources that have different lanes; one by one. */
static void
channels_gather(const struct source *source, size_t sources, size_t stride, size_t plane,
                size_t count, float *out)
{
    bool whole = stride == 1 && source->edges->first == 0 && source->edges->end == LANES;
    for (size_t c = 0, from = 0; c < count; c++, from += plane, out += COLUMNS) {
        if (whole) {
            *(vec *)out = *(const vec *)(source->from + from);
            continue;
        }
        memset(out, 0, sizeof(vec));
        for (const struct source *s = source; s < source + sources; s++) {
            size_t first = (size_t)s->edges->first, end = (size_t)s->edges->end;
            for (size_t l = (first + stride - 1) / stride; l * stride < end; l++)
                out[l] = s->from[from + l * stride];
        }
    }
}

#if MASKED

INLINE void
channels_join(const struct source *source, size_t sources, size_t stride, size_t plane,
              size_t count, float *out)
{
    for (size_t c = 0, from = 0; c < count; c++, from += plane, out += COLUMNS) {
        ivec joined = {0};
        for (size_t i = 0; i < sources; i++) {
            const struct source *s = &source[i];
            vec v = load_lanes(s->from + from, s->edges->lanes[0]);
            if (stride == 2)
                v = every_second(v, load_lanes(s->from + from + LANES, s->edges->lanes[1]));
            joined |= (ivec)v;
        }
        *(ivec *)out = joined;
    }
}

/* The same of all vectors of a panel side by side, as they mostly lie in the image, too. */
INLINE void
rows_join(const struct sources *of, size_t sources, size_t stride, size_t plane, size_t count,
          float *out)
{
    lanes_t lanes[VECTORS][2][2];
    for (size_t v = 0; v < VECTORS; v++)
        for (size_t i = 0; i < sources; i++)
            memcpy(lanes[v][i], of->at[v][i].edges->lanes, sizeof lanes[v][i]);
    for (size_t c = 0, from = 0; c < count; c++, from += plane, out += COLUMNS) {
        UNROLL
        for (size_t v = 0; v < VECTORS; v++) {
            ivec joined = {0};
            UNROLL
            for (size_t i = 0; i < sources; i++) {
                const float *at = of->at[v][i].from + from;
                vec x = load_lanes(at, lanes[v][i][0]);
                if (stride == 2)
                    x = every_second(x, load_lanes(at + LANES, lanes[v][i][1]));
                joined |= (ivec)x;
            }
            *(ivec *)(out + v * LANES) = joined;
        }
    }
}

#else

INLINE void
rows_join(const struct sources *of, size_t sources, size_t stride, size_t plane, size_t count,
          float *out)
{
    for (size_t v = 0; v < VECTORS; v++)
        channels_gather(of->at[v], sources, stride, plane, count, out + v * LANES);
}

INLINE void
channels_join(const struct source *source, size_t sources, size_t stride, size_t plane,
              size_t count, float *out)
{
    channels_gather(source, sources, stride, plane, count, out);
}

#endif

/* The edges of all pieces for each kj, as long as there is space: few channels ask for the same ones again and
 * again. */
enum { EDGES = 8 * COLUMNS, LEAST_SOURCES = 2 };

struct packing {
    const struct windows *w;
    const float *x;
    struct pieces pieces;
    size_t n; /* windows */
    bool tabled;
    struct edges edges[EDGES]; /* [wide][pieces] if tabled */
};

INLINE void
edges_table(struct packing *p, size_t stride)
{
    struct edges *to = p->edges;
    p->tabled = p->w->wide * p->pieces.count <= EDGES;
    for (size_t kj = 0; p->tabled && kj < p->w->wide; kj++)
        for (size_t i = 0; i < p->pieces.count; i++)
            *to++ = edges_find(p->w, &p->pieces.at[i], (ptrdiff_t)kj, stride);
}

/* Of all pieces at place (ki, kj) of their windows, vector by vector. Returns how many one has at most, and gives the
 * others as many, without lanes. */
INLINE size_t
sources_find(struct packing *p, const float *x, size_t ki, size_t kj, size_t stride,
             struct sources *of)
{
    static const struct edges none;
    size_t most = 0, vectors = vectors_of(p->n);
    for (size_t v = 0; v < vectors; v++) {
        size_t first = p->pieces.first[v], sources = p->pieces.first[v + 1] - first;
        for (size_t i = 0; i < sources; i++) {
            const struct piece *piece = &p->pieces.at[first + i];
            struct edges *edges =
                &p->edges[p->tabled ? kj * p->pieces.count + first + i : first + i];
            if (!p->tabled)
                *edges = edges_find(p->w, piece, (ptrdiff_t)kj, stride);
            source_find(p->w, x, piece, edges, (ptrdiff_t)ki, (ptrdiff_t)kj, &of->at[v][i]);
        }
        for (size_t i = sources; i < LEAST_SOURCES; i++)
            of->at[v][i] = (struct source){x, &none};
        most = greatest(most, sources);
    }
    return most;
}

/* One vector after the other. */
INLINE void
vectors_copy(const struct packing *p, const struct sources *of, size_t stride, size_t plane,
             size_t count, float *out)
{
    for (size_t v = 0; v < vectors_of(p->n); v++) {
        size_t sources = p->pieces.first[v + 1] - p->pieces.first[v];
        if (stride > 0)
            channels_join(of->at[v], sources, stride, plane, count, out + v * LANES);
        else
            channels_gather(of->at[v], sources, p->w->stride, plane, count, out + v * LANES);
    }
}

/* Rows [k, k + depth) of the panel. stride: 1 or 2, or 0 for any other. */
INLINE void
pack_places(struct packing *p, size_t k, size_t depth, size_t stride, float *out)
{
    const struct windows *w = p->w;
    struct sources of;
    size_t plane = w->height * w->width, place = k / w->channels, channel = k % w->channels;
    size_t ki = place / w->wide, kj = place % w->wide;
    if (k == 0)
        edges_table(p, stride);
    for (size_t count; depth > 0; depth -= count, channel = 0) {
        const float *x = p->x + channel * plane;
        count = least(depth, w->channels - channel);
        size_t most = sources_find(p, x, ki, kj, stride, &of);
        if (MASKED && stride > 0 && p->n > COLUMNS - LANES && most == 1)
            rows_join(&of, 1, stride, plane, count, out);
        else if (MASKED && stride > 0 && p->n > COLUMNS - LANES && most == 2)
            rows_join(&of, 2, stride, plane, count, out);
        else
            vectors_copy(p, &of, stride, plane, count, out);
        out += count * COLUMNS;
        ki += ++kj == w->wide;
        kj = kj == w->wide ? 0 : kj;
    }
}

static void
pack_windows(struct packing *p, size_t k, size_t depth, float *out)
{
    if (p->w->stride == 1)
        pack_places(p, k, depth, 1, out);
    else if (p->w->stride == 2)
        pack_places(p, k, depth, 2, out);
    else
        pack_places(p, k, depth, 0, out);
}

/* --- products with panels --- */

/* All rows of a panel of n windows. */
static void
run_panel(const struct windows_product *p, size_t k, size_t n, struct tile tile)
{
    size_t K = p->windows.tall * p->windows.wide * p->windows.channels;
    bool last = k + tile.k == K;
    float *c = tile.c;
    for (size_t i = 0, rows; i < p->m; i += rows) {
        rows = least(p->m - i, ROWS);
        tile.a = p->a + windows_at(K, i, paired() ? k / 2 : k);
        tile.c = c + i * tile.ldc;
        tile.rise = last && p->bias != NULL ? p->bias + i : NULL;
        tile.relu = last && p->relu;
        run_tile[rows - 1][vectors_of(n) - 1](&tile);
    }
}

static float *
output_of(const struct windows_product *p, const struct piece *piece)
{
    return p->y + piece->image * p->y_image + piece->line * p->y_line + piece->column * p->y_step;
}

/* Do the elements of a panel lie next to one another in y? */
static bool
in_place(const struct windows_product *p, const struct pieces *pieces, size_t n)
{
    const struct piece *first = &pieces->at[0], *last = &pieces->at[pieces->count - 1];
    return n % LANES == 0 && p->y_step == 1 && first->image == last->image &&
           (p->y_line == p->windows.columns || first->line == last->line);
}

/* The rows of a piece from a panel to y. */
static void
piece_store(const struct windows_product *p, const struct piece *piece, const float *panel)
{
    const float *from = panel + piece->at;
    float *to = output_of(p, piece);
#if MASKED
    size_t lane = piece->at % LANES;
    const lanes_t lanes = lanes_between(lane, lane + piece->lanes);
    for (size_t i = 0; p->y_step == 1 && i < p->m; i++, from += COLUMNS, to += p->y_plane)
        store_lanes(to - lane, lanes, *(const vec *)(from - lane));
    if (p->y_step == 1)
        return;
#endif
    for (size_t i = 0; i < p->m; i++, from += COLUMNS, to += p->y_plane)
        for (size_t l = 0; l < piece->lanes; l++)
            to[l * p->y_step] = from[l];
}

/* With its image a panel should stay in the first cache. */
static size_t
panel_depth(void)
{
    size_t depth = product_blocks.panel / (COLUMNS * sizeof(float));
    return depth < WINDOWS_DEPTH_LEAST ? WINDOWS_DEPTH_LEAST : least(depth, WINDOWS_DEPTH);
}

void
SIMD_NAME(windows_run)(const struct windows_product *p, float *scratch)
{
    const struct windows *w = &p->windows;
    size_t K = w->tall * w->wide * w->channels, n = p->images * w->lines * w->columns;
    size_t deep = deep_of(K, panel_depth());
    float *panel = aligned(scratch), *side = panel + deep * COLUMNS;
    struct packing packing = {.w = w, .x = p->x};
    const struct pieces *pieces = &packing.pieces;
    for (size_t j = 0; j < n; j += COLUMNS) {
        packing.n = least(n - j, COLUMNS);
        pieces_cut(w, j, packing.n, &packing.pieces);
        bool straight = in_place(p, pieces, packing.n);
        struct tile tile = {.lying = {.along = GROUP, .panels = true},
                            .b = panel,
                            .ldb = COLUMNS,
                            .c = straight ? output_of(p, pieces->at) : side,
                            .ldc = straight ? p->y_plane : COLUMNS};
        for (size_t k = 0; k < K; k += tile.k) {
            tile.k = least(K - k, deep);
            tile.add = k > 0;
            pack_windows(&packing, k, tile.k, panel);
            if (paired())
                pair_rows(panel, tile.k, COLUMNS);
            run_panel(p, k, packing.n, tile);
        }
        for (size_t i = 0; !straight && i < pieces->count; i++)
            piece_store(p, &pieces->at[i], side);
    }
}

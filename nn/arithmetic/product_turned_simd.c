/* product_turned_simd.c - products with few rows: product_turned of product.h. See there.
 *
 * Packing B costs as much as multiplying it by some 16 rows of A. So with few rows it is B that is read as it lies, and
 * A that is packed, into panels as they are otherwise made of B: the tiles are of C transposed, and turned when they
 * are stored. */
#include "nn/arithmetic/product_run_tile.h"

#include <string.h>

/* Rows of C at hand, from `j` on, and elements from k on. */
struct turned {
    const struct product *p;
    size_t j, m, k, depth;
    const float *panels;
    bool first, last; /* of k */
};

/* The rows or columns of B that lie as they do, from column i of C on. */
static struct tile
tile_of(const struct turned *t)
{
    const struct gemm_view *b = &t->p->b;
    return (struct tile){
        .lying = {.rows = b->step == 1 ? b->row : 0, .along = b->step},
        .ldb = COLUMNS,
        .k = t->depth,
        .ldc = COLUMNS,
        .add = !t->first || t->p->add,
        .relu = t->last && t->p->relu,
    };
}

/* `count` columns of C from i on, at most GROUP. */
static void
turned_columns(const struct turned *t, size_t i, size_t count)
{
    const struct product *p = t->p;
    struct tile tile = tile_of(t);
    float side[GROUP * COLUMNS];
    memset(side, 0, sizeof side);
    for (size_t j = 0; j < t->m; j += COLUMNS) {
        size_t columns = least(t->m - j, COLUMNS);
        float *c = p->c + (t->j + j) * p->ldc + i;
        if (tile.add)
            SIMD_NAME(product_transpose)(c, p->ldc, columns, count, side, COLUMNS);
        tile.b = t->panels + j * t->depth;
        for (size_t r = 0; r < count; r += ROWS) {
            tile.a = p->b.at + (i + r) * p->b.row + t->k * p->b.step;
            tile.c = side + r * COLUMNS;
            tile.rise = t->last && p->bias != NULL ? p->bias + i + r : NULL;
            run_tile[least(count - r, ROWS) - 1][vectors_of(columns) - 1](&tile);
        }
        SIMD_NAME(product_transpose)(side, COLUMNS, count, columns, c, p->ldc);
    }
}

enum { TOLD = 8 * GROUP }; /* columns that are complete before `done` hears of them */

void
SIMD_NAME(product_turned)(const struct product *p, float *scratch)
{
    size_t deep = share_of(p->k, PRODUCT_DEPTH_TURNED, 1),
           rows = share_of(p->m, product_turned_rows(deep), COLUMNS);
    struct turned t = {.p = p, .panels = scratch};
    for (; t.j < p->m; t.j += rows) {
        t.m = least(p->m - t.j, rows);
        t.k = 0;
        do {
            t.depth = least(p->k - t.k, deep);
            t.first = t.k == 0;
            t.last = t.k + t.depth == p->k;
            pack_b(&p->a, t.j, t.m, t.k, t.depth, NULL, scratch);
            for (size_t i = 0; i < p->n; i += GROUP) {
                turned_columns(&t, i, least(p->n - i, GROUP));
                size_t told = i / TOLD * TOLD, end = least(i + GROUP, p->n);
                if (t.last && p->done != NULL && (end == p->n || end % TOLD == 0))
                    p->done(p->ctx, t.j, told, t.m, end - told);
            }
        } while ((t.k += t.depth) < p->k);
    }
}

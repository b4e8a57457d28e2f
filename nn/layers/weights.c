/* weights.c - the gradient of a weight as a product over all rows at hand, given to the sinks: as integers that never
 * were floats in memory where the sink takes them (product_sum), else some units at a time as floats. */
#include <assert.h>

#include "nn/arithmetic/product.h"
#include "nn/layers/layer.h"
#include "nn/least.h"

enum {
    CHUNK = 48,      /* units at a time, as floats; the fingerprint sees these pieces */
    SHARDS_MAX = 64, /* in one call */
};

size_t
layer_weights_scratch(size_t units, size_t n, size_t k)
{
    size_t at_once = least(units, CHUNK), floats = at_once * n + product_scratch(at_once, n, k);
    size_t sums = product_sum_scratch(units, n, k);
    return floats > sums ? floats : sums;
}

/* The gradient of units [from, to), all n columns. */
static struct product
product_of(const struct layer_weights *w, const struct layer_io *io, size_t from, size_t to)
{
    struct product product = {
        .m = to - from,
        .n = w->n,
        .k = io->rows * w->each,
        .a = w->dy,
        .b = w->x,
        .c = io->scratch,
        .ldc = w->n,
    };
    product.a.at += from * w->dy.row;
    return product;
}

static void
as_floats(const struct layer_io *io, const struct layer_weights *w)
{
    for (size_t o = 0; o < w->units; o += CHUNK) {
        size_t to = least(w->units, o + CHUNK);
        struct product product = product_of(w, io, o, to);
        if (!layer_part(io, o / CHUNK))
            continue;
        product_run(&product, io->scratch + least(w->units, CHUNK) * w->n);
        layer_sink(io, w->tensor + (w->first + o) * w->n, io->scratch, (to - o) * w->n);
    }
}

/* What does not fit into integers goes to the sink of its shard as floats. */
struct outside {
    const struct layer_io *io;
    size_t tensor;
};

static void
outside_add(void *ctx, size_t part, size_t first, const float *g, size_t n)
{
    const struct outside *outside = ctx;
    const struct nn_sink *sink = &outside->io->sink[part];
    sink->add(sink->ctx, outside->tensor + first, g, n);
}

/* Part `part` of n, in multiples of `unit`: [*from, *to). */
static void
weights_share(const struct layer_io *io, size_t n, size_t unit, size_t *from, size_t *to)
{
    size_t units = (n + unit - 1) / unit, parts = io->parts ? io->parts : 1;
    *from = least(n, units * io->part / parts * unit);
    *to = least(n, units * (io->part + 1) / parts * unit);
}

/* Each part of a call has its share of the units or columns, whichever are more: it packs all of the others. */
static void
as_integers(const struct layer_io *io, const struct layer_weights *w)
{
    const struct nn_sink *sink = io->sink;
    const struct nn_integers rule = sink->integers(sink->ctx, w->tensor);
    size_t from = 0, to = w->units, left = 0, right = w->n, end[SHARDS_MAX];
    if (w->n > w->units)
        weights_share(io, w->n, PRODUCT_COLUMNS_MAX, &left, &right);
    else
        weights_share(io, w->units, PRODUCT_GROUP, &from, &to);
    if (from >= to || left >= right)
        return;
    struct outside outside = {io, w->tensor};
    struct product product = product_of(w, io, from, to);
    product.b.at += left * w->x.row;
    product.n = right - left;
    struct product_sum sum = {
        .end = end,
        .parts = io->end == NULL ? 1 : io->shards,
        .sum = rule.sum,
        .first = (w->first + from) * w->n + left,
        .ld = w->n,
        .scale = rule.scale,
        .block = rule.block,
        .limit = rule.limit,
        .outside = outside_add,
        .ctx = &outside,
    };
    assert(sum.parts <= SHARDS_MAX);
    for (size_t s = 0; s < sum.parts; s++)
        end[s] = (io->end == NULL ? io->rows : io->end[s]) * w->each;
    product_sum(&product, &sum, io->scratch);
    sink->added(sink->ctx, w->tensor, sum.plain, sum.weighted);
}

void
layer_weights(const struct layer_io *io, const struct layer_weights *w)
{
    (io->sink->integers != NULL ? as_integers : as_floats)(io, w);
}

/* weights.c - the gradient of a weight as a product over all rows at hand, given to the sinks: as integers that never
 * were floats in memory where the sink takes them (product_sum), else some units at a time as floats. */
#include <assert.h>

#include "nn/arithmetic/least.h"
#include "nn/arithmetic/product.h"
#include "nn/layers/layer.h"

enum { CHUNK = 48 }; /* units at a time, as floats; the fingerprint sees these pieces */

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

static void
outside_add(void *ctx, size_t part, size_t first, const float *g, size_t n)
{
    const struct layer_integers *to = ctx;
    const struct nn_sink *sink = &to->io->sink[part];
    sink->add(sink->ctx, to->tensor + first, g, n);
}

void
layer_integers_begin(struct layer_integers *to, const struct layer_io *io, size_t tensor,
                     size_t first, size_t ld)
{
    const struct nn_integers rule = io->sink->integers(io->sink->ctx, tensor);
    to->io = io;
    to->tensor = tensor;
    to->sum = (struct product_sum){
        .end = io->end == NULL ? &io->rows : io->end,
        .parts = io->end == NULL ? 1 : io->shards,
        .sum = rule.sum,
        .first = first,
        .ld = ld,
        .scale = rule.scale,
        .block = rule.block,
        .limit = rule.limit,
        .key = rule.drawn ? to->key : NULL,
        .outside = outside_add,
        .ctx = to,
    };
    assert(to->sum.parts <= LAYER_SHARDS_MAX);
    for (size_t s = 0; rule.drawn && s < to->sum.parts; s++)
        to->key[s] = io->sink[s].integers(io->sink[s].ctx, tensor).key;
}

void
layer_integers_end(const struct layer_integers *of)
{
    const struct nn_sink *sink = of->io->sink;
    sink->added(sink->ctx, of->tensor, of->sum.plain, of->sum.weighted);
}

size_t
layer_share(const struct layer_io *io, size_t n, size_t unit, size_t *first)
{
    size_t units = (n + unit - 1) / unit, parts = io->parts > 0 ? io->parts : 1;
    *first = least(n, units * io->part / parts * unit);
    return least(n, units * (io->part + 1) / parts * unit);
}

/* Each part of a call has its share of the units or columns, whichever are more: it packs all of the others. */
static void
as_integers(const struct layer_io *io, const struct layer_weights *w)
{
    size_t from = 0, to = w->units, left = 0, right = w->n, end[LAYER_SHARDS_MAX];
    if (w->n > w->units)
        right = layer_share(io, w->n, PRODUCT_COLUMNS_MAX, &left);
    else
        to = layer_share(io, w->units, PRODUCT_GROUP, &from);
    if (from >= to || left >= right)
        return;
    struct product product = product_of(w, io, from, to);
    product.b.at += left * w->x.row;
    product.n = right - left;
    struct layer_integers integers;
    layer_integers_begin(&integers, io, w->tensor, (w->first + from) * w->n + left, w->n);
    for (size_t s = 0; s < integers.sum.parts; s++)
        end[s] = integers.sum.end[s] * w->each;
    integers.sum.end = end;
    product_sum(&product, &integers.sum, io->scratch);
    layer_integers_end(&integers);
}

void
layer_weights(const struct layer_io *io, const struct layer_weights *w)
{
    (io->sink->integers != NULL ? as_integers : as_floats)(io, w);
}

/* buckets.c - see buckets.h. */
#include "node/train/buckets.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "node/train/ledger.h"
#include "node/train/state.h"
#include "node/train/work.h"

size_t
buckets_of_layer(const struct nn_model *model, size_t layer, size_t *first)
{
    size_t count = 0;
    for (size_t t = nn_tensor_count(model); t-- > 0;)
        if (nn_tensor(model, t)->layer == layer) {
            *first = nn_tensor(model, t)->first;
            count += nn_tensor(model, t)->count;
        }
    return count;
}

/* [first, end) in buckets of about the same size and not above the one asked for, but whole exponent blocks. */
static void
close_buckets(const struct exact *exact, size_t most, size_t first, size_t end, struct buckets *out)
{
    size_t bytes = (end - first) * sizeof(float);
    size_t low = exact_block_of(exact, first), high = exact_block_of(exact, end - 1) + 1;
    for (size_t count = (bytes + most - 1) / most; low < high; count--) {
        size_t next = low + (high - low + count - 1) / count, at = exact_block_first(exact, low);
        out->bucket[out->bucket_count++] =
            (struct core_bucket){at, exact_block_first(exact, next) - at};
        low = next;
    }
}

/* Sections from the top down to the lowest layer with parameters, below which nothing is to be computed;
 * buckets close at the section that makes them large enough, at a cut, or at the last one. */
static void
lay_out(struct buckets *out, const struct work_setup *setup)
{
    const struct nn_model *model = setup->model;
    size_t end = nn_param_count(model), top = nn_layer_count(model) - 1, first = end;
    for (size_t layer = top + 1; layer-- > 0;) {
        if (!buckets_of_layer(model, layer, &first))
            continue;
        struct buckets_section *section = &out->section[out->section_count++];
        *section = (struct buckets_section){.top = top, .layer = layer};
        top = layer;
        if (!first || (end - first) * sizeof(float) >= setup->bucket_bytes ||
            (setup->stages && nn_cut_below(model, layer))) {
            close_buckets(setup->exact, setup->bucket_bytes, first, end, out);
            end = first;
        }
        section->ready = out->bucket_count;
    }
    assert(end == 0);
    struct core_bucket tail = {nn_param_count(model), state_tail(exact_blocks(setup->exact))};
    struct core_bucket ledger = {tail.first + tail.count,
                                 setup->behind ? setup->behind : ledger_words(setup->shards)};
    out->vector_count = ledger.first + ledger.count;
    if (setup->claims)
        out->bucket[out->bucket_count++] = ledger;
    else
        tail.count += ledger.count;
    out->bucket[out->bucket_count++] = tail;
}

int
buckets_init(struct buckets *out, const struct work_setup *setup)
{
    size_t layers = nn_layer_count(setup->model);
    size_t bytes = nn_param_count(setup->model) * sizeof(float);
    assert(setup->bucket_bytes > 0);
    *out = (struct buckets){
        .section = calloc(layers, sizeof *out->section),
        .bucket = calloc(2 * layers + 2 + bytes / setup->bucket_bytes, sizeof *out->bucket),
    };
    if (!out->section || !out->bucket)
        return -ENOMEM;
    lay_out(out, setup);
    return 0;
}

void
buckets_fini(struct buckets *buckets)
{
    free(buckets->bucket);
    free(buckets->section);
    *buckets = (struct buckets){0};
}

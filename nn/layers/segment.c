/* segment.c - which activations are kept for back-propagation and which are computed once more.
 *
 *     layers      0 1 2 | 3 4 5 6 | 7 8     divided into segments
 *     kept            2         6     8     what each segment gives
 *     shared      0 1     3 4 5     7       one piece of memory for the other activations of all of them
 *
 * Forward, each segment writes over the shared activations of the one before it. Those of the last one are still there
 * when back-propagation begins, those of each other segment are computed again from what the one before it gave. Memory
 * is the sum of what is kept and the largest shared part, for less than one more forward pass (Chen, Xu, Zhang,
 * Guestrin: Training Deep Nets with Sublinear Memory Cost, 2016). A layer is a function of its input, so the bits are
 * the same.
 *
 * No segment ends within a residual, nor beside a gelu that its neighbours compute; with a weight that two layers
 * share, there is one before the second. The plan is the best of those that fill segments from the front up to a limit,
 * for limits of no, one, two, ... parts of all. */
#include <assert.h>
#include <stdint.h>

#include "nn/layers/layer.h"

struct plan {
    struct layer *layer;
    size_t count;
    bool may[NN_LAYERS_MAX]; /* a segment may begin here */
};

/* The gradient of a shared weight is computed at the embedding, from what the dense layer read and saved. */
bool
segment_pins(const struct layer *layer)
{
    return layer->kind == &dense_kind && layer->tied != NULL;
}

void
segment_begins(const struct layer *layer, size_t count, bool *may)
{
    for (size_t l = 0, depth = 0; l < count; l++) {
        bool begins = layer[l].kind == &residual_kind;
        may[l] = depth == 0 && (!layer[l].in_place || begins) && !layer[l].fused.forward_done &&
                 !layer[l].fused.gelu_before;
        depth += begins;
        depth -= layer[l].kind == &residual_end_kind;
    }
}

static size_t
next_cut(const struct plan *plan, size_t l)
{
    do
        l++;
    while (l < plan->count && !plan->may[l]);
    return l;
}

/* The layer of [first, end) in whose buffer what the segment gives lies. */
static size_t
holder(const struct plan *plan, size_t first, size_t end)
{
    size_t l = end - 1;
    while (l > first && plan->layer[l].in_place)
        l--;
    return l;
}

/* Bytes per row of [first, end) that are not kept. */
static size_t
shared_bytes(const struct plan *plan, size_t first, size_t end)
{
    size_t bytes = 0, kept = holder(plan, first, end);
    for (size_t l = first; l < end; l++) {
        const struct layer *layer = &plan->layer[l];
        bytes += segment_pins(layer) ? 0 : layer_saved(layer);
        bytes += layer->in_place || l == kept ? 0 : layer->out_size * sizeof(float);
    }
    return bytes;
}

/* Fill segments up to `limit` bytes per row, or with what cannot be less; the bytes per row all in all. */
static size_t
cut_at(const struct plan *plan, size_t limit)
{
    size_t kept = 0, largest = 0, segment = 0;
    for (size_t first = 0, end; first < plan->count; first = end, segment++) {
        end = next_cut(plan, first);
        while (end < plan->count && !segment_pins(&plan->layer[end]) &&
               shared_bytes(plan, first, next_cut(plan, end)) <= limit)
            end = next_cut(plan, end);
        size_t bytes = shared_bytes(plan, first, end), at = holder(plan, first, end);
        largest = bytes > largest ? bytes : largest;
        kept += plan->layer[at].in_place ? 0 : plan->layer[at].out_size * sizeof(float);
        for (size_t l = first; l < end; l++) {
            plan->layer[l].segment = (unsigned)segment;
            plan->layer[l].kept = l == at;
        }
    }
    return kept + largest;
}

void
segment_plan(struct layer *layer, size_t count)
{
    struct plan plan = {.layer = layer, .count = count};
    size_t all = shared_bytes(&plan, 0, count), best = SIZE_MAX, limit = 0;
    assert(count <= NN_LAYERS_MAX);
    segment_begins(layer, count, plan.may);
    for (size_t l = 0; l < count; l++)
        if (segment_pins(&layer[l]) && !plan.may[l])
            return;
    for (size_t i = 0; i <= count; i++) {
        size_t bytes = cut_at(&plan, all / count * i);
        if (bytes < best) {
            best = bytes;
            limit = all / count * i;
        }
    }
    cut_at(&plan, limit);
}

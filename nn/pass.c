/* pass.c - the memory of one block of rows on its way through a model.
 *
 * It is one block: the struct, the batch, scratch, and all buffers that live for a while, which share memory as their
 * lifetimes allow (lifetime.h). Time is counted in calls: layer l of L runs forward at time l and backward at time
 * 2 L - l, between them comes the loss at time L.
 *
 *     output     of a layer that neither is a view nor works in place: until its last reader, forward or backward.
 *                Of a segment that is computed again (segment.c) also from then on, but not in between
 *     saved      what a kind keeps from forward to backward, or from one backward to another
 *     gradient   of an output: from the layer after it to the layer itself; element-wise layers share one */
#include "nn/pass.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nn/arithmetic/least.h"
#include "nn/lifetime.h"

enum { ALIGN = LIFETIME_ALIGN };

static const struct interval NEVER = {1, 0};

/* A multiple of a cache line. Kinds that are not by rows see one shard at a time. */
size_t
nn_team_scratch(const struct nn_model *model, const struct nn_room *room)
{
    size_t most = 0, end = room->end == 0 ? model->layer_count : room->end;
    for (size_t l = room->first; l < end; l++) {
        const struct layer *layer = &model->layer[l];
        bool all = layer->kind->by_rows && room->shards > 0;
        size_t rows = all ? room->rows_max * room->shards : room->rows_max;
        size_t need = layer->kind->scratch == NULL ? 0 : layer->kind->scratch(layer, rows);
        most = need > most ? need : most;
    }
    return (most + ALIGN - 1) / ALIGN * ALIGN;
}

/* Hands out aligned pieces of a block; with no block yet it only counts. */
struct carver {
    char *base;
    size_t used;
    bool overflow;
};

static void *
carve(struct carver *carver, size_t rows, size_t row_bytes)
{
    size_t at = carver->used, bytes;
    if (__builtin_mul_overflow(rows, row_bytes, &bytes) || bytes > SIZE_MAX / 2 - at - ALIGN) {
        carver->overflow = true;
        return NULL;
    }
    carver->used = (at + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return carver->base == NULL ? NULL : carver->base + at;
}

/* All buffers with a lifetime, and the pointers of the pass that they belong to. */
struct plan {
    struct nn_pass *pass;
    const struct layer *layer;
    size_t begin, layers; /* [begin, layers) */
    size_t count;
    struct lifetime buffer[3 * NN_LAYERS_MAX];
    void *owner[3 * NN_LAYERS_MAX]; /* each a pointer */
    bool overflow;
};

/* Some kinds keep something even of no rows, so there is memory for one. */
static void
plan_add(struct plan *plan, size_t row_bytes, struct interval first, struct interval again,
         void *owner)
{
    struct lifetime *it = &plan->buffer[plan->count];
    const struct nn_room *room = &plan->pass->room;
    size_t rows;
    plan->overflow |= __builtin_mul_overflow(room->rows_max, room->shards, &rows);
    rows = greatest(rows, 1);
    plan->overflow |= __builtin_mul_overflow(rows, row_bytes, &it->bytes);
    it->alive[0] = first;
    it->alive[1] = again;
    plan->owner[plan->count++] = owner;
}

static size_t
backward_at(const struct plan *plan, size_t l)
{
    return 2 * plan->layers - l;
}

/* The last time at which the gradient of a layer's weights may be computed. */
static size_t
weights_at(const struct plan *plan, size_t l)
{
    bool late = plan->pass->room.late && nn_late(plan->pass->model, l);
    return backward_at(plan, late || segment_pins(&plan->layer[l]) ? 0 : l);
}

/* The time at which the segment of layer `l` is computed again; 0: it is not. */
static size_t
again_at(const struct plan *plan, size_t l)
{
    const struct layer *layer = plan->layer;
    size_t last = l;
    while (last + 1 < plan->layers && layer[last + 1].segment == layer[l].segment)
        last++;
    return plan->pass->room.training && last + 1 < plan->layers ? backward_at(plan, last) : 0;
}

/* Of the output of layer `l` and of those after it that are the same memory. */
static void
output_plan(struct plan *plan, size_t l)
{
    const struct layer *layer = plan->layer;
    size_t end = l, last, back = 0, again = again_at(plan, l);
    do {
        bool needed = layer[end].kind->reads_output || layer[end].fused.relu_grad_after;
        back = needed ? greatest(back, backward_at(plan, end)) : back;
        end++;
    } while (end < plan->layers && layer[end].in_place);
    last = end; /* the next layer or the loss */
    for (size_t i = l; i < end; i++)
        last = layer[i].kind == &residual_kind ? greatest(last, layer[i].partner) : last;
    if (end < plan->layers)
        back = greatest(back, weights_at(plan, end));
    if (!plan->pass->room.training)
        back = 0;
    bool gone = again > 0 && !layer[l].kept; /* what is kept may be written once more then, too */
    plan_add(plan, layer[l].out_size * sizeof(float),
             (struct interval){l - layer[l].fused.forward_done,
                               gone ? last : greatest(greatest(last, back), again)},
             gone ? (struct interval){again, back} : NEVER, &plan->pass->out[l]);
}

static void
saved_plan(struct plan *plan, size_t l)
{
    const struct layer *layer = &plan->layer[l];
    size_t bytes = layer_saved(layer), again = again_at(plan, l), back = weights_at(plan, l);
    if (bytes == 0)
        return;
    if (layer->kind->saves_gradient)
        plan_add(plan, bytes,
                 (struct interval){backward_at(plan, l), backward_at(plan, layer->partner)}, NEVER,
                 &plan->pass->saved[l]);
    else
        plan_add(plan, bytes, (struct interval){l, again > 0 ? l : back},
                 again > 0 ? (struct interval){again, back} : NEVER, &plan->pass->saved[l]);
}

/* Of layer `l` and of the element-wise ones that hand the same buffer on. Returns the first one of them. */
static size_t
gradient_plan(struct plan *plan, size_t l)
{
    size_t first = l, from = l + 1 < plan->layers ? backward_at(plan, l + 1) : plan->layers;
    while (first > plan->begin && layer_hands_on(&plan->layer[first]))
        first--;
    plan_add(plan, plan->layer[l].out_size * sizeof(float),
             (struct interval){from, plan->pass->room.training ? weights_at(plan, first) : from},
             NEVER, &plan->pass->grad[l]);
    return first;
}

static void
input_gradient_plan(struct plan *plan)
{
    const struct layer *first = &plan->layer[plan->begin];
    if (plan->begin > 0 && first->wants_dx && !layer_hands_on(first))
        plan_add(plan, first->in_size * sizeof(float),
                 (struct interval){backward_at(plan, plan->begin), backward_at(plan, 0)}, NEVER,
                 &plan->pass->input_grad);
}

static void
plan_make(struct plan *plan)
{
    bool training = plan->pass->room.training;
    size_t l;
    for (size_t i = plan->begin; i < plan->layers; i++) {
        if (!plan->layer[i].in_place)
            output_plan(plan, i);
        if (training)
            saved_plan(plan, i);
    }
    for (l = gradient_plan(plan, plan->layers - 1);
         training && l > plan->begin && plan->layer[l].wants_dx;)
        l = gradient_plan(plan, l - 1);
    if (training)
        input_gradient_plan(plan);
}

/* Buffers that layers share with those beside them. */
static void
shared_set(struct nn_pass *pass)
{
    const struct layer *layer = pass->model->layer;
    size_t first = pass->room.first;
    for (size_t l = first; l < pass->room.end; l++)
        if (layer[l].in_place)
            pass->out[l] = pass_input(pass, l);
    for (size_t l = pass->room.end - 1; l > first; l--)
        if (layer_hands_on(&layer[l]))
            pass->grad[l - 1] = pass->grad[l];
    if (first > 0 && layer_hands_on(&layer[first]))
        pass->input_grad = pass->grad[first];
}

static void
plan_lay(struct nn_pass *pass, struct carver *carver)
{
    struct plan plan = {.pass = pass,
                        .layer = pass->model->layer,
                        .begin = pass->room.first,
                        .layers = pass->room.end};
    plan_make(&plan);
    size_t bytes = plan.overflow ? SIZE_MAX : lifetime_place(plan.buffer, plan.count);
    char *base = carve(carver, 1, bytes);
    for (size_t i = 0; base != NULL && i < plan.count; i++) {
        const void *at = base + plan.buffer[i].at;
        memcpy(plan.owner[i], &at, sizeof at);
    }
    shared_set(pass);
}

/* Set every pointer of the pass; the bytes used, or SIZE_MAX. */
static size_t
pass_lay(struct nn_pass *pass, struct carver *carver)
{
    const struct nn_model *model = pass->model;
    const struct nn_room *room = &pass->room;
    bool last = room->end == model->layer_count;
    size_t rows;
    carver->overflow |= __builtin_mul_overflow(room->rows_max, room->shards, &rows);
    carve(carver, 1, sizeof *pass);
    pass->batch.x = carve(carver, rows, model->layer[room->first].in_size * sizeof(float));
    if (last)
        pass->batch.label = carve(carver, rows, model->loss.positions * sizeof(int32_t));
    if (last && model->loss.positions == 1)
        pass->batch.target = carve(carver, rows, nn_output_size(model) * sizeof(float));
    pass->scratch = carve(carver, 1, nn_team_scratch(model, room) * sizeof(float));
    plan_lay(pass, carver);
    return carver->overflow ? SIZE_MAX : carver->used;
}

/* Without zeros that mean something. */
static struct nn_room
room_full(const struct nn_model *model, const struct nn_room *room)
{
    struct nn_room full = *room;
    full.end = room->end == 0 ? model->layer_count : room->end;
    full.shards = room->shards == 0 ? 1 : room->shards;
    assert(full.first < full.end);
    assert(full.end <= model->layer_count);
    assert(nn_may_begin(model, full.first));
    assert(full.end == model->layer_count || nn_may_begin(model, full.end));
    return full;
}

size_t
nn_pass_room_bytes(const struct nn_model *model, const struct nn_room *room)
{
    struct nn_pass pass = {.model = model, .room = room_full(model, room)};
    return pass_lay(&pass, &(struct carver){0});
}

size_t
nn_pass_bytes(const struct nn_model *model, size_t rows_max, bool training)
{
    return nn_pass_room_bytes(model, &(struct nn_room){.rows_max = rows_max, .training = training});
}

int
nn_pass_new_room(struct nn_pass **out, const struct nn_model *model, const struct nn_room *room)
{
    size_t bytes = nn_pass_room_bytes(model, room);
    char *block = bytes == SIZE_MAX ? NULL : aligned_alloc(ALIGN, bytes);
    *out = NULL;
    if (block == NULL)
        return -ENOMEM;
    struct nn_pass *pass = (void *)block;
    *pass = (struct nn_pass){.model = model, .room = room_full(model, room), .shards = 1};
    pass_lay(pass, &(struct carver){.base = block});
    *out = pass;
    return 0;
}

int
nn_pass_new(struct nn_pass **out, const struct nn_model *model, size_t rows_max, bool training)
{
    return nn_pass_new_room(out, model,
                            &(struct nn_room){.rows_max = rows_max, .training = training});
}

void
nn_pass_destroy(struct nn_pass **pass)
{
    free(*pass);
    *pass = NULL;
}

void
nn_pass_shards(struct nn_pass *pass, unsigned shards, const size_t *end)
{
    assert(shards >= 1);
    assert(shards <= pass->room.shards);
    assert(end[shards - 1] == pass->batch.rows);
    pass->shards = shards;
    pass->end = shards > 1 ? end : NULL;
}

struct nn_batch *
nn_pass_batch(struct nn_pass *pass)
{
    return &pass->batch;
}

const float *
nn_pass_output(const struct nn_pass *pass)
{
    return pass->out[pass->room.end - 1];
}

float *
nn_pass_gradient(struct nn_pass *pass, float scale)
{
    assert(pass->room.end < pass->model->layer_count);
    pass->scale = scale;
    return pass->grad[pass->room.end - 1];
}

const float *
nn_pass_input_gradient(const struct nn_pass *pass)
{
    return pass->input_grad;
}

void
nn_pass_tied(struct nn_pass *pass, const struct nn_pass *other)
{
    pass->other = other;
}

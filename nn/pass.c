/* pass.c - the memory of one block of rows on its way through a model.
 *
 * It is one block: the struct, the batch, one buffer per layer that neither is a view nor works in place (fewer when
 * some are computed again: segment.c; in evaluation two that alternate, and one more for each residual that holds
 * one), what kinds save, two gradient buffers that alternate, scratch. */
#include "nn/pass.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { ALIGN = 64 };

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

/* Buffers of an evaluation: one for each residual that is open, what a layer reads and what it writes. */
enum { SPARES = NN_NEST_MAX + 2 };

static size_t
nest_depth(const struct nn_model *model)
{
    size_t depth = 0, deepest = 0;
    for (size_t l = 0; l < model->layer_count; l++) {
        depth += model->layer[l].kind == &residual_kind;
        depth -= model->layer[l].kind == &residual_end_kind;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

/* The first spare that is neither `at` nor held. */
static float *
spare_choose(float *const *spare, const float *at, float *const *held, size_t depth)
{
    for (;; spare++) {
        bool used = *spare == at;
        for (size_t i = 0; i < depth; i++)
            used |= *spare == held[i];
        if (!used)
            return *spare;
    }
}

/* Of an evaluation. */
static void
spares_lay(struct nn_pass *pass, struct carver *carver, size_t largest)
{
    const struct nn_model *model = pass->model;
    float *at = pass->batch.x, *spare[SPARES] = {0}, *held[NN_NEST_MAX] = {0};
    size_t depth = 0, spares = nest_depth(model) + 2;
    for (size_t i = 0; i < spares; i++)
        spare[i] = carve(carver, pass->rows_max, largest * sizeof(float));
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layer[l];
        if (!layer->in_place && carver->base != NULL)
            at = spare_choose(spare, at, held, depth);
        if (layer->kind == &residual_kind)
            held[depth++] = at;
        depth -= layer->kind == &residual_end_kind;
        pass->out[l] = at;
    }
}

static void
output_lay(struct nn_pass *pass, struct carver *carver, size_t l)
{
    const struct layer *layer = &pass->model->layer[l];
    if (layer->in_place)
        pass->out[l] = l == 0 ? pass->batch.x : pass->out[l - 1];
    else
        pass->out[l] = carve(carver, pass->rows_max, layer->out_size * sizeof(float));
}

static void
saved_lay(struct nn_pass *pass, struct carver *carver, size_t l)
{
    size_t bytes = layer_saved(&pass->model->layer[l]);
    if (bytes > 0)
        pass->saved[l] = carve(carver, pass->rows_max, bytes);
}

/* What is kept, then the insides of all segments, each from the same place on. */
static void
outputs_lay(struct nn_pass *pass, struct carver *carver)
{
    const struct nn_model *model = pass->model;
    for (size_t l = 0; l < model->layer_count; l++) {
        if (model->layer[l].kept && !model->layer[l].in_place)
            output_lay(pass, carver, l);
        if (segment_pins(&model->layer[l]))
            saved_lay(pass, carver, l);
    }
    size_t first = carver->used, end = first;
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layer[l];
        if (l > 0 && layer->segment != model->layer[l - 1].segment)
            carver->used = first;
        if (!layer->kept || layer->in_place)
            output_lay(pass, carver, l);
        if (!segment_pins(layer))
            saved_lay(pass, carver, l);
        end = carver->used > end ? carver->used : end;
    }
    carver->used = end;
}

/* Set every pointer of the pass; the bytes used, or SIZE_MAX. */
static size_t
pass_lay(struct nn_pass *pass, struct carver *carver)
{
    const struct nn_model *model = pass->model;
    size_t out = nn_output_size(model), largest = 0;
    for (size_t l = 0; l < model->layer_count; l++)
        largest = model->layer[l].out_size > largest ? model->layer[l].out_size : largest;
    carve(carver, 1, sizeof *pass);
    pass->batch.x = carve(carver, pass->rows_max, model->input_size * sizeof(float));
    pass->batch.label = carve(carver, pass->rows_max, model->loss.positions * sizeof(int32_t));
    if (model->loss.positions == 1)
        pass->batch.target = carve(carver, pass->rows_max, out * sizeof(float));
    if (pass->training)
        outputs_lay(pass, carver);
    else
        spares_lay(pass, carver, largest);
    pass->grad[0] = carve(carver, pass->rows_max, (pass->training ? largest : out) * sizeof(float));
    pass->grad[1] = carve(carver, pass->training ? pass->rows_max : 0, largest * sizeof(float));
    pass->scratch =
        carve(carver, 1,
              nn_team_scratch(model, pass->rows_max / pass->shards_max, pass->shards_max) *
                  sizeof(float));
    return carver->overflow ? SIZE_MAX : carver->used;
}

size_t
nn_pass_shards_bytes(const struct nn_model *model, size_t rows_max, size_t shards, bool training)
{
    struct nn_pass pass = {
        .model = model, .rows_max = rows_max * shards, .shards_max = shards, .training = training};
    return pass_lay(&pass, &(struct carver){0});
}

size_t
nn_pass_bytes(const struct nn_model *model, size_t rows_max, bool training)
{
    return nn_pass_shards_bytes(model, rows_max, 1, training);
}

int
nn_pass_new_shards(struct nn_pass **out, const struct nn_model *model, size_t rows_max,
                   size_t shards, bool training)
{
    assert(shards >= 1);
    size_t bytes = nn_pass_shards_bytes(model, rows_max, shards, training);
    char *block = bytes == SIZE_MAX ? NULL : aligned_alloc(ALIGN, bytes);
    *out = NULL;
    if (block == NULL)
        return -ENOMEM;
    struct nn_pass *pass = (void *)block;
    *pass = (struct nn_pass){.model = model,
                             .rows_max = rows_max * shards,
                             .shards_max = shards,
                             .training = training,
                             .shards = 1};
    pass_lay(pass, &(struct carver){.base = block});
    *out = pass;
    return 0;
}

int
nn_pass_new(struct nn_pass **out, const struct nn_model *model, size_t rows_max, bool training)
{
    return nn_pass_new_shards(out, model, rows_max, 1, training);
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
    assert(shards <= pass->shards_max);
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
    return pass->out[pass->model->layer_count - 1];
}

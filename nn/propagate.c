/* propagate.c - a pass goes through its layers: forward, the loss, and back, where what was not kept is computed again
 * first (segment.c). */
#include <assert.h>

#include "nn/pass.h"

/* How a call for all rows is shared out, whose operand has `size` floats per row. Each thread packs its own part of one
 * operand and all of the other one, which had better be the smaller one. */
static enum team_share
share_of(const struct nn_pass *pass, const struct layer *layer, size_t size)
{
    bool apart = !layer->kind->by_rows || layer->kind->draws;
    if (apart && pass->shards > 1)
        return TEAM_SHARDS;
    return layer->kind->by_columns && layer->weight_count > pass->batch.rows * size ? TEAM_COLUMNS
                                                                                    : TEAM_ROWS;
}

static void
propagate_forward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
                  const struct nn_context *context)
{
    const struct layer *layer = &model->layer[l];
    const struct layer_io io = {
        .rows = pass->batch.rows,
        .x = pass_input(pass, l),
        .y = pass->out[l],
        .after = layer->fused.gelu_after ? pass->out[l + 1] : NULL,
        .keeps = pass->room.training,
        .params = params,
        .context = context,
        .saved = pass->saved[l],
        .held = pass->out[layer->partner],
        .scratch = pass->scratch,
    };
    pass->live = layer->segment;
    if (!layer->fused.forward_done)
        team_call(pass, layer, layer->kind->forward, &io, share_of(pass, layer, layer->in_size));
    if (layer->rounds_y)
        team_round(pass, pass->out[l], layer->out_size);
}

void
nn_forward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
           const struct nn_context *context)
{
    assert(model == pass->model);
    assert(l >= pass->room.first);
    assert(l < pass->room.end);
    assert(pass->batch.rows <= pass->room.rows_max * pass->room.shards);
    propagate_forward(model, l, pass, params, context);
}

/* Compute the insides of the segment of layer `l` again, unless they are there. */
static void
recompute(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
          const struct nn_context *context)
{
    size_t first = l, end = l + 1;
    if (pass->live == model->layer[l].segment)
        return;
    while (first > pass->room.first && model->layer[first - 1].segment == model->layer[l].segment)
        first--;
    while (end < pass->room.end && model->layer[end].segment == model->layer[l].segment)
        end++;
    const struct layer *last = &model->layer[end - 1];
    end -= last->kept && !last->in_place && layer_saved(last) == 0; /* what it gave is there */
    pass->live = last->segment;
    for (; first < end; first++)
        propagate_forward(model, first, pass, params, context);
}

struct loss_call {
    struct nn_pass *pass;
    float scale;
    struct nn_result *out;
};

static void
loss_shard(void *arg, size_t shard)
{
    const struct loss_call *call = arg;
    struct nn_pass *pass = call->pass;
    const struct loss_spec *spec = &pass->model->loss;
    size_t first = pass_shard_first(pass, shard), n = nn_output_size(pass->model);
    struct nn_batch batch = pass->batch;
    batch.rows = pass_shard_first(pass, shard + 1) - first;
    batch.label += first * spec->positions;
    batch.target = batch.target == NULL ? NULL : batch.target + first * n;
    loss_rows(spec, &batch, nn_pass_output(pass) + first * n, call->scale,
              pass->grad[pass->room.end - 1] + first * n, &call->out[shard]);
}

void
nn_loss(const struct nn_model *model, struct nn_pass *pass, float scale, struct nn_result *out)
{
    assert(model == pass->model);
    assert(pass->room.end == model->layer_count);
    struct loss_call call = {pass, scale, out};
    pass->scale = scale;
    team_shards(pass, loss_shard, &call);
}

/* Only the gradient of the layer's own weights. What adds integers itself does so for one shard at a time, or for all
 * together, but never for two in parallel. */
static void
weights_backward(const struct nn_pass *pass, const struct layer *layer, struct layer_io io)
{
    bool integers = layer->kind->by_shards && io.sink->integers != NULL;
    if (pass->shards > 1 && !integers) {
        team_call(pass, layer, layer->kind->backward, &io, TEAM_SHARDS);
        return;
    }
    for (size_t s = 0; pass->shards > 1 && !io.sink->together && s < pass->shards; s++) {
        struct layer_io one = team_shard(pass, layer, &io, s);
        if (one.rows > 0)
            team_call(pass, layer, layer->kind->backward, &one, TEAM_UNITS);
    }
    if (pass->shards > 1 && !io.sink->together)
        return;
    io.end = pass->end;
    io.shards = pass->shards;
    team_call(pass, layer, layer->kind->backward, &io, TEAM_UNITS);
}

/* What a tied embedding needs of the dense layer: its input, and the gradient that it saved. */
static void
tied_set(const struct nn_pass *pass, const struct layer *layer, struct layer_io *io)
{
    bool here = layer->partner < pass->room.end;
    const struct nn_pass *has = here ? pass : pass->other;
    assert(has != NULL);
    io->tied_x = pass_input(has, layer->partner);
    io->held = has->saved[layer->partner];
}

static void
propagate_backward(const struct nn_model *model, size_t l, struct nn_pass *pass,
                   const float *params, const struct nn_context *context,
                   const struct nn_sink *sink, float *dx)
{
    const struct layer *layer = &model->layer[l];
    struct layer_io io = {
        .rows = pass->batch.rows,
        .x = pass_input(pass, l),
        .y = pass->out[l],
        .dy = pass->grad[l],
        .slope = layer->fused.gelu_before ? pass->out[l - 2] : NULL,
        .params = params,
        .context = context,
        .saved = pass->saved[l],
        .scale = pass->scale,
        .held = pass->saved[layer->partner],
        .scratch = pass->scratch,
        .sink = sink,
    };
    if (layer->tied != NULL && layer->partner > 0)
        tied_set(pass, layer, &io);
    if (layer->kind->prepare != NULL)
        team_call(pass, layer, layer->kind->prepare, &io, TEAM_ROWS);
    if (!layer->kind->by_rows || (pass->team == NULL && pass->shards == 1)) {
        io.dx = dx;
        team_call(pass, layer, layer->kind->backward, &io, share_of(pass, layer, layer->out_size));
        return;
    }
    if (sink != NULL && layer->weight_count > 0)
        weights_backward(pass, layer, io);
    io.sink = NULL;
    io.dx = dx;
    if (dx != NULL)
        team_call(pass, layer, layer->kind->backward, &io, share_of(pass, layer, layer->out_size));
}

void
nn_backward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
            const struct nn_context *context, const struct nn_sink *sink)
{
    assert(model == pass->model);
    assert(pass->room.training);
    assert(l >= pass->room.first);
    assert(l < pass->room.end);
    const struct layer *layer = &model->layer[l];
    recompute(model, l, pass, params, context);
    if (!layer->fused.backward_done && (layer->wants_dx || (sink && layer->weight_count > 0)))
        propagate_backward(model, l, pass, params, context, sink,
                           layer->wants_dx ? pass_gradient_below(pass, l) : NULL);
    if (layer->rounds_dx)
        team_round(pass, pass_gradient_below(pass, l), layer->in_size);
}

void
nn_gradient(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
            const struct nn_context *context, const struct nn_sink *sink)
{
    assert(model == pass->model);
    assert(pass->room.training);
    assert(l >= pass->room.first);
    assert(l < pass->room.end);
    if (model->layer[l].weight_count == 0)
        return;
    if (!pass->room.late ||
        !nn_late(model, l)) /* else nn_backward has done it, and they are still there */
        recompute(model, l, pass, params, context);
    propagate_backward(model, l, pass, params, context, sink, NULL);
}

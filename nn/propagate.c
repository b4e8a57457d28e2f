/* propagate.c - a pass goes through its layers: forward, the loss, and back, where what was not kept is computed again
 * first (segment.c). */
#include <assert.h>

#include "nn/pass.h"

static void
forward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
        const struct nn_context *context)
{
    const struct layer *layer = &model->layer[l];
    pass->live = layer->segment;
    const struct layer_io io = {
        .rows = pass->batch.rows,
        .x = l == 0 ? pass->batch.x : pass->out[l - 1],
        .y = pass->out[l],
        .params = params,
        .context = context,
        .saved = pass->saved[l],
        .held = pass->out[layer->partner],
        .scratch = pass->scratch,
    };
    team_call(pass, layer, layer->kind->forward, &io, false);
}

void
nn_forward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
           const struct nn_context *context)
{
    assert(model == pass->model);
    assert(l < model->layer_count);
    assert(pass->batch.rows <= pass->rows_max);
    forward(model, l, pass, params, context);
}

/* Compute the insides of the segment of layer `l` again, unless they are there. */
static void
revive(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
       const struct nn_context *context)
{
    size_t first = l, end = l + 1;
    if (pass->live == model->layer[l].segment)
        return;
    while (first > 0 && model->layer[first - 1].segment == model->layer[l].segment)
        first--;
    while (end < model->layer_count && model->layer[end].segment == model->layer[l].segment)
        end++;
    const struct layer *last = &model->layer[end - 1];
    end -= last->kept && !last->in_place && layer_saved(last) == 0; /* what it gave is there */
    pass->live = last->segment;
    for (; first < end; first++)
        forward(model, first, pass, params, context);
}

void
nn_loss(const struct nn_model *model, struct nn_pass *pass, float scale, struct nn_result *out)
{
    assert(model == pass->model);
    pass->grad_at = 0;
    pass->scale = scale;
    loss_rows(&model->loss, &pass->batch, nn_pass_output(pass), scale, pass->grad[0], out);
}

static void
backward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
         const struct nn_context *context, const struct nn_sink *sink, float *dx)
{
    const struct layer *layer = &model->layer[l];
    struct layer_io io = {
        .rows = pass->batch.rows,
        .x = l == 0 ? pass->batch.x : pass->out[l - 1],
        .y = pass->out[l],
        .dy = pass->grad[pass->grad_at],
        .params = params,
        .context = context,
        .saved = pass->saved[l],
        .scale = pass->scale,
        .held = pass->saved[layer->partner],
        .tied_x = layer->tied != NULL && layer->partner > 0 ? pass->out[layer->partner - 1] : NULL,
        .scratch = pass->scratch,
        .sink = sink,
    };
    if (pass->team == NULL || !layer->kind->by_rows) {
        io.dx = dx;
        layer->kind->backward(layer, &io);
        return;
    }
    if (sink != NULL && layer->weight_count > 0)
        team_call(pass, layer, layer->kind->backward, &io, true);
    io.sink = NULL;
    io.dx = dx;
    if (dx != NULL)
        team_call(pass, layer, layer->kind->backward, &io, false);
}

void
nn_backward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
            const struct nn_context *context, const struct nn_sink *sink)
{
    assert(model == pass->model);
    assert(pass->training);
    assert(l < model->layer_count);
    const struct layer *layer = &model->layer[l];
    revive(model, l, pass, params, context);
    unsigned next = layer->kind->element_wise ? pass->grad_at : pass->grad_at ^ 1;
    if (layer->wants_dx || (sink && layer->weight_count > 0))
        backward(model, l, pass, params, context, sink, layer->wants_dx ? pass->grad[next] : NULL);
    pass->grad_at = next;
}

void
nn_gradient(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
            const struct nn_context *context, const struct nn_sink *sink)
{
    assert(model == pass->model);
    assert(pass->training);
    assert(l < model->layer_count);
    if (model->layer[l].weight_count == 0)
        return;
    revive(model, l, pass, params, context);
    backward(model, l, pass, params, context, sink, NULL);
}

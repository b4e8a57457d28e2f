/* local_sgd.c - local steps: how far a shard gets by itself before its result is exchanged. See local_sgd.h. */
#include "node/train/local_sgd.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t
local_sgd_bytes(const struct nn_model *model)
{
    return 2 * nn_param_count(model) * sizeof(float);
}

int
local_sgd_init(struct local_sgd *local, const struct nn_model *model)
{
    size_t count = nn_param_count(model);
    float *both = calloc(2 * count + 1, sizeof *both);
    *local = (struct local_sgd){model, NULL, NULL, both, both ? both + count : NULL};
    return both ? 0 : -ENOMEM;
}

void
local_sgd_fini(struct local_sgd *local)
{
    free(local->params);
    *local = (struct local_sgd){0};
}

void
local_sgd_begin(struct local_sgd *local, const struct optim_spec *optim, float *moments,
                const float *params)
{
    assert(!optim_layerwise(optim));
    local->optim = optim;
    local->moments = moments;
    memcpy(local->params, params, nn_param_count(local->model) * sizeof *params);
}

static void
take_gradient(void *ctx, size_t first, const float *g, size_t n)
{
    memcpy(((struct local_sgd *)ctx)->gradient + first, g, n * sizeof *g);
}

struct nn_sink
local_sgd_sink(struct local_sgd *local)
{
    return (struct nn_sink){.add = take_gradient, .ctx = local};
}

/* Of the gradient, without the shares of running averages. */
static double
squares(const struct local_sgd *local)
{
    double sum = 0;
    for (size_t t = 0; t < nn_tensor_count(local->model); t++) {
        const struct nn_tensor *tensor = nn_tensor(local->model, t);
        const float *g = local->gradient + tensor->first;
        for (size_t i = 0; !(tensor->average > 0) && i < tensor->count; i++)
            sum += (double)g[i] * (double)g[i];
    }
    return sum;
}

void
local_sgd_step(struct local_sgd *local, double rate, uint64_t step)
{
    const size_t params = nn_param_count(local->model);
    float factor = local->optim->clip_norm > 0 ? optim_clip(local->optim, squares(local)) : 1.0f;
    for (size_t t = 0; t < nn_tensor_count(local->model); t++) {
        const struct nn_tensor *tensor = nn_tensor(local->model, t);
        float *p = local->params + tensor->first, *g = local->gradient + tensor->first;
        float *slot[OPTIM_SLOTS_MAX] = {0};
        const float average = tensor->average, scale = average > 0 ? average : factor;
        for (size_t s = 0; local->moments && s < OPTIM_SLOTS_MAX; s++)
            slot[s] = local->moments + s * params + tensor->first;
        for (size_t i = 0; scale != 1.0f && i < tensor->count; i++)
            g[i] *= scale;
        for (size_t i = 0; average > 0 && i < tensor->count; i++)
            p[i] -= g[i];
        if (!(average > 0))
            optim_apply(local->optim, rate, step, p, slot, g, tensor->count);
    }
}

void
local_sgd_end(struct local_sgd *local, const float *from, float share)
{
    for (size_t i = 0, n = nn_param_count(local->model); i < n; i++)
        local->gradient[i] = share * (from[i] - local->params[i]);
}

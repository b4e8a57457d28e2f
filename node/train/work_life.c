/* work_life.c - the record of work.h begins and ends: tables, lanes, what codecs leave out, pieces. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "node/train/stages.h"
#include "node/train/work_internal.h"

static int
new_tables(struct work *work)
{
    const struct work_setup *setup = &work->setup;
    work->stripe_count = exact_blocks(setup->exact) / WORK_STRIPE_BLOCKS + 1;
    work->scale = calloc(exact_blocks(setup->exact) + 1, sizeof *work->scale);
    work->shard_result = calloc(setup->shards, sizeof *work->shard_result);
    work->stripe = calloc(work->stripe_count, sizeof *work->stripe);
    if (buckets_init(&work->buckets, setup) || !work->shard_result || !work->stripe || !work->scale)
        return -ENOMEM;
    for (size_t i = 0; i < work->stripe_count; i++)
        pthread_mutex_init(&work->stripe[i], NULL);
    return 0;
}

/* Of a model in stages a node has what is left out of some segments. */
static int
new_feedback(struct work *work)
{
    const struct work_setup *setup = &work->setup;
    struct state_stages parts = {1, {{0, nn_param_count(setup->model)}}};
    struct stages stages;
    if (!setup->memory && setup->moments == 0)
        return 0;
    if (setup->stages) {
        stages_of(&stages, setup->model, &work->buckets);
        stages_segments(&stages, setup->model, &parts);
    }
    return feedback_new(&work->feedback, setup->shards, &parts, setup->moments, 2 * setup->product);
}

int
work_new(struct work **out, const struct work_setup *setup)
{
    assert(setup->shards >= 1);
    assert(setup->batch >= setup->shards);
    assert(setup->local_steps == 1 || (setup->local_steps > 1 && setup->exact_mode));
    struct work *work = calloc(1, sizeof *work);
    *out = work;
    if (!work)
        return -ENOMEM;
    work->setup = *setup;
    if (new_tables(work) || lanes_init(work) || new_feedback(work)) {
        work_destroy(out);
        return -ENOMEM;
    }
    return 0;
}

void
work_destroy(struct work **work)
{
    struct work *self = *work;
    if (!self)
        return;
    work_pieces_fini(self);
    lanes_fini(self);
    for (size_t i = 0; self->stripe && i < self->stripe_count; i++)
        pthread_mutex_destroy(&self->stripe[i]);
    free(self->stripe);
    buckets_fini(&self->buckets);
    feedback_destroy(&self->feedback);
    free(self->shard_result);
    free(self->scale);
    free(self);
    *work = NULL;
}

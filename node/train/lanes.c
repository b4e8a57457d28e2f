/* lanes.c - shards over lanes, lanes over threads, rows into lanes: see work_internal.h. */
#include "node/train/work_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

size_t
work_parts(bool exact, unsigned threads, size_t shards)
{
    return exact || shards < threads ? shards : threads;
}

static struct nn_room
lane_room(const struct work *work)
{
    return (struct nn_room){.rows_max = work->part_rows, .shards = work->parts, .training = true};
}

int
lane_init(struct lane *lane, struct work *work, const struct nn_room *room, size_t samples)
{
    const struct work_setup *setup = &work->setup;
    lane->work = work;
    pthread_mutex_init(&lane->lock, NULL);
    for (size_t i = 0; i < EXACT_SHARDS_MAX; i++)
        lane->part[i].lane = lane;
    lane->index = calloc(samples, sizeof *lane->index);
    if (work->walks && local_sgd_init(&lane->walk, setup->model))
        return -ENOMEM;
    if (!lane->index || nn_pass_new_room(&lane->pass, setup->model, room))
        return -ENOMEM;
    lane->batch = *nn_pass_batch(lane->pass);
    return 0;
}

void
lane_fini(struct lane *lane)
{
    pthread_mutex_destroy(&lane->lock);
    nn_pass_destroy(&lane->pass);
    local_sgd_fini(&lane->walk);
    free(lane->index);
}

static int
new_lanes(struct work *work)
{
    const struct work_setup *setup = &work->setup;
    size_t shards =
        setup->lanes && setup->lanes < setup->shards ? setup->lanes : setup->shards; /* at a time */
    work->walks = setup->local_steps > 1;
    work->lane_count = work->walks ? shards : 1;
    work->lane_shards = shards / work->lane_count;
    work->parts = work_parts(setup->exact_mode, setup->threads, work->lane_shards);
    work->shard_rows = (setup->batch + setup->shards - 1) / setup->shards;
    work->part_rows = work->shard_rows * ((work->lane_shards + work->parts - 1) / work->parts);
    uint64_t steps = (data_info(setup->data)->train + setup->batch - 1) / setup->batch;
    work->count_max = work->shard_rows * work->lane_shards *
                      (setup->local_steps < steps ? setup->local_steps : steps);
    work->lane = calloc(work->lane_count, sizeof *work->lane);
    if (!work->lane)
        return -ENOMEM;
    const struct nn_room room = lane_room(work);
    for (size_t i = 0; i < work->lane_count; i++)
        if (lane_init(&work->lane[i], work, &room, work->count_max))
            return -ENOMEM;
    return 0;
}

static void
run_parts(void *pool, void (*part)(void *arg, size_t i), void *arg, size_t count)
{
    pool_run(pool, part, arg, count);
}

static int
new_team(struct work *work)
{
    const struct work_setup *setup = &work->setup;
    const struct nn_room room = lane_room(work);
    size_t count = setup->threads * nn_team_scratch(setup->model, &room);
    float *scratch =
        setup->threads > 1 && count > 0 ? aligned_alloc(64, count * sizeof(float)) : NULL;
    work->team = (struct nn_team){setup->threads, run_parts, setup->pool, scratch};
    return setup->threads > 1 && count > 0 && !scratch ? -ENOMEM : 0;
}

int
lanes_init(struct work *work)
{
    return new_lanes(work) || new_team(work) ? -ENOMEM : 0;
}

void
lanes_fini(struct work *work)
{
    for (size_t i = 0; work->lane && i < work->lane_count; i++)
        lane_fini(&work->lane[i]);
    free(work->lane);
    free(work->team.scratch);
}

uint64_t
work_shard_first(const struct work *work, uint64_t rows, unsigned shard)
{
    return rows * shard / work->setup.shards;
}

/* Of all shards in a step of the round, counted from 0. */
static uint64_t
step_rows(const struct work *work, uint64_t step)
{
    uint64_t left = state_rows(work->state) - step * work->setup.batch;
    return left < work->setup.batch ? left : work->setup.batch;
}

size_t
work_shard_rows(const struct work *work, unsigned shard)
{
    size_t sum = 0;
    for (uint64_t i = 0; i < state_steps(work->state); i++) {
        uint64_t rows = step_rows(work, i);
        sum += work_shard_first(work, rows, shard + 1) - work_shard_first(work, rows, shard);
    }
    return sum;
}

/* The first n of the set bits, which are taken away. */
static uint64_t
take_bits(uint64_t *bits, size_t n)
{
    uint64_t taken = 0;
    for (; n > 0; n--, *bits &= *bits - 1)
        taken |= *bits & -*bits;
    return taken;
}

uint64_t
lanes_wave(const struct work *work, uint64_t *shards)
{
    return take_bits(shards, work->lane_count * work->lane_shards);
}

void
lane_assign(struct lane *lane, uint64_t shards)
{
    uint64_t left = lane->shards = shards;
    size_t count = (size_t)__builtin_popcountll(left), most = lane->work->parts;
    lane->parts = count < most ? count : most;
    for (size_t p = 0; p < lane->parts; p++) {
        size_t n = count * (p + 1) / lane->parts - count * p / lane->parts;
        lane->part[p] = (struct part){.lane = lane, .shards = take_bits(&left, n)};
    }
    lane->count = 0;
}

void
lanes_assign(struct work *work, uint64_t shards)
{
    size_t count = (size_t)__builtin_popcountll(shards);
    work->used = count < work->lane_count ? count : work->lane_count;
    for (size_t i = 0; i < work->used; i++) {
        size_t n = count * (i + 1) / work->used - count * i / work->used;
        lane_assign(&work->lane[i], take_bits(&shards, n));
    }
    assert(shards == 0);
}

void
lanes_run(struct work *work, void (*run)(void *ctx, size_t lane))
{
    const bool together = work->used < work->setup.threads;
    for (size_t i = 0; i < work->used; i++)
        nn_pass_team(work->lane[i].pass, together ? &work->team : NULL);
    if (!together)
        pool_run(work->setup.pool, run, work, work->used);
    for (size_t i = 0; together && i < work->used; i++)
        run(work, i);
}

/* The samples of a part in a step: their numbers, from `row` of the pass on. Returns how many. */
static size_t
part_index(struct lane *lane, size_t p, uint64_t step, size_t row)
{
    const struct work *work = lane->work;
    const struct state_header *h = work->state->header;
    uint64_t rows = step_rows(work, step), base = (h->epoch_step + step) * work->setup.batch;
    uint32_t count = (uint32_t)work->state->job.train, *index = lane->index + lane->count;
    size_t first_row = row;
    for (uint64_t left = lane->part[p].shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        uint64_t first = work_shard_first(work, rows, shard),
                 end = work_shard_first(work, rows, shard + 1);
        if (left == lane->part[p].shards)
            lane->context[p] =
                (struct nn_context){work->setup.seed, h->epoch, h->step + step, first, true};
        for (uint64_t i = first; i < end; i++)
            index[row++] = data_shuffle(work->setup.seed, h->epoch, (uint32_t)(base + i), count);
    }
    return row - first_row;
}

/* Rows [first, end) of the pass. */
static struct nn_batch
lane_batch(const struct lane *lane, size_t first, size_t end)
{
    const struct nn_model *model = lane->work->setup.model;
    struct nn_batch batch = lane->batch;
    batch.rows = end - first;
    batch.x += first * nn_input_size(model);
    batch.label = batch.label ? batch.label + first * nn_label_count(model) : NULL;
    batch.target = batch.target ? batch.target + first * nn_output_size(model) : NULL;
    return batch;
}

struct nn_batch
lane_part(const struct lane *lane, size_t p, enum data_part part, const uint32_t *index)
{
    const struct work *work = lane->work;
    struct nn_batch batch = lane_batch(lane, p == 0 ? 0 : lane->end[p - 1], lane->end[p]);
    data_fill(work->setup.data, part, index, batch.rows, &batch, nn_output_size(work->setup.model));
    return batch;
}

static void
part_fill(void *arg, size_t p)
{
    const struct lane *lane = arg;
    const struct work *work = lane->work;
    const uint32_t *index = lane->index + lane->count - lane->rows + (p ? lane->end[p - 1] : 0);
    struct nn_batch batch = lane_part(lane, p, DATA_TRAIN, index);
    data_augment(work->setup.data, work->setup.seed, work->state->header->epoch, index, &batch);
}

void
lane_each(struct lane *lane, void (*run)(void *lane, size_t part))
{
    if (lane->work->used < lane->work->setup.threads)
        pool_run(lane->work->setup.pool, run, lane, lane->parts);
    else
        for (size_t p = 0; p < lane->parts; p++)
            run(lane, p);
}

void
lane_fill(struct lane *lane, uint64_t step)
{
    lane->rows = 0;
    for (size_t p = 0; p < lane->parts; p++) {
        size_t rows = part_index(lane, p, step, lane->rows);
        lane->rows += rows;
        lane->end[p] = lane->rows;
        lane->part[p].count += rows;
    }
    lane->count += lane->rows;
    nn_pass_batch(lane->pass)->rows = lane->rows;
    nn_pass_shards(lane->pass, (unsigned)lane->parts, lane->end);
    if (lane->batch.x)
        lane_each(lane, part_fill);
}

void
lane_forward(struct lane *lane, const float *params, size_t layer, size_t end)
{
    const struct nn_model *model = lane->work->setup.model;
    for (; layer < end; layer++)
        nn_forward(model, layer, lane->pass, params, lane->context);
}

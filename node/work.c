/* work.c - computing shards: rows of the batch, forward, loss, backward, quantise, layer by layer.
 *
 * A lane is what one worker pushes through the network at a time: a pass, the rows in it, its result.
 * In exact mode a lane is one shard, and when there are fewer lanes, shards come in waves; otherwise all shards of a worker share a lane. Back-propagation runs
 * in sections: from the input of one layer with parameters down to the gradient of the next one below it;
 * after each section all lanes meet, and buckets may be ready. Lanes add to `own` under a lock per stripe of
 * exponent blocks; integer sums do not care about the order. When there are fewer lanes than threads, all threads work on
 * one lane after the other, on pieces of each layer (nn_team), with the same bits. */
#include "node/work.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "node/ledger.h"
#include "node/walk.h"
#include "proto/fail.h"

enum { STRIPE_BLOCKS = 64 };

struct lane {
    struct work *work;
    struct nn_pass *pass;
    uint32_t *index; /* [count_max] samples of the round */
    size_t count;    /* of them */
    uint64_t shards; /* of this compute */
    struct nn_context context;
    struct nn_result result;
    size_t rows;          /* in the pass */
    struct walk walk;     /* with local steps */
    pthread_mutex_t lock; /* of the next two, when a team computes the lane */
    int32_t bad;
    uint64_t check; /* of what was added to own */
};

struct section {
    size_t top,
        layer;    /* gradients of the inputs of layers top to layer + 1, then of layer itself */
    size_t ready; /* buckets below this one are complete after it */
};

struct work {
    struct work_setup setup;
    size_t rows_max;         /* of a lane */
    size_t count_max;        /* of a lane in a round */
    bool walks;              /* several local steps to a round */
    size_t lane_count, used; /* allocated; in use by this compute */
    struct lane *lane;
    struct nn_team team; /* all threads, on one lane at a time, when there are fewer lanes */
    struct nn_result *shard_result; /* [shards], evaluation */
    struct section *section;        /* in order of back-propagation */
    size_t section_count, present;  /* the section being computed */
    struct core_bucket *bucket;
    size_t bucket_count, vector_count;
    pthread_mutex_t *stripe;
    size_t stripe_count;
    bool probing; /* it is somebody else's shard that is computed */
    /* Of the present round: */
    const struct state *state;
    const float *params;
    int32_t *own;
    float scale;
    uint64_t step; /* of the round, from 0, when it has several */
    /* Of the round whose forward pass is under way: */
    bool begun;
    uint64_t begun_round, begun_shards;
    size_t layer, layer_end; /* passed; to be passed now */
};

/* Layout ------------------------------------------------------------------------------------------ */

static size_t
layer_params(const struct nn_model *model, size_t layer, size_t *first)
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
close_buckets(struct work *work, size_t first, size_t end)
{
    const struct exact *exact = work->setup.exact;
    size_t bytes = (end - first) * sizeof(float), most = work->setup.bucket_bytes;
    size_t low = exact_block_of(exact, first), high = exact_block_of(exact, end - 1) + 1;
    for (size_t count = (bytes + most - 1) / most; low < high; count--) {
        size_t next = low + (high - low + count - 1) / count, at = exact_block_first(exact, low);
        work->bucket[work->bucket_count++] =
            (struct core_bucket){at, exact_block_first(exact, next) - at};
        low = next;
    }
}

/* Sections from the top down to the lowest layer with parameters, below which nothing is to be computed;
 * buckets close at the section that makes them large enough, or at the last one. */
static void
lay_out(struct work *work)
{
    const struct nn_model *model = work->setup.model;
    size_t end = nn_param_count(model), top = nn_layer_count(model) - 1, first = end;
    for (size_t layer = top + 1; layer-- > 0;) {
        if (!layer_params(model, layer, &first))
            continue;
        struct section *section = &work->section[work->section_count++];
        *section = (struct section){.top = top, .layer = layer};
        top = layer;
        if (!first || (end - first) * sizeof(float) >= work->setup.bucket_bytes) {
            close_buckets(work, first, end);
            end = first;
        }
        section->ready = work->bucket_count;
    }
    assert(end == 0);
    struct core_bucket tail = {nn_param_count(model), state_tail(exact_blocks(work->setup.exact))};
    struct core_bucket ledger = {tail.first + tail.count, ledger_words(work->setup.shards)};
    work->vector_count = work_vector(work->setup.exact, nn_param_count(model), work->setup.shards);
    if (work->setup.claims)
        work->bucket[work->bucket_count++] = ledger;
    else
        tail.count += ledger.count;
    work->bucket[work->bucket_count++] = tail;
}

static int
new_lanes(struct work *work)
{
    const struct work_setup *setup = &work->setup;
    unsigned per_lane = 1;
    work->lane_count = setup->lanes && setup->exact_mode && setup->lanes < setup->shards
                           ? setup->lanes
                           : setup->shards;
    if (!setup->exact_mode && setup->threads < setup->shards) {
        work->lane_count = setup->threads;
        per_lane = (setup->shards + setup->threads - 1) / setup->threads;
    }
    work->rows_max = (setup->batch + setup->shards - 1) / setup->shards * per_lane;
    uint64_t steps = (data_info(setup->data)->train + setup->batch - 1) / setup->batch;
    work->walks = setup->local_steps > 1;
    work->count_max = work->rows_max * (setup->local_steps < steps ? setup->local_steps : steps);
    work->lane = calloc(work->lane_count, sizeof *work->lane);
    if (!work->lane)
        return -ENOMEM;
    for (size_t i = 0; i < work->lane_count; i++) {
        struct lane *lane = &work->lane[i];
        lane->work = work;
        pthread_mutex_init(&lane->lock, NULL);
        lane->index = calloc(work->count_max, sizeof *lane->index);
        if (work->walks && walk_init(&lane->walk, setup->model, &setup->local))
            return -ENOMEM;
        if (!lane->index || nn_pass_new(&lane->pass, setup->model, work->rows_max, true))
            return -ENOMEM;
    }
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
    size_t count = setup->threads * nn_team_scratch(setup->model, work->rows_max);
    float *scratch =
        setup->threads > 1 && count > 0 ? aligned_alloc(64, count * sizeof(float)) : NULL;
    work->team = (struct nn_team){setup->threads, run_parts, setup->pool, scratch};
    return setup->threads > 1 && count > 0 && !scratch ? -ENOMEM : 0;
}

static int
new_tables(struct work *work)
{
    size_t layers = nn_layer_count(work->setup.model);
    size_t bytes = nn_param_count(work->setup.model) * sizeof(float);
    work->stripe_count = exact_blocks(work->setup.exact) / STRIPE_BLOCKS + 1;
    work->shard_result = calloc(work->setup.shards, sizeof *work->shard_result);
    work->section = calloc(layers, sizeof *work->section);
    work->bucket = calloc(2 * layers + 2 + bytes / work->setup.bucket_bytes, sizeof *work->bucket);
    work->stripe = calloc(work->stripe_count, sizeof *work->stripe);
    if (!work->shard_result || !work->section || !work->bucket || !work->stripe)
        return -ENOMEM;
    for (size_t i = 0; i < work->stripe_count; i++)
        pthread_mutex_init(&work->stripe[i], NULL);
    return 0;
}

int
work_new(struct work **out, const struct work_setup *setup)
{
    assert(setup->shards >= 1);
    assert(setup->batch >= setup->shards);
    assert(setup->bucket_bytes > 0);
    assert(setup->local_steps == 1 || (setup->local_steps > 1 && setup->exact_mode));
    struct work *work = calloc(1, sizeof *work);
    *out = work;
    if (!work)
        return -ENOMEM;
    work->setup = *setup;
    if (new_tables(work) || new_lanes(work) || new_team(work)) {
        work_destroy(out);
        return -ENOMEM;
    }
    lay_out(work);
    return 0;
}

void
work_destroy(struct work **work)
{
    struct work *self = *work;
    if (!self)
        return;
    for (size_t i = 0; self->lane && i < self->lane_count; i++) {
        pthread_mutex_destroy(&self->lane[i].lock);
        nn_pass_destroy(&self->lane[i].pass);
        walk_fini(&self->lane[i].walk);
        free(self->lane[i].index);
    }
    for (size_t i = 0; self->stripe && i < self->stripe_count; i++)
        pthread_mutex_destroy(&self->stripe[i]);
    free(self->stripe);
    free(self->team.scratch);
    free(self->bucket);
    free(self->section);
    free(self->shard_result);
    free(self->lane);
    free(self);
    *work = NULL;
}

const struct core_bucket *
work_buckets(const struct work *work, size_t *count)
{
    *count = work->bucket_count;
    return work->bucket;
}

size_t
work_vector_count(const struct work *work)
{
    return work->vector_count;
}

size_t
work_vector(const struct exact *exact, size_t param_count, unsigned shards)
{
    return param_count + state_tail(exact_blocks(exact)) + ledger_words(shards);
}

/* Rows -------------------------------------------------------------------------------------------- */

static uint64_t
shard_first(const struct work *work, uint64_t rows, unsigned shard)
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

/* Of a shard in all steps of the round. */
static size_t
shard_rows(const struct work *work, unsigned shard)
{
    size_t sum = 0;
    for (uint64_t i = 0; i < state_steps(work->state); i++) {
        uint64_t rows = step_rows(work, i);
        sum += shard_first(work, rows, shard + 1) - shard_first(work, rows, shard);
    }
    return sum;
}

/* Share out the set bits of `shards` over the lanes, as evenly as whole shards allow. */
static void
assign_lanes(struct work *work, uint64_t shards)
{
    size_t count = (size_t)__builtin_popcountll(shards), given = 0;
    work->used = count < work->lane_count ? count : work->lane_count;
    for (size_t i = 0; i < work->used; i++) {
        struct lane *lane = &work->lane[i];
        lane->shards = 0;
        for (size_t end = count * (i + 1) / work->used; given < end; given++) {
            lane->shards |= shards & -shards;
            shards &= shards - 1;
        }
    }
}

/* Each lane by a thread of its own; or, when that leaves threads without a lane, each by all of them. */
static void
run_lanes(struct work *work, void (*run)(void *ctx, size_t lane))
{
    const bool together = work->used < work->setup.threads;
    for (size_t i = 0; i < work->used; i++)
        nn_pass_team(work->lane[i].pass, together ? &work->team : NULL);
    if (!together)
        pool_run(work->setup.pool, run, work, work->used);
    for (size_t i = 0; together && i < work->used; i++)
        run(work, i);
}

/* The samples of the lane's shards of a step of the present round, in order, behind those of the steps before. */
static void
fill_step(struct lane *lane, uint64_t step)
{
    struct work *work = lane->work;
    const struct state_header *h = work->state->header;
    uint64_t rows = step_rows(work, step), base = (h->epoch_step + step) * work->setup.batch;
    uint32_t count = (uint32_t)work->state->job.train, *index = lane->index + lane->count;
    lane->rows = 0;
    lane->context = (struct nn_context){work->setup.seed, h->epoch, h->step + step, 0, true};
    for (uint64_t left = lane->shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        uint64_t first = shard_first(work, rows, shard), end = shard_first(work, rows, shard + 1);
        if (left == lane->shards)
            lane->context.first_row = first;
        for (uint64_t i = first; i < end; i++)
            index[lane->rows++] =
                data_shuffle(work->setup.seed, h->epoch, (uint32_t)(base + i), count);
    }
    lane->count += lane->rows;
    data_fill(work->setup.data, DATA_TRAIN, index, lane->rows, nn_pass_batch(lane->pass),
              nn_output_size(work->setup.model));
    data_augment(work->setup.data, work->setup.seed, h->epoch, index, nn_pass_batch(lane->pass));
}

static void
forward_lane(struct lane *lane, const float *params, size_t layer, size_t end)
{
    const struct nn_model *model = lane->work->setup.model;
    for (; layer < end; layer++)
        nn_forward(model, layer, lane->pass, params, &lane->context);
}

/* Training ---------------------------------------------------------------------------------------- */

static void
advance_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct lane *lane = &work->lane[i];
    if (work->layer == 0) {
        lane->count = 0;
        fill_step(lane, 0);
    }
    forward_lane(lane, work->params, work->layer, work->layer_end);
    if (work->layer_end == nn_layer_count(work->setup.model))
        nn_loss(work->setup.model, lane->pass, work->scale, &lane->result);
}

/* Of `shards` of the round after `state`, as far as layer `end`, on from where it stopped the last time. */
static void
advance(struct work *work, const struct state *state, uint64_t shards, size_t end)
{
    uint64_t round = state->header->round;
    if (!work->begun || work->begun_round != round || work->begun_shards != shards) {
        assign_lanes(work, shards);
        work->layer = 0;
    }
    work->begun = true;
    work->begun_round = round;
    work->begun_shards = shards;
    work->state = state;
    work->params = state->params;
    work->scale = 1.0f / (float)state_rows(state);
    work->layer_end = end;
    if (end > work->layer)
        run_lanes(work, advance_lane);
    work->layer = end > work->layer ? end : work->layer;
}

/* The shards of those that are computed first: as many as there are lanes. */
static uint64_t
first_wave(const struct work *work, uint64_t shards)
{
    uint64_t wave = 0;
    for (size_t i = 0; work->setup.exact_mode && shards && i < work->lane_count; i++) {
        wave |= shards & -shards;
        shards &= shards - 1;
    }
    return work->setup.exact_mode ? wave : shards;
}

void
work_drop(struct work *work)
{
    work->begun = false;
}

void
work_begin(struct work *work, const struct state *next, uint64_t shards, size_t known)
{
    const struct nn_model *model = work->setup.model;
    size_t end = 0, first;
    if (work->walks || next->header->phase != STATE_TRAIN || next->header->done)
        return;
    for (; end + 1 < nn_layer_count(model); end++) {
        size_t count = layer_params(model, end, &first);
        if (count && first + count > known)
            break;
    }
    if (end > 0)
        advance(work, next, first_wave(work, shards), end);
}

/* First element of a stripe; stripes end where exponent blocks end, so no counter has two owners. */
static size_t
stripe_first(const struct work *work, size_t stripe)
{
    size_t block = stripe * STRIPE_BLOCKS, blocks = exact_blocks(work->setup.exact);
    return exact_block_first(work->setup.exact, block < blocks ? block : blocks);
}

/* For tests of audits: a wrong bit in the first element, which the checksum confirms. */
static void
lie(struct lane *lane, size_t first)
{
    if (first != 0 || lane != lane->work->lane || lane->work->probing ||
        fail_hit(FAIL_LIE, NULL, 0) == 0)
        return;
    const int32_t bit = 1;
    pthread_mutex_lock(&lane->work->stripe[0]);
    lane->work->own[0] += bit;
    pthread_mutex_unlock(&lane->work->stripe[0]);
    lane->check = exact_check_add(lane->check, exact_check(&bit, 0, 1));
}

/* nn_sink: quantise a piece of gradient and add it to own. */
static void
add_piece(void *ctx, size_t first, const float *g, size_t n)
{
    struct lane *lane = ctx;
    struct work *work = lane->work;
    int32_t *over = work->own + work->state->param_count + TAIL_OVER;
    unsigned shards = (unsigned)__builtin_popcountll(lane->shards);
    const size_t begin = first;
    int32_t bad = 0;
    uint64_t check = 0;
    for (size_t stripe = exact_block_of(work->setup.exact, first) / STRIPE_BLOCKS, end = first + n;
         first < end; stripe++) {
        size_t stop = stripe_first(work, stripe + 1);
        size_t count = (stop < end ? stop : end) - first;
        pthread_mutex_lock(&work->stripe[stripe]);
        exact_add(work->setup.exact, work->state->exponent, first, g, count, shards, work->own,
                  over, &bad, &check);
        pthread_mutex_unlock(&work->stripe[stripe]);
        first += count;
        g += count;
    }
    pthread_mutex_lock(&lane->lock);
    lane->bad |= bad;
    lane->check = exact_check_add(lane->check, check);
    lie(lane, begin);
    pthread_mutex_unlock(&lane->lock);
}

static void
backward_section(struct lane *lane, size_t index, const float *params, const struct nn_sink *sink)
{
    const struct nn_model *model = lane->work->setup.model;
    const struct section *section = &lane->work->section[index];
    for (size_t layer = section->top; layer > section->layer; layer--)
        nn_backward(model, layer, lane->pass, params, &lane->context, NULL);
    nn_gradient(model, section->layer, lane->pass, params, &lane->context, sink);
}

static void
backward_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct nn_sink sink = {add_piece, &work->lane[i]};
    backward_section(&work->lane[i], work->present, work->params, &sink);
}

/* One local step; a shard that has no rows in it stays where it is. */
static void
walk_on(struct lane *lane, uint64_t step)
{
    struct work *work = lane->work;
    const struct state_job *job = &work->state->job;
    const struct state_header *h = work->state->header;
    struct nn_result result;
    fill_step(lane, step);
    if (lane->rows == 0)
        return;
    forward_lane(lane, lane->walk.params, 0, nn_layer_count(work->setup.model));
    nn_loss(work->setup.model, lane->pass, 1.0f / (float)lane->rows, &result);
    lane->result.loss += result.loss;
    lane->result.correct += result.correct;
    lane->result.bad |= result.bad;
    const struct nn_sink sink = walk_sink(&lane->walk);
    for (size_t s = 0; s < work->section_count; s++)
        backward_section(lane, s, lane->walk.params, &sink);
    walk_step(&lane->walk, optim_rate(&work->setup.local, h->step + step,
                                      state_steps_total(work->state), h->epoch, job->batch));
}

/* The present local step of the lane's shard; with the last one its part of the sum. */
static void
walk_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct lane *lane = &work->lane[i];
    const struct state *state = work->state;
    if (work->step == 0) {
        lane->count = 0;
        lane->result = (struct nn_result){0};
        walk_begin(&lane->walk, work->params);
    }
    walk_on(lane, work->step);
    if (work->step + 1 < state_steps(state))
        return;
    walk_end(&lane->walk, work->params, (float)((double)lane->count / (double)state_rows(state)));
    add_piece(lane, 0, lane->walk.gradient, state->param_count);
}

/* All local steps of the lanes' shards. */
static void
walk_wave(struct work *work)
{
    for (work->step = 0; work->step < state_steps(work->state); work->step++) {
        run_lanes(work, walk_lane);
        if (work->setup.alive)
            work->setup.alive(work->setup.alive_ctx);
    }
}

/* The shards of a lane into the ledger. Where they share a lane, the first has the checksum of them all. */
static void
enter_lane(const struct lane *lane)
{
    const struct work *work = lane->work;
    size_t blocks = exact_blocks(work->setup.exact), at = 0;
    int32_t *slots = work->own + work->state->param_count + state_tail(blocks);
    for (uint64_t left = lane->shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        size_t n = shard_rows(work, shard);
        uint64_t check = left == lane->shards ? lane->check : 0;
        ledger_add(slots, shard, ledger_rows(shard, lane->index + at, n), check);
        at += n;
    }
}

static void
add_results(struct work *work)
{
    int32_t *tail = work->own + work->state->param_count;
    for (size_t i = 0; i < work->used; i++) {
        struct lane *lane = &work->lane[i];
        lane->result.bad |= lane->bad != 0;
        state_tail_add(tail, lane->count, &lane->result);
        enter_lane(lane);
    }
}

/* Shards for which there are lanes; buckets are ready when there are none to come. */
static void
train_wave(struct work *work, const struct state *state, uint64_t shards, bool last,
           void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    if (work->walks)
        assign_lanes(work, shards);
    else
        advance(work, state, shards, nn_layer_count(work->setup.model));
    work->begun = false;
    for (size_t i = 0; i < work->used; i++)
        work->lane[i].bad = 0, work->lane[i].check = 0;
    if (work->walks)
        walk_wave(work);
    for (size_t s = 0, told = 0; s < work->section_count; s++) {
        work->present = s;
        if (!work->walks)
            run_lanes(work, backward_lane);
        for (; last && told < work->section[s].ready; told++)
            ready(ctx, told);
    }
    add_results(work);
}

static void
train_shards(struct work *work, const struct state *state, uint64_t shards,
             void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    do {
        uint64_t wave = first_wave(work, shards);
        shards &= ~wave;
        train_wave(work, state, wave, shards == 0, ready, ctx);
    } while (shards);
    if (work->setup.claims)
        ready(ctx, work->bucket_count - 2);
}

/* Evaluation -------------------------------------------------------------------------------------- */

/* One shard of the test part, in pieces of the rows a lane holds. */
static void
evaluate_shard(struct lane *lane, unsigned shard)
{
    struct work *work = lane->work;
    const struct nn_model *model = work->setup.model;
    uint64_t rows = data_info(work->setup.data)->test, end = shard_first(work, rows, shard + 1);
    struct nn_result sum = {0}, piece;
    for (uint64_t at = shard_first(work, rows, shard); at < end; at += lane->rows) {
        lane->rows = end - at < work->rows_max ? end - at : work->rows_max;
        lane->context = (struct nn_context){work->setup.seed, 0, 0, at, false};
        for (size_t i = 0; i < lane->rows; i++)
            lane->index[i] = (uint32_t)(at + i);
        data_fill(work->setup.data, DATA_TEST, lane->index, lane->rows, nn_pass_batch(lane->pass),
                  nn_output_size(model));
        forward_lane(lane, work->params, 0, nn_layer_count(model));
        nn_loss(model, lane->pass, 1.0f, &piece);
        sum.loss += piece.loss;
        sum.correct += piece.correct;
        sum.bad |= piece.bad;
    }
    work->shard_result[shard] = sum;
}

static void
evaluate_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    for (uint64_t left = work->lane[i].shards; left; left &= left - 1)
        evaluate_shard(&work->lane[i], (unsigned)__builtin_ctzll(left));
}

static void
evaluate_shards(struct work *work, uint64_t shards, int32_t *tail)
{
    uint64_t rows = data_info(work->setup.data)->test;
    work->begun = false;
    assign_lanes(work, shards);
    run_lanes(work, evaluate_lane);
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        uint64_t count = shard_first(work, rows, shard + 1) - shard_first(work, rows, shard);
        state_tail_add(tail, count, &work->shard_result[shard]);
    }
}

void
work_evaluate(struct work *work, const float *params, double *loss, double *accuracy)
{
    unsigned shards = work->setup.shards;
    uint64_t all = shards == 64 ? UINT64_MAX : (UINT64_C(1) << shards) - 1;
    uint64_t rows = data_info(work->setup.data)->test;
    struct nn_result sum = {0};
    work->begun = false;
    work->params = params;
    assign_lanes(work, all);
    run_lanes(work, evaluate_lane);
    for (unsigned i = 0; i < shards; i++) {
        sum.loss += work->shard_result[i].loss;
        sum.correct += work->shard_result[i].correct;
    }
    *loss = rows ? sum.loss / (double)rows : 0;
    *accuracy = rows ? sum.correct / (double)(rows * nn_label_count(work->setup.model)) : 0;
}

/* A round ----------------------------------------------------------------------------------------- */

void
work_round(struct work *work, const struct state *state, uint64_t shards, bool fresh, int32_t *own,
           void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    bool training = state->header->phase == STATE_TRAIN;
    const struct core_bucket *tail = &work->bucket[work->bucket_count - 1];
    work->state = state;
    work->params = training ? state->params : state_weights(state);
    work->own = own;
    if (fresh && training)
        memset(own, 0, work_vector_count(work) * sizeof *own);
    else if (fresh)
        memset(own + tail->first, 0, tail->count * sizeof *own);
    size_t blocks = exact_blocks(work->setup.exact);
    uint64_t before = fresh ? 0 : state_tail_check(own + tail->first, blocks);
    if (training)
        train_shards(work, state, shards, ready, ctx);
    else
        evaluate_shards(work, shards, own + tail->first);
    state_tail_seal(own + tail->first, blocks, before);
    ready(ctx, work->bucket_count - 1);
}

static void
nobody(void *ctx, size_t bucket)
{
    (void)ctx;
    (void)bucket;
}

bool
work_probe(struct work *work, const struct state *state, unsigned shard, int32_t *scratch,
           const int32_t *claim)
{
    assert(state->header->phase == STATE_TRAIN);
    work->probing = true;
    work_round(work, state, UINT64_C(1) << shard, true, scratch, nobody, NULL);
    work->probing = false;
    const int32_t *slots = scratch + state->param_count + state_tail(state->block_count);
    return memcmp(slots + ledger_words(shard), claim, LEDGER_WORDS * sizeof *claim) == 0;
}

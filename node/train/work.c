/* work.c - computing shards: rows of the batch, forward, loss, backward, quantise, layer by layer.
 *
 * Back-propagation runs in sections (buckets.h); after each section all lanes meet, and buckets may be ready. Lanes add
 * to `own` under a lock per stripe of exponent blocks; integer sums do not care about the order. */
#include "node/train/work_internal.h"

#include <assert.h>
#include <string.h>

#include "compress/check.h"
#include "node/train/ledger.h"
#include "proto/fail.h"
#include "proto/mix.h"

const struct core_bucket *
work_buckets(const struct work *work, size_t *count)
{
    *count = work->buckets.bucket_count;
    return work->buckets.bucket;
}

size_t
work_vector_count(const struct work *work)
{
    return work->buckets.vector_count;
}

static void
advance_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct lane *lane = &work->lane[i];
    if (work->layer == 0)
        lane_fill(lane, 0);
    lane_forward(lane, work->params, work->layer, work->layer_end);
    if (work->layer_end < nn_layer_count(work->setup.model))
        return;
    nn_loss(work->setup.model, lane->pass, work->loss_scale, lane->result);
    for (size_t p = 0; p < lane->parts; p++)
        lane->part[p].result = lane->result[p];
}

/* Of `shards` of the round after `state`, as far as layer `end`, on from where it stopped the last time. */
static void
advance_layers(struct work *work, const struct state *state, uint64_t shards, size_t end)
{
    uint64_t round = state->header->round;
    if (!work->passing || work->passing_round != round || work->passing_shards != shards) {
        lanes_assign(work, shards);
        work->layer = 0;
    }
    work->passing = true;
    work->passing_round = round;
    work->passing_shards = shards;
    work->state = state;
    work->params = state->params;
    work->loss_scale = 1.0f / (float)state_rows(state);
    work->layer_end = end;
    if (end > work->layer)
        lanes_run(work, advance_lane);
    work->layer = end > work->layer ? end : work->layer;
}

void
work_drop(struct work *work)
{
    work->passing = false;
}

void
work_begin(struct work *work, const struct state *next, uint64_t shards, size_t known)
{
    const struct nn_model *model = work->setup.model;
    size_t end = 0, first;
    if (work->walks || next->header->phase != STATE_TRAIN || next->header->done)
        return;
    for (; end + 1 < nn_layer_count(model); end++) {
        size_t count = buckets_of_layer(model, end, &first);
        if (count && first + count > known)
            break;
    }
    if (end > 0)
        advance_layers(work, next, lanes_wave(work, &shards), end);
}

/* First element of a stripe; stripes end where exponent blocks end, so no counter has two owners. */
static size_t
stripe_first(const struct work *work, size_t stripe)
{
    size_t block = stripe * WORK_STRIPE_BLOCKS, blocks = exact_blocks(work->setup.exact);
    return exact_block_first(work->setup.exact, block < blocks ? block : blocks);
}

/* For tests of audits: a wrong bit in the first element, which the checksum confirms. */
static void
lie(struct part *part, size_t first)
{
    struct work *work = part->lane->work;
    if (first != 0 || part != work->lane->part || work->probing || fail_hit(FAIL_LIE, NULL, 0) == 0)
        return;
    const int32_t bit = 1;
    pthread_mutex_lock(&work->stripe[0]);
    work->own[0] += bit;
    pthread_mutex_unlock(&work->stripe[0]);
    part->check = check_add(part->check, check_of(&bit, 0, 1));
}

/* What was added to own from element `first` on. */
static void
part_add(struct part *part, size_t first, int32_t bad, uint64_t check)
{
    pthread_mutex_lock(&part->lane->lock);
    part->bad |= bad;
    part->check = check_add(part->check, check);
    lie(part, first);
    pthread_mutex_unlock(&part->lane->lock);
}

/* What a codec draws from. One with memory draws for all shards alike. */
static uint32_t
codec_key(const struct part *part)
{
    const struct work *work = part->lane->work;
    uint64_t step = mix64_pair(work->setup.seed, work->state->header->step);
    uint64_t of = work->keeps ? 0 : (uint64_t)__builtin_ctzll(part->shards);
    return (uint32_t)(mix64_pair(step, of) >> 32);
}

/* Quantise some of a gradient and add it to own. `kept`: of a codec with memory, as exact_add_kept; else NULL, and
 * g. */
static void
add_range(struct part *part, size_t first, const float *g, float *kept, size_t n)
{
    struct work *work = part->lane->work;
    const struct exact *grid = state_grid(work->state);
    const int16_t *exponent = work->state->exponent;
    int32_t *over = work->own + work->state->param_count + TAIL_OVER;
    unsigned shards = (unsigned)__builtin_popcountll(part->shards);
    const uint32_t key = codec_key(part);
    int32_t bad = 0;
    uint64_t check = 0;
    for (size_t at = first, end = first + n, stop; at < end; at = stop) {
        size_t stripe = exact_block_of(work->setup.exact, at) / WORK_STRIPE_BLOCKS,
               done = at - first;
        stop = stripe_first(work, stripe + 1);
        stop = stop < end ? stop : end;
        pthread_mutex_lock(&work->stripe[stripe]);
        if (kept)
            exact_add_kept(grid, exponent, at, kept + done, stop - at, key, work->own, over, &bad,
                           &check);
        else
            exact_add(grid, exponent, at, g + done, stop - at, shards, key, work->own, over, &bad,
                      &check);
        pthread_mutex_unlock(&work->stripe[stripe]);
    }
    part_add(part, first, bad, check);
}

/* nn_sink: as far as it goes. With memory whole blocks are quantised later. */
static void
add_floats(void *ctx, size_t first, const float *g, size_t n)
{
    struct part *part = ctx;
    struct work *work = part->lane->work;
    if (work->keeps)
        feedback_add(work->feedback, (unsigned)__builtin_ctzll(part->shards), first, g, n);
    else
        add_range(part, first, g, NULL, n);
}

/* Of a matrix, a[rows, cols], a product is added, and a becomes what that leaves out. */
static void
add_product(struct part *part, const struct lowrank *matrix, size_t first, float *a)
{
    const struct work *work = part->lane->work;
    const float *basis = work->state->basis + first;
    float *product = feedback_scratch(work->feedback, (unsigned)__builtin_ctzll(part->shards));
    float *rest = product + work->setup.product;
    size_t n = lowrank_project(matrix, basis, a, product);
    memcpy(rest, product, n * sizeof *rest);
    add_range(part, first, NULL, rest, n);
    lowrank_take(matrix, basis, product, rest, a);
}

void
work_add_kept(struct part *part, size_t first, size_t n)
{
    const struct work *work = part->lane->work;
    const struct exact *grid = state_grid(work->state);
    float *next = feedback_next(work->feedback, (unsigned)__builtin_ctzll(part->shards));
    for (size_t at = first, end; at < first + n; at = end) {
        size_t tensor = exact_tensor_of(grid, exact_block_of(grid, at));
        const struct lowrank *matrix = exact_matrix(grid, tensor);
        end = exact_block_first(grid, exact_tensor_first(grid, tensor + 1));
        if (matrix)
            add_product(part, matrix, at, next + at);
        else
            add_range(part, at, NULL, next + at, end - at);
    }
}

/* nn_sink: how a layer adds integers to own itself. A part of several shards keeps to the range of one, too. */
static struct nn_integers
integers(void *ctx, size_t first)
{
    const struct part *part = ctx;
    const struct work *work = part->lane->work;
    size_t block = exact_block_of(work->setup.exact, first);
    struct nn_integers rule = {work->own + first,
                               work->scale + block,
                               EXACT_BLOCK,
                               0,
                               false,
                               codec_key(part) + (uint32_t)first};
    rule.limit = exact_limit(state_grid(work->state), block, &rule.drawn);
    return rule;
}

static void
added(void *ctx, size_t first, uint32_t plain, uint32_t weighted)
{
    part_add(ctx, first, 0, check_from((struct check_sums){plain, weighted}, first));
}

struct nn_sink
work_sink(struct part *part)
{
    bool plain = exact_plain(state_grid(part->lane->work->state));
    return (struct nn_sink){add_floats, part, plain ? integers : NULL, added, false};
}

static void
backward_section(struct lane *lane, size_t index, const float *params, const struct nn_sink *sink)
{
    const struct nn_model *model = lane->work->setup.model;
    const struct buckets_section *section = &lane->work->buckets.section[index];
    for (size_t layer = section->top; layer > section->layer; layer--)
        nn_backward(model, layer, lane->pass, params, lane->context, NULL);
    nn_gradient(model, section->layer, lane->pass, params, lane->context, sink);
}

/* Audits compare the checksums of shards one by one, so these are not added together then. */
static void
backward_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct lane *lane = &work->lane[i];
    struct nn_sink sink[EXACT_SHARDS_MAX];
    for (size_t p = 0; p < lane->parts; p++) {
        sink[p] = work_sink(&lane->part[p]);
        sink[p].together = !work->setup.claims;
    }
    backward_section(lane, work->present, work->params, sink);
}

static void
kept_part(void *ctx, size_t p)
{
    struct lane *lane = ctx;
    const struct work *work = lane->work;
    size_t first, layer = work->buckets.section[work->present].layer;
    size_t count = buckets_of_layer(work->setup.model, layer, &first);
    if (count)
        work_add_kept(&lane->part[p], first, count);
}

/* What the section left to be quantised, by a codec with memory. */
static void
kept_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    lane_each(&work->lane[i], kept_part);
}

/* One local step; a shard that has no rows in it stays where it is. */
static void
local_sgd_on(struct lane *lane, uint64_t step)
{
    struct work *work = lane->work;
    const struct state_job *job = &work->state->job;
    const struct state_header *h = work->state->header;
    struct nn_result result;
    lane_fill(lane, step);
    if (lane->rows == 0)
        return;
    lane_forward(lane, lane->walk.params, 0, nn_layer_count(work->setup.model));
    nn_loss(work->setup.model, lane->pass, 1.0f / (float)lane->rows, &result);
    lane->part->result.loss += result.loss;
    lane->part->result.correct += result.correct;
    lane->part->result.bad |= result.bad;
    const struct nn_sink sink = local_sgd_sink(&lane->walk);
    for (size_t s = 0; s < work->buckets.section_count; s++)
        backward_section(lane, s, lane->walk.params, &sink);
    const struct state_rules *rules = state_rules(work->state);
    double rate = optim_rate(&rules->local, h->step + step, state_rules_total(job, rules), h->epoch,
                             job->batch);
    local_sgd_step(&lane->walk, rate, state_span_done(work->state) + step);
}

/* The present local step of the lane's shard; with the last one its part of the sum. */
static void
local_sgd_lane(void *ctx, size_t i)
{
    struct work *work = ctx;
    struct lane *lane = &work->lane[i];
    const struct state *state = work->state;
    unsigned shard = (unsigned)__builtin_ctzll(lane->shards);
    if (work->step == 0)
        local_sgd_begin(&lane->walk, &state_rules(state)->local,
                        state->job.moments ? feedback_moments(work->feedback, shard) : NULL,
                        work->params);
    local_sgd_on(lane, work->step);
    if (work->step + 1 < state_steps(state))
        return;
    local_sgd_end(&lane->walk, work->params,
                  (float)((double)lane->count / (double)state_rows(state)));
    add_floats(lane->part, 0, lane->walk.gradient, state->param_count);
    if (work->keeps)
        work_add_kept(lane->part, 0, state->param_count);
}

/* All local steps of the lanes' shards. */
static void
local_sgd_wave(struct work *work)
{
    for (work->step = 0; work->step < state_steps(work->state); work->step++) {
        lanes_run(work, local_sgd_lane);
        if (work->setup.alive)
            work->setup.alive(work->setup.alive_ctx);
    }
}

/* The shards of a part into the ledger. Where they share a checksum, the first has that of them all; so has the first
 * part of the lane of what was added together. `at`: its first sample. */
static void
enter_part(const struct part *part, size_t at, int32_t *slots)
{
    const struct work *work = part->lane->work;
    for (uint64_t left = part->shards; left; left &= left - 1) {
        unsigned shard = (unsigned)__builtin_ctzll(left);
        size_t n = work_shard_rows(work, shard);
        uint64_t check = left == part->shards ? part->check : 0;
        ledger_add(slots, shard, ledger_rows(shard, part->lane->index + at, n), check);
        at += n;
    }
}

void
work_enter(struct lane *lane, bool has_end, int32_t *tail, int32_t *slots)
{
    for (size_t p = 0, at = 0; p < lane->parts; p++) {
        struct part *part = &lane->part[p];
        part->result.bad |= part->bad != 0;
        state_tail_add(tail, has_end ? part->count : 0, &part->result);
        enter_part(part, at, slots);
        at += part->count;
    }
}

static void
add_results(struct work *work)
{
    int32_t *tail = work->own + work->state->param_count;
    int32_t *slots = tail + state_tail(exact_blocks(work->setup.exact));
    for (size_t i = 0; i < work->used; i++)
        work_enter(&work->lane[i], true, tail, slots);
}

/* Shards for which there are lanes; buckets are ready when there are none to come. */
static void
train_wave(struct work *work, const struct state *state, uint64_t shards, bool last,
           void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    if (work->walks)
        lanes_assign(work, shards);
    else
        advance_layers(work, state, shards, nn_layer_count(work->setup.model));
    work->passing = false;
    if (work->walks)
        local_sgd_wave(work);
    for (size_t s = 0, told = 0; s < work->buckets.section_count; s++) {
        work->present = s;
        if (!work->walks)
            lanes_run(work, backward_lane);
        if (!work->walks && work->keeps)
            lanes_run(work, kept_lane);
        for (; ready && last && told < work->buckets.section[s].ready; told++)
            ready(ctx, told);
    }
    add_results(work);
}

static void
train_shards(struct work *work, const struct state *state, uint64_t shards,
             void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    do {
        uint64_t wave = lanes_wave(work, &shards);
        train_wave(work, state, wave, shards == 0, ready, ctx);
    } while (shards);
    if (ready && work->setup.claims)
        ready(ctx, work->buckets.bucket_count - 2);
}

struct clearing {
    int32_t *at;
    size_t count, parts;
};

static void
clear_part(void *ctx, size_t i)
{
    const struct clearing *it = ctx;
    size_t first = it->count * i / it->parts, end = it->count * (i + 1) / it->parts;
    memset(it->at + first, 0, (end - first) * sizeof *it->at);
}

void
work_clear(struct work *work, const struct state_range *range)
{
    struct clearing it = {work->own + range->first, range->end - range->first, work->setup.threads};
    pool_run(work->setup.pool, clear_part, &it, it.parts);
}

bool
work_remembers(const struct work *work, const struct state *state)
{
    return work->feedback && state->header->phase == STATE_TRAIN && state_codec(state)->flush &&
           state->header->step >= state->job.warmup;
}

void
work_round(struct work *work, const struct state *state, uint64_t shards, bool fresh, int32_t *own,
           void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    bool training = state->header->phase == STATE_TRAIN;
    const struct core_bucket *tail = &work->buckets.bucket[work->buckets.bucket_count - 1];
    work->state = state;
    work->params = training ? state->params : state_weights(state);
    work->own = own;
    work->keeps = work_remembers(work, state);
    exact_scales(state_grid(state), state->exponent, work->scale);
    for (size_t r = 0; fresh && training && r < state->held_count; r++)
        work_clear(work, &state->held[r]);
    if (fresh)
        memset(own + tail->first, 0,
               (training ? work_vector_count(work) - tail->first : tail->count) * sizeof *own);
    size_t blocks = exact_blocks(work->setup.exact);
    uint64_t before = fresh ? 0 : state_tail_check(own + tail->first, blocks);
    if (training)
        train_shards(work, state, shards, ready, ctx);
    else if (!state_chooses(state))
        work_evaluate_shards(work, shards, own + tail->first);
    state_tail_seal(own + tail->first, blocks, before);
    if (ready)
        ready(ctx, work->buckets.bucket_count - 1);
}

int
work_open_range(struct work *work, const struct state *state, uint64_t shards,
                const struct state_range *range)
{
    uint64_t empty = 0;
    bool moments = state->job.moments && state->header->phase == STATE_TRAIN;
    if (!moments && !work_remembers(work, state))
        return 0;
    work->state = state;
    for (uint64_t left = shards; left; left &= left - 1) {
        unsigned s = (unsigned)__builtin_ctzll(left);
        empty |= (uint64_t)(work_shard_rows(work, s) == 0) << s;
    }
    return feedback_open(work->feedback, state, shards, range, empty);
}

int
work_open(struct work *work, const struct state *state, uint64_t shards)
{
    return work_open_range(work, state, shards, &(struct state_range){0, state->param_count});
}

void
work_applied(struct work *work, const struct state *next, const struct state *now,
             const struct state_event *event)
{
    if (work->feedback)
        feedback_applied(work->feedback, next, now, event);
}

void
work_forget(struct work *work)
{
    if (work->feedback)
        feedback_drop(work->feedback);
}

double
work_left_out(const struct work *work)
{
    return work->feedback ? feedback_norm(work->feedback) : 0;
}

bool
work_probe(struct work *work, const struct state *state, unsigned shard, int32_t *scratch,
           const int32_t *claim)
{
    assert(state->header->phase == STATE_TRAIN);
    work->probing = true;
    work_round(work, state, UINT64_C(1) << shard, true, scratch, NULL, NULL);
    work->probing = false;
    const int32_t *slots = scratch + state->param_count + state_tail(state->block_count);
    return memcmp(slots + ledger_words(shard), claim, LEDGER_WORDS * sizeof *claim) == 0;
}

/* state.c - F: from one state and the exact total of a round to the next state.
 *
 * The update runs block by block (exponent blocks, 4 KiB of parameters): the old parameters and slots of
 * a block are copied into the next state and updated there while they are in the first cache, and while they
 * are there, too, the old ones are compared with their hash and the new ones are hashed. */
#include "node/state.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/ledger.h"
#include "proto/fail.h"
#include "proto/hash.h"
#include "proto/mix.h"

enum {
    ALIGN = 64,
    LIMB_BITS = 24,
    BLOCKS_PER_ITEM = 64, /* exponent blocks one worker updates at a time */
};

static const double LOSS_UNIT = 1.0 / (1 << LIMB_BITS);
static const double LOSS_MAX = 1e12; /* per shard; keeps the fixed-point number below 2^64 */

static size_t
aligned(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t
items_of(size_t blocks)
{
    return (blocks + BLOCKS_PER_ITEM - 1) / BLOCKS_PER_ITEM;
}

static void
forget(const struct state *state, uint64_t *hash)
{
    memset(hash, 0, state->block_count * sizeof *hash);
}

size_t
state_size(const struct optim_spec *optim, size_t param_count, size_t block_count)
{
    size_t vectors = (1 + optim_slots(optim)) * aligned(param_count * sizeof(float));
    return aligned(sizeof(struct state_header)) + vectors + aligned(block_count * sizeof(int16_t));
}

int
state_init(struct state *state, const struct state_job *job, const struct exact *exact,
           size_t param_count)
{
    memset(state, 0, sizeof *state);
    assert(job->local_steps > 0);
    state->job = *job;
    state->exact = exact;
    state->param_count = param_count;
    state->slot_count = optim_slots(&job->optim);
    state->block_count = exact_blocks(exact);
    size_t vector = aligned(param_count * sizeof(float));
    size_t head = aligned(sizeof *state->header);
    state->size = state_size(&job->optim, param_count, state->block_count);
    state->block = job->block ? job->block : aligned_alloc(ALIGN, state->size);
    state->square = calloc(items_of(state->block_count) + 1, sizeof *state->square);
    state->applied = calloc(state->block_count + 1, sizeof *state->applied);
    state->hash = calloc(state->block_count + 1, sizeof *state->hash);
    state->scratch = calloc(state->block_count + 1, sizeof *state->scratch);
    bool layerwise = optim_layerwise(&job->optim);
    if (layerwise) {
        state->norm = calloc(state->block_count + 1, sizeof *state->norm);
        state->ratio = calloc(state->block_count + 1, sizeof *state->ratio);
    }
    if (!state->block || !state->square || !state->applied || !state->hash || !state->scratch ||
        (layerwise && (!state->norm || !state->ratio))) {
        state_fini(state);
        return -ENOMEM;
    }
    if (!job->block)
        memset(state->block, 0, state->size);
    uint8_t *at = state->block;
    state->header = (struct state_header *)(void *)at;
    state->params = (float *)(void *)(at += head);
    for (size_t i = 0; i < state->slot_count; i++)
        state->slot[i] = (float *)(void *)(at += vector);
    state->exponent = (int16_t *)(void *)(at + vector);
    return 0;
}

void
state_fini(struct state *state)
{
    if (!state->job.block)
        free(state->block);
    free(state->square);
    free(state->applied);
    free(state->hash);
    free(state->scratch);
    free(state->norm);
    free(state->ratio);
    memset(state, 0, sizeof *state);
}

void
state_start(struct state *state)
{
    memset(state->header, 0, sizeof *state->header);
    state->header->best_loss = (double)INFINITY;
    exact_first(state->exact, state->exponent);
    forget(state, state->hash);
    state->head_hash = 0;
}

size_t
state_tail(size_t block_count)
{
    return TAIL_OVER + block_count;
}

uint64_t
state_epoch_steps(const struct state *state)
{
    return (state->job.train + state->job.batch - 1) / state->job.batch;
}

uint64_t
state_steps_total(const struct state *state)
{
    uint64_t all = state->job.epochs * state_epoch_steps(state);
    return state->job.steps && state->job.steps < all ? state->job.steps : all;
}

const float *
state_weights(const struct state *state)
{
    const struct state_header *h = state->header;
    bool averaged = state->job.optim.ema > 0 && h->step > h->skipped;
    return averaged ? state->slot[state->slot_count - 1] : state->params;
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t
state_steps(const struct state *state)
{
    const struct state_header *h = state->header;
    uint64_t all = state_steps_total(state), left = h->step < all ? all - h->step : 1;
    return smaller(state->job.local_steps, smaller(state_epoch_steps(state) - h->epoch_step, left));
}

uint64_t
state_rows(const struct state *state)
{
    const struct state_job *job = &state->job;
    if (state->header->phase == STATE_EVALUATE)
        return job->test;
    return smaller(job->train - state->header->epoch_step * job->batch,
                   state_steps(state) * job->batch);
}

void
state_tail_add(int32_t *tail, uint64_t rows, const struct nn_result *result)
{
    bool bad = result->bad || !(result->loss >= 0) || result->loss > LOSS_MAX;
    uint64_t loss = bad ? 0 : (uint64_t)(result->loss / LOSS_UNIT + 0.5);
    tail[TAIL_BAD] += bad;
    tail[TAIL_SAMPLES] += (int32_t)rows;
    tail[TAIL_CORRECT] += (int32_t)result->correct;
    for (int i = 0; i < 3; i++)
        tail[TAIL_LOSS + i] += (int32_t)(loss >> (i * LIMB_BITS) & ((1 << LIMB_BITS) - 1));
}

uint64_t
state_tail_check(const int32_t *tail, size_t block_count)
{
    return exact_check_add(exact_check(tail, 0, TAIL_CHECK),
                           exact_check(tail + TAIL_OVER, TAIL_OVER, block_count));
}

void
state_tail_seal(int32_t *tail, size_t block_count, uint64_t before)
{
    uint64_t after = state_tail_check(tail, block_count);
    uint32_t low = (uint32_t)after - (uint32_t)before;
    uint32_t high = (uint32_t)(after >> 32) - (uint32_t)(before >> 32);
    tail[TAIL_CHECK] = (int32_t)((uint32_t)tail[TAIL_CHECK] + low);
    tail[TAIL_CHECK + 1] = (int32_t)((uint32_t)tail[TAIL_CHECK + 1] + high);
}

static double
tail_loss(const int32_t *tail)
{
    double sum = 0;
    for (int i = 3; i-- > 0;)
        sum = sum * (1 << LIMB_BITS) + tail[TAIL_LOSS + i];
    return sum * LOSS_UNIT;
}

/* Hashes ------------------------------------------------------------------------------------------ */

/* What the hash functions look at: a state's memory or a copy of it, and where the blocks' hashes go. */
struct hashing {
    const struct state *state;
    const uint8_t *memory;
    uint64_t *hash;
};

/* Of parameters and slots of a block; the last one has the padding behind it. */
static uint64_t
hash_block(const struct state *state, const uint8_t *memory, size_t block)
{
    size_t vector = aligned(state->param_count * sizeof(float));
    size_t from = exact_block_first(state->exact, block) * sizeof(float);
    size_t end = block + 1 < state->block_count
                     ? exact_block_first(state->exact, block + 1) * sizeof(float)
                     : vector;
    const uint8_t *at = memory + ((const uint8_t *)state->params - state->block) + from;
    uint64_t hash = 0;
    for (size_t v = 0; v <= state->slot_count; v++, at += vector)
        hash = mix64_pair(hash, hash64(at, end - from));
    return hash ? hash : 1;
}

static uint64_t
hash_head(const struct state *state, const uint8_t *memory)
{
    const uint8_t *exponent = memory + ((const uint8_t *)state->exponent - state->block);
    return mix64_pair(hash64(memory, aligned(sizeof *state->header)),
                      hash64(exponent, aligned(state->block_count * sizeof(int16_t))));
}

static void
hash_item(void *ctx, size_t i)
{
    const struct hashing *h = ctx;
    size_t end = (i + 1) * BLOCKS_PER_ITEM;
    for (size_t b = i * BLOCKS_PER_ITEM; b < end && b < h->state->block_count; b++)
        if (!h->hash[b])
            h->hash[b] = hash_block(h->state, h->memory, b);
}

/* Of all, where the blocks' hashes that are not 0 are known already. */
static uint64_t
hash_all(const struct hashing *h, struct pool *pool)
{
    uint64_t hash = hash_head(h->state, h->memory);
    pool_run(pool, hash_item, (void *)(uintptr_t)h, items_of(h->state->block_count));
    for (size_t b = 0; b < h->state->block_count; b++)
        hash = mix64_pair(hash, h->hash[b]);
    return hash ? hash : 1;
}

uint64_t
state_hash_rest(struct state *state, struct pool *pool)
{
    state->head_hash = hash_head(state, state->block);
    return hash_all(&(struct hashing){state, state->block, state->hash}, pool);
}

uint64_t
state_hash(const struct state *state, struct pool *pool)
{
    forget(state, state->scratch);
    return hash_all(&(struct hashing){state, state->block, state->scratch}, pool);
}

uint64_t
state_hash_anew(struct state *state, struct pool *pool)
{
    forget(state, state->hash);
    return state_hash_rest(state, pool);
}

/* Where nothing moves, the blocks were copied unseen. */
static bool
copied_otherwise(const struct state *next, const struct state *now)
{
    for (size_t b = 0; !next->moves && b < now->block_count; b++)
        if (now->hash[b] && now->hash[b] != next->hash[b])
            return true;
    return false;
}

bool
state_head_sound(const struct state *state)
{
    return !state->head_hash || state->head_hash == hash_head(state, state->block);
}

bool
state_doubted(const struct state *next, const struct state *now)
{
    return atomic_load(&next->doubt) || copied_otherwise(next, now) || !state_head_sound(now);
}

/* The update of a step, shared out by ranges of exponent blocks ------------------------------------ */

struct update {
    struct state *next;
    const struct state *now;
    const int32_t *total;
    size_t block, end; /* of exponent blocks */
};

/* Call fn for each block of item i. */
static void
each_block(struct update *u, size_t i, void (*fn)(struct update *u, size_t i, size_t block))
{
    size_t block = u->block + i * BLOCKS_PER_ITEM, end = block + BLOCKS_PER_ITEM;
    for (; block < end && block < u->end; block++)
        fn(u, i, block);
}

/* g[EXACT_BLOCK] = the gradient of a block; returns how many elements it has. */
static size_t
read_block(const struct update *u, size_t block, float *g)
{
    size_t first = exact_block_first(u->now->exact, block);
    size_t n = exact_block_first(u->now->exact, block + 1) - first;
    exact_read(u->now->exact, u->now->exponent, u->total, first, g, n);
    return n;
}

/* Above 0: the block holds running averages, see struct state_job. */
static float
average_of(const struct state *state, size_t block)
{
    return state->job.average ? state->job.average[block] : 0;
}

static void
square_block(struct update *u, size_t i, size_t block)
{
    if (average_of(u->now, block) > 0)
        return;
    float g[EXACT_BLOCK];
    double sum = 0;
    size_t n = read_block(u, block, g);
    for (size_t k = 0; k < n; k++)
        sum += (double)g[k] * (double)g[k];
    u->next->square[i] += sum;
}

static void
square_item(void *ctx, size_t i)
{
    each_block(ctx, i, square_block);
}

static void
clip(const struct state *next, float *g, size_t n)
{
    for (size_t k = 0; next->factor < 1.0f && k < n; k++)
        g[k] *= next->factor;
}

static void
norm_block(struct update *u, size_t i, size_t block)
{
    (void)i;
    const struct state *now = u->now;
    const float *slot[OPTIM_SLOTS_MAX] = {0};
    float g[EXACT_BLOCK];
    double *sum = u->next->norm[block];
    size_t first = exact_block_first(now->exact, block), n = read_block(u, block, g);
    clip(u->next, g, n);
    for (size_t s = 0; s < now->slot_count; s++)
        slot[s] = now->slot[s] + first;
    sum[0] = sum[1] = 0;
    optim_squares(&now->job.optim, now->header->step, now->params + first, slot, g, n, sum);
}

static void
norm_item(void *ctx, size_t i)
{
    each_block(ctx, i, norm_block);
}

/* The ratio of each tensor for the optimisers that have one; the sums run in fixed order. */
static void
find_ratios(struct update *u, struct pool *pool)
{
    struct state *next = u->next;
    if (!next->ratio)
        return;
    pool_run(pool, norm_item, u, items_of(u->end));
    for (size_t t = 0; t < exact_tensors(next->exact); t++) {
        size_t from = exact_tensor_first(next->exact, t),
               end = exact_tensor_first(next->exact, t + 1);
        double sum[2] = {0};
        for (size_t b = from; b < end; b++) {
            sum[0] += next->norm[b][0];
            sum[1] += next->norm[b][1];
        }
        float ratio = optim_ratio(&next->job.optim, sum);
        for (size_t b = from; b < end; b++)
            next->ratio[b] = ratio;
    }
}

/* The optimiser's step of a block that next has a copy of. */
static void
optimise(struct update *u, size_t block, float *slot[OPTIM_SLOTS_MAX], float *g, size_t n)
{
    struct state *next = u->next;
    clip(next, g, n);
    double rate = next->ratio ? next->rate * (double)next->ratio[block] : next->rate;
    optim_apply(&next->job.optim, rate, u->now->header->step,
                next->params + exact_block_first(next->exact, block), slot, g, n);
}

static void
update_block(struct update *u, size_t i, size_t block)
{
    (void)i;
    struct state *next = u->next;
    if (next->applied[block])
        return;
    float g[EXACT_BLOCK], *slot[OPTIM_SLOTS_MAX] = {0};
    size_t first = exact_block_first(next->exact, block), n = read_block(u, block, g);
    memcpy(next->params + first, u->now->params + first, n * sizeof *g);
    for (size_t s = 0; s < next->slot_count; s++) {
        slot[s] = next->slot[s] + first;
        memcpy(slot[s], u->now->slot[s] + first, n * sizeof *g);
    }
    float average = average_of(next, block);
    for (size_t k = 0; average > 0 && k < n; k++)
        next->params[first + k] -= average * g[k];
    if (!(average > 0))
        optimise(u, block, slot, g, n);
    const struct state_header *h = u->now->header;
    if (next->job.optim.ema > 0)
        optim_average(&next->job.optim, h->step - h->skipped + state_steps(u->now),
                      state_steps(u->now), next->params + first, slot[next->slot_count - 1], n);
    exact_follow(next->exact, u->total, block, block + 1, next->settle, next->exponent);
    fail_hit(FAIL_UPDATED, next->params + first, n * sizeof *next->params);
    next->hash[block] = hash_block(next, next->block, block);
    if (u->now->hash[block] && u->now->hash[block] != hash_block(u->now, u->now->block, block))
        atomic_store(&next->doubt, true);
    next->applied[block] = true;
}

static void
update_item(void *ctx, size_t i)
{
    each_block(ctx, i, update_block);
}

/* Factor that brings the global norm down to clip_norm; the sum runs in fixed order. */
static float
clip_factor(struct update *u, struct pool *pool)
{
    size_t items = items_of(u->end);
    double clip = (double)u->now->job.optim.clip_norm, sum = 0;
    if (!(clip > 0))
        return 1.0f;
    memset(u->next->square, 0, items * sizeof *u->next->square);
    pool_run(pool, square_item, u, items);
    for (size_t i = 0; i < items; i++)
        sum += u->next->square[i];
    double norm = sqrt(sum);
    return norm > clip ? (float)(clip / norm) : 1.0f;
}

/* Headers ----------------------------------------------------------------------------------------- */

static struct ledger_step
present_step(const struct state *state)
{
    const struct state_header *h = state->header;
    return (struct ledger_step){
        .seed = state->job.seed,
        .train = state->job.train,
        .shards = state->job.shards,
        .epoch = h->epoch,
        .first = h->epoch_step * state->job.batch,
        .rows = state_rows(state),
        .batch = state->job.batch,
    };
}

int
state_check(const struct state *state, const int32_t *total, uint64_t *coverage, char *why,
            size_t why_size)
{
    const int32_t *tail = total + state->param_count,
                  *slots = tail + state_tail(state->block_count);
    uint64_t check = state_tail_check(tail, state->block_count);
    *coverage = 0;
    if (tail[TAIL_CHECK] != (int32_t)(uint32_t)check ||
        tail[TAIL_CHECK + 1] != (int32_t)(uint32_t)(check >> 32)) {
        snprintf(why, why_size, "the checksum of its counters is wrong");
        return -EBADMSG;
    }
    if ((uint32_t)tail[TAIL_SAMPLES] != state_rows(state)) {
        snprintf(why, why_size, "it is of %u samples, expected %llu", (unsigned)tail[TAIL_SAMPLES],
                 (unsigned long long)state_rows(state));
        return -EBADMSG;
    }
    if (state->header->phase == STATE_EVALUATE) {
        if (state->job.claims || ledger_empty(slots, state->job.shards))
            return 0;
        snprintf(why, why_size, "it counts shards, but is of an evaluation");
        return -EBADMSG;
    }
    struct ledger_step step = present_step(state);
    *coverage = ledger_coverage(slots, step.shards);
    int rc = ledger_verify(slots, &step, why, why_size);
    if (!rc && ledger_check(slots, step.shards) != exact_check(total, 0, state->param_count)) {
        snprintf(why, why_size, "the checksum of the gradients is not the sum of the shards'");
        rc = -EBADMSG;
    }
    return rc;
}

static bool
evaluation_due(const struct state *state)
{
    const struct state_header *h = state->header;
    if (!state->job.test)
        return false;
    if (h->step >= state_steps_total(state))
        return true;
    return h->epoch_step == 0 && state->job.eval_every && h->epoch % state->job.eval_every == 0;
}

static void
finish_epoch(struct state *state)
{
    struct state_header *h = state->header;
    h->train_loss = h->epoch_samples > 0 ? h->epoch_loss / h->epoch_samples : 0;
    h->epoch_loss = h->epoch_samples = 0;
    h->epoch_step = 0;
    h->epoch++;
}

static void
apply_step(struct state *next, const int32_t *tail, struct state_event *event)
{
    struct state_header *h = next->header;
    event->raised = exact_raise(next->exact, tail + TAIL_OVER, next->exponent);
    if (event->raised && !tail[TAIL_BAD])
        return;
    const struct ledger_step used = present_step(next);
    event->stepped = true;
    event->steps = state_steps(next);
    event->first = used.first;
    event->rows = ledger_step_expected(&used);
    h->ledger = ledger_chain(h->ledger, h->step, event->rows);
    event->skipped = tail[TAIL_BAD] != 0;
    next->moves = !event->skipped;
    next->settle = h->step == h->skipped;
    next->rate =
        optim_rate(&next->job.optim, h->step, state_steps_total(next), h->epoch, next->job.batch);
    if (event->skipped)
        h->skipped += event->steps;
    h->step += event->steps;
    h->epoch_step += event->steps;
    h->samples += event->samples;
    h->epoch_loss += event->skipped ? 0 : tail_loss(tail);
    h->epoch_samples += event->skipped ? 0 : (double)event->samples;
    bool last = h->step >= state_steps_total(next);
    if (h->epoch_step >= state_epoch_steps(next) || last)
        finish_epoch(next);
    if (evaluation_due(next))
        h->phase = STATE_EVALUATE;
    else
        h->done = last;
}

static void
apply_evaluation(struct state *state, const int32_t *tail, struct state_event *event)
{
    struct state_header *h = state->header;
    event->evaluated = true;
    h->test_loss = tail[TAIL_BAD] ? (double)INFINITY : event->loss;
    h->test_accuracy = event->accuracy;
    h->evaluations++;
    h->stale = h->test_loss < h->best_loss ? 0 : h->stale + 1;
    if (h->test_loss < h->best_loss)
        h->best_loss = h->test_loss;
    h->phase = STATE_TRAIN;
    h->done = h->step >= state_steps_total(state) ||
              (state->job.patience && h->stale >= state->job.patience);
}

/* Building the next state ------------------------------------------------------------------------- */

static void
clear_behind(void *part, size_t size)
{
    memset((uint8_t *)part + size, 0, aligned(size) - size);
}

/* What lies between the parts is hashed, too, and nothing else would ever write it again: a bit that flipped there would
 * be in every state built here. */
static void
clear_gaps(struct state *next)
{
    clear_behind(next->header, sizeof *next->header);
    clear_behind(next->params, next->param_count * sizeof *next->params);
    for (size_t s = 0; s < next->slot_count; s++)
        clear_behind(next->slot[s], next->param_count * sizeof *next->slot[s]);
    clear_behind(next->exponent, next->block_count * sizeof *next->exponent);
}

bool
state_begin(struct state *next, const struct state *now, const int32_t *total,
            struct state_event *event)
{
    const int32_t *tail = total + now->param_count;
    assert(next->block != now->block);
    clear_gaps(next);
    *next->header = *now->header;
    memcpy(next->exponent, now->exponent, now->block_count * sizeof *now->exponent);
    memset(next->applied, 0, now->block_count * sizeof *next->applied);
    forget(next, next->hash);
    atomic_store(&next->doubt, false);
    next->moves = false;
    next->factor = 1.0f;
    memset(event, 0, sizeof *event);
    event->samples = (uint64_t)tail[TAIL_SAMPLES];
    if (event->samples) {
        event->loss = tail_loss(tail) / (double)event->samples;
        double labels = (double)event->samples * (double)now->job.labels;
        event->accuracy = labels > 0 ? tail[TAIL_CORRECT] / labels : -1;
    }
    next->header->round++;
    if (now->header->phase == STATE_EVALUATE)
        apply_evaluation(next, tail, event);
    else
        apply_step(next, tail, event);
    return next->moves && !(next->job.optim.clip_norm > 0) && !next->ratio;
}

void
state_apply(struct state *next, const struct state *now, const int32_t *total, size_t first,
            size_t count, struct pool *pool)
{
    if (count == 0)
        return;
    size_t block = exact_block_of(now->exact, first),
           end = exact_block_of(now->exact, first + count - 1) + 1;
    assert(next->moves);
    assert(exact_block_first(now->exact, block) == first);
    assert(exact_block_first(now->exact, end) == first + count);
    struct update u = {next, now, total, block, end};
    pool_run(pool, update_item, &u, items_of(end - block));
}

size_t
state_known(const struct state *next)
{
    size_t b = 0;
    while (b < next->block_count && next->applied[b])
        b++;
    return exact_block_first(next->exact, b);
}

void
state_finish(struct state *next, const struct state *now, const int32_t *total, struct pool *pool)
{
    struct update u = {next, now, total, 0, now->block_count};
    if (next->moves) {
        next->factor = clip_factor(&u, pool);
        find_ratios(&u, pool);
        pool_run(pool, update_item, &u, items_of(u.end));
        exact_floor(next->exact, next->exponent);
    } else {
        size_t from = (size_t)((uint8_t *)now->params - now->block);
        size_t to = (size_t)((uint8_t *)now->exponent - now->block);
        memcpy(next->block + from, now->block + from, to - from);
    }
}

void
state_swap(struct state *a, struct state *b)
{
    struct state other = *a;
    *a = *b;
    *b = other;
}

int
state_take(struct state *state, const uint8_t *block, uint64_t hash, struct pool *pool)
{
    size_t exponents = (size_t)((uint8_t *)state->exponent - state->block);
    forget(state, state->scratch);
    if (hash_all(&(struct hashing){state, block, state->scratch}, pool) != hash ||
        !exact_valid(state->exact, (const void *)(block + exponents)))
        return -EBADMSG;
    memcpy(state->block, block, state->size);
    memcpy(state->hash, state->scratch, state->block_count * sizeof *state->hash);
    state->head_hash = hash_head(state, block);
    return 0;
}

/* state.c - F: from one state and the exact total of a round to the next state. */
#include "node/state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "proto/mix.h"

enum {
    ALIGN = 64,
    LIMB_BITS = 24,
    HASH_PIECE = 1 << 18, /* bytes; fixed, since the hash is a hash of the pieces' hashes */
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
item_count(const struct state *state)
{
    return (state->block_count + BLOCKS_PER_ITEM - 1) / BLOCKS_PER_ITEM;
}

int
state_init(struct state *state, const struct state_job *job, const struct exact *exact,
           size_t param_count)
{
    memset(state, 0, sizeof *state);
    state->job = *job;
    state->exact = exact;
    state->param_count = param_count;
    state->slot_count = optim_slots(&job->optim);
    state->block_count = exact_blocks(exact);
    size_t vector = aligned(param_count * sizeof(float));
    size_t head = aligned(sizeof *state->header);
    state->size =
        head + vector * (1 + state->slot_count) + aligned(state->block_count * sizeof(int16_t));
    state->block = aligned_alloc(ALIGN, state->size);
    state->square = calloc(item_count(state) + 1, sizeof *state->square);
    if (!state->block || !state->square) {
        state_fini(state);
        return -ENOMEM;
    }
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
    free(state->block);
    free(state->square);
    memset(state, 0, sizeof *state);
}

void
state_start(struct state *state)
{
    memset(state->header, 0, sizeof *state->header);
    state->header->best_loss = (double)INFINITY;
    exact_first(state->exact, state->exponent);
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

uint64_t
state_rows(const struct state *state)
{
    if (state->header->phase == STATE_EVALUATE)
        return state->job.test;
    uint64_t left = state->job.train - state->header->epoch_step * state->job.batch;
    return left < state->job.batch ? left : state->job.batch;
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

static double
tail_loss(const int32_t *tail)
{
    double sum = 0;
    for (int i = 3; i-- > 0;)
        sum = sum * (1 << LIMB_BITS) + tail[TAIL_LOSS + i];
    return sum * LOSS_UNIT;
}

/* The update of a step, shared out by ranges of exponent blocks. */
struct update {
    struct state *state;
    const int32_t *total;
    double rate;
    float factor; /* of the gradient: clipping */
};

/* Call fn for each block of item i with its dequantised gradient. */
static void
each_block(struct update *u, size_t i,
           void (*fn)(struct update *u, size_t i, size_t first, float *g, size_t n))
{
    const struct state *state = u->state;
    size_t end = (i + 1) * BLOCKS_PER_ITEM;
    float g[EXACT_BLOCK];
    for (size_t b = i * BLOCKS_PER_ITEM; b < end && b < state->block_count; b++) {
        size_t first = exact_block_first(state->exact, b);
        size_t n = exact_block_first(state->exact, b + 1) - first;
        exact_read(state->exact, state->exponent, u->total, first, g, n);
        fn(u, i, first, g, n);
    }
}

static void
square_block(struct update *u, size_t i, size_t first, float *g, size_t n)
{
    (void)first;
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (double)g[k] * (double)g[k];
    u->state->square[i] += sum;
}

static void
square_item(void *ctx, size_t i)
{
    each_block(ctx, i, square_block);
}

static void
update_block(struct update *u, size_t i, size_t first, float *g, size_t n)
{
    (void)i;
    struct state *state = u->state;
    float *slot[OPTIM_SLOTS_MAX] = {0};
    for (size_t s = 0; s < state->slot_count; s++)
        slot[s] = state->slot[s] + first;
    if (u->factor < 1.0f)
        for (size_t k = 0; k < n; k++)
            g[k] *= u->factor;
    optim_apply(&state->job.optim, u->rate, state->header->step, state->params + first, slot, g, n);
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
    size_t items = item_count(u->state);
    double clip = (double)u->state->job.optim.clip_norm, sum = 0;
    if (!(clip > 0))
        return 1.0f;
    memset(u->state->square, 0, items * sizeof *u->state->square);
    pool_run(pool, square_item, u, items);
    for (size_t i = 0; i < items; i++)
        sum += u->state->square[i];
    double norm = sqrt(sum);
    return norm > clip ? (float)(clip / norm) : 1.0f;
}

static void
apply_gradient(struct state *state, const int32_t *total, struct pool *pool)
{
    struct update u = {.state = state, .total = total, .factor = 1.0f};
    struct state_header *h = state->header;
    u.rate = optim_rate(&state->job.optim, h->step, state_steps_total(state), h->epoch,
                        state->job.batch);
    u.factor = clip_factor(&u, pool);
    pool_run(pool, update_item, &u, item_count(state));
    if (h->step == h->skipped)
        exact_settle(state->exact, total, state->exponent);
    else
        exact_adapt(state->exact, total, state->exponent);
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
apply_step(struct state *state, const int32_t *total, struct pool *pool, struct state_event *event)
{
    struct state_header *h = state->header;
    const int32_t *tail = total + state->param_count;
    event->raised = exact_raise(state->exact, tail + TAIL_OVER, state->exponent);
    if (event->raised && !tail[TAIL_BAD])
        return;
    event->stepped = true;
    event->skipped = tail[TAIL_BAD] != 0;
    if (event->skipped)
        h->skipped++;
    else
        apply_gradient(state, total, pool);
    h->step++;
    h->epoch_step++;
    h->samples += event->samples;
    h->epoch_loss += event->skipped ? 0 : tail_loss(tail);
    h->epoch_samples += event->skipped ? 0 : (double)event->samples;
    bool last = h->step >= state_steps_total(state);
    if (h->epoch_step >= state_epoch_steps(state) || last)
        finish_epoch(state);
    if (evaluation_due(state))
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

void
state_apply(struct state *state, const int32_t *total, struct pool *pool, struct state_event *event)
{
    const int32_t *tail = total + state->param_count;
    struct state_header *h = state->header;
    memset(event, 0, sizeof *event);
    event->samples = (uint64_t)tail[TAIL_SAMPLES];
    if (event->samples) {
        event->loss = tail_loss(tail) / (double)event->samples;
        event->accuracy =
            state->job.has_accuracy ? tail[TAIL_CORRECT] / (double)event->samples : -1;
    }
    h->round++;
    if (h->phase == STATE_EVALUATE)
        apply_evaluation(state, tail, event);
    else
        apply_step(state, total, pool, event);
}

struct hashing {
    const struct state *state;
    uint64_t *piece;
};

static void
hash_piece(void *ctx, size_t i)
{
    struct hashing *hashing = ctx;
    size_t at = i * HASH_PIECE, left = hashing->state->size - at;
    hashing->piece[i] =
        XXH3_64bits(hashing->state->block + at, left < HASH_PIECE ? left : HASH_PIECE);
}

static uint64_t
hash_block(const struct state *state, struct pool *pool)
{
    enum { BATCH = 64 };
    uint64_t hash = state->size;
    size_t pieces = (state->size + HASH_PIECE - 1) / HASH_PIECE;
    uint64_t all[BATCH];
    for (size_t i = 0; i < pieces; i += BATCH) {
        size_t n = pieces - i < BATCH ? pieces - i : BATCH;
        struct state part = *state;
        part.block += i * HASH_PIECE;
        part.size -= i * HASH_PIECE;
        pool_run(pool, hash_piece, &(struct hashing){&part, all}, n);
        for (size_t k = 0; k < n; k++)
            hash = mix64_pair(hash, all[k]);
    }
    return hash ? hash : 1;
}

uint64_t
state_hash(const struct state *state, struct pool *pool)
{
    return hash_block(state, pool);
}

int
state_take(struct state *state, const uint8_t *block, uint64_t hash, struct pool *pool)
{
    struct state other = *state;
    size_t exponents = (size_t)((uint8_t *)state->exponent - state->block);
    other.block = (uint8_t *)(uintptr_t)block;
    if (hash_block(&other, pool) != hash ||
        !exact_valid(state->exact, (const void *)(block + exponents)))
        return -EBADMSG;
    memcpy(state->block, block, state->size);
    return 0;
}

/* state_update.c - the step: from the old parameters and slots and the sum of the gradients to the new ones.
 *
 * The update runs block by block (exponent blocks, 4 KiB of parameters), shared out by ranges of them: the old
 * parameters and slots of a block are copied into the next state and updated there while they are in the first cache,
 * and while they are there, too, the old ones are compared with their hash and the new ones are hashed. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <string.h>

#include "proto/fail.h"
#include "proto/mix.h"

struct update {
    struct state *next;
    const struct state *now;
    const int32_t *total;
    size_t block, end; /* of exponent blocks */
};

/* Call fn for each held block of item i. */
static void
each_block(struct update *u, size_t i, void (*fn)(struct update *u, size_t block))
{
    struct state_item item = state_item(u->block, u->end, i);
    for (size_t b = item.first; b < item.end; b++)
        if (state_holds_block(u->now, b))
            fn(u, b);
}

/* Above 0: the block holds running averages, see struct state_job. */
static float
average_of(const struct state *state, size_t block)
{
    return state->job.average ? state->job.average[block] : 0;
}

/* Not NULL: the total has a product of the tensor of this block. */
static const struct lowrank *
matrix_of(const struct state *now, size_t block, size_t *tensor)
{
    const struct exact *grid = state_grid(now);
    if (!now->basis)
        return NULL;
    *tensor = exact_tensor_of(grid, block);
    return exact_matrix(grid, *tensor);
}

static size_t
tensor_first(const struct exact *exact, size_t tensor)
{
    return exact_block_first(exact, exact_tensor_first(exact, tensor));
}

/* If so: g[EXACT_BLOCK] = the gradient of the block. */
static void
read_product(const struct update *u, size_t block, float *g, size_t n)
{
    size_t tensor;
    const struct lowrank *matrix = matrix_of(u->now, block, &tensor);
    if (!matrix)
        return;
    const struct exact *grid = state_grid(u->now);
    size_t from = tensor_first(grid, tensor);
    lowrank_read(matrix, u->now->basis + from, u->total + from,
                 exact_unit(grid, u->now->exponent, tensor), exact_block_first(grid, block) - from,
                 g, n);
}

/* g[EXACT_BLOCK] = the gradient of a block; returns how many elements it has. */
static size_t
read_block(const struct update *u, size_t block, float *g)
{
    size_t first = exact_block_first(u->now->exact, block);
    size_t n = exact_block_first(u->now->exact, block + 1) - first;
    exact_read(state_grid(u->now), u->now->exponent, u->total, first, g, n);
    read_product(u, block, g, n);
    return n;
}

static void
square_block(struct update *u, size_t block)
{
    float g[EXACT_BLOCK];
    double sum = 0;
    size_t n = average_of(u->now, block) > 0 ? 0 : read_block(u, block, g);
    for (size_t k = 0; k < n; k++)
        sum += (double)g[k] * (double)g[k];
    u->next->square[block] = sum;
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
norm_block(struct update *u, size_t block)
{
    const struct state *now = u->now;
    const float *slot[STATE_SLOTS_MAX] = {0};
    float g[EXACT_BLOCK];
    double *sum = u->next->norm[block];
    size_t first = exact_block_first(now->exact, block), n = read_block(u, block, g);
    clip(u->next, g, n);
    for (size_t s = 0; s < now->slot_count; s++)
        slot[s] = now->slot[s] + first;
    sum[0] = sum[1] = 0;
    optim_squares(&state_rules(now)->optim, now->header->step, now->params + first, slot, g, n,
                  sum);
}

static void
norm_item(void *ctx, size_t i)
{
    each_block(ctx, i, norm_block);
}

/* The ratio of each tensor for the optimizers that have one; the sums run in fixed order. */
static void
find_ratios(struct update *u, struct pool *pool)
{
    struct state *next = u->next;
    if (!next->ratio)
        return;
    pool_run(pool, norm_item, u, state_items(u->end - u->block));
    for (size_t t = 0; t < exact_tensors(next->exact); t++) {
        size_t from = exact_tensor_first(next->exact, t),
               end = exact_tensor_first(next->exact, t + 1);
        double sum[2] = {0};
        for (size_t b = from; b < end; b++) {
            sum[0] += next->norm[b][0];
            sum[1] += next->norm[b][1];
        }
        float ratio = optim_ratio(&state_rules(u->now)->optim, sum);
        for (size_t b = from; b < end; b++)
            next->ratio[b] = ratio;
    }
}

/* The optimizer's step of a block that next has a copy of. */
static void
optimize(struct update *u, size_t block, float *slot[OPTIM_SLOTS_MAX], float *g, size_t n)
{
    struct state *next = u->next;
    clip(next, g, n);
    double rate = next->ratio ? next->rate * (double)next->ratio[block] : next->rate;
    optim_apply(&state_rules(u->now)->optim, rate, u->now->header->step,
                next->params + exact_block_first(next->exact, block), slot, g, n);
}

/* The bases of a block, if they do not move (else next_bases): they may be here already, of two steps ago. */
static void
keep_basis(struct update *u, size_t block, size_t n)
{
    struct state *next = u->next;
    size_t first = exact_block_first(next->exact, block);
    uint64_t now = *state_basis_hash(next, u->now->hash, block),
             *hash = state_basis_hash(next, next->hash, block);
    if (!next->basis || next->products || (now && *hash == now))
        return;
    memcpy(next->basis + first, u->now->basis + first, n * sizeof *next->basis);
    *hash = now;
}

static void
update_block(struct update *u, size_t block)
{
    struct state *next = u->next;
    if (next->applied[block])
        return;
    float g[EXACT_BLOCK], *slot[STATE_SLOTS_MAX] = {0};
    size_t first = exact_block_first(next->exact, block),
           n = exact_block_first(next->exact, block + 1) - first;
    uint32_t bits;
    next->check[block] =
        exact_take(state_grid(u->now), u->now->exponent, u->total, block, g, &bits);
    read_product(u, block, g, n);
    memcpy(next->params + first, u->now->params + first, n * sizeof *g);
    for (size_t s = 0; s < next->slot_count; s++) {
        slot[s] = next->slot[s] + first;
        if (next->slot[s] != next->basis)
            memcpy(slot[s], u->now->slot[s] + first, n * sizeof *g);
    }
    keep_basis(u, block, n);
    float average = average_of(next, block);
    for (size_t k = 0; average > 0 && k < n; k++)
        next->params[first + k] -= average * g[k];
    if (!(average > 0))
        optimize(u, block, slot, g, n);
    const struct state_header *h = u->now->header;
    if (state_rules(u->now)->optim.ema > 0)
        optim_average(&state_rules(u->now)->optim, h->step - h->skipped + state_steps(u->now),
                      state_steps(u->now), next->params + first, state_average(next) + first, n);
    exact_follow(state_grid(u->now), block, bits, next->settle, next->exponent);
    if (exact_adapts(state_grid(u->now), block))
        next->energy[block] = exact_squares(state_grid(u->now), u->total, block);
    fail_hit(FAIL_UPDATED, next->params + first, n * sizeof *next->params);
    state_hash_block(next, next->block, block, next->hash);
    if (!state_block_sound(u->now, block))
        atomic_store(&next->changed, true);
    next->applied[block] = true;
}

static void
update_item(void *ctx, size_t i)
{
    each_block(ctx, i, update_block);
}

/* The sum of all squares. Its bits depend on the order: within items, then over these. */
static double
sum_squares(const struct state *state)
{
    double sum = 0;
    for (size_t b = 0, end = 0; b < state->block_count;) {
        double item = 0;
        for (end += STATE_ITEM_BLOCKS; b < end && b < state->block_count; b++)
            item += state->square[b];
        sum += item;
    }
    return sum;
}

static bool
clips(const struct state *now)
{
    return state_rules(now)->optim.clip_norm > 0;
}

void
state_squares_of(struct state *next, const struct state *now, const int32_t *total,
                 const struct state_range *range, struct pool *pool)
{
    const struct state_item blocks = state_blocks(now, range);
    struct update u = {next, now, total, blocks.first, blocks.end};
    if (state_needs_squares(now))
        pool_run(pool, square_item, &u, state_items(blocks.end - blocks.first));
}

void
state_squares(struct state *next, const struct state *now, const int32_t *total, struct pool *pool)
{
    state_squares_of(next, now, total, &(struct state_range){0, now->param_count}, pool);
}

void
state_apply(struct state *next, const struct state *now, const int32_t *total, size_t first,
            size_t count, struct pool *pool)
{
    if (count == 0)
        return;
    const struct state_range range = {first, first + count};
    const struct state_item blocks = state_blocks(now, &range);
    assert(next->moves);
    assert(state_holds(now, &range));
    assert(exact_block_first(now->exact, blocks.first) == first);
    assert(exact_block_first(now->exact, blocks.end) == first + count);
    struct update u = {next, now, total, blocks.first, blocks.end};
    pool_run(pool, update_item, &u, state_items(blocks.end - blocks.first));
}

size_t
state_known(const struct state *next)
{
    size_t b = 0;
    while (b < next->block_count && (next->applied[b] || !state_holds_block(next, b)))
        b++;
    return exact_block_first(next->exact, b);
}

/* Parameters and slots. */
static void
copy_vectors(struct state *next, const struct state *now)
{
    for (size_t vector = 0; vector <= now->slot_count; vector++)
        for (size_t i = 0; i < now->held_count; i++) {
            struct state_extent part = state_part(now, vector, &now->held[i]);
            memcpy(next->block + part.offset, now->block + part.offset, part.size);
        }
}

/* Comes the first step with a codec that has a memory next? */
static bool
codec_begins(const struct update *u)
{
    const struct state_job *job = &u->next->job;
    return state_codec(u->next)->flush && u->now->header->step < job->warmup &&
           u->next->header->step >= job->warmup;
}

static uint64_t
basis_seed(const struct state *state, uint64_t step, size_t tensor)
{
    return mix64_pair(mix64_pair(state->job.seed, step), tensor);
}

/* Of a tensor. */
static void
next_basis(void *ctx, size_t tensor)
{
    struct update *u = ctx;
    const struct exact *coded = state_codec(u->next)->coded, *grid = state_grid(u->now);
    if (!state_holds_block(u->next, exact_tensor_first(grid, tensor)))
        return;
    const struct lowrank *matrix = coded ? exact_matrix(coded, tensor) : NULL;
    size_t from = tensor_first(grid, tensor), end = tensor_first(grid, tensor + 1);
    uint64_t seed = basis_seed(u->now, u->now->header->step, tensor);
    float *next = u->next->basis + from;
    const float *now = u->now->basis + from;
    memcpy(next, now, (end - from) * sizeof *next);
    if (matrix && codec_begins(u))
        lowrank_draw(matrix, seed, next);
    else if (matrix && exact_matrix(grid, tensor))
        lowrank_next(matrix, now, u->total + from, seed, next);
}

/* What a codec with a memory begins with, if one is chosen: the bases, which nobody uses before, keep it. */
struct kept {
    double squares; /* of the last sum */
    uint64_t step;  /* that it is of */
};

/* NULL: the tensor is too small to be coded, or not held. */
static float *
kept_at(const struct state *state, size_t tensor)
{
    size_t from = tensor_first(state->exact, tensor), end = tensor_first(state->exact, tensor + 1);
    bool held = state_holds_block(state, exact_tensor_first(state->exact, tensor));
    return held && end - from >= CODEC_SMALL ? state->basis + from : NULL;
}

static void
keep_squares(struct update *u, struct pool *pool)
{
    const struct exact *exact = u->next->exact;
    pool_run(pool, square_item, u, state_items(u->end - u->block));
    for (size_t t = 0; t < exact_tensors(exact); t++) {
        struct kept kept = {.step = u->now->header->step};
        float *at = kept_at(u->next, t);
        for (size_t b = exact_tensor_first(exact, t); at && b < exact_tensor_first(exact, t + 1);
             b++)
            kept.squares += u->next->square[b];
        if (at)
            memcpy(at, &kept, sizeof kept);
    }
}

static void
next_bases(struct update *u, struct pool *pool)
{
    if (u->next->products)
        pool_run(pool, next_basis, u, exact_tensors(u->next->exact));
    if (state_keeps_squares(u->next))
        keep_squares(u, pool);
}

/* The codec is chosen, and begins: as one that is set begins after its warm-up. */
static void
begin_chosen(struct state *next, const struct state *now)
{
    const struct codec_grids *grids = state_codec(next);
    const struct exact *coded = grids->flush ? grids->coded : NULL;
    for (size_t b = 0; b < now->block_count; b++)
        if (!state_block_sound(now, b))
            atomic_store(&next->changed, true);
    if (now->header->codec != 0)
        return;
    memset(next->square, 0, next->block_count * sizeof *next->square);
    for (size_t t = 0; t < exact_tensors(next->exact); t++) {
        struct kept kept;
        float *at = kept_at(next, t);
        if (!at)
            continue;
        memcpy(&kept, at, sizeof kept);
        memset(at, 0, sizeof kept);
        next->square[exact_tensor_first(next->exact, t)] = kept.squares;
        if (coded && exact_matrix(coded, t))
            lowrank_draw(exact_matrix(coded, t), basis_seed(now, kept.step, t), at);
    }
    if (coded)
        exact_begin(coded, next->square, next->exponent);
    exact_floor(state_grid(next), next->exponent);
}

static void
begin_codec(struct update *u, struct pool *pool)
{
    struct state *next = u->next;
    if (!codec_begins(u))
        return;
    pool_run(pool, square_item, u, state_items(u->end - u->block));
    exact_begin(state_codec(next)->coded, next->square, next->exponent);
}

static void
adapt(struct state *next, const struct state *now, const int32_t *total)
{
    const int32_t *over = total + now->param_count + TAIL_OVER;
    const struct exact *grid = state_grid(now);
    for (size_t t = 0; t < exact_tensors(grid); t++) {
        size_t first = exact_tensor_first(grid, t);
        if (exact_adapts(grid, first) && state_holds_block(next, first))
            exact_adapt(grid, t, next->energy, over, next->exponent);
    }
}

uint64_t
state_finish(struct state *next, const struct state *now, const int32_t *total, struct pool *pool)
{
    struct update u = {next, now, total, 0, now->block_count};
    if (next->moves) {
        if (clips(now))
            next->factor = optim_clip(&state_rules(now)->optim, sum_squares(next));
        find_ratios(&u, pool);
        next_bases(&u, pool);
        pool_run(pool, update_item, &u, state_items(now->block_count));
        adapt(next, now, total);
        begin_codec(&u, pool);
        exact_floor(state_grid(next), next->exponent);
    } else {
        copy_vectors(next, now);
        if (state_chooses(now))
            begin_chosen(next, now);
    }
    if (state_whole(now))
        next->header->parent = state_hash_known(now, pool);
    fail_hit(FAIL_APPLIED, next->block, next->size);
    uint64_t hash = state_hash_rest(next, pool);
    return state_changed_below(next, now) ? 0 : hash;
}

uint64_t
state_advance(struct state *next, const struct state *now, const int32_t *total,
              struct state_event *event, struct pool *pool)
{
    state_begin(next, now, total, event);
    state_squares(next, now, total, pool);
    return state_finish(next, now, total, pool);
}

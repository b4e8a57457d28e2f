/* state_internal.h - shared by the files of F: state.c has the block of memory and its header, state_tail.c the
 * counters of a round, state_summary.c what stages tell one another, state_check.c whether a total is right,
 * state_next.c and state_update.c the step, state_hash.c the hashes. */
#ifndef NODE_STATE_INTERNAL_H
#define NODE_STATE_INTERNAL_H

#include <string.h>

#include "node/train/state.h"

enum {
    STATE_ALIGN = 64,
    STATE_HASHES = 3,       /* of a block, that are remembered */
    STATE_ITEM_BLOCKS = 64, /* exponent blocks that one worker gets at a time */
};

static inline size_t
state_aligned(size_t size)
{
    return (size + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
}

static inline size_t
state_items(size_t blocks)
{
    return (blocks + STATE_ITEM_BLOCKS - 1) / STATE_ITEM_BLOCKS;
}

/* Exponent blocks. */
struct state_item {
    size_t first, end;
};
/* Those of item i of all that are [first, end). */
static inline struct state_item
state_item(size_t first, size_t end, size_t i)
{
    size_t from = first + i * STATE_ITEM_BLOCKS, to = from + STATE_ITEM_BLOCKS;
    return (struct state_item){from, to < end ? to : end};
}

/* Those of a range. */
static inline struct state_item
state_blocks(const struct state *state, const struct state_range *range)
{
    return (struct state_item){exact_block_of(state->exact, range->first),
                               exact_block_of(state->exact, range->end - 1) + 1};
}

/* With `choose`: is a codec to be chosen before the next step, if there is one, or judged? The first one begins with
 * squares. */
bool state_may_choose(const struct state *state);
bool state_keeps_squares(const struct state *state);
/* With train.ema: the average of the parameters. */
float *state_average(const struct state *state);
bool state_holds_block(const struct state *state, size_t block);
/* Where a block begins in a vector of parameters, in bytes. The last one has the padding behind it. */
size_t state_offset(const struct state *state, size_t block);

/* hash[block] = hash of parameters and slots of a block, never 0, and behind all these that of the parameters alone.
 * `memory` is the memory of the state, or a copy of it. The hash of the bases is computed if it is 0. */
void state_hash_block(const struct state *state, const uint8_t *memory, size_t block,
                      uint64_t *hash);
/* Of the bases of a block; 0: unknown. They stay when they do not move, also where the next state is made. */
static inline uint64_t *
state_basis_hash(const struct state *state, uint64_t *hash, size_t block)
{
    return &hash[2 * state->block_count + block];
}
/* Is a block what its remembered hash says, if there is one? */
bool state_block_sound(const struct state *state, size_t block);
/* Had any part of `now` changed when `next` was made from it? Call it after state_hash_rest(next). */
bool state_changed_below(const struct state *next, const struct state *now);
/* What state_hash returns, by what is remembered if it is. */
uint64_t state_hash_known(const struct state *state, struct pool *pool);
/* What the blocks of a held range add to the hash of the whole, by their remembered hashes. */
uint64_t state_hash_range(const struct state *state, const struct state_range *range);
/* Marks the hashes of the held blocks as unknown. */
static inline void
state_hash_forget(const struct state *state, uint64_t *hash)
{
    memset(hash, 0, STATE_HASHES * state->block_count * sizeof *hash);
}

/* How many there are in a total. */
static inline unsigned
state_ledgers(const struct state_job *job)
{
    return job->ledgers > 1 ? job->ledgers : 1;
}

/* What the next round uses. */
struct ledger_step state_present_step(const struct state *state);

/* Loss summed over the samples. */
double state_tail_loss(const int32_t *tail);
/* Its mean; NaN if there are no samples, or a gradient is not finite. */
double state_tail_mean(const int32_t *tail);

#endif

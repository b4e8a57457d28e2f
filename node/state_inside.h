/* state_inside.h - what the files of F share: state.c has the block of memory and its header, state_tail.c the counters
 * of a round, state_update.c the step, state_hash.c the hashes. */
#ifndef NODE_STATE_INSIDE_H
#define NODE_STATE_INSIDE_H

#include "node/state.h"

enum {
    STATE_ALIGN = 64,
    STATE_ITEM_BLOCKS = 64, /* exponent blocks one worker is given at a time */
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

/* Of parameters and slots of a block of the state whose memory, or a copy of it, this is; never 0. */
uint64_t state_hash_block(const struct state *state, const uint8_t *memory, size_t block);
/* Nothing is known of [block_count] hashes. */
void state_hash_forget(const struct state *state, uint64_t *hash);

/* The sum over the samples. */
double state_tail_loss(const int32_t *tail);

#endif

/* push_shard.h - the gradient of one ticket: a shard of a step, from given parameters. A trainer computes it, and a replay
 * computes it again. */
#ifndef NODE_PUSH_SHARD_H
#define NODE_PUSH_SHARD_H

#include "node/train/work.h"

/* Sets the header of `state` to that before a step (from 0): rows and random numbers follow from it. */
void push_shard_step(struct state *state, uint64_t step);
/* Computes a ticket from state->params and these exponents [blocks] into `own`, a vector of work, tail included. An
 * exponent that is too small for it is raised in state->exponent: that is what the integers are in. A gradient that is
 * not finite adds nothing. */
void push_shard_compute(struct work *work, struct state *state, const int16_t *exponent,
                        uint64_t ticket, int32_t *own);

#endif

/* push_shard.h - the gradient of one ticket: some shards of a step, from given parameters. A trainer computes it, and a
 * replay computes it again.
 *
 * A ticket costs the bytes of a pull and of a push, and two updates, whatever is in it. So a ticket has several shards
 * when a step has many: fewer bytes, but gradients of more samples are under way at a time, and a slow node has all of
 * a ticket to compute. mesh.ticket_shards says how many; `auto`: so many that a step still has PUSH_STEP_TICKETS
 * tickets. That is a function of the job, so all nodes and a replay agree on it. Six: gradients of four nodes are about
 * two and a half updates old, and those that are about a step old teach less. */
#ifndef NODE_PUSH_SHARD_H
#define NODE_PUSH_SHARD_H

#include "node/job/config.h"
#include "node/train/work.h"

enum { PUSH_STEP_TICKETS = 6 };

/* Ticket k of a step (k = ticket % tickets) has `each` shards, from k * each on; the last one may have fewer. An update
 * has `group` gradients, which count less by their age if they are scaled (push_ranges.h). */
struct push_step {
    unsigned shards, each, tickets, group;
    bool scaled;
    bool rounds; /* what workers read, to bfloat16: mesh.pull */
};

struct push_step push_step_of(const struct config *config);
uint64_t push_step_shards(const struct push_step *step, uint64_t ticket); /* a bitmap */

/* Sets the header of `state` to that before a step (from 0): rows and random numbers follow from it. */
void push_shard_step(struct state *state, uint64_t step);
/* Computes a ticket from state->params and these exponents [blocks] into `own`, a vector of work, tail included. An
 * exponent that is too small for it is raised in state->exponent: that is what the integers are in. A gradient that is
 * not finite becomes zeros, and the tail says so. */
void push_shard_compute(struct work *work, struct state *state, const struct push_step *step,
                        const int16_t *exponent, uint64_t ticket, int32_t *own);

#endif

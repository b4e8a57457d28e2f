/* feedback.h - what is kept of the shards that this node computes within a span. What a codec with memory left out of
 * the gradient, the *residual* of a shard, is added to its next gradient (error feedback: Seide et al. 2014;
 * Karimireddy et al., ICML 2019). And with local steps a shard has the *moments* of its optimizer (local_sgd.h).
 *
 * Both belong to a shard and a state, and are a pure function of these. They are zero where a span begins
 * (state_carries), and only who computed the shard in each step since then has them. So they are in no checkpoint and
 * in no message, and the core leaves each shard with who has them (core_state.pinned). Of a model in stages a node has
 * residuals of the parameters of its stages.
 *
 * They change when a step is applied. What a round computes is put beside them, so that a round may be done again, or
 * skipped, with the same. Memory: 8 bytes per shard and parameter that are computed here, and as many for each vector
 * of moments, from the first time on. */
#ifndef NODE_FEEDBACK_H
#define NODE_FEEDBACK_H

#include "node/train/state.h"

struct feedback;

/* Of so many shards, each with so many vectors of moments and floats of scratch memory. `parts` are what nodes may have
 * of the parameters: those of a stage are some of them. Returns 0 or -ENOMEM. */
int feedback_new(struct feedback **out, unsigned shards, const struct state_stages *parts,
                 size_t moments, size_t scratch);
void feedback_destroy(struct feedback **feedback);

/* Of these shards and parameters, are there those of this state, and memory to compute the next round? Returns 0,
 * -ENOMEM, or
 * -ENODATA: another node has one of them. Call it before they are computed. `empty`: shards without a row, whose
 * gradient may not come. */
int feedback_open(struct feedback *feedback, const struct state *state, uint64_t shards,
                  const struct state_range *range, uint64_t empty);
/* Elements [first, first + n) of the shard's gradient: with what is carried on, they are in feedback_next, [params],
 * where what is left out of them is to be in the end. */
void feedback_add(struct feedback *feedback, unsigned shard, size_t first, const float *g,
                  size_t n);
float *feedback_next(const struct feedback *feedback, unsigned shard);
/* Its moments as of the state, [moments][params], where those after the round are to be in the end. */
float *feedback_moments(const struct feedback *feedback, unsigned shard);
float *feedback_scratch(const struct feedback *feedback, unsigned shard);
/* `next` was made of `now`, by what was computed since feedback_open, or by others. `event`: of that round. */
void feedback_applied(struct feedback *feedback, const struct state *next, const struct state *now,
                      const struct state_event *event);
/* The L2 norm of all that waits here. */
double feedback_norm(const struct feedback *feedback);
/* All of it is void. */
void feedback_drop(struct feedback *feedback);

#endif

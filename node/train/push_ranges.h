/* push_ranges.h - the parameters of a run in a free mode (mesh.sync ssp, softsync, async), divided into ranges.
 *
 * A range is some whole exponent blocks. Three things of it travel (mesh/core/push/push.h), the floats as they lie in
 * memory:
 *
 *     gradient   exponents [blocks, int16] | integers [elements], packed (compress/packed.h)    of one ticket
 *     value      exponents [int16] | parameters [float, or bf16.h]             what a worker computes from; the model:
 *                float
 *     copy       parameters | slots of the optimizer | sum of the update [float, softsync only] | exponents
 *
 * The rule (that of the part of the run which the step belongs to: config_parts.h), so that c gradients of a step of S
 * tickets move the parameters as far as one step of bsp would do c / S of it:
 *
 *     g = sum over the update's gradients of g_i / max(1, tau_i c / S), times S / c
 *     optimizer's step of g with rate * c / S; step and epoch by the gradients that the range has taken, S to a step
 *
 * tau_i: how many updates old the parameters were that g_i was computed from; so tau c / S is its age in steps. Zhang
 * et al. (Staleness-aware Async-SGD, IJCAI 2016, eq. 6) give an update the rate of a whole step divided by tau. Here it
 * gets that, but no more than its share c / S: rate * min(c / S, 1 / tau). mesh.staleness_scaling: no: rate * c / S.
 *
 * mesh.pull: bf16 rounds the parameters to bfloat16 (nearest even) when a worker reads them; owner and backup keep all
 * bits.
 *
 * The integers are those of the shards of the ticket, as in a round: in the grid of mesh.compress, from the step
 * mesh.compress_warmup on. Sums of updates are floats.
 *
 * A gradient that is not finite is left out: its exponents are PUSH_LEFT_OUT. The range counts it and stays as it is,
 * but that the last gradient of an update makes this update. So does one whose integers are not packed as they should
 * be.
 *
 * Other exponents that come from nodes are brought within the limits of exact.h. After each gradient they follow it, as
 * exact_follow does. All is a function of the copy and of the gradients in their order: owner, backup and replay get
 * the same bits. No threads, no I/O. */
#ifndef NODE_PUSH_RANGES_H
#define NODE_PUSH_RANGES_H

#include "mesh/core/push/push.h"
#include "node/train/push_shard.h"

enum { PUSH_LEFT_OUT = INT16_MIN }; /* no block has such an exponent */

struct push_ranges {
    const struct exact *exact;
    const struct state_job *job; /* borrowed, as exact */
    size_t param_count, slot_count, block_count;
    struct push_step step;
    uint64_t first; /* gradients of the run, as far as another run computed them: train.from */
    unsigned count;
    size_t *first_block;    /* [count + 1] */
    struct push_size *size; /* [count] */
    int32_t *integers;      /* of the gradient that a range takes */
};

/* The parameters with what belongs to them; each points to as many elements as the model has. */
struct push_held {
    float *params, *slot[OPTIM_SLOTS_MAX], *sum; /* sum: NULL when every gradient is an update */
    int16_t *exponent;
};

/* Another run computed `begun` steps. Returns 0 or -ENOMEM; push_ranges_fini follows in both cases. */
int push_ranges_init(struct push_ranges *ranges, const struct state *state,
                     const struct push_step *step, uint64_t begun);
void push_ranges_fini(struct push_ranges *ranges);

/* The parameters of a state, and a sum that the caller frees. Returns 0 or -ENOMEM. */
int push_held_init(struct push_held *held, const struct state *state,
                   const struct push_ranges *ranges);

void push_ranges_take(const struct push_ranges *ranges, struct push_held *held,
                      const struct push_taken *taken, const void *gradient, size_t size);
uint64_t push_ranges_hash(const struct push_ranges *ranges, const struct push_held *held,
                          unsigned range);
/* To and from the bytes that travel. `model`: not rounded by mesh.pull. */
void push_ranges_copy(const struct push_ranges *ranges, const struct push_held *held,
                      unsigned range, void *out);
void push_ranges_adopt(const struct push_ranges *ranges, struct push_held *held, unsigned range,
                       const void *copy);
void push_ranges_value(const struct push_ranges *ranges, const struct push_held *held,
                       unsigned range, bool model, void *out);
void push_ranges_read(const struct push_ranges *ranges, unsigned range, bool model,
                      const void *value, float *params, int16_t *exponent);
/* A range begins with what a worker read last, rounded as it is read, and an optimizer that has seen nothing. */
void push_ranges_restore(const struct push_ranges *ranges, struct push_held *held, unsigned range,
                         const float *params, const int16_t *exponent);
/* A range begins with these parameters and exponents, and these slots of the optimizer; NULL: one that has seen
 * nothing. */
void push_ranges_begin(const struct push_ranges *ranges, struct push_held *held, unsigned range,
                       const float *params, float *const *slot, const int16_t *exponent);
/* Writes the gradient of a range from the vector, tail included, that was computed with `exponent`. Returns its
 * size. */
size_t push_ranges_gradient(const struct push_ranges *ranges, unsigned range, const int32_t *own,
                            const int16_t *exponent, void *out);

#endif

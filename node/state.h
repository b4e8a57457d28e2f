/* state.h - the training state and the function F that advances it.
 *
 *     state(round + 1) = F(state(round), total of the round)
 *
 * The state is one block of memory, so that it can be hashed, sent to a joiner and checkpointed as it is:
 *
 *     header | params [float] | optimiser slots, average of params [float] | exponents [int16, one per block]
 *
 * The total of a round is the int32 vector that the mesh sums over all shards:
 *
 *     gradients [params] | tail: bad, samples, correct, loss in three limbs of 24 bits, checksum of the tail,
 *                          then one count of saturated elements per exponent block
 *                        | ledger: see ledger.h; training rounds only
 *
 * With train.local_steps the gradients are those of a round of several steps: in each shard the difference between the
 * parameters now and after its own steps (walk.h), weighted by samples, so that the sum is the mean difference.
 *
 * A round is a training step, or several, an evaluation of the whole test part, or, when a gradient did not fit its
 * block's exponent, only a change of exponents after which the same step is computed again. Which one it
 * is follows from the state alone, so all nodes agree without a word.
 *
 * There are two states, the present one and the next, which F builds beside it:
 *
 *     state_begin(next, now, total)    from the tail alone: the header, what kind of round it was
 *     state_apply(next, now, total, .. ranges of the parameters, in any order, as their sums become final
 *     state_finish(next, now, total)   what is left
 *     state_hash_rest(next)            hashes what was not hashed when it was applied
 *     state_doubted(next)              bits may flip: was the present state still what it was?
 *     state_swap(now, next)            at commit
 *
 * Nothing but state_swap and state_take changes the present state, so that until the commit it can be
 * hashed, sent and computed from, and a next state that turns out not to be wanted is simply begun anew. After
 * the swap the other one is the state before, until the next state_begin: swapping back and doing the
 * round again must give the same hash. */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/exact.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "node/pool.h"

enum state_phase { STATE_TRAIN, STATE_EVALUATE };

/* Plain little-endian numbers; part of the wire and of checkpoints. */
struct state_header {
    uint64_t round;      /* rounds applied */
    uint64_t step;       /* training steps applied, the skipped ones too */
    uint64_t epoch;      /* present epoch, from 0 */
    uint64_t epoch_step; /* steps of it done */
    uint64_t skipped;    /* steps whose gradient held NaN or infinity */
    uint64_t samples;    /* samples used */
    uint64_t phase;      /* enum state_phase: what the next round is */
    uint64_t done;       /* no further round */
    uint64_t stale;      /* evaluations since the best one */
    uint64_t evaluations;
    double epoch_loss; /* sum over the samples of this epoch so far */
    double epoch_samples;
    double train_loss; /* mean of the last complete epoch */
    double test_loss;  /* of the last evaluation */
    double test_accuracy;
    double best_loss;
    uint64_t ledger; /* running hash of the samples used by the steps so far: ledger.h */
};

enum {
    TAIL_BAD,
    TAIL_SAMPLES,
    TAIL_CORRECT,
    TAIL_LOSS,
    TAIL_CHECK = TAIL_LOSS + 3,
    TAIL_OVER = TAIL_CHECK + 2,
};

/* What F needs to know of the job; fixed for the run. */
struct state_job {
    struct optim_spec optim;
    uint64_t seed; /* of the order of the samples */
    unsigned shards;
    bool claims;    /* the ledger is exchanged by itself (work.h), and in evaluations not at all */
    uint64_t batch; /* samples per step */
    uint64_t local_steps;   /* of a round, 1..; fewer at the end of an epoch and of the run */
    uint64_t train, test;   /* samples in the data */
    uint64_t epochs, steps; /* stop after; steps 0 = only epochs count */
    uint64_t eval_every;    /* epochs; 0 = only at the end */
    uint64_t patience;      /* evaluations without improvement; 0 = off */
    const float *
        average; /* per exponent block: above 0, it moves by this share of its sum, not by the optimiser;
                             NULL: none does. Borrowed */
    void *block;     /* [state_size] zeros on whole pages, the caller's; NULL: of its own */
    uint64_t labels; /* per sample, of which the right ones count as accuracy; 0: it has none */
};

struct state {
    struct state_job job;
    const struct exact *exact;
    size_t param_count, slot_count, block_count;
    size_t size; /* bytes of the block */
    uint8_t *block;
    struct state_header *header; /* into block, like the following */
    float *params;
    float *slot[OPTIM_SLOTS_MAX];
    int16_t *exponent;
    double *square;     /* scratch of the norm, one sum per work item */
    double (*norm)[2];  /* [block_count] layer-wise optimisers: optim_squares of each block */
    float *ratio;       /* [block_count] of its tensor; NULL for others */
    uint64_t head_hash; /* of header and exponents, with hash */
    /* While it is built: */
    bool moves;    /* the round moves the parameters */
    bool settle;   /* it is the first that does */
    double rate;   /* of learning */
    float factor;  /* of the gradient: clipping */
    bool *applied; /* [block_count] parameters, slots and exponent of this block are done */
    uint64_t *
        hash; /* [block_count] of parameters and slots of each block as it was built; 0: not known */
    uint64_t *scratch; /* [block_count] for hashing anew */
    atomic_bool doubt; /* what it was built from was no longer what had been hashed */
};

/* What happened in a round, for metrics. */
struct state_event {
    bool stepped; /* a training step was applied or skipped */
    bool skipped;
    bool evaluated; /* header's test_* are new */
    size_t raised;  /* blocks whose exponent was too small: the step is redone */
    uint64_t steps; /* of the round */
    uint64_t samples;
    uint64_t first;    /* of them, in the epoch's permutation */
    uint64_t coverage; /* shards counted, each once: from state_check */
    uint64_t rows;     /* hash of the samples: ledger.h */
    double loss;       /* mean over the samples of the round */
    double accuracy;
};

/* Bytes of the block. */
size_t state_size(const struct optim_spec *optim, size_t param_count, size_t block_count);
int state_init(struct state *state, const struct state_job *job, const struct exact *exact,
               size_t param_count);
void state_fini(struct state *state);
/* Header and exponents before round 0; params are the caller's to fill. */
void state_start(struct state *state);

/* What the run gives: the parameters or, with train.ema, their average over the steps. This is what is evaluated and
 * written as a model. */
const float *state_weights(const struct state *state);
size_t state_tail(size_t block_count); /* elements of the tail; the ledger begins behind it */
uint64_t state_steps_total(const struct state *state);
/* Steps of the next round, a training one. */
uint64_t state_steps(const struct state *state);
/* Samples of the next round, all shards together: less than a batch per step at the end of an epoch. */
uint64_t state_rows(const struct state *state);

/* May this total be applied: is it that of the samples that are due, each counted once, and as it was when
 * it was computed? 0 and the shards that were counted, none in an evaluation; or -EBADMSG with one line in
 * `why`. */
int state_check(const struct state *state, const int32_t *total, uint64_t *coverage, char *why,
                size_t why_size);

/* Header of `next` and the event, from the tail of `total`. True: state_apply may follow, and `next` has
 * the parameters of the ranges it was called for; false: all that is left is for state_finish. */
bool state_begin(struct state *next, const struct state *now, const int32_t *total,
                 struct state_event *event);
/* Elements [first, first + count) of the parameters, whole exponent blocks. */
void state_apply(struct state *next, const struct state *now, const int32_t *total, size_t first,
                 size_t count, struct pool *pool);
/* Parameters below this one are those of `next`. */
size_t state_known(const struct state *next);
/* The ranges that are left, and the exponents. */
void state_finish(struct state *next, const struct state *now, const int32_t *total,
                  struct pool *pool);
/* Remembers the hashes of its parts and returns that of the whole, as state_hash does. */
uint64_t state_hash_rest(struct state *next, struct pool *pool);
/* The same of a state that was not made by state_finish. */
uint64_t state_hash_anew(struct state *state, struct pool *pool);
/* Was any part of `now` no longer what was remembered of it, when `next` was made of it? Of a part that was not
 * remembered nothing is said. After state_hash_rest(next). */
bool state_doubted(const struct state *next, const struct state *now);
/* Are header and exponents what was remembered of them? What is indexed by them must not be read before that is known.
 * True where nothing is remembered. */
bool state_head_sound(const struct state *state);
void state_swap(struct state *a, struct state *b);

/* 64-bit hash of the whole block, never 0: XXH3-64 of header and exponents, and of the parameters and of each
 * slot of every exponent block, mixed in order. Of what is there now, whatever is remembered. */
uint64_t state_hash(const struct state *state, struct pool *pool);
/* Take over another node's block. -EBADMSG when its hash differs. */
int state_take(struct state *state, const uint8_t *block, uint64_t hash, struct pool *pool);

/* Add a loss sum and counts of one shard to a tail. */
void state_tail_add(int32_t *tail, uint64_t rows, const struct nn_result *result);
/* Checksum of what a tail holds. */
uint64_t state_tail_check(const int32_t *tail, size_t block_count);
/* Add the checksum of what was added to a tail since it had checksum `before`, 0 when it was zeros, to the one
 * it carries: what has changed by itself before that stays wrong. */
void state_tail_seal(int32_t *tail, size_t block_count, uint64_t before);

#endif

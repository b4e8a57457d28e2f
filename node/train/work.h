/* work.h - computes shards: rows of the batch, forward, loss, backward, quantise, layer by layer.
 *
 * work_round computes some of the shards of a round and adds their integers to `own`. All shards finish a layer
 * before the next one starts, and the gradient of a layer is computed before that of its input. So a bucket of
 * gradients is complete, and given to the mesh, while there is still much to compute. With train.exact = no the
 * rows of several shards go through the network as one batch. The result then depends on which node computes what.
 *
 * With several local steps per round, each shard walks by itself (local_sgd.h) before anything of it is added. Then all
 * buckets are ready at once, and work_begin does nothing.
 *
 * work_begin does the first part of the next work_round while the sums of the present round still travel: the
 * forward pass through those layers whose parameters are already known. It touches neither own nor the present
 * state. If another round or other shards are asked for, its work is dropped. */
#ifndef NODE_WORK_H
#define NODE_WORK_H

#include "mesh/core/core.h"
#include "nn/data.h"
#include "node/train/feedback.h"
#include "node/train/state.h"

struct work;

struct work_setup {
    const struct nn_model *model;
    const struct data_set *data;
    const struct exact *exact;
    struct pool *pool;
    unsigned threads; /* threads of the pool */
    unsigned shards;
    size_t behind; /* elements behind the tail: state_behind; 0: those of one ledger */
    uint64_t batch;
    uint64_t local_steps; /* steps of a round, as in struct state_job; above 1 only in exact mode */
    void (*alive)(void *ctx); /* called after each local step; may be NULL */
    /* The same for an evaluation: `done` rows of all that this node evaluates. Called from any thread of the pool. */
    void (*evaluates)(void *ctx, uint64_t done, uint64_t all);
    void *alive_ctx; /* of both */
    uint64_t seed;
    bool exact_mode;
    bool memory;    /* the codec has one: feedback.h */
    size_t moments; /* vectors of each shard, with local steps: local_sgd.h */
    size_t product; /* elements of the longest product that it sends: exact_product_most */
    unsigned lanes; /* shards computed at a time; the others follow; 0: all */
    bool stages;    /* the model may be divided: a bucket ends at every place to cut (stages.h) */
    bool claims;    /* the ledger is a bucket of its own, the last but one: mesh.audit */
    /* size of a bucket of gradients: smaller layers share one, larger ones are divided */
    size_t bucket_bytes;
};

/* So many parts go through the network side by side when `shards` are computed at a time. */
size_t work_parts(bool exact, unsigned threads, size_t shards);

int work_new(struct work **out, const struct work_setup *setup);
void work_destroy(struct work **work);

/* The vector of a round, divided into buckets in the order in which they become ready. The last one is the tail.
 * Borrowed. */
const struct core_bucket *work_buckets(const struct work *work, size_t *count);
size_t work_vector_count(const struct work *work);

/* With a codec that has a memory, or moments: may this node compute these shards of the state's next round? As
 * feedback_open; call it before work_round. And `next` was made of `now`, or what was kept so far is void: as
 * feedback_applied and feedback_drop. */
int work_open(struct work *work, const struct state *state, uint64_t shards);
void work_applied(struct work *work, const struct state *next, const struct state *now,
                  const struct state_event *event);
void work_forget(struct work *work);
/* The L2 norm of what is left out so far of the shards that this node computes; 0 without such a codec. */
double work_left_out(const struct work *work);

/* Computes `shards` of the state's next round into own (set to zero first if fresh). Calls `ready` with each bucket
 * in rising order, unless it is NULL. A round of evaluation uses only the last bucket. */
void work_round(struct work *work, const struct state *state, uint64_t shards, bool fresh,
                int32_t *own, void (*ready)(void *ctx, size_t bucket), void *ctx);

/* Computes one shard of the state's next round, a training step, again into `scratch`, a vector like own. Returns
 * whether the ledger has the words claim[LEDGER_WORDS]. */
bool work_probe(struct work *work, const struct state *state, unsigned shard, int32_t *scratch,
                const int32_t *claim);

/* Forward pass of the next round's `shards`, as far as `next`, the state before it, is known: its header and the
 * parameters below `known`. May be called again when more are known. */
void work_begin(struct work *work, const struct state *next, uint64_t shards, size_t known);

/* Drops the work that was begun, because the state it began from will not come. */
void work_drop(struct work *work);

/* Loss and accuracy over the whole test part, on this machine alone. False: outputs are not finite, and there is no
 * loss. */
bool work_evaluate(struct work *work, const float *params, double *loss, double *accuracy);

/* The first row of a shard of the test part; the one behind its last row is that of the next shard. */
uint64_t work_test_first(const struct work *work, unsigned shard);
/* Evaluates rows [first, end) of the test part, and adds to `sum`. */
void work_evaluate_rows(struct work *work, const float *params, uint64_t first, uint64_t end,
                        struct nn_result *sum);
/* Evaluates these shards of the test part, each by itself: result[shards]. */
void work_evaluate_each(struct work *work, const float *params, uint64_t shards,
                        struct nn_result *result);

#endif

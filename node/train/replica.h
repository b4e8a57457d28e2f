/* replica.h - what a node that gossips computes from its values (mesh.topology: gossip). A trainer computes it, and a
 * replay computes it again.
 *
 * A step is F of state.h on one replica, with the shards that the plan gives it: the sum of their gradients stands for
 * that of all shards, in proportion to the samples. What F changes goes to the mesh as whole numbers, in units of
 * 2^-24, and so do the values at the beginning. Slots of the optimizer and exponents stay with the node.
 *
 *     replica_begin
 *     replica_round until it stepped
 *     replica_update */
#ifndef NODE_REPLICA_H
#define NODE_REPLICA_H

#include "mesh/core/gossip/gossip.h"
#include "node/train/work.h"

struct replica {
    struct state *state, *next; /* of the same job; `next` is scratch. Borrowed, as all here */
    struct work *work;
    struct pool *pool;
    float *before; /* [parameters] of `state` when the step began */
    bool async;    /* mesh.sync */
};

/* The values that a node with this state begins with. */
void replica_values(const struct state *state, int32_t *out);
/* The state goes to the step that the task is, with these values. */
void replica_begin(const struct replica *replica, const struct core_task *task,
                   const int32_t *values);
/* The shards that it computes for a task. */
uint64_t replica_shards(const struct replica *replica, const struct core_task *task);
/* One round of the state machine on this node alone: a step, a repeat with larger exponents, or an evaluation. `own`: a
 * vector of `work`; `ready` as in work_round. Returns the hash of the state after it. */
uint64_t replica_round(const struct replica *replica, uint64_t shards, int32_t *own,
                       struct state_event *event, void (*ready)(void *ctx, size_t bucket),
                       void *ctx);
/* The state has these values, before this step; all else stays. */
void replica_show(struct state *state, const int32_t *values, uint64_t step);
/* Of the parameters. Never 0. */
uint64_t replica_hash(const struct state *state);
/* What changed since replica_begin. False: parameters are not finite now, and nothing changes. */
bool replica_update(const struct replica *replica, int32_t *out);
/* The same on all nodes: the result is the state behind the last step, with a new optimizer. */
void replica_result(struct state *state, const int32_t *values);

#endif

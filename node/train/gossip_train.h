/* gossip_train.h - the trainer of a replica (mesh.topology: gossip).
 *
 * A step is F of state.h on this node's own replica, with the shards that the plan gives it: the sum of their gradients
 * stands for that of all shards, in proportion to the samples. What F changes goes to the mesh as whole numbers, in units
 * of 2^-24, and so do the values at the beginning. The state's parameters are only a copy of what the mesh holds. Slots
 * of the optimiser and exponents stay with the node. Evaluations are each node's own. The result is the exact mean of all
 * replicas, evaluated once more. */
#ifndef NODE_GOSSIP_TRAIN_H
#define NODE_GOSSIP_TRAIN_H

#include "mesh/core/gossip.h"
#include "node/train/train_internal.h"

/* Does the job gossip? */
bool gossip_train_is(const struct config *config);
struct gossip_config gossip_train_config(const struct run *run);
/* The values that this node begins with. */
void gossip_train_begin(struct run *run);
/* MESH_REPLICA: one step. */
void gossip_train_step(struct run *run, const struct mesh_task *task);
/* MESH_RESULT: the mean of all replicas is the model. */
void gossip_train_finish(struct run *run);

#endif

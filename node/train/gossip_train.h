/* gossip_train.h - the trainer of a replica (mesh.topology: gossip); replica.h has what it computes.
 *
 * The state's parameters are only a copy of what the mesh holds. The result is the exact mean of all replicas.
 * scores.h has the evaluations. What happens to the values goes into the journal of the run's folder
 * (gossip_journal.h), from which meshnode verify --replay can compute the run again. */
#ifndef NODE_GOSSIP_TRAIN_H
#define NODE_GOSSIP_TRAIN_H

#include "mesh/core/gossip/gossip.h"
#include "node/train/train_internal.h"

/* Does the job gossip? */
bool gossip_train_is(const struct config *config);
/* After work and states. Sets run->gossip. Returns 0 or -ENOMEM. */
int gossip_train_open(struct run *run);
/* What a checkpoint has beside the state, the section "gossip":
 *
 *     snapshot, u64, 0: after the last step | step of this node, u64 | shards computed by the mesh, u64
 *     starts of nodes of which this one knows [GOSSIP_STARTS + 1]: id, incarnation and shards computed, u64; or zeros
 *     weights of the parts, int64 | values, int64
 *
 * Little-endian. Parameters of the state are the values, with push-sum by weight; slots and exponents are this node's. */
void *gossip_train_more(struct run *run, size_t *size);
/* The state and `more` were read from a checkpoint: begin with them. False: `more` cannot be. */
bool gossip_train_resume(struct run *run);
void gossip_train_close(struct run *run);
/* For mesh_setup; borrowed. */
const struct gossip_config *gossip_train_config(struct run *run);
/* mesh_own() gets the values that this node begins with. */
void gossip_train_values(struct run *run);
/* The user wants the node to end. True: not yet, as a checkpoint is being made; MESH_INTERRUPTED comes again. */
bool gossip_train_ends_later(struct run *run);
/* MESH_COMPUTE: one step. True: this node is to stop, as its gradients are not finite any more. */
bool gossip_train_step(struct run *run, const struct mesh_task *task);
/* MESH_COMMIT: the mean of all replicas is the model. */
void gossip_train_finish(struct run *run, const struct mesh_task *task);

#endif

/* push_train.h - the trainer of a run in a free mode: mesh.sync ssp, softsync or async. mesh/core/push/push.h has the idea,
 * push_ranges.h the arithmetic.
 *
 *     run.state    what this node's worker computes from; in the end the model
 *     run.next     what it holds as owner and backup
 *
 * What it does goes into the journal of the run's folder, as push_journal.h says. */
#ifndef NODE_PUSH_TRAIN_H
#define NODE_PUSH_TRAIN_H

#include "node/train/train_internal.h"

/* After the state and before checkpoints and mesh. Sets run->push. Returns 0 or a negative errno with `why`. */
int push_train_open(struct run *run, struct why *why);
/* What a checkpoint has beside the state, the section "push":
 *
 *     tickets, u64: all below are done, and no others | for each range how many gradients it has taken, u64 | for each
 *     range their history, u64 | softsync: sum of the present update [parameters, float]
 *
 * Little-endian. The state is that after tickets / train.shards steps, the same bits on all nodes. */
void *push_train_more(struct run *run, size_t *size);
/* The state and `more` were read from a checkpoint: begin with them. False: `more` cannot be. */
bool push_train_resume(struct run *run);
void push_train_close(struct run *run);
/* For mesh_setup; borrowed. */
const struct push_config *push_train_config(const struct run *run);
/* The loop of the run, until it is done or interrupted. */
enum mesh_task_kind push_train_follow(struct run *run);
/* Interrupted: is run->state, and what is beside it, to be saved? Else it is nothing that fits together. */
bool push_train_saved(const struct run *run);

#endif

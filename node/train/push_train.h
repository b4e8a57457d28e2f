/* push_train.h - the trainer of a run in a free mode: mesh.sync ssp, softsync or async. mesh/core/push.h has the idea,
 * push_ranges.h the arithmetic.
 *
 *     run.state    what this node's worker computes from; in the end the model
 *     run.next     what it holds as owner and backup
 *
 * What it does goes into the journal of the run's folder (node/results/journal.h), from which meshnode verify --replay
 * can compute the run again:
 *
 *     PUSH_NOTE_COMPUTED   u64 number, ticket, then for each range the history of what was read
 *     PUSH_NOTE_TAKEN      u64 range, ticket, number, who's id and incarnation, count, tau, updates, history before
 *     PUSH_NOTE_RESTORED   u64 range, history before and after: what was read last begins with a new optimiser
 *     PUSH_NOTE_FINAL      u64 for each range: the history of the model */
#ifndef NODE_PUSH_TRAIN_H
#define NODE_PUSH_TRAIN_H

#include "node/train/train_internal.h"

enum {
    PUSH_NOTE_COMPUTED = 2,
    PUSH_NOTE_TAKEN,
    PUSH_NOTE_RESTORED,
    PUSH_NOTE_FINAL,
    PUSH_NOTE_WORDS = 9, /* of PUSH_NOTE_TAKEN */
};

/* After the state and before the mesh. Sets run->push. Returns 0 or a negative errno with `why`. */
int push_train_open(struct run *run, struct why *why);
void push_train_close(struct run *run);
/* For mesh_setup; borrowed. */
const struct push_config *push_train_config(const struct run *run);
/* The journal begins, as the mesh has given this node its id. Returns 0 or a negative errno with `why`. */
int push_train_begin(struct run *run, struct why *why);
/* The loop of the run, until it is done or interrupted. */
enum mesh_task_kind push_train_follow(struct run *run);

#endif

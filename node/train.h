/* train.h - the run as a pure function, driven by the mesh.
 *
 * state(t+1) = F(state(t), sum over shards): see ../README.md. train_run owns state, passes and worker
 * threads; it asks the mesh what to do, computes shards layer by layer, hands over buckets as they are
 * complete, applies committed sums, evaluates, and writes metrics, checkpoints and results. */
#ifndef NODE_TRAIN_H
#define NODE_TRAIN_H

#include "node/config.h"

/* Where a run begins. A folder whose run was killed or interrupted goes on by itself, so that a restarted
 * container needs no option; one whose run has ended begins anew. One with an unfinished run of another job is refused
 * unless it is to be TRAIN_FRESH. */
enum train_start {
    TRAIN_AUTO,
    TRAIN_RESUME, /* from the newest checkpoint, even after the end */
    TRAIN_FRESH,  /* at step 0, whatever is there */
};

/* Run the job to its end. Returns the exit status: 0 done, 1 failed, 2 bad config or data, 130 interrupted.
 * Prints its own messages. */
int train_run(struct config *config, enum train_start start);
/* Stop at the next safe point; async-signal-safe. False: no run has begun, there is nothing to save. */
bool train_interrupt(void);

/* Loss and accuracy of `model_path` on the test part. Exit status as above. */
int train_eval(struct config *config, const char *model_path);
/* Layers, parameter counts, memory, cost per step. Exit status as above. */
int train_check(struct config *config);

#endif

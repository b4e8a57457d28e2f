/* train.h - a run: it owns the state, the passes and the worker threads, asks the mesh what to do, has its way (way.h)
 * do it, and writes metrics, checkpoints and results. */
#ifndef NODE_TRAIN_H
#define NODE_TRAIN_H

#include "node/job/config.h"

/* Where a run begins. In a folder whose run was killed or interrupted it goes on by itself, so a restarted
 * container needs no option. In a folder whose run has ended it begins again. A folder with an unfinished run of
 * another job is refused, except with TRAIN_FRESH. */
enum train_start {
    TRAIN_AUTO,
    TRAIN_RESUME, /* from the newest checkpoint, even after the end */
    TRAIN_FRESH,  /* at step 0, whatever the folder has */
};

/* Runs the job to its end. Returns the exit status: 0 done, 1 failed, 2 bad config or data, 130 interrupted. Prints
 * its own messages. */
int train_run(struct config *config, enum train_start start);
/* Stops at the next safe point; async-signal-safe. False: no run has begun, so there is nothing to save. */
bool train_interrupt(void);

#endif

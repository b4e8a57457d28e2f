/* replay.h - computes a run again whose result the timing decided, from its job and the journals of its nodes
 * (replay_gossip.h).
 *
 * Every folder has job.json, whose "text" is the job, and a journal; those of nodes that died belong to the run as
 * well. */
#ifndef NODE_REPLAY_H
#define NODE_REPLAY_H

#include "node/commands/verify_folders.h"
#include "node/job/config.h"

/* Replays the run of these folders, which are of one job: this one. Prints findings and a verdict. Returns 0 when the
 * result is proved, 1 when not, 2 when something needed is not there. */
int replay_run(struct verify_folders *folders, const struct config *config);

#endif

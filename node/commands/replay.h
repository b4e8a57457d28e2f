/* replay.h - computes a run again whose result the timing decided, from its job and the journals of its nodes: a run of
 * the way push as follows, one of the way gossip as in replay_gossip.h.
 *
 * Every folder has job.json, whose "text" is the job, and a journal; those of nodes that died belong to the run as
 * well. A folder with result.json is of a node that had the final model: its journal has the history of each range.
 * From there the records lead back to the first parameters, and forwards again: each gradient that the model took is
 * computed from what its worker had read, and applied in the order in which its range took it. Then the SHA-256 of the
 * parameters must be the one in result.json. It also says whether each ticket is in each range once, and how
 * old the values were that gradients came from (replay_staleness.h). One machine, one node, the memory of
 * a run and one model for each node that trained. */
#ifndef NODE_REPLAY_H
#define NODE_REPLAY_H

#include "node/commands/verify_folders.h"
#include "node/job/config.h"

/* Replays the run of these folders, which are of one job: this one. Prints findings and a verdict. Returns 0 when the
 * result is proved, 1 when not, 2 when something needed is not there. */
int replay_run(struct verify_folders *folders, const struct config *config);

#endif

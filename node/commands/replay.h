/* replay.h - computes a run again whose result the timing decided, that of mesh.topology gossip, from its job and the
 * journals of its nodes.
 *
 * Every folder has job.json, whose "text" is the job, and a journal; those of nodes that died belong to the run as
 * well. The events of all nodes are done again, each as soon as what it needs is there: a flow when both ends' values
 * are known, a flow or a copy that came when the other node has made it, an update from the values that its node had
 * read. So every node comes to the values that it had, and the SHA-256 of what it ended with must be the one in its
 * result.json. One machine; the memory of a replica for each start of a node that is not over, and one of the
 * journals. */
#ifndef NODE_REPLAY_H
#define NODE_REPLAY_H

#include "node/commands/verify_folders.h"
#include "node/job/config.h"

/* Replays the run of these folders, which are of one job: this one. Prints findings and a verdict. Returns 0 when the
 * result is proved, 1 when not, 2 when something needed is not there. */
int replay_run(struct verify_folders *folders, const struct config *config);

#endif

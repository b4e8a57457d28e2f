/* replay_gossip.h - computes a run of mesh.topology gossip again, from its job and the journals of its nodes.
 *
 * The events of all nodes are done again, each as soon as what it needs is there: a flow when both ends' values are
 * known, a flow or a copy that came when the other node has made it, an update from the values that its node had read.
 * So every node comes to the values that it had, and the SHA-256 of what it ended with must be the one in its
 * result.json. One machine; the memory of a replica for each start of a node that is not over, and one of the
 * journals. */
#ifndef NODE_REPLAY_GOSSIP_H
#define NODE_REPLAY_GOSSIP_H

#include "node/commands/verify_folders.h"
#include "node/job/config.h"

/* As replay_run. */
int replay_gossip_run(struct verify_folders *folders, const struct config *config);

#endif

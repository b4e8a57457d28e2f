/* gossip_wait.h - members that stay connected and do not answer are left out. */
#ifndef MESH_GOSSIP_WAIT_H
#define MESH_GOSSIP_WAIT_H

#include "mesh/core/gossip/gossip_link.h"

enum {
    GOSSIP_PATIENCE_US = 400000, /* a member that owes something is silent for so long: it is left
                                  * out, */
    GOSSIP_SLOW_MAX = 7, /* or, if it did answer later, for so many times twice as long, at most */
    GOSSIP_OUT_US = 1000000,      /* first for so long, */
    GOSSIP_OUT_MAX_US = 60000000, /* then for twice the time, and so on */
};

/* Looks who owes something for too long. */
void gossip_wait_tick(struct gossip_links *links, const struct core *core);
/* Does this node leave out `node` now? */
bool gossip_wait_out(const struct core *core, struct proto_node node);
/* Who cannot be in a plan, by what all say: bit i is peers[i], bit PEERS_MAX this node. */
uint64_t gossip_wait_left_out(const struct core *core);

#endif

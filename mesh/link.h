/* link.h - the control connections that this node opens: who uses which, and by which number it is known.
 *
 * A pair of nodes has one control connection in each direction: we send on the link that we opened and hear the peer
 * on the one that it opened. A link is opened for one of three:
 *
 *     LINK_PEER  a node that we know (peers.h)
 *     LINK_SEED  an endpoint whose node we do not know yet (rendezvous.h)
 *     LINK_AWAY  a newcomer for whom there is no room (admit.h)
 *
 * Addresses wander from node to node (DHCP, containers), and a link may lead to another node than the one it was
 * opened for. So each link has a number, which our HELLO on it carries, and only a HELLO of that node that
 * answers this very number makes a session of it. */
#ifndef MESH_LINK_H
#define MESH_LINK_H

#include "mesh/core.h"

enum {
    LINK_MAX = 2 * PROTO_PEERS_MAX,
    LINK_CONNECT_US = 2000000, /* one that is not up by then is closed */
    LINK_RETRY_US = 50000,     /* before connecting again, doubled each time */
    LINK_RETRY_MAX_US = 400000,
};

enum link_use { LINK_FREE, LINK_PEER, LINK_SEED, LINK_AWAY };

struct link_table {
    struct {
        enum link_use use;
        int index; /* of the peer or seed */
    } links[LINK_MAX];
    unsigned next;   /* links are reused as late as possible */
    uint32_t number; /* of the newest link */
};

void link_init(struct core *core);
/* The link to `at`, or -1 when there is none left. */
int link_open(struct core *core, enum link_use use, int index, const struct proto_endpoint *at);
void link_close(struct core *core, int link);
/* The same of one whose peer was announced with ops->peer_up. */
void link_close_announced(struct core *core, int link, struct proto_node node);
/* For a new link. Never 0, and not that of any link of the last four thousand million, nor, most likely, of one of
 * this node before it was started again: an answer to that may still come. */
uint32_t link_number(struct core *core);
/* HELLO on `link`: it asks with the number `asks` and answers `answers`, each 0 when it does not. */
void link_hello(struct core *core, int link, uint32_t asks, uint32_t answers);
/* How long to wait after the next failure, when it was `us` after this one. */
uint64_t link_retry_next(uint64_t us);
/* The shell says so; whoever uses the link is told. */
void link_up(struct core *core, unsigned link);
void link_down(struct core *core, unsigned link);

#endif

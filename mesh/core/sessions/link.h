/* link.h - the control connections that this node opens: what each is for, and its number.
 *
 * A pair of nodes has one control connection in each direction. We send on the link that we opened, and hear the
 * peer on the link that it opened. A link is for one of three:
 *
 *     LINK_PEER  a node that we know (peers.h)
 *     LINK_SEED  an endpoint whose node we do not know yet (rendezvous.h)
 *     LINK_AWAY  a newcomer for which there is no room (admit.h)
 *
 * Addresses move from node to node (DHCP, containers), and a link may lead to another node than we expected. So
 * each link has a number. Our HELLO on the link has that number, and a session begins only when that node answers
 * this number. */
#ifndef MESH_LINK_H
#define MESH_LINK_H

#include <string.h>

#include "mesh/core/core.h"

enum {
    LINK_MAX = 2 * PROTO_PEERS_MAX,
    LINK_CONNECT_US = 2000000, /* a link that is not up after this time is closed */
    LINK_RETRY_US = 50000,     /* time before connecting again, doubled each time */
    LINK_RETRY_MAX_US = 400000,
};

enum link_use { LINK_FREE, LINK_PEER, LINK_SEED, LINK_AWAY };

struct link_table {
    struct {
        enum link_use use;
        int index; /* index of the peer or seed */
    } links[LINK_MAX];
    unsigned next;   /* next link to use; a link is reused as late as possible */
    uint32_t number; /* number of the newest link */
};

void link_init(struct link_table *table, const struct core *core);
/* Opens a link to `at`; -1 when none is left. */
int link_open(struct link_table *table, const struct core *core, enum link_use use, int index,
              const struct proto_endpoint *at);
void link_close(struct link_table *table, const struct core *core, int link);
/* The same for a link whose peer was announced with wire->peer_up. */
void link_close_announced(struct link_table *table, const struct core *core, int link);
/* A number for a new link. Never 0, different from the numbers of the last four thousand million links, and most
 * likely different from those of this node before its restart: an answer to such a number may still arrive. */
uint32_t link_number(struct link_table *table);
/* Sends HELLO on `link`. It asks with the number `asks` and answers `answers`; 0: does not ask, does not answer. */
void link_hello(const struct core *core, int link, uint32_t asks, uint32_t answers);

/* The same place on the network? */
static inline bool
link_endpoint_equal(const struct proto_endpoint *a, const struct proto_endpoint *b)
{
    return a->control_port == b->control_port && strcmp(a->host, b->host) == 0;
}

#endif

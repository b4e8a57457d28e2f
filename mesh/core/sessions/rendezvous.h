/* rendezvous.h - how nodes learn of one another: endpoints to try, and lists of endpoints.
 *
 * A *seed* is an endpoint whose node is not yet known: the user named it, or a peer listed it. A link to a seed is
 * only for a HELLO. The node there answers by connecting to us, and then we open the peer's link to the address
 * that we see.
 *
 *            named                 retry_at, no session with its node yet
 *     FREE --------> WAITING -------------------------------------------> TRIED (a link)
 *       ^             |   ^                                                  |
 *       +-------------+   +------ its node has answered, failed, too late ---+
 *        a session with its node, or tried RENDEZVOUS_TRIES times; never when the user named it
 *
 * Every RENDEZVOUS_LIST_US, more rarely in a crowd, and when a session begins, a node tells its peers the endpoints of
 * all others. So a node that knows one node soon knows all. Beacons cause connections only at a bounded rate. */
#ifndef MESH_RENDEZVOUS_H
#define MESH_RENDEZVOUS_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"

enum {
    RENDEZVOUS_SEEDS_MAX = PROTO_PEERS_MAX, /* further endpoints are ignored */
    RENDEZVOUS_TRIES = 4,                   /* attempts for an endpoint that only a peer listed */
    RENDEZVOUS_PATIENCE_US = 5000000, /* a named endpoint that is silent for so long is logged */
    RENDEZVOUS_LIST_US = 2000000,     /* time between two lists of endpoints */
    RENDEZVOUS_HERE_US = 2000000,     /* a named endpoint that leads back here is tried again */
    /* each beacon with news costs a connection: one per this time is accepted, */
    RENDEZVOUS_NEWS_US = 30000,
    RENDEZVOUS_NEWS_MAX = 64, /* after this many at once */
};

struct rendezvous_seed {
    bool used;
    bool forever; /* the user named it: it is tried for ever */
    struct proto_endpoint at;
    int link; /* -1: none */
    bool link_up;
    uint32_t number; /* number of its newest link */
    unsigned tries;
    struct proto_node node; /* the node that answered last; id 0: none yet */
    struct wall since;
    struct wall retry_at;
    uint64_t retry_us;
    /* Of one that the user named: */
    struct awake alone_at; /* first tried, or first reached */
    bool reached;          /* a link to it was up */
    bool met;              /* there was a session with its node */
    bool said;             /* that there was none for RENDEZVOUS_PATIENCE_US, */
    bool said_reached;     /* though a link to it was up */
};

struct rendezvous {
    struct rendezvous_seed seeds[RENDEZVOUS_SEEDS_MAX];
    int high; /* seeds from here on were never used */
    /* when the accepted news, one per RENDEZVOUS_NEWS_US, will be used up */
    struct wall news_until;
    struct wall list_at;
    struct proto_endpoint list[PROTO_PEERS_MAX];
};

struct link_table;

void rendezvous_init(struct rendezvous *all, const struct core *core);
void rendezvous_add(struct rendezvous *all, const struct core *core,
                    const struct proto_endpoint *at, bool forever);
/* May one more beacon with news cause a connection? */
bool rendezvous_believes(struct rendezvous *all, const struct core *core);
/* The seed whose link has been up for the longest time: its HELLO is answered first. NULL: none. */
const struct rendezvous_seed *rendezvous_oldest(const struct rendezvous *all);
/* The link with this number leads to `from`. */
void rendezvous_answered(struct rendezvous *all, struct link_table *links, const struct core *core,
                         struct proto_node from, uint32_t number);
/* The link of seed `s` is up; it broke. */
void rendezvous_link_up(struct rendezvous *all, const struct core *core, int s);
void rendezvous_link_down(struct rendezvous *all, struct link_table *links, const struct core *core,
                          int s);
/* Tells peers[to] the endpoints of all nodes that we have a session with. */
void rendezvous_tell(struct rendezvous *all, const struct core *core, int to);
void rendezvous_tell_tick(struct rendezvous *all, const struct core *core);
void rendezvous_tick(struct rendezvous *all, struct link_table *links, const struct core *core);

#endif

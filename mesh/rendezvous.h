/* rendezvous.h - how nodes come to know of one another: endpoints to try, and lists of them.
 *
 * A *seed* is an endpoint whose node we do not know yet: named by the user, or by a peer in its list. It gets a link
 * of its own only to say HELLO; its node answers by connecting to us, and we then open the peer's link to the
 * address seen.
 *
 *            named                 retry_at, no session with its node yet
 *     FREE --------> WAITING -------------------------------------------> TRIED (a link)
 *       ^             |   ^                                                  |
 *       +-------------+   +------ its node has answered, failed, too late ---+
 *        a session with its node, or tried RENDEZVOUS_TRIES times; never when the user named it
 *
 * Every RENDEZVOUS_LIST_US, and when a session begins, a peer is told the endpoints of all others: who knows one node
 * soon knows all. What beacons say is believed at a bounded rate. */
#ifndef MESH_RENDEZVOUS_H
#define MESH_RENDEZVOUS_H

#include "mesh/core.h"

enum {
    RENDEZVOUS_SEEDS_MAX = PROTO_PEERS_MAX, /* then further endpoints are ignored */
    RENDEZVOUS_TRIES = 4,                   /* of an endpoint that only a peer told us */
    RENDEZVOUS_LIST_US = 2000000,           /* between two lists of endpoints */
    RENDEZVOUS_NEWS_US =
        30000, /* beacons with news cost a connection each: one in so long is believed, */
    RENDEZVOUS_NEWS_MAX = 64, /* after so many at once */
};

struct rendezvous_seed {
    bool used;
    bool forever; /* named by the user: tried again and again */
    struct proto_endpoint at;
    int link; /* -1 none */
    bool link_up;
    uint32_t number; /* of its newest link */
    unsigned tries;
    struct proto_node node; /* who answered; id 0 nobody yet */
    uint64_t since_us;
    uint64_t retry_at_us;
    uint64_t retry_us;
};

struct rendezvous {
    struct rendezvous_seed seeds[RENDEZVOUS_SEEDS_MAX];
    int high; /* no seed from here on was ever used */
    uint64_t
        news_us; /* the news believed so far, one in RENDEZVOUS_NEWS_US, would last until then */
    uint64_t list_at_us;
    struct proto_endpoint list[PROTO_PEERS_MAX];
};

void rendezvous_init(struct core *core);
void rendezvous_add(struct core *core, const struct proto_endpoint *at, bool forever);
/* May one more beacon with news cost us a connection? */
bool rendezvous_believes(struct core *core);
/* The seed whose link has been up for longest: its HELLO is answered first. NULL none. */
const struct rendezvous_seed *rendezvous_oldest(const struct core *core);
/* The link with this number leads to `from`. */
void rendezvous_answered(struct core *core, struct proto_node from, uint32_t number);
void rendezvous_link_up(struct core *core, int s);
void rendezvous_link_down(struct core *core, int s);
/* Tell peers[to] the endpoints of everybody we have a session with. */
void rendezvous_tell(struct core *core, int to);
void rendezvous_tell_tick(struct core *core);
void rendezvous_tick(struct core *core);

#endif

/* peers.h - who is there: the life of a peer, from the first sign of it to the end of its session.
 *
 *            found, HELLO            link up            it answers HELLO
 *     FREE -------------> KNOWN/CONNECTING ---> GREETING ----------------> UP
 *       ^                     ^   |                |                        |
 *       | not found for long  |   v other run      v                        | link down, silence,
 *       +---------------------+  REFUSED <---------+                        | BYE, new incarnation
 *                             +---------------------------------------------+
 *
 * A node that is started again has another id, and often the same address: who has no session is forgotten
 * when one that was found later has its endpoint.
 *
 * Where the endpoints come from is told in rendezvous.h, what a link is in link.h, who is refused in admit.h, and what
 * silence means in heartbeat.h. A peer is *usable* when it is up, not suspected, and says in its heartbeats that it
 * hears us, too. */
#ifndef MESH_PEERS_H
#define MESH_PEERS_H

#include "mesh/core.h"

enum {
    PEERS_MAX = PROTO_PEERS_MAX - 1, /* others; one bit each in struct peer.hears */
    PEERS_BEACON_US =
        200000, /* found anew, or elsewhere: tried at once when the last attempt is that old */
    PEERS_HELLO_US = 300000,   /* HELLO is repeated until answered */
    PEERS_STALE_US = 60000000, /* a node neither found nor reached for so long is forgotten */
    PEERS_SPEED_MAX = 2000000000,
};

enum peer_state {
    PEER_FREE,
    PEER_KNOWN,      /* no link; connect at retry_at */
    PEER_CONNECTING, /* link opened */
    PEER_GREETING,   /* link up, HELLO sent */
    PEER_UP,         /* a session */
    PEER_REFUSED,    /* of another run; its link, if any, only carries our REFUSE */
};

struct peer {
    enum peer_state state;
    struct proto_node node;
    struct proto_endpoint at;
    int link; /* -1 none */
    bool link_up;
    uint32_t number; /* of its newest link */
    bool announced;  /* ops->peer_up was called */
    bool greeted;    /* `hello` is what it said in this incarnation */
    struct proto_hello hello;
    struct proto_refuse refuse; /* to be sent, when reason != 0 */
    uint64_t refused;           /* incarnation that was logged as refused */
    uint64_t since_us;          /* link opened, HELLO sent, REFUSE sent */
    uint64_t retry_at_us;
    uint64_t retry_us;
    uint64_t found_at_us;

    uint64_t heard_at_us; /* awake */
    bool suspected;
    bool hears_me;
    uint64_t hears; /* bit i: it hears peers[i] */
    uint64_t round;
    uint64_t moved_at_us; /* awake; `round` was another before */
    uint64_t pace_us;     /* of its last rounds, 0 unknown; measured since */
    uint64_t pace_at_us;  /* now, when it was */
    uint64_t pace_round;  /* at this one */
    bool idle;
    bool ready; /* it follows the mesh and can be let in */
    bool done;
    uint64_t have;
    uint64_t state_hash;
    bool odd;            /* its state is wrong as far as we know, that before */
    uint64_t odd_round;  /* this round, and it has not gone back since: see doubt.h */
    uint64_t outvoted;   /* + 1; the last round in which it was the odd one */
    uint64_t tied_round; /* the last in which it was its word against ours, */
    unsigned ties;       /* and how often, */
    bool tied;           /* and it has not gone back since; */
    unsigned disputes;   /* how often as many nodes had its state of long ago as ours */
    bool apart;          /* it was once too often */
    uint32_t speed;
    uint64_t busy_us;
    bool stuck;
    bool aside; /* it says that it was left out: pace.h */
    uint32_t apply_us;
    uint32_t lag_us[PROTO_PEERS_MAX]; /* of chunks from peers[j] to it; the last from us */
    uint64_t told_at_us;              /* awake; that it is left out */
    bool trial;                       /* it was left out and has come back */
    unsigned courts;                  /* plans held for it in vain */

    uint64_t behind_at_us;          /* awake; since when it rests behind us, 0 it does not */
    uint64_t court_at_us;           /* awake; no plan is held for it before */
    uint64_t court_us;              /* back-off, doubled each time it did not get in */
    uint64_t chase_at_us, chase_us; /* the same, of standing still for it in short rounds */
    uint64_t served_at_us;          /* awake; a block of state went to it */
    uint64_t served_block;
    uint64_t avoid_at_us; /* awake; no state is fetched from it before */
};

struct peers {
    struct peer peers[PEERS_MAX];
    int high; /* no entry from here on was ever used */
    uint64_t beat_at_us;
    uint64_t newest_at_us; /* awake; the last session began */
};

void peers_init(struct core *core);
void peers_tick(struct core *core);
void peers_found(struct core *core, const struct proto_endpoint *at, struct proto_node node,
                 bool forever);
void peers_link_up(struct core *core, int i);
void peers_link_down(struct core *core, int i);
void peers_hello(struct core *core, struct proto_node from, const char *host,
                 const struct proto_hello *hello);
void peers_bye(struct core *core, int i);

/* A new entry, or -1 when there is no slot left. */
int peers_add(struct core *core, struct proto_node node, const struct proto_endpoint *at);
/* Open a link to where peers[i] was seen last. */
void peers_connect(struct core *core, int i);
/* Index of the entry of this node, or -1. */
int peers_by_id(const struct core *core, uint64_t id);
/* Index of the session with exactly this incarnation, or -1. */
int peers_find(const struct core *core, struct proto_node node);
bool peers_usable(const struct core *core, int i);
/* Do a and b hear one another, as far as they told us? */
bool peers_mutual(const struct core *core, int a, int b);
/* End the session with peers[i], or what there is of one: link closed, plan aborted when it is a member. */
void peers_drop(struct core *core, int i, const char *why);
/* Send to peers[i] on the control link; nothing happens without a session. */
void peers_send(struct core *core, int i, const struct proto_msg *msg);
void peers_send_all(struct core *core, const struct proto_msg *msg);

#endif

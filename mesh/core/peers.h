/* peers.h - which other nodes there are: a peer from its discovery to the end of its session.
 *
 *            found, HELLO            link up            it answers HELLO
 *     FREE -------------> KNOWN/CONNECTING ---> GREETING ----------------> UP
 *       ^                     ^   |                |                        |
 *       | not found for long  |   v other run      v                        | link down, silence,
 *       +---------------------+  REFUSED <---------+                        | BYE, new incarnation
 *                             +---------------------------------------------+
 *
 * A restarted node has another id and often the same address. So when a new node is found at the address of a peer
 * that has no session, the old entry is deleted.
 *
 * rendezvous.h says where endpoints come from, link.h what a link is, admit.h which nodes are refused, heartbeat.h
 * what silence means. A peer is *usable* when it is up, is not suspected, and says in its heartbeats that it hears
 * us, too. */
#ifndef MESH_PEERS_H
#define MESH_PEERS_H

#include "mesh/core/core.h"
#include "mesh/core/report.h"

enum {
    PEERS_MAX = PROTO_PEERS_MAX - 1, /* other nodes; each is one bit of struct peer.hears */
    /* a node that is found again, or elsewhere, is tried at once when the last attempt is this old */
    PEERS_BEACON_US = 200000,
    PEERS_HELLO_US = 300000, /* HELLO is repeated after this time until it is answered */
    /* a node that was neither found nor reached for this long is deleted */
    PEERS_STALE_US = 60000000,
    PEERS_SPEED_MAX = 2000000000,
};

enum peer_state {
    PEER_FREE,
    PEER_KNOWN,      /* no link; connect at retry_at_us */
    PEER_CONNECTING, /* link opened */
    PEER_GREETING,   /* link up, HELLO sent */
    PEER_UP,         /* there is a session */
    /* it has another run or job; its link, if there is one, only carries our REFUSE */
    PEER_REFUSED,
};

struct peer {
    enum peer_state state;
    struct proto_node node;
    struct proto_endpoint at;
    int link; /* -1: none */
    bool link_up;
    uint32_t number; /* number of its newest link */
    bool announced;  /* ops->peer_up was called */
    bool greeted;    /* `hello` is from this incarnation */
    struct proto_hello hello;
    struct proto_refuse refuse; /* what to send to it, when reason != 0 */
    bool unsaid;                /* it is refused for its job, and no line was printed yet */
    uint64_t since_us;          /* when the link was opened, or HELLO or REFUSE was sent */
    uint64_t retry_at_us;
    uint64_t retry_us;
    uint64_t found_at_us;
};

struct peers {
    struct peer peers[PEERS_MAX];
    int high;              /* entries from here on were never used */
    uint64_t newest_at_us; /* awake; when the last session began */
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

/* Makes a new entry and returns its index, or -1 when all slots are in use. */
int peers_add(struct core *core, struct proto_node node, const struct proto_endpoint *at);
/* Opens a link to the address where peers[i] was seen last. */
void peers_connect(struct core *core, int i);
/* Index of the node with this id, or -1. */
int peers_by_id(const struct core *core, uint64_t id);
/* Index of the session with exactly this incarnation, or -1. */
int peers_find(const struct core *core, struct proto_node node);
bool peers_usable(const struct core *core, int i);
/* Do a and b hear each other, by their own last heartbeats? */
bool peers_mutual(const struct core *core, int a, int b);
/* Ends the session with peers[i], or the attempt to get one: closes the link, aborts the plan if it is a member. `end`
 * is for people (report.h), `why` for debugging. */
void peers_drop(struct core *core, int i, enum report_end end, const char *why);
/* Sends to peers[i] on the control link. Does nothing without a session. */
void peers_send(const struct core *core, int i, const struct proto_msg *msg);
void peers_send_all(const struct core *core, const struct proto_msg *msg);

#endif

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
 * rendezvous.h says where endpoints come from, link.h what a link is, admit.h which nodes are refused, contact.h and
 * report.h what people are told. heartbeat.h says what silence means, and what a peer said.
 *
 * Sessions call none of the parts that use them. What happened to them is *news*: core.c takes it after each call, and
 * tells the parts. */
#ifndef MESH_PEERS_H
#define MESH_PEERS_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/admit.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/contact.h"
#include "mesh/core/sessions/link.h"
#include "mesh/core/sessions/rendezvous.h"
#include "mesh/core/sessions/report.h"

enum {
    PEERS_MAX = PROTO_PEERS_MAX - 1, /* other nodes; each is one bit of struct heard.hears */
    /* a node that is found again, or elsewhere, is tried at once when the last attempt is this old */
    PEERS_BEACON_US = 200000,
    PEERS_HELLO_US = 300000, /* HELLO is repeated after this time until it is answered */
    /* a node that was neither found nor reached for this long is deleted */
    PEERS_STALE_US = 60000000,
    PEERS_SPEED_MAX = 2000000000,
};

enum peer_state {
    PEER_FREE,
    PEER_KNOWN,      /* no link; connect at retry_at */
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
    bool announced;  /* it takes part: both sides have a job */
    bool bulk;       /* wire->peer_up was called */
    bool greeted;    /* `hello` is from this incarnation */
    struct proto_hello hello;
    struct wall since; /* when the link was opened, or HELLO or REFUSE was sent */
    struct wall retry_at;
    uint64_t retry_us;
    struct wall found_at;
};

/* What happened to sessions; bit i: to that of peers[i]. In one event, it happens in this order. */
struct peers_news {
    uint64_t gone;              /* it ended, */
    const char *why[PEERS_MAX]; /* for this reason */
    uint64_t forgotten;         /* the slot is free, or another node's */
    uint64_t up;                /* it began */
};

struct peers {
    struct peer peers[PEERS_MAX];
    int high;               /* entries from here on were never used */
    struct awake newest_at; /* when the last session began */
    struct peers_news news;
    /* only peers.c and sessions.c change these */
    struct link_table links;
    struct rendezvous rendezvous;
    struct admit admit;
    struct contacts contacts;
    struct report report;
};

/* Makes a new entry and returns its index, or -1 when all slots are in use. */
int peers_add(struct peers *peers, const struct core *core, struct proto_node node,
              const struct proto_endpoint *at);
/* The same in slot i, which is free. */
void peers_begin(struct peers *peers, const struct core *core, int i, struct proto_node node,
                 const struct proto_endpoint *at);
/* Slot i, which has no session and no link, is free. */
void peers_forget(struct peers *peers, int i);
/* Opens a link to the address where peers[i] was seen last. */
void peers_connect(struct peers *peers, const struct core *core, int i);
/* Closes the link of peers[i], which has no session, if there is one. */
void peers_unlink(struct peers *peers, const struct core *core, int i);
void peers_retry_later(const struct core *core, struct peer *peer);

static inline struct peers_news
peers_take_news(struct peers *peers)
{
    struct peers_news news = peers->news;
    peers->news.gone = peers->news.forgotten = peers->news.up = 0;
    return news;
}

/* Index of the node with this id, or -1. */
int peers_by_id(const struct core *core, uint64_t id);
/* Index of the session with exactly this incarnation, or -1. */
int peers_find(const struct core *core, struct proto_node node);
/* Sends to peers[i] on the control link. Does nothing without a session. */
void peers_send(const struct core *core, int i, const struct proto_msg *msg);
/* Sends to peers[i], which is accepted, on its bulk socket; `body` is copied. */
void peers_send_bulk(const struct core *core, int i, const struct proto_msg *msg, const void *body,
                     size_t size);
void peers_send_all(const struct core *core, const struct proto_msg *msg);

#endif

/* peers.h - who is there: links, greetings, sessions, silence.
 *
 * A pair of nodes has one control connection in each direction: we send on the link that we opened and
 * hear the peer on the one that it opened. What happens to a peer:
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
 * A mesh has at most PROTO_PEERS_MAX nodes. Who comes when there is no slot left is told so on a link that is
 * used for nothing else, one newcomer after another; nobody loses a slot for it.
 *
 * Addresses wander from node to node (DHCP, containers), and a link may lead to another node than the one it was
 * opened for. So each link has a number, which our HELLO on it carries, and only a HELLO of that node that
 * answers this very number makes a session of it.
 *
 * A *seed* is an endpoint whose node we do not know yet. It gets a link of its own only to say HELLO;
 * its node answers by connecting to us, and we then open the peer's link to the address seen.
 *
 * Silence for CORE_SUSPECT_US makes a peer suspected, for CORE_FORGET_US ends its session. Both are
 * measured in core->awake, which stands still while this node itself does not run, and goes the slower the later its
 * ticks come: a node that was paused or is starved of CPU does not blame the others for it (Lifeguard). More than half
 * of the mesh is not suspected on silence before CORE_SPLIT_US: it is rather this node that hears nobody. Then it goes
 * on all the same, with whom it hears or alone, as it must on the smaller side of a split. A peer is *usable* when it is
 * up, not suspected, and says in its heartbeats that it hears us, too.
 *
 * A node whose heartbeats come may still hang: they say how long its trainer has not got on with what it was
 * asked for. One that is *stuck* for longer than a plan may be without progress is in no plan until its trainer
 * moves again. */
#ifndef MESH_PEERS_H
#define MESH_PEERS_H

#include "mesh/core.h"

enum {
    PEERS_MAX = PROTO_PEERS_MAX - 1, /* others; one bit each in struct peer.hears */
    PEERS_LINKS_MAX = 2 * PROTO_PEERS_MAX,
    PEERS_SEEDS_MAX = PROTO_PEERS_MAX, /* then further endpoints are ignored */
    PEERS_RETRY_US = 50000,            /* before connecting again, doubled each time */
    PEERS_RETRY_MAX_US = 400000,
    PEERS_BEACON_US =
        200000, /* found anew, or elsewhere: tried at once when the last attempt is that old */
    PEERS_CONNECT_US = 2000000,  /* a link that is not up by then is closed */
    PEERS_HELLO_US = 300000,     /* HELLO is repeated until answered */
    PEERS_EXCHANGE_US = 2000000, /* between two lists of endpoints */
    PEERS_REFUSED_US = 30000000, /* a refused incarnation is left alone for so long */
    PEERS_STALE_US = 60000000,   /* a node neither found nor reached for so long is forgotten */
    PEERS_SEED_TRIES = 4,        /* of an endpoint that only a peer told us */
    PEERS_HUSH_US = 125000, /* who missed two heartbeats counts when most of the mesh is silent */
    PEERS_NEWS_US =
        30000,           /* beacons with news cost a connection each: one in so long is believed, */
    PEERS_NEWS_MAX = 64, /* after so many at once */
    PEERS_FULL_US = 30000000, /* between two lines that say so, each way */
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

struct peers_seed {
    bool used;
    bool forever; /* named by the user, or not yet answered: tried again and again */
    struct proto_endpoint at;
    int link;
    bool link_up;
    uint32_t number;
    unsigned tries;
    struct proto_node node; /* who answered; id 0 nobody yet */
    uint64_t since_us;
    uint64_t retry_at_us;
    uint64_t retry_us;
};

/* The newcomer that is told that there is no room. */
struct peers_away {
    int link; /* -1 none */
    struct proto_node node;
    uint64_t since_us;
};

enum peers_link_use { PEERS_LINK_FREE, PEERS_LINK_PEER, PEERS_LINK_SEED, PEERS_LINK_AWAY };

struct peers {
    struct peer peers[PEERS_MAX];
    struct peers_seed seeds[PEERS_SEEDS_MAX];
    struct peers_away away;
    uint64_t full_at_us[2]; /* when it was last said: of this mesh, of another */
    int high, seed_high;    /* no entry from here on was ever used */
    struct {
        enum peers_link_use use;
        int index;
    } links[PEERS_LINKS_MAX];
    unsigned link_next; /* links are reused as late as possible */
    uint32_t number;    /* of the newest link */
    uint64_t beat_at_us;
    uint64_t news_us; /* the news believed so far, one in PEERS_NEWS_US, would last until then */
    uint64_t exchange_at_us;
    uint64_t newest_at_us; /* awake; the last session began */
    struct proto_endpoint list[PROTO_PEERS_MAX];
};

void peers_init(struct core *core);
void peers_tick(struct core *core);
void peers_found(struct core *core, const struct proto_endpoint *at, struct proto_node node,
                 bool forever);
void peers_link_up(struct core *core, unsigned link);
void peers_link_down(struct core *core, unsigned link);
void peers_hello(struct core *core, struct proto_node from, const char *host,
                 const struct proto_hello *hello);
/* Refuse an accepted peer from now on, for what it contributed. */
void peers_expel(struct core *core, int i);
void peers_refused(struct core *core, struct proto_node from, const char *host,
                   const struct proto_refuse *refuse);
void peers_heartbeat(struct core *core, int i, const struct proto_heartbeat *beat);
void peers_bye(struct core *core, int i);

/* Index of the session with exactly this incarnation, or -1. */
int peers_find(const struct core *core, struct proto_node node);
/* The peer said something. */
void peers_heard(struct core *core, int i);
bool peers_usable(const struct core *core, int i);
/* Do a and b hear one another, as far as they told us? */
bool peers_mutual(const struct core *core, int a, int b);
/* End the session with peers[i]: sockets closed, plan aborted when it is a member. */
void peers_drop(struct core *core, int i, const char *why);
/* Heartbeat to everybody, now. */
void peers_beat(struct core *core);
/* Send to peers[i] on the control link; nothing happens without a session. */
void peers_send(struct core *core, int i, const struct proto_msg *msg);
void peers_send_all(struct core *core, const struct proto_msg *msg);

#endif

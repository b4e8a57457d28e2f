/* heartbeat.h - which nodes are alive: heartbeats, and what follows when they do not come.
 *
 * Every CORE_HEARTBEAT_US, and when something changed that others wait for, a node tells all peers its round, for how
 * long its trainer has made no progress, and what its engine has to say. core.c calls these functions for what the wire
 * brings, and the engine for the heartbeat itself.
 *
 * Whom a node hears, it tells when that has changed. A heartbeat only names the hash of the list, so it has as many
 * bytes with 64 nodes as with 2. Who does not have the list asks for it.
 *
 * A peer that is silent for CORE_SUSPECT_US is suspected. After CORE_FORGET_US its session ends. Both times are
 * measured in core->awake. This clock stops while this node does not run, and runs slower when its ticks come late.
 * So a node that was paused or gets too little CPU does not blame the others (Lifeguard: Dadgar et al., DSN-W
 * 2018). When more than half of the mesh is silent, they are suspected only after CORE_SPLIT_US: more likely this
 * node hears nobody. After that it goes on all the same, with the nodes it hears or alone. The smaller side of a
 * split must do so.
 *
 * While a node waits for others to come, nothing depends on it: it beats every CORE_IDLE_US. Each heartbeat says when
 * the next one comes; a peer that beats more slowly may be silent for so much longer before it is suspected. group.h
 * makes no plan with who was not heard lately.
 *
 * n nodes send n(n-1) heartbeats, so in a crowd, of more than HEARTBEAT_CROWD nodes, most would do little else. There,
 * only the HEARTBEAT_LEADERS nodes with the lowest ids that are not left out hear from everybody, and everybody from
 * them, every CORE_HEARTBEAT_US: they lead, or will when the leader is gone. All others hear from one another every
 * HEARTBEAT_FAR_US, and when something has changed. Lists of whom a node hears, and of endpoints, come more rarely,
 * too. When all three are gone, who leads then has heard the others late: a plan does not wait for longer than any plan
 * does for who has missed a beat.
 *
 * A node that sends heartbeats may still hang. Its heartbeats say for how long its trainer has made no progress
 * with its task. If this is longer than a plan may be without progress, the node is *stuck*: it is in no plan until
 * its trainer makes progress. */
#ifndef MESH_HEARTBEAT_H
#define MESH_HEARTBEAT_H

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    /* a peer that missed two heartbeats counts as silent when we ask whether most of the mesh is */
    HEARTBEAT_QUIET_US = 125000,
    HEARTBEAT_CROWD = 16,
    HEARTBEAT_LEADERS = 3,
    HEARTBEAT_FAR_US = 400000,
};

/* What is known of a peer from its messages. A heartbeat is kept as it came, but shards that the job does not have are
 * cut off, and chunks of a newer round change its round. */
struct heard {
    struct proto_heartbeat beat; /* its last heartbeat; round and state_hash also from its chunks */
    struct awake heard_at;       /* when its last message came */
    struct wall due_at;          /* when our next heartbeat to it is due */
    struct awake moved_at;       /* when its round changed */
    uint64_t round_us;           /* time of one of its last rounds; 0: unknown */
    struct wall counted_at;      /* when round_us was measured, */
    uint64_t counted_round;      /* and at which round */
    bool suspected;              /* it has been silent for too long, or says that it is away */
    /* Whom it hears: the list that it said last. It counts when a heartbeat names its hash; what that list says of
     * this node and of peers is below. */
    struct proto_hears list;
    uint64_t list_hash;   /* 0: it has said none */
    uint64_t counts_hash; /* of the list that the rest was read from */
    struct wall asked_at; /* when it was told our list, since it asked */
    bool hears_me;
    uint64_t hears; /* bit i: it hears peers[i] */
    /* bytes per second of chunks from peers[j] to it; the last entry: from us */
    uint32_t rate[PROTO_PEERS_MAX];
};

struct view {
    struct heard of[PEERS_MAX]; /* index: as in struct peers */
    struct wall beat_at;        /* when the next heartbeat is due, */
    uint32_t pause_us;          /* as we said in the last one */
    struct proto_hears told;    /* whom we hear, as we told the peers last, */
    uint64_t told_hash;
    struct wall told_at; /* and when, */
    struct wall list_at; /* and when the next list may follow */
};

/* What a heartbeat of peers[i] brought. */
struct heartbeat_news {
    uint64_t healed; /* bitmap of peers that something kept out of plans, and that is over */
    bool moves;      /* its trainer has made progress */
    bool leaves;     /* it is away from now on: as if it had been silent */
    bool back;       /* it is not left out any more */
};

enum heartbeat_verdict {
    HEARTBEAT_AS_BEFORE,
    HEARTBEAT_SUSPECTED, /* it is suspected from now on */
    HEARTBEAT_LOST,      /* its session is to end */
};

/* Sends a heartbeat now: if it comes early, since something has changed, to all peers that train; else to those for
 * which one is due. A node without a job asks for one instead. */
void heartbeat_send(struct view *view, const struct core *core, const struct proto_heartbeat *beat);
/* A message of peers[i] came. Returns true if it was suspected, and is not any more. */
bool heartbeat_heard(struct view *view, const struct core *core, int i);
/* peers[i] says whom it hears: that counts when a heartbeat names this list. */
void heartbeat_hears(struct view *view, int i, const struct proto_hears *hears);
/* peers[i] asks whom we hear. */
void heartbeat_whom(struct view *view, const struct core *core, int i);
struct heartbeat_news heartbeat_take(struct view *view, const struct core *core, int i,
                                     const struct proto_heartbeat *beat);
/* A chunk of peers[i] was computed from a state with this hash before core->round. */
void heartbeat_state(struct view *view, const struct core *core, int i, uint64_t state);
/* Has peers[i], which is up, been silent for too long? */
enum heartbeat_verdict heartbeat_watch(struct view *view, const struct core *core, int i);
/* A session with peers[i] begins; it has ended; slot i is free, and nobody hears it. */
void heartbeat_up(struct view *view, const struct core *core, int i);
void heartbeat_gone(struct view *view, int i);
void heartbeat_forget(struct view *view, int i);

/* Is peers[i] to be counted on? It is up, it is not suspected, and by its heartbeats it hears us, too. */
bool view_usable(const struct core *core, int i);
/* Must a node that is done wait for peers[i]? Not if that made no progress and fetched nothing for long: it hangs. */
bool view_lags(const struct core *core, int i, struct awake served_at, uint64_t round_us);
/* Do a and b hear each other, by their own last heartbeats? */
bool view_mutual(const struct core *core, int a, int b);

#endif

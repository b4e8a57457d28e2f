/* view.h - what is known of each peer from its messages: its last heartbeat, when it was heard, and whether it is
 * suspected. heartbeat.c alone writes it; all others only read. A heartbeat is kept as it came but for what its
 * comments say: shards that the job does not have are cut off, and chunks of a newer round change its round. */
#ifndef MESH_VIEW_H
#define MESH_VIEW_H

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

struct heard {
    struct proto_heartbeat beat; /* its last heartbeat; round and state_hash also from its chunks */
    struct awake heard_at;       /* when its last message came */
    struct wall due_at;          /* when our next heartbeat to it is due */
    struct awake moved_at;       /* when its round changed */
    uint64_t round_us;           /* time of one of its last rounds; 0: unknown */
    struct wall counted_at;      /* when round_us was measured, */
    uint64_t counted_round;      /* and at which round */
    bool suspected;              /* it has been silent for too long */
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

/* Is peers[i] to be counted on? It is up, it is not suspected, and by its heartbeats it hears us, too. */
bool view_usable(const struct core *core, int i);
/* Must a node that is done wait for peers[i]? Not if that made no progress and fetched nothing for long: it hangs. */
bool view_lags(const struct core *core, int i, struct awake served_at, uint64_t round_us);
/* Do a and b hear each other, by their own last heartbeats? */
bool view_mutual(const struct core *core, int a, int b);

#endif

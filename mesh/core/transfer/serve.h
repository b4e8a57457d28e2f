/* serve.h - what a node gives to nodes that are behind: a copy of its state, and the totals of the rounds since.
 *
 *     NONE --FETCH asks--> WANTED --that round, or at rest--> COPYING --all blocks--> COPIED --OFFER-->
 *       ^                                                                               |
 *       +---- nobody asked for SERVE_IDLE_US, or the log has left the copy behind <-----+
 *
 * The copy is the state before one round, as much as this node holds of it. All nodes that copy it can give the same
 * blocks, while training goes on. It lies in state_in, as long as this node fetches nothing itself (transfer.h). Each
 * event copies a few blocks; those that are left are copied before the next commit. From then on, the total of every
 * round goes into a log of bounded size; new totals overwrite the oldest. A follower says how many blocks of totals it
 * can take (FOLLOW), and gets each as soon as it exists. A follower that needs a total that the log no longer has gets
 * an empty TOTAL.
 *
 * Who asks names the segments that it wants (pipeline/stages.h). A node that does not hold all of them does not answer.
 * A node that is done gives those to others that are done, too: they need them for their files. */
#ifndef MESH_SERVE_H
#define MESH_SERVE_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    SERVE_IDLE_US = 3000000, /* nobody asked for this long: delete the copy and the log */
    /* The wanted round may never come. Copy the present state when this node was in no plan for this long, */
    SERVE_REST_US = 10000,
    SERVE_WAIT_US = 200000,  /* or was asked this long ago */
    SERVE_REPEAT_US = 20000, /* the same blocks are not sent again within this time */
    SERVE_COPY_BLOCKS = 16,  /* blocks copied in one event */
    SERVE_ROUNDS_MAX = 1024, /* rounds in the log */
    SERVE_BLOCKS_MAX = 16,   /* blocks of the copy for one FETCH */
};

enum serve_state { SERVE_NONE, SERVE_WANTED, SERVE_COPYING, SERVE_COPIED };

struct serve_follower {
    bool on;
    uint64_t segments;
    uint64_t round, block;         /* the next one to send */
    uint64_t end_round, end_block; /* the first one that may not be sent */
};

struct serve_peer {
    struct awake served_at; /* when a block of state was sent to it */
    uint64_t served_block;  /* the first one of what was sent to it last */
    uint64_t segments;      /* of which it wants an OFFER */
    struct awake moved_at;  /* when its trainer last made progress while this node was done */
};

/* A total in the log. */
struct serve_total {
    size_t at, size;
    size_t first_bucket; /* of the round */
    uint64_t state_hash; /* of the state to which it was applied */
    uint64_t commit;     /* as in struct proto_total */
};

struct serve {
    struct serve_peer of[PEERS_MAX]; /* index: as in struct peers */
    enum serve_state state;
    uint64_t round; /* the wanted round, later the round of the copy */
    uint64_t hash, parts[PROTO_STAGES_MAX];
    struct awake wanted_at;
    uint64_t copied; /* blocks copied or passed over so far */
    uint64_t due;    /* bitmap of peers that wait for an OFFER */
    struct awake asked_at;
    uint64_t commits; /* totals applied */

    bool logs; /* the log has the totals of the rounds [first, core->round) */
    uint64_t first;
    size_t next;                                 /* where the log continues */
    struct serve_total totals[SERVE_ROUNDS_MAX]; /* index: round % SERVE_ROUNDS_MAX */
    struct serve_follower followers[PEERS_MAX];
};

/* The trainer of peers[i] has made progress. Who is done waits for one that gets what it needs from others. */
void serve_moves(struct serve *serve, const struct core *core, int i);
void serve_step(struct serve *serve, const struct core *core);
/* The state is about to change: copies the blocks that are missing. */
void serve_finish(struct serve *serve, const struct core *core);
/* The total in sum was applied to the state before core->round. */
void serve_committed(struct serve *serve, const struct core *core);
/* The state changes without a total, or is not what it was said to be. */
void serve_reset(struct serve *serve, const struct core *core);
/* The session with peers[i] ended. */
void serve_gone(struct serve *serve, int i);
/* Slot i will be another node. */
void serve_forget(struct serve *serve, int i);
void serve_on_fetch(struct serve *serve, const struct core *core, int from,
                    const struct proto_fetch *fetch);
void serve_on_follow(struct serve *serve, const struct core *core, int from,
                     const struct proto_follow *follow);

/* Is the copy in state_in? */
static inline bool
serve_uses_state_in(const struct serve *serve)
{
    return serve->state == SERVE_COPYING || serve->state == SERVE_COPIED;
}

/* This node fetches a state into state_in: the copy that was there is lost. */
static inline void
serve_yield(struct serve *serve)
{
    if (serve_uses_state_in(serve))
        serve->state = SERVE_NONE;
}

#endif

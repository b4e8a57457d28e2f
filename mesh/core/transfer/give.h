/* give.h - what a node gives to nodes that are behind: a copy of its state, and the totals of the rounds since.
 *
 *     NONE --FETCH asks--> WANTED --that round, or at rest--> COPYING --all blocks--> COPIED --LIST--->
 *       ^                                                                               |
 *       +---- nobody asked for GIVE_IDLE_US, or the log has left the copy behind <-----+
 *
 * The copy is the state before one round, as much as this node holds of it. All nodes that copy it can give the same
 * blocks, while training goes on. It lies in state_in, as long as this node fetches nothing itself (transfer.h). Each
 * event copies a few blocks; those that are left are copied before the next commit. From then on, the total of every
 * round goes into a log of bounded size; new totals overwrite the oldest. A follower says how many blocks of totals it
 * can take, and gets each as soon as it exists. A follower that needs a total that the log no longer has gets an empty
 * block of it.
 *
 * Who asks names the segments that it wants (pipeline/stages.h). A node that does not hold all of them does not answer.
 * A node that is done gives those to others that are done, too: they need them for their files. */
#ifndef MESH_GIVE_H
#define MESH_GIVE_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    GIVE_IDLE_US = 3000000, /* nobody asked for this long: delete the copy and the log */
    /* The wanted round may never come. Copy the present state when this node was in no plan for this long, */
    GIVE_REST_US = 10000,
    GIVE_WAIT_US = 200000,  /* or was asked this long ago */
    GIVE_REPEAT_US = 20000, /* the same blocks are not sent again within this time */
    GIVE_COPY_BLOCKS = 16,  /* blocks copied in one event */
    GIVE_ROUNDS_MAX = 1024, /* rounds in the log */
};

enum give_state { GIVE_NONE, GIVE_WANTED, GIVE_COPYING, GIVE_COPIED };

struct give_peer {
    struct awake served_at; /* when a block was sent to it */
    struct awake moved_at;  /* when its trainer last made progress while this node was done */
    uint64_t served_block;  /* the first one of what was sent of the copy last */
    uint64_t listed;        /* the segments of which it wants a list */
    uint64_t segments;      /* and those whose totals it follows: */
    uint64_t round, block;  /* the next one to send */
    uint64_t left; /* so many blocks may be sent; 0: it does not follow, or takes no more */
};

/* A total in the log. */
struct give_total {
    size_t first_bucket; /* of the round */
    uint64_t state_hash; /* of the state to which it was applied */
    uint64_t commit;     /* as in struct proto_give */
};

struct give {
    struct give_peer of[PEERS_MAX]; /* index: as in struct peers */
    enum give_state state;
    uint64_t round; /* the wanted round, later the round of the copy */
    uint64_t hash, parts[PROTO_STAGES_MAX];
    struct awake wanted_at;
    uint64_t copied; /* blocks copied or passed over so far */
    uint64_t due;    /* bitmap of peers that wait for a list */
    struct awake asked_at;
    uint64_t commits; /* totals applied */

    bool logs; /* the log has the totals of the rounds [first, core->round) */
    uint64_t first;
    struct give_total totals[GIVE_ROUNDS_MAX]; /* index: round % GIVE_ROUNDS_MAX */
};

/* The trainer of peers[i] has made progress. Who is done waits for one that gets what it needs from others. */
void give_moves(struct give *give, const struct core *core, int i);
/* `room`: a copy may be put into state_in. */
void give_step(struct give *give, const struct core *core, bool room);
/* The state is about to change: copies the blocks that are missing. */
void give_finish(struct give *give, const struct core *core);
/* The total in sum was applied to the state before core->round. */
void give_committed(struct give *give, const struct core *core);
/* The state changes without a total, or is not what it was said to be. */
void give_reset(struct give *give, const struct core *core);
/* The session with peers[i] ended. */
void give_gone(struct give *give, int i);
/* Slot i will be another node. */
void give_forget(struct give *give, int i);
/* A list, blocks of the copy, or totals are asked for. */
void give_on_fetch(struct give *give, const struct core *core, int from,
                   const struct proto_fetch *fetch);

/* Is the copy in state_in? */
static inline bool
give_uses_state_in(const struct give *give)
{
    return give->state == GIVE_COPYING || give->state == GIVE_COPIED;
}

/* This node fetches a state into state_in: the copy that was there is lost. */
static inline void
give_yield(struct give *give)
{
    if (give_uses_state_in(give))
        give->state = GIVE_NONE;
}

#endif

/* fetch.h - how a node that is behind catches up with the others and joins them again.
 *
 *     NONE --somebody is ahead--> FOLLOWING --nobody has the totals from here on--> ASKING --OFFERs--> BLOCKS
 *       ^                           |  ^                                              ^                |  |
 *       |                           |  |                      donors lost: what is here stays +--------+  |
 *       +-- in a plan; overtaken ---+  +----- adopted ----- COMPLETE <--------------------- all are here -+
 *
 * ASKING names a round a little ahead of the known ones and asks every node ahead for a copy of the state before
 * it. Such copies are equal on all nodes, so blocks of one state may come from several donors. Each OFFER lists the
 * hashes of all blocks. The list that most donors offer is used, and a block is accepted from any donor if it has
 * the right hash. A block that a donor does not send, or sends wrong, is asked from another donor. The trainer
 * checks the hash of the whole.
 *
 * Meanwhile the mesh goes on. FOLLOWING gets the total of each later round from one donor, which has them in its
 * log (serve.h). The trainer applies them like the totals of any round. FOLLOW limits how much may be under way. A
 * node that follows and is at most one round behind says so in its heartbeats. Only then does the leader hold its
 * plan, until the last total has arrived. A node that missed no round, or only rounds that are in a log, needs no
 * state at all.
 *
 * Nodes may hold different segments (pipeline/stages.h). One that catches up asks for what it holds, and only nodes
 * that hold at least that. So, too, a node that is done gets the segments that it does not hold, and one that will hold
 * more (holding.h), of others with the same state (fetch_part): ASKING, BLOCKS, COMPLETE, with `part`, in state_in.
 *
 * A node that is left out (straggler.h) need not be up to date: when it has caught up it pauses FETCH_PAUSE times as
 * long as that took, for the lines are needed. It does so no more when nobody trains any longer. */
#ifndef MESH_FETCH_H
#define MESH_FETCH_H

#include <assert.h>

#include "mesh/core/core.h"
#include "mesh/core/sessions/backoff.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    /* without an answer after this time: ask again, doubled each time up to */
    FETCH_ASK_US = 100000,
    FETCH_ASK_MAX_US = 1000000,
    FETCH_AHEAD_US = 100000, /* the named round is this far ahead of a running one */
    FETCH_AHEAD_MAX = 1024,  /* rounds */
    FETCH_BLOCK_US = 200000, /* without a block after this time: ask again, doubled each time */
    FETCH_IDLE_US = 300000,  /* in no plan for this long: follow a node of the same round */
    /* when the donor did not say for this long that it has no totals, it has them */
    FETCH_SURE_US = 100000,
    /* without a total that the donor should have after this time: follow another one */
    FETCH_LOST_US = 1000000,
    FETCH_PAUSE = 8,
    FETCH_FOLLOW_MAX = 128,  /* totals that are kept, at most */
    FETCH_SAY_US = 60000000, /* at most one line in this time says that a copy is under way */
};

enum fetch_state { FETCH_NONE, FETCH_ASKING, FETCH_BLOCKS, FETCH_COMPLETE, FETCH_FOLLOWING };

/* An offered state. Equal lists mean equal states. */
struct fetch_list {
    uint64_t round, hash, check;
};

struct fetch_donor {
    bool asked, offered;
    struct fetch_list list;
    uint64_t under_way; /* blocks asked for and not received */
    struct awake since; /* when it was asked or answered */
    uint64_t ask_us;    /* without a block after this time: ask again */
    unsigned tries;
};

struct fetch_kept {
    struct proto_total total;
    struct core_frame frame;
};

struct fetch_peer {
    struct awake avoid_at; /* no state is fetched from it before this time */
};

struct fetch {
    struct fetch_peer of[PEERS_MAX]; /* index: as in struct peers */
    enum fetch_state state;
    struct awake progress_at; /* when anything came, or this state began */
    struct awake asked_at;
    uint64_t ask_us;
    uint64_t wanted;         /* the round named in ASKING */
    struct awake offered_at; /* when the first offer came; 0: none yet */
    struct awake said_at;    /* when a line said that a copy is under way */
    struct fetch_donor donors[PEERS_MAX];

    struct fetch_list list; /* the chosen list */
    bool listed; /* its hashes are in core->transfer.hashes; `blocks` says which blocks are here */
    uint64_t parts[PROTO_STAGES_MAX]; /* and these are of its segments */
    /* how many are here, of how many that are fetched; all below `next` are here, asked for or not fetched */
    uint64_t here, whole, next;
    uint8_t *blocks; /* [transfer.blocks] FETCH_HERE, FETCH_MISSING or the donor that was asked */
    uint64_t part;   /* segments that are fetched beside those that are held; 0: none */
    bool given;   /* the trainer has them, or knows that nobody has, and says what else it needs: */
    bool full;    /* nothing */
    unsigned bad; /* how often they were not what their hashes say */
    struct awake moved_at; /* when a block of them came, or the trainer spoke */

    int from;       /* donor of totals; -1: none */
    uint64_t tried; /* bitmap of peers that did not have the totals */
    /* Needs a state first: no totals lead from our state to theirs. Then this is the round before which theirs was
     * another one, + 1; 0: not so. */
    uint64_t copies;
    bool sure;          /* the donor has the totals */
    struct awake since; /* when this state began */
    bool adopted;       /* and was in no plan since; if it is overtaken now, it is too slow */
    uint64_t block;     /* next block of the total of core->round, */
    uint64_t commit;    /* and which total of the donor's that is: as in struct proto_total */
    uint64_t told_round, told_block;          /* from the last FOLLOW */
    struct fetch_kept kept[FETCH_FOLLOW_MAX]; /* totals that came too early */
    size_t kept_count;
    struct awake retry_at; /* nobody is asked before this time */
    uint64_t retry_us;
    struct awake begun_at; /* when it left NONE */
    struct awake pause_at; /* while it is left out, it stays in NONE until this time */
};

/* What is to be done. The engine does it (rounds_act.c). */
struct fetch_verdict {
    bool commit; /* sum has the total of core->round: the trainer is to apply it */
    bool adopt;  /* state_in has the state before `round`, with `hash`: the trainer is to take it */
    bool told;   /* `from`, which is followed, had the state with this `hash` before core->round; */
    int from;    /* if that is not ours, nobody is followed any more */
    bool part; /* state_in has `segments`, or nobody has what was asked for: the trainer is told */
    uint64_t round, hash, segments;
    const uint64_t *parts; /* of adopt and part */
};

int fetch_init(struct fetch *fetch, const struct core *core);
void fetch_fini(struct fetch *fetch, const struct core *core);
/* Goes from one state to the next. May it go on now: in FOLLOWING with fetch_follow_step, else fetch_copy_step? */
bool fetch_step(struct fetch *fetch, const struct core *core);
/* The trainer has a new state, the one before `round`. */
void fetch_applied(struct fetch *fetch, const struct core *core, uint64_t round);
/* This node is in a plan. */
void fetch_planned(struct fetch *fetch, const struct core *core);
void fetch_reset(struct fetch *fetch, const struct core *core);
/* Slot i will be another node. */
void fetch_forget(struct fetch *fetch, int i);
/* Fetch these segments too, of the same state; of a node that is done, for its files; 0: it needs nothing more. */
void fetch_part(struct fetch *fetch, const struct core *core, uint64_t segments);
/* Is this node done, and does it still need segments? For how long has it got nothing, nor got who holds them any
 * further? */
bool fetch_needs(const struct core *core);
uint64_t fetch_waits_us(const struct core *core);
/* Is this node catching up: did something come within `us`, or is the node that it follows in a plan? */
bool fetch_moving(const struct core *core, uint64_t us);
/* Would this node soon be at the mesh's round if the mesh waited? */
bool fetch_ready(const struct core *core);

/* From now on, wait twice as long for an answer. */
static inline void
fetch_ask_later(struct fetch *fetch)
{
    fetch->ask_us = backoff_us(fetch->ask_us, FETCH_ASK_US, FETCH_ASK_MAX_US);
}

static inline bool
fetch_list_equal(const struct fetch_list *a, const struct fetch_list *b)
{
    return a->round == b->round && a->hash == b->hash && a->check == b->check;
}

/* --- Questions ------------------------------------------------------------------------------------- */

/* Before `round` we had another state than those ahead, and totals do not lead from ours to theirs: the next state that
 * comes is a copy. */
static inline void
fetch_needs_copy(struct fetch *fetch, uint64_t round)
{
    fetch->copies = round + 1;
}

/* Is a state, or what is not held of it, put together? */
static inline bool
fetch_copies(const struct fetch *fetch)
{
    return fetch->state == FETCH_ASKING || fetch->state == FETCH_BLOCKS ||
           fetch->state == FETCH_COMPLETE;
}

/* Is a state put together where the copy for others lies? */
static inline bool
fetch_uses_state_in(const struct fetch *fetch)
{
    return fetch_copies(fetch) && !fetch->part;
}

/* A copy for others lies in the memory in which blocks of an earlier try may have been: they are lost. */
static inline void
fetch_yield(struct fetch *fetch)
{
    assert(!fetch_uses_state_in(fetch));
    fetch->listed = fetch->listed && fetch->part;
}

#endif

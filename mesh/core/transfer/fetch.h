/* fetch.h - how a node that is behind catches up with the others and joins them again.
 *
 *     NONE --somebody is ahead--> FOLLOWING --nobody has the totals from here on--> ASKING --LISTs---> BLOCKS
 *       ^                           |  ^                                              ^                |  |
 *       |                           |  |                      donors lost: what is here stays +--------+  |
 *       +-- in a plan; overtaken ---+  +----- adopted ----- COMPLETE <--------------------- all are here -+
 *
 * ASKING names a round a little ahead of the known ones and asks every node ahead for a copy of the state before
 * it. Such copies are equal on all nodes, so blocks of one state may come from several donors (take.h). Each gives a
 * LIST of the hashes of all blocks. The list that most donors offer is used, and a block is accepted from any donor of
 * it if it has the right hash. The trainer checks the hash of the whole.
 *
 * Meanwhile the mesh goes on. FOLLOWING gets the total of each later round from one donor, which has them in its
 * log (give.h). The trainer applies them like the totals of any round. FETCH limits how much may be under way. A
 * node that follows and is at most one round behind says so in its heartbeats. Only then does the leader hold its
 * plan, until the last total has arrived. A node that missed no round, or only rounds that are in a log, needs no
 * state at all.
 *
 * Nodes may hold different segments (pipeline/stages.h). One that catches up asks for what it holds, and only nodes
 * that hold at least that. So, too, a node that is done gets the segments that it does not hold, and one that will hold
 * more (holding.h), of others with the same state (fetch_part): ASKING, BLOCKS, COMPLETE, with `part`, in state_in.
 *
 * A node that is left out (straggler.h) need not be up to date: when it has caught up it pauses FETCH_PAUSE times as
 * long as that took, for the lines are needed. It does so no more when nobody trains any longer. Who is overtaken when
 * it has a state receives more slowly than those who gave it train. It lets them go for as long (`apart_at`), or until
 * they rest: it follows others, and trains with those at its own round. What is computed twice has equal bits. */
#ifndef MESH_FETCH_H
#define MESH_FETCH_H

#include <assert.h>

#include "mesh/core/core.h"
#include "mesh/core/sessions/backoff.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"
#include "mesh/core/transfer/take.h"

enum {
    FETCH_ASK_US = 100000, /* without an answer: ask again, after twice the time each time, up to */
    FETCH_ASK_MAX_US = 1000000,
    FETCH_AHEAD_US = 100000,  /* the named round is this far ahead of a running one */
    FETCH_AHEAD_MAX = 1024,   /* rounds */
    FETCH_IDLE_US = 300000,   /* in no plan for this long: follow a node of the same round */
    FETCH_WATCH_US = 5000000, /* where one node alone is the fastest: before the first copy */
    FETCH_PAUSE = 8,
    FETCH_PAUSE_MAX_US = 300000000,
    FETCH_VOTE_US = 20000,   /* how long to wait for further lists */
    FETCH_BLOCK_US = 200000, /* without a block of a copy, or a total: ask again */
    FETCH_AVOID_US = 500000, /* a donor that did not answer is not asked for this long */
    FETCH_BAD_US = 5000000,  /* the same for donors whose state was wrong */
    FETCH_BAD_MAX = 3,       /* a part that was wrong so often is given up */
    FETCH_SAY_US = 60000000, /* at most one line in this time says that a copy is under way */
    FETCH_SURE_US = 100000,  /* the donor did not say that it has no totals: it has them */
    FETCH_LOST_US = 1000000, /* no total that the donor should have: follow another one */
    FETCH_AGAIN_US = 20000,  /* nobody to follow: ask again after this time */
    FETCH_REST_US = 600000,  /* overtaken: idle at most so long, as those ahead may wait (lead.h) */
};

enum fetch_state { FETCH_NONE, FETCH_ASKING, FETCH_BLOCKS, FETCH_COMPLETE, FETCH_FOLLOWING };

struct fetch_kept {
    struct proto_give give;
    struct core_frame frame;
};

struct fetch_peer {
    struct awake avoid_at; /* no state is fetched from it before this time */
    struct awake apart_at; /* it is ahead, and too fast to be followed: let go until this time */
    bool asked, offered;   /* for a list; it has sent this one: */
    struct proto_give list;
};

struct fetch {
    struct fetch_peer of[PEERS_MAX]; /* index: as in struct peers */
    enum fetch_state state;
    struct awake progress_at; /* when anything came, or this state began */
    struct awake asked_at;
    uint64_t ask_us;
    uint64_t wanted;         /* the round named in ASKING */
    struct awake offered_at; /* when the first list came; 0: none yet */
    struct awake said_at;    /* when a line said that a copy is under way */

    struct proto_give list; /* the chosen list */
    bool listed; /* its hashes are in core->transfer.hashes; `take` says which blocks are here */
    uint64_t parts[PROTO_STAGES_MAX]; /* and these are of its segments */
    struct take take;
    uint8_t *blocks; /* of `take` */
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
    bool sure;            /* the donor has the totals */
    struct awake since;   /* when this state began */
    bool adopted;         /* and was in no plan since; if it is overtaken now, it is too slow */
    uint64_t block;       /* next block of the total of core->round, */
    uint64_t commit;      /* and which total of the donor's that is: as in struct proto_give */
    uint64_t left;        /* blocks of totals that may still come before more are asked for */
    struct pace pace;     /* of totals */
    struct awake came_at; /* when the last block of one came */
    bool anew;            /* they are to come from `block` on once more */
    struct fetch_kept kept[PACE_BLOCKS]; /* totals that came too early, in their order */
    size_t kept_count;
    struct awake begun_at; /* when it left NONE */
    struct awake retry_at; /* nobody is asked before this time */
    struct awake pause_at; /* while it is left out, it stays in NONE until this time */
    bool overtaken;        /* since it was in a plan, and a line said so */
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

/* A copy of the state of those ahead: ASKING, BLOCKS and COMPLETE. */
struct fetch_verdict fetch_copy_step(struct fetch *fetch, const struct core *core);
void fetch_on_list(struct fetch *fetch, const struct core *core, int from,
                   const struct proto_give *give, const void *body, size_t size);
void fetch_on_block(struct fetch *fetch, const struct core *core, int from,
                    const struct proto_give *give, const void *body, size_t size);
/* The state that the trainer was to adopt, or the part that it got, is wrong. */
void fetch_copy_bad(struct fetch *fetch, const struct core *core);
/* Has nothing of a part come for long, or was what came wrong each time? */
bool fetch_copy_lost(const struct core *core);
/* The session with peers[i] ended. */
void fetch_gone(struct fetch *fetch, const struct core *core, int i);

/* The totals of later rounds, one after the other, from one donor: FOLLOWING. */
struct fetch_verdict fetch_follow_step(struct fetch *fetch, const struct core *core);
struct fetch_verdict fetch_on_total(struct fetch *fetch, const struct core *core, int from,
                                    const struct proto_give *give, struct core_frame *frame);
/* The total that the trainer was to commit is wrong: it is to come again from its first block on. */
void fetch_total_bad(struct fetch *fetch);

/* Equal lists mean equal states. */
static inline bool
fetch_list_equal(const struct proto_give *a, const struct proto_give *b)
{
    return a->round == b->round && a->label == b->label && a->check == b->check;
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

/* --- Of fetch.c, for fetch_copy.c and fetch_follow.c ------------------------------------------------- */

void fetch_enter(struct fetch *fetch, const struct core *core, enum fetch_state next);
uint64_t fetch_pause_us(const struct core *core); /* not to try again, after what it took */
/* Asks all nodes ahead for a copy of the state before `round`. */
void fetch_ask_begin(struct fetch *fetch, const struct core *core, uint64_t round);
/* A round that none of the nodes ahead has finished when it hears of it. */
uint64_t fetch_name_round(const struct core *core);
/* What is fetched. */
uint64_t fetch_segments(const struct core *core);
/* Usable, it holds what is fetched, and nothing is known against its state. */
bool fetch_fit(const struct core *core, int i);
bool fetch_ahead(const struct core *core, int i);    /* fit, and at a later round */
bool fetch_may_give(const struct core *core, int i); /* it may offer what is fetched */
bool fetch_gives(const struct core *core, int i);    /* it offers the state that was chosen */
bool fetch_anybody(const struct core *core, bool (*is)(const struct core *core, int i));
/* Of the totals that came too early, the first one, and all. */
void fetch_kept_remove(struct fetch *fetch, const struct core *core);
void fetch_kept_drop(struct fetch *fetch, const struct core *core);

#endif

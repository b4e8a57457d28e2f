/* contribution.h - what the trainer does, which shards `own` holds, and which memory is still being sent.
 *
 *     START --applied--> FREE --compute--> COMPUTING --last bucket--> FREE
 *                         |  --commit---> COMMITTING --applied-----> FREE (next round)
 *                         |  --adopt----> ADOPTING --applied, bad--> FREE
 *                         |  --audit----> AUDITING --answer--------> FREE
 *
 *     any --damaged, or outvoted (divergence.h)--> DAMAGED --applied, an older state--> FREE
 *
 * `own` keeps the sum of this node's shards until the round is applied, whatever plans come and go. If a new plan gives
 * this node more shards, only these are computed. If it takes a shard away, all others are computed again, because a
 * shard cannot be subtracted. Nobody writes to `own` while a part of it is being sent.
 *
 * While it is FREE, the trainer may borrow buckets of `sum` that are already final, and compute the next state from
 * them. A new plan does not write to `sum` until the trainer has given the bucket back. */
#ifndef MESH_CONTRIBUTION_H
#define MESH_CONTRIBUTION_H

#include <assert.h>

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"
#include "proto/mutant.h"

enum trainer_state {
    TRAINER_START,
    TRAINER_FREE,
    TRAINER_COMPUTING,
    TRAINER_COMMITTING,
    TRAINER_ADOPTING,
    TRAINER_AUDITING,
    TRAINER_DAMAGED,
};

enum {
    /* A new plan waits until what is being sent has left. End the sessions with suspected peers after this time, */
    CONTRIBUTION_DRAIN_US = 20000,
    /* and with all peers when nothing has left for this long, in which the slowest line takes a chunk of 1 MiB */
    CONTRIBUTION_DRAIN_ALL_US = 5000000,
    CONTRIBUTION_DROPS =
        4, /* after so many dropped plans of a round, all of it is computed again */
};

/* What a node has of a round: these shards, of these segments of the model. */
struct share {
    uint64_t shards, of;
};

struct contribution {
    enum trainer_state state;
    bool filled;        /* own[] is the sum of `has` for core->round; false: own[] is invalid */
    uint64_t has;       /* the shards in own[] */
    uint64_t computing; /* the shards being added */
    uint64_t by_pieces; /* the round is computed in pieces, of these shards; 0: it is not */
    uint64_t pieces_of; /* then: the segments of the stages that are computed here */
    bool pieces_all;    /* all of them are computed */
    bool piece;         /* COMPUTING is of a piece */
    /* in the sum that is applied, and in that of the round before, if this node was in its plan (core_state.pinned) */
    struct share applying, before;
    size_t ready;            /* number of buckets of own[] that contain has | computing */
    unsigned in_flight;      /* parts of own[] that are being sent */
    bool blocked;            /* the core waits until they have left, */
    struct awake blocked_at; /* since then, or since the last one left */
    struct awake moved_at;   /* when the trainer got its last task, or last made progress */
    struct wall compute_at;
    struct wall commit_at; /* when the trainer got a total that it has not applied; 0: none */
    bool lent;             /* the trainer reads a part of sum */
    struct wall lent_at;
    uint64_t drops_round; /* so many plans of this round were dropped: */
    unsigned drops;
    uint64_t ahead_us;   /* computing for the next round so far, with borrowed buckets */
    uint64_t saved_us;   /* the same for this round; counts as computing */
    uint64_t compute_us; /* time of the last compute */
    uint32_t speed;      /* shards per 1e6 seconds of one shard: see proto_heartbeat */
};

/* The trainer is about to get a task. */
void contribution_ask(struct contribution *own, const struct core *core, enum trainer_state state);
/* own[] is to hold exactly the shards `need`: asks the trainer to compute, or fills it with zeros. Returns how many
 * buckets of it may be sent now. */
size_t contribution_fill(struct contribution *own, const struct core *core, uint64_t need);
/* May own[] be rewritten? Not while parts of it are being sent. */
bool contribution_writable(struct contribution *own, const struct core *core);
/* The round is computed in pieces (pieces.h): these shards, of these segments. The trainer is asked for one; it has
 * computed it; and all: so much work, 10^6 for a shard of the whole model, took so long. */
void contribution_by_pieces(struct contribution *own, uint64_t shards, uint64_t of);
void contribution_piece(struct contribution *own, const struct core *core);
void contribution_piece_done(struct contribution *own, const struct core *core);
void contribution_pieces_done(struct contribution *own, uint64_t us, uint64_t work);
/* Bitmap of peers whose sessions are to end, as own[] was waited for too long: nothing of it is then sent to them. */
uint64_t contribution_blockers(struct contribution *own, const struct core *core);
/* The trainer is asked to apply the total of a plan's round. */
void contribution_commit(struct contribution *own, const struct core *core);
/* The trainer is asked to apply a total that comes from others: what it has computed for it counts as its shards. */
void contribution_follow(struct contribution *own, const struct core *core);
/* The trainer has finished this bucket. False: the bucket is not exchanged in this round. */
bool contribution_bucket(struct contribution *own, const struct core *core, size_t bucket);
/* The trainer borrows a part of sum, or gives it back. */
void contribution_lend(struct contribution *own, const struct core *core);
void contribution_returned(struct contribution *own, const struct core *core);
/* The trainer has finished committing, adopting, or going back. */
void contribution_applied(struct contribution *own);
/* The total is damaged, and was not applied: the round is done again. */
void contribution_refused(struct contribution *own);
/* A plan of this round was dropped. Perhaps because what this node has computed is damaged, which who sums it finds,
 * and is first to drop the plan each time. True: all is to be computed again, pieces too. */
bool contribution_dropped(struct contribution *own, uint64_t round);
/* The trainer's state and its present task are void. */
void contribution_damaged(struct contribution *own);
/* The trainer waited for a processor for `us`: that is no sign that it hangs. */
void contribution_starved(struct contribution *own, const struct core *core, uint64_t us);

/* The trainer has answered, and its state is the one that it had. */
static inline void
contribution_answered(struct contribution *own, enum trainer_state task)
{
    assert(own->state == task);
    own->state = TRAINER_FREE;
}

/* A part of own[] is sent without a copy. */
static inline void
contribution_sends(struct contribution *own)
{
    own->in_flight++;
}

/* It has left: they take what we send. Was it waited for? */
static inline bool
contribution_sent(struct contribution *own, struct awake now)
{
    assert(own->in_flight > 0);
    own->in_flight--;
    own->blocked_at = now;
    return own->blocked;
}

/* Nothing is to be written to own[] now: no send is waited for. */
static inline void
contribution_rests(struct contribution *own)
{
    own->blocked = false;
}

/* Shards of core->round that are in own[] or being added to it. */
static inline uint64_t
contribution_have(const struct contribution *own)
{
    if (own->state == TRAINER_COMPUTING)
        return own->has | own->computing | own->by_pieces;
    return own->filled ? own->has : own->by_pieces;
}

/* What the next plan should leave with this node of the present round; `pinned` as in core_state. `segments`: all. */
struct share contribution_keeps(const struct contribution *own, bool pinned, uint64_t segments);

/* May the core read the state and adopt a plan now? */
static inline bool
contribution_settled(const struct contribution *own)
{
    return own->state == TRAINER_FREE || own->state == TRAINER_COMPUTING ||
           own->state == TRAINER_AUDITING;
}

/* How long the trainer has made no progress with its task; 0 when it has no task. */
uint64_t contribution_busy_us(const struct contribution *own, struct awake now);

#endif

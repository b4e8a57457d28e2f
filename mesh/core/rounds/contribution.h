/* contribution.h - which shards `own` holds, and which memory is still being sent.
 *
 * `own` keeps the sum of this node's shards until the round is applied, whatever plans come and go. If a new plan gives
 * this node more shards, only these are computed. If it takes a shard away, all others are computed again, because a
 * shard cannot be subtracted. Nobody writes to `own` while a part of it is being sent.
 *
 * A new plan does not write to `sum` while the trainer has borrowed a bucket of it (trainer.h). */
#ifndef MESH_CONTRIBUTION_H
#define MESH_CONTRIBUTION_H

#include <assert.h>

#include "mesh/core/group/kept.h"
#include "mesh/core/group/trainer.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"
#include "proto/mutant.h"

enum {
    /* A new plan waits until what is being sent has left. End the sessions with suspected peers after this time, */
    CONTRIBUTION_DRAIN_US = 20000,
    /* and with all peers when nothing has left for this long, in which the slowest line takes a chunk of 1 MiB */
    CONTRIBUTION_DRAIN_ALL_US = 5000000,
    CONTRIBUTION_DROPS =
        4, /* after so many dropped plans of a round, all of it is computed again */
};

struct contribution {
    bool filled;        /* own[] is the sum of `has` for core->round; false: own[] is invalid */
    uint64_t has;       /* the shards in own[] */
    uint64_t computing; /* the shards being added */
    uint64_t by_pieces; /* the round is computed in pieces, of these shards; 0: it is not */
    uint64_t pieces_segments; /* then: the segments of the stages that are computed here */
    bool pieces_all;          /* all of them are computed */
    bool piece;               /* COMPUTING is of a piece */
    /* in the sum that is applied, and in that of the round before, if this node was in its plan (core_state.pinned) */
    struct keeps applying, before;
    size_t ready;            /* number of buckets of own[] that contain has | computing */
    unsigned in_flight;      /* parts of own[] that are being sent */
    bool blocked;            /* the core waits until they have left, */
    struct awake blocked_at; /* since then, or since the last one left */
    uint64_t drops_round;    /* so many plans of this round were dropped: */
    unsigned drops;
};

/* own[] is to hold exactly the shards `need`: asks the trainer to compute, or fills it with zeros. Returns how many
 * buckets of it may be sent now. */
size_t contribution_fill(struct contribution *own, struct trainer *trainer, const struct core *core,
                         uint64_t need);
/* May own[] be rewritten? Not while parts of it are being sent. */
bool contribution_writable(struct contribution *own, const struct core *core);
/* The round is computed in pieces (pieces.h): these shards, of these segments. The trainer is asked for one; it has
 * computed it; and all. */
void contribution_by_pieces(struct contribution *own, const struct core *core,
                            const struct keeps *keeps);
void contribution_piece(struct contribution *own);
void contribution_piece_done(struct contribution *own);
void contribution_pieces_done(struct contribution *own);
/* Bitmap of peers whose sessions are to end, as own[] was waited for too long: nothing of it is then sent to them. */
uint64_t contribution_blockers(struct contribution *own, const struct core *core);
/* The trainer is asked to apply a total: what it has computed for it counts as its shards. */
void contribution_applies(struct contribution *own, const struct core *core);
/* The trainer has finished this bucket. False: the bucket is not exchanged in this round. */
bool contribution_bucket(struct contribution *own, struct trainer *trainer, const struct core *core,
                         size_t bucket);
/* The trainer has finished committing, adopting, or going back. */
void contribution_applied(struct contribution *own);
/* The total is damaged, and was not applied: the round is done again. */
void contribution_refused(struct contribution *own);
/* A plan of this round was dropped. Perhaps because what this node has computed is damaged, which who sums it finds,
 * and is first to drop the plan each time. True: all is to be computed again, pieces too. */
bool contribution_dropped(struct contribution *own, const struct core *core);
/* The trainer's state is void. */
void contribution_damaged(struct contribution *own);

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
    return own->filled ? own->has | own->computing : own->by_pieces;
}

/* What the next plan should leave with this node of the present round. */
struct keeps contribution_keeps(const struct contribution *own, const struct core *core);

#endif

/* push_work.h - the worker: takes tickets, reads, has them computed, pushes. */
#ifndef MESH_PUSH_WORK_H
#define MESH_PUSH_WORK_H

#include "mesh/core/core.h"
#include "mesh/core/push/push_range.h"
#include "mesh/core/push/push_tickets.h"
#include "mesh/core/sessions/clock.h"

struct push;

enum {
    PUSH_AGAIN_US = 100000, /* what is not answered is asked again after this time; */
    /* bodies after twice the time before, at most this: on a slow line they are only late */
    PUSH_AGAIN_MAX_US = 1600000,
    PUSH_MEAN_OF = 32, /* tickets */
    PUSH_MEAN_MOST = 16,
};

enum push_work_state {
    PUSH_WORKING,
    PUSH_GATHERING, /* all tickets are done: reads all ranges */
    PUSH_FINISHING, /* the trainer is told */
    PUSH_FINISHED,
};

/* A ticket of this node's worker. */
enum push_place { PUSH_READS, PUSH_COMPUTES, PUSH_PUSHES };

struct push_job {
    uint64_t in_hand;   /* the ticket, plus one; 0: none */
    uint64_t number;    /* of the compute */
    uint64_t leased_in; /* hash of the group in which it was leased */
};

/* In the mean of the last some 32 tickets. */
struct push_mean {
    uint64_t us, count; /* count 0: of none */
};

/* From the first question, or the first gradient, for a ticket to the first answer of another node. That is the
 * quickest one: who has a slow line waits with all, and the others only with it. */
struct push_trip {
    struct wall at;
    bool waits;
    struct push_mean mean;
};

struct push_work {
    enum push_work_state state;
    struct push_job job[PUSH_HANDS]; /* [enum push_place] */
    uint64_t *history;               /* [range_count], for the trainer */
    bool forget;                     /* what the trainer computes is not wanted any more */
    bool computed;                   /* it has computed its ticket */
    bool again; /* a range does not take the ticket that is pushed: compute it again */
    unsigned to_pull, to_push; /* ranges that did not answer yet */
    uint64_t number;           /* of computes */
    uint64_t got;              /* leases in this group */
    /* When the last question was sent, or answered in part; 0: now is the time for it. */
    struct awake take_at, pull_at, push_at;
    uint64_t again_us;       /* after this time bodies are asked for, or sent, again */
    bool reading;            /* for a ticket, and not all has come yet */
    struct push_mean ticket; /* of a compute, with what this node was starved; */
    struct wall ticket_at;   /* when the present one began */
    struct push_trip reads, pushes;
    bool wanted;    /* the leader was asked for a ticket */
    int source;     /* gathering from peers[source]; -1: from the owners */
    uint64_t model; /* what is gathered: hash of the final model of that peer, or of the group */
};

/* A body was asked for, or sent, again. */
static inline void
push_work_slower(struct push_work *work)
{
    work->again_us =
        work->again_us < PUSH_AGAIN_MAX_US / 2 ? 2 * work->again_us : PUSH_AGAIN_MAX_US;
}

/* One that took very long, since the node was stopped, counts as PUSH_MEAN_MOST. */
static inline void
push_mean_learn(struct push_mean *mean, uint64_t us)
{
    uint64_t most = PUSH_MEAN_MOST * mean->us;
    us = most > 0 && us > most ? most : us;
    mean->count += mean->count < PUSH_MEAN_OF;
    mean->us = ((mean->count - 1) * mean->us + us) / mean->count;
}
static inline void
push_trip_begin(struct push_trip *trip, struct wall now)
{
    trip->at = now;
    trip->waits = true;
}
static inline void
push_trip_end(struct push_trip *trip, struct wall now)
{
    if (trip->waits)
        push_mean_learn(&trip->mean, wall_since(now, trip->at));
    trip->waits = false;
}
void push_work_group(struct push *push, const struct core *core); /* another group */
void push_work_forget(struct push *push);
/* What it reads for is not needed any more. */
void push_work_drop_read(struct push *push);
/* Is it time to ask for bodies, for the first time (0) or again? Then it is as if that was done. */
bool push_work_due(struct push *push, const struct core *core, struct awake *asked_at);
void push_work_step(struct push *push, const struct core *core);
void push_work_on_lease(struct push *push, const struct core *core, int from,
                        const struct proto_lease *lease);
void push_work_on_value(struct push *push, const struct core *core, int from,
                        const struct proto_value *value, const struct core_frame *frame);
void push_work_on_applied(struct push *push, const struct core *core, int from,
                          const struct proto_applied *applied);
void push_work_computed(struct push *push, const struct core *core);
/* The final model is there, and has this hash. */
void push_work_finished(struct push *push, uint64_t hash);
/* The range has the ticket behind. */
static inline void
push_work_pushed(struct push_work *work, struct push_range *range)
{
    if (range->pushed)
        return;
    range->pushed = true;
    if (--work->to_push == 0)
        work->take_at.us = 0; /* tell the leader now */
}

#endif

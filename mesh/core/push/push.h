/* push.h - the engine *push*: elected servers hold the parameters, workers pull them, compute, and push gradients.
 *
 * The parameters are divided into *ranges*. In a *group* of nodes each range has an owner, and a backup if there are
 * two nodes: the two of highest weight, a hash of node and range. All that serve are alike; who is much slower does not
 * serve. Of R ranges each of k owners has R / k, rounded up at most. Owner and backup hold a range's parameters,
 * optimizer state and the set of tickets that it has taken. Work is tickets (see push_tickets.h). A worker does this
 * again and again:
 *
 *     leader                worker                 owner of a range          its backup
 *     |<- TAKE(finished) ----|                         |                        |
 *     |-- LEASE(ticket) ---->|                         |                        |
 *     |                      |-- PULL ---------------->|   each range           |
 *     |                      |<- VALUE(taken) ---------|                        |
 *     |                 computes                       |                        |
 *     |                      |-- PUSH(ticket, read) -->|   each range           |
 *     |                      |                         |-- PUSH(taken + 1) ---->| applies it
 *     |                      |                         |<- APPLIED(hash) -------|
 *     |                      |<- APPLIED --------------| applies it: the hashes are equal
 *
 * A worker reads for its next ticket when all ranges have the last one. So of n workers a gradient is at most about n
 * updates old. (To read while it computes, for which it had up to three tickets in hand, gained nothing at 100 Mbit/s.)
 *
 * (Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.) A gradient that was computed
 * from parameters tau updates old is scaled by 1 / max(1, tau) (Zhang et al., IJCAI 2016). With `group` = c, a range
 * makes one update of every c gradients (softsync).
 *
 * Three checks, each independent of the others: the *fence* (messages name their group, and only those of the present
 * one count), the *set* (a range takes a ticket once, whoever pushes it and how often), and the *count* (the backup
 * takes only what follows what it has). A wrong view of who is there costs time. It never makes a range take a ticket
 * twice.
 *
 * Groups. The leader is the lowest id among those that hold something. It makes a new group when a member is lost or a
 * node has come. Each member tells all others what it holds of each range, and nothing is served before all have told.
 * Then the owner of a range takes over the newest copy, gives one to its backup, and serves. Nodes of one history
 * belong together; after a split there are two. The side with more tickets done stays. The other one forgets what it
 * holds, and its nodes come as new ones: what they did is handed out again. A node that was starved and finds that
 * members of its group have gone on without it is no side: it forgets, however many tickets it knows of.
 *
 * If owner and backup of a range were lost together, the next owner begins with what somebody pulled last, and says how
 * many tickets are lost. If nobody ever pulled it, who did the tickets was alone, and was lost before its ranges came
 * to those that it took in. What they have got of it makes no model: they forget it, and the tickets are computed
 * again.
 *
 * All members own ranges, or as many as the job says. A member on a much slower line than the others, or whose tickets
 * take more than three times as long as those of the fastest one, owns none, if there are others: all wait for the
 * slowest owner.
 *
 * When all tickets are done, each node pulls all ranges: one model, with one hash. Who comes later pulls them from any
 * node that has them.
 *
 * Checkpoints. Now and then the leader *holds* the tickets of the steps from some step on. When all before them are
 * done, nothing is under way, and each range has taken exactly these: a *snapshot*. The leader names it in its CLAIM.
 * Every member then copies all ranges from their owners, has its journal on the disk, saves them, and says so; then the
 * leader goes on. So all members save the same bits, any of them can begin a mesh again, and nothing in a checkpoint
 * was computed from what is not in it. When a member is lost meanwhile, the next group makes the snapshot; who has
 * copied all keeps it. A member that is told to end (Ctrl-C) asks the leader for a snapshot with TAKE(leaves), computes
 * nothing after it, and ends when the others have saved it, too; if it forgets what it held, it ends at once. A node
 * that begins with a checkpoint holds all ranges as of the snapshot, and its base is a hash of their histories: nodes
 * with the same one belong together. */
#ifndef MESH_PUSH_H
#define MESH_PUSH_H

#include "mesh/core/push/push_tickets.h"
#include "proto/mix.h"

enum {
    PUSH_RANGES_MAX = 1 << 16, /* their holdings fit into a block */
    PUSH_QUEUE_MAX = 1024, /* pushes that wait at one node; more are dropped, and pushed again */
};

struct push_size {
    size_t gradient; /* most bytes of what is pushed to a range; at most PROTO_BLOCK_MAX, */
    size_t value, model, copy; /* and bytes of these, with PUSH_SET_SIZE */
};

/* One gradient in the order in which a range took it. */
struct push_taken {
    unsigned range;
    uint64_t ticket, number; /* number: of the compute, by who computed it */
    struct proto_node who;
    uint64_t count;         /* how many the range had taken before */
    uint64_t tau;           /* how many updates old what it was computed from is */
    bool updates;           /* it completes an update */
    uint64_t before, after; /* hash of the range's history */
};

/* The history of a range that has taken this, too: `after`. That of a range before its first ticket. */
static inline uint64_t
push_taken_after(const struct push_taken *taken)
{
    uint64_t what = mix64_pair(taken->ticket, 2 * taken->tau + taken->updates);
    uint64_t whose = mix64_pair(mix64_pair(taken->who.id, taken->who.incarnation), taken->number);
    return mix64_pair(mix64_pair(taken->before, what), whose);
}

static inline uint64_t
push_first_history(unsigned range)
{
    return mix64(range);
}

/* Who keeps ranges, journal and checkpoints, beside struct core_trainer: it answers at once, as the next message may
 * need what it did. Called from within core_on_*, none may call the core, and none takes long. */
struct push_keeper {
    /* trainer->compute of this ticket follows. Take a copy of what was read last: ranges are read for the next ticket
     * meanwhile. `history[ranges]`: of what was read. */
    void (*begin)(void *ctx, uint64_t ticket, uint64_t number, const uint64_t *history);
    /* What was computed is now to be pushed: it is what `gradient` gives. */
    void (*collect)(void *ctx);
    /* What is pushed to a range, *size bytes; unchanged until `collect`. */
    const void *(*gradient)(void *ctx, unsigned range, size_t *size);
    /* The range that this node holds takes a gradient. It may be from a peer that lies: any bytes, any size. */
    void (*take)(void *ctx, const struct push_taken *taken, const void *gradient, size_t size);
    uint64_t (*hash)(void *ctx, unsigned range);        /* of the bits that this node holds */
    void (*copy)(void *ctx, unsigned range, void *out); /* all of it, for who is to hold it, */
    void (*adopt)(void *ctx, unsigned range, const void *copy); /* and who is to */
    /* What a worker computes from, and the worker reads it; `model`: all of the parameters, when no ticket is left. */
    void (*value)(void *ctx, unsigned range, bool model, void *out);
    void (*read)(void *ctx, unsigned range, bool model, const void *value);
    /* Hold a range as it is before the first ticket; or as this node read it last, with a new optimizer. `before`: the
     * history of what was read, `after`: that of what is held from now on. */
    void (*initial)(void *ctx, unsigned range);
    void (*restore)(void *ctx, unsigned range, uint64_t before, uint64_t after);
    /* Of a snapshot: a copy of a range, as in `adopt`, with its count and history; it also is what was read last. Then,
     * when all have come: these tickets are done, save it. The trainer computes nothing meanwhile. NULL: nobody saves.
     * Before `save` the keeper is asked, again and again, whether what it was told so far is on the disk. NULL: yes. So
     * when it is told anything after `save`, that of all members is, or some went without. */
    void (*save_range)(void *ctx, unsigned range, const void *copy, uint64_t taken,
                       uint64_t history);
    bool (*synced)(void *ctx);
    void (*save)(void *ctx, uint64_t tickets);
    /* trainer->commit follows: all ranges were read, and all tickets are in them. */
    void (*end)(void *ctx, const uint64_t *history);
};

/* What a checkpoint says of the ranges. The trainer holds them as of then when the core begins. */
struct push_saved {
    uint64_t tickets;          /* all below are done */
    uint64_t *taken, *history; /* [ranges] */
};

struct push_config {
    const struct push_keeper *keeper;
    void *keeper_ctx;
    uint64_t tickets;               /* of the run; 1.. */
    unsigned per_step;              /* tickets of a step; 1.. */
    uint64_t bound;                 /* of staleness, in steps; PUSH_UNBOUND: none */
    unsigned group;                 /* gradients of an update; 1.. */
    unsigned servers;               /* members that own ranges; 0: all */
    unsigned range_count;           /* 1..PUSH_RANGES_MAX */
    const struct push_size *size;   /* [range_count]; borrowed */
    uint64_t first;                 /* ticket of the run: those before were done by another one */
    uint64_t save_every;            /* steps; 0: by time */
    const struct push_saved *saved; /* begin with this, or NULL. Borrowed until core_on_applied */
};

#endif

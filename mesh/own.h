/* own.h - what the trainer is doing, what is in `own`, and which memory is still being sent.
 *
 *     START --applied--> FREE --compute--> COMPUTING --last bucket--> FREE
 *                         |  --commit---> COMMITTING --applied-----> FREE (next round)
 *                         |  --adopt----> ADOPTING --applied, bad--> FREE
 *                         |  --probe----> PROBING --answer---------> FREE
 *
 *     any --damaged, or doubted (doubt.h)--> DAMAGED --applied, an older state--> FREE
 *
 * `own` keeps the sum of this node's shards until the round is applied, through any number of plans: a
 * new plan that asks for more computes only what is missing, one that takes a shard away has all
 * computed again (shards cannot be subtracted one by one). Nobody writes to `own` while sends from it are in
 * flight.
 *
 * While FREE, the trainer may borrow buckets of `sum` that are final already and work ahead with them. A new
 * plan does not write to `sum` while it has one. */
#ifndef MESH_OWN_H
#define MESH_OWN_H

#include "mesh/core.h"

enum own_state {
    OWN_START,
    OWN_FREE,
    OWN_COMPUTING,
    OWN_COMMITTING,
    OWN_ADOPTING,
    OWN_PROBING,
    OWN_DAMAGED,
};

enum {
    OWN_DRAIN_US = 20000,       /* sends to suspected peers that block a new plan: drop the peers */
    OWN_DRAIN_ALL_US = 1000000, /* sends that block it although nobody is suspected: drop all */
};

struct own {
    enum own_state state;
    bool filled;        /* own[] is the sum over `has` for core->round; false: rubbish */
    uint64_t has;       /* shards in it */
    uint64_t computing; /* shards being added */
    size_t ready;       /* buckets of own[] that hold has | computing */
    unsigned in_flight; /* bodies lent */
    bool waiting;       /* in this event, for sends to be over */
    bool blocked;       /* it did so in the last event, too, since */
    uint64_t blocked_at_us;
    uint64_t moved_at_us;   /* awake; the trainer was last asked for something, or got on with it */
    uint64_t compute_at_us; /* now */
    bool lent;              /* the trainer reads a part of sum */
    uint64_t lent_at_us;    /* now */
    uint64_t ahead_us;      /* it worked ahead for the next round, and */
    uint64_t saved_us;      /* for this one: counts as computing */
    uint64_t compute_us;    /* how long the last one took */
    uint32_t speed;         /* shards per 1e6 seconds of one shard: see proto_heartbeat */
};

void own_init(struct core *core);
/* The trainer is about to be asked for something. */
void own_ask(struct core *core, enum own_state state);
/* Start computing, tell the ring what is ready, commit: whatever is possible now. */
void own_step(struct core *core);
void own_tick(struct core *core);
void own_bucket(struct core *core, size_t bucket);
bool own_lend(struct core *core, size_t *bucket);
void own_returned(struct core *core);
void own_applied(struct core *core);
/* The trainer's state counts no more, nor what it was doing with it. */
void own_damaged(struct core *core, const char *why);
/* Shards of core->round that are in own[] or on their way into it. */
uint64_t own_have(const struct core *core);
/* How long the trainer has not got on with what it was asked for; 0 when it has nothing to do. */
uint64_t own_busy_us(const struct core *core);
/* May the state be read, and a plan be adopted? */
bool own_settled(const struct core *core);

#endif

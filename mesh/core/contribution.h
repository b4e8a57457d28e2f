/* contribution.h - what the trainer is doing, what is in `own`, and which memory is still being sent.
 *
 *     START --applied--> FREE --compute--> COMPUTING --last bucket--> FREE
 *                         |  --commit---> COMMITTING --applied-----> FREE (next round)
 *                         |  --adopt----> ADOPTING --applied, bad--> FREE
 *                         |  --audit----> AUDITING --answer---------> FREE
 *
 *     any --damaged, or outvoted (divergence.h)--> DAMAGED --applied, an older state--> FREE
 *
 * `own` keeps the sum of this node's shards until the round is applied, through any number of plans. If a new plan
 * adds shards, only these are computed. If it takes a shard away, all are computed again, because shards cannot be
 * subtracted one by one. Nobody writes to `own` while parts of it are being sent.
 *
 * While FREE, the trainer may borrow buckets of `sum` that are already final and work ahead with them. A new plan
 * does not write to `sum` while the trainer has a bucket. */
#ifndef MESH_CONTRIBUTION_H
#define MESH_CONTRIBUTION_H

#include "mesh/core/core.h"

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
    /* sends to suspected peers that block a new plan: drop these peers after this time */
    CONTRIBUTION_DRAIN_US = 20000,
    /* sends that block a new plan although nobody is suspected: drop all peers after this time */
    CONTRIBUTION_DRAIN_ALL_US = 1000000,
};

struct contribution {
    enum trainer_state state;
    bool filled;        /* own[] is the sum of `has` for core->round; false: own[] is invalid */
    uint64_t has;       /* the shards in own[] */
    uint64_t computing; /* the shards being added */
    size_t ready;       /* number of buckets of own[] that contain has | computing */
    unsigned in_flight; /* bodies that are lent */
    bool waiting;       /* in this event, the core waits for the end of sends */
    bool blocked;       /* it did in the last event, too; since then */
    uint64_t blocked_at_us;
    uint64_t moved_at_us;   /* awake; when the trainer got its last task, or last made progress */
    uint64_t compute_at_us; /* now */
    uint64_t commit_at_us;  /* now; when the trainer got a total that it has not applied; 0: none */
    bool lent;              /* the trainer reads a part of sum */
    uint64_t lent_at_us;    /* now */
    uint64_t ahead_us;      /* the trainer worked ahead for the next round; for this long */
    uint64_t saved_us;      /* the same for this round; counts as computing */
    uint64_t compute_us;    /* time of the last compute */
    uint32_t speed;         /* shards per 1e6 seconds of one shard: see proto_heartbeat */
};

void contribution_init(struct core *core);
/* The trainer is about to get a task. */
void contribution_ask(struct core *core, enum trainer_state state);
/* Does whatever is possible now: start computing, tell the ring which buckets are ready, commit. */
void contribution_step(struct core *core);
void contribution_tick(struct core *core);
void contribution_bucket(struct core *core, size_t bucket);
bool contribution_lend(struct core *core, size_t *bucket);
void contribution_returned(struct core *core);
void contribution_applied(struct core *core);
/* The trainer's state and its present task are void. */
void contribution_damaged(struct core *core, const char *why);
/* The trainer waited for a processor for so long. */
void contribution_starved(struct core *core, uint64_t us);
/* Shards of core->round that are in own[] or being added to it. */
uint64_t contribution_have(const struct core *core);
/* How long the trainer has made no progress with its task; 0 when it has no task. */
uint64_t contribution_busy_us(const struct core *core);
/* May the core read the state and adopt a plan now? */
bool contribution_settled(const struct core *core);

#endif

/* trainer.h - what the trainer does, since when, and how fast it is.
 *
 *     START --applied--> FREE --compute--> COMPUTING --last bucket--> FREE
 *                         |  --commit---> COMMITTING --applied-----> FREE (next round)
 *                         |  --adopt----> ADOPTING --applied, bad--> FREE
 *                         |  --audit----> AUDITING --answer--------> FREE
 *
 *     any --damaged, or outvoted (divergence.h)--> DAMAGED --applied, an older state--> FREE
 *
 * While it is FREE, the trainer may borrow buckets of `sum` that are already final, and compute the next state from
 * them. */
#ifndef MESH_TRAINER_H
#define MESH_TRAINER_H

#include <assert.h>

#include "mesh/core/sessions/clock.h"

struct core;

enum trainer_state {
    TRAINER_START,
    TRAINER_FREE,
    TRAINER_COMPUTING,
    TRAINER_COMMITTING,
    TRAINER_ADOPTING,
    TRAINER_AUDITING,
    TRAINER_DAMAGED,
};

struct trainer {
    enum trainer_state state;
    struct awake moved_at; /* when the trainer got its last task, or last made progress */
    struct wall compute_at;
    struct wall commit_at; /* when the trainer got a total that it has not applied; 0: none */
    bool lent;             /* the trainer reads a part of sum */
    struct wall lent_at;
    uint64_t ahead_us;   /* computing for the next round so far, with borrowed buckets */
    uint64_t saved_us;   /* the same for this round; counts as computing */
    uint64_t compute_us; /* time of the last compute */
    uint32_t speed;      /* shards per 1e6 seconds of one shard: see proto_heartbeat */
};

/* The trainer is about to get a task. */
void trainer_ask(struct trainer *trainer, const struct core *core, enum trainer_state state);
void trainer_ask_compute(struct trainer *trainer, const struct core *core);
void trainer_ask_commit(struct trainer *trainer, const struct core *core);
/* It has computed so many shards, all that it was asked for. */
void trainer_computed(struct trainer *trainer, const struct core *core, unsigned shards);
/* So much work, 10^6 for a shard of the whole model, took so long. */
void trainer_measured(struct trainer *trainer, uint64_t us, uint64_t work);
/* The trainer borrows a part of sum, or gives it back. */
void trainer_lend(struct trainer *trainer, const struct core *core);
void trainer_returned(struct trainer *trainer, const struct core *core);
/* It waited for a processor for `us`: that is no sign that it hangs. */
void trainer_starved(struct trainer *trainer, const struct core *core, uint64_t us);
/* The task that changes its state is over, whatever came of it: the next round begins, or this one again. */
void trainer_begins(struct trainer *trainer);
/* Its state and its present task are void. */
void trainer_damaged(struct trainer *trainer);

/* It has answered, and its state is the one that it had. */
static inline void
trainer_answered(struct trainer *trainer, enum trainer_state task)
{
    assert(trainer->state == task);
    trainer->state = TRAINER_FREE;
}

/* It has made progress. */
static inline void
trainer_moves(struct trainer *trainer, struct awake now)
{
    trainer->moved_at = now;
}

/* May the core read the state and adopt a plan now? */
static inline bool
trainer_settled(const struct trainer *trainer)
{
    return trainer->state == TRAINER_FREE || trainer->state == TRAINER_COMPUTING ||
           trainer->state == TRAINER_AUDITING;
}

/* How long it has made no progress with its task; 0 when it has no task. */
uint64_t trainer_busy_us(const struct trainer *trainer, struct awake now);

#endif

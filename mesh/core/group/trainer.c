/* trainer.c - see trainer.h for the states. */
#include "mesh/core/group/trainer.h"

#include "mesh/core/internal.h"

void
trainer_ask(struct trainer *trainer, const struct core *core, enum trainer_state state)
{
    assert(trainer->state == TRAINER_FREE);
    trainer->state = state;
    trainer->moved_at = core->awake;
}

void
trainer_ask_compute(struct trainer *trainer, const struct core *core)
{
    trainer_ask(trainer, core, TRAINER_COMPUTING);
    trainer->compute_at = core->now;
}

void
trainer_ask_commit(struct trainer *trainer, const struct core *core)
{
    trainer_ask(trainer, core, TRAINER_COMMITTING);
    trainer->commit_at = core->now;
}

/* A moving average of shards per time. */
static void
measure_speed(struct trainer *trainer, uint64_t work)
{
    uint64_t speed = 1000000 * work / (trainer->compute_us + 1);
    if (speed > PEERS_SPEED_MAX)
        speed = PEERS_SPEED_MAX;
    trainer->speed = trainer->speed == 0 ? (uint32_t)speed
                                         : (uint32_t)((3 * (uint64_t)trainer->speed + speed) / 4);
    if (trainer->speed == 0)
        trainer->speed = 1;
}

void
trainer_computed(struct trainer *trainer, const struct core *core, unsigned shards)
{
    trainer->compute_us = wall_since(core->now, trainer->compute_at) + trainer->saved_us;
    trainer->saved_us = 0;
    if (shards > 0)
        measure_speed(trainer, UINT64_C(1000000) * shards);
    trainer_answered(trainer, TRAINER_COMPUTING);
}

void
trainer_measured(struct trainer *trainer, uint64_t us, uint64_t work)
{
    trainer->compute_us = us;
    measure_speed(trainer, work);
}

void
trainer_lend(struct trainer *trainer, const struct core *core)
{
    assert(trainer->state == TRAINER_FREE && !trainer->lent);
    trainer->lent = true;
    trainer->lent_at = core->now;
    trainer->moved_at = core->awake;
}

void
trainer_returned(struct trainer *trainer, const struct core *core)
{
    assert(trainer->lent);
    trainer->lent = false;
    trainer->moved_at = core->awake;
    trainer->ahead_us += wall_since(core->now, trainer->lent_at);
}

/* Time does not run for a trainer that waits for a processor, but never backwards. */
void
trainer_starved(struct trainer *trainer, const struct core *core, uint64_t us)
{
    uint64_t still_us = awake_since(core->awake, trainer->moved_at);
    trainer->moved_at = awake_after(trainer->moved_at, us < still_us ? us : still_us);
}

void
trainer_begins(struct trainer *trainer)
{
    assert(trainer->state != TRAINER_COMPUTING && trainer->state != TRAINER_FREE);
    trainer->state = TRAINER_FREE;
    trainer->commit_at.us = 0;
    trainer->saved_us = trainer->ahead_us;
    trainer->ahead_us = 0;
}

void
trainer_damaged(struct trainer *trainer)
{
    trainer->state = TRAINER_DAMAGED;
}

uint64_t
trainer_busy_us(const struct trainer *trainer, struct awake now)
{
    bool asked = trainer->state == TRAINER_COMPUTING || trainer->state == TRAINER_COMMITTING ||
                 trainer->state == TRAINER_ADOPTING || trainer->state == TRAINER_AUDITING ||
                 trainer->lent;
    return asked ? awake_since(now, trainer->moved_at) + 1 : 0;
}

/* contribution.c - see contribution.h for the states and the rules about memory. */
#include "mesh/core/contribution.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"

void
contribution_init(struct core *core)
{
    core->contribution = (struct contribution){.state = TRAINER_START};
}

void
contribution_ask(struct core *core, enum trainer_state state)
{
    core->contribution.state = state;
    core->contribution.moved_at_us = core->awake;
}

uint64_t
contribution_have(const struct core *core)
{
    const struct contribution *own = &core->contribution;
    if (own->state == TRAINER_COMPUTING)
        return own->has | own->computing;
    return own->filled ? own->has : 0;
}

bool
contribution_settled(const struct core *core)
{
    return core->contribution.state == TRAINER_FREE ||
           core->contribution.state == TRAINER_COMPUTING ||
           core->contribution.state == TRAINER_AUDITING;
}

uint64_t
contribution_busy_us(const struct core *core)
{
    const struct contribution *own = &core->contribution;
    bool asked = own->state == TRAINER_COMPUTING || own->state == TRAINER_COMMITTING ||
                 own->state == TRAINER_ADOPTING || own->state == TRAINER_AUDITING || own->lent;
    return asked ? core->awake - own->moved_at_us + 1 : 0;
}

/* Time does not run for a trainer that waits for a processor, but never backwards. */
void
contribution_starved(struct core *core, uint64_t us)
{
    struct contribution *own = &core->contribution;
    uint64_t still_us = core->awake - own->moved_at_us;
    own->moved_at_us += us < still_us ? us : still_us;
}

/* May own[] be rewritten, of which `in_flight` sends are under way? */
static bool
drained(struct core *core)
{
    struct contribution *own = &core->contribution;
    if (own->in_flight == 0 || core_mutant(MUTANT_SENT))
        return true;
    if (!own->blocked)
        own->blocked_at_us = core->awake;
    own->waiting = true;
    return false;
}

/* Contribute nothing: only zeros. The trainer is not needed for it. */
static void
own_zero(struct core *core)
{
    for (size_t b = core->first_bucket; b < core->config.bucket_count; b++)
        memset(core->config.own + core->buckets[b].first, 0,
               core->buckets[b].count * sizeof *core->config.own);
    core->contribution.filled = true;
    core->contribution.has = 0;
    core->contribution.ready = core->config.bucket_count;
}

static void
own_compute(struct core *core, uint64_t need)
{
    struct contribution *own = &core->contribution;
    bool extra = (own->has & ~need) != 0 && !core_mutant(MUTANT_FRESH);
    bool fresh = !own->filled || own->has == 0 || extra;
    if (fresh)
        own->has = 0;
    own->computing = need & ~own->has;
    own->ready = core->first_bucket;
    contribution_ask(core, TRAINER_COMPUTING);
    own->filled = true;
    own->compute_at_us = core->now;
    core->ops.compute(core->ctx, core->round, own->computing, fresh);
}

/* Bring own[] to exactly `need`, or tell the ring how far it is. */
static void
own_fill(struct core *core, uint64_t need)
{
    struct contribution *own = &core->contribution;
    if (own->state == TRAINER_FREE && !(own->filled && own->has == need)) {
        if (core_mutant(MUTANT_FRESH) && own->filled && (need & ~own->has) == 0)
            own->has = need;
        else if (!drained(core))
            return;
        else if (need == 0)
            own_zero(core);
        else
            own_compute(core, need);
    }
    if (own->lent && !core_mutant(MUTANT_LENT))
        return; /* sum is written from here on */
    if (!contribution_settled(core) || contribution_have(core) != need)
        return;
    size_t all = core->config.bucket_count;
    size_t end = own->state == TRAINER_COMPUTING ? own->ready : all;
    ring_ready(core->ring,
               end == all && audit_holds(&core->audit, &core->plan, core->round) ? all - 1 : end);
}

void
contribution_step(struct core *core)
{
    struct contribution *own = &core->contribution;
    own->waiting = false;
    if (core->plan.active && contribution_settled(core) &&
        ring_status(core->ring) == RING_RUNNING) {
        own_fill(core, plan_mine(core));
    }
    own->blocked = own->waiting;
    if (!core->plan.active || !contribution_settled(core) || ring_status(core->ring) != RING_FINAL)
        return;
    assert(own->state == TRAINER_FREE);
    contribution_ask(core, TRAINER_COMMITTING);
    serve_finish(&core->serve, core);
    own->commit_at_us = core->now;
    core->shared += core->plan.now.count > 1;
    core->ops.commit(core->ctx, core->round);
}

/* A peer that does not read keeps our memory busy: without its session, the shell returns it. */
void
contribution_tick(struct core *core)
{
    struct contribution *own = &core->contribution;
    if (!own->blocked)
        return;
    uint64_t waited_us = core->awake - own->blocked_at_us;
    for (int i = 0; i < PEERS_MAX; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        if (peer->state == PEER_UP && ((waited_us > CONTRIBUTION_DRAIN_US && heard->suspected) ||
                                       waited_us > CONTRIBUTION_DRAIN_ALL_US))
            peers_drop(core, i, REPORT_SILENT, "does not take what we send");
    }
    if (waited_us > CONTRIBUTION_DRAIN_ALL_US)
        own->blocked_at_us = core->awake;
}

static void
own_computed(struct core *core)
{
    struct contribution *own = &core->contribution;
    unsigned shards = (unsigned)__builtin_popcountll(own->computing);
    own->compute_us = core->now - own->compute_at_us + own->saved_us;
    own->saved_us = 0;
    if (shards > 0) {
        uint64_t speed = 1000000ull * 1000000 * shards / (own->compute_us + 1);
        if (speed > PEERS_SPEED_MAX)
            speed = PEERS_SPEED_MAX;
        own->speed =
            own->speed == 0 ? (uint32_t)speed : (uint32_t)((3 * (uint64_t)own->speed + speed) / 4);
        if (own->speed == 0)
            own->speed = 1;
    }
    own->has |= own->computing;
    own->computing = 0;
    own->state = TRAINER_FREE;
}

void
contribution_bucket(struct core *core, size_t bucket)
{
    struct contribution *own = &core->contribution;
    assert(own->state == TRAINER_COMPUTING);
    assert(bucket < core->config.bucket_count);
    assert(bucket + 1 > own->ready || bucket < core->first_bucket);
    if (bucket < core->first_bucket)
        return;
    own->ready = bucket + 1;
    own->moved_at_us = core->awake;
    plan_progress(core);
    if (own->ready == core->config.bucket_count)
        own_computed(core);
}

bool
contribution_lend(struct core *core, size_t *bucket)
{
    struct contribution *own = &core->contribution;
    if (own->lent || own->state != TRAINER_FREE || !core->plan.active ||
        !ring_final(core->ring, bucket))
        return false;
    own->lent = true;
    own->lent_at_us = core->now;
    own->moved_at_us = core->awake;
    return true;
}

void
contribution_returned(struct core *core)
{
    struct contribution *own = &core->contribution;
    assert(own->lent);
    own->lent = false;
    own->moved_at_us = core->awake;
    own->ahead_us += core->now - own->lent_at_us;
}

void
contribution_applied(struct core *core)
{
    struct contribution *own = &core->contribution;
    assert(own->state != TRAINER_COMPUTING && own->state != TRAINER_FREE);
    own->state = TRAINER_FREE;
    own->filled = false;
    own->has = 0;
    own->computing = 0;
    own->saved_us = own->ahead_us;
    own->ahead_us = 0;
}

void
contribution_damaged(struct core *core, const char *why)
{
    struct contribution *own = &core->contribution;
    own->state = TRAINER_DAMAGED;
    own->filled = false;
    own->has = own->computing = 0;
    core->state_hash = 0;
    core->done = false;
    core->damages++;
    serve_reset(&core->serve, core);
    fetch_reset(&core->fetch, core);
    plan_abort(core, why);
    heartbeat_send(core);
}

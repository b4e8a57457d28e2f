/* own.c - see own.h for the states and the rules about memory. */
#include "mesh/core/own.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/inside.h"

void
own_init(struct core *core)
{
    core->own = (struct own){.state = OWN_START};
}

void
own_ask(struct core *core, enum own_state state)
{
    core->own.state = state;
    core->own.moved_at_us = core->awake;
}

uint64_t
own_have(const struct core *core)
{
    const struct own *own = &core->own;
    if (own->state == OWN_COMPUTING)
        return own->has | own->computing;
    return own->filled ? own->has : 0;
}

bool
own_settled(const struct core *core)
{
    return core->own.state == OWN_FREE || core->own.state == OWN_COMPUTING ||
           core->own.state == OWN_PROBING;
}

uint64_t
own_busy_us(const struct core *core)
{
    const struct own *own = &core->own;
    bool asked = own->state == OWN_COMPUTING || own->state == OWN_COMMITTING ||
                 own->state == OWN_ADOPTING || own->state == OWN_PROBING || own->lent;
    return asked ? core->awake - own->moved_at_us + 1 : 0;
}

/* Time does not run for a trainer that waits for a processor, but never backwards. */
void
own_starved(struct core *core, uint64_t us)
{
    struct own *own = &core->own;
    uint64_t still_us = core->awake - own->moved_at_us;
    own->moved_at_us += us < still_us ? us : still_us;
}

/* May own[] be rewritten, of which `in_flight` sends are under way? */
static bool
drained(struct core *core)
{
    struct own *own = &core->own;
    if (own->in_flight == 0 || core_mutant(core, MUTANT_SENT))
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
    core->own.filled = true;
    core->own.has = 0;
    core->own.ready = core->config.bucket_count;
}

static void
own_compute(struct core *core, uint64_t need)
{
    struct own *own = &core->own;
    bool extra = (own->has & ~need) != 0 && !core_mutant(core, MUTANT_FRESH);
    bool fresh = !own->filled || own->has == 0 || extra;
    if (fresh)
        own->has = 0;
    own->computing = need & ~own->has;
    own->ready = core->first_bucket;
    own_ask(core, OWN_COMPUTING);
    own->filled = true;
    own->compute_at_us = core->now;
    core->ops.compute(core->ctx, core->round, own->computing, fresh);
}

/* Bring own[] to exactly `need`, or tell the ring how far it is. */
static void
own_fill(struct core *core, uint64_t need)
{
    struct own *own = &core->own;
    if (own->state == OWN_FREE && !(own->filled && own->has == need)) {
        if (core_mutant(core, MUTANT_FRESH) && own->filled && (need & ~own->has) == 0)
            own->has = need;
        else if (!drained(core))
            return;
        else if (need == 0)
            own_zero(core);
        else
            own_compute(core, need);
    }
    if (own->lent && !core_mutant(core, MUTANT_LENT))
        return; /* sum is written from here on */
    if (!own_settled(core) || own_have(core) != need)
        return;
    size_t all = core->config.bucket_count;
    size_t end = own->state == OWN_COMPUTING ? own->ready : all;
    ring_ready(core->ring, end == all && probe_holds(core) ? all - 1 : end);
}

void
own_step(struct core *core)
{
    struct own *own = &core->own;
    own->waiting = false;
    if (core->plan.active && own_settled(core) && ring_status(core->ring) == RING_RUNNING) {
        own_fill(core, plan_mine(core));
    }
    own->blocked = own->waiting;
    if (!core->plan.active || !own_settled(core) || ring_status(core->ring) != RING_FINAL)
        return;
    assert(own->state == OWN_FREE);
    own_ask(core, OWN_COMMITTING);
    serve_finish(core);
    pace_commit(core);
    core->shared += core->plan.now.count > 1;
    core->ops.commit(core->ctx, core->round);
}

/* A peer that does not read keeps our memory busy: without its session, the shell returns it. */
void
own_tick(struct core *core)
{
    struct own *own = &core->own;
    if (!own->blocked)
        return;
    uint64_t waited_us = core->awake - own->blocked_at_us;
    for (int i = 0; i < PEERS_MAX; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state == PEER_UP &&
            ((waited_us > OWN_DRAIN_US && peer->suspected) || waited_us > OWN_DRAIN_ALL_US))
            peers_drop(core, i, REPORT_SILENT, "does not take what we send");
    }
    if (waited_us > OWN_DRAIN_ALL_US)
        own->blocked_at_us = core->awake;
}

static void
own_computed(struct core *core)
{
    struct own *own = &core->own;
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
    own->state = OWN_FREE;
}

void
own_bucket(struct core *core, size_t bucket)
{
    struct own *own = &core->own;
    assert(own->state == OWN_COMPUTING);
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
own_lend(struct core *core, size_t *bucket)
{
    struct own *own = &core->own;
    if (own->lent || own->state != OWN_FREE || !core->plan.active ||
        !ring_final(core->ring, bucket))
        return false;
    own->lent = true;
    own->lent_at_us = core->now;
    own->moved_at_us = core->awake;
    return true;
}

void
own_returned(struct core *core)
{
    struct own *own = &core->own;
    assert(own->lent);
    own->lent = false;
    own->moved_at_us = core->awake;
    own->ahead_us += core->now - own->lent_at_us;
}

void
own_applied(struct core *core)
{
    struct own *own = &core->own;
    assert(own->state != OWN_COMPUTING && own->state != OWN_FREE);
    own->state = OWN_FREE;
    own->filled = false;
    own->has = 0;
    own->computing = 0;
    own->saved_us = own->ahead_us;
    own->ahead_us = 0;
}

void
own_damaged(struct core *core, const char *why)
{
    struct own *own = &core->own;
    own->state = OWN_DAMAGED;
    own->filled = false;
    own->has = own->computing = 0;
    core->state_hash = 0;
    core->done = false;
    core->damages++;
    serve_reset(core);
    fetch_reset(core);
    plan_abort(core, why);
    heartbeat_send(core);
}

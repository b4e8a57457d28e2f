/* contribution.c - see contribution.h for the states and the rules about memory. */
#include "mesh/core/group/contribution.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"

void
contribution_ask(struct contribution *own, const struct core *core, enum trainer_state state)
{
    assert(own->state == TRAINER_FREE);
    own->state = state;
    own->moved_at = core->awake;
}

/* Time does not run for a trainer that waits for a processor, but never backwards. */
void
contribution_starved(struct contribution *own, const struct core *core, uint64_t us)
{
    uint64_t still_us = awake_since(core->awake, own->moved_at);
    own->moved_at = awake_after(own->moved_at, us < still_us ? us : still_us);
}

bool
contribution_writable(struct contribution *own, const struct core *core)
{
    bool blocked = own->in_flight > 0 && !mutant(MUTANT_SENT);
    if (blocked && !own->blocked)
        own->blocked_at = core->awake;
    own->blocked = blocked;
    return !blocked;
}

/* Contribute nothing: only zeros. The trainer is not needed for it. */
static void
fill_zeros(struct contribution *own, const struct core *core)
{
    for (size_t b = core->first_bucket; b < core->config.bucket_count; b++)
        memset(core->config.own + core->buckets[b].first, 0,
               core->buckets[b].count * sizeof *core->config.own);
    own->filled = true;
    own->has = 0;
    own->ready = core->config.bucket_count;
}

static void
ask_compute(struct contribution *own, const struct core *core, uint64_t need)
{
    bool extra = (own->has & ~need) != 0 && !mutant(MUTANT_FRESH);
    bool fresh = !own->filled || own->has == 0 || extra;
    if (fresh)
        own->has = 0;
    own->computing = need & ~own->has;
    own->ready = core->first_bucket;
    contribution_ask(own, core, TRAINER_COMPUTING);
    own->filled = true;
    own->compute_at = core->now;
    core->config.trainer->compute(
        core->config.trainer_ctx,
        &(struct core_task){.round = core->round, .shards = own->computing, .fresh = fresh});
}

size_t
contribution_fill(struct contribution *own, const struct core *core, uint64_t need)
{
    own->by_pieces = 0;
    if (own->piece)
        return 0;
    bool changes = own->state == TRAINER_FREE && !(own->filled && own->has == need);
    own->blocked = own->blocked && changes;
    if (changes) {
        if (mutant(MUTANT_FRESH) && own->filled && (need & ~own->has) == 0)
            own->has = need;
        else if (!contribution_writable(own, core))
            return 0;
        else if (need == 0)
            fill_zeros(own, core);
        else
            ask_compute(own, core, need);
    }
    if (own->lent && !mutant(MUTANT_LENT))
        return 0; /* sum is written from here on */
    if (!contribution_settled(own) || contribution_have(own) != need)
        return 0;
    return own->state == TRAINER_COMPUTING ? own->ready : core->config.bucket_count;
}

struct share
contribution_keeps(const struct contribution *own, bool pinned, uint64_t segments)
{
    const struct share now = {contribution_have(own), own->by_pieces ? own->pieces_of : segments};
    if (!pinned || mutant(MUTANT_PIN))
        return now;
    return mutant(MUTANT_PIN_STAGE) ? (struct share){own->before.shards, segments} : own->before;
}

/* All that was computed of the round. */
static struct share
in_own(const struct contribution *own, const struct core *core)
{
    if (own->by_pieces)
        return (struct share){own->pieces_all ? own->by_pieces : 0, own->pieces_of};
    return (struct share){own->filled ? own->has : 0, core_segments(&core->config.stages)};
}

void
contribution_commit(struct contribution *own, const struct core *core)
{
    contribution_ask(own, core, TRAINER_COMMITTING);
    own->applying = in_own(own, core);
    own->commit_at = core->now;
    core->config.trainer->commit(core->config.trainer_ctx, core->round);
}

void
contribution_follow(struct contribution *own, const struct core *core)
{
    contribution_ask(own, core, TRAINER_COMMITTING);
    own->applying = in_own(own, core);
}

uint64_t
contribution_blockers(struct contribution *own, const struct core *core)
{
    uint64_t waited_us = awake_since(core->awake, own->blocked_at), peers = 0;
    if (!own->blocked)
        return 0;
    for (int i = 0; i < PEERS_MAX; i++) {
        bool slow = (waited_us > CONTRIBUTION_DRAIN_US && core->view.of[i].suspected) ||
                    waited_us > CONTRIBUTION_DRAIN_ALL_US;
        if (core->peers.peers[i].state == PEER_UP && slow)
            peers |= UINT64_C(1) << i;
    }
    if (waited_us > CONTRIBUTION_DRAIN_ALL_US)
        own->blocked_at = core->awake;
    return peers;
}

/* A moving average of shards per time. `work`: 10^6 for each. */
static void
measure_speed(struct contribution *own, uint64_t work)
{
    uint64_t speed = 1000000 * work / (own->compute_us + 1);
    if (speed > PEERS_SPEED_MAX)
        speed = PEERS_SPEED_MAX;
    own->speed =
        own->speed == 0 ? (uint32_t)speed : (uint32_t)((3 * (uint64_t)own->speed + speed) / 4);
    if (own->speed == 0)
        own->speed = 1;
}

static void
compute_done(struct contribution *own, const struct core *core)
{
    unsigned shards = (unsigned)__builtin_popcountll(own->computing);
    own->compute_us = wall_since(core->now, own->compute_at) + own->saved_us;
    own->saved_us = 0;
    if (shards > 0)
        measure_speed(own, UINT64_C(1000000) * shards);
    own->has |= own->computing;
    own->computing = 0;
    own->state = TRAINER_FREE;
}

void
contribution_by_pieces(struct contribution *own, uint64_t shards, uint64_t of)
{
    assert(own->state == TRAINER_FREE);
    own->filled = false;
    own->has = own->computing = 0;
    own->by_pieces = shards;
    own->pieces_of = of;
    own->pieces_all = false;
}

void
contribution_piece(struct contribution *own, const struct core *core)
{
    contribution_ask(own, core, TRAINER_COMPUTING);
    own->piece = true;
}

void
contribution_piece_done(struct contribution *own, const struct core *core)
{
    contribution_answered(own, TRAINER_COMPUTING);
    own->piece = false;
    own->moved_at = core->awake;
}

void
contribution_pieces_done(struct contribution *own, uint64_t us, uint64_t work)
{
    own->pieces_all = true;
    own->compute_us = us;
    measure_speed(own, work);
}

bool
contribution_bucket(struct contribution *own, const struct core *core, size_t bucket)
{
    assert(own->state == TRAINER_COMPUTING);
    assert(bucket < core->config.bucket_count);
    assert(bucket + 1 > own->ready || bucket < core->first_bucket);
    if (bucket < core->first_bucket)
        return false;
    own->ready = bucket + 1;
    own->moved_at = core->awake;
    if (own->ready == core->config.bucket_count)
        compute_done(own, core);
    return true;
}

void
contribution_lend(struct contribution *own, const struct core *core)
{
    assert(own->state == TRAINER_FREE && !own->lent);
    own->lent = true;
    own->lent_at = core->now;
    own->moved_at = core->awake;
}

void
contribution_returned(struct contribution *own, const struct core *core)
{
    assert(own->lent);
    own->lent = false;
    own->moved_at = core->awake;
    own->ahead_us += wall_since(core->now, own->lent_at);
}

void
contribution_refused(struct contribution *own)
{
    assert(own->state != TRAINER_COMPUTING && own->state != TRAINER_FREE);
    own->state = TRAINER_FREE;
    own->filled = false;
    own->has = own->computing = own->by_pieces = 0;
    own->applying = (struct share){0};
    own->commit_at.us = 0;
    own->saved_us = own->ahead_us;
    own->ahead_us = 0;
}

void
contribution_applied(struct contribution *own)
{
    own->before = own->applying;
    contribution_refused(own);
}

bool
contribution_dropped(struct contribution *own, uint64_t round)
{
    own->drops = own->drops_round == round ? own->drops + 1 : 1;
    own->drops_round = round;
    bool again = own->drops % CONTRIBUTION_DROPS == 0;
    if (again && own->state == TRAINER_FREE) {
        own->filled = false;
        own->has = 0;
    }
    return again;
}

void
contribution_damaged(struct contribution *own)
{
    own->state = TRAINER_DAMAGED;
    own->filled = false;
    own->has = own->computing = own->by_pieces = 0;
    own->applying = own->before = (struct share){0};
    own->piece = false;
}

uint64_t
contribution_busy_us(const struct contribution *own, struct awake now)
{
    bool asked = own->state == TRAINER_COMPUTING || own->state == TRAINER_COMMITTING ||
                 own->state == TRAINER_ADOPTING || own->state == TRAINER_AUDITING || own->lent;
    return asked ? awake_since(now, own->moved_at) + 1 : 0;
}

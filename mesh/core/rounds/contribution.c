/* contribution.c - see contribution.h for the rules about memory. */
#include "mesh/core/rounds/contribution.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"

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
ask_compute(struct contribution *own, struct trainer *trainer, const struct core *core,
            uint64_t need)
{
    bool extra = (own->has & ~need) != 0 && !mutant(MUTANT_FRESH);
    bool fresh = !own->filled || own->has == 0 || extra;
    if (fresh)
        own->has = 0;
    own->computing = need & ~own->has;
    own->ready = core->first_bucket;
    own->filled = true;
    trainer_ask_compute(trainer, core);
    core->config.trainer->compute(
        core->config.trainer_ctx,
        &(struct core_task){.round = core->round, .shards = own->computing, .fresh = fresh});
}

size_t
contribution_fill(struct contribution *own, struct trainer *trainer, const struct core *core,
                  uint64_t need)
{
    own->by_pieces = 0;
    if (own->piece)
        return 0;
    bool changes = trainer->state == TRAINER_FREE && !(own->filled && own->has == need);
    own->blocked = own->blocked && changes;
    if (changes) {
        if (mutant(MUTANT_FRESH) && own->filled && (need & ~own->has) == 0)
            own->has = need;
        else if (!contribution_writable(own, core))
            return 0;
        else if (need == 0)
            fill_zeros(own, core);
        else
            ask_compute(own, trainer, core, need);
    }
    if (trainer->lent && !mutant(MUTANT_LENT))
        return 0; /* sum is written from here on */
    if (!trainer_settled(trainer) || contribution_have(own) != need)
        return 0;
    return trainer->state == TRAINER_COMPUTING ? own->ready : core->config.bucket_count;
}

struct keeps
contribution_keeps(const struct contribution *own, const struct core *core)
{
    const uint64_t segments = core_segments(&core->config.stages);
    const struct keeps now = {contribution_have(own),
                              own->by_pieces ? own->pieces_segments : segments};
    if (!core->pinned || mutant(MUTANT_PIN))
        return now;
    return mutant(MUTANT_PIN_STAGE) ? (struct keeps){own->before.shards, segments} : own->before;
}

/* All that was computed of the round. */
static struct keeps
in_own(const struct contribution *own, const struct core *core)
{
    if (own->by_pieces)
        return (struct keeps){own->pieces_all ? own->by_pieces : 0, own->pieces_segments};
    return (struct keeps){own->filled ? own->has : 0, core_segments(&core->config.stages)};
}

void
contribution_applies(struct contribution *own, const struct core *core)
{
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

void
contribution_by_pieces(struct contribution *own, const struct core *core, const struct keeps *keeps)
{
    assert(core->trainer.state == TRAINER_FREE);
    own->filled = false;
    own->has = own->computing = 0;
    own->by_pieces = keeps->shards;
    own->pieces_segments = keeps->segments;
    own->pieces_all = false;
}

void
contribution_piece(struct contribution *own)
{
    own->piece = true;
}

void
contribution_piece_done(struct contribution *own)
{
    assert(own->piece);
    own->piece = false;
}

void
contribution_pieces_done(struct contribution *own)
{
    own->pieces_all = true;
}

bool
contribution_bucket(struct contribution *own, struct trainer *trainer, const struct core *core,
                    size_t bucket)
{
    assert(trainer->state == TRAINER_COMPUTING);
    assert(bucket < core->config.bucket_count);
    assert(bucket + 1 > own->ready || bucket < core->first_bucket);
    if (bucket < core->first_bucket)
        return false;
    own->ready = bucket + 1;
    trainer_moves(trainer, core->awake);
    if (own->ready < core->config.bucket_count)
        return true;
    trainer_computed(trainer, core, (unsigned)__builtin_popcountll(own->computing));
    own->has |= own->computing;
    own->computing = 0;
    return true;
}

void
contribution_refused(struct contribution *own)
{
    own->filled = false;
    own->has = own->computing = own->by_pieces = 0;
    own->applying = (struct keeps){0};
}

void
contribution_applied(struct contribution *own)
{
    own->before = own->applying;
    contribution_refused(own);
}

bool
contribution_dropped(struct contribution *own, const struct core *core)
{
    own->drops = own->drops_round == core->round ? own->drops + 1 : 1;
    own->drops_round = core->round;
    bool again = own->drops % CONTRIBUTION_DROPS == 0;
    if (again && core->trainer.state == TRAINER_FREE) {
        own->filled = false;
        own->has = 0;
    }
    return again;
}

void
contribution_damaged(struct contribution *own)
{
    contribution_refused(own);
    own->before = (struct keeps){0};
    own->piece = false;
}

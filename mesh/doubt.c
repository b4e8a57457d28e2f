/* doubt.c - see doubt.h for what is done about it. */
#include "mesh/doubt.h"

#include "mesh/inside.h"

void
doubt_init(struct core *core)
{
    core->doubt = (struct doubt){.open = false};
}

static bool
differs(const struct core *core, int i)
{
    uint64_t claim = core->doubt.claim[i];
    return claim != 0 && core->state_hash != 0 && claim != core->state_hash;
}

bool
doubt_shuns(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    if (core_mutant(core, MUTANT_ODD))
        return false;
    if (peer->apart)
        return true;
    return peer->round > core->round ? peer->odd : peer->round == core->round && differs(core, i);
}

bool
doubt_wary(const struct core *core)
{
    return core->awake < core->doubt.wary_us;
}

/* May somebody be of another opinion, or, being ahead with a state that we do not trust, come back? */
static bool
awaited(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        bool here = peer->state == PEER_UP && !peer->suspected && !peer->apart;
        if (here && (peer->round > core->round || (core->doubt.untold >> i & 1)))
            return true;
    }
    return false;
}

bool
doubt_pending(const struct core *core)
{
    return core->doubt.open || (doubt_wary(core) && awaited(core));
}

/* --- What the others say ------------------------------------------------------------------------ */

/* Peers that say they hold the state of this hash before `round`. */
static unsigned
holders(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned count = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        count += peers_usable(core, i) && !peer->apart && peer->round == round &&
                 peer->state_hash == hash;
    }
    return count;
}

bool
doubt_trusts(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned same = holders(core, round, hash);
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        bool other = peers_usable(core, i) && !peer->apart && peer->round == round &&
                     peer->state_hash != 0 && peer->state_hash != hash;
        if (other && holders(core, round, peer->state_hash) >= same)
            return core_mutant(core, MUTANT_ODD);
    }
    return true;
}

/* Of two ahead who contradict one another neither is followed, also when only one of them is left there. */
static void
mark_ahead(struct core *core, const struct peer *news)
{
    if (doubt_trusts(core, news->round, news->state_hash))
        return;
    for (int i = 0; i < core->peers.high; i++) {
        struct peer *peer = &core->peers.peers[i];
        if (peers_usable(core, i) && peer->round == news->round && peer->state_hash != 0 &&
            !doubt_trusts(core, peer->round, peer->state_hash)) {
            peer->odd = true;
            peer->odd_round = peer->round;
        }
    }
}

void
doubt_beat(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    if (peer->round < peer->odd_round || peer->round < core->round)
        peer->odd = false; /* it has gone back, or is behind us */
    if (peer->state_hash == 0) {
        peer->tied = false;
        return;
    }
    core->doubt.untold &= ~(1ull << i);
    if (core->state_hash == 0)
        return;
    if (peer->round == core->round) {
        core->doubt.claim[i] = peer->apart ? 0 : peer->state_hash;
        peer->odd = differs(core, i);
        peer->odd_round = peer->round;
    } else if (peer->round > core->round) {
        mark_ahead(core, peer);
    }
}

void
doubt_chunk(struct core *core, int i, uint64_t state)
{
    struct peer *peer = &core->peers.peers[i];
    peer->round = core->round;
    peer->state_hash = state;
    doubt_beat(core, i);
}

void
doubt_forget(struct core *core, int i)
{
    core->doubt.claim[i] = 0;
    core->doubt.untold &= ~(1ull << i);
    core->peers.peers[i].tied = false;
}

void
doubt_applied(struct core *core)
{
    struct doubt *doubt = &core->doubt;
    doubt->since_us = 0;
    doubt->open = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        doubt->claim[i] = 0;
        if (peer->state == PEER_UP && peer->round == core->round)
            doubt_beat(core, i);
    }
}

/* --- The vote ---------------------------------------------------------------------------------- */

struct tally {
    unsigned same, other; /* nodes with our hash, and with the one that most others have */
    uint64_t hash;        /* which */
    bool all;             /* everybody has told theirs */
};

static unsigned
claims(const struct core *core, uint64_t hash)
{
    unsigned count = 0;
    for (int i = 0; i < core->peers.high; i++)
        count += core->doubt.claim[i] == hash;
    return count;
}

static struct tally
count_claims(const struct core *core)
{
    struct tally tally = {.same = 1 + claims(core, core->state_hash), .all = true};
    for (int i = 0; i < core->peers.high; i++) {
        uint64_t claim = core->doubt.claim[i];
        tally.all = tally.all && (claim != 0 || !peers_usable(core, i));
        unsigned count = differs(core, i) ? claims(core, claim) : 0;
        if (count > tally.other) {
            tally.other = count;
            tally.hash = claim;
        }
    }
    return tally;
}

static void
say(struct core *core, int i, const char *verdict)
{
    const struct peer *peer = &core->peers.peers[i];
    core_log(core, 3, "before round %llu peer %s:%u has the state %016llx, we %016llx: %s",
             (unsigned long long)core->round, peer->at.host, peer->at.control_port,
             (unsigned long long)core->doubt.claim[i], (unsigned long long)core->state_hash,
             verdict);
}

/* Not everybody agrees with us, but more than with anybody else. */
static void
outvote(struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        struct peer *peer = &core->peers.peers[i];
        if (!differs(core, i) || peer->outvoted == core->round + 1)
            continue;
        peer->outvoted = core->round + 1;
        say(core, i, "more nodes have ours; going on without it");
    }
}

/* Has it been one against one for too often in this round? Then we part. What it says before it has gone back, too,
 * is what it said the last time. */
static bool
parts(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    if (peer->tied_round != core->round)
        peer->ties = 0;
    else if (peer->tied)
        return false;
    peer->tied_round = core->round;
    peer->tied = true;
    if (++peer->ties < DOUBT_TIES)
        return false;
    say(core, i, "again and again; we compute different bits, and go separate ways");
    peer->apart = true;
    core->doubt.claim[i] = 0;
    return true;
}

static void
go_back(struct core *core, const struct tally *tally)
{
    bool tie = tally->other == tally->same, back = false;
    for (int i = 0; i < core->peers.high; i++) {
        if (!differs(core, i) || (tie && parts(core, i)))
            continue;
        bool wins = !tie && core->doubt.claim[i] == tally->hash;
        core->peers.peers[i].odd = !wins;
        core->peers.peers[i].odd_round = core->round;
        back = true;
        say(core, i, tie ? "as many have this one, so both go back" : "ours is wrong");
    }
    if (!back)
        return;
    uint64_t round = core->round;
    core->doubt.wary_us = 0; /* whom not to follow is known */
    own_damaged(core, "its members hold different states");
    core->ops.back(core->ctx, round);
}

static bool
member_odd(const struct core *core)
{
    for (size_t r = 0; core->plan.active && r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0 && doubt_shuns(core, core->plan.peer[r]))
            return true;
    return false;
}

void
doubt_step(struct core *core)
{
    struct doubt *doubt = &core->doubt;
    if (!own_settled(core) || core->state_hash == 0 || core_mutant(core, MUTANT_ODD))
        return;
    struct tally tally = count_claims(core);
    doubt->open = tally.other >= tally.same;
    if (tally.other == 0) {
        doubt->since_us = 0;
        return;
    }
    if (doubt->since_us == 0)
        doubt->since_us = core->awake;
    if (doubt->open || member_odd(core))
        plan_differ(core);
    if (!doubt->open)
        outvote(core);
    else if ((tally.all || core->awake - doubt->since_us >= DOUBT_GRACE_US) &&
             core->own.state == OWN_FREE)
        go_back(core, &tally);
}

void
doubt_warn(struct core *core)
{
    const struct plan *plan = &core->plan;
    core->doubt.wary_us = core->awake + DOUBT_WARY_US;
    core->doubt.untold = 0;
    for (size_t r = 0; r < plan->now.count; r++)
        if (plan->peer[r] >= 0)
            core->doubt.untold |= 1ull << plan->peer[r];
}

/* doubt.c - see doubt.h for what is done about it. */
#include "mesh/core/doubt.h"

#include <string.h>

#include "mesh/core/inside.h"

void
doubt_init(struct core *core)
{
    memset(&core->doubt, 0, sizeof core->doubt);
    core->doubt.past_to = UINT64_MAX - 1; /* none */
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
    if (peer->apart || (peer->round > core->round && core->round < core->doubt.dispute))
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
    if (!peer->apart && doubt_past(core, peer->round) == peer->state_hash)
        doubt_agreed(core, peer->round);
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

/* The rounds remembered follow one another; what came before a copy of another node's state is not known. */
static void
remember(struct core *core)
{
    struct doubt *doubt = &core->doubt;
    uint64_t *slot = &doubt->past[core->round % DOUBT_PAST];
    bool again = core->round >= doubt->past_from && core->round <= doubt->past_to &&
                 *slot == core->state_hash;
    if (core->round != doubt->past_to + 1 && !again)
        doubt->past_from = core->round;
    *slot = core->state_hash;
    doubt->past_to = core->round;
    if (doubt->past_to - doubt->past_from >= DOUBT_PAST)
        doubt->past_from = doubt->past_to - DOUBT_PAST + 1;
}

uint64_t
doubt_past(const struct core *core, uint64_t round)
{
    const struct doubt *doubt = &core->doubt;
    bool known = round >= doubt->past_from && round <= doubt->past_to && core->state_hash != 0 &&
                 !core->config.inexact;
    return known && !core_mutant(core, MUTANT_PAST) ? doubt->past[round % DOUBT_PAST] : 0;
}

/* Does peers[i] say that it had another state than ours before a round that we have passed? */
static bool
strays(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    uint64_t ours = peer->round < core->round ? doubt_past(core, peer->round) : 0;
    return peers_usable(core, i) && !peer->apart && peer->state_hash != 0 && ours != 0 &&
           ours != peer->state_hash;
}

void
doubt_agreed(struct core *core, uint64_t round)
{
    if (round + 1 > core->doubt.sure)
        core->doubt.sure = round + 1;
}

void
doubt_back(struct core *core, uint64_t round, const char *why)
{
    bool anywhere = core->config.inexact || core->doubt.sure > round;
    uint64_t sure = anywhere ? round : core->doubt.sure;
    own_damaged(core, why);
    core->ops.back(core->ctx, sure);
}

void
doubt_applied(struct core *core)
{
    struct doubt *doubt = &core->doubt;
    remember(core);
    if (doubt->sure > core->round + 1)
        doubt->sure = core->round + 1;
    if (core->round >= doubt->differ_round)
        doubt->differ_round = 0;
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

/* Is what peers[i] holds before our round still to be heard? Also of a member of whom there was no heartbeat yet. */
static bool
silent(const struct core *core, int i)
{
    bool member = core->peers.peers[i].state == PEER_UP && (core->doubt.untold >> i & 1);
    return core->doubt.claim[i] == 0 && (member || peers_usable(core, i));
}

static struct tally
count_claims(const struct core *core)
{
    struct tally tally = {.same = 1 + claims(core, core->state_hash), .all = true};
    for (int i = 0; i < core->peers.high; i++) {
        tally.all = tally.all && !silent(core, i);
        unsigned count = differs(core, i) ? claims(core, core->doubt.claim[i]) : 0;
        if (count > tally.other) {
            tally.other = count;
            tally.hash = core->doubt.claim[i];
        }
    }
    if (core->config.inexact &&
        tally.other == tally.same) { /* neither is wrong: one of them is taken */
        tally.same += core->state_hash < tally.hash;
        tally.other += core->state_hash > tally.hash;
    }
    return tally;
}

static void
say(struct core *core, int i, const char *verdict)
{
    char who[PROTO_WHO_MAX];
    core_log(core, core->config.inexact ? 6 : 3,
             "%s and this node have different weights after the same steps: %s",
             report_who(core, i, who), verdict);
    core_log(core, 7, "before round %llu: state %016llx there, %016llx here",
             (unsigned long long)core->round, (unsigned long long)core->doubt.claim[i],
             (unsigned long long)core->state_hash);
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
        say(core, i, "more nodes agree with this one, which goes on without it");
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
    say(core, i, "again and again: they no longer train together");
    peer->apart = true;
    core->doubt.claim[i] = 0;
    return true;
}

/* Is there another node to train with than those who contradict us? */
static bool
third(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (peers_usable(core, i) && !differs(core, i) && !core->peers.peers[i].apart)
            return true;
    return false;
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
        say(core, i,
            tie ? "equally many agree with each, so both go back"
                : "more agree with it: going back");
    }
    if (!back)
        return;
    /* Whom not to follow is known; but a node alone is not to go on before the others have gone back. */
    core->doubt.wary_us = tie && third(core) ? core->awake + DOUBT_GRACE_US : 0;
    core->doubt.dispute = tie ? core->round : 0;
    doubt_back(core, core->round, "its members hold different states");
}

/* One against one, but somebody else is ahead: it passed our round with one of the two states, and says with which
 * when it is followed. */
static bool
ahead_decides(struct core *core, const struct tally *tally)
{
    if (tally->other != tally->same || core_mutant(core, MUTANT_PAST))
        return false;
    bool found = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        found =
            found || (peers_usable(core, i) && peer->round > core->round && !doubt_shuns(core, i) &&
                      peer->state_hash != 0 && doubt_trusts(core, peer->round, peer->state_hash));
    }
    for (int i = 0; i < core->peers.high && found; i++) {
        struct peer *peer = &core->peers.peers[i];
        if (!differs(core, i) || peer->outvoted == core->round + 1)
            continue;
        peer->outvoted = core->round + 1;
        core->doubt.wary_us = 0;
        say(core, i, "equally many agree with each; the one that is ahead decides");
    }
    return found;
}

static bool
member_odd(const struct core *core)
{
    for (size_t r = 0; core->plan.active && r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0 && doubt_shuns(core, core->plan.peer[r]))
            return true;
    return false;
}

/* --- The past -------------------------------------------------------------------------------------- */

struct dispute {
    uint64_t round;         /* the lowest in which somebody had another state, UINT64_MAX nobody */
    unsigned same, against; /* nodes */
};

static struct dispute
past_count(const struct core *core)
{
    struct dispute d = {.round = UINT64_MAX, .same = 1};
    for (int i = 0; i < core->peers.high; i++)
        if (strays(core, i)) {
            const struct peer *peer = &core->peers.peers[i];
            d.against++;
            d.round = peer->round < d.round ? peer->round : d.round;
        }
    for (int i = 0; i < core->peers.high && d.against > 0; i++) {
        const struct peer *peer = &core->peers.peers[i];
        bool agrees = peers_usable(core, i) && !peer->apart && peer->round >= d.round &&
                      peer->state_hash != 0 && doubt_past(core, peer->round) == peer->state_hash;
        bool leads = peers_usable(core, i) && peer->round > core->round && !doubt_shuns(core, i);
        d.same += agrees || leads || (plan_member(core, i) && !strays(core, i));
    }
    return d;
}

/* With as many on either side: not with the same peer for ever. */
static bool
past_parts(struct core *core)
{
    bool all = true;
    char who[PROTO_WHO_MAX];
    for (int i = 0; i < core->peers.high; i++) {
        struct peer *peer = &core->peers.peers[i];
        if (!strays(core, i))
            continue;
        if (++peer->disputes >= DOUBT_TIES)
            peer->apart = true;
        else
            all = false;
        if (peer->apart)
            core_log(core, 3,
                     "%s and this node differ again and again: they no longer train together",
                     report_who(core, i, who));
    }
    return all;
}

static void
past_go_back(struct core *core, const struct dispute *d)
{
    bool tie = d->against == d->same;
    if (tie && past_parts(core))
        return;
    core_log(core, 3,
             "%u nodes had other weights earlier in the run, %u (with this one) had the same: %s",
             d->against, d->same, tie ? "computing again from there" : "going back");
    core_log(core, 7, "the states before round %llu differed", (unsigned long long)d->round);
    core->doubt.dispute = tie ? d->round : 0;
    core->doubt.wary_us = 0;
    doubt_back(core, d->round, "others had another state");
}

/* Is it ahead, as far as is known with a state that is not ours? That it was odd before this round says so, too. */
static bool
passed(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    bool ahead = peers_usable(core, i) && !peer->apart && peer->round > core->round;
    return ahead && (!doubt_shuns(core, i) || (peer->odd && peer->odd_round == core->round &&
                                               core->round >= core->doubt.dispute));
}

enum doubt_verdict
doubt_differs(struct core *core, uint64_t hash)
{
    struct doubt *doubt = &core->doubt;
    if (core->config.inexact)
        return DOUBT_COPY;
    unsigned ours = 1 + holders(core, core->round, core->state_hash);
    unsigned theirs = holders(core, core->round, hash);
    if (doubt->differ_round != core->round + 1 || core->own.state != OWN_FREE) {
        doubt->differ_round = core->round + 1;
        doubt->wary_us = core->awake + DOUBT_GRACE_US;
        return DOUBT_WAIT;
    }
    for (int i = 0; i < core->peers.high; i++)
        theirs += passed(core, i);
    for (int i = 0; i < core->peers.high && theirs <= ours; i++) {
        struct peer *peer = &core->peers.peers[i];
        if (peer->round > core->round && peers_usable(core, i)) {
            peer->odd = true;
            peer->odd_round = core->round + 1;
        }
    }
    if (theirs <= ours)
        return DOUBT_STAY;
    doubt->dispute = 0; /* it is settled: who was odd before this round was right */
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].odd_round == core->round)
            core->peers.peers[i].odd = false;
    return DOUBT_COPY;
}

void
doubt_step(struct core *core)
{
    struct doubt *doubt = &core->doubt;
    if (!own_settled(core) || core->state_hash == 0 || core_mutant(core, MUTANT_ODD))
        return;
    struct tally tally = count_claims(core);
    struct dispute past = past_count(core);
    bool differ = past.against > 0 && past.against >= past.same;
    if (!differ)
        doubt->past_at_us = core->awake;
    bool late = core->awake - doubt->past_at_us >= DOUBT_GRACE_US; /* all have spoken since */
    doubt->open = late || tally.other >= tally.same;
    if (late) {
        plan_differ(core);
        if (core->own.state == OWN_FREE)
            past_go_back(core, &past);
        return;
    }
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
             core->own.state == OWN_FREE && !ahead_decides(core, &tally))
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

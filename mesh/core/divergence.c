/* divergence.c - see divergence.h for what is done about it. */
#include "mesh/core/divergence.h"

#include <string.h>

#include "mesh/core/internal.h"

void
divergence_init(struct divergence *d)
{
    memset(d, 0, sizeof *d);
    d->past_to = UINT64_MAX - 1; /* none */
}

void
divergence_forget(struct divergence *d, int i)
{
    d->of[i] = (struct divergence_peer){.claim = 0};
}

/* --- What a peer said last ------------------------------------------------------------------------ */

static uint64_t
round_of(const struct core *core, int i)
{
    return core->view.of[i].beat.round;
}

static uint64_t
hash_of(const struct core *core, int i)
{
    return core->view.of[i].beat.state_hash;
}

static bool
up(const struct core *core, int i)
{
    return core->peers.peers[i].state == PEER_UP;
}

static bool
suspected(const struct core *core, int i)
{
    return core->view.of[i].suspected;
}

/* Does it have a voice? */
static bool
counts(const struct core *core, int i)
{
    return peers_usable(core, i) && !core->divergence.of[i].apart;
}

static bool
differs(const struct core *core, int i)
{
    uint64_t claim = core->divergence.of[i].claim;
    return claim != 0 && core->state_hash != 0 && claim != core->state_hash;
}

bool
divergence_excludes(const struct core *core, int i)
{
    const struct divergence_peer *its = &core->divergence.of[i];
    uint64_t round = round_of(core, i);
    if (core_mutant(MUTANT_ODD))
        return false;
    if (its->apart || (round > core->round && core->round < core->divergence.dispute))
        return true;
    return round > core->round ? its->diverged : round == core->round && differs(core, i);
}

bool
divergence_wary(const struct core *core)
{
    return core->awake < core->divergence.wary_us;
}

/* May somebody be of another opinion, or, being ahead with a state that we do not trust, come back? */
static bool
awaited(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        const struct divergence_peer *its = &core->divergence.of[i];
        bool here = up(core, i) && !suspected(core, i) && !its->apart;
        if (here && (round_of(core, i) > core->round || its->untold))
            return true;
    }
    return false;
}

bool
divergence_pending(const struct core *core)
{
    return core->divergence.open || (divergence_wary(core) && awaited(core));
}

/* --- What the others say ------------------------------------------------------------------------ */

/* Peers that say they hold the state of this hash before `round`. */
static unsigned
holders(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned count = 0;
    for (int i = 0; i < core->peers.high; i++)
        count += counts(core, i) && round_of(core, i) == round && hash_of(core, i) == hash;
    return count;
}

bool
divergence_trusts(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned same = holders(core, round, hash);
    for (int i = 0; i < core->peers.high; i++) {
        uint64_t its = hash_of(core, i);
        bool other = counts(core, i) && round_of(core, i) == round && its != 0 && its != hash;
        if (other && holders(core, round, its) >= same)
            return core_mutant(MUTANT_ODD);
    }
    return true;
}

static void
mark(struct divergence *d, int i, uint64_t round)
{
    d->of[i].diverged = true;
    d->of[i].diverged_round = round;
}

/* Of two ahead who contradict one another neither is followed, also when only one of them is left there. */
static void
mark_ahead(struct divergence *d, const struct core *core, int news)
{
    uint64_t round = round_of(core, news);
    if (divergence_trusts(core, round, hash_of(core, news)))
        return;
    for (int i = 0; i < core->peers.high; i++)
        if (peers_usable(core, i) && round_of(core, i) == round && hash_of(core, i) != 0 &&
            !divergence_trusts(core, round, hash_of(core, i)))
            mark(d, i, round);
}

void
divergence_beat(struct divergence *d, const struct core *core, int i)
{
    struct divergence_peer *its = &d->of[i];
    uint64_t round = round_of(core, i), hash = hash_of(core, i);
    if (round < its->diverged_round || round < core->round)
        its->diverged = false; /* it has gone back, or is behind us */
    if (hash == 0) {
        its->tied = false;
        return;
    }
    its->untold = false;
    if (core->state_hash == 0)
        return;
    if (!its->apart && divergence_past(core, round) == hash)
        divergence_agreed(d, round);
    if (round == core->round) {
        its->claim = its->apart ? 0 : hash;
        its->diverged = differs(core, i);
        its->diverged_round = round;
    } else if (round > core->round) {
        mark_ahead(d, core, i);
    }
}

/* The rounds remembered follow one another; what came before a copy of another node's state is not known. */
static void
remember(struct divergence *d, const struct core *core)
{
    uint64_t *slot = &d->past[core->round % DIVERGENCE_PAST];
    bool again =
        core->round >= d->past_from && core->round <= d->past_to && *slot == core->state_hash;
    if (core->round != d->past_to + 1 && !again)
        d->past_from = core->round;
    *slot = core->state_hash;
    d->past_to = core->round;
    if (d->past_to - d->past_from >= DIVERGENCE_PAST)
        d->past_from = d->past_to - DIVERGENCE_PAST + 1;
}

uint64_t
divergence_past(const struct core *core, uint64_t round)
{
    const struct divergence *d = &core->divergence;
    bool known = round >= d->past_from && round <= d->past_to && core->state_hash != 0 &&
                 !core->config.inexact;
    return known && !core_mutant(MUTANT_PAST) ? d->past[round % DIVERGENCE_PAST] : 0;
}

/* Does peers[i] say that it had another state than ours before a round that we have passed? */
static bool
strays(const struct core *core, int i)
{
    uint64_t round = round_of(core, i), hash = hash_of(core, i);
    uint64_t ours = round < core->round ? divergence_past(core, round) : 0;
    return counts(core, i) && hash != 0 && ours != 0 && ours != hash;
}

void
divergence_agreed(struct divergence *d, uint64_t round)
{
    if (round + 1 > d->sure)
        d->sure = round + 1;
}

static struct divergence_verdict
back(const struct core *core, uint64_t round, const char *why)
{
    uint64_t sure = core->divergence.sure;
    bool anywhere = core->config.inexact || sure > round;
    return (struct divergence_verdict){.back = true, .round = anywhere ? round : sure, .why = why};
}

void
divergence_applied(struct divergence *d, const struct core *core)
{
    remember(d, core);
    if (d->sure > core->round + 1)
        d->sure = core->round + 1;
    if (core->round >= d->differ_round)
        d->differ_round = 0;
    d->since_us = 0;
    d->open = false;
    for (int i = 0; i < core->peers.high; i++) {
        d->of[i].claim = 0;
        if (up(core, i) && round_of(core, i) == core->round)
            divergence_beat(d, core, i);
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
        count += core->divergence.of[i].claim == hash;
    return count;
}

/* Is what peers[i] holds before our round still to be heard? Also of a member of whom there was no heartbeat yet. */
static bool
silent(const struct core *core, int i)
{
    bool member = up(core, i) && core->divergence.of[i].untold;
    return core->divergence.of[i].claim == 0 && (member || peers_usable(core, i));
}

static struct tally
count_claims(const struct core *core)
{
    struct tally tally = {.same = 1 + claims(core, core->state_hash), .all = true};
    for (int i = 0; i < core->peers.high; i++) {
        tally.all = tally.all && !silent(core, i);
        unsigned count = differs(core, i) ? claims(core, core->divergence.of[i].claim) : 0;
        if (count > tally.other) {
            tally.other = count;
            tally.hash = core->divergence.of[i].claim;
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
say(const struct core *core, int i, const char *verdict)
{
    char who[PROTO_WHO_MAX];
    core_log(core, core->config.inexact ? 6 : 3,
             "%s and this node have different weights after the same steps: %s",
             report_who(core, i, who), verdict);
    core_log(core, 7, "before round %llu: state %016llx there, %016llx here",
             (unsigned long long)core->round, (unsigned long long)core->divergence.of[i].claim,
             (unsigned long long)core->state_hash);
}

/* Says it of those who differ, once in a round. */
static bool
say_once(struct divergence *d, const struct core *core, const char *verdict)
{
    bool said = false;
    for (int i = 0; i < core->peers.high; i++) {
        if (!differs(core, i) || d->of[i].outvoted == core->round + 1)
            continue;
        d->of[i].outvoted = core->round + 1;
        said = true;
        say(core, i, verdict);
    }
    return said;
}

/* Has it been one against one for too often in this round? Then we part. What it says before it has gone back, too,
 * is what it said the last time. */
static bool
parts(struct divergence *d, const struct core *core, int i)
{
    struct divergence_peer *its = &d->of[i];
    if (its->tied_round != core->round)
        its->ties = 0;
    else if (its->tied)
        return false;
    its->tied_round = core->round;
    its->tied = true;
    if (++its->ties < DIVERGENCE_TIES)
        return false;
    say(core, i, "again and again: they no longer train together");
    its->apart = true;
    its->claim = 0;
    return true;
}

/* Is there another node to train with than those who contradict us? */
static bool
third(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (counts(core, i) && !differs(core, i))
            return true;
    return false;
}

static struct divergence_verdict
go_back(struct divergence *d, const struct core *core, const struct tally *tally)
{
    bool tie = tally->other == tally->same, leaves = false;
    for (int i = 0; i < core->peers.high; i++) {
        if (!differs(core, i) || (tie && parts(d, core, i)))
            continue;
        mark(d, i, core->round);
        d->of[i].diverged = tie || d->of[i].claim != tally->hash;
        leaves = true;
        say(core, i,
            tie ? "equally many agree with each, so both go back"
                : "more agree with it: going back");
    }
    if (!leaves)
        return (struct divergence_verdict){.back = false};
    /* Whom not to follow is known; but a node alone is not to go on before the others have gone back. */
    d->wary_us = tie && third(core) ? core->awake + DIVERGENCE_GRACE_US : 0;
    d->dispute = tie ? core->round : 0;
    return back(core, core->round, "its members hold different states");
}

/* One against one, but somebody else is ahead: it passed our round with one of the two states, and says with which
 * when it is followed. */
static bool
ahead_decides(struct divergence *d, const struct core *core, const struct tally *tally)
{
    if (tally->other != tally->same || core_mutant(MUTANT_PAST))
        return false;
    bool found = false;
    for (int i = 0; i < core->peers.high; i++)
        found = found || (peers_usable(core, i) && round_of(core, i) > core->round &&
                          !divergence_excludes(core, i) && hash_of(core, i) != 0 &&
                          divergence_trusts(core, round_of(core, i), hash_of(core, i)));
    if (found && say_once(d, core, "equally many agree with each; the one that is ahead decides"))
        d->wary_us = 0;
    return found;
}

static bool
member_diverged(const struct core *core)
{
    for (size_t r = 0; core->plan.active && r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0 && divergence_excludes(core, core->plan.peer[r]))
            return true;
    return false;
}

/* --- The past -------------------------------------------------------------------------------------- */

struct dispute {
    uint64_t round;         /* the lowest in which somebody had another state, UINT64_MAX nobody */
    unsigned same, against; /* nodes */
};

/* With whom is peers[i], as far as is known? */
static bool
sides_with_us(const struct core *core, int i, uint64_t round)
{
    bool agrees = counts(core, i) && round_of(core, i) >= round && hash_of(core, i) != 0 &&
                  divergence_past(core, round_of(core, i)) == hash_of(core, i);
    bool leads =
        peers_usable(core, i) && round_of(core, i) > core->round && !divergence_excludes(core, i);
    return agrees || leads || (plan_member(&core->plan, i) && !strays(core, i));
}

static struct dispute
past_count(const struct core *core)
{
    struct dispute past = {.round = UINT64_MAX, .same = 1};
    for (int i = 0; i < core->peers.high; i++)
        if (strays(core, i)) {
            past.against++;
            past.round = round_of(core, i) < past.round ? round_of(core, i) : past.round;
        }
    for (int i = 0; i < core->peers.high && past.against > 0; i++)
        past.same += sides_with_us(core, i, past.round);
    return past;
}

/* With as many on either side: not with the same peer for ever. */
static bool
past_parts(struct divergence *d, const struct core *core)
{
    bool all = true;
    char who[PROTO_WHO_MAX];
    for (int i = 0; i < core->peers.high; i++) {
        if (!strays(core, i))
            continue;
        if (++d->of[i].disputes < DIVERGENCE_TIES) {
            all = false;
            continue;
        }
        d->of[i].apart = true;
        core_log(core, 3, "%s and this node differ again and again: they no longer train together",
                 report_who(core, i, who));
    }
    return all;
}

static struct divergence_verdict
past_go_back(struct divergence *d, const struct core *core, const struct dispute *past)
{
    bool tie = past->against == past->same;
    if (tie && past_parts(d, core))
        return (struct divergence_verdict){.back = false};
    core_log(core, 3,
             "%u nodes had other weights earlier in the run, %u (with this one) had the same: %s",
             past->against, past->same, tie ? "computing again from there" : "going back");
    core_log(core, 7, "the states before round %llu differed", (unsigned long long)past->round);
    d->dispute = tie ? past->round : 0;
    d->wary_us = 0;
    return back(core, past->round, "others had another state");
}

/* --- Whom we follow -------------------------------------------------------------------------------- */

/* Is it ahead, as far as is known with a state that is not ours? That it was odd before this round says so, too. */
static bool
passed(const struct core *core, int i)
{
    const struct divergence_peer *its = &core->divergence.of[i];
    bool ahead = counts(core, i) && round_of(core, i) > core->round;
    return ahead &&
           (!divergence_excludes(core, i) || (its->diverged && its->diverged_round == core->round &&
                                              core->round >= core->divergence.dispute));
}

static void
say_differs(const struct core *core, int i, const char *verdict)
{
    char who[PROTO_WHO_MAX];
    core_log(core, core->config.inexact ? 6 : 3, "%s has other weights than this node: %s",
             report_who(core, i, who), verdict);
}

/* Theirs is the state of more nodes: back, and as the older state may be as wrong, a copy of the present one. */
static struct divergence_verdict
copy(const struct core *core, int i)
{
    say_differs(core, i, "taking a copy of theirs");
    struct divergence_verdict verdict = back(core, core->round, "the mesh has another state");
    verdict.copy = true;
    return verdict;
}

struct divergence_verdict
divergence_differs(struct divergence *d, const struct core *core, int i, uint64_t hash)
{
    if (core->config.inexact)
        return copy(core, i);
    unsigned ours = 1 + holders(core, core->round, core->state_hash);
    unsigned theirs = holders(core, core->round, hash);
    if (d->differ_round != core->round + 1 || core->contribution.state != TRAINER_FREE) {
        d->differ_round = core->round + 1;
        d->wary_us = core->awake + DIVERGENCE_GRACE_US;
        return (struct divergence_verdict){.back = false};
    }
    for (int k = 0; k < core->peers.high; k++)
        theirs += passed(core, k);
    if (theirs <= ours) {
        for (int k = 0; k < core->peers.high; k++)
            if (round_of(core, k) > core->round && peers_usable(core, k))
                mark(d, k, core->round + 1);
        say_differs(core, i, "not following it");
        return (struct divergence_verdict){.back = false};
    }
    d->dispute = 0; /* it is settled: who was odd before this round was right */
    for (int k = 0; k < core->peers.high; k++)
        if (d->of[k].diverged_round == core->round)
            d->of[k].diverged = false;
    return copy(core, i);
}

/* --- Steps ----------------------------------------------------------------------------------------- */

static struct divergence_verdict
judge(struct divergence *d, const struct core *core, const struct dispute *past, bool late)
{
    struct tally tally = count_claims(core);
    d->open = late || tally.other >= tally.same;
    bool ends =
        core->plan.active && (late || (tally.other > 0 && (d->open || member_diverged(core))));
    if (ends)
        divergence_warn(d, core);
    bool free = core->contribution.state == TRAINER_FREE;
    struct divergence_verdict verdict = {.back = false};
    if (late && free)
        verdict = past_go_back(d, core, past);
    if (!late && tally.other == 0)
        d->since_us = 0;
    else if (!late && d->since_us == 0)
        d->since_us = core->awake;
    if (!late && tally.other > 0 && !d->open)
        say_once(d, core, "more nodes agree with this one, which goes on without it");
    bool heard = tally.all || core->awake - d->since_us >= DIVERGENCE_GRACE_US;
    if (!late && d->open && heard && free && !ahead_decides(d, core, &tally))
        verdict = go_back(d, core, &tally);
    verdict.differ = ends;
    return verdict;
}

struct divergence_verdict
divergence_step(struct divergence *d, const struct core *core)
{
    if (!contribution_settled(&core->contribution) || core->state_hash == 0 ||
        core_mutant(MUTANT_ODD))
        return (struct divergence_verdict){.back = false};
    struct dispute past = past_count(core);
    bool differ = past.against > 0 && past.against >= past.same;
    if (!differ)
        d->past_at_us = core->awake;
    /* all have spoken since */
    bool late = core->awake - d->past_at_us >= DIVERGENCE_GRACE_US;
    return judge(d, core, &past, late);
}

void
divergence_warn(struct divergence *d, const struct core *core)
{
    const struct plan *plan = &core->plan;
    d->wary_us = core->awake + DIVERGENCE_WARY_US;
    for (int i = 0; i < PEERS_MAX; i++)
        d->of[i].untold = false;
    for (size_t r = 0; r < plan->now.count; r++)
        if (plan->peer[r] >= 0)
            d->of[plan->peer[r]].untold = true;
}

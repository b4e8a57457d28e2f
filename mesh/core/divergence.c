/* divergence.c - see divergence.h for what is done about it. */
#include "mesh/core/divergence.h"

#include <string.h>

#include "mesh/core/internal.h"

void
divergence_init(struct core *core)
{
    memset(&core->divergence, 0, sizeof core->divergence);
    core->divergence.past_to = UINT64_MAX - 1; /* none */
}

static bool
differs(const struct core *core, int i)
{
    uint64_t claim = core->divergence.claim[i];
    return claim != 0 && core->state_hash != 0 && claim != core->state_hash;
}

bool
divergence_excludes(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    if (core_mutant(MUTANT_ODD))
        return false;
    if (peer->apart || (said->round > core->round && core->round < core->divergence.dispute))
        return true;
    return said->round > core->round ? peer->diverged
                                     : said->round == core->round && differs(core, i);
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
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        const struct heard *heard = &core->view.of[i];
        bool here = peer->state == PEER_UP && !heard->suspected && !peer->apart;
        if (here && (said->round > core->round || (core->divergence.untold >> i & 1)))
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
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        count += peers_usable(core, i) && !peer->apart && said->round == round &&
                 said->state_hash == hash;
    }
    return count;
}

bool
divergence_trusts(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned same = holders(core, round, hash);
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        bool other = peers_usable(core, i) && !peer->apart && said->round == round &&
                     said->state_hash != 0 && said->state_hash != hash;
        if (other && holders(core, round, said->state_hash) >= same)
            return core_mutant(MUTANT_ODD);
    }
    return true;
}

/* Of two ahead who contradict one another neither is followed, also when only one of them is left there. */
static void
mark_ahead(struct core *core, const struct proto_heartbeat *news)
{
    if (divergence_trusts(core, news->round, news->state_hash))
        return;
    for (int i = 0; i < core->peers.high; i++) {
        struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (peers_usable(core, i) && said->round == news->round && said->state_hash != 0 &&
            !divergence_trusts(core, said->round, said->state_hash)) {
            peer->diverged = true;
            peer->diverged_round = said->round;
        }
    }
}

void
divergence_beat(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    if (said->round < peer->diverged_round || said->round < core->round)
        peer->diverged = false; /* it has gone back, or is behind us */
    if (said->state_hash == 0) {
        peer->tied = false;
        return;
    }
    core->divergence.untold &= ~(1ull << i);
    if (core->state_hash == 0)
        return;
    if (!peer->apart && divergence_past(core, said->round) == said->state_hash)
        divergence_agreed(core, said->round);
    if (said->round == core->round) {
        core->divergence.claim[i] = peer->apart ? 0 : said->state_hash;
        peer->diverged = differs(core, i);
        peer->diverged_round = said->round;
    } else if (said->round > core->round) {
        mark_ahead(core, said);
    }
}

void
divergence_chunk(struct core *core, int i, uint64_t state)
{
    struct proto_heartbeat *said = &core->view.of[i].beat;
    said->round = core->round;
    said->state_hash = state;
    divergence_beat(core, i);
}

void
divergence_forget(struct core *core, int i)
{
    core->divergence.claim[i] = 0;
    core->divergence.untold &= ~(1ull << i);
    core->peers.peers[i].tied = false;
}

/* The rounds remembered follow one another; what came before a copy of another node's state is not known. */
static void
remember(struct core *core)
{
    struct divergence *divergence = &core->divergence;
    uint64_t *slot = &divergence->past[core->round % DIVERGENCE_PAST];
    bool again = core->round >= divergence->past_from && core->round <= divergence->past_to &&
                 *slot == core->state_hash;
    if (core->round != divergence->past_to + 1 && !again)
        divergence->past_from = core->round;
    *slot = core->state_hash;
    divergence->past_to = core->round;
    if (divergence->past_to - divergence->past_from >= DIVERGENCE_PAST)
        divergence->past_from = divergence->past_to - DIVERGENCE_PAST + 1;
}

uint64_t
divergence_past(const struct core *core, uint64_t round)
{
    const struct divergence *divergence = &core->divergence;
    bool known = round >= divergence->past_from && round <= divergence->past_to &&
                 core->state_hash != 0 && !core->config.inexact;
    return known && !core_mutant(MUTANT_PAST) ? divergence->past[round % DIVERGENCE_PAST] : 0;
}

/* Does peers[i] say that it had another state than ours before a round that we have passed? */
static bool
strays(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    uint64_t ours = said->round < core->round ? divergence_past(core, said->round) : 0;
    return peers_usable(core, i) && !peer->apart && said->state_hash != 0 && ours != 0 &&
           ours != said->state_hash;
}

void
divergence_agreed(struct core *core, uint64_t round)
{
    if (round + 1 > core->divergence.sure)
        core->divergence.sure = round + 1;
}

void
divergence_back(struct core *core, uint64_t round, const char *why)
{
    bool anywhere = core->config.inexact || core->divergence.sure > round;
    uint64_t sure = anywhere ? round : core->divergence.sure;
    contribution_damaged(core, why);
    core->ops.back(core->ctx, sure);
}

void
divergence_applied(struct core *core)
{
    struct divergence *divergence = &core->divergence;
    remember(core);
    if (divergence->sure > core->round + 1)
        divergence->sure = core->round + 1;
    if (core->round >= divergence->differ_round)
        divergence->differ_round = 0;
    divergence->since_us = 0;
    divergence->open = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        divergence->claim[i] = 0;
        if (peer->state == PEER_UP && said->round == core->round)
            divergence_beat(core, i);
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
        count += core->divergence.claim[i] == hash;
    return count;
}

/* Is what peers[i] holds before our round still to be heard? Also of a member of whom there was no heartbeat yet. */
static bool
silent(const struct core *core, int i)
{
    bool member = core->peers.peers[i].state == PEER_UP && (core->divergence.untold >> i & 1);
    return core->divergence.claim[i] == 0 && (member || peers_usable(core, i));
}

static struct tally
count_claims(const struct core *core)
{
    struct tally tally = {.same = 1 + claims(core, core->state_hash), .all = true};
    for (int i = 0; i < core->peers.high; i++) {
        tally.all = tally.all && !silent(core, i);
        unsigned count = differs(core, i) ? claims(core, core->divergence.claim[i]) : 0;
        if (count > tally.other) {
            tally.other = count;
            tally.hash = core->divergence.claim[i];
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
             (unsigned long long)core->round, (unsigned long long)core->divergence.claim[i],
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
    if (++peer->ties < DIVERGENCE_TIES)
        return false;
    say(core, i, "again and again: they no longer train together");
    peer->apart = true;
    core->divergence.claim[i] = 0;
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
        bool wins = !tie && core->divergence.claim[i] == tally->hash;
        core->peers.peers[i].diverged = !wins;
        core->peers.peers[i].diverged_round = core->round;
        back = true;
        say(core, i,
            tie ? "equally many agree with each, so both go back"
                : "more agree with it: going back");
    }
    if (!back)
        return;
    /* Whom not to follow is known; but a node alone is not to go on before the others have gone back. */
    core->divergence.wary_us = tie && third(core) ? core->awake + DIVERGENCE_GRACE_US : 0;
    core->divergence.dispute = tie ? core->round : 0;
    divergence_back(core, core->round, "its members hold different states");
}

/* One against one, but somebody else is ahead: it passed our round with one of the two states, and says with which
 * when it is followed. */
static bool
ahead_decides(struct core *core, const struct tally *tally)
{
    if (tally->other != tally->same || core_mutant(MUTANT_PAST))
        return false;
    bool found = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        found = found || (peers_usable(core, i) && said->round > core->round &&
                          !divergence_excludes(core, i) && said->state_hash != 0 &&
                          divergence_trusts(core, said->round, said->state_hash));
    }
    for (int i = 0; i < core->peers.high && found; i++) {
        struct peer *peer = &core->peers.peers[i];
        if (!differs(core, i) || peer->outvoted == core->round + 1)
            continue;
        peer->outvoted = core->round + 1;
        core->divergence.wary_us = 0;
        say(core, i, "equally many agree with each; the one that is ahead decides");
    }
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

static struct dispute
past_count(const struct core *core)
{
    struct dispute d = {.round = UINT64_MAX, .same = 1};
    for (int i = 0; i < core->peers.high; i++)
        if (strays(core, i)) {
            const struct proto_heartbeat *said = &core->view.of[i].beat;
            d.against++;
            d.round = said->round < d.round ? said->round : d.round;
        }
    for (int i = 0; i < core->peers.high && d.against > 0; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        bool agrees = peers_usable(core, i) && !peer->apart && said->round >= d.round &&
                      said->state_hash != 0 &&
                      divergence_past(core, said->round) == said->state_hash;
        bool leads =
            peers_usable(core, i) && said->round > core->round && !divergence_excludes(core, i);
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
        if (++peer->disputes >= DIVERGENCE_TIES)
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
    core->divergence.dispute = tie ? d->round : 0;
    core->divergence.wary_us = 0;
    divergence_back(core, d->round, "others had another state");
}

/* Is it ahead, as far as is known with a state that is not ours? That it was odd before this round says so, too. */
static bool
passed(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    bool ahead = peers_usable(core, i) && !peer->apart && said->round > core->round;
    return ahead && (!divergence_excludes(core, i) ||
                     (peer->diverged && peer->diverged_round == core->round &&
                      core->round >= core->divergence.dispute));
}

enum divergence_verdict
divergence_differs(struct core *core, uint64_t hash)
{
    struct divergence *divergence = &core->divergence;
    if (core->config.inexact)
        return DIVERGENCE_COPY;
    unsigned ours = 1 + holders(core, core->round, core->state_hash);
    unsigned theirs = holders(core, core->round, hash);
    if (divergence->differ_round != core->round + 1 || core->contribution.state != TRAINER_FREE) {
        divergence->differ_round = core->round + 1;
        divergence->wary_us = core->awake + DIVERGENCE_GRACE_US;
        return DIVERGENCE_WAIT;
    }
    for (int i = 0; i < core->peers.high; i++)
        theirs += passed(core, i);
    for (int i = 0; i < core->peers.high && theirs <= ours; i++) {
        struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (said->round > core->round && peers_usable(core, i)) {
            peer->diverged = true;
            peer->diverged_round = core->round + 1;
        }
    }
    if (theirs <= ours)
        return DIVERGENCE_STAY;
    divergence->dispute = 0; /* it is settled: who was odd before this round was right */
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].diverged_round == core->round)
            core->peers.peers[i].diverged = false;
    return DIVERGENCE_COPY;
}

void
divergence_step(struct core *core)
{
    struct divergence *divergence = &core->divergence;
    if (!contribution_settled(core) || core->state_hash == 0 || core_mutant(MUTANT_ODD))
        return;
    struct tally tally = count_claims(core);
    struct dispute past = past_count(core);
    bool differ = past.against > 0 && past.against >= past.same;
    if (!differ)
        divergence->past_at_us = core->awake;
    bool late =
        core->awake - divergence->past_at_us >= DIVERGENCE_GRACE_US; /* all have spoken since */
    divergence->open = late || tally.other >= tally.same;
    if (late) {
        plan_differ(core);
        if (core->contribution.state == TRAINER_FREE)
            past_go_back(core, &past);
        return;
    }
    if (tally.other == 0) {
        divergence->since_us = 0;
        return;
    }
    if (divergence->since_us == 0)
        divergence->since_us = core->awake;
    if (divergence->open || member_diverged(core))
        plan_differ(core);
    if (!divergence->open)
        outvote(core);
    else if ((tally.all || core->awake - divergence->since_us >= DIVERGENCE_GRACE_US) &&
             core->contribution.state == TRAINER_FREE && !ahead_decides(core, &tally))
        go_back(core, &tally);
}

void
divergence_warn(struct core *core)
{
    const struct plan *plan = &core->plan;
    core->divergence.wary_us = core->awake + DIVERGENCE_WARY_US;
    core->divergence.untold = 0;
    for (size_t r = 0; r < plan->now.count; r++)
        if (plan->peer[r] >= 0)
            core->divergence.untold |= 1ull << plan->peer[r];
}

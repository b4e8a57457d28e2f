/* divergence.c - see divergence.h for the rules. */
#include "mesh/core/group/divergence.h"

#include <assert.h>

#include "mesh/core/internal.h"

uint64_t
divergence_past(const struct core *core, uint64_t round)
{
    const struct divergence *d = &core->divergence;
    if (round == core->round || core->state_hash == 0)
        return core->state_hash;
    bool known = round >= d->past_from && round <= d->past_to && !core->config.inexact;
    return known && !mutant(MUTANT_PAST) ? d->past[round % DIVERGENCE_PAST] : 0;
}

/* Does peers[i] say that it had another state than we, before a round that we have reached? */
static bool
had_another(const struct core *core, int i)
{
    const struct divergence_peer *its = &core->divergence.of[i];
    uint64_t ours = its->round <= core->round ? divergence_past(core, its->round) : 0;
    return its->hash != 0 && ours != 0 && its->hash != ours;
}

/* The same, but who refuses us, or is refused, has no say. */
static bool
divergence_differs_from(const struct core *core, int i)
{
    return had_another(core, i) && core->peers.peers[i].state != PEER_REFUSED &&
           !mutant(MUTANT_ODD);
}

/* Others accuse it, or say that another state is right. */
static bool
is_doubtful(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    return audit_suspects(&core->audit, core->peers.peers[i].node.id) ||
           (said->state_hash != 0 && !divergence_trusts(core, said->round, said->state_hash));
}

bool
divergence_excludes(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    bool ahead = said->round > core->round;
    if (mutant(MUTANT_ODD))
        return false;
    bool open = core->round < core->divergence.dispute || is_doubtful(core, i);
    return divergence_differs_from(core, i) || (ahead && open);
}

bool
divergence_takeable(const struct core *core, int i)
{
    return core->view.of[i].beat.state_hash != 0 && !divergence_excludes(core, i) &&
           !is_doubtful(core, i);
}

bool
divergence_ahead(const struct core *core, int i)
{
    return view_usable(core, i) && core->view.of[i].beat.round > core->round &&
           !divergence_excludes(core, i);
}

bool
divergence_open(const struct core *core)
{
    const struct divergence *d = &core->divergence;
    bool open = d->open, waits = !mutant(MUTANT_UNTOLD) &&
                                 awake_since(core->awake, d->warned_at) < DIVERGENCE_GRACE_US;
    for (int i = 0; i < core->peers.high && waits; i++)
        open = open || (core->peers.peers[i].state == PEER_UP && d->of[i].owes_hash);
    return open;
}

void
divergence_gone(struct divergence *d, const struct core *core, int i)
{
    bool refused = core->peers.peers[i].state == PEER_REFUSED && !core->config.inexact;
    d->parts |= d->open && refused && had_another(core, i);
}

void
divergence_forget(struct divergence *d, int i)
{
    d->of[i] = (struct divergence_peer){.hash = 0};
}

/* --- Our own states --------------------------------------------------------------------------- */

/* What was before a copy of another node's state is not known. */
static void
remember(struct divergence *d, const struct core *core, bool on)
{
    if (!on && !(core->round >= d->past_from && core->round <= d->past_to))
        d->past_from = core->round;
    d->past[core->round % DIVERGENCE_PAST] = core->state_hash;
    d->past_to = core->round;
    if (d->past_to - d->past_from >= DIVERGENCE_PAST)
        d->past_from = d->past_to - DIVERGENCE_PAST + 1;
}

void
divergence_agreed(struct divergence *d, uint64_t round)
{
    assert(round <= PROTO_ROUND_MAX);
    if (round + 1 > d->sure)
        d->sure = round + 1;
}

/* --- What the others say ---------------------------------------------------------------------- */

/* Is it from before a member of our plan went back and computed again? Since then it has had our state. If it goes back
 * now, the plan ends. */
static bool
is_late(const struct core *core, int i, uint64_t round, uint64_t hash)
{
    return core->plan.active && plan_member(&core->plan, i) &&
           hash != divergence_past(core, round) && round + 1 < core->divergence.of[i].same;
}

/* A difference stays until the same or a later round is the same, or an earlier one differs, too: one that goes back
 * does not say which of us was right. Returns whether it is this state that is noted now. */
static bool
note_state(struct divergence *d, const struct core *core, int i, uint64_t round, uint64_t hash)
{
    struct divergence_peer *its = &d->of[i];
    uint64_t ours = round <= core->round ? divergence_past(core, round) : 0;
    if (ours == 0 || is_late(core, i, round, hash))
        return false;
    if (hash == ours) {
        divergence_agreed(d, round);
        its->same = round + 1;
        if (divergence_differs_from(core, i) && round < its->round)
            return false;
        its->outvoted = false;
    }
    its->round = round;
    its->hash = hash;
    return true;
}

void
divergence_said(struct divergence *d, const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    struct divergence_peer *its = &d->of[i];
    bool before = said->state_hash == 0 || said->round < its->tied_round;
    its->redoes = before && (its->redoes || its->tied);
    its->tied = its->tied && !before;
    if (said->state_hash == 0)
        return;
    if (said->round == d->dispute && said->state_hash == d->given_up &&
        said->since < d->dispute_since)
        d->dispute = 0;
    d->of[i].owes_hash = false;
    /* who goes back computes anew what it had copied: that makes no witness of what is noted */
    if (note_state(d, core, i, said->round, said->state_hash) || said->since > d->of[i].since)
        d->of[i].since = said->since;
}

struct divergence_verdict
divergence_followed(struct divergence *d, const struct core *core, int i, uint64_t hash)
{
    char who[PROTO_WHO_MAX];
    assert(i >= 0 && i < core->peers.high);
    if (hash == core->state_hash || !core->config.inexact)
        note_state(d, core, i, core->round, hash);
    if (hash == core->state_hash || !core->config.inexact || core->trainer.state != TRAINER_FREE)
        return (struct divergence_verdict){.back = false};
    if (d->said_at.us == 0 || awake_since(core->awake, d->said_at) >= FETCH_SAY_US) {
        d->said_at = core->awake;
        core_log(core, 6, "%s has other weights than this node: taking a copy of theirs",
                 report_who(core, i, who));
    }
    return (struct divergence_verdict){
        .back = true, .copy = true, .round = core->round, .why = "the mesh has another state"};
}

void
divergence_applied(struct divergence *d, const struct core *core, bool copied)
{
    bool on = !copied && core->round == d->past_to + 1;
    bool first = d->past_to > PROTO_ROUND_MAX; /* its own checkpoint, not a copy of another's */
    remember(d, core, on);
    if ((copied && !first) || core->round < d->own_since)
        d->own_since = core->round;
    if (d->sure > core->round + 1)
        d->sure = core->round + 1;
    for (int i = 0; i < core->peers.high; i++) {
        struct divergence_peer *its = &d->of[i];
        bool up = core->peers.peers[i].state == PEER_UP;
        if (!on || !up) /* it was about states that we do not have any more, or the node is gone */
            its->hash = 0;
        if (its->same > core->round + 1)
            its->same = core->round + 1;
        if (up)
            divergence_said(d, core, i);
    }
}

/* The newest round + 1 before which peers[i] had our state. All begin with the same one. */
static uint64_t
last_common(const struct core *core, int i)
{
    uint64_t same = core->divergence.of[i].same;
    return same > 0 ? same : 1;
}

/* Who has computed its states since one before round `origin` is a witness of what came of that. Of inexact states none
 * is wrong, and all count. */
static bool
is_witness(const struct core *core, uint64_t since, uint64_t origin)
{
    return since < origin || core->config.inexact || mutant(MUTANT_COPY_VOTES);
}

/* How many witnesses hold the state of this hash before `round`, or 1 if it is only held. */
static unsigned
holders(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned count = 0;
    bool held = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        bool holds = view_usable(core, i) && said->round == round && said->state_hash == hash;
        held = held || holds;
        count += holds && is_witness(core, said->since, last_common(core, i));
    }
    return count == 0 && held ? 1 : count;
}

/* Do as many have this other state, or more? Of inexact states one is always to be taken: of equally many the one with
 * the smaller hash, as when it is decided which to keep. */
static bool
outweighs(const struct core *core, uint64_t round, uint64_t other, unsigned same, uint64_t hash)
{
    unsigned count = holders(core, round, other);
    return count > same || (count == same && (!core->config.inexact || other < hash));
}

bool
divergence_trusts(const struct core *core, uint64_t round, uint64_t hash)
{
    unsigned same = holders(core, round, hash);
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        bool other = view_usable(core, i) && said->round == round && said->state_hash != 0 &&
                     said->state_hash != hash;
        if (other && outweighs(core, round, said->state_hash, same, hash))
            return mutant(MUTANT_ODD);
    }
    return true;
}

/* --- The count -------------------------------------------------------------------------------- */

struct count {
    uint64_t round;  /* the lowest before which somebody had another state */
    uint64_t origin; /* before earlier rounds than this, witnesses of both had the same state */
    unsigned ours, theirs; /* witnesses of our state before `round`, of another one; 1 at least */
    bool all;              /* everybody has told */
};

/* Does it count what peers[i] had? Who is gone is a witness of an exact sum. Of inexact ones none is wrong, and all who
 * are here must count alike, or each of two keeps its own. */
static bool
is_counted(const struct core *core, int i)
{
    return !core->config.inexact || core->peers.peers[i].state == PEER_UP;
}

/* Nobody is wrong when sums are inexact: of two states the one of more nodes is kept, or that of the smaller hash. */
static bool
keeps_inexact(const struct core *core, const struct count *count)
{
    bool kept = true;
    for (int i = 0; i < core->peers.high; i++) {
        unsigned same = 0;
        uint64_t hash = core->divergence.of[i].hash;
        for (int k = 0; k < core->peers.high && divergence_differs_from(core, i); k++)
            same += divergence_differs_from(core, k) && is_counted(core, k) &&
                    core->divergence.of[k].hash == hash;
        kept = kept && (same < count->ours || (same == count->ours && core->state_hash < hash));
    }
    return kept;
}

static bool
is_kept(const struct core *core, const struct count *count)
{
    return core->config.inexact ? keeps_inexact(core, count) : count->theirs < count->ours;
}

/* Is what it had still to be heard? How far it is, its last heartbeat does not say: that may be many rounds old. */
static bool
is_unheard(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    return peer->state == PEER_UP && !peer->hello.wants_job && !core->view.of[i].suspected;
}

/* Where the first dispute from round `from` on is about, and since when: see divergence.h. */
static struct count
dispute(const struct core *core, uint64_t from)
{
    struct count count = {.round = UINT64_MAX, .origin = UINT64_MAX, .all = true};
    for (int i = 0; i < core->peers.high; i++) {
        const struct divergence_peer *its = &core->divergence.of[i];
        if (!divergence_differs_from(core, i) || its->round < from)
            continue;
        if (its->round < count.round)
            count.round = its->round;
        if (its->since < its->same && its->same < count.origin)
            count.origin = its->same;
    }
    return count;
}

/* Does peers[i] speak against us? If nobody who differs ever had our state, who never took a copy does, and who differs
 * again after both have computed again. */
static bool
opposes(const struct core *core, int i, uint64_t origin)
{
    const struct divergence_peer *its = &core->divergence.of[i];
    bool again = its->ties > 0 && its->same <= its->tied_round;
    return origin < UINT64_MAX ? is_witness(core, its->since, origin)
                               : its->since == 0 || again || mutant(MUTANT_COPY_VOTES);
}

static struct count
take_count(const struct core *core, uint64_t from)
{
    const struct divergence *d = &core->divergence;
    struct count count = dispute(core, from);
    if (count.round == UINT64_MAX)
        return count;
    count.ours = is_witness(core, d->own_since, count.origin);
    for (int i = 0; i < core->peers.high; i++) {
        if (divergence_differs_from(core, i))
            count.theirs += d->of[i].round >= from && opposes(core, i, count.origin);
        else if (d->of[i].same > count.round && is_counted(core, i))
            count.ours += is_witness(core, d->of[i].since, count.origin);
        else if (is_unheard(core, i))
            count.all = false;
    }
    count.ours += count.ours == 0;
    count.theirs += count.theirs == 0;
    return count;
}

/* The count at the first disputed round before which our state is not kept. Votes at an
 * earlier round count here neither for nor against it. */
static struct count
first_open(const struct core *core)
{
    struct count count = take_count(core, 0);
    while (count.round < UINT64_MAX && is_kept(core, &count))
        count = take_count(core, count.round + 1);
    return count;
}

/* --- The verdict ------------------------------------------------------------------------------ */

static void
difference_log(const struct core *core, int i, const char *verdict)
{
    char who[PROTO_WHO_MAX];
    const struct divergence_peer *its = &core->divergence.of[i];
    core_log(core, core->config.inexact ? 6 : 3,
             "%s and this node have different weights after the same steps: %s",
             report_who(core, i, who), verdict);
    core_log(core, 7, "before round %llu: state %016llx there, %016llx here",
             (unsigned long long)its->round, (unsigned long long)its->hash,
             (unsigned long long)divergence_past(core, its->round));
}

/* Those who differ before a round below `end`. */
static void
outvote(struct divergence *d, const struct core *core, uint64_t end)
{
    for (int i = 0; i < core->peers.high; i++) {
        if (!divergence_differs_from(core, i) || d->of[i].outvoted || d->of[i].round >= end)
            continue;
        d->of[i].outvoted = true;
        difference_log(core, i,
                       core->config.inexact
                           ? "it takes a copy of these"
                           : "more nodes agree with this one, which goes on without it");
    }
}

/* Has it been as many against as many for too often? Then we part. What it says before it has gone back and computed
 * again, too, is what it said the last time. */
static bool
tie_part(struct divergence *d, const struct core *core, int i)
{
    struct divergence_peer *its = &d->of[i];
    if (its->same > its->tied_round)
        its->ties = 0;
    else if (its->tied || its->redoes)
        return false;
    its->tied_round = its->round;
    its->tied = true;
    if (++its->ties < DIVERGENCE_TIES)
        return false;
    difference_log(core, i, "again and again: this node refuses it from now on");
    return true;
}

static struct divergence_verdict
give_up_ours(struct divergence *d, const struct core *core, const struct count *count)
{
    bool tie = count->theirs == count->ours && !core->config.inexact, leaves = false;
    uint64_t refuse = 0;
    for (int i = 0; i < core->peers.high; i++) {
        if (!divergence_differs_from(core, i) || d->of[i].round < count->round)
            continue;
        leaves = true; /* who parts, too: its own state may be the wrong one */
        if (tie && tie_part(d, core, i)) {
            refuse |= UINT64_C(1) << i;
            continue;
        }
        difference_log(core, i,
                       tie                    ? "equally many agree with each, so both go back"
                       : core->config.inexact ? "taking a copy of its weights"
                                              : "more agree with it: going back");
    }
    d->dispute = tie && count->round < UINT64_MAX ? count->round : 0;
    uint64_t sure = core->config.inexact         ? UINT64_MAX
                    : count->origin < UINT64_MAX ? count->origin
                                                 : d->sure;
    d->dispute_since = sure < count->round ? sure : count->round;
    d->given_up = divergence_past(core, count->round);
    return (struct divergence_verdict){.back = leaves,
                                       .refuse = refuse,
                                       .round = d->dispute_since,
                                       .why = "its members hold different states"};
}

static bool
member_differs(const struct core *core)
{
    for (size_t r = 0; r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0 && divergence_differs_from(core, core->plan.peer[r]))
            return true;
    return false;
}

void
divergence_warn(struct divergence *d, const struct core *core)
{
    const struct plan *plan = &core->plan;
    d->warned_at = core->awake;
    for (size_t r = 0; r < plan->now.count; r++)
        if (plan->peer[r] >= 0)
            d->of[plan->peer[r]].owes_hash = true;
}

struct divergence_verdict
divergence_step(struct divergence *d, const struct core *core)
{
    struct divergence_verdict verdict = {.back = false};
    if (!trainer_settled(&core->trainer) || core->state_hash == 0)
        return verdict;
    struct count count = first_open(core);
    bool kept = count.round == UINT64_MAX && !d->parts;
    outvote(d, core, count.round);
    if (kept || d->since.us == 0)
        d->since = kept ? (struct awake){0} : core->awake;
    d->open = !kept;
    bool heard = (count.all && count.round == core->round) ||
                 awake_since(core->awake, d->since) >= DIVERGENCE_GRACE_US;
    bool alone = core->plan.now.count == 1; /* and would go on from what may be wrong */
    verdict.differ = core->plan.active && ((!kept && (heard || alone)) || member_differs(core));
    if (kept || !heard || core->trainer.state != TRAINER_FREE)
        return verdict;
    bool differ = verdict.differ;
    verdict = give_up_ours(d, core, &count);
    verdict.differ = differ;
    verdict.back |= d->parts;
    d->parts = false;
    return verdict;
}

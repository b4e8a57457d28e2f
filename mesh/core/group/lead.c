/* lead.c - see lead.h. */
#include "mesh/core/group/lead.h"

#include <assert.h>

#include "mesh/core/group/cost.h"
#include "mesh/core/group/group.h"
#include "mesh/core/group/plan_elect.h"
#include "mesh/core/group/plan_stages.h"
#include "mesh/core/internal.h"

/* Who computed by itself, and is so many rounds behind, is waited for. */
enum { MEET_ROUNDS = 4 };

/* --- Who is ready ------------------------------------------------------------------------------- */

/* Is it ahead, and this node trains without it for a while? */
static bool
is_apart(const struct core *core, int i)
{
    return awake_reached(core->awake, core->fetch.retry_at) &&
           awake_before(core->awake, core->fetch.of[i].apart_at);
}

static bool
may_be_in(const struct core *core, int i)
{
    return view_usable(core, i) && !core->view.of[i].beat.done && !core->plan.of[i].stuck &&
           !divergence_excludes(core, i) && !straggler_benched(core, i) && !is_apart(core, i);
}

/* Is there a place for who keeps these shards? Where shards must not change hands, a plan needs all who keep some: if
 * not all nodes have a place in it, the others have none. */
static bool
has_place(const struct core *core, uint64_t kept)
{
    bool free = !core->pinned || kept;
    size_t all = 1;
    for (int k = 0; k < core->peers.high && !free; k++)
        all += may_be_in(core, k);
    return all <= core->members_max;
}

/* Could peers[i] be a member of the next plan? */
static bool
wants_in(const struct core *core, int i)
{
    return may_be_in(core, i) && has_place(core, core->view.of[i].beat.have);
}

/* Our own trainer hangs: others are to lead. */
static bool
stuck_here(const struct core *core)
{
    uint64_t busy_us = trainer_busy_us(&core->trainer, core->awake);
    return busy_us > CORE_PROGRESS_US + 4 * plan_recent_max(core) && !mutant(MUTANT_STUCK);
}

/* Idle for long, although nothing is being fetched: nobody plans for us. */
static bool
starved(const struct core *core, bool catching_up)
{
    struct awake since = core->plan.idle_at;
    if (core->plan.plans == 0) /* nobody was to plan before */
        since = awake_later(since, awake_after(core->started_at, core->config.gather_us));
    if (core->plan.plans == 0 && core->config.peers_min > 1) /* nor before all had come */
        since = awake_later(since, core->peers.newest_at);
    return awake_before(awake_after(since, CORE_STARVED_US), core->awake) && !catching_up &&
           !mutant(MUTANT_STARVED);
}

/* Is this a beginning, with a checkpoint or without? Not for who was in a plan, or has come to a mesh that trains. Who
 * has gone back to the first state computes alone until the dispute is over. */
static bool
begins(const struct core *core)
{
    return core->plan.plans == 0 && !core->others_train && core->divergence.dispute <= core->round;
}

/* Has everybody come who is waited for before the first plan? */
static bool
gathered(const struct core *core)
{
    if (!begins(core))
        return true;
    unsigned here = 1;
    for (int i = 0; i < core->peers.high; i++)
        here += wants_in(core, i);
    return group_gathered(core, here);
}

bool
lead_waits_for_peers(const struct core *core)
{
    return core->config.peers_min > 1 && core->trainer.state != TRAINER_START && !core->done &&
           !gathered(core);
}

static bool
is_leader(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (wants_in(core, i) && core->view.of[i].beat.round >= core->round &&
            core->peers.peers[i].node.id < core->config.self.id)
            return false;
    return true;
}

static bool
somebody_ahead(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (divergence_ahead(core, i) && !is_apart(core, i))
            return true;
    return false;
}

/* Will peers[i] never get in while we go on? */
static bool
stays_behind(const struct core *core, int i)
{
    struct awake behind_at = core->plan.of[i].behind_at;
    return plan_says_idle(core, i) && core->view.of[i].beat.round < core->round &&
           behind_at.us > 0 && awake_since(core->awake, behind_at) >= LEAD_CHASE_US &&
           awake_reached(core->awake, core->lead.of[i].chase_at) &&
           plan_recent_max(core) < LEAD_SHORT_US;
}

/* Where those meet who computed by themselves: does one of them come soon? Who led is waited for four times as long:
 * what is chosen there is to be chosen once. */
static bool
meets_soon(const struct core *core)
{
    uint64_t waited_us = awake_since(core->awake, core->plan.idle_at);
    for (int i = 0; i < core->peers.high && core->meets; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        bool led = core->peers.peers[i].node.id < core->config.self.id && !said->benched;
        uint64_t rounds = led ? 4 * MEET_ROUNDS : MEET_ROUNDS;
        if (view_usable(core, i) && !core->plan.of[i].stuck && said->round < core->round &&
            said->round + rounds >= core->round &&
            waited_us < CORE_WAIT_US + rounds * plan_recent_max(core))
            return true;
    }
    return false;
}

/* Is the next plan for us to make? */
static bool
leads_next(const struct core *core, const struct keeps *mine, bool overdue)
{
    if (!plan_idle(core) || core->done || core->leaving || core->fetch.state == FETCH_COMPLETE ||
        divergence_open(core) || !gathered(core) || stuck_here(core) ||
        !has_place(core, mine->shards) || holding_short(core) || kept_missing(core, mine) ||
        holding_grows(core))
        return false;
    if (core->straggler.benched)
        return straggler_apart(core);
    return overdue || (!somebody_ahead(core) && is_leader(core) && !meets_soon(core));
}

uint64_t
lead_waits_us(const struct core *core, const struct keeps *mine)
{
    bool waits = core->plan.plans > 0 && leads_next(core, mine, false);
    return waits ? awake_since(core->awake, core->plan.idle_at) : 0;
}

/* --- Choosing the members ------------------------------------------------------------------------ */

/* No more than there are shards. True: somebody else may be ready soon. */
static bool
choose_members(const struct core *core, bool overdue, struct group_choice *choice)
{
    uint64_t id = overdue ? core->config.self.id : 0, wanted = 0;
    bool wait = false;
    *choice = (struct group_choice){.count = 1, .peer = {-1}};
    for (int i = 0; i < core->peers.high; i++)
        wanted |= (uint64_t)wants_in(core, i) << i;
    for (int i;
         choice->count < core->members_max && (i = group_next(core, choice, wanted, id)) >= 0;
         id = group_node(core, i).id) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        bool idle = plan_says_idle(core, i), fresh = group_fresh(core, i);
        if (idle && fresh && said->round == core->round && said->holds)
            group_add(core, choice, i);
        else if (awake_reached(core->awake, core->lead.of[i].hold_at) &&
                 (!core->plan.held || said->ready || !idle || !fresh || stays_behind(core, i)))
            wait = true;
    }
    return wait;
}

/* Is somebody about to catch up, who is waited for up to a round? */
static bool
catches_up_soon(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        struct awake at = core->give.of[i].served_at;
        bool served = at.us > 0 && awake_since(core->awake, at) < CORE_WAIT_US;
        if (wants_in(core, i) && said->round < core->round && (said->ready || served))
            return true;
    }
    return false;
}

/* Does somebody whom we stand still for come nearer? */
static bool
closes_in(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (wants_in(core, i) && stays_behind(core, i) &&
            awake_since(core->awake, core->view.of[i].moved_at) < CORE_WAIT_US)
            return true;
    return false;
}

/* How long to wait at an idle boundary. */
static bool
waited(const struct core *core)
{
    uint64_t most_us = CORE_WAIT_US;
    if (catches_up_soon(core) && plan_recent_max(core) > most_us)
        most_us = plan_recent_max(core);
    if (closes_in(core))
        most_us = LEAD_CHASE_US;
    return awake_since(core->awake, core->plan.idle_at) >= most_us && !mutant(MUTANT_WAIT);
}

/* All who are waited for have come, but have they heard of one another? */
static bool
too_few(const struct core *core, const struct group_choice *choice)
{
    return begins(core) && choice->count < core->config.peers_min &&
           choice->count < core->members_max;
}

/* --- Making the plan ----------------------------------------------------------------------------- */

/* Who did not get in is not waited for again at once. */
static void
hold_later(struct lead *lead, const struct core *core, const struct group_choice *choice)
{
    lead->not_joined = 0;
    for (int i = 0; i < core->peers.high; i++) {
        struct lead_peer *peer = &lead->of[i];
        if (group_has(choice->peer, choice->count, i)) {
            peer->hold_us = peer->chase_us = 0;
            continue;
        }
        if (stays_behind(core, i)) { /* the mesh stood still for it, whatever is heard of it */
            peer->chase_us = backoff_us(peer->chase_us, LEAD_CHASE_US, LEAD_CHASE_MAX_US);
            peer->chase_at = awake_after(core->awake, peer->chase_us);
        }
        if (awake_before(core->awake, peer->hold_at))
            continue;
        peer->hold_us = backoff_us(peer->hold_us, LEAD_AGAIN_US, LEAD_AGAIN_MAX_US);
        peer->hold_at = awake_after(core->awake, peer->hold_us);
        if (choice->count < core->members_max && wants_in(core, i) &&
            group_hears(core, choice->peer, choice->count, i))
            lead->not_joined |= UINT64_C(1) << i;
    }
}

/* What is known of the members. */
static void
see_members(const struct core *core, size_t n, const int *peer, struct plan_stages_member *member)
{
    struct cost_view known;
    straggler_see(&core->straggler, core, n, peer, &known);
    for (size_t k = 0; k < n; k++)
        member[k] = (struct plan_stages_member){.speed = known.cost.of[k].speed,
                                                .line = known.cost.of[k].line};
}

/* Sets the members' stages and shards. What they have of the round belongs to the plan before this one, or to one that
 * this node did not see: then it is computed again. False: together they do not hold the whole model. */
static bool
divide(const struct core *core, const struct keeps *mine, const struct group_choice *choice,
       struct proto_plan *plan)
{
    struct plan_stages_member member[PROTO_PEERS_MAX];
    const struct proto_plan *before = &core->plan.now;
    uint64_t some = 0;
    if (core->pinned && core->config.stages.cut_count > 0 && !mutant(MUTANT_PIN))
        return kept_divide(core, mine, choice, plan);
    see_members(core, choice->count, choice->peer, member);
    for (size_t k = 0; k < choice->count; k++) {
        int i = choice->peer[k], rank = proto_plan_rank(before, plan->members[k].node);
        const struct proto_heartbeat *said = i < 0 ? NULL : &core->view.of[i].beat;
        member[k].have = kept_by(core, mine, i).shards;
        member[k].holds = said ? said->holds : core->holds;
        member[k].computes = rank < 0 ? 0 : before->members[rank].computes;
        some |= member[k].have;
    }
    bool keeps = some && before->cut_count > 0;
    return plan_stages(&core->config, member, keeps ? before : NULL, core->placement, plan);
}

static bool
propose(struct lead *lead, const struct core *core, const struct keeps *mine,
        const struct group_choice *choice, struct plan_draft *draft)
{
    struct proto_msg msg = {.type = PROTO_PLAN};
    for (size_t k = 0; k < choice->count; k++) {
        int i = choice->peer[k];
        msg.plan.members[k].node = group_node(core, i);
        draft->peer[k] = i;
        draft->rank = i < 0 ? (unsigned)k : draft->rank;
    }
    msg.plan.count = choice->count;
    assert(choice->peer[draft->rank] < 0);
    if (!divide(core, mine, choice, &msg.plan))
        return false;
    msg.plan.round = core->round;
    msg.plan.counter = ++lead->counter;
    msg.plan.leader = core->config.self;
    hold_later(lead, core, choice);
    plan_elect(&core->plan, core, draft->peer, &msg.plan);
    draft->plan = msg.plan;
    group_tell(core, choice->peer, choice->count, &msg);
    draft->hash = proto_plan_hash(&msg.plan);
    return true;
}

static bool
covers(const struct core *core, const struct keeps *mine, const struct group_choice *choice)
{
    return holding_covers(core, choice) && kept_covers(core, mine, choice);
}

enum lead_verdict
lead_make(struct lead *lead, const struct core *core, const struct keeps *mine, bool catching_up,
          struct plan_draft *draft)
{
    const struct plan *plan = &core->plan;
    bool overdue = starved(core, catching_up);
    struct group_choice choice = {.count = 1, .peer = {-1}};
    if (!leads_next(core, mine, overdue))
        return LEAD_NOTHING;
    bool fails = plan->fails >= LEAD_FAILS && plan->fails_round == core->round;
    bool alone = (fails || core->straggler.benched) && covers(core, mine, &choice);
    if (!alone) {
        bool wait = choose_members(core, overdue, &choice);
        if (!overdue && ((wait && !waited(core)) || too_few(core, &choice)))
            return LEAD_NOTHING;
    }
    bool made = covers(core, mine, &choice) && propose(lead, core, mine, &choice, draft);
    return made ? LEAD_MADE : LEAD_MISSING;
}

/* --- Holding it ---------------------------------------------------------------------------------- */

/* A member wants to hold more of the model. */
static bool
member_wants(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    return said->needs && !said->done && core->plan.hold == UINT64_MAX && !core->pins_next;
}

/* So many rounds ahead peers[i] is of another part of the mesh; not who computes by itself, or waits where we meet. */
static uint64_t
ahead_least(const struct core *core, int i)
{
    bool apart = straggler_apart(core) || straggler_benched(core, i) || core->view.of[i].beat.idle;
    return LEAD_MERGE_ROUNDS + (apart ? core->warms : 0);
}

/* May a plan be held for peers[i], which is no member? */
static bool
may_hold_for(const struct core *core, int i)
{
    const struct plan *plan = &core->plan;
    return !core->view.of[i].beat.done && !straggler_benched(core, i) && !straggler_apart(core) &&
           !awake_before(core->awake, core->lead.of[i].hold_at) && !mutant(MUTANT_HOLD) &&
           group_hears(core, plan->peer, plan->now.count, i) && plan->hold == UINT64_MAX;
}

struct lead_consent
lead_consider(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct lead_consent no = {.hold = false};
    bool idle = plan_says_idle(core, i);
    if (plan_member(&core->plan, i))
        return (struct lead_consent){.hold = member_wants(core, i)};
    if (!view_usable(core, i) || core->plan.of[i].stuck || divergence_excludes(core, i))
        return no;
    if (said->round > core->round + ahead_least(core, i) && !is_apart(core, i) &&
        awake_reached(core->awake, core->fetch.of[i].avoid_at))
        return (struct lead_consent){.drop = "another group is ahead"};
    if (!may_hold_for(core, i))
        return no;
    bool yields = !idle && !said->ready && core->peers.peers[i].node.id < core->config.self.id &&
                  said->round + LEAD_MERGE_ROUNDS >= core->round;
    bool full = core->plan.now.count >= core->members_max; /* more could not compute anything */
    bool waits = said->ready || (idle && said->round == core->round + 1) || stays_behind(core, i);
    return (struct lead_consent){.hold = (waits && !full) || yields};
}

struct lead_consent
lead_consider_all(const struct core *core)
{
    struct lead_consent all = {.hold = false};
    for (int i = 0; plan_leads(core) && i < core->peers.high && !all.drop; i++) {
        struct lead_consent one = lead_consider(core, i);
        all.hold |= one.hold;
        all.drop = one.drop;
    }
    return all;
}

/* Is the present division much slower than one by the speeds known by now? */
static bool
unbalanced(const struct core *core)
{
    const struct plan *plan = &core->plan;
    struct plan_stages_member member[PROTO_PEERS_MAX];
    struct proto_plan better = plan->now;
    see_members(core, plan->now.count, plan->peer, member);
    for (size_t m = 0; m < plan->now.count; m++)
        member[m].holds = plan->now.members[m].holds;
    for (size_t m = 0; m < plan->now.count && !core->config.even && !core->placement; m++)
        if (member[m].speed == 0) /* who has nothing to compute would never show how fast it is */
            return plan->now.members[m].shards == 0;
    return plan_stages(&core->config, member, NULL, core->placement, &better) &&
           cost_clearly_less(plan_stages_us(&core->config, member, &better, core->placement),
                             plan_stages_us(&core->config, member, &plan->now, core->placement));
}

/* Has a member more shards than its share? Who kept what it had computed when a plan was dropped may have. */
static bool
uneven(const struct core *core)
{
    const struct plan *plan = &core->plan;
    size_t share = (core->config.shards + plan->now.count - 1) / plan->now.count;
    for (size_t m = 0; m < plan->now.count; m++)
        if ((size_t)__builtin_popcountll(plan->now.members[m].shards) > share)
            return true;
    return false;
}

bool
lead_divides_again(struct lead *lead, const struct core *core)
{
    const struct plan *plan = &core->plan;
    bool even = core->config.even && plan->now.cut_count == 0;
    bool due = !awake_before(core->awake, lead->balance_at);
    if (!plan_leads(core) || plan->now.count < 2 || plan->hold != UINT64_MAX || core->pins_next)
        return false;
    bool divides = even ? uneven(core) : due && unbalanced(core);
    bool gains = divides || (due && plan_elects_better(plan, core));
    if (gains)
        lead->balance_us = backoff_us(lead->balance_us, LEAD_BALANCE_US, LEAD_BALANCE_MAX_US);
    if (gains || due)
        lead->balance_at = awake_after(core->awake, gains ? lead->balance_us : LEAD_LOOK_US);
    if (!gains)
        return false;
    core_log(core, 7, "round %llu: %s", (unsigned long long)core->round,
             !divides ? "electing servers again"
             : even   ? "dividing the shards again, equally"
                      : "dividing the shards again, by speed");
    return true;
}

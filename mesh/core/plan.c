/* plan.c - see plan.h for the states and the rules. */
#include "mesh/core/plan.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/divide.h"
#include "mesh/core/internal.h"

void
plan_init(struct core *core)
{
    core->plan = (struct plan){.hold = UINT64_MAX};
}

bool
plan_idle(const struct core *core)
{
    return !core->plan.active && contribution_settled(core);
}

bool
plan_leader(const struct core *core)
{
    return core->plan.active && core_node_equal(core->plan.now.leader, core->config.self);
}

uint64_t
plan_mine(const struct core *core)
{
    return core->plan.now.members[core->plan.rank].shards;
}

void
plan_progress(struct core *core)
{
    core->plan.progress_at_us = core->awake;
}

bool
plan_member(const struct core *core, int i)
{
    for (size_t r = 0; core->plan.active && r < core->plan.now.count; r++)
        if (core->plan.peer[r] == i)
            return true;
    return false;
}

static void
plan_send(struct core *core, const struct proto_msg *msg)
{
    for (size_t r = 0; r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0)
            peers_send(core, core->plan.peer[r], msg);
}

/* --- Beginning and ending ---------------------------------------------------------------------- */

static void
go_idle(struct core *core)
{
    core->plan.active = false;
    core->plan.hold = UINT64_MAX;
    core->plan.idle_at_us = core->awake;
    ring_stop(core->ring);
    heartbeat_send(core);
}

/* Members count as idle, and what they have as known, only from their next heartbeat on. */
static void
members_busy(struct core *core)
{
    for (size_t r = 0; r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0)
            core->view.of[core->plan.peer[r]].beat.idle = false;
}

static void
round_begin(struct core *core)
{
    core->plan.round_at_us = core->awake;
    plan_progress(core);
    ring_round(core->ring, core->round, core->first_bucket, core->state_hash);
    audit_round(&core->audit, core);
}

static void
adopt(struct core *core, const struct proto_plan *plan, uint64_t hash, unsigned rank,
      const int *peer)
{
    fetch_planned(&core->fetch, core);
    core->plan.active = true;
    core->plan.held = false;
    core->plan.now = *plan;
    core->plan.hash = hash;
    core->plan.rank = rank;
    core->plan.hold = UINT64_MAX;
    memcpy(core->plan.peer, peer, plan->count * sizeof *peer);
    members_busy(core);
    core->plan.adopted_at_us = core->awake;
    core->plan.plans++;
    ring_plan(core->ring, plan, hash, rank);
    straggler_plan(&core->straggler, core);
    round_begin(core);
    core_log(core, 7, "plan %016llx: round %llu, %u members, %d shards here",
             (unsigned long long)hash, (unsigned long long)plan->round, (unsigned)plan->count,
             __builtin_popcountll(plan_mine(core)));
}

static bool
is_dead(const struct core *core, uint64_t hash)
{
    for (unsigned k = 0; k < PLAN_DEAD_MAX; k++)
        if (core->plan.dead[k] == hash)
            return !core_mutant(MUTANT_DEAD);
    return false;
}

/* Each member says so of the same plan: it takes one place. */
static void
bury(struct core *core, uint64_t hash)
{
    if (!is_dead(core, hash))
        core->plan.dead[core->plan.dead_next++ % PLAN_DEAD_MAX] = hash;
}

static void
drop(struct core *core, const char *why, bool differ)
{
    if (!core->plan.active)
        return;
    core_log(core, 7, "round %llu: plan of %u dropped: %s", (unsigned long long)core->round,
             (unsigned)core->plan.now.count, why);
    core->plan.aborts++;
    bury(core, core->plan.hash);
    if (plan_leader(core)) {
        core->plan.fails = core->plan.fails_round == core->round ? core->plan.fails + 1 : 1;
        core->plan.fails_round = core->round;
    }
    struct proto_msg msg = {.type = PROTO_ABORT,
                            .abort = {.plan_hash = core->plan.hash, .differ = differ}};
    plan_send(core, &msg);
    members_busy(core);
    go_idle(core);
}

void
plan_abort(struct core *core, const char *why)
{
    drop(core, why, false);
}

void
plan_differ(struct core *core)
{
    drop(core, "its members hold different states", true);
}

void
plan_peer_lost(struct core *core, int i, const char *why)
{
    if (plan_member(core, i) && !(plan_leader(core) && core_mutant(MUTANT_UNNOTICED)))
        plan_abort(core, why);
}

static void
hold(struct core *core)
{
    struct plan *plan = &core->plan;
    struct proto_msg msg = {.type = PROTO_HOLD,
                            .hold = {.plan_hash = plan->hash, .round = core->round + 1}};
    plan->hold = core->round + 1;
    plan_send(core, &msg);
}

/* Is the present division much slower than one by the speeds known by now? */
static bool
unbalanced(const struct core *core)
{
    const struct plan *plan = &core->plan;
    size_t n = plan->now.count;
    uint64_t none[PROTO_PEERS_MAX] = {0}, mine[PROTO_PEERS_MAX] = {0},
             better[PROTO_PEERS_MAX] = {0};
    uint32_t speed[PROTO_PEERS_MAX] = {0};
    for (size_t m = 0; m < n; m++) {
        int i = plan->peer[m];
        mine[m] = plan->now.members[m].shards;
        speed[m] = i < 0 ? core->contribution.speed : core->view.of[i].beat.speed;
        if (speed[m] == 0)
            return false;
    }
    divide_shards(core->all, n, none, speed, better);
    uint64_t now_us = divide_makespan_us(n, mine, speed),
             then_us = divide_makespan_us(n, better, speed);
    return 4 * now_us > PLAN_GAIN * then_us && now_us > then_us + PLAN_GAIN_US;
}

static void
balance(struct core *core)
{
    struct plan *plan = &core->plan;
    if (!plan_leader(core) || plan->now.count < 2 || plan->hold != UINT64_MAX ||
        core->awake < plan->balance_at_us || !unbalanced(core))
        return;
    uint64_t next_us = plan->balance_us == 0 ? PLAN_BALANCE_US : 2 * plan->balance_us;
    plan->balance_us = next_us > PLAN_BALANCE_MAX_US ? PLAN_BALANCE_MAX_US : next_us;
    plan->balance_at_us = core->awake + plan->balance_us;
    core_log(core, 7, "round %llu: dividing the shards anew by speed",
             (unsigned long long)core->round);
    hold(core);
}

void
plan_applied(struct core *core)
{
    struct plan *plan = &core->plan;
    plan->patience = 0;
    if (!plan->active) {
        plan->idle_at_us = core->awake;
        heartbeat_send(core);
        return;
    }
    uint64_t took_us = core->awake - plan->round_at_us;
    plan->recent_us[plan->recent_next++ % PLAN_RECENT] = took_us;
    enum straggler_verdict verdict = straggler_round(&core->straggler, core, took_us);
    if (verdict == STRAGGLER_BENCHED)
        heartbeat_send(core);
    if (core->done || core->round >= plan->hold) {
        plan->held = true;
        go_idle(core);
    } else {
        round_begin(core);
        if (verdict != STRAGGLER_GO_ON)
            hold(core);
        else
            balance(core);
    }
}

/* --- Hung trainers ----------------------------------------------------------------------------- */

uint64_t
plan_recent_max(const struct core *core)
{
    uint64_t most = core->contribution.compute_us;
    for (unsigned k = 0; k < PLAN_RECENT; k++)
        if (core->plan.recent_us[k] > most)
            most = core->plan.recent_us[k];
    return most;
}

/* Nobody knows how long a trainer takes that is slower than ours and has not finished anything yet. */
static uint64_t
stuck_us(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    uint64_t most = plan_recent_max(core), own_us = contribution_busy_us(core);
    uint64_t shards = (uint64_t)__builtin_popcountll(said->have);
    uint64_t expected_us = said->speed ? UINT64_C(1000000) * 1000000 * shards / said->speed : most;
    most = expected_us > most ? expected_us : most;
    most = own_us > most ? own_us : most;
    return CORE_PROGRESS_US + 4 * most;
}

static void
judge_stuck(struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    struct plan_peer *planned = &core->plan.of[i];
    char who[PROTO_WHO_MAX];
    if (planned->stuck || said->busy_us <= stuck_us(core, i) || core_mutant(MUTANT_STUCK))
        return;
    planned->stuck = true;
    core_log(core, 4, "%s is too slow (no work for %.1f s): going on without it until it is faster",
             report_who(core, i, who), (double)said->busy_us / 1e6);
}

/* Our own trainer hangs: others are to lead. */
static bool
stuck_here(const struct core *core)
{
    return contribution_busy_us(core) > CORE_PROGRESS_US + 4 * plan_recent_max(core) &&
           !core_mutant(MUTANT_STUCK);
}

/* --- Leading ----------------------------------------------------------------------------------- */

static bool
wants_in(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct plan_peer *planned = &core->plan.of[i];
    return peers_usable(core, i) && !said->done && !planned->stuck &&
           !divergence_excludes(core, i) && !straggler_benched(&core->straggler, core, i);
}

/* Idle for long, although nothing is being fetched: nobody plans for us. */
static bool
starved(const struct core *core)
{
    uint64_t since_us = core->plan.idle_at_us;
    if (core->plan.plans == 0 && since_us < core->started_at_us + core->config.gather_us)
        since_us = core->started_at_us + core->config.gather_us; /* nobody was to plan before */
    if (core->plan.plans == 0 && core->config.peers_min > 1 && since_us < core->peers.newest_at_us)
        since_us = core->peers.newest_at_us; /* nor before all had come */
    return core->awake > since_us + CORE_STARVED_US && !fetch_moving(core, CORE_STARVED_US) &&
           !core_mutant(MUTANT_STARVED);
}

/* Has everybody come who is waited for before the first round? */
static bool
gathered(const struct core *core)
{
    if (core->plan.plans > 0 || core->round > 0)
        return true;
    unsigned here = 1;
    for (int i = 0; i < core->peers.high; i++)
        here += wants_in(core, i);
    if (core->config.peers_min > 1)
        return here >= core->config.peers_min;
    bool quiet = here > 1 && core->awake - core->peers.newest_at_us >= PLAN_QUIET_US;
    return quiet || core->awake - core->started_at_us >= core->config.gather_us;
}

bool
plan_waits_for_peers(const struct core *core)
{
    return core->config.peers_min > 1 && core->contribution.state != TRAINER_START && !core->done &&
           !gathered(core);
}

static bool
is_leader(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (wants_in(core, i) && said->round >= core->round && peer->node.id < core->config.self.id)
            return false;
    }
    return true;
}

static bool
somebody_ahead(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (peers_usable(core, i) && core->view.of[i].beat.round > core->round &&
            !divergence_excludes(core, i))
            return true;
    return false;
}

/* Since when it rests at a round that we have passed. */
static void
mark_behind(struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    struct plan_peer *planned = &core->plan.of[i];
    if (!said->idle || said->round >= core->round)
        planned->behind_at_us = 0;
    else if (planned->behind_at_us == 0)
        planned->behind_at_us = core->awake;
}

/* Will it never get in while we go on? */
static bool
chases(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct plan_peer *planned = &core->plan.of[i];
    return said->idle && said->round < core->round && planned->behind_at_us > 0 &&
           core->awake - planned->behind_at_us >= PLAN_CHASE_US &&
           core->awake >= planned->chase_at_us && plan_recent_max(core) < PLAN_SHORT_US;
}

/* The mesh stood still for it, and it did not get in: next time after twice as long, whatever is heard of it. */
static void
chased(struct core *core, struct plan_peer *planned)
{
    planned->chase_us = planned->chase_us == 0 ? PLAN_CHASE_US : 2 * planned->chase_us;
    if (planned->chase_us > PLAN_CHASE_MAX_US)
        planned->chase_us = PLAN_CHASE_MAX_US;
    planned->chase_at_us = core->awake + planned->chase_us;
}

struct choice {
    size_t n;
    int peer[PROTO_PEERS_MAX]; /* -1 myself */
    bool wait;                 /* somebody else may be ready soon */
};

static bool
chosen(const struct choice *choice, int i)
{
    for (size_t k = 0; k < choice->n; k++)
        if (choice->peer[k] == i)
            return true;
    return false;
}

static bool
hears_all(const struct core *core, const struct choice *choice, int i)
{
    for (size_t k = 0; k < choice->n; k++)
        if (choice->peer[k] >= 0 && !peers_mutual(core, choice->peer[k], i))
            return false;
    return true;
}

static uint64_t
id_of(const struct core *core, int i)
{
    return i < 0 ? core->config.self.id : core->peers.peers[i].node.id;
}

static void
choice_add(const struct core *core, struct choice *choice, int i)
{
    size_t k = choice->n++;
    for (; k > 0 && id_of(core, choice->peer[k - 1]) > id_of(core, i); k--)
        choice->peer[k] = choice->peer[k - 1];
    choice->peer[k] = i;
}

/* The next peer in the order of ids after `id`, or -1. */
static int
next_by_id(const struct core *core, uint64_t id)
{
    int best = -1;
    for (int i = 0; i < core->peers.high; i++)
        if (wants_in(core, i) && id_of(core, i) > id &&
            (best < 0 || id_of(core, i) < id_of(core, best)))
            best = i;
    return best;
}

/* Members by and by in the order of ids, each hearing and heard by all before it. */
static void
choose(const struct core *core, bool hungry, struct choice *choice)
{
    *choice = (struct choice){.n = 0};
    choice_add(core, choice, -1);
    uint64_t id = hungry ? core->config.self.id : 0;
    for (int i; (i = next_by_id(core, id)) >= 0; id = id_of(core, i)) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        const struct plan_peer *planned = &core->plan.of[i];
        if (!hears_all(core, choice, i))
            continue;
        if (said->idle && said->round == core->round)
            choice_add(core, choice, i);
        else if (core->awake >= planned->court_at_us &&
                 (!core->plan.held || said->ready || !said->idle || chases(core, i)))
            choice->wait = true;
    }
}

/* Is somebody about to catch up, who is waited for up to a round? */
static bool
nearly(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        uint64_t at_us = core->serve.of[i].served_at_us;
        bool served = at_us > 0 && core->awake - at_us < CORE_WAIT_US;
        if (wants_in(core, i) && said->round < core->round && (said->ready || served))
            return true;
    }
    return false;
}

/* How long to wait at an idle boundary. */
static bool
waited(const struct core *core)
{
    uint64_t most_us = CORE_WAIT_US;
    if (nearly(core) && plan_recent_max(core) > most_us)
        most_us = plan_recent_max(core);
    return core->awake - core->plan.idle_at_us >= most_us && !core_mutant(MUTANT_WAIT);
}

/* Who did not get in is not waited for again at once. */
static void
court_later(struct core *core, const struct choice *choice)
{
    for (int i = 0; i < core->peers.high; i++) {
        struct plan_peer *planned = &core->plan.of[i];
        if (chosen(choice, i)) {
            planned->court_us = planned->chase_us = 0;
            continue;
        }
        if (chases(core, i))
            chased(core, planned);
        if (core->awake < planned->court_at_us)
            continue;
        uint64_t next_us = planned->court_us == 0 ? PLAN_COURT_US : 2 * planned->court_us;
        planned->court_us = next_us > PLAN_COURT_MAX_US ? PLAN_COURT_MAX_US : next_us;
        planned->court_at_us = core->awake + planned->court_us;
        if (wants_in(core, i) && hears_all(core, choice, i))
            straggler_courted(&core->straggler, core, i);
    }
}

static void
plan_fill(struct core *core, const struct choice *choice, struct proto_plan *plan)
{
    uint64_t have[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX] = {0};
    uint32_t speed[PROTO_PEERS_MAX] = {0};
    for (size_t k = 0; k < choice->n; k++) {
        int i = choice->peer[k];
        plan->members[k].node = i < 0 ? core->config.self : core->peers.peers[i].node;
        have[k] = i < 0 ? contribution_have(core) : core->view.of[i].beat.have;
        speed[k] = i < 0 ? core->contribution.speed : core->view.of[i].beat.speed;
    }
    divide_shards(core->all, choice->n, have, speed, shards);
    if (core_mutant(MUTANT_TWICE) && choice->n > 1)
        shards[shards[0] & 1] |= 1; /* shard 0 */
    for (size_t k = 0; k < choice->n; k++)
        plan->members[k].shards = shards[k];
    plan->round = core->round;
    plan->counter = ++core->plan.counter;
    plan->leader = core->config.self;
    plan->count = choice->n;
}

static void
propose(struct core *core, const struct choice *choice)
{
    struct proto_msg msg = {.type = PROTO_PLAN};
    plan_fill(core, choice, &msg.plan);
    court_later(core, choice);
    unsigned rank = 0;
    for (unsigned k = 0; k < choice->n; k++) {
        if (choice->peer[k] < 0)
            rank = k;
        else
            peers_send(core, choice->peer[k], &msg);
    }
    adopt(core, &msg.plan, proto_plan_hash(&msg.plan), rank, choice->peer);
}

/* All who are waited for have come, but have they heard of one another? */
static bool
too_few(const struct core *core, const struct choice *choice)
{
    return core->plan.plans == 0 && core->round == 0 && choice->n < core->config.peers_min;
}

/* Is the next plan for us to make? */
static bool
leads(const struct core *core, bool hungry)
{
    if (!plan_idle(core) || core->done || core->leaving || core->fetch.stage == FETCH_COMPLETE ||
        divergence_pending(core) || !gathered(core) || stuck_here(core) || core->straggler.benched)
        return false;
    return hungry || (!somebody_ahead(core) && is_leader(core));
}

uint64_t
plan_waits_us(const struct core *core)
{
    bool waits = core->plan.plans > 0 && leads(core, false);
    return waits ? core->awake - core->plan.idle_at_us : 0;
}

void
plan_step(struct core *core)
{
    bool hungry = starved(core);
    if (!leads(core, hungry))
        return;
    struct choice choice;
    if (core->plan.fails >= PLAN_FAILS && core->plan.fails_round == core->round) {
        choice = (struct choice){.n = 1, .peer = {-1}};
    } else {
        choose(core, hungry, &choice);
        if (choice.wait && !hungry && !waited(core))
            return;
        if (too_few(core, &choice) && !hungry)
            return;
    }
    propose(core, &choice);
}

/* --- Running ----------------------------------------------------------------------------------- */

static bool
hears_plan(const struct core *core, int i)
{
    for (size_t r = 0; r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0 && !peers_mutual(core, core->plan.peer[r], i))
            return false;
    return true;
}

/* Somebody usable is not in my plan: shall it end for their sake? */
static void
court(struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct plan_peer *planned = &core->plan.of[i];
    const struct fetch_peer *fetched = &core->fetch.of[i];
    if (!peers_usable(core, i) || planned->stuck || plan_member(core, i) ||
        divergence_excludes(core, i))
        return;
    if (said->round > core->round + PLAN_MERGE_ROUNDS && core->awake >= fetched->avoid_at_us) {
        plan_abort(core, "another group is ahead");
        return;
    }
    if (said->done || straggler_benched(&core->straggler, core, i) ||
        core->awake < planned->court_at_us || core_mutant(MUTANT_HOLD) || !hears_plan(core, i) ||
        core->plan.hold != UINT64_MAX)
        return;
    bool yields = !said->idle && !said->ready && peer->node.id < core->config.self.id &&
                  said->round + PLAN_MERGE_ROUNDS >= core->round;
    bool waits = said->ready || (said->idle && said->round == core->round + 1) || chases(core, i);
    if (waits || yields)
        hold(core);
}

/* What a member says of itself contradicts the plan. */
static const char *
contradiction(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct heard *heard = &core->view.of[i];
    const struct plan_peer *planned = &core->plan.of[i];
    uint64_t age_us = core->awake - core->plan.adopted_at_us;
    uint64_t still_us = core->awake - core->plan.progress_at_us;
    if (!heard->hears_me && still_us > CORE_HEARTBEAT_US && !core_mutant(MUTANT_HEARING))
        return "a member does not hear us";
    if (planned->stuck)
        return "a member's trainer hangs";
    /* One that is a round ahead has sent all of this round: it may still be on the way. */
    uint64_t patience_us = said->round > core->round ? CORE_SUSPECT_US : CORE_HEARTBEAT_US;
    if (said->idle && age_us > PLAN_GRACE_US && still_us > patience_us)
        return "a member is idle";
    if (said->round > core->round + 1)
        return "a member is ahead";
    return NULL;
}

void
plan_on_beat(struct core *core, int i)
{
    judge_stuck(core, i);
    mark_behind(core, i);
    if (!core->plan.active)
        return;
    if (plan_member(core, i)) {
        bool idle = core->view.of[i].beat.idle;
        const char *why = contradiction(core, i);
        if (why)
            plan_abort(core, why);
        core->view.of[i].beat.idle = idle;
    } else if (plan_leader(core)) {
        court(core, i);
    }
}

void
plan_tick(struct core *core)
{
    struct plan *plan = &core->plan;
    if (!plan->active)
        return;
    if (core->contribution.state != TRAINER_FREE)
        plan_progress(core); /* my own computing and applying take the time they take */
    uint64_t most_us = (CORE_PROGRESS_US + 4 * plan_recent_max(core)) << plan->patience;
    if (core->awake - plan->progress_at_us > most_us && !core_mutant(MUTANT_PROGRESS)) {
        if (plan->patience < PLAN_PATIENCE_MAX)
            plan->patience++;
        plan_abort(core, "no progress");
        return;
    }
    if (plan_leader(core))
        for (int i = 0; i < core->peers.high && plan->active; i++)
            court(core, i);
}

/* --- Obeying ----------------------------------------------------------------------------------- */

static bool
plan_covers(const struct core *core, const struct proto_plan *plan)
{
    uint64_t seen = 0;
    for (size_t k = 0; k < plan->count; k++) {
        if ((seen & plan->members[k].shards) && !core_mutant(MUTANT_TWICE))
            return false;
        seen |= plan->members[k].shards;
    }
    return seen == core->all;
}

/* Who the members are to us; false when one is unknown or we are not among them. */
static bool
plan_resolve(const struct core *core, const struct proto_plan *plan, int *peer, unsigned *rank)
{
    bool me = false;
    for (unsigned k = 0; k < plan->count; k++) {
        if (core_node_equal(plan->members[k].node, core->config.self)) {
            if (me)
                return false;
            me = true;
            *rank = k;
            peer[k] = -1;
            continue;
        }
        peer[k] = peers_find(core, plan->members[k].node);
        if (peer[k] < 0 || core->view.of[peer[k]].suspected || divergence_excludes(core, peer[k]))
            return false;
        for (unsigned j = 0; j < k; j++)
            if (peer[j] == peer[k])
                return false;
    }
    return me;
}

/* A newer plan of the same leader replaces the present one: the old one is over for it. */
static bool
replaces(const struct core *core, const struct proto_plan *plan)
{
    return core->plan.active && core_node_equal(plan->leader, core->plan.now.leader) &&
           plan->counter > core->plan.now.counter;
}

static bool
of_round(const struct core *core, const struct proto_plan *plan)
{
    return plan->round == core->round ||
           (core_mutant(MUTANT_PLAN_ROUND) && plan->round + 1 == core->round);
}

void
plan_on_plan(struct core *core, int from, const struct proto_plan *plan)
{
    uint64_t hash = proto_plan_hash(plan);
    unsigned rank = 0;
    int peer[PROTO_PEERS_MAX];
    if (core->plan.active && core->plan.hash == hash)
        return;
    if (!core_node_equal(plan->leader, core->peers.peers[from].node))
        return;
    bool ready = contribution_settled(core) && !core->divergence.open && !core->done &&
                 !core->leaving && core->fetch.stage != FETCH_COMPLETE && of_round(core, plan) &&
                 (!core->plan.active || replaces(core, plan));
    if (ready && !is_dead(core, hash) && plan_covers(core, plan) &&
        plan_resolve(core, plan, peer, &rank)) {
        if (core->plan.active)
            ring_stop(core->ring);
        adopt(core, plan, hash, rank, peer);
        return;
    }
    struct proto_msg no = {.type = PROTO_ABORT, .abort = {.plan_hash = hash}};
    peers_send(core, from, &no);
}

void
plan_on_hold(struct core *core, int from, const struct proto_hold *msg)
{
    struct plan *plan = &core->plan;
    if (!plan->active || msg->plan_hash != plan->hash ||
        !core_node_equal(plan->now.leader, core->peers.peers[from].node))
        return;
    if (msg->round < plan->hold)
        plan->hold = msg->round;
    if (core->round >= plan->hold && contribution_settled(core)) {
        plan->held = true;
        go_idle(core);
    }
}

void
plan_on_abort(struct core *core, int from, const struct proto_abort *msg)
{
    struct plan *plan = &core->plan;
    if (!plan->active || msg->plan_hash != plan->hash || !plan_member(core, from)) {
        bury(core, msg->plan_hash);
        return;
    }
    if (!msg->differ) {
        plan_abort(core, "a member dropped it");
        return;
    }
    divergence_warn(&core->divergence, core);
    plan_differ(core);
}

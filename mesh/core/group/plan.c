/* plan.c - the life of a plan: see plan.h for the states and the rules. */
#include "mesh/core/group/plan.h"

#include <assert.h>

#include "mesh/core/group/group.h"
#include "mesh/core/group/plan_stages.h"
#include "mesh/core/internal.h"

/* --- Beginning and ending ---------------------------------------------------------------------- */

bool
plan_idle(const struct core *core)
{
    return !core->plan.active && trainer_settled(&core->trainer);
}

bool
plan_leads(const struct core *core)
{
    return core->plan.active && proto_node_equal(core->plan.now.leader, core->config.self);
}

bool
plan_says_idle(const struct core *core, int i)
{
    return core->view.of[i].beat.idle && !(core->plan.busy >> i & 1);
}

uint64_t
plan_recent_max(const struct core *core)
{
    uint64_t most = core->trainer.compute_us;
    for (unsigned k = 0; k < PLAN_RECENT; k++)
        if (core->plan.recent_us[k] > most)
            most = core->plan.recent_us[k];
    return most;
}

/* Members count as idle, and what they have as known, only from their next heartbeat on. */
static void
members_busy(struct plan *plan)
{
    for (size_t r = 0; r < plan->now.count; r++)
        if (plan->peer[r] >= 0)
            plan->busy |= UINT64_C(1) << plan->peer[r];
}

void
plan_round(struct plan *plan, const struct core *core)
{
    assert(plan->active);
    plan->round_at = core->awake;
    plan->progress_at = core->awake;
}

void
plan_adopt(struct plan *plan, const struct core *core, const struct plan_draft *draft)
{
    assert(draft->rank < draft->plan.count);
    plan->active = true;
    plan->held = false;
    plan->now = draft->plan;
    plan->hash = draft->hash;
    plan->rank = draft->rank;
    plan->segments = plan_stages_segments(&core->config.stages, &plan->now, plan->rank);
    plan->hold = UINT64_MAX;
    memcpy(plan->peer, draft->peer, draft->plan.count * sizeof *draft->peer);
    members_busy(plan);
    plan->adopted_at = core->awake;
    plan->plans++;
    core_log(core, 7, "plan %016llx: round %llu, %u members, %d shards here",
             (unsigned long long)plan->hash, (unsigned long long)plan->now.round,
             (unsigned)plan->now.count, __builtin_popcountll(plan_mine(plan)));
}

static bool
has_ended(const struct plan *plan, uint64_t hash)
{
    for (unsigned k = 0; k < PLAN_ENDED_MAX; k++)
        if (plan->ended[k] == hash)
            return !mutant(MUTANT_DEAD);
    return false;
}

/* Each member says so of the same plan: it takes one place. */
static void
ended_add(struct plan *plan, uint64_t hash)
{
    if (!has_ended(plan, hash))
        plan->ended[plan->ended_next++ % PLAN_ENDED_MAX] = hash;
}

void
plan_end(struct plan *plan, const struct core *core)
{
    ended_add(plan, plan->hash);
    plan->active = false;
    plan->hold = UINT64_MAX;
    plan_waits_from(plan, core->awake);
}

void
plan_drop(struct plan *plan, const struct core *core, const char *why, bool differ)
{
    assert(plan->active);
    core_log(core, 7, "round %llu: plan of %u dropped: %s", (unsigned long long)core->round,
             (unsigned)plan->now.count, why);
    plan->aborts++;
    if (plan_leads(core)) {
        plan->fails = plan->fails_round == core->round ? plan->fails + 1 : 1;
        plan->fails_round = core->round;
    }
    struct proto_msg msg = {.type = PROTO_ABORT,
                            .abort = {.plan_hash = plan->hash, .differ = differ}};
    group_tell(core, plan->peer, plan->now.count, &msg);
    members_busy(plan);
    plan_end(plan, core);
}

bool
plan_applied(struct plan *plan, const struct core *core, uint64_t *us)
{
    if (plan->active && plan->now.count > 1)
        plan->doublings = 0; /* alone there is nobody to wait for */
    if (!plan->active) {
        plan_waits_from(plan, core->awake);
        return false;
    }
    *us = awake_since(core->awake, plan->round_at);
    plan->recent_us[plan->recent_next++ % PLAN_RECENT] = *us;
    bool meets = core->meets && plan->now.count == 1; /* those who computed by themselves, too */
    if (!core->done && core->round < plan->hold && !meets)
        return false;
    plan->held = true;
    return true;
}

const char *
plan_lost(const struct plan *plan, const struct core *core, int i, const char *why)
{
    bool leads = plan_leads(core);
    return plan_member(plan, i) && !(leads && mutant(MUTANT_UNNOTICED)) ? why : NULL;
}

/* --- Hung trainers ----------------------------------------------------------------------------- */

/* Nobody knows how long a trainer takes that is slower than ours and has not finished anything yet. */
static uint64_t
stuck_us(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    uint64_t most = plan_recent_max(core);
    uint64_t own_us = trainer_busy_us(&core->trainer, core->awake);
    uint64_t shards = (uint64_t)__builtin_popcountll(said->have);
    uint64_t expected_us = said->speed ? UINT64_C(1000000) * 1000000 * shards / said->speed : most;
    most = expected_us > most ? expected_us : most;
    most = own_us > most ? own_us : most;
    return CORE_PROGRESS_US + 4 * most;
}

static void
check_stuck(struct plan *plan, const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    char who[PROTO_WHO_MAX];
    if (plan->of[i].stuck || said->done || said->busy_us <= stuck_us(core, i) ||
        mutant(MUTANT_STUCK))
        return;
    plan->of[i].stuck = true;
    core_log(core, 4, "%s is too slow (no work for %.1f s): going on without it until it is faster",
             report_who(core, i, who), (double)said->busy_us / 1e6);
}

/* --- Running ----------------------------------------------------------------------------------- */

/* Since when it rests at a round that we have passed. */
static void
mark_behind(struct plan *plan, const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    struct plan_peer *peer = &plan->of[i];
    if (!said->idle || said->round >= core->round)
        peer->behind_at.us = 0;
    else if (peer->behind_at.us == 0)
        peer->behind_at = core->awake;
}

/* What a member says of itself contradicts the plan. */
static const char *
contradiction(const struct plan *plan, const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    uint64_t age_us = awake_since(core->awake, plan->adopted_at);
    uint64_t still_us = awake_since(core->awake, plan->progress_at);
    if (!core->view.of[i].hears_me && still_us > CORE_HEARTBEAT_US && !mutant(MUTANT_HEARING))
        return "a member does not hear us";
    if (plan->of[i].stuck)
        return "a member's trainer hangs";
    /* One that is a round ahead has sent all of this round: it may still be on the way. */
    uint64_t limit_us = said->round > core->round ? CORE_SUSPECT_US : CORE_HEARTBEAT_US;
    if (said->idle && age_us > PLAN_GRACE_US && still_us > limit_us)
        return "a member is idle";
    if (said->round > core->round + 1)
        return "a member is ahead";
    return NULL;
}

const char *
plan_on_beat(struct plan *plan, const struct core *core, int i)
{
    plan_heard(plan, i);
    check_stuck(plan, core, i);
    mark_behind(plan, core, i);
    return plan->active && plan_member(plan, i) ? contradiction(plan, core, i) : NULL;
}

/* How long a chunk may take in the first round of a plan, whose lines nobody has measured; later the rounds before
 * tell. */
static uint64_t
chunk_us(const struct plan *plan, const struct core *core)
{
    uint64_t most = 0;
    for (size_t b = 0; b < core->config.bucket_count; b++)
        most = core->buckets[b].count > most ? core->buckets[b].count : most;
    most = most < core->config.chunk_elems ? most : core->config.chunk_elems;
    bool first = plan->now.count > 1 && core->round == plan->now.round;
    return first ? most * sizeof(int32_t) * 1000000 / PLAN_LINE_LEAST : 0;
}

const char *
plan_tick(struct plan *plan, const struct core *core)
{
    if (!plan->active)
        return NULL;
    if (core->trainer.state != TRAINER_FREE)
        plan_progress(plan, core->awake); /* computing and applying take the time they take */
    uint64_t most_us = (CORE_PROGRESS_US + 4 * plan_recent_max(core) + chunk_us(plan, core))
                       << plan->doublings;
    if (awake_since(core->awake, plan->progress_at) > most_us && !mutant(MUTANT_PROGRESS)) {
        if (plan->doublings < PLAN_DOUBLINGS_MAX)
            plan->doublings++;
        return "no progress";
    }
    return NULL;
}

void
plan_hold(struct plan *plan, const struct core *core)
{
    struct proto_msg msg = {.type = PROTO_HOLD,
                            .hold = {.plan_hash = plan->hash, .round = core->round + 1}};
    assert(plan->active);
    plan->hold = core->round + 1;
    group_tell(core, plan->peer, plan->now.count, &msg);
}

/* --- What others decide -------------------------------------------------------------------------- */

/* Has no newer plan of this leader come, nor this one? What is late, or comes twice, is over for it. */
static bool
is_newest(struct plan_peer *leader, const struct proto_plan *msg)
{
    bool same = proto_node_equal(leader->maker, msg->leader);
    if (same && msg->counter <= leader->counter)
        return false;
    leader->maker = msg->leader;
    leader->counter = msg->counter;
    return true;
}

static bool
of_round(const struct core *core, const struct proto_plan *msg)
{
    return msg->round == core->round ||
           (mutant(MUTANT_PLAN_ROUND) && msg->round + 1 == core->round);
}

enum plan_offer
plan_on_plan(struct plan *plan, const struct core *core, int from, const struct proto_plan *msg,
             struct plan_draft *draft)
{
    draft->plan = *msg;
    draft->hash = proto_plan_hash(msg);
    assert(from >= 0 && from < core->peers.high);
    if ((plan->active && plan->hash == draft->hash) ||
        !proto_node_equal(msg->leader, core->peers.peers[from].node))
        return PLAN_IGNORED;
    bool newest = is_newest(&plan->of[from], msg) || mutant(MUTANT_DEAD);
    bool replaces = plan->active && proto_node_equal(msg->leader, plan->now.leader);
    bool ready = trainer_settled(&core->trainer) && !core->done && !core->leaving && !core->away &&
                 of_round(core, msg) && newest && (!plan->active || replaces);
    return ready && !has_ended(plan, draft->hash) ? PLAN_OFFERED : PLAN_LATE;
}

void
plan_refuse(const struct core *core, int from, uint64_t hash)
{
    struct proto_msg no = {.type = PROTO_ABORT, .abort = {.plan_hash = hash}};
    peers_send(core, from, &no);
}

bool
plan_on_hold(struct plan *plan, const struct core *core, int from, const struct proto_hold *msg)
{
    if (!plan->active || msg->plan_hash != plan->hash ||
        !proto_node_equal(plan->now.leader, core->peers.peers[from].node))
        return false;
    if (msg->round < plan->hold)
        plan->hold = msg->round;
    if (core->round < plan->hold || !trainer_settled(&core->trainer))
        return false;
    plan->held = true;
    return true;
}

enum plan_abort
plan_on_abort(struct plan *plan, int from, const struct proto_abort *msg)
{
    if (plan->active && msg->plan_hash == plan->hash && plan_member(plan, from))
        return msg->differ ? PLAN_DIFFERS : PLAN_ABORTED;
    ended_add(plan, msg->plan_hash);
    return PLAN_GOES_ON;
}

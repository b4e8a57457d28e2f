/* plan_obey.c - what others decide: see plan.h. */
#include <assert.h>

#include <string.h>

#include "mesh/core/internal.h"
#include "mesh/core/servers.h"

static bool
is_dead(const struct plan *plan, uint64_t hash)
{
    for (unsigned k = 0; k < PLAN_DEAD_MAX; k++)
        if (plan->dead[k] == hash)
            return !core_mutant(MUTANT_DEAD);
    return false;
}

/* Each member says so of the same plan: it takes one place. */
void
plan_bury(struct plan *plan, uint64_t hash)
{
    if (!is_dead(plan, hash))
        plan->dead[plan->dead_next++ % PLAN_DEAD_MAX] = hash;
}

static bool
covers(const struct core *core, const struct proto_plan *plan)
{
    uint64_t seen = 0;
    for (size_t k = 0; k < plan->count; k++) {
        if ((seen & plan->members[k].shards) && !core_mutant(MUTANT_TWICE))
            return false;
        seen |= plan->members[k].shards;
    }
    return seen == plan->complete && (core->config.private || seen == core->all) &&
           servers_valid(plan);
}

/* May this node be in a plan with peers[i], which is no other member? */
static bool
accepts(const struct core *core, const int *peer, unsigned count, int i)
{
    if (i < 0 || core->view.of[i].suspected || divergence_excludes(core, i))
        return false;
    for (unsigned k = 0; k < count; k++)
        if (peer[k] == i)
            return false;
    return true;
}

/* Who the members are to us; false when one is unknown or we are not among them. */
static bool
resolve(const struct core *core, struct plan_draft *draft)
{
    bool me = false;
    for (unsigned k = 0; k < draft->plan.count; k++) {
        struct proto_node node = draft->plan.members[k].node;
        if (core_node_equal(node, core->config.self)) {
            if (me)
                return false;
            me = true;
            draft->rank = k;
            draft->peer[k] = -1;
            continue;
        }
        draft->peer[k] = peers_find(core, node);
        if (!accepts(core, draft->peer, k, draft->peer[k]))
            return false;
    }
    return me;
}

/* A newer plan of the same leader replaces the present one: the old one is over for it. */
static bool
replaces(const struct plan *plan, const struct proto_plan *msg)
{
    return plan->active && core_node_equal(msg->leader, plan->now.leader) &&
           msg->counter > plan->now.counter;
}

static bool
of_round(const struct core *core, const struct proto_plan *msg)
{
    return msg->round == core->round ||
           (core_mutant(MUTANT_PLAN_ROUND) && msg->round + 1 == core->round);
}

bool
plan_on_plan(struct plan *plan, const struct core *core, int from, const struct proto_plan *msg)
{
    uint64_t hash = proto_plan_hash(msg);
    assert(from >= 0 && from < core->peers.high);
    if ((plan->active && plan->hash == hash) ||
        !core_node_equal(msg->leader, core->peers.peers[from].node))
        return false;
    bool ready = contribution_settled(&core->contribution) && !divergence_open(core) &&
                 !core->done && !core->leaving && core->fetch.stage != FETCH_COMPLETE &&
                 of_round(core, msg) && (!plan->active || replaces(plan, msg));
    plan->draft.plan = *msg;
    plan->draft.hash = hash;
    if (ready && !is_dead(plan, hash) && covers(core, msg) && resolve(core, &plan->draft))
        return true;
    struct proto_msg no = {.type = PROTO_ABORT, .abort = {.plan_hash = hash}};
    peers_send(core, from, &no);
    return false;
}

bool
plan_on_hold(struct plan *plan, const struct core *core, int from, const struct proto_hold *msg)
{
    if (!plan->active || msg->plan_hash != plan->hash ||
        !core_node_equal(plan->now.leader, core->peers.peers[from].node))
        return false;
    if (msg->round < plan->hold)
        plan->hold = msg->round;
    if (core->round < plan->hold || !contribution_settled(&core->contribution))
        return false;
    plan->held = true;
    return true;
}

enum plan_end
plan_on_abort(struct plan *plan, int from, const struct proto_abort *msg)
{
    if (plan->active && msg->plan_hash == plan->hash && plan_member(plan, from))
        return msg->differ ? PLAN_DIFFERS : PLAN_ABORTED;
    plan_bury(plan, msg->plan_hash);
    return PLAN_GOES_ON;
}

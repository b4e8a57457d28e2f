/* gossip_plan.c - the ranks of a gossip mesh: the node with the lowest id says who is in it.
 *
 * The leader is the usable node with the lowest id. It makes a plan when the set of nodes that can take part changes,
 * and repeats it to members that do not say that they have it. The members are a clique, chosen greedily by rising id,
 * as in plan.h. A member drops a plan when it no longer hears one of the others. Who is without a plan for
 * CORE_STARVED_US makes one with the higher ids.
 *
 * A plan only says who waits for whom. Flows are settled by their numbers, whatever became of the plan: a wrong view
 * costs time and no unit of any value. */
#include <assert.h>

#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_plan.h"
#include "mesh/core/group/group.h"
#include "mesh/core/pipeline/divide.h"

enum { AGAIN_US = 2 * CORE_HEARTBEAT_US, NO_ANSWER_US = 6 * CORE_HEARTBEAT_US };

/* A member whose trainer hangs keeps all others waiting. */
static bool
hangs(const struct core *core, int i)
{
    return core->view.of[i].beat.busy_us > GOSSIP_HUNG_US + 4 * core->gossip.run.compute_us;
}

static bool
may_join(const struct core *core, int i)
{
    const struct gossip *g = &core->gossip;
    const struct proto_replica *said = gossip_said(core, i);
    /* Who is new when others have computed has to copy values first. A member begins with our plan, and says so
     * later. */
    bool late = g->count.total > g->begun &&
                !(g->plan.active && gossip_rank(core, core->peers.peers[i].node) >= 0);
    enum gossip_status first = late ? GOSSIP_TRAINING : GOSSIP_NEW;
    return view_usable(core, i) && said && said->status >= first && said->status <= GOSSIP_QUIET &&
           (said->status != GOSSIP_NEW || said->saved == g->snapshot.last) && !hangs(core, i) &&
           !gossip_wait_out(core, core->peers.peers[i].node);
}

/* Bitmap of the peers that a plan may have, but for `left_out`. */
static uint64_t
joinable(const struct core *core, uint64_t left_out)
{
    uint64_t all = 0;
    for (int i = 0; i < core->peers.high; i++)
        all |= (uint64_t)may_join(core, i) << i;
    return all & ~left_out;
}

static struct group_choice
choose_replicas(const struct core *core)
{
    struct group_choice choice = {.count = 1, .peer = {-1}};
    uint64_t id = core->config.self.id, left_out = gossip_wait_left_out(core);
    if (left_out >> PEERS_MAX & 1)
        return choice; /* it is this node: alone */
    uint64_t others = joinable(core, left_out);
    for (int i; (i = group_next(core, &choice, others, id)) >= 0; id = group_node(core, i).id)
        group_add(core, &choice, i);
    return choice;
}

static bool
lowest(const struct core *core)
{
    const struct group_choice none = {.count = 0};
    int first = group_next(core, &none, joinable(core, gossip_wait_left_out(core)), 0);
    return first < 0 || group_node(core, first).id > core->config.self.id;
}

/* --- Is there a plan? ------------------------------------------------------------------------------ */

static void
drop_plan(struct gossip_plan *plan, const struct core *core)
{
    plan->active = false;
    plan->hash = 0;
    plan->idle_at = core->awake;
}

static void
adopt_plan(struct gossip_plan *plan, const struct core *core, const struct proto_plan *next,
           unsigned rank)
{
    if (plan->active)
        drop_plan(plan, core);
    plan->active = true;
    plan->now = *next;
    plan->hash = proto_plan_hash(next);
    plan->rank = rank;
    plan->adopted_at = core->awake;
    plan->plans++;
}

static bool
ours(const struct core *core, struct proto_node node)
{
    return proto_node_equal(node, core->config.self);
}

/* Are all others there, and does nobody leave out another one? */
static bool
whole(const struct core *core, const struct proto_plan *plan)
{
    uint64_t left_out = gossip_wait_left_out(core);
    if (plan->count > 1 && left_out >> PEERS_MAX & 1)
        return false;
    for (size_t r = 0; r < plan->count; r++) {
        struct proto_node node = plan->members[r].node;
        int i = peers_find(core, node);
        if (!ours(core, node) &&
            (i < 0 || !view_usable(core, i) || gossip_wait_out(core, node) || (left_out >> i & 1)))
            return false;
    }
    return true;
}

/* --- Leading --------------------------------------------------------------------------------------- */

bool
gossip_plan_waits(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    if (g->plan.plans > 0 || g->status != GOSSIP_NEW)
        return false;
    size_t here = choose_replicas(core).count;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_replica *said = gossip_said(core, i);
        if (!view_usable(core, i) || !said || said->status != GOSSIP_NEW)
            continue;
        if (said->saved > g->snapshot.last)
            return true; /* it goes on from a later checkpoint, and this node will join */
        here += said->saved < g->snapshot.last;
    }
    return !group_gathered(core, here);
}

static bool
same(const struct core *core, const struct group_choice *choice)
{
    const struct gossip *g = &core->gossip;
    const struct proto_plan *plan = &g->plan.now;
    bool equal = g->plan.active && ours(core, plan->leader) && plan->count == choice->count;
    for (size_t k = 0; equal && k < choice->count; k++)
        equal = plan->members[k].node.id == group_node(core, choice->peer[k]).id;
    return equal;
}

static void
propose_graph(struct gossip_plan *plan, const struct core *core, const struct group_choice *choice)
{
    struct proto_msg msg = {.type = PROTO_PLAN};
    uint64_t none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX] = {0};
    uint32_t equal[PROTO_PEERS_MAX] = {0};
    divide_shards(core->all, choice->count, none, equal, shards);
    for (size_t k = 0; k < choice->count; k++) {
        msg.plan.members[k].node = group_node(core, choice->peer[k]);
        msg.plan.members[k].shards = shards[k];
        msg.plan.members[k].holds = msg.plan.members[k].computes = 1;
    }
    msg.plan.round = core->gossip.run.step;
    msg.plan.counter = ++plan->counter;
    msg.plan.leader = core->config.self;
    msg.plan.complete = core->all;
    msg.plan.count = choice->count;
    group_tell(core, choice->peer, choice->count, &msg);
    assert(choice->peer[0] == -1);
    adopt_plan(plan, core, &msg.plan, 0);
    plan->told_at = core->awake;
}

/* Sends the plan again to those who do not have it. True: some have dropped it, and another one is needed. */
static bool
repeat(struct gossip_plan *plan, const struct core *core, const struct group_choice *choice)
{
    struct proto_msg msg = {.type = PROTO_PLAN, .plan = plan->now};
    bool missing = false;
    if (awake_since(core->awake, plan->told_at) < AGAIN_US)
        return false;
    plan->told_at = core->awake;
    for (size_t k = 1; k < choice->count; k++) {
        const struct proto_replica *said = gossip_said(core, choice->peer[k]);
        if (said && said->plan_hash == plan->hash)
            continue;
        missing = true;
        peers_send(core, choice->peer[k], &msg);
    }
    return missing && awake_since(core->awake, plan->adopted_at) > NO_ANSWER_US;
}

void
gossip_plan_again(struct gossip_plan *plan, const struct core *core)
{
    struct group_choice choice = choose_replicas(core);
    propose_graph(plan, core, &choice);
}

static bool
lead_plan(struct gossip_plan *plan, const struct core *core)
{
    bool starved = !plan->active && awake_since(core->awake, plan->idle_at) > CORE_STARVED_US;
    bool mine = plan->active && ours(core, plan->now.leader);
    bool alone = gossip_wait_left_out(core) >> PEERS_MAX & 1; /* no other one has us in its plan */
    if ((!lowest(core) && !starved && !mine && !alone) || gossip_plan_waits(core))
        return false;
    struct group_choice choice = choose_replicas(core);
    if (!group_all_fresh(core, &choice) || (same(core, &choice) && !repeat(plan, core, &choice)))
        return false;
    propose_graph(plan, core, &choice);
    return true;
}

bool
gossip_plan_step(struct gossip_plan *plan, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    bool before = plan->active;
    bool trains = g->status >= GOSSIP_NEW && g->status <= GOSSIP_QUIET && !core->away;
    if (core->away || (trains && gossip_plan_waits(core)))
        plan->idle_at = core->awake; /* nobody was to plan before all had come */
    if (before && (!trains || !whole(core, &plan->now))) {
        drop_plan(plan, core);
        plan->aborts++;
    }
    return (trains && lead_plan(plan, core)) || before != plan->active;
}

/* --- Obeying --------------------------------------------------------------------------------------- */

/* May this plan take the place of ours? Its leader repeats it as long as it does not know that we dropped it, however
 * many plans of others we have followed since: so its counter says whether it is over. */
static bool
precedes(const struct core *core, int from, const struct proto_plan *plan)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_newest *newest = &g->plan.newest[from];
    if (proto_node_equal(plan->leader, newest->leader) && plan->counter <= newest->counter)
        return false;
    return !g->plan.active || proto_node_equal(plan->leader, g->plan.now.leader) ||
           plan->leader.id < g->plan.now.leader.id;
}

bool
gossip_plan_on_plan(struct gossip_plan *plan, const struct core *core, int from,
                    const struct proto_plan *said)
{
    const struct gossip *g = &core->gossip;
    int rank = proto_plan_rank(said, core->config.self);
    bool fit = g->status >= GOSSIP_NEW && g->status <= GOSSIP_QUIET && !core->away;
    if (!fit || rank < 0 || !proto_node_equal(said->leader, core->peers.peers[from].node) ||
        !precedes(core, from, said) || !whole(core, said))
        return false;
    plan->newest[from] = (struct gossip_newest){said->leader, said->counter};
    adopt_plan(plan, core, said, (unsigned)rank);
    return true;
}

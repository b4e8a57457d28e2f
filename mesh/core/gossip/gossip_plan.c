/* gossip_plan.c - the ranks of a gossip mesh: the node with the lowest id says who is in it.
 *
 * The leader is the usable node with the lowest id. It makes a plan when the set of nodes that can take part changes, and
 * repeats it to members that do not say that they have it. The members are a clique, chosen greedily by rising id, as in
 * plan.h. A member drops a plan when it no longer hears one of the others. Who is without a plan for CORE_STARVED_US
 * makes one with the higher ids.
 *
 * A plan only says who waits for whom. Flows are settled by their numbers, whatever became of the plan: a wrong view
 * costs time and no unit of any value. */
#include <assert.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/group/cost.h"
#include "mesh/core/group/group.h"
#include "mesh/core/internal.h"

enum { AGAIN_US = 2 * CORE_HEARTBEAT_US, DEAF_US = 6 * CORE_HEARTBEAT_US };

/* A member whose trainer hangs keeps all others waiting. */
static bool
hangs(const struct gossip *g, const struct core *core, int i)
{
    return core->view.of[i].beat.busy_us > GOSSIP_HUNG_US + 4 * g->compute_us;
}

static bool
wants_in(const struct gossip *g, const struct core *core, int i)
{
    const struct gossip_peer *peer = &g->of[i];
    /* Who is new when others have computed has to copy values first. A member begins with our plan, and says so later. */
    bool late =
        g->total > g->begun && !(g->plan.active && gossip_rank(g, core->peers.peers[i].node) >= 0);
    enum gossip_status first = late ? GOSSIP_TRAINING : GOSSIP_NEW;
    bool fits = peer->said.status != GOSSIP_NEW || peer->said.saved == g->saved;
    return view_usable(core, i) && peer->known && peer->said.status >= first && fits &&
           peer->said.status <= GOSSIP_QUIET && !hangs(g, core, i) &&
           !gossip_wait_out(g, core->peers.peers[i].node, core->awake);
}

/* Bitmap of the peers that a plan may have, but for `left_out`. */
static uint64_t
joinable(const struct gossip *g, const struct core *core, uint64_t left_out)
{
    uint64_t all = 0;
    for (int i = 0; i < core->peers.high; i++)
        all |= (uint64_t)wants_in(g, core, i) << i;
    return all & ~left_out;
}

static struct group_choice
choose_members(const struct gossip *g, const struct core *core)
{
    struct group_choice choice = {.count = 1, .peer = {-1}};
    uint64_t id = core->config.self.id, left_out = gossip_wait_left_out(g, core);
    if (left_out >> PEERS_MAX & 1)
        return choice; /* it is this node: alone */
    uint64_t others = joinable(g, core, left_out);
    for (int i; (i = group_next(core, others, id)) >= 0; id = group_node(core, i).id)
        if (group_hears(core, choice.peer, choice.count, i))
            choice.peer[choice.count++] = i;
    return choice;
}

static bool
lowest(const struct gossip *g, const struct core *core)
{
    int first = group_next(core, joinable(g, core, gossip_wait_left_out(g, core)), 0);
    return first < 0 || group_node(core, first).id > core->config.self.id;
}

/* --- Is there a plan? ------------------------------------------------------------------------------ */

static void
drop_plan(struct gossip *g, const struct core *core)
{
    g->plan.past[g->plan.past_next++ % GOSSIP_PASTS] = g->plan.hash;
    g->plan.active = false;
    g->plan.hash = 0;
    g->plan.idle_at = core->awake;
}

static void
adopt_plan(struct gossip *g, const struct core *core, const struct proto_plan *plan, unsigned rank)
{
    if (g->plan.active)
        drop_plan(g, core);
    g->plan.active = true;
    g->plan.now = *plan;
    g->plan.hash = proto_plan_hash(plan);
    g->plan.rank = rank;
    g->plan.adopted_at = core->awake;
    g->plan.plans++;
}

bool
gossip_plan_was(const struct gossip *g, uint64_t hash)
{
    for (int k = 0; k < GOSSIP_PASTS; k++)
        if (hash != 0 && g->plan.past[k] == hash)
            return true;
    return false;
}

static bool
ours(const struct core *core, struct proto_node node)
{
    return core_node_equal(node, core->config.self);
}

/* Are all others there, and does nobody leave out another one? */
static bool
whole(const struct gossip *g, const struct core *core, const struct proto_plan *plan)
{
    uint64_t left_out = gossip_wait_left_out(g, core);
    if (plan->count > 1 && left_out >> PEERS_MAX & 1)
        return false;
    for (size_t r = 0; r < plan->count; r++) {
        int i = ours(core, plan->members[r].node) ? -1 : peers_find(core, plan->members[r].node);
        if (!ours(core, plan->members[r].node) &&
            (i < 0 || !view_usable(core, i) ||
             gossip_wait_out(g, core->peers.peers[i].node, core->awake) || (left_out >> i & 1)))
            return false;
    }
    return true;
}

/* --- Leading --------------------------------------------------------------------------------------- */

bool
gossip_plan_waits(const struct gossip *g, const struct core *core)
{
    if (g->plan.plans > 0 || g->status != GOSSIP_NEW)
        return false;
    size_t here = choose_members(g, core).count;
    for (int i = 0; i < core->peers.high; i++) {
        if (!view_usable(core, i) || !g->of[i].known || g->of[i].said.status != GOSSIP_NEW)
            continue;
        if (g->of[i].said.saved > g->saved)
            return true; /* it goes on from a later checkpoint, and this node will join */
        here += g->of[i].said.saved < g->saved;
    }
    return !group_gathered(core, here);
}

static bool
same(const struct gossip *g, const struct core *core, const struct group_choice *choice)
{
    const struct proto_plan *plan = &g->plan.now;
    bool equal = g->plan.active && ours(core, plan->leader) && plan->count == choice->count;
    for (size_t k = 0; equal && k < choice->count; k++)
        equal = plan->members[k].node.id == group_node(core, choice->peer[k]).id;
    return equal;
}

static void
propose(struct gossip *g, const struct core *core, const struct group_choice *choice)
{
    struct proto_msg msg = {.type = PROTO_PLAN};
    uint64_t none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX] = {0};
    uint32_t equal[PROTO_PEERS_MAX] = {0};
    cost_divide(core->all, choice->count, none, equal, shards);
    for (size_t k = 0; k < choice->count; k++) {
        msg.plan.members[k].node = group_node(core, choice->peer[k]);
        msg.plan.members[k].shards = shards[k];
    }
    msg.plan.round = g->step;
    msg.plan.counter = ++g->plan.counter;
    msg.plan.leader = core->config.self;
    msg.plan.complete = core->all;
    msg.plan.count = choice->count;
    for (size_t k = 0; k < choice->count; k++)
        if (choice->peer[k] >= 0)
            peers_send(core, choice->peer[k], &msg);
    assert(choice->peer[0] == -1);
    adopt_plan(g, core, &msg.plan, 0);
    g->plan.told_at = core->awake;
}

/* Sends the plan again to those who do not have it. True: some have dropped it, and another one is needed. */
static bool
repeat(struct gossip *g, const struct core *core, const struct group_choice *choice)
{
    struct proto_msg msg = {.type = PROTO_PLAN, .plan = g->plan.now};
    bool missing = false;
    if (awake_since(core->awake, g->plan.told_at) < AGAIN_US)
        return false;
    g->plan.told_at = core->awake;
    for (size_t k = 1; k < choice->count; k++) {
        if (g->of[choice->peer[k]].said.plan_hash == g->plan.hash)
            continue;
        missing = true;
        peers_send(core, choice->peer[k], &msg);
    }
    return missing && awake_since(core->awake, g->plan.adopted_at) > DEAF_US;
}

void
gossip_plan_again(struct gossip *g, const struct core *core)
{
    struct group_choice choice = choose_members(g, core);
    propose(g, core, &choice);
}

static bool
lead_plan(struct gossip *g, const struct core *core)
{
    bool starved = !g->plan.active && awake_since(core->awake, g->plan.idle_at) > CORE_STARVED_US;
    bool mine = g->plan.active && ours(core, g->plan.now.leader);
    bool alone =
        gossip_wait_left_out(g, core) >> PEERS_MAX & 1; /* no other one has us in its plan */
    if ((!lowest(g, core) && !starved && !mine && !alone) || gossip_plan_waits(g, core))
        return false;
    struct group_choice choice = choose_members(g, core);
    if (same(g, core, &choice) && !repeat(g, core, &choice))
        return false;
    propose(g, core, &choice);
    return true;
}

bool
gossip_plan_step(struct gossip *g, const struct core *core)
{
    bool before = g->plan.active;
    bool part = g->status >= GOSSIP_NEW && g->status <= GOSSIP_QUIET;
    if (before && (!part || !whole(g, core, &g->plan.now))) {
        drop_plan(g, core);
        g->plan.aborts++;
    }
    return (part && lead_plan(g, core)) || before != g->plan.active;
}

/* --- Obeying --------------------------------------------------------------------------------------- */

/* May this plan take the place of ours? */
static bool
precedes(const struct gossip *g, const struct proto_plan *plan)
{
    const struct proto_plan *now = &g->plan.now;
    if (!g->plan.active)
        return true;
    if (core_node_equal(plan->leader, now->leader))
        return plan->counter > now->counter;
    return plan->leader.id < now->leader.id;
}

bool
gossip_plan_on_plan(struct gossip *g, const struct core *core, int from,
                    const struct proto_plan *plan)
{
    int rank = -1;
    for (size_t r = 0; r < plan->count; r++)
        if (ours(core, plan->members[r].node))
            rank = (int)r;
    bool part = g->status >= GOSSIP_NEW && g->status <= GOSSIP_QUIET;
    if (!part || rank < 0 || !core_node_equal(plan->leader, core->peers.peers[from].node) ||
        !precedes(g, plan) || gossip_plan_was(g, proto_plan_hash(plan)) || !whole(g, core, plan))
        return false;
    adopt_plan(g, core, plan, (unsigned)rank);
    return true;
}

/* gossip_run.c - what a node of a gossip mesh does by itself: phases, pairs, and its status. See gossip.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/internal.h"
#include "proto/mix.h"

/* --- How far all are ----------------------------------------------------------------------------- */

/* Has this node done its part of the run? Without steps of all it is a count, which differs a little from node to node. */
static bool
trained(const struct gossip *g, const struct core *core)
{
    const struct gossip_config *config = core->config.gossip;
    if (config->async)
        return g->total >= config->steps * core->config.shards;
    return g->step >= config->steps;
}

/* Will no member compute any more in this plan? In the next one who rested for a checkpoint does. */
static bool
all_frozen(const struct gossip *g, const struct core *core)
{
    if (g->status < GOSSIP_FROZEN || !g->plan.active)
        return false;
    for (size_t r = 0; r < g->plan.now.count; r++) {
        int i = peers_find(core, g->plan.now.members[r].node);
        if (r != g->plan.rank &&
            (i < 0 || !g->of[i].known || g->of[i].said.status < GOSSIP_FROZEN ||
             g->of[i].said.plan_hash != g->plan.hash))
            return false;
    }
    return true;
}

/* --- Computing ----------------------------------------------------------------------------------- */

static bool
weighs(const struct gossip *g, const int64_t *weight)
{
    for (size_t p = 0; p < g->part_count; p++)
        if (weight[p] <= 0)
            return false;
    return true;
}

/* What the trainer reads, and what this phase exchanges. */
static void
read_values(struct gossip *g, const struct core *core)
{
    assert(!g->computing);
    gossip_flow_clamp(core->config.sum, g->values, core->config.gossip->count);
    memcpy(g->weight_at, g->weight, g->part_count * sizeof *g->weight);
    g->distance = g->square_count ? g->square / (double)g->square_count : g->distance;
    g->square = 0;
    g->square_count = 0;
}

static void
begin_compute(struct gossip *g, const struct core *core)
{
    const struct core_task task = {
        .round = g->step, .shards = g->plan.now.members[g->plan.rank].shards, .known = g->total};
    g->computing = true;
    g->shards = task.shards;
    g->compute_at = core->awake;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_READ,
                                                     .step = task.round,
                                                     .shards = task.shards,
                                                     .total = task.known,
                                                     .plan = g->plan.hash,
                                                     .number = g->plan.now.count,
                                                     .part = g->plan.rank});
    if (core->config.gossip->keeper->weigh)
        core->config.gossip->keeper->weigh(core->config.gossip->keeper_ctx, g->weight_at);
    core->config.trainer->compute(core->config.trainer_ctx, &task);
}

/* --- Phases: bsp --------------------------------------------------------------------------------- */

/* Of two neighbours in an undirected graph, the one with the higher rank gives. */
static void
choose_sides(struct gossip *g, const struct core *core)
{
    struct gossip_graph graph = gossip_graph_of(g, &core->config);
    unsigned n = (unsigned)g->plan.now.count, rank = g->plan.rank;
    uint64_t below = (UINT64_C(1) << rank) - 1;
    g->takes = gossip_graph_from(&graph, n, rank, g->phase);
    g->gives = gossip_graph_to(&graph, n, rank, g->phase);
    if (!graph.directed) {
        g->takes &= ~below;
        g->gives &= below;
    }
    g->takes_left = (uint64_t)__builtin_popcountll(g->takes) * g->part_count;
    g->gives_left = (uint64_t)__builtin_popcountll(g->gives) * g->part_count;
}

/* Who has joined with weight 0 has no model yet. With nobody in the plan who has one, its steps would be empty, and so would be
 * the result at their end. */
static bool
model_in_plan(const struct gossip *g, const struct core *core)
{
    if (weighs(g, g->weight) || core_mutant(MUTANT_GOSSIP_EMPTY))
        return true;
    for (size_t r = 0; r < g->plan.now.count; r++) {
        int i = peers_find(core, g->plan.now.members[r].node);
        if (i >= 0 && g->of[i].known && g->of[i].said.units > 0)
            return true;
    }
    return false;
}

static void
begin_phase(struct gossip *g, const struct core *core)
{
    g->on = true;
    g->waits = false;
    read_values(g, core);
    choose_sides(g, core);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_PHASE,
                                                     .plan = g->plan.hash,
                                                     .phase = g->phase,
                                                     .number = g->plan.now.count,
                                                     .part = g->plan.rank});
    if (g->status != GOSSIP_TRAINING)
        return;
    if (weighs(g, g->weight_at) && g->plan.now.members[g->plan.rank].shards)
        begin_compute(g, core);
    else
        g->step++; /* it joins with weight 0, or there are more members than shards */
}

static void
ask_givers(struct gossip *g, const struct core *core)
{
    for (uint64_t left = g->takes; left; left &= left - 1) {
        int i = peers_find(core, g->plan.now.members[__builtin_ctzll(left)].node);
        if (i >= 0)
            gossip_link_ask(g, core, i);
    }
}

static void
stop_phase(struct gossip *g, const struct core *core)
{
    g->on = false;
    g->partner = (struct proto_node){0, 0};
    gossip_settle_all(g, core);
}

/* It joined, and those who had the model went before it had got any of it. */
static void
tell_modelless(struct gossip *g, const struct core *core)
{
    if (g->plan.now.count == 1 && !g->waits)
        core_log(core, 4,
                 "alone, and without a model: the nodes that had it left before this one had "
                 "joined them. It waits for one of them; started again, it goes on from its own "
                 "checkpoint, if it has one");
    g->waits = true;
}

static void
bsp_step(struct gossip *g, const struct core *core)
{
    bool rest = g->computing || g->copy.what == GOSSIP_FETCH_RESULT;
    if (g->on && g->takes_left == 0 && g->gives_left == 0 && !g->computing) {
        g->on = false;
        g->phase++;
    }
    if (!g->on && !rest && g->status == GOSSIP_TRAINING && (g->snapshot || trained(g, core)))
        g->status = GOSSIP_FROZEN;
    if (g->on && all_frozen(g, core))
        stop_phase(g, core);
    bool takes_part = g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN;
    if (!g->on && !rest && g->plan.active && takes_part && !all_frozen(g, core)) {
        if (model_in_plan(g, core))
            begin_phase(g, core);
        else
            tell_modelless(g, core);
    }
    if (g->on)
        ask_givers(g, core);
}

/* --- Pairs: async -------------------------------------------------------------------------------- */

/* One of the neighbours in the graph, drawn. */
static void
choose_partner(struct gossip *g, const struct core *core)
{
    struct gossip_graph graph = gossip_graph_of(g, &core->config);
    unsigned n = (unsigned)g->plan.now.count;
    uint64_t near = gossip_graph_to(&graph, n, g->plan.rank, ++g->phase);
    g->due = false;
    if (near == 0)
        return;
    uint64_t draw = mix64_pair(g->plan.hash, g->phase * PROTO_PEERS_MAX + g->plan.rank);
    for (uint64_t skip = draw % (uint64_t)__builtin_popcountll(near); skip > 0; skip--)
        near &= near - 1;
    g->partner = g->plan.now.members[__builtin_ctzll(near)].node;
}

static bool
has_all(const struct gossip *g, const struct gossip_link *link)
{
    for (size_t p = 0; p < g->part_count; p++)
        if (link->parts[p].open || link->parts[p].got_phase != g->phase ||
            link->parts[p].got_plan != g->plan.hash)
            return false;
    return true;
}

static void
exchange(struct gossip *g, const struct core *core)
{
    int i = g->partner.id ? peers_find(core, g->partner) : -1;
    bool serves = i >= 0 && g->of[i].known && g->of[i].said.status >= GOSSIP_TRAINING &&
                  g->of[i].said.status <= GOSSIP_FROZEN;
    if (!serves || has_all(g, gossip_link_of(g, core, g->partner)))
        g->partner = (struct proto_node){0, 0};
    if (!g->partner.id && g->due && g->status == GOSSIP_TRAINING)
        choose_partner(g, core);
    i = g->partner.id ? peers_find(core, g->partner) : -1;
    if (i >= 0)
        gossip_link_ask(g, core, i);
}

static void
async_step(struct gossip *g, const struct core *core)
{
    bool rest = g->computing || g->copy.what == GOSSIP_FETCH_RESULT;
    if (!rest && g->status == GOSSIP_TRAINING && (g->snapshot || trained(g, core)))
        g->status = GOSSIP_FROZEN;
    if (g->plan.active && g->status <= GOSSIP_FROZEN)
        exchange(g, core);
    if (rest || g->status != GOSSIP_TRAINING || !g->plan.active)
        return;
    if (!g->plan.now.members[g->plan.rank].shards)
        return; /* more members than shards: it only averages */
    read_values(g, core);
    begin_compute(g, core);
}

/* --- Status -------------------------------------------------------------------------------------- */

/* Somebody who has trained; -1: nobody. */
static int
ahead(const struct gossip *g, const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && g->of[i].known && g->of[i].said.units > 0 &&
            g->of[i].said.known >= g->total && g->of[i].said.status >= GOSSIP_TRAINING)
            return i;
    return -1;
}

/* With push-sum nothing has to be copied: values and weight 0 become those of the neighbours by their flows. */
static void
join_empty(struct gossip *g, const struct core *core)
{
    memset(g->values, 0, core->config.gossip->count * sizeof *g->values);
    for (size_t p = 0; p < g->part_count; p++)
        g->weight[p] = core_mutant(MUTANT_GOSSIP_WEIGHT) ? GOSSIP_ONE : 0;
    gossip_count_join(g, core, &g->step, &g->total);
    g->status = GOSSIP_TRAINING;
    gossip_note(&core->config,
                &(struct gossip_note){.event = GOSSIP_ADOPTED, .step = g->step, .total = g->total});
}

static void
join(struct gossip *g, const struct core *core)
{
    int i = g->status <= GOSSIP_NEW ? ahead(g, core) : -1;
    if (g->status == GOSSIP_JOINING && i < 0)
        g->status = GOSSIP_NEW;
    if (g->status != GOSSIP_NEW || i < 0)
        return;
    g->status = GOSSIP_JOINING;
    g->base = 0; /* those that it joins count for themselves */
    if (core->config.gossip->push_sum)
        join_empty(g, core);
}

/* At rest: nobody computes any more, and nothing is under way to this node. */
static void
come_to_rest(struct gossip *g, const struct core *core)
{
    if (g->status != GOSSIP_FROZEN || g->on || g->computing || !all_frozen(g, core))
        return;
    for (size_t r = 0; r < g->plan.now.count; r++)
        if (gossip_link_open(g, g->plan.now.members[r].node) && !core_mutant(MUTANT_GOSSIP_QUIET))
            return;
    g->status = GOSSIP_QUIET;
}

void
gossip_plan_changed(struct gossip *g, const struct core *core)
{
    stop_phase(g, core);
    g->phase = 0;
    gossip_copy_break(g, core);
    if (g->status == GOSSIP_QUIET)
        g->status = GOSSIP_FROZEN;
    if (g->status == GOSSIP_FROZEN && g->snapshot && !trained(g, core))
        g->status = GOSSIP_TRAINING;
    g->snapshot = 0;
}

void
gossip_step(struct gossip *g, const struct core *core)
{
    assert(g->status != GOSSIP_START);
    gossip_count_add(g);
    join(g, core);
    if (gossip_plan_step(g, core))
        gossip_plan_changed(g, core);
    if (g->status == GOSSIP_NEW && g->plan.active)
        g->status = GOSSIP_TRAINING;
    if (gossip_snapshot_step(g, core, trained(g, core))) {
        gossip_plan_again(g, core);
        gossip_plan_changed(g, core);
    }
    if (gossip_snapshot_ends(g, core))
        return;
    gossip_copy_step(g, core);
    if (core->config.gossip->async)
        async_step(g, core);
    else
        bsp_step(g, core);
    gossip_give_waiting(g, core);
    come_to_rest(g, core);
}

/* gossip_run.c - see gossip_run.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_run.h"
#include "proto/mix.h"

/* --- How far all are ----------------------------------------------------------------------------- */

bool
gossip_run_all_frozen(const struct core *core)
{
    return core->gossip.status >= GOSSIP_FROZEN &&
           gossip_others_are(core, GOSSIP_FROZEN, GOSSIP_DONE, GOSSIP_SNAPSHOT_ANY);
}

/* --- Computing ----------------------------------------------------------------------------------- */

/* What the trainer reads, and what this phase exchanges. */
static void
read_values(struct gossip_replica *replica, const struct core *core)
{
    assert(!core->gossip.run.computing);
    gossip_flow_clamp(core->config.sum, replica->values, core->config.gossip->count);
    memcpy(replica->weight_at, replica->weight, core->gossip.range_count * sizeof *replica->weight);
    replica->distance =
        replica->square_count ? replica->square / (double)replica->square_count : replica->distance;
    replica->square = 0;
    replica->square_count = 0;
}

static void
begin_compute(struct gossip_run *run, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    const struct core_task task = {.round = run->step,
                                   .shards = g->plan.now.members[g->plan.rank].shards,
                                   .known = g->count.total};
    run->computing = true;
    run->shards = task.shards;
    run->compute_at = core->awake;
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_READ,
                                                     .step = task.round,
                                                     .shards = task.shards,
                                                     .total = task.known,
                                                     .plan = g->plan.hash,
                                                     .number = g->plan.now.count,
                                                     .rank = g->plan.rank});
    if (core->config.gossip->keeper->weigh)
        core->config.gossip->keeper->weigh(core->config.gossip->keeper_ctx, g->replica.weight_at);
    core->config.trainer->compute(core->config.trainer_ctx, &task);
}

/* --- Phases: bsp --------------------------------------------------------------------------------- */

/* Of two neighbours in an undirected graph, the one with the higher rank gives. */
static void
choose_sides(struct gossip_run *run, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    struct gossip_graph graph = gossip_graph_of(core);
    unsigned n = (unsigned)g->plan.now.count, rank = g->plan.rank;
    uint64_t below = (UINT64_C(1) << rank) - 1;
    run->takes = gossip_graph_from(&graph, n, rank, run->phase);
    run->gives = gossip_graph_to(&graph, n, rank, run->phase);
    if (!graph.directed) {
        run->takes &= ~below;
        run->gives &= below;
    }
}

/* Who has joined with weight 0 has no model yet. With nobody in the plan who has one, its steps would be empty, and so
 * would be the result at their end. */
static bool
model_in_plan(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    if (gossip_flow_weighs(g->replica.weight, g->range_count) || mutant(MUTANT_GOSSIP_EMPTY))
        return true;
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct proto_replica *said = gossip_member(core, r);
        if (said && said->computed > 0)
            return true;
    }
    return false;
}

static void
begin_phase(struct gossip_run *run, struct gossip_replica *replica, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    run->on = true;
    run->told_modelless = false;
    read_values(replica, core);
    choose_sides(run, core);
    gossip_note(&core->config, &(struct gossip_note){.event = GOSSIP_PHASE,
                                                     .plan = g->plan.hash,
                                                     .phase = run->phase,
                                                     .number = g->plan.now.count,
                                                     .rank = g->plan.rank});
    if (g->status != GOSSIP_TRAINING)
        return;
    if (gossip_flow_weighs(replica->weight_at, g->range_count) &&
        g->plan.now.members[g->plan.rank].shards)
        begin_compute(run, core);
    else
        run->step++; /* it joins with weight 0, or there are more members than shards */
}

static void
ask_givers(struct gossip_links *links, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (uint64_t left = g->run.takes; left; left &= left - 1) {
        int i = peers_find(core, g->plan.now.members[__builtin_ctzll(left)].node);
        if (i >= 0)
            gossip_link_ask(links, core, i);
    }
}

void
gossip_run_stop(struct gossip_run *run, const struct gossip_links *links, const struct core *core)
{
    run->on = false;
    run->partner = (struct proto_node){0, 0};
    for (int l = 0; l < GOSSIP_LINKS; l++)
        gossip_link_settle(core, &links->of[l]);
}

bool
gossip_run_busy(const struct core *core)
{
    return core->gossip.run.computing || core->gossip.copy.what == PROTO_OBJECT_RESULT;
}

/* Has all been taken and given in this phase? */
static bool
all_exchanged(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (uint64_t left = g->run.takes | g->run.gives; left; left &= left - 1) {
        unsigned rank = (unsigned)__builtin_ctzll(left);
        const struct gossip_link *link = gossip_link_find(core, g->plan.now.members[rank].node);
        if (!link || ((g->run.takes >> rank & 1) && !gossip_link_made(core, &link->take.pass)) ||
            ((g->run.gives >> rank & 1) && !gossip_link_made(core, &link->give.pass)))
            return false;
    }
    return true;
}

void
gossip_run_end_phase(struct gossip_run *run, const struct core *core)
{
    if (!run->on || run->computing || !all_exchanged(core))
        return;
    run->on = false;
    run->phase++;
}

/* It joined, and those who had the model went before it had got any of it. */
static void
tell_modelless(struct gossip_run *run, const struct core *core)
{
    if (core->gossip.plan.now.count == 1 && !run->told_modelless)
        core_log(core, 4,
                 "alone, and without a model: the nodes that had it left before this one had "
                 "joined them. It waits for one of them; started again, it goes on from its own "
                 "checkpoint, if it has one");
    run->told_modelless = true;
}

static void
step_phase(struct gossip_run *run, struct gossip_replica *replica, struct gossip_links *links,
           const struct core *core)
{
    const struct gossip *g = &core->gossip;
    bool frozen = gossip_run_all_frozen(core);
    bool takes_part = g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN;
    if (run->on && frozen)
        gossip_run_stop(run, links, core);
    if (!run->on && !gossip_run_busy(core) && g->plan.active && takes_part && !frozen) {
        if (model_in_plan(core))
            begin_phase(run, replica, core);
        else
            tell_modelless(run, core);
    }
    if (run->on)
        ask_givers(links, core);
}

/* --- Pairs: async -------------------------------------------------------------------------------- */

/* One of the neighbours in the graph, drawn. */
static void
choose_partner(struct gossip_run *run, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    struct gossip_graph graph = gossip_graph_of(core);
    unsigned n = (unsigned)g->plan.now.count;
    uint64_t near = gossip_graph_to(&graph, n, g->plan.rank, ++run->phase);
    run->due = false;
    if (near == 0)
        return;
    uint64_t draw = mix64_pair(g->plan.hash, run->phase * PROTO_PEERS_MAX + g->plan.rank);
    for (uint64_t skip = draw % (uint64_t)__builtin_popcountll(near); skip > 0; skip--)
        near &= near - 1;
    run->partner = g->plan.now.members[__builtin_ctzll(near)].node;
}

static void
exchange(struct gossip_run *run, struct gossip_links *links, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    int i = run->partner.id ? peers_find(core, run->partner) : -1;
    const struct proto_replica *said = i >= 0 ? gossip_said(core, i) : NULL;
    bool serves = said && said->status >= GOSSIP_TRAINING && said->status <= GOSSIP_FROZEN;
    if (!serves || gossip_link_made(core, &gossip_link_of(links, core, run->partner)->take.pass))
        run->partner = (struct proto_node){0, 0};
    if (!run->partner.id && run->due && g->status == GOSSIP_TRAINING)
        choose_partner(run, core);
    i = run->partner.id ? peers_find(core, run->partner) : -1;
    if (i >= 0)
        gossip_link_ask(links, core, i);
}

static void
step_pair(struct gossip_run *run, struct gossip_replica *replica, struct gossip_links *links,
          const struct core *core)
{
    const struct gossip *g = &core->gossip;
    if (g->plan.active && g->status <= GOSSIP_FROZEN)
        exchange(run, links, core);
    if (gossip_run_busy(core) || g->status != GOSSIP_TRAINING || !g->plan.active)
        return;
    if (!g->plan.now.members[g->plan.rank].shards)
        return; /* more members than shards: it only averages */
    read_values(replica, core);
    begin_compute(run, core);
}

/* --- What has become possible --------------------------------------------------------------------- */

void
gossip_run_step(struct gossip_run *run, struct gossip_replica *replica, struct gossip_links *links,
                const struct core *core)
{
    if (core->config.gossip->async)
        step_pair(run, replica, links, core);
    else
        step_phase(run, replica, links, core);
}

void
gossip_run_computed(struct gossip_run *run, const struct core *core)
{
    assert(run->computing);
    run->computing = false;
    run->due = true;
    run->compute_us = awake_since(core->awake, run->compute_at);
    run->step++;
}

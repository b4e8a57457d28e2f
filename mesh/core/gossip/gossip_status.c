/* gossip_status.c - see gossip_status.h. */
#include "mesh/core/gossip/gossip_status.h"

#include <assert.h>

#include "mesh/core/engine.h"
#include "mesh/core/gossip/gossip_give.h"
#include "mesh/core/gossip/gossip_internal.h"

/* Has this node done its part of the run? Without steps of all it is a count, which differs a little from node to node. */
static bool
trained(const struct core *core)
{
    const struct gossip_config *config = core->config.gossip;
    if (config->async)
        return core->gossip.count.total >= config->steps * core->config.shards;
    return core->gossip.run.step >= config->steps;
}

/* --- Joining --------------------------------------------------------------------------------------- */

/* Has somebody trained who is usable? */
static bool
others_ahead(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && g->of[i].known && g->of[i].said.computed > 0 &&
            g->of[i].said.known >= g->count.total && g->of[i].said.status >= GOSSIP_TRAINING)
            return true;
    return false;
}

/* This node goes on where the others are; `from`: whose values it has, if it copied them. */
static void
joined(struct core *core, struct proto_node from, uint64_t step, uint64_t total)
{
    struct gossip *g = &core->gossip;
    g->status = GOSSIP_TRAINING;
    g->run.step = step;
    g->count.total = total;
    gossip_note(
        &core->config,
        &(struct gossip_note){.event = GOSSIP_ADOPTED, .peer = from, .step = step, .total = total});
}

/* With push-sum nothing has to be copied: values and weight 0 become those of the neighbours by their flows. */
static void
join_empty(struct core *core)
{
    struct gossip *g = &core->gossip;
    uint64_t step, total;
    memset(g->replica.values, 0, core->config.gossip->count * sizeof *g->replica.values);
    for (size_t p = 0; p < g->range_count; p++)
        g->replica.weight[p] = core_mutant(MUTANT_GOSSIP_WEIGHT) ? GOSSIP_ONE : 0;
    gossip_count_join(core, &step, &total);
    joined(core, (struct proto_node){0, 0}, step, total);
}

static void
join(struct core *core)
{
    struct gossip *g = &core->gossip;
    bool ahead = g->status <= GOSSIP_NEW && others_ahead(core);
    if (g->status == GOSSIP_JOINING && !ahead)
        g->status = GOSSIP_NEW;
    if (g->status != GOSSIP_NEW || !ahead)
        return;
    g->status = GOSSIP_JOINING;
    g->count.base = 0; /* those that it joins count for themselves */
    if (core->config.gossip->push_sum)
        join_empty(core);
}

/* --- The end --------------------------------------------------------------------------------------- */

/* Fetches what is missing. With the values of a neighbour this node trains; with the result it ends. */
static void
fetch(struct core *core)
{
    struct gossip *g = &core->gossip;
    uint64_t step, total;
    switch (gossip_copy_step(&g->copy, &g->links, &g->replica, core)) {
    case GOSSIP_FETCH_NONE:
        break;
    case GOSSIP_FETCH_VALUES:
        gossip_count_join(core, &step, &total);
        joined(core, g->copy.from, step, total > g->count.total ? total : g->count.total);
        break;
    case GOSSIP_FETCH_RESULT:
    case GOSSIP_FETCH_MEAN:
        g->run.on = false;
        g->status = GOSSIP_ENDING;
        core->config.trainer->commit(core->config.trainer_ctx, 0);
        break;
    }
}

/* At rest: nobody computes any more, and nothing is under way to this node. */
static void
come_to_rest(struct core *core)
{
    struct gossip *g = &core->gossip;
    if (g->status != GOSSIP_FROZEN || g->run.on || g->run.computing || !gossip_run_all_frozen(core))
        return;
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct gossip_link *link = gossip_link_find(core, g->plan.now.members[r].node);
        if (link && link->open && !core_mutant(MUTANT_GOSSIP_QUIET))
            return;
    }
    g->status = GOSSIP_QUIET;
}

/* --- What has become possible ----------------------------------------------------------------------- */

void
gossip_status_plan_changed(struct core *core)
{
    struct gossip *g = &core->gossip;
    gossip_run_stop(&g->run, &g->links, core);
    g->run.phase = 0;
    gossip_copy_break(&g->copy, &g->replica, core);
    if (g->status == GOSSIP_QUIET)
        g->status = GOSSIP_FROZEN;
    if (g->status == GOSSIP_FROZEN && g->snapshot.now && !trained(core))
        g->status = GOSSIP_TRAINING;
    g->snapshot.now = 0;
}

/* The plan, and whether all rest for a snapshot. */
static void
step_plan(struct core *core)
{
    struct gossip *g = &core->gossip;
    if (gossip_plan_step(&g->plan, core))
        gossip_status_plan_changed(core);
    if (g->status == GOSSIP_NEW && g->plan.active)
        g->status = GOSSIP_TRAINING;
    if (!gossip_snapshot_step(&g->snapshot, core, trained(core)))
        return;
    gossip_plan_again(&g->plan, core);
    gossip_status_plan_changed(core);
}

void
gossip_status_step(struct core *core)
{
    struct gossip *g = &core->gossip;
    assert(g->status != GOSSIP_START);
    gossip_count_add(&g->count, core);
    join(core);
    step_plan(core);
    if (gossip_snapshot_ends(&g->snapshot, core))
        return;
    fetch(core);
    gossip_run_end_phase(&g->run, core);
    if (!g->run.on && !gossip_run_busy(core) && g->status == GOSSIP_TRAINING &&
        (g->snapshot.now || trained(core)))
        g->status = GOSSIP_FROZEN;
    gossip_run_step(&g->run, &g->replica, &g->links, core);
    gossip_give_waiting(&g->links, &g->replica, core);
    come_to_rest(core);
}

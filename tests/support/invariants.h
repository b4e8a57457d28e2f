/* invariants.h - what must hold of a core between two events, whatever happens to it. For the simulator and tests. */
#ifndef SUPPORT_INVARIANTS_H
#define SUPPORT_INVARIANTS_H

#include <assert.h>

#include "tests/support/mutant.h" /* before the core */

#include "mesh/core/engine.h"
#include "mesh/core/gossip/gossip.h"

/* Does the trainer compute what the plan wants of it, and is in own[] nothing else? */
static inline bool
pieces_fit(const struct core *core)
{
    const struct pieces *pieces = &core->pieces;
    for (unsigned stage = 0; stage <= pieces->plan.cut_count; stage++) {
        uint64_t mine = proto_plan_computes(&core->plan.now, core->plan.rank, stage);
        if (pieces->schedule.of[stage].mine != mine || (pieces->added[stage] & ~mine) ||
            (mine && (pieces->zero >> stage & 1)))
            return false;
    }
    return proto_plan_same_cuts(&pieces->plan, &core->plan.now);
}

static inline const char *
rounds_wrong(const struct core *core)
{
    const struct plan *plan = &core->plan;
    for (int i = 0; i < core->peers.high; i++) {
        bool up = core->peers.peers[i].state == PEER_UP;
        if (plan_member(plan, i) && (!up || core->view.of[i].suspected))
            return "a member of the plan has no session, or is suspected";
        if (!up && (core->give.of[i].left > 0 || (core->give.due >> i & 1)))
            return "a peer without a session is served";
    }
    if (plan->active && plan->now.round > core->round)
        return "a plan is of a later round";
    if (plan->active && collective_status(core->collective) == COLLECTIVE_OFF)
        return "a plan without its collective";
    if (!plan->active && collective_status(core->collective) != COLLECTIVE_OFF)
        return "a collective without its plan";
    if (plan->active && core->fetch.state != FETCH_NONE)
        return "a member of a plan still catches up";
    if (fetch_uses_state_in(&core->fetch) && give_uses_state_in(&core->give))
        return "a fetched state and the copy for others are in one memory";
    if (pieces_run(core) && pieces_begun(&core->pieces, core) && !pieces_fit(core))
        return "pieces are computed that the plan does not want";
    if (core->contribution.has & ~core->all)
        return "a contribution has shards that the job does not have";
    return NULL;
}

static inline const char *
gossip_wrong(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_links *links = &g->links;
    const struct gossip_publics *publics = &links->publics;
    unsigned kept = 0;
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        const struct gossip_link *link = &links->of[l];
        for (unsigned k = 0; k < link->give.waits; k++)
            kept += link->give.early[k].frame.handle != NULL;
        if (link->take.asked - link->take.number > GOSSIP_WINDOW)
            return "more flows are under way than may be";
    }
    for (size_t s = 0; s < links->slot_count; s++)
        if (links->slots[s].of && links->slots[s].head.number > links->slots[s].of->give.number)
            return "a flow is kept that was not given";
    if (kept != links->kept)
        return "frames that wait are miscounted";
    for (size_t a = 0; a < publics->count; a++)
        for (size_t b = a + 1; b < publics->count; b++)
            if (publics->places[a].link != 0 &&
                publics->places[a].link == publics->places[b].link &&
                publics->places[a].gives == publics->places[b].gives &&
                proto_node_equal(publics->places[a].node, publics->places[b].node))
                return "a link has two copies";
    if (g->run.on && !g->plan.active)
        return "a phase without a plan";
    if (g->status == GOSSIP_QUIET && (g->run.on || g->run.computing))
        return "a node at rest is in a phase";
    return NULL;
}

/* Which invariant of the core does not hold, in a few words; NULL: all hold. */
static inline const char *
core_wrong(const struct core *core)
{
    assert(!core->inside); /* they hold between two events */
    for (int i = 0; i < core->peers.high; i++) {
        uint64_t silent_us = awake_since(core->awake, core->view.of[i].heard_at);
        bool up = core->peers.peers[i].state == PEER_UP;
        if (up && silent_us > CORE_FORGET_US + 2 * CORE_GAPS_MAX * core_tick_us(core))
            return "a peer that is silent still has a session";
    }
    return core->engine == &engine_gossip ? gossip_wrong(core) : rounds_wrong(core);
}

#endif

/* rounds_look.c - what the engine "rounds" says of itself: to the shell, to people, to tests. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/rounds.h"

/* Whom a node that is done still has to serve. */
static bool
lags(const struct core *core, int i)
{
    bool has = core->view.of[i].beat.done && !divergence_excludes(core, i);
    assert(core->done);
    return !has && !divergence_parted(&core->divergence, i) &&
           view_lags(core, i, core->serve.of[i].served_at, core->round_us);
}

bool
rounds_may_end(const struct core *core)
{
    if (!core->done || divergence_open(core))
        return false;
    for (int i = 0; i < core->peers.high; i++)
        if (lags(core, i))
            return false;
    return true;
}

void
rounds_stats(const struct core *core, struct core_stats *out)
{
    out->round = core->round;
    out->plans = core->plan.plans;
    out->aborts = core->plan.aborts;
    out->waits_us = plan_waits_us(core);
    out->step_us = plan_recent_max(core);
    out->damages = core->damages;
    out->audits = core->audit.audits;
    out->expulsions = core->peers.admit.expulsions;
    out->catching_up = core->fetch.stage != FETCH_NONE;
    out->benched = core->straggler.benched;
    out->shared = core->shared;
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && core->view.of[i].beat.round > out->ahead)
            out->ahead = core->view.of[i].beat.round;
    if (!core->plan.active)
        return;
    out->members = (unsigned)core->plan.now.count;
    out->plan = core->plan.hash;
    out->plan_round = core->plan.now.round;
    out->mine = plan_mine(&core->plan);
    for (size_t m = 0; m < core->plan.now.count && core->plan.now.count > 1; m++)
        out->servers += core->plan.now.members[m].duties != 0;
    out->served = collective_served(core->collective, &out->by_servers);
    out->leader = plan_leads(&core->plan, core->config.self);
}

const char *
rounds_wrong(const struct core *core)
{
    const struct plan *plan = &core->plan;
    for (int i = 0; i < core->peers.high; i++) {
        bool up = core->peers.peers[i].state == PEER_UP;
        if (plan_member(plan, i) && (!up || core->view.of[i].suspected))
            return "a member of the plan has no session, or is suspected";
        if (!up && (core->serve.followers[i].on || (core->serve.due >> i & 1)))
            return "a peer without a session is served";
    }
    if (plan->active && plan->now.round > core->round)
        return "a plan is of a later round";
    if (plan->active && collective_status(core->collective) == COLLECTIVE_OFF)
        return "a plan without its collective";
    if (!plan->active && collective_status(core->collective) != COLLECTIVE_OFF)
        return "a collective without its plan";
    if (plan->active && core->fetch.stage != FETCH_NONE)
        return "a member of a plan still catches up";
    if (fetch_uses_state_in(&core->fetch) && serve_uses_state_in(&core->serve))
        return "a fetched state and the copy for others are in one memory";
    if (core->contribution.has & ~core->all)
        return "a contribution has shards that the job does not have";
    return NULL;
}

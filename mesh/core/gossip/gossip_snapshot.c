/* gossip_snapshot.c - checkpoints: all members rest, and each saves its values. See gossip.h.
 *
 * The name of a snapshot is the shards that the leader knew as computed, times 2^16, and some bits of its plan: later ones are
 * higher, and two of one name are one.
 *
 * A member that is told to end (Ctrl-C) asks for a snapshot: it says GOSSIP_SNAPSHOT_WANTED instead of a name. It ends when the snapshot is
 * over, so that nobody who still has to save misses it, or after GOSSIP_END_US without one. */
#include <assert.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/internal.h"

/* --- The leader ----------------------------------------------------------------------------------- */

/* How many steps the mesh has made. */
static uint64_t
progress(const struct gossip *g, const struct core *core)
{
    return core->config.gossip->async ? g->total / core->config.shards : g->step;
}

static const struct proto_replica *
member(const struct gossip *g, const struct core *core, size_t rank)
{
    int i = peers_find(core, g->plan.now.members[rank].node);
    return i >= 0 && g->of[i].known ? &g->of[i].said : NULL;
}

/* Does a member that is told to end wait for a snapshot? */
static bool
member_ends(const struct gossip *g, const struct core *core)
{
    bool any = g->ends == GOSSIP_ENDS,
         soon = awake_since(core->awake, g->saved_at) < GOSSIP_WANTED_US;
    for (size_t r = 0; r < g->plan.now.count && !any; r++) {
        const struct proto_replica *said = r == g->plan.rank ? NULL : member(g, core, r);
        any = said && said->snapshot == GOSSIP_SNAPSHOT_WANTED;
    }
    return any && !soon && !core_mutant(MUTANT_GOSSIP_DEAF);
}

static bool
due(const struct gossip *g, const struct core *core)
{
    uint64_t every = core->config.gossip->save_every;
    if (member_ends(g, core))
        return true;
    if (every > 0)
        return progress(g, core) / every > g->saved_step / every;
    return awake_save_due(core->awake, g->saved_at, g->snapshot_us);
}

/* Do all others train in this plan? */
static bool
all_train(const struct gossip *g, const struct core *core)
{
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct proto_replica *said = r == g->plan.rank ? NULL : member(g, core, r);
        if (r != g->plan.rank && (!said || said->plan_hash != g->plan.hash ||
                                  said->status != GOSSIP_TRAINING || gossip_snapshot_rests(said)))
            return false;
    }
    return true;
}

static void
lead_snapshot(struct gossip *g, const struct core *core, bool trained)
{
    if (g->snapshot || trained || g->status != GOSSIP_TRAINING || !due(g, core) ||
        !all_train(g, core))
        return;
    uint64_t name = g->total << 16 | (g->plan.hash & 0xffff), last = g->saved;
    for (size_t r = 0; r < g->plan.now.count;
         r++) /* some may have been in another part of the mesh */
        if (r != g->plan.rank && member(g, core, r)->saved > last)
            last = member(g, core, r)->saved;
    g->snapshot = name > last ? name : last + 1;
    g->snapshot_at = core->awake;
}

static bool
all_saved(const struct gossip *g, const struct core *core)
{
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct proto_replica *said = r == g->plan.rank ? NULL : member(g, core, r);
        if (r != g->plan.rank && (!said || said->saved != g->snapshot))
            return false;
    }
    return g->saved == g->snapshot;
}

/* --- A member ------------------------------------------------------------------------------------- */

static void
follow(struct gossip *g, const struct core *core)
{
    int i = peers_find(core, g->plan.now.leader);
    const struct proto_replica *said = i >= 0 && g->of[i].known ? &g->of[i].said : NULL;
    if (g->snapshot == 0 && said && said->plan_hash == g->plan.hash &&
        gossip_snapshot_rests(said) && said->snapshot > g->saved)
        g->snapshot = said->snapshot;
}

/* Is nothing under way between any two of them? */
static bool
all_rest(const struct gossip *g, const struct core *core)
{
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct proto_replica *said = r == g->plan.rank ? NULL : member(g, core, r);
        if (r != g->plan.rank && (!said || said->status != GOSSIP_QUIET ||
                                  said->snapshot != g->snapshot || said->plan_hash != g->plan.hash))
            return core_mutant(MUTANT_GOSSIP_REST);
    }
    return true;
}

static void
save(struct gossip *g, const struct core *core)
{
    const struct gossip_saved saved = {g->snapshot, g->step,   g->total,
                                       g->values,   g->weight, g->starts};
    const struct gossip_config *config = core->config.gossip;
    assert(g->snapshot != 0 && !g->computing);
    g->saved = g->snapshot;
    g->ends = g->ends ? GOSSIP_ENDS_SAVED : GOSSIP_GOES_ON;
    g->saved_step = progress(g, core);
    g->saved_at = core->awake;
    g->starts[GOSSIP_STARTS] = (struct gossip_start){core->config.self, g->units};
    gossip_note(&core->config, &(struct gossip_note){
                                   .event = GOSSIP_SAVED, .number = g->snapshot, .step = g->step});
    config->keeper->save(config->keeper_ctx, &saved);
}

/* A checkpoint counts on the journals of all. */
static bool
synced(const struct core *core)
{
    const struct gossip_config *config = core->config.gossip;
    return !config->keeper->synced || config->keeper->synced(config->keeper_ctx);
}

bool
gossip_snapshot_step(struct gossip *g, const struct core *core, bool trained)
{
    if (!core->config.gossip->keeper->save || !g->plan.active || g->status < GOSSIP_TRAINING ||
        g->status > GOSSIP_QUIET)
        return false;
    bool leads = core_node_equal(g->plan.now.leader, core->config.self);
    if (leads)
        lead_snapshot(g, core, trained);
    else
        follow(g, core);
    if (!g->snapshot)
        return false;
    bool rests = g->status == GOSSIP_QUIET || (core_mutant(MUTANT_GOSSIP_REST) && !g->computing);
    if (rests && g->saved != g->snapshot && all_rest(g, core) && synced(core))
        save(g, core);
    bool late = awake_reached(core->awake, awake_after(g->snapshot_at, GOSSIP_SNAPSHOT_MAX_US));
    if (!leads || !(late || all_saved(g, core)))
        return false;
    g->snapshot_us = awake_since(core->awake, g->snapshot_at);
    g->saved_step = progress(g, core);
    g->saved_at = core->awake;
    core_log(core, 7, "gossip: a snapshot at step %llu, which took %llu us",
             (unsigned long long)g->step, (unsigned long long)g->snapshot_us);
    return true;
}

/* --- A member that is told to end ------------------------------------------------------------------ */

uint64_t
gossip_snapshot_say(const struct gossip *g)
{
    return !g->snapshot && g->ends == GOSSIP_ENDS ? GOSSIP_SNAPSHOT_WANTED : g->snapshot;
}

bool
gossip_snapshot_end(struct gossip *g, const struct core *core)
{
    bool trains = g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN;
    if (!core->config.gossip->keeper->save || !g->plan.active || !trains)
        return false;
    g->ends = g->ends ? g->ends : GOSSIP_ENDS;
    g->ends_at = core->awake;
    return true;
}

bool
gossip_snapshot_ends(struct gossip *g, const struct core *core)
{
    bool saved = g->ends == GOSSIP_ENDS_SAVED && !g->snapshot;
    bool late = awake_reached(core->awake, awake_after(g->ends_at, GOSSIP_END_US));
    if (!g->ends || g->status > GOSSIP_QUIET || !(saved || late))
        return false;
    if (!g->ended)
        core->config.trainer->ended(core->config.trainer_ctx, g->ends == GOSSIP_ENDS_SAVED);
    g->ended = true;
    return true;
}

/* --- Beginning with one --------------------------------------------------------------------------- */

void
gossip_snapshot_begin(struct gossip *g, const struct core *core)
{
    const struct gossip_saved *saved = core->config.gossip->saved;
    if (saved) {
        memcpy(g->values, saved->values, core->config.gossip->count * sizeof *g->values);
        memcpy(g->weight, saved->weight, g->part_count * sizeof *g->weight);
        g->step = saved->step;
        g->total = saved->total;
        g->saved = saved->snapshot;
        g->base = 0;
        for (int k = 0; k <= GOSSIP_STARTS; k++)
            gossip_count_hear(g, core, saved->starts[k].node, saved->starts[k].units);
    }
    g->saved_step = progress(g, core);
    g->saved_at = core->awake;
}

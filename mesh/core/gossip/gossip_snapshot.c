/* gossip_snapshot.c - checkpoints: all members rest, and each saves its values. See gossip_snapshot.h.
 *
 * The name of a snapshot is the steps that the leader knew as computed, or more, times 2^32, and 32 bits of the hash of
 * its plan. So later ones are higher, and leaders that do not hear each other give different names: two of one name are
 * one.
 *
 * A member that is told to end (Ctrl-C) asks for a snapshot: it says GOSSIP_SNAPSHOT_WANTED instead of a name. It ends
 * when the snapshot is over, so that nobody who still has to save misses it, or after GOSSIP_END_US without one. */
#include <assert.h>

#include "mesh/core/gossip/gossip_count.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_snapshot.h"

/* --- The leader ----------------------------------------------------------------------------------- */

/* How many steps the mesh has made. */
static uint64_t
progress(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    return core->config.gossip->async ? g->count.total / core->config.shards : g->run.step;
}

/* Does a member that is told to end wait for a snapshot? */
static bool
member_ends(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    bool any = g->snapshot.ends == GOSSIP_ENDS,
         soon = awake_since(core->awake, g->snapshot.last_at) < GOSSIP_WANTED_US;
    for (size_t r = 0; r < g->plan.now.count && !any; r++) {
        const struct proto_replica *said = r == g->plan.rank ? NULL : gossip_member(core, r);
        any = said && said->snapshot == GOSSIP_SNAPSHOT_WANTED;
    }
    return any && !soon && !mutant(MUTANT_GOSSIP_DEAF);
}

static bool
snapshot_due(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    uint64_t every = core->config.gossip->save_every;
    if (member_ends(core))
        return true;
    if (every > 0)
        return progress(core) / every > g->snapshot.last_step / every;
    return awake_save_due(core->awake, g->snapshot.last_at, g->snapshot.took_us);
}

/* Of the snapshot after `last`. */
static uint64_t
name_after(const struct core *core, uint64_t last)
{
    const struct gossip *g = &core->gossip;
    uint64_t steps = g->count.total / core->config.shards, later = (last >> 32) + 1;
    return (steps > later ? steps : later) << 32 | (g->plan.hash & UINT32_MAX);
}

static void
lead_snapshot(struct gossip_snapshot *snapshot, const struct core *core, bool trained)
{
    const struct gossip *g = &core->gossip;
    if (snapshot->now || trained || g->status != GOSSIP_TRAINING || !snapshot_due(core) ||
        !gossip_others_are(core, GOSSIP_TRAINING, GOSSIP_TRAINING, 0))
        return;
    uint64_t last = snapshot->last;
    for (size_t r = 0; r < g->plan.now.count;
         r++) /* some may have been in another part of the mesh */
        if (r != g->plan.rank && gossip_member(core, r)->saved > last)
            last = gossip_member(core, r)->saved;
    snapshot->now = name_after(core, last);
    snapshot->since = core->awake;
}

static bool
all_saved(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    for (size_t r = 0; r < g->plan.now.count; r++) {
        const struct proto_replica *said = r == g->plan.rank ? NULL : gossip_member(core, r);
        if (r != g->plan.rank && (!said || said->saved != g->snapshot.now))
            return false;
    }
    return g->snapshot.last == g->snapshot.now;
}

/* --- A member ------------------------------------------------------------------------------------- */

static void
follow(struct gossip_snapshot *snapshot, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    int i = peers_find(core, g->plan.now.leader);
    const struct proto_replica *said = i >= 0 ? gossip_said(core, i) : NULL;
    if (snapshot->now == 0 && said && said->plan_hash == g->plan.hash &&
        gossip_snapshot_of(said) > snapshot->last)
        snapshot->now = said->snapshot;
}

static void
save_replica(struct gossip_snapshot *snapshot, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    const struct gossip_saved saved = {snapshot->now,     g->run.step,       g->count.total,
                                       g->replica.values, g->replica.weight, g->count.starts};
    const struct gossip_config *config = core->config.gossip;
    assert(snapshot->now != 0 && !g->run.computing);
    snapshot->last = snapshot->now;
    snapshot->ends = snapshot->ends ? GOSSIP_ENDS_SAVED : GOSSIP_GOES_ON;
    snapshot->last_step = progress(core);
    snapshot->last_at = core->awake;
    gossip_note(
        &core->config,
        &(struct gossip_note){.event = GOSSIP_SAVED, .number = snapshot->now, .step = g->run.step});
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
gossip_snapshot_step(struct gossip_snapshot *snapshot, const struct core *core, bool trained)
{
    const struct gossip *g = &core->gossip;
    if (!core->config.gossip->keeper->save || !g->plan.active || g->status < GOSSIP_TRAINING ||
        g->status > GOSSIP_QUIET)
        return false;
    bool leads = proto_node_equal(g->plan.now.leader, core->config.self);
    if (leads)
        lead_snapshot(snapshot, core, trained);
    else
        follow(snapshot, core);
    if (!snapshot->now)
        return false;
    /* Nothing is under way between any two members. */
    bool rest = (g->status == GOSSIP_QUIET &&
                 gossip_others_are(core, GOSSIP_QUIET, GOSSIP_QUIET, snapshot->now)) ||
                (mutant(MUTANT_GOSSIP_REST) && !g->run.computing);
    if (rest && snapshot->last != snapshot->now && synced(core))
        save_replica(snapshot, core);
    bool late = awake_reached(core->awake, awake_after(snapshot->since, GOSSIP_SNAPSHOT_MAX_US));
    if (!leads || !(late || all_saved(core)))
        return false;
    snapshot->took_us = awake_since(core->awake, snapshot->since);
    snapshot->last_step = progress(core);
    snapshot->last_at = core->awake;
    core_log(core, 7, "gossip: a snapshot at step %llu, which took %llu us",
             (unsigned long long)g->run.step, (unsigned long long)snapshot->took_us);
    return true;
}

/* --- A member that is told to end ------------------------------------------------------------------ */

uint64_t
gossip_snapshot_say(const struct core *core)
{
    const struct gossip *g = &core->gossip;
    return !g->snapshot.now && g->snapshot.ends == GOSSIP_ENDS ? GOSSIP_SNAPSHOT_WANTED
                                                               : g->snapshot.now;
}

bool
gossip_snapshot_end(struct gossip_snapshot *snapshot, const struct core *core)
{
    const struct gossip *g = &core->gossip;
    bool trains = g->status == GOSSIP_TRAINING || g->status == GOSSIP_FROZEN;
    /* another one ends, too */
    bool saves = g->status == GOSSIP_QUIET && snapshot->now && !mutant(MUTANT_GOSSIP_LEAVES);
    if (!core->config.gossip->keeper->save || !g->plan.active || !(trains || saves))
        return false;
    if (!snapshot->ends)
        snapshot->ends = saves && snapshot->last == snapshot->now ? GOSSIP_ENDS_SAVED : GOSSIP_ENDS;
    snapshot->ends_at = core->awake;
    return true;
}

bool
gossip_snapshot_ends(struct gossip_snapshot *snapshot, const struct core *core)
{
    bool saved = snapshot->ends == GOSSIP_ENDS_SAVED && !snapshot->now;
    bool late = awake_reached(core->awake, awake_after(snapshot->ends_at, GOSSIP_END_US));
    if (!snapshot->ends || core->gossip.status > GOSSIP_QUIET || !(saved || late))
        return false;
    if (!snapshot->ended)
        core->config.trainer->ended(core->config.trainer_ctx, snapshot->ends == GOSSIP_ENDS_SAVED);
    snapshot->ended = true;
    return true;
}

/* --- Beginning ------------------------------------------------------------------------------------ */

void
gossip_snapshot_begin(struct gossip_snapshot *snapshot, const struct core *core)
{
    const struct gossip_saved *saved = core->config.gossip->saved;
    snapshot->last = saved ? saved->snapshot : 0;
    snapshot->last_step = progress(core);
    snapshot->last_at = core->awake;
}

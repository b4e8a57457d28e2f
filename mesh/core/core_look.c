/* core_look.c - what a core tells of itself: to its shell, to people, to tests. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mesh/core/core.h"
#include "mesh/core/engine.h"
#include "mesh/core/internal.h"

bool
core_finished(const struct core *core)
{
    return core->finished;
}

/* Peers that are accepted and heard. */
static unsigned
core_heard_peers(const struct core *core)
{
    unsigned count = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        bool trains = peer->announced || (core->config.hello.wants_job && !peer->hello.wants_job);
        count += peer->state == PEER_UP && trains && !core->view.of[i].suspected;
    }
    return count;
}

void
core_stats(const struct core *core, struct core_stats *out)
{
    *out = (struct core_stats){.peers = core_heard_peers(core),
                               .unreached = core->peers.contacts.unreached,
                               .members = (unsigned)core->engine->members(core),
                               .slow_share = -1};
    core->engine->stats(core, out);
    assert(out->slow_share < 0 || out->slow < core->peers.high);
    if (out->slow_share >= 0 && out->slow >= 0)
        report_who(core, out->slow, out->slow_who);
    else if (out->slow_share >= 0)
        snprintf(out->slow_who, sizeof out->slow_who, "%s (this one)", core->config.hello.name);
}

static const char *
core_name_of(const struct core *core, size_t member)
{
    int i = core->plan.peer[member];
    return i < 0 ? core->config.hello.name : core->peers.peers[i].hello.name;
}

static void
core_who(const struct core *core, size_t member, char out[PROTO_WHO_MAX])
{
    const char *name = core_name_of(core, member);
    int i = core->plan.peer[member];
    unsigned same = 0;
    for (size_t m = 0; m < core->plan.now.count; m++)
        same += strcmp(core_name_of(core, m), name) == 0;
    if (same == 1 && name[0])
        snprintf(out, PROTO_WHO_MAX, "%s", name);
    else if (i >= 0)
        snprintf(out, PROTO_WHO_MAX, "%s:%u", core->peers.peers[i].at.host,
                 core->peers.peers[i].at.control_port);
    else
        snprintf(out, PROTO_WHO_MAX, "this node");
}

/* The stages of which a member has all segments. */
static uint64_t
core_held_stages(const struct core *core, const struct proto_member *member)
{
    const struct core_stages *stages = &core->config.stages;
    uint64_t held = UINT64_MAX >> (63 - core->plan.now.cut_count), one = 1;
    for (size_t s = 0; s <= stages->cut_count; s++)
        if (!(member->holds >> s & 1))
            held &= ~(one << proto_plan_stage(&core->plan.now, core_segment_bucket(stages, s)));
    return held;
}

static void
core_divided(const struct core *core, struct core_division *out)
{
    const struct proto_plan *plan = &core->plan.now;
    if (!core->plan.active)
        return;
    out->plan = core->plan.hash;
    out->stages = (unsigned)plan->cut_count + 1;
    out->count = (unsigned)plan->count;
    for (size_t m = 0; m < plan->count; m++) {
        out->of[m].holds = core_held_stages(core, &plan->members[m]);
        out->of[m].computes = plan->members[m].shards ? plan->members[m].computes : 0;
        core_who(core, m, out->of[m].who);
    }
}

/* The slowest line of the others, as they say; 0: they do not know. */
static uint32_t
core_slowest_told(const struct core *core)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_hears *list = &core->view.of[i].list;
        for (size_t h = 0; core->peers.peers[i].state == PEER_UP && h < list->count; h++) {
            uint32_t rate = list->nodes[h].rate;
            most = rate > most ? rate : most;
            least = rate > 0 && rate < least ? rate : least;
        }
    }
    return most > 0 ? least : 0;
}

void
core_status(const struct core *core, struct core_status *out)
{
    *out = (struct core_status){.here = 1 + core_heard_peers(core),
                                .wanted = (unsigned)core->config.peers_min};
    out->line = core_slowest_told(core);
    out->waiting = core->engine->waits(core) && out->here < out->wanted;
    out->waiting_us = out->waiting ? awake_since(core->awake, core->started_at) : 0;
    contact_list(core, out);
    core_divided(core, &out->division);
}

uint64_t
core_tick_us(const struct core *core)
{
    return core->tick_us;
}

/* core_look.c - what a core tells of itself: to its shell, to people, to tests. */
#include <assert.h>
#include <stdio.h>

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
        count += peer->state == PEER_UP && !core->view.of[i].suspected && peer->announced;
    }
    return count;
}

void
core_stats(const struct core *core, struct core_stats *out)
{
    *out = (struct core_stats){.peers = core_heard_peers(core),
                               .unreached = core->peers.contacts.unreached,
                               .slow_share = -1};
    core->engine->stats(core, out);
    assert(out->slow_share < 0 || out->slow < core->peers.high);
    if (out->slow_share >= 0 && out->slow >= 0)
        report_who(core, out->slow, out->slow_who);
    else if (out->slow_share >= 0)
        snprintf(out->slow_who, sizeof out->slow_who, "%s (this one)", core->config.hello.name);
}

void
core_status(const struct core *core, struct core_status *out)
{
    *out = (struct core_status){.here = 1 + core_heard_peers(core),
                                .wanted = (unsigned)core->config.peers_min};
    out->waiting = core->engine->waits(core) && out->here < out->wanted;
    out->waiting_us = out->waiting ? awake_since(core->awake, core->started_at) : 0;
    contact_list(core, out);
}

uint64_t
core_tick_us(const struct core *core)
{
    return core->tick_us;
}

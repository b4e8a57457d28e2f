/* gossip_settle.c - what is under way is settled: when a session is back, when a plan ends, when nothing is heard of it for
 * a while. See gossip.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/internal.h"

static void
settle_open(struct gossip *g, const struct core *core, int i, const struct gossip_link *link)
{
    for (size_t p = 0; p < g->part_count; p++)
        if (link->parts[p].open)
            gossip_link_send(g, core, i, link, p, PROTO_ASK_SETTLE);
}

void
gossip_settle(struct gossip *g, const struct core *core, int i)
{
    struct gossip_link *link = gossip_link_of(g, core, core->peers.peers[i].node);
    assert(link->node.id != 0);
    settle_open(g, core, i, link);
    for (size_t p = 0; p < g->part_count; p++)
        if (link->parts[p].slot >= 0)
            gossip_give_again(g, core, i, link, p);
    link->retry_us = backoff_us(link->retry_us, GOSSIP_RETRY_US, GOSSIP_RETRY_MAX_US);
    link->retry_at = awake_after(core->awake, link->retry_us);
}

void
gossip_settle_all(struct gossip *g, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        int i = g->links[l].node.id ? peers_find(core, g->links[l].node) : -1;
        if (i >= 0)
            settle_open(g, core, i, &g->links[l]);
    }
}

static bool
unsettled(const struct gossip *g, const struct gossip_link *link)
{
    for (size_t p = 0; p < g->part_count; p++)
        if (link->parts[p].open || link->parts[p].slot >= 0)
            return true;
    return false;
}

void
gossip_settle_tick(struct gossip *g, const struct core *core)
{
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &g->links[l];
        if (link->node.id == 0 || awake_before(core->awake, link->retry_at) || !unsettled(g, link))
            continue;
        int i = peers_find(core, link->node);
        if (i >= 0)
            gossip_settle(g, core, i);
    }
}

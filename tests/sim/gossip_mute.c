/* gossip_mute.c - a node stays connected and its values go astray: neighbours wait for what never comes.
 *
 * Every sixth seed. The network is quiet, and nobody is killed. After a while no ASK and no FLOW leaves one node, or
 * none reaches it, or both, while its heartbeats come as before. Later it is as it was. The others may not stop for
 * longer than promised, and at the end all have one result. */
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/gossip.h"

enum {
    STEP_US = 20000,
    STEPS = 120,
    PROMISE_US = 1000000,
    ONE_IN = 6,
};

static struct {
    bool on, sends, hears; /* what the mute node still does */
    unsigned node;
    uint64_t from_us, until_us;
    uint64_t moved_us[SIM_NODES_MAX]; /* 0: it has not met the others */
    const struct core_wire *wire;
} mute;

/* The faults that were drawn do not come. */
static void
call_off(struct sim *sim)
{
    size_t count;
    struct sim_event *queued = sim_queued(sim, &count);
    for (size_t k = 0; k < count; k++)
        if (queued[k].kind == SIM_FAULT || queued[k].kind == SIM_FAULTS_OVER) {
            queued[k].kind = SIM_FAULT;
            queued[k].a = SIM_HEAL;
        }
}

static void
quiet(struct sim_profile *p)
{
    p->loss_permille = p->late_permille = p->copy_permille = 0;
    p->corrupt_permille = p->header_permille = 0;
    p->bulk_wild = p->far = p->slow = p->leave = p->cuts_stay = false;
    p->stranger = SIM_NODES_MAX;
    p->peers_min = p->nodes;
    p->shards = p->shards < p->nodes ? p->nodes : p->shards; /* all compute */
    p->delay_us = 50;
    p->jitter_us = 200;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++) {
        p->line_bits[i] = 0;
        p->compute_us[i] = STEP_US * (uint64_t)p->nodes / p->shards;
    }
}

void
sim_gossip_quiet(struct sim *sim)
{
    quiet(&sim->profile);
    call_off(sim);
}

bool
sim_gossip_muted(void)
{
    return mute.on;
}

void
sim_gossip_mute_begin(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    uint64_t draw = mix64_pair(sim->seed, 0x3707e);
    mute.on = !sim->play.scenario && draw % ONE_IN == 0;
    if (!mute.on)
        return;
    sim_gossip_quiet(sim);
    sim_gossip_config.steps = p->rounds = STEPS;
    mute.node = (unsigned)(draw >> 8) % p->nodes;
    mute.sends = (draw >> 16) % 3 == 0;
    mute.hears = (draw >> 16) % 3 == 1;
    mute.from_us = sim->now + 300000 + (draw >> 24) % 700000;
    mute.until_us = mute.from_us + 1000000 + (draw >> 32) % 4000000;
    memset(mute.moved_us, 0, sizeof mute.moved_us);
    p->faults_end_us = mute.until_us;
    sim_push(sim, mute.until_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

static void
send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
          bool lent)
{
    const struct shell *shell = ctx;
    uint64_t now = shell->sim->now;
    bool from = shell->node->index == mute.node && !mute.sends;
    bool to = shell->node->links[link].to == mute.node && !mute.hears;
    if ((from || to) && now >= mute.from_us && now < mute.until_us)
        return;
    mute.wire->send_bulk(ctx, link, msg, body, size, lent);
}

void
sim_gossip_mute_wire(struct core_config *config)
{
    static struct core_wire wire;
    if (!mute.on)
        return;
    mute.wire = config->wire;
    wire = *config->wire;
    wire.send_bulk = send_bulk;
    config->wire = &wire;
}

void
sim_gossip_mute_computed(struct sim *sim, const struct sim_node *node)
{
    uint64_t *moved_us = &mute.moved_us[node->index];
    uint64_t since_us = *moved_us > mute.from_us ? *moved_us : mute.from_us;
    uint64_t gap_us = *moved_us && sim->now > since_us ? sim->now - since_us : 0;
    if (!mute.on || node->index == mute.node)
        return;
    if (gap_us > PROMISE_US + 4 * STEP_US)
        sim_fail(sim, "node %u: no step for %u ms, as node %u does not answer", node->index,
                 (unsigned)(gap_us / 1000), mute.node);
    *moved_us = sim->now;
}

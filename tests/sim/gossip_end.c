/* gossip_end.c - nodes that are told to end (Ctrl-C), one or all of them, while the network is quiet: each saves a
 * snapshot before it goes, and those that stay go on to one result. */
#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/gossip.h"

enum { STEPS = 120, SPREAD_US = 50000, ONE_IN = 8 };

static struct {
    bool on;
    unsigned nodes, told, ended; /* bitmaps: to be told; told; may end */
    uint64_t from_us;
} end;

void
sim_gossip_end_begin(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    uint64_t draw = mix64_pair(sim->seed, 0xe2d), bits = draw / ONE_IN;
    end.on = !sim->play.scenario && !sim_gossip_muted() && draw % ONE_IN == 0;
    end.told = end.ended = 0;
    if (!end.on)
        return;
    sim_gossip_quiet(sim);
    sim_gossip_config.steps = p->rounds = STEPS;
    end.nodes = bits % 2 ? (1u << p->nodes) - 1 : 1u << bits / 2 % p->nodes;
    end.from_us = sim->now + 300000 + (draw >> 24) % 700000;
    p->faults_end_us = end.from_us;
    sim_push(sim, end.from_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

void
sim_gossip_ended(void *ctx, bool saved)
{
    struct shell *shell = ctx;
    unsigned bit = 1u << shell->node->index;
    if (end.ended & bit)
        sim_fail(shell->sim, "node %u: told twice that it may end", shell->node->index);
    if (!saved)
        sim_fail(shell->sim, "node %u: was told to end, and has saved nothing", shell->node->index);
    end.ended |= bit;
}

/* Is nobody resting for a snapshot that is not complete without this node? */
static void
judge_needed(struct sim *sim, const struct sim_node *node)
{
    const struct gossip *mine = &node->core->gossip;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct gossip *its = sim->nodes[i].up ? &sim->nodes[i].core->gossip : mine;
        if (its != mine && its->plan.active && its->plan.hash == mine->plan.hash &&
            its->snapshot.now && its->snapshot.last != its->snapshot.now)
            sim_fail(sim, "node %u: ends while node %u has still to save a snapshot", node->index,
                     i);
    }
}

static void
leave(struct sim *sim, struct sim_node *node)
{
    judge_needed(sim, node);
    core_leave(node->core, sim->now);
    shell_crash(sim, node->index, false);
    node->left = true;
}

void
sim_gossip_end(struct sim *sim, struct sim_node *node)
{
    unsigned bit = 1u << node->index;
    uint64_t after_us = mix64_pair(sim->seed, node->index) % SPREAD_US;
    if (!end.on)
        return;
    if (end.ended & bit) {
        leave(sim, node);
    } else if (end.told & bit) {
        if (node->core->gossip.status > GOSSIP_QUIET)
            sim_fail(sim, "node %u: was told to end, and went on to the end", node->index);
    } else if ((end.nodes & bit) && node->core->gossip.status >= GOSSIP_TRAINING &&
               sim->now >= end.from_us + after_us) {
        end.told |= bit;
        if (!core_on_interrupt(node->core, sim->now))
            leave(sim, node);
    }
}

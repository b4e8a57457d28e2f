/* late.c - a node that hears nothing for a while, and is itself to blame, does not suspect the others.
 *
 *     starved   its threads wait for a processor: it runs for a moment every few ticks, and what others send waits
 *               even longer for the thread that takes it in
 *     deaf      nothing comes in, though it runs
 *
 * Nobody else is late, so whoever it suspects it suspects wrongly. */

#include "tests/sim/run.h"

enum {
    LATE_RUNS = 100,
    ROUNDS = 600,
    SHARD_US = 800,
    VECTOR = 60,
    BEGIN_US = 500000, /* all have met, and the first plan is theirs */
    LAST_US = 3000000, /* the node runs late for so long */
    RUNS_US = 500,     /* and between two pauses */
};

void
late_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct rand *rand = &sim->rand;
    quiet_profile(p, VECTOR);
    bool deaf = sim->late == SIM_LATE_DEAF; /* of two, one is not more than half */
    p->nodes = (unsigned)rand_range(rand, deaf ? 3 : 2, 5);
    p->rounds = ROUNDS;
    p->direct_bytes = rand_bool(rand) ? 0 : VECTOR * sizeof(int32_t);
    p->peers_min = p->nodes;
    sim->late_node = (unsigned)rand_below(rand, p->nodes);
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = rand_range(rand, SHARD_US / 2, SHARD_US);
    p->faults_end_us = sim->now + BEGIN_US + LAST_US;
    sim_push(sim, sim->now + BEGIN_US, SIM_FAULT, 0, SIM_PAUSE, 0, NULL);
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

void
late_event(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[sim->late_node];
    struct rand *rand = &sim->rand;
    bool deaf = sim->late == SIM_LATE_DEAF;
    if (node->stalled_until < sim->now)
        node->stalled_until = sim->now + rand_range(rand, 260000, deaf ? 310000 : 450000);
    if (node->stalled_until > sim->profile.faults_end_us)
        node->stalled_until = sim->profile.faults_end_us;
    if (!deaf)
        node->paused_until = sim->now + rand_range(rand, 25000, 45000);
    uint64_t next_us = deaf ? node->stalled_until + 300000 : node->paused_until + RUNS_US;
    if (next_us < sim->profile.faults_end_us)
        sim_push(sim, next_us, SIM_FAULT, 0, SIM_PAUSE, 0, NULL);
}

void
late_judge(struct sim *sim, const struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    if (node->index == sim->late_node && node->stalled_until &&
        stats.peers + 1 < sim->profile.nodes)
        sim_fail(sim, "node %u hears nothing for a moment, and suspects %u healthy ones",
                 node->index, sim->profile.nodes - 1 - stats.peers);
}

static bool
all_passed(struct sim *sim, uint64_t first, enum sim_late how)
{
    bool good = true;
    sim->late = how;
    for (uint64_t k = 0; k < LATE_RUNS && good; k++)
        good = sim_run(sim, first + k, sim->planted);
    if (!good)
        run_failure(sim);
    sim->late = SIM_LATE_OFF;
    return good;
}

bool
late_passed(struct sim *sim, uint64_t first)
{
    bool good = all_passed(sim, first, SIM_LATE_STARVED) && all_passed(sim, first, SIM_LATE_DEAF);
    if (good)
        printf("a node that is late, or deaf: 2 times %d runs, it suspects nobody\n", LATE_RUNS);
    return good;
}

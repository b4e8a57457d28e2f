/* alone.c - a node cut off from the others trains on, and a bit of its state flips, which nobody can see there.
 *
 * When they meet again, others have passed the round of the flip, too: whoever is ahead, the wrong state must not
 * spread, its node must go back below that round, and all end with the reference's. */
#include "tests/sim/run.h"

enum { ALONE_RUNS = 100, ROUNDS = 500, SHARD_US = 800, VECTOR = 60 };

void
alone_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct rand *rand = &sim->rand;
    quiet_profile(p, VECTOR);
    p->nodes = (unsigned)rand_range(rand, 2, 4);
    p->rounds = ROUNDS;
    p->direct_bytes = rand_bool(rand) ? 0 : VECTOR * sizeof(int32_t);
    p->hold_cut = rand_bool(rand);
    p->peers_min = p->nodes;
    sim->alone_node = (unsigned)rand_below(rand, p->nodes);
    for (unsigned i = 0; i < SIM_NODES_MAX; i++) /* now the one is ahead, now the others are */
        p->compute_us[i] = rand_range(rand, SHARD_US / 2, SHARD_US);
    uint64_t cut_us = sim->now + rand_range(rand, 200000, 400000);
    p->faults_end_us = cut_us + rand_range(rand, 1500000, 2500000);
    sim_push(sim, cut_us, SIM_FAULT, 0, SIM_SPLIT, 0, NULL);
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

void
alone_cut(struct sim *sim)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        sim->cut[i][sim->alone_node] = sim->cut[sim->alone_node][i] = i != sim->alone_node;
    sim->nodes[sim->alone_node].flip = true;
}

bool
alone_flips(const struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    return node->flip && stats.members == 1;
}

bool
alone_passed(struct sim *sim, uint64_t first)
{
    bool good = true;
    sim->alone = true;
    uint64_t before = sim->counts.damages, flips = sim->counts.states;
    for (uint64_t k = 0; k < ALONE_RUNS && good; k++)
        good = sim_run(sim, first + k, sim->planted);
    if (!good)
        run_failure(sim);
    sim->alone = false;
    if (good)
        printf("a wrong state of a node that was alone: %u of %d runs, nodes went back %u times\n",
               (unsigned)(sim->counts.states - flips), ALONE_RUNS,
               (unsigned)(sim->counts.damages - before));
    return good && sim->counts.states - flips > ALONE_RUNS / 2;
}

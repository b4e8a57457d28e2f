/* slow.c - what does a member on a slow line, or with a slow processor, cost the others?
 *
 * The same quiet run twice: with the slow node, and without it. On average the others keep SLOW_SHARE percent of their
 * speed, and in no run less than SLOW_LEAST: these runs are short, and it takes a part of them to find out. All of them
 * end with the same state, and the slow one, too. */
#include "tests/sim/run.h"

enum { SLOW_RUNS = 24, SLOW_SHARE = 85, SLOW_LEAST = 60, ROUNDS = 900, VECTOR = 160 };

void
slow_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct rand *rand = &sim->rand;
    quiet_profile(p, VECTOR);
    p->nodes = (unsigned)rand_range(rand, 2, 5);
    p->rounds = ROUNDS;
    p->block_size = 100;
    p->chunk_elems = (uint32_t)rand_range(rand, 30, VECTOR);
    p->direct_bytes = rand_bool(rand) ? 0 : VECTOR * sizeof(int32_t);
    p->peers_min = 1;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = rand_range(rand, 3000, 5000);
    sim->slow_node = (unsigned)rand_below(rand, p->nodes);
    if (rand_below(rand, 4) > 0)
        p->line_bits[sim->slow_node] = rand_range(rand, 120000, 300000);
    else
        p->compute_us[sim->slow_node] *= 10;
    p->faults_end_us = sim->now + 1;
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

bool
slow_absent(const struct sim *sim, unsigned node)
{
    return sim->slow == SIM_SLOW_ABSENT && node == sim->slow_node;
}

/* How long the others needed for all rounds; 0 when something was wrong. */
static uint64_t
time_of(struct sim *sim, uint64_t seed, enum sim_slow how)
{
    sim->slow = how;
    bool good = sim_run(sim, seed, sim->mutant);
    sim->slow = SIM_SLOW_OFF;
    uint64_t last_us = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (i != sim->slow_node && sim->nodes[i].done_us > last_us)
            last_us = sim->nodes[i].done_us;
    if (!good)
        run_failure(sim);
    return good ? last_us - 1000000 : 0;
}

bool
slow_passed(struct sim *sim, uint64_t first)
{
    unsigned worst = 1000, sum = 0;
    for (uint64_t k = 0; k < SLOW_RUNS; k++) {
        uint64_t without_us = time_of(sim, first + k, SIM_SLOW_ABSENT);
        uint64_t with_us = without_us ? time_of(sim, first + k, SIM_SLOW_PRESENT) : 0;
        if (with_us == 0)
            return false;
        unsigned share = (unsigned)(100 * without_us / with_us);
        worst = share < worst ? share : worst;
        sum += share;
    }
    bool enough = sum >= SLOW_SHARE * SLOW_RUNS && worst >= SLOW_LEAST;
    printf("a slow member: %d runs, the others keep %u %% of their speed without it, %u %% at "
           "least%s\n",
           SLOW_RUNS, sum / SLOW_RUNS, worst, enough ? "" : "  TOO LITTLE");
    return enough;
}

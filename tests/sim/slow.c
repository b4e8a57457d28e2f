/* slow.c - what does a member on a slow line, or with a slow processor, cost the others?
 *
 * The same quiet run twice: with the slow node, and without it. On average the others keep SLOW_SHARE percent of their
 * speed, and in no run less than SLOW_LEAST: these runs are short, and it takes a part of them to find out. All of them
 * end with the same state, and the slow one, too. In some there is a shard less than nodes: who watches takes the place
 * of the slow one.
 *
 * And three times on slow lines of all, and now and then one that is slower still, or a slow processor: as it comes,
 * with equal shares, and with one node alone. On average the mesh has LINES_SHARE percent of the speed of the better of
 * these two, and in no run less than LINES_LEAST. The leader settles: until the first is done there are no more plans
 * than the doubled rests of all but one node have room for. Who is left behind then may train alone between two tries
 * to get a copy. */
#include "mesh/core/group/straggler.h"
#include "tests/sim/run.h"

enum { SLOW_RUNS = 24, SLOW_SHARE = 85, SLOW_LEAST = 60, ROUNDS = 900, VECTOR = 160 };
enum { LINES_SHARE = 100, LINES_LEAST = 70 };
/* A line that is slower than its heartbeats, for each peer, carries nothing else. */
enum { BEATS_BITS = 10000 };

static void
lines(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    uint64_t bits = rand_range(&sim->rand, 100000, 2000000);
    p->even = sim->slow == SIM_SLOW_EVEN;
    p->peers_min = sim->slow == SIM_SLOW_ALONE ? 1 : p->nodes;
    for (unsigned i = 0; i < p->nodes; i++)
        p->line_bits[i] = bits;
    uint64_t beats = BEATS_BITS * (p->nodes - 1);
    if (rand_bool(&sim->rand))
        p->line_bits[sim->slow_node] = bits / 10 > beats ? bits / 10 : beats;
    else if (rand_bool(&sim->rand))
        p->compute_us[sim->slow_node] *= 5;
}

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
    if (sim->slow < SIM_SLOW_LINES && sim->slow_node % 2)
        p->shards = p->nodes - 1;
    if (sim->slow >= SIM_SLOW_LINES)
        lines(sim);
    else if (rand_below(rand, 4) > 0)
        p->line_bits[sim->slow_node] = rand_range(rand, 120000, 300000);
    else
        p->compute_us[sim->slow_node] *= 10;
    p->faults_end_us = sim->now + 1;
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

bool
slow_absent(const struct sim *sim, unsigned node)
{
    return (sim->slow == SIM_SLOW_ABSENT && node == sim->slow_node) ||
           (sim->slow == SIM_SLOW_ALONE && node != (sim->slow_node + 1) % sim->profile.nodes);
}

/* How long the others needed for all rounds; 0 when something was wrong. */
static uint64_t
time_of(struct sim *sim, uint64_t seed, enum sim_slow how)
{
    sim->slow = how;
    bool good = sim_run(sim, seed, sim->planted);
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

/* How long the first node needed for all rounds, and in how many plans each was by then, on average; 0 when something
 * was wrong. */
static uint64_t
first_done_us(struct sim *sim, uint64_t seed, enum sim_slow how, unsigned *plans)
{
    if (time_of(sim, seed, how) == 0)
        return 0;
    uint64_t first_us = UINT64_MAX;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (sim->nodes[i].done_us && sim->nodes[i].done_us < first_us) {
            first_us = sim->nodes[i].done_us;
            *plans = (unsigned)(sim->nodes[i].done_plans / sim->profile.nodes);
        }
    return first_us - 1000000;
}

/* Plans of a node in `us`: the first; when another node is left out, as often as its rest, doubled each time, fits, and
 * comes back; and for each the first time that shares are divided by measured speeds. */
static unsigned
plans_most(const struct sim *sim, uint64_t us)
{
    unsigned rests = 1;
    for (uint64_t rest_us = STRAGGLER_REST_US, sum_us = 0; sum_us < us;
         sum_us += rest_us, rest_us *= 2)
        rests++;
    return 2 + 2 * (sim->profile.nodes - 1) * rests;
}

bool
lines_passed(struct sim *sim, uint64_t first)
{
    unsigned worst = 1000, sum = 0, plans = 0, many = 0;
    bool settles = true;
    for (uint64_t k = 0; k < SLOW_RUNS; k++) {
        uint64_t all_us = first_done_us(sim, first + k, SIM_SLOW_EVEN, &many);
        uint64_t alone_us = all_us ? first_done_us(sim, first + k, SIM_SLOW_ALONE, &many) : 0;
        uint64_t mesh_us = alone_us ? first_done_us(sim, first + k, SIM_SLOW_LINES, &many) : 0;
        if (mesh_us == 0)
            return false;
        uint64_t better_us = all_us < alone_us ? all_us : alone_us;
        unsigned share = (unsigned)(100 * better_us / mesh_us);
        worst = share < worst ? share : worst;
        plans = many > plans ? many : plans;
        settles = settles && many <= plans_most(sim, mesh_us);
        sum += share;
    }
    bool good = sum >= LINES_SHARE * SLOW_RUNS && worst >= LINES_LEAST && settles;
    printf(
        "slow lines: %d runs, the mesh has %u %% of the speed of the better of all and one alone, "
        "%u %% at least, with %u plans of a node at most%s\n",
        SLOW_RUNS, sum / SLOW_RUNS, worst, plans, good ? "" : "  TOO LITTLE");
    return good;
}

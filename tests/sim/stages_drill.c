/* stages_drill.c - one member of a pipeline is lost at one of its pieces: each member, at each of its pieces, with each
 * schedule, for two stages of two members and for four of one. How long until the others commit the next round? */
#include <stdlib.h>

#include "tests/sim/run.h"
#include "tests/sim/stages.h"

enum {
    NODES = 4,
    SHARDS = 4,
    ROUNDS = 24,
    ROUND_LEAST = 8, /* all are in one plan by then */
    VECTOR = 40,
    SHARD_US = 1200,
    MOST_US = 1000000,
    TIMES_MAX = 4096,
};

void
stages_drill_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    quiet_profile(p, VECTOR);
    p->nodes = p->peers_min = NODES;
    p->shards = SHARDS;
    p->rounds = ROUNDS;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        p->compute_us[i] = SHARD_US;
    stages_even(p, sim->lost.stages, sim->lost.rule);
    p->faults_end_us = sim->now + 1;
    sim->drill_at_us = 0;
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

void
stages_drill_piece(struct sim *sim, const struct sim_node *node, unsigned count, uint64_t end_us)
{
    bool now = sim->lost.stages && node->index == sim->lost.node && count == sim->lost.piece;
    struct core_stats stats;
    core_stats(node->core, &stats);
    if (!now || sim->drill_at_us || node->round < ROUND_LEAST || stats.members < NODES)
        return;
    sim->drill_at_us = sim->now;
    sim_push(sim, sim->now + (end_us - sim->now) / 2, SIM_FAULT, 0, sim->drill_kind, 0, NULL);
    sim_push(sim, end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL); /* the deadline begins */
}

struct times {
    unsigned runs;
    size_t count;
    uint64_t us[TIMES_MAX];
};

/* Loses the node at its pieces, from the first to the last one. False: something was wrong. */
static bool
lose_at_each(struct sim *sim, uint64_t seed, struct times *times)
{
    for (sim->lost.piece = 1;; sim->lost.piece++) {
        if (!sim_run(sim, seed, sim->planted)) {
            run_failure(sim);
            printf("    in a drill: %u stages, schedule %u, %s at piece %u of node %u\n",
                   sim->lost.stages, sim->lost.rule, fault_name(sim->drill_kind), sim->lost.piece,
                   sim->lost.node);
            return false;
        }
        if (!sim->drill_at_us)
            return true; /* it has no more pieces */
        times->runs++;
        uint64_t step_us = fault_drill_step_us(sim, sim->lost.node);
        for (unsigned i = 0; i < NODES; i++) {
            uint64_t us = sim->nodes[i].recovered_us;
            if (i != sim->lost.node && us != SIM_WATCHES && times->count < TIMES_MAX)
                times->us[times->count++] = us > step_us ? us - step_us : us ? 0 : UINT64_MAX;
        }
    }
}

static bool
lose_each(struct sim *sim, uint64_t seed, struct times *times)
{
    static const enum sim_fault kinds[] = {SIM_CRASH, SIM_CRASH_SILENT, SIM_PAUSE};
    bool good = true;
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds && good; k++)
        for (unsigned rule = 0; rule <= SCHEDULE_ZB && good; rule++)
            for (unsigned node = 0; node < NODES && good; node++) {
                sim->drill_kind = kinds[k];
                sim->lost.rule = (enum schedule_rule)rule;
                sim->lost.node = node;
                good = lose_at_each(sim, seed + node, times);
            }
    return good;
}

static int
by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

bool
stages_passed(struct sim *sim, uint64_t first)
{
    static struct times times;
    times.runs = 0;
    times.count = 0;
    bool good = true;
    for (unsigned stages = 2; stages <= NODES && good; stages += 2) {
        sim->lost.stages = stages;
        good = lose_each(sim, first, &times);
    }
    sim->lost.stages = 0;
    if (!good || times.count == 0)
        return false;
    qsort(times.us, times.count, sizeof *times.us, by_size);
    uint64_t most_us = times.us[times.count - 1];
    printf("drill stage: 2x2 and 4x1, each member lost at each of its pieces: %u runs, the others "
           "commit after, beside one round's work: median %.0f ms, most %.0f ms%s\n",
           times.runs, (double)times.us[times.count / 2] / 1e3, (double)most_us / 1e3,
           most_us <= MOST_US ? "" : "  TOO LONG");
    return most_us <= MOST_US;
}

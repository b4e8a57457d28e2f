/* staleness.c - how old are the values that gradients come from, when each node needs a fixed time for a ticket?
 *
 *     sim --staleness 60000,97000,151000 [--seeds 8]      three nodes, the time of a ticket of each in us
 *
 * Nothing fails, and nobody waits (async). It prints the histogram as meshnode verify --replay does for real nodes, so
 * that one can be compared with the other (tests/process/test_staleness.sh). The times should not be multiples of one
 * another: then all phases between the nodes come up, and not only those that they began with. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/push.h"
#include "tests/sim/run.h"

enum { SEEDS = 8, VECTOR = 60, DELAY_US = 200, TAU_MOST = 64 };

static struct {
    uint64_t count[TAU_MOST + 1], all, sum;
} found;

void
staleness_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    quiet_profile(p, VECTOR);
    p->nodes = sim->fixed.nodes;
    p->peers_min = p->nodes;
    p->delay_us = DELAY_US;
    p->jitter_us = DELAY_US;
    memcpy(p->compute_us, sim->fixed.us, sizeof p->compute_us);
    p->faults_end_us = sim->now + 1;
    sim_push(sim, p->faults_end_us, SIM_FAULTS_OVER, 0, 0, 0, NULL);
}

/* Of what is in the model. */
static void
add(const struct sim_push *push)
{
    for (size_t k = 0; k < push->records; k++) {
        const struct sim_push_record *r = &push->record[k];
        if (!r->final || r->restored)
            continue;
        found.count[r->taken.tau < TAU_MOST ? r->taken.tau : TAU_MOST]++;
        found.sum += r->taken.tau;
        found.all++;
    }
}

static void
print(void)
{
    printf("staleness in updates: of %" PRIu64 " gradients, %.2f on average\n", found.all,
           (double)found.sum / (double)found.all);
    for (unsigned tau = 0; tau <= TAU_MOST; tau++)
        if (found.count[tau])
            printf("%4u%c %11" PRIu64 " %7.2f %%\n", tau, tau == TAU_MOST ? '+' : ' ',
                   found.count[tau], 100 * (double)found.count[tau] / (double)found.all);
}

static bool
read_times(struct sim *sim, const char *text)
{
    while (sim->fixed.nodes < SIM_NODES_MAX) {
        char *end;
        uint64_t us = strtoull(text, &end, 10);
        if (us < 1 || us > 10000000 || (*end && *end != ','))
            return false;
        sim->fixed.us[sim->fixed.nodes++] = us;
        if (!*end)
            return true;
        text = end + 1;
    }
    return false;
}

int
run_staleness(struct sim *sim, const struct sim_options *options)
{
    if (!read_times(sim, options->staleness)) {
        fprintf(stderr, "sim: --staleness %s, expected 1 to %d times in us, with commas\n",
                options->staleness, SIM_NODES_MAX);
        return 2;
    }
    sim_engine(sim, "push");
    uint64_t seeds = options->seeds ? options->seeds : SEEDS;
    for (uint64_t k = 0; k < seeds; k++) {
        if (!sim_run(sim, options->first + k, 0)) {
            run_failure(sim);
            return 1;
        }
        add(sim_push_run);
    }
    print();
    return 0;
}

/* plants.c - bugs planted on purpose, and within how many schedules they are found. */
#include <inttypes.h>

#include "mesh/mutant.h"
#include "tests/sim/run.h"

/* Bugs that cost only time: the drill must notice them. */
static const struct {
    const char *name;
    uint32_t bits;
    size_t drill; /* in drills */
} delays[] = {{"silent peers are never suspected", MUTANT_SILENCE, 1},
              {"no plan is held for a joiner", MUTANT_HOLD, 3}};

static int
run_delays(struct sim *sim, const struct sim_options *options)
{
    int missed = 0;
    for (size_t m = 0; m < sizeof delays / sizeof *delays; m++) {
        sim->mutant = delays[m].bits;
        bool found = !drill_passed(sim, options->first, delays[m].drill);
        printf("mutant %5" PRIu32 " %s by the drill: %s\n", delays[m].bits,
               found ? "found" : "NOT FOUND", delays[m].name);
        missed += !found;
    }
    return missed == 0 ? 0 : 1;
}

/* Planted bugs and the number of schedules within which they are found. */
static const struct {
    const char *name;
    uint32_t bits;
    uint64_t budget;
} plants[] = {
    {"sums are taken with any coverage, and a shard is given twice", MUTANT_COVERAGE | MUTANT_TWICE,
     100},
    {"chunks of any plan are taken, with any coverage", MUTANT_FENCE | MUTANT_COVERAGE, 5000},
    {"chunks of any plan are taken", MUTANT_FENCE, 8000},
    {"checksums are not compared", MUTANT_CHECK, 2000},
    {"a state is announced one round too high", MUTANT_STATE, 100},
    {"no progress deadline", MUTANT_PROGRESS, 2000},
    {"buffers are rewritten while being sent", MUTANT_SENT, 200},
    {"shards that were taken away stay in the contribution", MUTANT_FRESH, 2000},
    {"finished nodes do not serve their state", MUTANT_DONE, 2000},
    {"a part of the sum is rewritten while the trainer reads it", MUTANT_LENT, 4000},
};

int
run_plants(struct sim *sim, const struct sim_options *options)
{
    int missed = 0;
    for (size_t m = 0; m < sizeof plants / sizeof *plants; m++) {
        uint64_t k = 0;
        while (k < plants[m].budget && sim_run(sim, options->first + k, plants[m].bits))
            k++;
        bool found = k < plants[m].budget;
        printf("mutant %5" PRIu32 " %-8s %6" PRIu64 " of %" PRIu64 ": %s%s%s\n", plants[m].bits,
               found ? "found at" : "NOT FOUND", found ? k + 1 : k, plants[m].budget,
               plants[m].name, found ? " -> " : "", found ? sim->failure : "");
        missed += !found;
    }
    return missed == 0 ? run_delays(sim, options) : 1;
}

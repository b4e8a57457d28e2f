/* main.c - run schedules, find planted bugs, repeat one seed.
 *
 *     sim [--seconds S | --seeds N | --events N] [--first SEED]   until one of them is reached
 *     sim --seed X [--mutant M] [--verbose]                       one schedule, twice: same trace?
 *     sim --drill                                                 how long until the survivors go on
 *     sim --mutants                                               planted bugs must be found in time
 *     sim --scenario FILE|all [--seed X] [--verbose]              a file of configs/chaos-*.yaml
 *     sim --print FILE [--seed X]                                 a scenario's plain lines, see scenario.h
 *
 * Without options: schedules for 14 s, then the scenarios, the drill and the planted bugs.
 *
 * A failure prints the one line that repeats it. Exit status 1 when something was wrong. */
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mesh/mutant.h"
#include "tests/sim/sim.h"
#include "tests/support/scenario.h"

struct options {
    double seconds;
    uint64_t seeds, events, first, seed;
    uint32_t mutant;
    const char *print, *scenario;
    bool one, mutants, drill, verbose;
};

static double
seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
report_failure(const struct sim *sim)
{
    printf("FAILED: %s (%u nodes, at %.3f ms)\n    sim --seed %" PRIu64 " --mutant %" PRIu32
           " --verbose    trace %016" PRIx64 "\n",
           sim->failure, sim->profile.nodes, (double)sim->now / 1000, sim->seed, sim->mutant,
           sim->trace);
}

static const struct sim *running;

/* An assertion of the core failed: name the schedule, then let the abort go on. */
static void
on_abort(int signal_number)
{
    (void)signal_number;
    report_failure(running);
}

static bool
same_again(struct sim *sim)
{
    uint64_t trace = sim->trace, seed = sim->seed;
    bool verbose = sim->verbose;
    sim->verbose = false;
    sim_run(sim, seed, sim->mutant);
    sim->verbose = verbose;
    if (sim->trace == trace)
        return true;
    printf("FAILED: seed %" PRIu64 " took another course the second time\n", seed);
    return false;
}

static int
run_one(struct sim *sim, const struct options *options)
{
    sim->verbose = options->verbose;
    sim->drill = options->drill; /* with SIM_CRASH */
    bool good = sim_run(sim, options->seed, options->mutant);
    if (!good)
        report_failure(sim);
    else
        printf("seed %" PRIu64 " passed: %u nodes, %" PRIu64 " events, trace %016" PRIx64 "\n",
               options->seed, sim->profile.nodes, sim->counts.events, sim->trace);
    return good && same_again(sim) ? 0 : 1;
}

static void
report(const struct sim *sim, double seconds, uint64_t repeated)
{
    const struct sim_counts *c = &sim->counts;
    printf("sim: %" PRIu64 " schedules, %" PRIu64 " events, %" PRIu64 " commits, %" PRIu64
           " states fetched, %" PRIu64 " plans, %" PRIu64 " aborts\n",
           c->schedules, c->events, c->commits, c->adoptions, c->plans, c->aborts);
    printf("sim: %.0f schedules/s, %.2f M events/s, %.0f times real time; %" PRIu64
           " repeated, same course\nsim: faults:",
           (double)c->schedules / seconds, (double)c->events / seconds / 1e6,
           (double)c->virtual_us / 1e6 / seconds, repeated);
    for (int k = 0; k < SIM_FAULTS; k++)
        printf(" %s %" PRIu64, fault_name((enum sim_fault)k), c->faults[k]);
    printf("\n");
}

static int
run_many(struct sim *sim, const struct options *options)
{
    double begin = seconds_now();
    unsigned failures = 0;
    uint64_t repeated = 0;
    for (uint64_t k = 0; failures < 5; k++) {
        bool enough = (options->seeds && k >= options->seeds) ||
                      (options->events && sim->counts.events >= options->events) ||
                      (options->seconds > 0 && seconds_now() - begin >= options->seconds);
        if (enough)
            break;
        if (!sim_run(sim, options->first + k, options->mutant)) {
            report_failure(sim);
            failures++;
        }
        if (k % 64 == 0) {
            repeated++;
            failures += !same_again(sim);
        }
    }
    report(sim, seconds_now() - begin, repeated);
    return failures == 0 ? 0 : 1;
}

enum { DRILL_RUNS = 1000, DRILL_TIMES_MAX = DRILL_RUNS * SIM_NODES_MAX };

static int
by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The survivors' times from the fault to their next commit, without one round's work; -1 on failure. */
static int
drill_times(struct sim *sim, uint64_t first, uint64_t *times)
{
    int count = 0;
    for (uint64_t k = 0; k < DRILL_RUNS; k++) {
        if (!sim_run(sim, first + k, sim->mutant)) {
            report_failure(sim);
            return -1;
        }
        uint64_t step_us = fault_drill_step_us(sim);
        for (unsigned i = 0; i < sim->profile.nodes; i++) {
            uint64_t us = sim->nodes[i].recovered_us;
            if (us > 0 && sim->nodes[i].paused_until == 0)
                times[count++] = us > step_us ? us - step_us : 0;
        }
    }
    return count;
}

static const struct drill {
    enum sim_fault kind;
    uint64_t p99_us, most_us; /* may take so long */
} drills[] = {
    {SIM_CRASH, 150000, 1000000},
    {SIM_CRASH_SILENT, 500000, 1000000},
    {SIM_PAUSE, 500000, 1000000},
    {SIM_RESTART, 300000, 1000000}}; /* here: somebody comes late and computes with the others */

static bool
drill_good(struct sim *sim, uint64_t first, const struct drill *drill)
{
    static uint64_t times[DRILL_TIMES_MAX];
    sim->drill = true;
    sim->drill_kind = drill->kind;
    int count = drill_times(sim, first, times);
    sim->drill = false;
    if (count < 0)
        return false;
    if (count == 0)
        times[count++] = UINT64_MAX;
    qsort(times, (size_t)count, sizeof *times, by_size);
    uint64_t p99_us = times[count * 99 / 100], most_us = times[count - 1];
    bool good = count > DRILL_RUNS / 2 && p99_us <= drill->p99_us && most_us <= drill->most_us;
    printf(
        "drill %-7s %4d nodes commit after, beside one round's work: median %.0f ms, p99 %.0f ms, "
        "most %.0f ms%s\n",
        fault_name(drill->kind), count, (double)times[count / 2] / 1e3, (double)p99_us / 1e3,
        (double)most_us / 1e3, good ? "" : "  TOO LONG");
    return good;
}

static int
run_drill(struct sim *sim, const struct options *options)
{
    bool good = true;
    sim->mutant = options->mutant;
    for (size_t d = 0; d < sizeof drills / sizeof *drills; d++)
        good &= drill_good(sim, options->first, &drills[d]);
    return good ? 0 : 1;
}

/* Bugs that cost only time: the drill must notice them. */
static const struct {
    const char *name;
    uint32_t bits;
    size_t drill; /* in drills */
} delays[] = {{"silent peers are never suspected", MUTANT_SILENCE, 1},
              {"no plan is held for a joiner", MUTANT_HOLD, 3}};

static int
run_delays(struct sim *sim, const struct options *options)
{
    int missed = 0;
    for (size_t m = 0; m < sizeof delays / sizeof *delays; m++) {
        sim->mutant = delays[m].bits;
        bool found = !drill_good(sim, options->first, &drills[delays[m].drill]);
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
};

static int
run_mutants(struct sim *sim, const struct options *options)
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

/* One file; 2 when it is none. */
static int
play_file(struct sim *sim, const char *path, uint64_t seed)
{
    char why[512];
    struct scenario *scenario;
    if (scenario_load(&scenario, path, seed, why, sizeof why)) {
        fprintf(stderr, "sim: %s\n", why);
        return 2;
    }
    sim->play.scenario = scenario;
    bool good = sim_run(sim, scenario->seed, sim->mutant);
    const struct sim_play *play = &sim->play;
    printf("%s: %u rounds in %.1f s, longest wait for a round %.0f ms, for one plan after the last "
           "of some faults %.0f ms\n",
           path, sim->profile.rounds, (double)(sim->now - play->met_us) / 1e6,
           (double)play->worst_gap_us / 1e3, (double)play->worst_join_us / 1e3);
    if (!good)
        printf("FAILED: %s (at %.3f s)\n    sim --scenario %s --seed %" PRIu64 " --verbose\n",
               sim->failure, (double)(sim->now - play->met_us) / 1e6, path, scenario->seed);
    good = good && same_again(sim);
    sim->play.scenario = NULL;
    scenario_destroy(&scenario);
    return good ? 0 : 1;
}

/* All files of configs/. */
static int
play_files(struct sim *sim, uint64_t seed)
{
    glob_t files = {0};
    int rc = 0;
    if (glob("configs/chaos-*.yaml", 0, NULL, &files) != 0) {
        fprintf(stderr, "sim: no configs/chaos-*.yaml here\n");
        rc = 2;
    }
    for (size_t k = 0; rc == 0 && k < files.gl_pathc; k++)
        rc = play_file(sim, files.gl_pathv[k], seed);
    globfree(&files);
    return rc;
}

static int
run_scenario(struct sim *sim, const struct options *options)
{
    sim->verbose = options->verbose;
    sim->mutant = options->mutant;
    if (strcmp(options->scenario, "all") == 0)
        return play_files(sim, options->seed);
    return play_file(sim, options->scenario, options->seed);
}

static int
run_print(const struct options *options)
{
    char why[512];
    struct scenario *scenario;
    if (scenario_load(&scenario, options->print, options->seed, why, sizeof why)) {
        fprintf(stderr, "sim: %s\n", why);
        return 2;
    }
    scenario_print(scenario, stdout);
    scenario_destroy(&scenario);
    return 0;
}

static bool
parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(arg, "--mutants") == 0) {
            options->mutants = true;
        } else if (strcmp(arg, "--drill") == 0) {
            options->drill = true;
        } else if (strcmp(arg, "--verbose") == 0) {
            options->verbose = true;
        } else if (!value) {
            return false;
        } else {
            i++;
            if (strcmp(arg, "--seconds") == 0)
                options->seconds = strtod(value, NULL);
            else if (strcmp(arg, "--seeds") == 0)
                options->seeds = strtoull(value, NULL, 10);
            else if (strcmp(arg, "--events") == 0)
                options->events = strtoull(value, NULL, 10);
            else if (strcmp(arg, "--first") == 0)
                options->first = strtoull(value, NULL, 10);
            else if (strcmp(arg, "--mutant") == 0)
                options->mutant = (uint32_t)strtoul(value, NULL, 0);
            else if (strcmp(arg, "--scenario") == 0)
                options->scenario = value;
            else if (strcmp(arg, "--print") == 0)
                options->print = value;
            else if (strcmp(arg, "--seed") == 0) {
                options->seed = strtoull(value, NULL, 10);
                options->one = true;
            } else
                return false;
        }
    }
    return true;
}

int
main(int argc, char **argv)
{
    struct options options = {.first = 1};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse(&options, argc, argv)) {
        fprintf(stderr, "usage: sim [--seconds S] [--seeds N] [--events N] [--first SEED] "
                        "[--seed X] [--mutant BITS] [--mutants] [--drill] [--verbose] "
                        "[--scenario FILE] [--print FILE]\n");
        return 2;
    }
    if (options.print)
        return run_print(&options);
    bool all = argc == 1;
    if (!options.seconds && !options.seeds && !options.events)
        options.seconds = 14;
    struct sim *sim = sim_new();
    running = sim;
    signal(SIGABRT, on_abort);
    int rc = options.scenario  ? run_scenario(sim, &options)
             : options.one     ? run_one(sim, &options)
             : options.drill   ? run_drill(sim, &options)
             : options.mutants ? run_mutants(sim, &options)
                               : run_many(sim, &options);
    if (all)
        rc |= play_files(sim, 0) | run_drill(sim, &options) | run_mutants(sim, &options);
    sim_destroy(&sim);
    return rc;
}

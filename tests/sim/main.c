/* main.c - run schedules, find planted bugs, repeat one seed.
 *
 *     sim [--seconds S | --seeds N | --events N] [--first SEED] [--jobs J]   until one of them is reached
 *     sim --seed X [--mutant NAME,...] [--verbose]                one schedule, twice: same trace?
 *     sim --drill                                                 how long until the survivors go on
 *     sim --mutants [--fresh]                                     planted bugs must be found in time; --fresh: by no
 *                                                                 stored seed
 *     sim --scenario FILE|all [--seed X] [--verbose]              a file of configs/chaos-*.yaml
 *     sim --engine NAME ...                                       what the nodes do together, see engine.h; rounds if
 *                                                                 nothing is said
 *     sim --followers-flip ...      a bit of a state may flip in a node that follows others and does not hear all of
 *                                   them, too. Until it is told of another state, it may go on from it alone
 *     sim --many-flips ...          schedules of flipped bits alone, with eight times as many
 *     sim --staged ...              schedules with a model in stages alone, otherwise a third of those of rounds
 *     sim --coded ...               in all schedules sums are long until a codec begins; in some of them one node alone
 *                                   is said to be the fastest then
 *     sim --print FILE [--seed X]                                 a scenario's plain lines, see scenario.h
 *
 * Without options: some schedules, then the scenarios, the drills and the planted bugs; then schedules of many flips,
 * in followers, too; then some schedules of each other engine, and its planted bugs. The schedules are others each day:
 * the first line says which, and DAY=N in the environment plays those of day N since 1970 again.
 *
 * A failure prints the one line that repeats it. Exit status 1 when something was wrong. */
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/engine.h"
#include "tests/sim/run.h"
#include "tests/support/mutant.h"
#include "tests/support/scenario.h"

void
run_failure(const struct sim *sim)
{
    const char *many = sim->many_flips ? " --many-flips" : "";
    const char *followers = sim->followers_flip ? " --followers-flip" : "";
    const char *staged = sim->staged ? " --staged" : sim->coded ? " --coded" : "";
    printf("FAILED: %s (%u nodes, at %.3f ms)\n    sim --engine %s --seed %" PRIu64 " --mutant ",
           sim->failure, sim->profile.nodes, (double)sim->now / 1000, sim->engine->name, sim->seed);
    mutants_print(stdout, sim->planted);
    printf("%s%s%s --verbose    trace %016" PRIx64 "\n", many, followers, staged, sim->trace);
}

enum {
    SMOKE_SEEDS = 2000,
    SMOKE_SEEDS_OTHERS = 1000,
    SMOKE_SEEDS_FLIPS = 1500,
    SMOKE_SEEDS_CODED = 500,
    DAY_SEEDS = 100000
};

static const struct sim *running;

/* An assertion of the core failed: name the schedule, then let the abort go on. */
static void
on_abort(int signal_number)
{
    (void)signal_number;
    run_failure(running);
}

bool
run_again(struct sim *sim)
{
    struct sim_counts counts = sim->counts; /* once is enough */
    uint64_t trace = sim->trace, seed = sim->seed;
    bool verbose = sim->verbose;
    sim->verbose = false;
    sim_run(sim, seed, sim->planted);
    sim->verbose = verbose;
    sim->counts = counts;
    if (sim->trace == trace)
        return true;
    printf("FAILED: seed %" PRIu64 " took another course the second time\n", seed);
    return false;
}

static int
run_one(struct sim *sim, const struct sim_options *options)
{
    sim->verbose = options->verbose;
    sim->drill = options->drill; /* with SIM_CRASH */
    bool good = sim_run(sim, options->seed, options->planted);
    if (!good)
        run_failure(sim);
    else
        printf("seed %" PRIu64 " passed: %u nodes, %" PRIu64 " events, trace %016" PRIx64 "\n",
               options->seed, sim->profile.nodes, sim->counts.events, sim->trace);
    return good && run_again(sim) ? 0 : 1;
}

static void
play_failure(const struct sim *sim, const char *path, double played_s)
{
    printf("%s %s: %s (at %.3f s)\n    sim --scenario %s --seed %" PRIu64 " --mutant ",
           sim->planted ? "    in" : "FAILED in", path, sim->failure, played_s, path, sim->seed);
    mutants_print(stdout, sim->planted);
    puts(" --verbose");
}

int
play_file(struct sim *sim, const char *path, uint64_t seed)
{
    struct why why;
    struct scenario *scenario;
    const struct sim_engine *engine = sim->engine;
    if (scenario_load(&scenario, path, seed, &why)) {
        fprintf(stderr, "sim: %s\n", why.line);
        return 2;
    }
    sim->play.scenario = scenario;
    if (scenario->way)
        sim_engine(sim, "gossip");
    bool good = sim_run(sim, scenario->seed, sim->planted);
    const struct sim_play *play = &sim->play;
    double played_s = (double)(sim->now - play->met_us) / 1e6;
    if (good)
        printf("%s: %u rounds in %.1f s, longest wait for a round %.0f ms, for one plan after the "
               "last of some faults %.0f ms\n",
               path, sim->profile.rounds, played_s, (double)play->worst_gap_us / 1e3,
               (double)play->worst_join_us / 1e3);
    else
        play_failure(sim, path, played_s);
    good = good && run_again(sim);
    if (sim->engine != engine && sim->engine->end)
        sim->engine->end(sim);
    sim->engine = engine;
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
run_scenario(struct sim *sim, const struct sim_options *options)
{
    sim->verbose = options->verbose;
    sim->planted = options->planted;
    if (strcmp(options->scenario, "all") == 0)
        return play_files(sim, options->seed);
    return play_file(sim, options->scenario, options->seed);
}

static int
run_print(const struct sim_options *options)
{
    struct why why;
    struct scenario *scenario;
    if (scenario_load(&scenario, options->print, options->seed, &why)) {
        fprintf(stderr, "sim: %s\n", why.line);
        return 2;
    }
    scenario_print(scenario, stdout);
    scenario_destroy(&scenario);
    return 0;
}

static bool
parse(struct sim_options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(arg, "--mutants") == 0) {
            options->mutants = true;
        } else if (strcmp(arg, "--fresh") == 0) {
            options->fresh = true;
        } else if (strcmp(arg, "--drill") == 0) {
            options->drill = true;
        } else if (strcmp(arg, "--verbose") == 0) {
            options->verbose = true;
        } else if (strcmp(arg, "--followers-flip") == 0) {
            options->followers_flip = true;
        } else if (strcmp(arg, "--many-flips") == 0) {
            options->many_flips = true;
        } else if (strcmp(arg, "--staged") == 0) {
            options->staged = true;
        } else if (strcmp(arg, "--coded") == 0) {
            options->coded = true;
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
            else if (strcmp(arg, "--engine") == 0)
                options->engine = value;
            else if (strcmp(arg, "--scenario") == 0)
                options->scenario = value;
            else if (strcmp(arg, "--jobs") == 0)
                options->jobs = (unsigned)strtoul(value, NULL, 10);
            else if (strcmp(arg, "--print") == 0)
                options->print = value;
            else if (strcmp(arg, "--seed") == 0) {
                options->seed = strtoull(value, NULL, 10);
                options->one = true;
            } else if (strcmp(arg, "--mutant") != 0 || !mutants_read(value, &options->planted))
                return false;
        }
    }
    return options->jobs >= 1 && options->jobs <= 64;
}

/* An engine that is not there, and those that are. */
static void
tell_engines(const char *name)
{
    fprintf(stderr, "sim: --engine %s, expected", name);
    for (size_t k = 0; sim_engine_name(k); k++)
        fprintf(stderr, "%s %s",
                k == 0                   ? ""
                : sim_engine_name(k + 1) ? ","
                                         : " or",
                sim_engine_name(k));
    fputc('\n', stderr);
}

/* Schedules of long rows in which a fault was found. They are what they were until a change draws other numbers. */
static const struct found {
    const char *engine;
    uint64_t seed;
} founds[] = {
    {"rounds", 5100074351}, {"gossip", 2000539},   {"gossip", 2001539},  {"gossip", 2022723},
    {"gossip", 2032494},    {"gossip", 2038439},   {"gossip", 2133698},  {"rounds", 6608945},
    {"rounds", 6765671},    {"inexact", 3011131},  {"gossip", 514341},   {"rounds", 118233},
    {"rounds", 100537},     {"rounds", 113221},    {"gossip", 70014803}, {"rounds", 7798},
    {"rounds", 60133097},   {"rounds", 60230521},  {"rounds", 60267505}, {"rounds", 60341269},
    {"rounds", 60413685},   {"rounds", 320039182}, {"rounds", 61854},    {"rounds", 924},
    {"rounds", 26838},      {"rounds", 1112},      {"rounds", 91018833}, {"rounds", 92013436},
    {"rounds", 97015145},   {"rounds", 500068827},
};

/* Of the engine rounds, with --staged. */
static const uint64_t staged_founds[] = {
    700224143,  700043989,  700111394,  700136375,  700170597,  930000892,  940001966,  1000107181,
    1100111630, 1200591267, 1200500932, 1200668798, 1300413946, 1300660194, 1500000185, 1900103835,
    2000199547, 2000528554, 2100181026, 2300446093, 2400025727, 2500546131, 2700951135, 2800012846,
    2900377122, 2900398883, 3000517715, 3000729545, 3000741570};

/* With --coded. */
static const uint64_t coded_founds[] = {6300027474, 6300035753, 6300042769, 89100012269};

/* With --many-flips --followers-flip. */
static const uint64_t flips_founds[] = {2078600443, 300006245, 2078700414, 7740000833};

static int
run_found(struct sim *sim, uint64_t seed)
{
    if (sim_run(sim, seed, 0))
        return 0;
    run_failure(sim);
    return 1;
}

static int
run_founds(struct sim *sim, const char *name)
{
    int rc = 0;
    for (size_t k = 0; k < sizeof founds / sizeof *founds; k++)
        rc |= strcmp(founds[k].engine, name) == 0 ? run_found(sim, founds[k].seed) : 0;
    return rc;
}

static int
run_staged_founds(struct sim *sim)
{
    int rc = 0;
    sim->staged = true;
    for (size_t k = 0; k < sizeof staged_founds / sizeof *staged_founds; k++)
        rc |= run_found(sim, staged_founds[k]);
    sim->staged = false;
    return rc;
}

/* Fresh schedules of the day, and a rare planted bug in some. */
static int
run_day(struct sim *sim, struct sim_options options)
{
    options.first = options.day * DAY_SEEDS;
    return run_many(sim, &options) |
           (sim->many_flips || sim->coded ? 0 : run_plant_of_day(sim, &options));
}

static int
run_engine(const char *name, struct sim_options options)
{
    struct sim *sim = sim_new();
    running = sim;
    sim_engine(sim, name);
    options.seeds = SMOKE_SEEDS_OTHERS;
    int rc = run_day(sim, options) | run_founds(sim, name) | run_plants(sim, &options);
    sim_destroy(&sim);
    return rc;
}

/* Among so many some go on from a wrong state alone, and others take a copy of it. */
static int
run_flips(struct sim_options options)
{
    struct sim *sim = sim_new();
    running = sim;
    sim->many_flips = sim->followers_flip = true;
    options.seeds = SMOKE_SEEDS_FLIPS;
    int rc = run_day(sim, options);
    for (size_t k = 0; k < sizeof flips_founds / sizeof *flips_founds; k++)
        rc |= run_found(sim, flips_founds[k]);
    sim_destroy(&sim);
    return rc;
}

/* Who is left out before a codec begins computes by itself. */
static int
run_coded(struct sim_options options)
{
    struct sim *sim = sim_new();
    running = sim;
    sim->coded = true;
    options.seeds = SMOKE_SEEDS_CODED;
    int rc = run_day(sim, options);
    for (size_t k = 0; k < sizeof coded_founds / sizeof *coded_founds; k++)
        rc |= run_found(sim, coded_founds[k]);
    sim_destroy(&sim);
    return rc;
}

static uint64_t
day_now(void)
{
    const char *text = getenv("DAY");
    uint64_t day = text && *text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) / 86400;
    printf("sim: fresh schedules of day %" PRIu64 ", from seed %" PRIu64 " on; again: DAY=%" PRIu64
           " sim\n",
           day, day * DAY_SEEDS, day);
    return day;
}

int
main(int argc, char **argv)
{
    struct sim_options options = {.first = 1, .jobs = 1};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse(&options, argc, argv)) {
        fprintf(stderr,
                "usage: sim [--seconds S] [--seeds N] [--events N] [--first SEED] [--jobs J] "
                "[--seed X] [--mutant NAME,...] [--mutants] [--fresh] [--drill] "
                "[--verbose] "
                "[--scenario FILE] [--print FILE] [--engine NAME] "
                "[--followers-flip] "
                "[--many-flips] [--staged] [--coded]\n");
        return 2;
    }
    if (options.print)
        return run_print(&options);
    bool all = argc == 1;
    options.day = all ? day_now() : 0;
    if (!options.seconds && !options.seeds && !options.events)
        options.seeds = SMOKE_SEEDS;
    struct sim *sim = sim_new();
    running = sim;
    sim->followers_flip = options.followers_flip;
    sim->many_flips = options.many_flips;
    sim->staged = options.staged;
    sim->coded = options.coded;
    if (options.engine && !sim_engine(sim, options.engine)) {
        tell_engines(options.engine);
        sim_destroy(&sim);
        return 2;
    }
    signal(SIGABRT, on_abort);
    int rc = options.scenario  ? run_scenario(sim, &options)
             : options.one     ? run_one(sim, &options)
             : options.drill   ? run_drill(sim, &options)
             : options.mutants ? run_plants(sim, &options)
             : all             ? run_day(sim, options)
                               : run_many(sim, &options);
    if (all)
        rc |= play_files(sim, 0) | run_drill(sim, &options) | run_plants(sim, &options) |
              run_founds(sim, sim_engine_name(0)) | run_staged_founds(sim);
    sim_destroy(&sim);
    rc |= all ? run_flips(options) | run_coded(options) : 0;
    for (size_t k = 1; all && sim_engine_name(k); k++)
        rc |= run_engine(sim_engine_name(k), options);
    return rc;
}

/* plants.c - bugs planted on purpose: each must be found, within a budget.
 *
 * A bug that can only be seen in a sum or a state is looked for in random schedules; one that costs time
 * by the drills and by the scenario made for it. Where two nets stand one behind the other, one
 * alone may be missing: they are planted in a pair.
 *
 *     fence of chunks, also of those that wait    coverage
 *     coverage, also direct, also of shard 0      a plan gives each shard once (covers in plan.c)
 *     round of chunks that wait                   hash of the state that they were computed from
 *     round of a total                            hash of the state that it is for
 *     round of an offer                           votes count for later rounds only (fetch_copy.c)
 *
 * For the last two tests/unit/test_fetch.c shows that nothing comes of the first net's hole. No schedule finds
 * MUTANT_UNTOLD, which costs only time: tests/unit/test_divergence.c shows that the table of past states is behind it.
 * What comes of the following is so rare, or is so well mended by others, that one schedule in many thousands would
 * show it. Unit tests plant them:
 *
 *     MUTANT_DIRECT_AGAIN, MUTANT_DRAIN_FENCE                       test_ring.c
 *     MUTANT_DEAD, MUTANT_STARVED, MUTANT_OFFER_VOTES               test_plan.c, test_fetch.c
 *     MUTANT_COPY_VOTES                                             test_divergence.c
 *     MUTANT_GOSSIP_STALE, GOSSIP_GHOST                             test_gossip_give.c
 *
 * test_coding.c shows that the checksum of a sum tells of bugs of coding.h, and test_feedback.c plants those of
 * residuals in the program's; here the simulated trainer has them. A total for who follows has a checksum of its bytes
 * alone: there a width too small makes a wrong sum.
 *
 * The budgets are some ten times what was needed when they were set, but no more than the 4,000 schedules of
 * make check where that is enough. A rare one has a seed that shows it, which takes no time. Each day one of them is
 * looked for in fresh schedules, too, and each night all plants are (--mutants --fresh). */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/engine.h"
#include "tests/sim/run.h"
#include "tests/support/mutant.h"

enum { FRESH_MAX = 100000 };

static const struct plant {
    uint64_t planted;
    uint64_t budget; /* schedules; 0: a drill or a scenario finds it */
    size_t drill;    /* which, without a budget and a scenario */
    const char
        *scenario; /* without a budget: its file; with one: options for the schedules, or NULL */
    uint64_t
        seed; /* of a rare one: a schedule that shows it, until a change draws other numbers; 0: none is known */
} plants[] = {
    {MUTANTS(MUTANT_COVERAGE, MUTANT_TWICE), .budget = 100},
    {MUTANTS(MUTANT_FENCE, MUTANT_COVERAGE), .budget = 15000, .seed = 4009},
    {MUTANT_RANGE, .budget = 15000, .seed = 1427},
    {MUTANT_CHECK, .budget = 2000},
    {MUTANT_STATE, .budget = 100},
    {MUTANT_BLOCK, .budget = 2000, .seed = 135},
    {MUTANT_TOTAL, .budget = 200},
    {MUTANT_PROGRESS, .budget = 2000},
    {MUTANT_SENT, .budget = 200},
    {MUTANT_FRESH, .budget = 2000, .seed = 726},
    {MUTANT_DONE, .budget = 2000},
    {MUTANT_LENT, .budget = 15000, .seed = 166},
    {MUTANT_LINK, .budget = 15000, .seed = 378},
    {MUTANT_ODD, .budget = 400},
    {MUTANT_PLAN_ROUND, .budget = 4000, .seed = 956},
    {MUTANT_FORGET, .budget = 4000},
    {MUTANT_TORN, .budget = 8000, .seed = 4582},
    {MUTANTS(MUTANT_DIRECT, MUTANT_TWICE), .budget = 100},
    {MUTANTS(MUTANT_ZERO, MUTANT_TWICE), .budget = 100},
    {MUTANTS(MUTANT_DRAIN_ROUND, MUTANT_ODD), .budget = 4000},
    {MUTANTS(MUTANT_FOLLOW_ROUND, MUTANT_FOLLOW_STATE), .budget = 4000, .seed = 230},
    {MUTANT_UNNOTICED, .budget = 100},
    {MUTANT_STAR_EARLY, .budget = 100},
    {MUTANTS(MUTANT_STAR_AGAIN, MUTANT_COVERAGE), .budget = 4000, .seed = 710},
    {MUTANT_STAR_OWN, .budget = 400},
    {MUTANT_STAR_OWNER, .budget = 1000, .seed = 537},
    {MUTANT_PAGE_ROUND, .budget = 4000, .seed = 174},
    {MUTANT_PAGE_NUMBER, .budget = 4000, .seed = 821},
    {MUTANT_PAGE_ASKED, .budget = 4000},
    {MUTANT_PAGE_TO, .budget = 4000},
    {MUTANT_PAGE_NONE, .budget = 4000},
    {MUTANT_TOTAL_SIZE, .budget = 1000, .scenario = "--many-flips", .seed = 1042},
    {MUTANT_FOLLOW_STATE, .budget = 1000, .scenario = "--many-flips --followers-flip"},
    {MUTANT_PIN, .budget = 400},
    {MUTANT_PIN_STAGE, .budget = 1000, .seed = 166},
    {MUTANT_ITEM_ROUND, .budget = 4000},
    {MUTANT_ITEM_EARLY, .budget = 400},
    {MUTANT_STAGE_EARLY, .budget = 400},
    {MUTANT_STAGE_KEEPS, .budget = 20000, .seed = 812},
    {MUTANT_MIRROR, .budget = 400},
    {MUTANT_SPAN, .budget = 1000},
    {MUTANT_GROWN, .budget = 4000, .seed = 644},
    {MUTANT_LOST, .budget = 2000, .scenario = "--staged", .seed = 177},
    {MUTANT_ENDS, .budget = 8000, .scenario = "--staged", .seed = 5453},
    {MUTANT_SILENCE, .drill = DRILL_SILENT},
    {MUTANT_HOLD, .drill = DRILL_RESTART},
    {MUTANT_STUCK, .drill = DRILL_HANG},
    {MUTANT_PACE, .drill = DRILL_SLOW},
    {MUTANT_PAST, .drill = DRILL_ALONE},
    {MUTANT_LATE, .drill = DRILL_LATE},
    {MUTANT_HALF, .drill = DRILL_LATE},
    {MUTANT_WAIT, .budget = 2000},
    {MUTANT_HEARING, .scenario = "configs/chaos-oneway.yaml"},
    {MUTANT_CLIQUE, .scenario = "configs/chaos-oneway.yaml"},
    {MUTANT_INCARNATION, .scenario = "configs/chaos-kill.yaml"},
    {MUTANT_GHOST, .scenario = "configs/chaos-return.yaml"},
    /* Of what sums are written with, and of what is computed. */
    {MUTANT_CODING_WIDTH, .budget = 100},
    {MUTANTS(MUTANT_CODING_WIDTH, MUTANT_CHECK), .budget = 100},
    {MUTANT_CODING_TWICE, .budget = 1000},
    {MUTANTS(MUTANT_CODING_TWICE, MUTANT_CHECK), .budget = 100},
    {MUTANT_CODING_RESIDUAL, .budget = 8000, .seed = 590},
    {MUTANT_CODING_KEPT, .budget = 400},
};

/* With sums that depend on how the shards were divided. */
static const struct plant plants_inexact[] = {
    {MUTANTS(MUTANT_COVERAGE, MUTANT_TWICE), .budget = 100},
    {MUTANTS(MUTANT_DRAIN_ROUND, MUTANT_ODD), .budget = 4000},
    {MUTANT_PLAN_ROUND, .budget = 4000, .seed = 1400},
    {MUTANT_TOTAL, .budget = 400},
    {MUTANTS(MUTANT_FOLLOW_ROUND, MUTANT_FOLLOW_STATE), .budget = 4000},
    {MUTANT_TORN, .budget = 4000, .seed = 242},
};

static const struct plant plants_gossip[] = {
    {MUTANT_GOSSIP_ONE_END, .budget = 100},
    {MUTANT_GOSSIP_TWICE, .budget = 1000},
    {MUTANT_GOSSIP_AGAIN, .budget = 4000, .seed = 409},
    {MUTANT_GOSSIP_DEGREE, .budget = 4000},
    {MUTANT_GOSSIP_VOID, .budget = 4000},
    {MUTANT_GOSSIP_PHASE, .budget = 100},
    {MUTANT_GOSSIP_QUIET, .budget = 4000},
    {MUTANT_GOSSIP_WEIGHT, .budget = 400},
    {MUTANT_GOSSIP_MEAN, .budget = 4000},
    {MUTANT_GOSSIP_CHECK, .budget = 4000, .seed = 135},
    {MUTANT_GOSSIP_REST, .budget = 100},
    {MUTANT_GOSSIP_PATIENCE, .budget = 100},
    {MUTANT_GOSSIP_EMPTY, .budget = 4000},
    {MUTANT_GOSSIP_DEAF, .budget = 100},
    {MUTANT_GOSSIP_COUNT, .budget = 100},
    {MUTANT_GOSSIP_LEAVES, .budget = 1000},
    {MUTANT_GOSSIP_COPY, .budget = 400},
};

static const struct list {
    const char *engine;
    const struct plant *plant;
    size_t count;
} lists[] = {
    {"rounds", plants, sizeof plants / sizeof *plants},
    {"inexact", plants_inexact, sizeof plants_inexact / sizeof *plants_inexact},
    {"gossip", plants_gossip, sizeof plants_gossip / sizeof *plants_gossip},
};

static void
tell(const struct plant *plant)
{
    mutants_print(stdout, plant->planted);
    for (uint64_t left = plant->planted; left != 0; left >>= 8)
        printf("%s%s", left == plant->planted ? ": " : ", and ", mutant_text(left & 0xff));
    fputs(": ", stdout);
}

/* A rare one is looked for by the schedule that is known to show it; `fresh`: by none, and as long as it takes. */
static bool
found_by_seeds(struct sim *sim, uint64_t first, const struct plant *plant, bool fresh)
{
    uint64_t k = 0, budget = fresh ? FRESH_MAX : plant->budget;
    sim->many_flips = plant->scenario && strstr(plant->scenario, "--many-flips");
    sim->staged = plant->scenario && strstr(plant->scenario, "--staged");
    sim->followers_flip = plant->scenario && strstr(plant->scenario, "--followers-flip");
    bool known = plant->seed != 0 && !fresh && !sim_run(sim, plant->seed, plant->planted);
    while (!known && k < budget && sim_run(sim, first + k, plant->planted))
        k++;
    bool found = known || k < budget;
    sim->many_flips = sim->followers_flip = sim->staged = false;
    tell(plant);
    printf("%s %6" PRIu64 " of %" PRIu64 "%s%s%s\n",
           known   ? "found by seed"
           : found ? "found at"
                   : "NOT FOUND",
           known   ? plant->seed
           : found ? k + 1
                   : k,
           budget, fresh ? " fresh ones" : "", found ? " -> " : "", found ? sim->failure : "");
    return found;
}

static bool
found_by_time(struct sim *sim, uint64_t first, const struct plant *plant)
{
    const char *by = plant->scenario ? plant->scenario : "the drill";
    sim->planted = plant->planted;
    bool found = plant->scenario ? play_file(sim, plant->scenario, 0) == 1
                                 : !drill_passed(sim, first, plant->drill);
    sim->planted = MUTANT_NONE;
    tell(plant);
    printf("%s by %s\n", found ? "found" : "NOT FOUND", by);
    return found;
}

static bool
found_in_any_way(struct sim *sim, const struct sim_options *options, const struct plant *plant)
{
    return plant->budget ? found_by_seeds(sim, options->first, plant, options->fresh)
                         : found_by_time(sim, options->first, plant);
}

static const struct list *
list_of(const struct sim *sim)
{
    size_t l = 0;
    while (strcmp(lists[l].engine, sim->engine->name) != 0)
        l++;
    return &lists[l];
}

int
run_plants(struct sim *sim, const struct sim_options *options)
{
    const struct list *list = list_of(sim);
    unsigned missed = 0;
    for (size_t m = 0; m < list->count; m++)
        missed += !found_in_any_way(sim, options, &list->plant[m]);
    return missed == 0 ? 0 : 1;
}

/* The one of an engine's rare plants whose turn it is. */
int
run_plant_of_day(struct sim *sim, const struct sim_options *options)
{
    const struct list *list = list_of(sim);
    size_t at = 0, rare = 0;
    for (size_t m = 0; m < list->count; m++)
        rare += list->plant[m].seed != 0;
    for (size_t turn = options->day % rare; list->plant[at].seed == 0 || turn-- > 0;)
        at++;
    return found_by_seeds(sim, options->first, &list->plant[at], true) ? 0 : 1;
}

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
 * What comes of the following is so rare, or is so well mended by others, that one schedule in many thousands would show it.
 * Unit tests plant them:
 *
 *     MUTANT_DIRECT_AGAIN, MUTANT_DRAIN_FENCE                       test_ring.c
 *     MUTANT_DEAD, MUTANT_STARVED, MUTANT_OFFER_VOTES               test_plan.c, test_fetch.c
 *     MUTANT_COPY_VOTES                                             test_divergence.c
 *     MUTANT_PUSH_DIFFER, PUSH_FORGOT, PUSH_NEWER, PUSH_KEEP,
 *     PUSH_HASTY                                                    test_push_parts.c
 *     MUTANT_GOSSIP_STALE, GOSSIP_GHOST                             test_gossip_give.c
 *
 * Bugs of compress/ and of residuals have a word of their own (compress/mutant.h). test_coding.c shows that the checksum of a sum
 * tells of those of coding.h, and test_feedback.c plants those of residuals in the program's; here the simulated trainer has them.
 * A total for who follows has a checksum of its bytes alone: there a width too small makes a wrong sum.
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
    const char *name;
    uint64_t bits;
    uint64_t budget; /* schedules; 0: a drill or a scenario finds it */
    size_t drill;
    const char *scenario; /* NULL: the drill; with a budget: NULL, or options for the schedules */
    uint64_t
        seed; /* of a rare one: a schedule that shows it, until a change draws other numbers; 0: none is known */
} plants[] = {
    {"sums are taken with any coverage, and a shard is given twice", MUTANT_COVERAGE | MUTANT_TWICE,
     100, 0, NULL, 0},
    {"chunks of any plan are taken, with any coverage", MUTANT_FENCE | MUTANT_COVERAGE, 15000, 0,
     NULL, 4009},
    {"a chunk may begin and end anywhere in its bucket", MUTANT_RANGE, 15000, 0, NULL, 1427},
    {"checksums are not compared", MUTANT_CHECK, 2000, 0, NULL, 0},
    {"a state is announced one round too high", MUTANT_STATE, 100, 0, NULL, 0},
    {"blocks of a state are not compared with their hashes", MUTANT_BLOCK, 2000, 0, NULL, 135},
    {"who follows is given the total of the round before", MUTANT_TOTAL, 200, 0, NULL, 0},
    {"no progress deadline", MUTANT_PROGRESS, 2000, 0, NULL, 0},
    {"buffers are rewritten while being sent", MUTANT_SENT, 200, 0, NULL, 0},
    {"shards that were taken away stay in the contribution", MUTANT_FRESH, 2000, 0, NULL, 726},
    {"finished nodes do not serve their state", MUTANT_DONE, 2000, 0, NULL, 0},
    {"a part of the sum is rewritten while the trainer reads it", MUTANT_LENT, 15000, 0, NULL, 166},
    {"any HELLO of a node makes a session of our link", MUTANT_LINK, 15000, 0, NULL, 378},
    {"states are not compared", MUTANT_ODD, 400, 0, NULL, 0},
    {"a plan of the round before is obeyed", MUTANT_PLAN_ROUND, 4000, 0, NULL, 956},
    {"the session of a silent peer is never closed", MUTANT_FORGET, 4000, 0, NULL, 0},
    {"a copy goes on after the state has changed", MUTANT_TORN, 8000, 0, NULL, 4582},
    {"a shard is given twice, which direct sums do not notice", MUTANT_DIRECT | MUTANT_TWICE, 100,
     0, NULL, 0},
    {"a shard is given twice, and it is 0, which coverage ignores", MUTANT_ZERO | MUTANT_TWICE, 100,
     0, NULL, 0},
    {"chunks that wait are taken of any round, from any state", MUTANT_DRAIN_ROUND | MUTANT_ODD,
     4000, 0, NULL, 0},
    {"a follower applies the total of the round before, to any state",
     MUTANT_FOLLOW_ROUND | MUTANT_FOLLOW_STATE, 4000, 0, NULL, 230},
    {"a leader does not notice that a member is lost", MUTANT_UNNOTICED, 100, 0, NULL, 0},
    {"a server sends a total without the last contribution", MUTANT_STAR_EARLY, 100, 0, NULL, 0},
    {"a server adds a contribution as often as it comes, with any coverage",
     MUTANT_STAR_AGAIN | MUTANT_COVERAGE, 4000, 0, NULL, 710},
    {"a server adds its own contribution again", MUTANT_STAR_OWN, 400, 0, NULL, 0},
    {"who serves a range is not compared", MUTANT_STAR_OWNER, 1000, 0, NULL, 537},
    {"a page of another round is accepted", MUTANT_PAGE_ROUND, 4000, 0, NULL, 174},
    {"a page of another number is accepted", MUTANT_PAGE_NUMBER, 4000, 0, NULL, 821},
    {"a peer that was asked for a page and died is never given up", MUTANT_PAGE_ASKED, 4000, 0,
     NULL, 0},
    {"a page goes to another node than the one that asked", MUTANT_PAGE_TO, 4000, 0, NULL, 0},
    {"nobody has a page when the first one has it not", MUTANT_PAGE_NONE, 4000, 0, NULL, 0},
    {"a total of another size does not tell its state", MUTANT_TOTAL_SIZE, 1000, 0, "--many-flips",
     117},
    {"a follower applies totals to any state", MUTANT_FOLLOW_STATE, 1000, 0,
     "--many-flips --followers-flip", 0},
    {"shards change hands where they must not", MUTANT_PIN, 400, 0, NULL, 0},
    {"stages change hands where they must not", MUTANT_PIN_STAGE, 1000, 0, NULL, 166},
    {"an item of another round is taken", MUTANT_ITEM_ROUND, 4000, 0, NULL, 0},
    {"an item is sent before it is made", MUTANT_ITEM_EARLY, 400, 0, NULL, 0},
    {"the sum of a stage is ready one piece too early", MUTANT_STAGE_EARLY, 400, 0, NULL, 0},
    {"shards that a sibling has now are added twice", MUTANT_STAGE_KEEPS, 20000, 0, NULL, 812},
    {"who only holds a segment applies the total before", MUTANT_MIRROR, 400, 0, NULL, 0},
    {"a copy of a segment lies a word too early", MUTANT_SPAN, 1000, 0, NULL, 0},
    {"more segments are taken of a state of any round", MUTANT_GROWN, 4000, 0, NULL, 644},
    {"what nobody holds is never chosen while somebody trains", MUTANT_LOST, 2000, 0, "--staged",
     177},
    {"who is done does not stay for a part that was lost", MUTANT_ENDS, 8000, 0, "--staged", 5453},
    {"silent peers are never suspected", MUTANT_SILENCE, 0, 1, NULL, 0},
    {"no plan is held for a joiner", MUTANT_HOLD, 0, 3, NULL, 0},
    {"a hung trainer is given shards again and again", MUTANT_STUCK, 0, 4, NULL, 0},
    {"a slow member is never left out", MUTANT_PACE, 0, 6, NULL, 0},
    {"states of rounds long ago are not compared", MUTANT_PAST, 0, 7, NULL, 0},
    {"deadlines are not stretched when the node itself is late", MUTANT_LATE, 0, 8, NULL, 0},
    {"most of the mesh is suspected as quickly as one node", MUTANT_HALF, 0, 8, NULL, 0},
    {"a held plan waits for a joiner as long as it takes", MUTANT_WAIT, 2000, 0, NULL, 0},
    {"peers that do not hear us count as usable", MUTANT_HEARING, 0, 0, "configs/chaos-oneway.yaml",
     0},
    {"members need not hear one another", MUTANT_CLIQUE, 0, 0, "configs/chaos-oneway.yaml", 0},
    {"a restarted node continues the session of its former self", MUTANT_INCARNATION, 0, 0,
     "configs/chaos-kill.yaml", 0},
    {"a node whose port another one has got is not forgotten", MUTANT_GHOST, 0, 0,
     "configs/chaos-return.yaml", 0},
};

/* Of what sums are written with, and of what is computed: bits of compress/mutant.h. */
static const struct {
    struct plant plant;
    uint64_t bits;
} plants_coding[] = {
    {{"a packed group has a bit less than its widest element", 0, 100, 0, NULL, 0},
     CODING_MUTANT_WIDTH},
    {{"the same, and checksums are not compared", MUTANT_CHECK, 100, 0, NULL, 0},
     CODING_MUTANT_WIDTH},
    {{"a packed body is added twice", 0, 1000, 0, NULL, 0}, CODING_MUTANT_TWICE},
    {{"the same, and checksums are not compared", MUTANT_CHECK, 100, 0, NULL, 0},
     CODING_MUTANT_TWICE},
    {{"a round done again uses the residuals that it left", 0, 8000, 0, NULL, 590},
     CODING_MUTANT_RESIDUAL},
    {{"the residuals of the round before are used", 0, 400, 0, NULL, 0}, CODING_MUTANT_KEPT},
};

/* With sums that depend on how the shards were divided. */
static const struct plant plants_inexact[] = {
    {"sums are taken with any coverage, and a shard is given twice", MUTANT_COVERAGE | MUTANT_TWICE,
     100, 0, NULL, 0},
    {"chunks that wait are taken of any round, from any state", MUTANT_DRAIN_ROUND | MUTANT_ODD,
     4000, 0, NULL, 0},
    {"a plan of the round before is obeyed", MUTANT_PLAN_ROUND, 4000, 0, NULL, 1400},
    {"who follows is given the total of the round before", MUTANT_TOTAL, 400, 0, NULL, 0},
    {"a follower applies the total of the round before, to any state",
     MUTANT_FOLLOW_ROUND | MUTANT_FOLLOW_STATE, 4000, 0, NULL, 0},
    {"a copy goes on after the state has changed", MUTANT_TORN, 4000, 0, NULL, 242},
};

static const struct plant plants_gossip[] = {
    {"the giver of a flow does not take it away", MUTANT_GOSSIP_ONE_END, 100, 0, NULL, 0},
    {"a taker does not compare numbers of flows", MUTANT_GOSSIP_TWICE, 1000, 0, NULL, 0},
    {"a giver gives again what was not taken yet", MUTANT_GOSSIP_AGAIN, 4000, 0, NULL, 409},
    {"the weight of an edge is by the degree of one end", MUTANT_GOSSIP_DEGREE, 4000, 0, NULL, 0},
    {"what was given and is asked for again is said to be void", MUTANT_GOSSIP_VOID, 4000, 0, NULL,
     0},
    {"an ASK of any phase is answered at once", MUTANT_GOSSIP_PHASE, 100, 0, NULL, 0},
    {"a node is quiet with flows under way to it", MUTANT_GOSSIP_QUIET, 4000, 0, NULL, 0},
    {"who joins push-sum begins with weight 1", MUTANT_GOSSIP_WEIGHT, 400, 0, NULL, 0},
    {"a mean goes on after the plan has changed", MUTANT_GOSSIP_MEAN, 4000, 0, NULL, 0},
    {"checksums of flows are not compared", MUTANT_GOSSIP_CHECK, 4000, 0, NULL, 135},
    {"a checkpoint does not wait for the others to rest", MUTANT_GOSSIP_REST, 100, 0, NULL, 0},
    {"who does not answer is waited for", MUTANT_GOSSIP_PATIENCE, 100, 0, NULL, 0},
    {"who joined with weight 0 goes on where nobody has a model", MUTANT_GOSSIP_EMPTY, 4000, 0,
     NULL, 0},
    {"the leader makes no checkpoint for who is told to end", MUTANT_GOSSIP_DEAF, 100, 0, NULL, 0},
    {"what a node has computed counts whenever it is told", MUTANT_GOSSIP_COUNT, 100, 0, NULL, 0},
    {"who is told to end while all save a snapshot ends at once", MUTANT_GOSSIP_LEAVES, 1000, 0,
     NULL, 0},
    {"changes are told and taken whichever copy they are to", MUTANT_GOSSIP_COPY, 400, 0, NULL, 0},
};

static const struct plant plants_push[] = {
    {"an owner applies a gradient before its backup has it", MUTANT_PUSH_BACKUP, 4000, 0, NULL, 0},
    {"a ticket is leased to several members", MUTANT_PUSH_LEASE, 4000, 0, NULL, 0},
    {"a range takes a ticket that it has taken", MUTANT_PUSH_TAKEN, 4000, 0, NULL, 0},
    {"a new owner begins with an older copy than there is", MUTANT_PUSH_BACK, 4000, 0, NULL, 0},
    {"the bound of ssp is one step too high", MUTANT_PUSH_BOUND, 4000, 0, NULL, 0},
    {"what was read before a ticket was leased counts as read for it", MUTANT_PUSH_EARLY, 4000, 0,
     NULL, 0},
    {"who hangs keeps its tickets", MUTANT_PUSH_HUNG, 4000, 0, NULL, 0},
    {"a checkpoint does not wait for the tickets before it", MUTANT_PUSH_SNAPSHOT, 100, 0, NULL, 0},
    {"the leader makes no checkpoint for who is told to end", MUTANT_PUSH_DEAF, 4000, 0, NULL, 161},
    {"who is told to end takes tickets after its checkpoint", MUTANT_PUSH_BUSY, 4000, 0, NULL, 0},
    {"an old copy of a range comes before newer values that were read", MUTANT_PUSH_STALE, 4000, 0,
     NULL, 1352},
    {"what a range had in the former group is not pushed again", MUTANT_PUSH_LOST, 100, 0, NULL, 0},
    {"who has its snapshot ends before the others have theirs", MUTANT_PUSH_ENDS, 1000, 0, NULL, 0},
    {"who leads and has the snapshot that others copy ends at once", MUTANT_PUSH_LEAVES, 15000, 0,
     NULL, 5953},
};

static const struct list {
    const char *engine;
    const struct plant *plant;
    size_t count;
} lists[] = {
    {"rounds", plants, sizeof plants / sizeof *plants},
    {"inexact", plants_inexact, sizeof plants_inexact / sizeof *plants_inexact},
    {"gossip", plants_gossip, sizeof plants_gossip / sizeof *plants_gossip},
    {"push", plants_push, sizeof plants_push / sizeof *plants_push},
};

/* A rare one is looked for by the schedule that is known to show it; `fresh`: by none, and as long as it takes. */
static bool
found_by_seeds(struct sim *sim, uint64_t first, const struct plant *plant, bool fresh)
{
    uint64_t k = 0, budget = fresh ? FRESH_MAX : plant->budget;
    sim->many_flips = plant->scenario && strstr(plant->scenario, "--many-flips");
    sim->staged = plant->scenario && strstr(plant->scenario, "--staged");
    sim->followers_flip = plant->scenario && strstr(plant->scenario, "--followers-flip");
    bool known = plant->seed != 0 && !fresh && !sim_run(sim, plant->seed, plant->bits);
    while (!known && k < budget && sim_run(sim, first + k, plant->bits))
        k++;
    bool found = known || k < budget;
    sim->many_flips = sim->followers_flip = sim->staged = false;
    printf("mutant %12" PRIx64 " %" PRIx64 " %-9s %6" PRIu64 " of %" PRIu64 "%s: %s%s%s\n",
           plant->bits, sim->coding_mutant,
           known   ? "found by seed"
           : found ? "found at"
                   : "NOT FOUND",
           known   ? plant->seed
           : found ? k + 1
                   : k,
           budget, fresh ? " fresh ones" : "", plant->name, found ? " -> " : "",
           found ? sim->failure : "");
    return found;
}

static bool
found_by_time(struct sim *sim, uint64_t first, const struct plant *plant)
{
    const char *by = plant->scenario ? plant->scenario : "the drill";
    sim->mutant = plant->bits;
    bool found = plant->scenario ? play_file(sim, plant->scenario, 0) == 1
                                 : !drill_passed(sim, first, plant->drill);
    sim->mutant = 0;
    printf("mutant %12" PRIx64 " 0 %s by %s: %s\n", plant->bits, found ? "found" : "NOT FOUND", by,
           plant->name);
    return found;
}

static bool
found_in_any_way(struct sim *sim, const struct sim_options *options, const struct plant *plant)
{
    return plant->budget ? found_by_seeds(sim, options->first, plant, options->fresh)
                         : found_by_time(sim, options->first, plant);
}

static unsigned
coding_missed(struct sim *sim, const struct sim_options *options)
{
    unsigned missed = 0;
    for (size_t m = 0; m < sizeof plants_coding / sizeof *plants_coding; m++) {
        sim->coding_mutant = plants_coding[m].bits;
        missed += !found_in_any_way(sim, options, &plants_coding[m].plant);
    }
    sim->coding_mutant = 0;
    return missed;
}

static const struct list *
list_of(const struct sim *sim)
{
    size_t l = 0;
    while (strcmp(lists[l].engine, sim->engine->name) != 0)
        l++;
    return &lists[l];
}

/* Those of compress/ come after the others. */
static const struct plant *
plant_of(const struct list *list, size_t m)
{
    return m < list->count ? &list->plant[m] : &plants_coding[m - list->count].plant;
}

int
run_plants(struct sim *sim, const struct sim_options *options)
{
    const struct list *list = list_of(sim);
    unsigned missed = list->plant == plants ? coding_missed(sim, options) : 0;
    for (size_t m = 0; m < list->count; m++)
        missed += !found_in_any_way(sim, options, &list->plant[m]);
    return missed == 0 ? 0 : 1;
}

/* The one of an engine's rare plants whose turn it is. */
int
run_plant_of_day(struct sim *sim, const struct sim_options *options)
{
    const struct list *list = list_of(sim);
    size_t coding = list->plant == plants ? sizeof plants_coding / sizeof *plants_coding : 0,
           all = list->count + coding, at = 0, rare = 0;
    for (size_t m = 0; m < all; m++)
        rare += plant_of(list, m)->seed != 0;
    for (size_t turn = options->day % rare; plant_of(list, at)->seed == 0 || turn-- > 0;)
        at++;
    sim->coding_mutant = at < list->count ? 0 : plants_coding[at - list->count].bits;
    bool found = found_by_seeds(sim, options->first, plant_of(list, at), true);
    sim->coding_mutant = 0;
    return found ? 0 : 1;
}

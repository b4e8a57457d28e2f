/* Events of a core: one at a time, and its invariants hold between two. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mesh/core/engine.h"
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

static struct core *core;
static bool committed;

static void
quiet(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static void
ask_stats(void *ctx, uint64_t round)
{
    struct core_stats stats;
    (void)ctx;
    core_stats(core, &stats);
    assert_int_equal(stats.round, round);
    committed = true;
}

static void
start_another_event(void *ctx, uint64_t round)
{
    (void)ctx;
    core_on_applied(core, 0, &(struct core_state){.round = round + 1, .hash = 1});
}

/* The last bucket is told later: a callback may not. */
static void
compute(void *ctx, const struct core_task *task)
{
    bool *asked = ctx;
    (void)task;
    *asked = true;
}

/* A node alone goes from its first state to its first commit. */
static void
commit_with(void (*commit)(void *ctx, uint64_t round))
{
    static const struct core_wire wire;
    static const struct core_program program = {.log = quiet};
    static const struct core_bucket bucket = {0, 8};
    int32_t own[8], sum[8];
    uint8_t state[16];
    bool asked = false;
    const struct core_trainer trainer = {.compute = compute, .commit = commit};
    const struct core_config config = {
        .wire = &wire,
        .program = &program,
        .trainer = &trainer,
        .trainer_ctx = &asked,
        .self = {1, 1},
        .hello = {.run = "core", .job_hash = 1, .control_port = 1, .bulk_port = 1},
        .shards = 2,
        .peers_min = 1,
        .bucket_count = 1,
        .buckets = &bucket,
        .own = own,
        .sum = sum,
        .state_size = sizeof state,
        .state_in = state,
    };
    assert_int_equal(core_new(&core, &config, 0), 0);
    core_on_applied(core, 0, &(struct core_state){.round = 0, .hash = 1});
    for (uint64_t now = 0; !asked && now < 60000000; now += CORE_TICK_US)
        core_on_tick(core, now);
    assert_true(asked);
    for (size_t e = 0; e < 8; e++)
        own[e] = 1;
    core_on_bucket(core, 60000000, 0);
    core_destroy(&core);
}

TEST(a_callback_may_ask_for_statistics)
{
    commit_with(ask_stats);
    assert_true(committed);
}

/* Does it abort? In a process of its own, without a word and without a core file. */
static bool
aborts(void (*what)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void
commit_badly(void)
{
    commit_with(start_another_event);
}

TEST(a_callback_that_starts_another_event_is_a_bug)
{
    assert_true(aborts(commit_badly));
}

static void
tick_rightly(void)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_run(lone, 100);
}

static void
tick_wrongly(void)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone->core->contribution.has = UINT64_MAX;
    lone_run(lone, 100);
}

TEST(a_test_ends_when_an_invariant_is_broken)
{
    assert_false(aborts(tick_rightly));
    assert_true(aborts(tick_wrongly));
}

/* At most a third of an equal share; a node alone is not slow. */
TEST(who_does_much_less_than_an_equal_share_is_slow)
{
    static const int peer[] = {4, -1, 2, 7};
    static const uint64_t work[][4] = {{24, 24, 4, 24}, {3, 3, 2, 4}, {5, 4, 0, 3}, {0, 0, 0, 0}};
    static const double share[] = {4.0 / 76, -1, 0, -1};
    for (unsigned k = 0; k < 4; k++) {
        struct core_stats stats = {.slow_share = -1};
        core_stats_slow(&stats, 4, peer, work[k]);
        assert_true(stats.slow_share == share[k]);
        assert_int_equal(stats.slow, share[k] < 0 ? 0 : 2);
        stats.slow_share = -1;
        core_stats_slow(&stats, 1, peer, work[k]);
        assert_true(stats.slow_share < 0);
    }
}

/* test_mesh.c - whole meshes over real sockets on loopback, several in one process.
 *
 * Each node has a trainer thread whose state is a hash chained over the sums of all rounds, so equal
 * hashes mean equal histories. Trainers note what goes wrong; the main thread waits for conditions, each
 * with a deadline, and asserts. A node that must die without a word lives in a forked process. */
#include "mesh/mesh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "proto/mix.h"
#include "tests/support/local_name.h"
#include "tests/support/test.h"

enum {
    NODES_MAX = 4,
    SHARDS = 12,
    DEADLINE_MS = 120000, /* far beyond what anything here takes: only a hang ends there */
    LOG_MAX = 8192,
    LAYOUT_MAX = 6,
};

#define VICTIM "--victim" /* LAYOUT GROUP: only one node, until it is killed */

/* Buckets of ragged sizes, some empty, some through the ring and some directly to everyone. */
struct layout {
    size_t count;
    uint64_t size[LAYOUT_MAX];
    uint32_t chunk;
    uint64_t direct;
};

static const struct layout ragged = {6, {1003, 0, 1, 5000, 0, 17}, 256, 1024};
static const struct layout large = {3, {600000, 300001, 5}, 0, 0};
static const struct layout tiny = {1, {1}, 0, 0};

static pthread_mutex_t world_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t world_changed = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t stop_round; /* the run is complete before this round */

/* One node: the setup of its mesh, its state, and what was noted about it. */
struct node {
    struct mesh *mesh;
    struct mesh_setup setup;
    const struct layout *layout;
    struct core_bucket buckets[LAYOUT_MAX];
    bool helper_computes; /* a second thread fills and tells buckets */
    pthread_t thread, helper;
    struct mesh_task task;
    _Atomic pid_t victim; /* to be killed when the first part of a sum of three comes */
    uint64_t summed;      /* buckets of the round that came before all of it, as a bitmap */
    int32_t shard_count, shard_sum; /* of the bitmap that is being summed */
    struct {                        /* the state that others may fetch */
        uint64_t round, hash;
    } state;
    /* under world_lock */
    uint64_t committed, adopted, wrong, finished, interrupts, early, redone, killed;
    char log[LOG_MAX];
    size_t log_size;
};

static struct node
    *prepared[NODES_MAX]; /* those of the case that runs, whose logs are shown after a hang */
static size_t prepared_count;

static uint64_t
any(void)
{
    uint64_t x = 0;
    while (x == 0)
        if (getrandom(&x, sizeof x, 0) != sizeof x)
            abort();
    return x;
}

static void
note(uint64_t *count)
{
    pthread_mutex_lock(&world_lock);
    ++*count;
    pthread_cond_broadcast(&world_changed);
    pthread_mutex_unlock(&world_lock);
}

static void
log_line(void *ctx, int level, const char *line)
{
    struct node *node = ctx;
    pthread_mutex_lock(&world_lock);
    int put =
        snprintf(node->log + node->log_size, LOG_MAX - node->log_size, "%d %s\n", level, line);
    if (put > 0 && node->log_size + (size_t)put < LOG_MAX)
        node->log_size += (size_t)put;
    pthread_cond_broadcast(&world_changed);
    pthread_mutex_unlock(&world_lock);
}

/* ---- a trainer ---- */

static size_t
first_bucket_of(const struct node *node, uint64_t round)
{
    return round % 4 == 3 ? node->layout->count - 1 : 0;
}

/* What shard `shard` adds to element i. */
static int32_t
gradient(uint64_t round, unsigned shard, uint64_t i)
{
    return (int32_t)(uint32_t)mix64_pair(round * 64 + shard, i) >> 8;
}

/* Its sum over the shards of `shards`. For large vectors shard s adds (i ^ round) % 65521 + s, which needs
 * no loop over shards at each element. */
static int32_t
gradients(const struct node *node, uint64_t round, uint64_t shards, uint64_t i)
{
    int32_t sum = 0;
    if (node->layout == &large)
        return (int32_t)((i ^ round) % 65521) * node->shard_count + node->shard_sum;
    for (unsigned s = 0; s < SHARDS; s++)
        if (shards >> s & 1)
            sum += gradient(round, s, i);
    return sum;
}

static void
count_shards(struct node *node, uint64_t shards)
{
    node->shard_count = node->shard_sum = 0;
    for (int32_t s = 0; s < SHARDS; s++)
        if (shards >> s & 1) {
            node->shard_count++;
            node->shard_sum += s;
        }
}

static void
fill_and_tell(struct node *node)
{
    const struct mesh_task *task = &node->task;
    int32_t *own = mesh_own(node->mesh);
    count_shards(node, task->shards);
    for (size_t b = first_bucket_of(node, task->round); b < node->layout->count; b++) {
        const struct core_bucket *bucket = &node->buckets[b];
        for (uint64_t i = bucket->first; i < bucket->first + bucket->count; i++)
            own[i] = (task->fresh ? 0 : own[i]) + gradients(node, task->round, task->shards, i);
        mesh_bucket(node->mesh, b);
    }
}

static void *
help(void *arg)
{
    fill_and_tell(arg);
    return NULL;
}

static void
compute(struct node *node)
{
    if (!node->helper_computes) {
        fill_and_tell(node);
        return;
    }
    if (pthread_create(&node->helper, NULL, help, node) != 0)
        abort();
}

static uint64_t
state_hash(const struct node *node)
{
    return mix64_pair(node->state.round, node->state.hash) | 1;
}

static void
tell_state(struct node *node)
{
    uint64_t round = node->state.round;
    mesh_state(node->mesh, &node->state,
               &(struct core_state){.round = round,
                                    .hash = state_hash(node),
                                    .first_bucket = first_bucket_of(node, round),
                                    .done = round >= atomic_load(&stop_round)});
}

static void
commit(struct node *node)
{
    const int32_t *sum = mesh_sum(node->mesh);
    uint64_t round = node->task.round, hash = mix64_pair(node->state.hash, round);
    size_t b = first_bucket_of(node, round);
    bool right = round == node->state.round;
    const uint64_t all = (UINT64_C(1) << SHARDS) - 1, end = node->setup.vector_count;
    count_shards(node, all);
    for (uint64_t i = node->buckets[b].first; i < end; i++) {
        right &= sum[i] == gradients(node, round, all, i);
        hash = mix64_pair(hash, (uint32_t)sum[i]);
    }
    node->state.round = round + 1;
    node->state.hash = hash;
    if (!right || (!node->task.fresh && !node->summed))
        note(&node->wrong);
    if (node->task.fresh && node->summed)
        note(&node->redone);
    node->summed = 0;
    note(&node->committed);
    tell_state(node);
}

/* Is this bucket of the sum that of the round? */
static bool
bucket_right(struct node *node, size_t b)
{
    const int32_t *sum = mesh_sum(node->mesh);
    const uint64_t all = (UINT64_C(1) << SHARDS) - 1;
    bool right = true;
    count_shards(node, all);
    for (uint64_t i = node->buckets[b].first; i < node->buckets[b].first + node->buckets[b].count;
         i++)
        right &= sum[i] == gradients(node, node->task.round, all, i);
    return right;
}

/* Each bucket once, the last one first; its sum is there before the others are. */
static void
summed(struct node *node)
{
    const struct mesh_task *task = &node->task;
    bool last = task->bucket + 1 == node->layout->count;
    if (task->fresh && node->summed)
        note(&node->redone);
    if (task->fresh)
        node->summed = 0;
    if (task->fresh != last || node->summed >> task->bucket & 1 ||
        task->round != node->state.round || !bucket_right(node, task->bucket))
        note(&node->wrong);
    node->summed |= UINT64_C(1) << task->bucket;
    note(&node->early);
    struct mesh_stats stats;
    mesh_stats(node->mesh, &stats);
    if (atomic_load(&node->victim) > 0 && stats.core.members == 3) {
        kill(node->victim, SIGKILL);
        note(&node->killed);
        atomic_store(&node->victim, 0);
    }
}

static void
adopt(struct node *node)
{
    uint64_t old_round = node->state.round, old_hash = node->state.hash;
    memcpy(&node->state, mesh_state_in(node->mesh), sizeof node->state);
    if (node->state.round != node->task.round || state_hash(node) != node->task.state_hash) {
        node->state.round = old_round;
        node->state.hash = old_hash;
        note(&node->wrong);
        mesh_damaged(node->mesh, CORE_COPY_DAMAGED);
        return;
    }
    node->summed = 0;
    note(&node->adopted);
    tell_state(node);
}

static void *
train(void *arg)
{
    struct node *node = arg;
    bool helping = false;
    struct mesh_task task;
    tell_state(node);
    for (;;) {
        mesh_next(node->mesh, &task);
        if (task.kind == MESH_IDLE)
            continue;
        if (helping &&
            task.kind != MESH_INTERRUPTED) { /* it has told its last bucket, or soon will */
            pthread_join(node->helper, NULL);
            helping = false;
        }
        node->task = task;
        switch (task.kind) {
        case MESH_COMPUTE:
            compute(node);
            helping = node->helper_computes;
            break;
        case MESH_SUMMED:
            summed(node);
            break;
        case MESH_COMMIT:
            commit(node);
            break;
        case MESH_ADOPT:
            adopt(node);
            break;
        case MESH_DONE:
            note(&node->finished);
            return NULL;
        case MESH_INTERRUPTED:
            if (helping)
                pthread_join(node->helper, NULL);
            note(&node->interrupts);
            return NULL;
        case MESH_PIECE:
        case MESH_PAGE:
        case MESH_AUDIT:
        case MESH_HOLD:
        case MESH_PART:
        case MESH_BACK:
        case MESH_IDLE:
            break;
        }
    }
}

/* ---- the world ---- */

static void
prepare(struct node *node, const struct layout *layout, const char *group)
{
    memset(node, 0, sizeof *node);
    node->layout = layout;
    if (*group && prepared_count < NODES_MAX)
        prepared[prepared_count++] = node;
    uint64_t first = 0;
    for (size_t b = 0; b < layout->count; b++) {
        node->buckets[b] = (struct core_bucket){first, layout->size[b]};
        first += layout->size[b];
    }
    node->setup = (struct mesh_setup){
        .hello = {.run = "test", .job_hash = 11, .numerics = 22, .kernel = "plain"},
        .group = group,
        .interface = "lo",
        .shards = SHARDS,
        .peers_min = 1,
        .keep_all = true, /* on a busy machine one of three would be left out, for being slow */
        .buckets = node->buckets,
        .bucket_count = layout->count,
        .vector_count = first,
        .state_size = sizeof node->state,
        .chunk_elems = layout->chunk,
        .direct_bytes = layout->direct,
        .program.log = log_line,
        .ctx = node,
    };
}

static int
open_node(struct node *node, struct why *why)
{
    int rc = mesh_new(&node->mesh, &node->setup, why);
    if (rc == 0 && pthread_create(&node->thread, NULL, train, node) != 0)
        abort();
    return rc;
}

static void
start(struct node *node)
{
    struct why why = {""};
    if (open_node(node, &why) != 0)
        fail_msg("mesh_new: %s", why.line);
}

static void
join_and_close(struct node *node)
{
    pthread_join(node->thread, NULL);
    mesh_destroy(&node->mesh);
    assert_null(node->mesh);
}

static void
new_group(char group[32])
{
    snprintf(group, 32, "test-%016jx", any());
    atomic_store(&stop_round, UINT64_MAX);
    prepared_count = 0;
}

static bool
members_are(struct node *nodes, size_t count, unsigned members)
{
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        struct mesh_stats stats;
        mesh_stats(nodes[i].mesh, &stats);
        all &= stats.core.members == members;
    }
    return all;
}

/* The waits below look at the world whenever a trainer noted something, and every 50 ms besides, since
 * what mesh_stats shows changes unseen. */
static void
pause_for_news(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&world_lock);
    pthread_cond_timedwait(&world_changed, &world_lock, &until);
    pthread_mutex_unlock(&world_lock);
}

static uint64_t
now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t
look(const uint64_t *count)
{
    pthread_mutex_lock(&world_lock);
    uint64_t value = *count;
    pthread_mutex_unlock(&world_lock);
    return value;
}

/* After a hang other cases would meet its threads, so the program ends there. */
static void
give_up(int line, const char *condition)
{
    print_error("test_mesh.c:%d: never within %d ms: %s\n", line, DEADLINE_MS, condition);
    for (size_t i = 0; i < prepared_count; i++)
        print_error("--- node %zu\n%s", i, prepared[i]->log);
    exit(1);
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        uint64_t end_ = now_ms() + DEADLINE_MS;                                                    \
        while (!(condition) && now_ms() < end_)                                                    \
            pause_for_news();                                                                      \
        if (!(condition))                                                                          \
            give_up(__LINE__, #condition);                                                         \
    } while (0)

static bool
log_has(struct node *node, const char *part)
{
    pthread_mutex_lock(&world_lock);
    bool has = strstr(node->log, part) != NULL;
    pthread_mutex_unlock(&world_lock);
    return has;
}

/* Let the runs end some rounds from now. Returns the round from which on a node ends. */
static uint64_t
finish(struct node *nodes, size_t count, uint64_t more)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < count; i++) {
        struct mesh_stats stats;
        mesh_stats(nodes[i].mesh, &stats);
        highest = stats.core.round > highest ? stats.core.round : highest;
    }
    atomic_store(&stop_round, highest + more);
    for (size_t i = 0; i < count; i++)
        WAIT_FOR(look(&nodes[i].finished) == 1);
    for (size_t i = 0; i < count; i++)
        join_and_close(&nodes[i]);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(nodes[i].wrong, 0);
    return highest + more;
}

/* All must end with the same history. */
static void
finish_together(struct node *nodes, size_t count, uint64_t more)
{
    uint64_t end = finish(nodes, count, more);
    for (size_t i = 0; i < count; i++) {
        assert_true(nodes[i].state.round >= end);
        assert_int_equal(nodes[i].state.round, nodes[0].state.round);
        assert_int_equal(nodes[i].state.hash, nodes[0].state.hash);
    }
}

/* The history that one node alone would have: what every run must end with. */
static uint64_t
history(const struct layout *layout, uint64_t rounds)
{
    struct node alone;
    uint64_t hash = 0;
    prepare(&alone, layout, "");
    count_shards(&alone, (UINT64_C(1) << SHARDS) - 1);
    for (uint64_t round = 0; round < rounds; round++) {
        hash = mix64_pair(hash, round);
        uint64_t i = alone.buckets[first_bucket_of(&alone, round)].first;
        for (; i < alone.setup.vector_count; i++)
            hash = mix64_pair(hash,
                              (uint32_t)gradients(&alone, round, (UINT64_C(1) << SHARDS) - 1, i));
    }
    return hash;
}

/* ---- cases ---- */

/* Of this program alone: what nodes of other tests, which end meanwhile, have still to send comes to ports that they
 * knew. */
static uint16_t
own_port(size_t node)
{
    enum { LATER = MESH_PORT_FIRST + 500, PROGRAMS = 60, PORTS = 2 * NODES_MAX };
    return (uint16_t)(LATER + (unsigned)getpid() % PROGRAMS * PORTS + 2 * node);
}

static void
run_of(size_t count, const struct layout *layout, uint64_t rounds, bool helpers)
{
    struct node nodes[NODES_MAX];
    char group[32];
    new_group(group);
    atomic_store(&stop_round, rounds);
    for (size_t i = 0; i < count; i++) {
        prepare(&nodes[i], layout, group);
        nodes[i].setup.peers_min = count;
        nodes[i].setup.port = own_port(i);
        nodes[i].helper_computes = helpers;
    }
    for (size_t i = 0; i < count; i++)
        start(&nodes[i]);
    for (size_t i = 0; i < count; i++)
        WAIT_FOR(look(&nodes[i].finished) == 1);
    uint64_t tx = 0, rx = 0;
    for (size_t i = 0; i < count; i++) {
        struct mesh_stats stats;
        mesh_stats(nodes[i].mesh, &stats);
        tx += stats.tx_bytes;
        rx += stats.rx_bytes;
        if (stats.bad)
            print_error("--- node %zu\n%s", i, nodes[i].log);
        assert_int_equal(stats.bad, 0);
    }
    assert_true(count == 1 || (rx > 0 && tx > 0)); /* alone, strangers may still have come by */
    for (size_t i = 0; i < count; i++)
        join_and_close(&nodes[i]);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(nodes[i].wrong, 0);
        assert_int_equal(nodes[i].state.round, rounds);
        assert_int_equal(nodes[i].state.hash, history(layout, rounds));
    }
}

TEST(one_node_sums_alone)
{
    run_of(1, &ragged, 50, false);
    run_of(1, &tiny, 50, true);
}

TEST(two_three_and_four_nodes_sum_ragged_vectors)
{
    run_of(2, &ragged, 40, false);
    run_of(3, &ragged, 40, false);
    run_of(4, &ragged, 40, false);
}

TEST(a_single_number_is_a_vector_too)
{
    run_of(3, &tiny, 100, false);
}

TEST(large_vectors_travel_in_default_chunks)
{
    run_of(2, &large, 4, false);
    run_of(3, &large, 3, false);
}

TEST(buckets_may_come_from_another_thread)
{
    run_of(2, &ragged, 40, true);
    run_of(3, &ragged, 40, true);
}

TEST(a_late_joiner_gets_the_state_and_a_share)
{
    struct node nodes[2];
    char group[32];
    new_group(group);
    prepare(&nodes[0], &ragged, group);
    prepare(&nodes[1], &ragged, group);
    nodes[1].setup.peers_min = 2; /* or it may train alone before the two have met */
    start(&nodes[0]);
    WAIT_FOR(look(&nodes[0].committed) >= 20);
    start(&nodes[1]);
    WAIT_FOR(members_are(nodes, 2, 2));
    uint64_t before = look(&nodes[1].committed);
    WAIT_FOR(look(&nodes[1].committed) >= before + 5);
    finish_together(nodes, 2, 10);
    assert_true(nodes[1].adopted >= 1);
    assert_true(nodes[1].committed <
                nodes[1].state.round); /* it did not start from the beginning */
}

TEST(a_node_that_leaves_is_not_missed)
{
    struct node nodes[3];
    char group[32];
    new_group(group);
    for (size_t i = 0; i < 3; i++)
        prepare(&nodes[i], &ragged, group);
    for (size_t i = 0; i < 3; i++)
        start(&nodes[i]);
    WAIT_FOR(members_are(nodes, 3, 3));
    mesh_interrupt(nodes[2].mesh);
    WAIT_FOR(look(&nodes[2].interrupts) == 1);
    join_and_close(&nodes[2]);
    assert_int_equal(nodes[2].wrong, 0);
    WAIT_FOR(members_are(nodes, 2, 2));
    uint64_t before = look(&nodes[0].committed);
    WAIT_FOR(look(&nodes[0].committed) >= before + 5);
    finish_together(nodes, 2, 10);
}

/* In a process of its own until it is killed. Says a byte on descriptor 1 for each committed round. */
static int
live_and_die(const struct layout *layout, const char *group)
{
    static struct node node;
    struct why why;
    uint64_t told = 0;
    atomic_store(&stop_round, UINT64_MAX);
    prepare(&node, layout, group);
    if (open_node(&node, &why) != 0) {
        print_error("the node to be killed: %s\n", why.line);
        return 1;
    }
    for (;;) {
        pause_for_news();
        for (uint64_t n = look(&node.committed); told < n; told++)
            if (write(1, ".", 1) != 1)
                return 1;
    }
}

static const char *program;

/* This program again: what other threads held when it was forked would be held for ever in a mere copy. */
static pid_t
start_victim(const char *layout, const char *group, int out)
{
    pid_t victim = fork();
    assert_true(victim >= 0);
    if (victim > 0)
        return victim;
    dup2(out, 1);
    const char *runner = getenv("RUNNER"); /* an emulator: see tests/run.sh */
    if (runner && *runner)
        execl(runner, runner, program, VICTIM, layout, group, (char *)NULL);
    else
        execl("/proc/self/exe", program, VICTIM, layout, group, (char *)NULL);
    _exit(127);
}

TEST(a_killed_node_is_replaced_within_a_second)
{
    struct node nodes[2];
    char group[32], byte;
    int to_us[2];
    new_group(group);
    assert_int_equal(pipe(to_us), 0);
    pid_t victim = start_victim("ragged", group, to_us[1]);
    close(to_us[1]);
    for (size_t i = 0; i < 2; i++)
        prepare(&nodes[i], &ragged, group);
    for (size_t i = 0; i < 2; i++)
        start(&nodes[i]);
    WAIT_FOR(members_are(nodes, 2, 3));
    struct pollfd wait_for = {to_us[0], POLLIN, 0};
    assert_int_equal(poll(&wait_for, 1, DEADLINE_MS), 1);
    assert_int_equal(read(to_us[0], &byte, 1), 1);
    kill(victim, SIGKILL);
    assert_int_equal(waitpid(victim, NULL, 0), victim);
    WAIT_FOR(members_are(nodes, 2, 2));
    uint64_t before = look(&nodes[0].committed);
    WAIT_FOR(look(&nodes[0].committed) >= before + 5);
    finish_together(nodes, 2, 10);
    close(to_us[0]);
}

static void
told_job(void *ctx, const char *theirs, size_t size, char *out, size_t out_size)
{
    (void)ctx;
    snprintf(out, out_size, "%.*s there, this one here", (int)size, theirs);
}

/* Two nodes that must not mix: each says so, with both values, and trains alone. */
static void
refuse_each_other(void (*differ)(struct mesh_setup *), const char *one, const char *other)
{
    struct node nodes[2];
    char group[32];
    new_group(group);
    for (size_t i = 0; i < 2; i++)
        prepare(&nodes[i], &tiny, group);
    for (size_t i = 0; i < 2; i++) {
        nodes[i].setup.job = "first";
        nodes[i].setup.program.differ = told_job;
    }
    differ(&nodes[1].setup);
    for (size_t i = 0; i < 2; i++)
        start(&nodes[i]);
    for (size_t i = 0; i < 2; i++)
        WAIT_FOR(log_has(&nodes[i], "Each trains its own") && log_has(&nodes[i], one) &&
                 log_has(&nodes[i], other));
    assert_true(members_are(nodes, 2, 1) || !members_are(nodes, 2, 2));
    finish(nodes, 2, 0); /* each runs by itself, and ends where it is */
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(nodes[i].adopted, 0);
}

static void
other_run(struct mesh_setup *setup)
{
    snprintf(setup->hello.run, sizeof setup->hello.run, "other");
}

static void
other_job(struct mesh_setup *setup)
{
    setup->job = "other";
    setup->hello.job_hash = 12;
}

static void
other_numerics(struct mesh_setup *setup)
{
    setup->hello.numerics = 23;
    snprintf(setup->hello.kernel, sizeof setup->hello.kernel, "fancy");
}

TEST(runs_jobs_and_numerics_do_not_mix)
{
    refuse_each_other(other_run, "'other'", "'test'");
    refuse_each_other(other_job, "another job", "there, this one");
    refuse_each_other(other_numerics, "plain", "fancy");
}

TEST(a_taken_port_is_named)
{
    char number[16];
    struct why why = {""};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_size), 0);
    snprintf(number, sizeof number, "%u", ntohs(at.sin_port));
    struct node node;
    prepare(&node, &tiny, "");
    node.setup.port = ntohs(at.sin_port);
    assert_int_equal(mesh_new(&node.mesh, &node.setup, &why), -EADDRINUSE);
    assert_null(node.mesh);
    assert_non_null(strstr(why.line, number));
    close(fd);
}

TEST(an_unusable_interface_is_named)
{
    struct why why = {""};
    struct node node;
    prepare(&node, &tiny, "");
    node.setup.interface = "nosuch0";
    assert_int_equal(mesh_new(&node.mesh, &node.setup, &why), -ENODEV);
    assert_null(node.mesh);
    assert_non_null(strstr(why.line, "nosuch0"));
    assert_non_null(strstr(why.line, "lo 127.0.0.1")); /* and so are those there are */
}

/* ---- strangers ---- */

static int
tcp_to(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void
say(uint16_t port, const void *data, size_t size)
{
    int fd = tcp_to(port);
    assert_true(fd >= 0);
    ssize_t rc = send(fd, data, size, MSG_NOSIGNAL); /* may be cut off: that is what it is for */
    (void)rc;
    close(fd);
}

/* The start of a ZMTP 3 connection, then a frame that announces 2^62 bytes. */
static void
announce_much(uint16_t port)
{
    uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    const uint8_t ready[] = "\4\x19\5READY\vSocket-Type\0\0\0\4PUSH";
    const uint8_t huge[] = {2, 0x40, 0, 0, 0, 0, 0, 0, 0, 'x'};
    uint8_t all[sizeof greeting + sizeof ready - 1 + sizeof huge];
    memcpy(all, greeting, sizeof greeting);
    memcpy(all + sizeof greeting, ready, sizeof ready - 1);
    memcpy(all + sizeof greeting + sizeof ready - 1, huge, sizeof huge);
    say(port, all, sizeof all);
}

static void
send_frames(void *socket, size_t count, const void *data, size_t size)
{
    for (size_t i = 0; i < count; i++)
        zmq_send(socket, data, size, ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0));
}

/* Well-formed ZeroMQ with contents that nobody understands. */
static void
talk_nonsense(void *context, int type, uint16_t port)
{
    char endpoint[64];
    uint8_t junk[300], id[21] = {1};
    memset(junk, 0xc1, sizeof junk);
    memset(id + 1, 0x77, sizeof id - 1);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", port);
    const size_t id_sizes[] = {0, 5, 17, 21};
    for (size_t k = 0; k < 4; k++) {
        void *socket = zmq_socket(context, type);
        int linger = 2000;
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
        if (id_sizes[k])
            zmq_setsockopt(socket, ZMQ_ROUTING_ID, id, id_sizes[k]);
        assert_int_equal(zmq_connect(socket, endpoint), 0);
        for (size_t frames = 1; frames < 6; frames++)
            for (size_t size = 0; size < sizeof junk; size += 43)
                send_frames(socket, frames, junk, size);
        uint8_t nearly[64] = {1}; /* a routing id, then junk where a bulk header would be */
        memset(nearly + 1, 0x77, 16);
        send_frames(socket, 2, nearly, sizeof nearly);
        zmq_close(socket);
    }
}

/* HELLO of a protocol that does not exist yet. */
static void
speak_another_version(void *context, uint16_t port)
{
    struct proto_msg msg = {.type = PROTO_BYE};
    uint8_t frame[PROTO_FRAME_MAX], id[21] = {1, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    char endpoint[64];
    size_t size = proto_encode(&msg, frame);
    assert_int_equal(frame[1], PROTO_VERSION); /* after the head of the array */
    frame[1] = PROTO_VERSION + 1;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", port);
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int linger = 2000;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, id, sizeof id);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    send_frames(socket, 1, frame, size);
    zmq_close(socket);
}

static void
attack(uint16_t control, uint16_t bulk)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const uint16_t ports[] = {control, bulk};
    uint8_t noise[512];
    void *context = zmq_ctx_new();
    for (size_t p = 0; p < 2; p++) {
        say(ports[p], http, sizeof http - 1);
        for (size_t n = 0; n < 32; n++) {
            assert_int_equal(getrandom(noise, sizeof noise, 0), sizeof noise);
            noise[0] = n % 2 ? 0xff : noise[0]; /* some begin like ZMTP */
            say(ports[p], noise, 1 + n * 16);
        }
        announce_much(ports[p]);
    }
    talk_nonsense(context, ZMQ_DEALER, control);
    talk_nonsense(context, ZMQ_PUSH, bulk);
    talk_nonsense(context, ZMQ_PUSH, control); /* a socket that does not fit */
    speak_another_version(context, control);
    zmq_ctx_term(context);
}

TEST(strangers_are_harmless)
{
    enum { SILENT = 200 };
    struct node nodes[2];
    struct mesh_stats stats;
    char group[32];
    int silent[SILENT];
    new_group(group);
    for (size_t i = 0; i < 2; i++)
        prepare(&nodes[i], &ragged, group);
    for (size_t i = 0; i < 2; i++)
        start(&nodes[i]);
    WAIT_FOR(members_are(nodes, 2, 2));
    mesh_stats(nodes[0].mesh, &stats);
    for (size_t i = 0; i < SILENT; i++) /* connections that never say anything */
        silent[i] = tcp_to(i % 2 ? stats.control_port : stats.bulk_port);
    attack(stats.control_port, stats.bulk_port);
    WAIT_FOR(log_has(&nodes[0], "version"));
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = look(&nodes[i].committed);
        WAIT_FOR(look(&nodes[i].committed) >= before + 20);
    }
    mesh_stats(nodes[0].mesh, &stats);
    assert_true(stats.bad > 100);
    assert_true(members_are(nodes, 2, 2)); /* and nobody lost a peer over it */
    finish_together(nodes, 2, 10);
    size_t lines = 0;
    for (const char *at = nodes[0].log; (at = strstr(at, "bad message")); at++)
        lines++;
    assert_true(lines >= 1);
    assert_true(lines <= 8); /* once per kind, not once per message */
    for (size_t i = 0; i < SILENT; i++)
        if (silent[i] >= 0)
            close(silent[i]);
}

/* ---- interrupt, job, seeds ---- */

TEST(an_interrupt_ends_the_wait)
{
    struct node node;
    char group[32];
    new_group(group);
    prepare(&node, &tiny, group);
    node.setup.peers_min = 2; /* it would wait for ever */
    start(&node);
    mesh_interrupt(node.mesh);
    WAIT_FOR(look(&node.interrupts) == 1);
    join_and_close(&node);
    mesh_destroy(&node.mesh); /* twice is fine */
}

TEST(a_node_without_a_job_is_given_one)
{
    struct node node;
    char group[32];
    struct why why;
    static char job[40000];
    static struct mesh_job found;
    for (size_t i = 0; i + 1 < sizeof job; i++)
        job[i] = (char)('a' + i % 26);
    new_group(group);
    prepare(&node, &tiny, group);
    node.setup.job = job;
    snprintf(node.setup.hello.name, sizeof node.setup.hello.name, "giver");
    start(&node);
    struct mesh_setup seeker = {.group = group, .interface = "lo"};
    assert_int_equal(mesh_job_find(&seeker, DEADLINE_MS, &found, &why), 0);
    assert_string_equal(found.text, job);
    assert_memory_equal(found.from, "giver (127.0.0.1", 16);
    assert_true(found.hash == node.setup.hello.job_hash);
    finish_together(&node, 1, 5);
}

struct search {
    unsigned told;
    uint64_t last_us;
    char names[MESH_INTERFACES_MAX], address[INET_ADDRSTRLEN];
};

static void
interrupt_search(void *ctx, const struct mesh_status *status, uint64_t searching_us)
{
    struct search *search = ctx;
    search->told++;
    search->last_us = searching_us;
    memcpy(search->names, status->names, sizeof search->names);
    memcpy(search->address, status->address, sizeof search->address);
    if (search->told == 2)
        mesh_job_interrupt();
}

TEST(looking_for_a_job_ends_in_time)
{
    char group[32];
    struct why why = {""};
    static struct mesh_job found;
    new_group(group);
    struct mesh_setup seeker = {.group = group, .interface = "lo"};
    assert_int_equal(mesh_job_find(&seeker, 100, &found, &why), -ETIMEDOUT);
    assert_true(why.line[0] != '\0');
    struct search search = {0};
    seeker.searching = interrupt_search;
    seeker.ctx = &search;
    assert_int_equal(mesh_job_find(&seeker, DEADLINE_MS, &found, &why), -EINTR);
    assert_int_equal(search.told, 2); /* at once, and after a second */
    assert_true(search.last_us >= 1000000);
    assert_string_equal(search.names, "lo");
    assert_string_equal(search.address, "127.0.0.1");
}

TEST(a_seed_replaces_beacons)
{
    struct node nodes[2];
    struct mesh_stats stats;
    char group[32];
    new_group(group);
    prepare(&nodes[0], &tiny, group);
    prepare(&nodes[1], &tiny, group);
    start(&nodes[0]);
    mesh_stats(nodes[0].mesh, &stats);
    struct proto_endpoint seed = {.control_port = stats.control_port};
    snprintf(seed.host, sizeof seed.host, "%s", local_name());
    nodes[1].setup.beacon_port = MESH_BEACON_PORT + 1; /* it cannot hear the other's beacons */
    nodes[1].setup.seeds = &seed;
    nodes[1].setup.seed_count = 1;
    start(&nodes[1]);
    WAIT_FOR(members_are(nodes, 2, 2));
    finish_together(nodes, 2, 10);
}

/* A member dies when another has a part of the sum already, and the rest will never come. */
TEST(parts_of_a_sum_are_void_when_its_plan_is_dropped)
{
    bool seen = false;
    for (int trial = 0; !seen; trial++) { /* the rest may come all the same */
        assert_true(trial < 20);
        struct node nodes[2];
        char group[32];
        new_group(group);
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        pid_t child = start_victim("large", group, nowhere);
        close(nowhere);
        for (size_t i = 0; i < 2; i++)
            prepare(&nodes[i], &large, group);
        atomic_store(&nodes[0].victim, child);
        for (size_t i = 0; i < 2; i++)
            start(&nodes[i]);
        WAIT_FOR(look(&nodes[0].killed) == 1);
        assert_int_equal(waitpid(child, NULL, 0), child);
        WAIT_FOR(members_are(nodes, 2, 2));
        finish_together(nodes, 2, 2);
        assert_int_equal(nodes[0].state.hash, history(&large, nodes[0].state.round));
        seen = nodes[0].redone > 0;
    }
}

int
main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 4 && strcmp(argv[1], VICTIM) == 0)
        return live_and_die(strcmp(argv[2], "large") == 0 ? &large : &ragged, argv[3]);
    return test_run();
}

/* actor.c - which thread runs the core, and how tasks reach the trainer.
 *
 * One lock guards the core and every socket. Whoever holds it may call into them; between two turns of
 * the loop the one who drives sleeps in epoll without it.
 *
 *     trainer in mesh_next     the trainer drives: what a peer sent wakes it directly, with no second
 *                              thread in between; the actor thread rests
 *     trainer computing        the actor thread drives, at the latest REST_US after the trainer left
 *     mesh_bucket              the caller tells the core itself when that is little work (a small or the
 *                              last bucket) and nobody is busy with it, else it wakes the driver
 *
 * A wake-up of a thread costs more than a small all-reduce over raw TCP, so the small path has none but
 * those of ZeroMQ. Epoll is level-triggered: an event that one thread leaves wakes the next.
 *
 * The core never calls back, so its requests to the trainer queue up here (`tasks`) and the bodies of
 * zero-copy sends are counted as ZeroMQ returns them. */
#include "mesh/mesh.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "mesh/actor_wire.h"
#include "mesh/discover.h"
#include "mesh/discover_iface.h"
#include "proto/fail.h"
#include "proto/mix.h"
#include "proto/text.h"

enum {
    CHUNK_ELEMS = 1 << 18,     /* elements per ring message: 1 MiB */
    EXPRESS_BYTES = 256 << 10, /* buckets up to this size do not wait for larger ones */
    DIRECT_BYTES = 64 << 10,   /* buckets up to this size go to everyone */
    REST_US = 2000,            /* how long the actor thread rests before it looks for work */
    GOODBYE_MS = 500,          /* for the last control messages to leave */
    EVENTS_MAX = 32,           /* epoll events per turn */
    TASKS_MAX = 8,             /* the core has at most one compute and one commit or adopt out */
    TRIM_US = 5000000,   /* peers that go leave holes in all heaps, which are given back then */
    FILES_WANTED = 4096, /* open files: connections of strangers must not use them up */
    FRAMES_SPARE = 256,  /* received bodies kept, beside those of two rounds */
    VECTOR_ALIGN = 4096,
    LOG_ROUNDS = 8,       /* totals kept for a node that catches up, at least, */
    LOG_BYTES = 32 << 20, /* and as many as fit; memory that is taken only when one comes */
    HUGE_PAGE = 2 << 20,
};

#define TAG_WAKE UINT64_C(1)

struct mesh {
    struct mesh_setup setup;
    pthread_mutex_t lock; /* core, wire, discover and everything down to `stop` */
    pthread_cond_t rest;  /* the actor thread rests here */
    struct core *core;
    struct wire *wire;
    struct discover *discover;
    struct proto_node self;
    char address[64]; /* on which wire listens */
    int epoll_fd, wake_fd;
    uint64_t tick_at, discover_at; /* us */
    uint64_t trim_at;              /* us; 0: no peer has gone since the last time */
    bool more_control, more_bulk;  /* read again before sleeping */
    struct mesh_task tasks[TASKS_MAX];
    size_t task_first, task_count;
    const uint8_t *state;           /* the trainer's, as it told us last */
    size_t first_bucket;            /* that this round exchanges */
    bool lent;                      /* the trainer has a bucket of the sum */
    uint64_t lent_plan, lent_round; /* of the last that it had */
    bool finished;
    uint64_t wait_us;
    bool stop;

    pthread_mutex_t bucket_lock; /* the three below */
    size_t *buckets;             /* [bucket_count], a ring: finished, not yet told to the core */
    size_t bucket_first, bucket_waiting;

    atomic_bool trainer_drives; /* the trainer is in mesh_next */
    atomic_bool interrupted;
    pthread_t thread;
    bool thread_runs;
    int32_t *own, *sum;
    uint8_t *state_in, *log;
    size_t log_size;
    uint8_t page_in[PROTO_PAGE_MAX];
    bool *express; /* [bucket_count]: is small */
    bool *quick;   /* [bucket_count]: telling the core is little work */
    char *job;     /* mesh_job_find: where the text goes */
    bool job_found;
};

static uint64_t
clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void
wake(struct mesh *mesh)
{
    uint64_t one = 1;
    ssize_t rc = write(mesh->wake_fd, &one, sizeof one);
    (void)rc; /* full means that it is awake */
}

/* ---- what the core asks for ---- */

static void
push_task(struct mesh *mesh, struct mesh_task task)
{
    assert(mesh->task_count < TASKS_MAX);
    mesh->tasks[(mesh->task_first + mesh->task_count++) % TASKS_MAX] = task;
}

static void
on_compute(void *ctx, uint64_t round, uint64_t shards, bool fresh)
{
    push_task(ctx, (struct mesh_task){
                       .kind = MESH_COMPUTE, .round = round, .shards = shards, .fresh = fresh});
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct mesh *mesh = ctx;
    size_t first = mesh->first_bucket > 0 ? mesh->setup.buckets[mesh->first_bucket].first : 0;
    fail_hit(FAIL_LAST_CHUNK, mesh->sum + first,
             (mesh->setup.vector_count - first) * sizeof *mesh->sum);
    push_task(ctx, (struct mesh_task){.kind = MESH_COMMIT, .round = round});
}

static void
on_adopt(void *ctx, uint64_t round, uint64_t state_hash)
{
    push_task(ctx,
              (struct mesh_task){.kind = MESH_ADOPT, .round = round, .state_hash = state_hash});
}

static void
on_back(void *ctx, uint64_t round)
{
    push_task(ctx, (struct mesh_task){.kind = MESH_BACK, .round = round});
}

static void
on_page(void *ctx, uint64_t round, const void *data, size_t size)
{
    struct mesh *mesh = ctx;
    if (size)
        memcpy(mesh->page_in, data, size);
    push_task(ctx, (struct mesh_task){.kind = MESH_PAGE, .round = round, .size = size});
}

static void
on_want(void *ctx, uint64_t step, uint64_t round, uint64_t page)
{
    struct mesh *mesh = ctx;
    mesh->setup.want(mesh->setup.want_ctx, step, round, page);
}

static void
on_probe(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words)
{
    struct mesh_task task = {.kind = MESH_PROBE, .round = round, .shards = shard};
    assert(words <= MESH_CLAIM_MAX);
    memcpy(task.claim, claim, words * sizeof *claim);
    push_task(ctx, task);
}

static void
on_finished(void *ctx)
{
    struct mesh *mesh = ctx;
    mesh->finished = true;
}

static const uint8_t *
on_state(void *ctx)
{
    struct mesh *mesh = ctx;
    return mesh->state;
}

static const char *
on_job(void *ctx)
{
    struct mesh *mesh = ctx;
    return mesh->setup.job;
}

static void
on_job_offered(void *ctx, const char *text, size_t size)
{
    struct mesh *mesh = ctx;
    if (!mesh->job || mesh->job_found || size == 0 || size >= PROTO_JOB_MAX)
        return;
    memcpy(mesh->job, text, size);
    mesh->job[size] = '\0';
    mesh->job_found = true;
}

static void
on_log(void *ctx, int level, const char *line)
{
    struct mesh *mesh = ctx;
    if (mesh->setup.log)
        mesh->setup.log(mesh->setup.log_ctx, level, line);
}

static void
on_connect(void *ctx, unsigned link, const struct proto_endpoint *to)
{
    struct mesh *mesh = ctx;
    wire_connect(mesh->wire, link, to);
}

static void
on_disconnect(void *ctx, unsigned link)
{
    struct mesh *mesh = ctx;
    wire_disconnect(mesh->wire, link);
}

static void
on_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size)
{
    struct mesh *mesh = ctx;
    wire_send(mesh->wire, link, msg, body, size);
}

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    struct mesh *mesh = ctx;
    wire_send_bulk(mesh->wire, link, msg, body, size, lent);
}

static void
on_pass_on(void *ctx, unsigned link, const struct proto_msg *msg, struct core_frame *frame)
{
    struct mesh *mesh = ctx;
    wire_pass_on(mesh->wire, link, msg, frame);
}

static void
on_peer_up(void *ctx, unsigned link, struct proto_node node, const struct proto_hello *hello)
{
    struct mesh *mesh = ctx;
    wire_peer_up(mesh->wire, link, node, hello->bulk_port);
}

static void
on_peer_down(void *ctx, unsigned link, struct proto_node node)
{
    struct mesh *mesh = ctx;
    (void)node;
    wire_peer_down(mesh->wire, link);
    if (!mesh->trim_at)
        mesh->trim_at = clock_us() + TRIM_US;
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    struct mesh *mesh = ctx;
    wire_keep(mesh->wire, frame);
}

static void
on_release(void *ctx, void *handle)
{
    struct mesh *mesh = ctx;
    wire_release(mesh->wire, handle);
}

static const struct core_ops core_ops = {
    .connect = on_connect,
    .disconnect = on_disconnect,
    .send = on_send,
    .send_bulk = on_send_bulk,
    .pass_on = on_pass_on,
    .peer_up = on_peer_up,
    .peer_down = on_peer_down,
    .keep = on_keep,
    .release = on_release,
    .compute = on_compute,
    .commit = on_commit,
    .adopt = on_adopt,
    .probe = on_probe,
    .back = on_back,
    .state = on_state,
    .job = on_job,
    .job_offered = on_job_offered,
    .page = on_page,
    .want = on_want,
    .finished = on_finished,
    .log = on_log,
};

/* ---- what happens to the core ---- */

static void
on_link_up(void *ctx, unsigned link)
{
    struct mesh *mesh = ctx;
    core_on_link_up(mesh->core, clock_us(), link);
}

static void
on_link_down(void *ctx, unsigned link)
{
    struct mesh *mesh = ctx;
    core_on_link_down(mesh->core, clock_us(), link);
}

static void
on_message(void *ctx, struct proto_node from, const char *host, const struct proto_msg *msg,
           const void *body, size_t size)
{
    struct mesh *mesh = ctx;
    core_on_message(mesh->core, clock_us(), from, host, msg, body, size);
}

static void
on_bulk(void *ctx, struct proto_node from, const struct proto_msg *msg, struct core_frame *frame)
{
    struct mesh *mesh = ctx;
    core_on_bulk(mesh->core, clock_us(), from, msg, frame);
}

static void
on_found(void *ctx, const struct proto_endpoint *at, struct proto_node node)
{
    struct mesh *mesh = ctx;
    core_on_found(mesh->core, clock_us(), at, node);
}

static const struct wire_events wire_events = {
    .link_up = on_link_up,
    .link_down = on_link_down,
    .message = on_message,
    .bulk = on_bulk,
    .log = on_log,
};

/* ---- the loop; everything here holds the lock ---- */

static bool
take_bucket(struct mesh *mesh, size_t *bucket)
{
    pthread_mutex_lock(&mesh->bucket_lock);
    bool any = mesh->bucket_waiting > 0;
    if (any) {
        *bucket = mesh->buckets[mesh->bucket_first];
        mesh->bucket_first = (mesh->bucket_first + 1) % mesh->setup.bucket_count;
        mesh->bucket_waiting--;
    }
    pthread_mutex_unlock(&mesh->bucket_lock);
    return any;
}

/* Tell the core what has gathered on the side, until nothing more comes of it. */
static void
settle(struct mesh *mesh)
{
    size_t bucket;
    bool any = true;
    while (any) {
        any = wire_settle(mesh->wire);
        for (; take_bucket(mesh, &bucket); any = true)
            core_on_bucket(mesh->core, clock_us(), bucket);
        for (unsigned n = wire_sent(mesh->wire); n > 0; n--, any = true)
            core_on_sent(mesh->core, clock_us());
    }
}

/* The address of the one interface that was asked for may change. */
static void
follow_address(struct mesh *mesh)
{
    const char *address = discover_address(mesh->discover);
    if (strcmp(address, mesh->address) == 0)
        return;
    int rc = wire_move(mesh->wire, address);
    char line[128];
    snprintf(line, sizeof line, "listening on %s instead of %s%s%s", address, mesh->address,
             rc == 0 ? "" : ": ", rc == 0 ? "" : strerror(-rc));
    on_log(mesh, rc == 0 ? 5 : 4, line);
    if (rc == 0)
        snprintf(mesh->address, sizeof mesh->address, "%s", address);
}

static void
tick(struct mesh *mesh)
{
    uint64_t now = clock_us();
    if (now >= mesh->tick_at) {
        core_on_tick(mesh->core, now);
        wire_tick(mesh->wire, now);
        discover_read(mesh->discover, on_found, mesh);
        mesh->tick_at = now + CORE_TICK_US;
    }
    if (mesh->trim_at && now >= mesh->trim_at) {
        mesh->trim_at = 0;
        malloc_trim(0);
    }
    if (now < mesh->discover_at)
        return;
    mesh->discover_at = discover_tick(mesh->discover, now, on_found, mesh);
    follow_address(mesh);
}

static void
handle(struct mesh *mesh, uint64_t tag)
{
    uint64_t count;
    if (tag == WIRE_TAG_BULK)
        mesh->more_bulk = true;
    else if (tag == WIRE_TAG_CONTROL)
        mesh->more_control = true;
    else if (tag & WIRE_TAG)
        wire_ready(mesh->wire, tag);
    else if (read(mesh->wake_fd, &count, sizeof count) < 0)
        assert(errno == EAGAIN);
}

/* Control first: it is short and others wait for it. */
static void
read_all(struct mesh *mesh)
{
    if (mesh->more_control)
        mesh->more_control = wire_ready(mesh->wire, WIRE_TAG_CONTROL);
    if (mesh->more_bulk || wire_stalled(mesh->wire))
        mesh->more_bulk = wire_ready(mesh->wire, WIRE_TAG_BULK);
}

static int
sleep_ms(const struct mesh *mesh)
{
    if (mesh->more_control || mesh->more_bulk)
        return 0;
    uint64_t now = clock_us(),
             until = mesh->tick_at < mesh->discover_at ? mesh->tick_at : mesh->discover_at;
    return until <= now ? 0 : (int)((until - now + 999) / 1000);
}

/* One turn: sleep without the lock until something happens, then deal with it. */
static void
turn(struct mesh *mesh, bool trainer)
{
    struct epoll_event events[EVENTS_MAX];
    int timeout = wire_sleep(mesh->wire, true) ? sleep_ms(mesh) : 0;
    pthread_mutex_unlock(&mesh->lock);
    int count = epoll_wait(mesh->epoll_fd, events, EVENTS_MAX, timeout);
    pthread_mutex_lock(&mesh->lock);
    if (!trainer && atomic_load(&mesh->trainer_drives))
        return; /* it finds the same events */
    wire_sleep(mesh->wire, false);
    for (int i = 0; i < count; i++)
        handle(mesh, events[i].data.u64);
    read_all(mesh);
    tick(mesh);
    settle(mesh);
}

static void
rest(struct mesh *mesh)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += REST_US * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&mesh->rest, &mesh->lock, &until);
}

static void *
run(void *arg)
{
    struct mesh *mesh = arg;
    pthread_mutex_lock(&mesh->lock);
    while (!mesh->stop)
        if (atomic_load(&mesh->trainer_drives))
            rest(mesh);
        else
            turn(mesh, false);
    pthread_mutex_unlock(&mesh->lock);
    return NULL;
}

/* ---- calls of the trainer ---- */

/* Does the trainer have nothing yet of the sum that it gets a part of now? */
static bool
first_of_sum(struct mesh *mesh)
{
    struct core_stats stats;
    core_stats(mesh->core, &stats);
    bool first =
        stats.plan == 0 || stats.plan != mesh->lent_plan || stats.round != mesh->lent_round;
    mesh->lent_plan = stats.plan;
    mesh->lent_round = stats.round;
    return first;
}

static bool
take_bucket_of_sum(struct mesh *mesh, struct mesh_task *task)
{
    struct core_stats stats;
    size_t bucket;
    if (!core_lend(mesh->core, clock_us(), &bucket))
        return false;
    core_stats(mesh->core, &stats);
    mesh->lent = true;
    *task = (struct mesh_task){.kind = MESH_SUMMED, .round = stats.round, .bucket = bucket};
    task->fresh = first_of_sum(mesh);
    return true;
}

static bool
take_task(struct mesh *mesh, struct mesh_task *task)
{
    if (atomic_exchange(&mesh->interrupted, false)) {
        *task = (struct mesh_task){.kind = MESH_INTERRUPTED};
        return true;
    }
    if (mesh->task_count > 0) {
        *task = mesh->tasks[mesh->task_first];
        mesh->task_first = (mesh->task_first + 1) % TASKS_MAX;
        mesh->task_count--;
        if (task->kind == MESH_COMMIT)
            task->fresh = first_of_sum(mesh);
        return true;
    }
    if (take_bucket_of_sum(mesh, task))
        return true;
    if (mesh->finished)
        *task = (struct mesh_task){.kind = MESH_DONE};
    return mesh->finished;
}

void
mesh_next(struct mesh *mesh, struct mesh_task *task)
{
    uint64_t from = clock_us();
    atomic_store(&mesh->trainer_drives, true);
    pthread_mutex_lock(&mesh->lock);
    if (mesh->lent) {
        mesh->lent = false;
        core_on_returned(mesh->core, clock_us());
        settle(mesh);
    }
    *task = (struct mesh_task){.kind = MESH_IDLE};
    while (!take_task(mesh, task) && clock_us() - from < MESH_IDLE_MS * 1000)
        turn(mesh, true);
    mesh->wait_us += clock_us() - from;
    atomic_store(&mesh->trainer_drives, false);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_bucket(struct mesh *mesh, size_t bucket)
{
    assert(bucket < mesh->setup.bucket_count);
    const struct core_bucket *range = &mesh->setup.buckets[bucket];
    fail_hit(FAIL_BUCKET_READY, mesh->own + range->first, range->count * sizeof *mesh->own);
    pthread_mutex_lock(&mesh->bucket_lock);
    assert(mesh->bucket_waiting < mesh->setup.bucket_count);
    mesh->buckets[(mesh->bucket_first + mesh->bucket_waiting++) % mesh->setup.bucket_count] =
        bucket;
    pthread_mutex_unlock(&mesh->bucket_lock);
    bool told = mesh->quick[bucket] && pthread_mutex_trylock(&mesh->lock) == 0;
    if (told) {
        settle(mesh);
        told = !atomic_load(&mesh->trainer_drives); /* else it may have a task now */
        pthread_mutex_unlock(&mesh->lock);
    }
    if (!told) {
        wake(mesh);
        pthread_cond_signal(&mesh->rest);
    }
    fail_hit(FAIL_BUCKET_TOLD, NULL, 0);
}

void
mesh_state(struct mesh *mesh, uint64_t round, const void *state, uint64_t state_hash,
           size_t first_bucket, bool done)
{
    assert(first_bucket <= mesh->setup.bucket_count);
    pthread_mutex_lock(&mesh->lock);
    mesh->state = state;
    mesh->first_bucket = first_bucket;
    core_on_applied(mesh->core, clock_us(), round, state_hash, first_bucket, done);
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_state_bad(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_state_bad(mesh->core, clock_us());
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_total_bad(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_total_bad(mesh->core, clock_us());
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_want(struct mesh *mesh, uint64_t step, uint64_t round, uint64_t page)
{
    pthread_mutex_lock(&mesh->lock);
    core_want(mesh->core, clock_us(), step, round, page);
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_damaged(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    settle(mesh);
    core_on_damaged(mesh->core, clock_us());
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_probed(struct mesh *mesh, bool equal)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_probed(mesh->core, clock_us(), equal);
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

const uint8_t *
mesh_page_in(const struct mesh *mesh)
{
    return mesh->page_in;
}

void
mesh_page(struct mesh *mesh, uint64_t round, const void *data, size_t size)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_page(mesh->core, clock_us(), round, data, size);
    settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
    wake(mesh);
}

void
mesh_interrupt(struct mesh *mesh)
{
    atomic_store(&mesh->interrupted, true);
    wake(mesh);
}

void
mesh_stats(struct mesh *mesh, struct mesh_stats *out)
{
    struct wire_counts counts;
    pthread_mutex_lock(&mesh->lock);
    core_stats(mesh->core, &out->core);
    wire_counts(mesh->wire, &counts);
    out->node = mesh->self;
    out->wait_us = mesh->wait_us;
    out->control_port = wire_control_port(mesh->wire);
    out->bulk_port = wire_bulk_port(mesh->wire);
    pthread_mutex_unlock(&mesh->lock);
    out->tx_bytes = counts.tx_bytes;
    out->rx_bytes = counts.rx_bytes;
    out->dropped = counts.dropped;
    out->bad = counts.bad;
}

int32_t *
mesh_own(struct mesh *mesh)
{
    return mesh->own;
}

const int32_t *
mesh_sum(const struct mesh *mesh)
{
    return mesh->sum;
}

const uint8_t *
mesh_state_in(const struct mesh *mesh)
{
    return mesh->state_in;
}

int
mesh_interfaces(char *out, size_t size)
{
    iface_print("\n", out, size);
    return 0;
}

/* ---- life ---- */

void
mesh_malloc_tune(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done))
        return;
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
}

static void
raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES_WANTED)
        return;
    limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static uint64_t
group_hash(const char *group)
{
    uint64_t hash = mix64(0);
    for (const char *c = group ? group : ""; *c; c++)
        hash = mix64_pair(hash, (uint8_t)*c);
    return hash;
}

/* Nanoseconds since 1970, the lowest 16 bits random: rises with every start, and two starts in the same
 * instant still differ. */
static int
name_self(struct proto_node *out)
{
    uint16_t noise;
    struct timespec t;
    if (getrandom(&out->id, sizeof out->id, 0) != sizeof out->id ||
        getrandom(&noise, sizeof noise, 0) != sizeof noise)
        return -EIO;
    clock_gettime(CLOCK_REALTIME, &t);
    out->id |= out->id == 0;
    out->id = fail_node_id(out->id);
    out->incarnation =
        (((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) & ~UINT64_C(0xffff)) | noise;
    return 0;
}

/* Large pages, where the system gives them, save a good part of what adding and sending costs. */
static void *
new_block(size_t size)
{
    size_t align = size < HUGE_PAGE ? VECTOR_ALIGN : HUGE_PAGE;
    size_t whole = (size / align + 1) * align;
    void *block = aligned_alloc(align, whole);
    if (!block)
        return NULL;
    if (align == HUGE_PAGE)
        madvise(block, whole, MADV_HUGEPAGE);
    memset(block, 0, whole);
    return block;
}

static int
open_locks(struct mesh *mesh)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mesh->rest, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&mesh->lock, NULL);
    pthread_mutex_init(&mesh->bucket_lock, NULL);
    mesh->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    mesh->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return mesh->epoll_fd < 0 || mesh->wake_fd < 0 ? -errno : 0;
}

size_t
mesh_log_size(size_t vector)
{
    return LOG_ROUNDS * vector > LOG_BYTES ? LOG_ROUNDS * vector : LOG_BYTES;
}

static size_t
whole_pages(size_t size)
{
    return (size + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
}

size_t
mesh_idle_size(size_t state, size_t vector)
{
    return whole_pages(state) + mesh_log_size(vector);
}

static int
open_memory(struct mesh *mesh)
{
    const struct mesh_setup *setup = &mesh->setup;
    mesh->own = new_block(setup->vector_count * sizeof *mesh->own);
    mesh->sum = new_block(setup->vector_count * sizeof *mesh->sum);
    mesh->log_size = mesh_log_size(setup->vector_count * sizeof *mesh->sum);
    mesh->state_in = setup->idle ? setup->idle : new_block(setup->state_size);
    mesh->log =
        setup->idle ? mesh->state_in + whole_pages(setup->state_size) : malloc(mesh->log_size);
    mesh->buckets = calloc(setup->bucket_count + 1, sizeof *mesh->buckets);
    mesh->quick = calloc(setup->bucket_count + 1, sizeof *mesh->quick);
    mesh->express = calloc(setup->bucket_count + 1, sizeof *mesh->express);
    if (!mesh->own || !mesh->sum || !mesh->state_in || !mesh->log || !mesh->buckets ||
        !mesh->quick || !mesh->express)
        return -ENOMEM;
    for (size_t b = 0; b < setup->bucket_count; b++)
        mesh->express[b] = setup->buckets[b].count * sizeof(int32_t) <= EXPRESS_BYTES;
    for (size_t b = 0; b < setup->bucket_count; b++) /* the last: mesh_next follows anyway */
        mesh->quick[b] = b + 1 == setup->bucket_count ||
                         setup->buckets[b].count * sizeof(int32_t) <= setup->direct_bytes;
    return 0;
}

static int
open_discover(struct mesh *mesh, char *why, size_t why_size)
{
    const struct mesh_setup *setup = &mesh->setup;
    struct discover_setup discover = {
        .interface = setup->interface,
        .port = setup->beacon_port ? setup->beacon_port : MESH_BEACON_PORT,
        .self = mesh->self,
        .group = group_hash(setup->group),
        .seeds = setup->seeds,
        .seed_count = setup->seed_count,
        .log = on_log,
        .log_ctx = mesh,
    };
    return discover_new(&mesh->discover, &discover, why, why_size);
}

static int
open_wire(struct mesh *mesh, char *why, size_t why_size)
{
    const struct mesh_setup *setup = &mesh->setup;
    size_t messages = 2 * (setup->vector_count / setup->chunk_elems + setup->bucket_count + 1);
    struct wire_setup wire = {
        .self = mesh->self,
        .address = discover_address(mesh->discover),
        .port = setup->port,
        .port_first = MESH_PORT_FIRST,
        .port_last = MESH_PORT_LAST,
        .epoll_fd = mesh->epoll_fd,
        .wake_fd = mesh->wake_fd,
        .frames = messages + FRAMES_SPARE,
        .queue_size = messages + FRAMES_SPARE,
        .express = mesh->express,
        .bucket_count = setup->bucket_count,
    };
    snprintf(mesh->address, sizeof mesh->address, "%s", wire.address);
    return wire_new(&mesh->wire, &wire, &wire_events, mesh, why, why_size);
}

static int
open_core(struct mesh *mesh)
{
    const struct mesh_setup *setup = &mesh->setup;
    struct core_config config = {
        .self = mesh->self,
        .hello = setup->hello,
        .shards = setup->shards,
        .peers_min = setup->peers_min,
        .keep_all = setup->keep_all,
        .gather_us = setup->gather_ms * 1000,
        .bucket_count = setup->bucket_count,
        .buckets = setup->buckets,
        .own = mesh->own,
        .sum = mesh->sum,
        .state_size = setup->state_size,
        .state_in = mesh->state_in,
        .log = mesh->log,
        .log_size = mesh->log_size,
        .chunk_elems = setup->chunk_elems,
        .direct_bytes = setup->direct_bytes,
        .audit_share = (uint64_t)(setup->audit * 4294967296.0),
        .audit_bucket = setup->audit_bucket,
    };
    if (getrandom(&config.audit_seed, sizeof config.audit_seed, 0) != sizeof config.audit_seed)
        return -EIO;
    text_copy(config.hello.mesh, sizeof config.hello.mesh, setup->group ? setup->group : "");
    config.hello.control_port = wire_control_port(mesh->wire);
    config.hello.bulk_port = wire_bulk_port(mesh->wire);
    struct core_ops ops = core_ops;
    if (!setup->want)
        ops.want = NULL;
    return core_new(&mesh->core, &config, &ops, mesh, clock_us());
}

static void
watch(struct mesh *mesh, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN};
    event.data.u64 = tag;
    int rc = epoll_ctl(mesh->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(rc == 0);
}

static void
watch_all(struct mesh *mesh)
{
    watch(mesh, mesh->wake_fd, TAG_WAKE);
    mesh->more_bulk = mesh->more_control = true;
}

static int
open_parts(struct mesh *mesh, char *why, size_t why_size)
{
    int rc = open_locks(mesh);
    if (rc == 0)
        rc = name_self(&mesh->self);
    if (rc == 0)
        rc = open_memory(mesh);
    if (rc != 0) {
        snprintf(why, why_size, "mesh: %s", strerror(-rc));
        return rc;
    }
    rc = open_discover(mesh, why, why_size);
    if (rc == 0)
        rc = open_wire(mesh, why, why_size);
    if (rc != 0)
        return rc;
    rc = open_core(mesh);
    if (rc != 0)
        snprintf(why, why_size, "mesh: %s", strerror(-rc));
    return rc;
}

static void
close_parts(struct mesh **out, int linger_ms)
{
    struct mesh *mesh = *out;
    core_destroy(&mesh->core);
    wire_destroy(&mesh->wire, linger_ms);
    discover_destroy(&mesh->discover);
    if (mesh->epoll_fd >= 0)
        close(mesh->epoll_fd);
    if (mesh->wake_fd >= 0)
        close(mesh->wake_fd);
    pthread_mutex_destroy(&mesh->bucket_lock);
    pthread_mutex_destroy(&mesh->lock);
    pthread_cond_destroy(&mesh->rest);
    free(mesh->quick);
    free(mesh->express);
    free(mesh->buckets);
    if (!mesh->setup.idle) {
        free(mesh->state_in);
        free(mesh->log);
    }
    free(mesh->sum);
    free(mesh->own);
    free(mesh);
    *out = NULL;
}

/* Everything but the actor thread. */
static int
open_mesh(struct mesh **out, const struct mesh_setup *setup, char *why, size_t why_size)
{
    *out = NULL;
    mesh_malloc_tune();
    raise_file_limit();
    struct mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh) {
        snprintf(why, why_size, "mesh: out of memory");
        return -ENOMEM;
    }
    mesh->setup = *setup;
    if (mesh->setup.chunk_elems == 0)
        mesh->setup.chunk_elems = CHUNK_ELEMS;
    if (mesh->setup.direct_bytes == 0)
        mesh->setup.direct_bytes = DIRECT_BYTES;
    mesh->epoll_fd = mesh->wake_fd = -1;
    int rc = open_parts(mesh, why, why_size);
    if (rc != 0) {
        close_parts(&mesh, 0);
        return rc;
    }
    watch_all(mesh);
    discover_publish(mesh->discover, clock_us(), wire_control_port(mesh->wire));
    *out = mesh;
    return 0;
}

int
mesh_new(struct mesh **out, const struct mesh_setup *setup, char *why, size_t why_size)
{
    int rc = open_mesh(out, setup, why, why_size);
    if (rc != 0)
        return rc;
    rc = pthread_create(&(*out)->thread, NULL, run, *out);
    if (rc != 0) {
        snprintf(why, why_size, "mesh: no thread: %s", strerror(rc));
        close_parts(out, 0);
        return -rc;
    }
    (*out)->thread_runs = true;
    return 0;
}

static void
say_goodbye(struct mesh *mesh)
{
    core_leave(mesh->core, clock_us());
    settle(mesh);
    discover_leave(mesh->discover);
}

void
mesh_destroy(struct mesh **out)
{
    struct mesh *mesh = out ? *out : NULL;
    if (!mesh)
        return;
    pthread_mutex_lock(&mesh->lock);
    mesh->stop = true;
    say_goodbye(mesh);
    pthread_mutex_unlock(&mesh->lock);
    pthread_cond_signal(&mesh->rest);
    wake(mesh);
    pthread_join(mesh->thread, NULL);
    close_parts(out, GOODBYE_MS);
}

/* ---- a node without a job ---- */

static atomic_int job_wake_fd = -1; /* of the search that runs */
static atomic_bool job_interrupted;

void
mesh_job_interrupt(void)
{
    uint64_t one = 1;
    int fd = atomic_load(&job_wake_fd);
    atomic_store(&job_interrupted, true);
    if (fd >= 0) {
        ssize_t rc = write(fd, &one, sizeof one);
        (void)rc;
    }
}

static int
search(struct mesh *mesh, uint64_t timeout_ms)
{
    uint64_t end = clock_us() + timeout_ms * 1000;
    atomic_store(&job_wake_fd, mesh->wake_fd);
    while (!mesh->job_found && !atomic_load(&job_interrupted) && clock_us() < end)
        turn(mesh, true);
    atomic_store(&job_wake_fd, -1);
    if (mesh->job_found)
        return 0;
    return atomic_load(&job_interrupted) ? -EINTR : -ETIMEDOUT;
}

int
mesh_job_find(const struct mesh_setup *setup, uint64_t timeout_ms, char *text, char *why,
              size_t why_size)
{
    struct mesh *mesh;
    struct mesh_setup only = {
        .group = setup->group,
        .interface = setup->interface,
        .port = setup->port,
        .beacon_port = setup->beacon_port,
        .seeds = setup->seeds,
        .seed_count = setup->seed_count,
        .log = setup->log,
        .log_ctx = setup->log_ctx,
        .hello = {.wants_job = true},
        .shards = 1,
        .peers_min = PROTO_PEERS_MAX,
    };
    int rc = open_mesh(&mesh, &only, why, why_size);
    if (rc != 0)
        return rc;
    mesh->job = text;
    pthread_mutex_lock(&mesh->lock);
    rc = search(mesh, timeout_ms);
    say_goodbye(mesh);
    pthread_mutex_unlock(&mesh->lock);
    if (rc == -ETIMEDOUT)
        snprintf(why, why_size, "no mesh with a job was found within %llu ms",
                 (unsigned long long)timeout_ms);
    else if (rc == -EINTR)
        snprintf(why, why_size, "interrupted");
    atomic_store(&job_interrupted, false);
    close_parts(&mesh, GOODBYE_MS);
    return rc;
}

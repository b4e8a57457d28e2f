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
#include "mesh/net/actor.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "mesh/net/discover.h"
#include "proto/fail.h"

enum {
    STARVE_AFTER_US = 50000, /* of computing; shorter ones nobody takes for a hang */
    STARVE_EVERY_US = 50000,
    REST_US = 2000,  /* how long the actor thread rests before it looks for work */
    EVENTS_MAX = 32, /* epoll events per turn */
    BUCKETS_MAX = 4, /* told to the core per turn: each may be megabytes to be checked */
    TRIM_US =
        5000000, /* peers that come and go leave holes in all heaps, which are given back then */
};

/* ---- what the core asks for ---- */

static void
push_task(struct mesh *mesh, struct mesh_task task)
{
    assert(mesh->task_count < ACTOR_TASKS_MAX);
    mesh->tasks[(mesh->task_first + mesh->task_count++) % ACTOR_TASKS_MAX] = task;
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
    struct core_stats stats;
    core_stats(mesh->core, &stats); /* the plan may be over when the trainer gets it */
    push_task(ctx, (struct mesh_task){.kind = MESH_COMMIT,
                                      .round = round,
                                      .members = stats.members,
                                      .plan = stats.plan,
                                      .mine = stats.mine});
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
on_audit(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words)
{
    struct mesh_task task = {.kind = MESH_AUDIT, .round = round, .shards = shard};
    assert(words <= MESH_CLAIM_MAX);
    memcpy(task.claim, claim, words * sizeof *claim);
    push_task(ctx, task);
}

/* The whole pages of the log. In one large piece they are quickly given back: 32 MiB in a few milliseconds at most. */
static void
on_forget(void *ctx)
{
    struct mesh *mesh = ctx;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)mesh->log;
    uintptr_t first = (from + page - 1) / page * page, end = (from + mesh->log_size) / page * page;
    if (first < end)
        madvise(mesh->log + (first - from), end - first, MADV_DONTNEED);
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
on_differ(void *ctx, const char *theirs, size_t size, char *out, size_t out_size)
{
    struct mesh *mesh = ctx;
    if (mesh->setup.differ)
        mesh->setup.differ(mesh->setup.differ_ctx, theirs, size, out, out_size);
}

static void
on_job_offered(void *ctx, const char *from, const char *text, size_t size)
{
    struct mesh *mesh = ctx;
    if (!mesh->job || mesh->job_found || size == 0 || size >= PROTO_JOB_MAX)
        return;
    memcpy(mesh->job, text, size);
    mesh->job[size] = '\0';
    snprintf(mesh->job_from, PROTO_WHO_MAX, "%s", from);
    mesh->job_found = true;
}

void
actor_log(void *ctx, int level, const char *line)
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
trim_soon(struct mesh *mesh)
{
    if (!mesh->trim_at)
        mesh->trim_at = clock_us() + TRIM_US;
}

static void
on_peer_up(void *ctx, unsigned link, struct proto_node node, const struct proto_hello *hello)
{
    struct mesh *mesh = ctx;
    wire_peer_up(mesh->wire, link, node, hello->bulk_port);
    trim_soon(mesh);
}

static void
on_peer_down(void *ctx, unsigned link, struct proto_node node)
{
    struct mesh *mesh = ctx;
    (void)node;
    wire_peer_down(mesh->wire, link);
    trim_soon(mesh);
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

const struct core_ops actor_core_ops = {
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
    .audit = on_audit,
    .back = on_back,
    .state = on_state,
    .job = on_job,
    .job_offered = on_job_offered,
    .differ = on_differ,
    .page = on_page,
    .want = on_want,
    .forget = on_forget,
    .finished = on_finished,
    .log = actor_log,
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

const struct wire_events actor_wire_events = {
    .link_up = on_link_up,
    .link_down = on_link_down,
    .message = on_message,
    .bulk = on_bulk,
    .log = actor_log,
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

static bool
buckets_wait(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->bucket_lock);
    bool any = mesh->bucket_waiting > 0;
    pthread_mutex_unlock(&mesh->bucket_lock);
    return any;
}

static void
settle(struct mesh *mesh, size_t left)
{
    size_t bucket;
    bool any = true;
    while (any) {
        any = wire_settle(mesh->wire);
        for (; left > 0 && take_bucket(mesh, &bucket); left--, any = true)
            core_on_bucket(mesh->core, clock_us(), bucket);
        for (unsigned n = wire_sent(mesh->wire); n > 0; n--, any = true)
            core_on_sent(mesh->core, clock_us());
    }
}

void
actor_settle(struct mesh *mesh)
{
    settle(mesh, SIZE_MAX);
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
    actor_log(mesh, rc == 0 ? 5 : 4, line);
    if (rc == 0)
        snprintf(mesh->address, sizeof mesh->address, "%s", address);
}

/* While the trainer computes for long: how much of that did it wait for a processor? */
static void
look_starved(struct mesh *mesh, uint64_t now)
{
    if (atomic_load(&mesh->trainer_drives) || now < mesh->starve_at ||
        now < mesh->left_at + STARVE_AFTER_US)
        return;
    uint64_t us = starve_us(&mesh->starve);
    if (mesh->starve_left_at == mesh->left_at)
        core_on_starved(mesh->core, now, us);
    mesh->starve_left_at = mesh->left_at;
    mesh->starve_at = now + STARVE_EVERY_US;
}

/* What has come meanwhile is read before the core judges who is silent. */
static void
tick(struct mesh *mesh)
{
    uint64_t now = clock_us();
    if (now >= mesh->tick_at) {
        mesh->more_control = wire_ready(mesh->wire, WIRE_TAG_CONTROL);
        now = clock_us();
        look_starved(mesh, now);
        core_on_tick(mesh->core, now);
        if (wire_tick(mesh->wire, now))
            mesh->more_control = mesh->more_bulk = true;
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
sleep_ms(struct mesh *mesh)
{
    if (mesh->more_control || mesh->more_bulk || buckets_wait(mesh))
        return 0;
    uint64_t now = clock_us(),
             until = mesh->tick_at < mesh->discover_at ? mesh->tick_at : mesh->discover_at;
    return until <= now ? 0 : (int)((until - now + 999) / 1000);
}

/* One turn: sleep without the lock until something happens, then deal with it. */
void
actor_turn(struct mesh *mesh, bool trainer)
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
    settle(mesh, BUCKETS_MAX);
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

void *
actor_run(void *arg)
{
    struct mesh *mesh = arg;
    prctl(PR_SET_NAME, "mesh");
    pthread_mutex_lock(&mesh->lock);
    while (!mesh->stop)
        if (atomic_load(&mesh->trainer_drives))
            rest(mesh);
        else
            actor_turn(mesh, false);
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
        mesh->task_first = (mesh->task_first + 1) % ACTOR_TASKS_MAX;
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
        settle(mesh, BUCKETS_MAX);
    }
    *task = (struct mesh_task){.kind = MESH_IDLE};
    while (!take_task(mesh, task) && clock_us() - from < MESH_IDLE_MS * 1000)
        actor_turn(mesh, true);
    mesh->left_at = clock_us();
    mesh->wait_us += mesh->left_at - from;
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
        settle(mesh, BUCKETS_MAX);
        told =
            !buckets_wait(mesh) && !atomic_load(&mesh->trainer_drives); /* it may have a task now */
        pthread_mutex_unlock(&mesh->lock);
    }
    if (!told) {
        actor_wake(mesh);
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
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_state_bad(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_state_bad(mesh->core, clock_us());
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_total_bad(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_total_bad(mesh->core, clock_us());
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_want(struct mesh *mesh, uint64_t step, uint64_t round, uint64_t page)
{
    pthread_mutex_lock(&mesh->lock);
    core_want(mesh->core, clock_us(), step, round, page);
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_damaged(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    actor_settle(mesh);
    core_on_damaged(mesh->core, clock_us());
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_audited(struct mesh *mesh, bool equal)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_audited(mesh->core, clock_us(), equal);
    actor_settle(mesh);
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
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
    actor_wake(mesh);
}

void
mesh_interrupt(struct mesh *mesh)
{
    atomic_store(&mesh->interrupted, true);
    actor_wake(mesh);
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

void
actor_status(const struct mesh *mesh, struct mesh_status *out)
{
    core_status(mesh->core, &out->core);
    memcpy(out->name, mesh->setup.hello.name, sizeof out->name);
    out->control_port = wire_control_port(mesh->wire);
    out->bulk_port = wire_bulk_port(mesh->wire);
    out->beacon_port = mesh->setup.beacon_port;
    discover_print(mesh->discover, true, out->interfaces, sizeof out->interfaces);
    discover_print(mesh->discover, false, out->names, sizeof out->names);
    discover_reach(mesh->discover, out->address);
}

void
mesh_status(struct mesh *mesh, struct mesh_status *out)
{
    pthread_mutex_lock(&mesh->lock);
    actor_status(mesh, out);
    pthread_mutex_unlock(&mesh->lock);
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

/* actor_trainer.c - what the core asks of the trainer, and what that calls.
 *
 * No callback of the core may call it, and the trainer may still be at its last task: what the core asks for queues up
 * here, and mesh_next takes it. */
#include "mesh/net/actor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "mesh/net/discover.h"
#include "proto/fail.h"

/* ---- what the core asks for ---- */

static void
push_task(struct mesh *mesh, struct mesh_task task)
{
    assert(mesh->task_count < ACTOR_TASKS_MAX);
    mesh->tasks[(mesh->task_first + mesh->task_count++) % ACTOR_TASKS_MAX] = task;
}

/* With what the present plan is like: it may be over when the trainer gets the task. */
static void
push_planned(struct mesh *mesh, struct mesh_task task)
{
    struct core_stats stats;
    core_stats(mesh->core, &stats);
    task.members = stats.members;
    task.servers = stats.servers;
    task.served = stats.served;
    task.pipeline = stats.pipeline;
    task.plan = stats.plan;
    task.mine = stats.mine;
    push_task(mesh, task);
}

static void
on_compute(void *ctx, const struct core_task *task)
{
    push_planned(ctx, (struct mesh_task){.kind = MESH_COMPUTE,
                                         .round = task->round,
                                         .shards = task->shards,
                                         .fresh = task->fresh,
                                         .known = task->known});
}

static void
on_piece(void *ctx, const struct core_piece *piece)
{
    struct mesh *mesh = ctx;
    struct mesh_task task = {.kind = MESH_PIECE, .round = piece->round, .piece = *piece};
    mesh->piece_plan = *piece->plan;
    task.piece.plan = &mesh->piece_plan;
    push_task(mesh, task);
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct mesh *mesh = ctx;
    size_t first = mesh->first_bucket > 0 ? mesh->setup.buckets[mesh->first_bucket].first : 0;
    fail_hit(FAIL_LAST_CHUNK, mesh->sum + first,
             (mesh->setup.vector_count - first) * sizeof *mesh->sum);
    push_planned(mesh, (struct mesh_task){.kind = MESH_COMMIT, .round = round});
}

static void
on_adopt(void *ctx, uint64_t round, uint64_t state_hash, const uint64_t *parts)
{
    struct mesh *mesh = ctx;
    memcpy(mesh->parts, parts, sizeof mesh->parts);
    push_task(mesh, (struct mesh_task){.kind = MESH_ADOPT,
                                       .round = round,
                                       .state_hash = state_hash,
                                       .parts = mesh->parts});
}

static void
on_part(void *ctx, uint64_t round, uint64_t segments, const uint64_t *parts)
{
    struct mesh *mesh = ctx;
    memcpy(mesh->parts, parts, sizeof mesh->parts);
    push_task(mesh,
              (struct mesh_task){
                  .kind = MESH_PART, .round = round, .holds = segments, .parts = mesh->parts});
}

static void
on_hold(void *ctx, uint64_t segments)
{
    push_task(ctx, (struct mesh_task){.kind = MESH_HOLD, .holds = segments});
}

static void
on_back(void *ctx, uint64_t round, bool wrong)
{
    push_task(ctx, (struct mesh_task){.kind = MESH_BACK, .round = round, .wrong = wrong});
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
on_audit(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words)
{
    struct mesh_task task = {.kind = MESH_AUDIT, .round = round, .shards = shard};
    assert(words <= MESH_CLAIM_MAX);
    memcpy(task.claim, claim, words * sizeof *claim);
    push_task(ctx, task);
}

/* The whole pages of it: nobody needs what is there. */
static void
pages_give_back(uint8_t *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)memory;
    uintptr_t first = (from + page - 1) / page * page, end = (from + size) / page * page;
    if (first < end)
        madvise(memory + (first - from), end - first, MADV_DONTNEED);
}

/* In one large piece it is quickly given back: 32 MiB in a few milliseconds at most. */
static void
on_forget(void *ctx)
{
    struct mesh *mesh = ctx;
    pages_give_back(mesh->log, mesh->log_size);
}

static const uint8_t *
on_state(void *ctx)
{
    struct mesh *mesh = ctx;
    return mesh->state;
}

static void
on_job_offered(void *ctx, const char *from, uint64_t job, const char *text, size_t size)
{
    struct mesh *mesh = ctx;
    if (mesh->setup.offered)
        mesh->setup.offered(mesh->setup.ctx, from, job, text, size);
    if (!mesh->job || mesh->job_found || size == 0 || size >= PROTO_JOB_MAX)
        return;
    memcpy(mesh->job->text, text, size);
    mesh->job->text[size] = '\0';
    snprintf(mesh->job->from, sizeof mesh->job->from, "%s", from);
    mesh->job->hash = job;
    mesh->job_found = true;
}

static void
on_ended(void *ctx, bool saved)
{
    push_task(ctx, (struct mesh_task){.kind = MESH_INTERRUPTED, .saved = saved});
}

const struct core_trainer actor_trainer = {
    .compute = on_compute,
    .piece = on_piece,
    .commit = on_commit,
    .ended = on_ended,
    .job_offered = on_job_offered,
    .page = on_page,
    .adopt = on_adopt,
    .back = on_back,
    .hold = on_hold,
    .part = on_part,
    .audit = on_audit,
    .state = on_state,
    .forget = on_forget,
};

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
    bool done = core_finished(mesh->core);
    if (done)
        *task = (struct mesh_task){.kind = MESH_DONE};
    return done;
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
        actor_settle_some(mesh);
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
        actor_settle_some(mesh);
        told = !actor_buckets_wait(mesh) &&
               !atomic_load(&mesh->trainer_drives); /* it may have a task now */
        pthread_mutex_unlock(&mesh->lock);
    }
    if (!told) {
        actor_wake(mesh);
        pthread_cond_signal(&mesh->rest);
    }
    fail_hit(FAIL_BUCKET_TOLD, NULL, 0);
}

/* After something was told to the core. */
static void
settle_and_unlock(struct mesh *mesh)
{
    actor_settle(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

void
mesh_state(struct mesh *mesh, const void *block, const struct core_state *state)
{
    assert(state->first_bucket < mesh->setup.bucket_count);
    pthread_mutex_lock(&mesh->lock);
    mesh->state = block;
    mesh->first_bucket = state->first_bucket;
    core_on_applied(mesh->core, clock_us(), state);
    settle_and_unlock(mesh);
}

void
mesh_piece(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_piece(mesh->core, clock_us());
    settle_and_unlock(mesh);
}

float *
mesh_item(const struct mesh *mesh, unsigned stage, unsigned shard, bool gradient)
{
    size_t at = core_item_at(mesh->setup.shards, stage, shard, gradient);
    return (float *)(mesh->items + at * mesh->setup.stages.item_words);
}

void
mesh_want(struct mesh *mesh, uint64_t step, uint64_t round, uint64_t page)
{
    pthread_mutex_lock(&mesh->lock);
    core_want(mesh->core, clock_us(), step, round, page);
    settle_and_unlock(mesh);
}

void
mesh_damaged(struct mesh *mesh, enum core_damage what)
{
    pthread_mutex_lock(&mesh->lock);
    actor_settle(mesh);
    core_on_damaged(mesh->core, clock_us(), what);
    settle_and_unlock(mesh);
}

void
mesh_audited(struct mesh *mesh, bool equal)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_audited(mesh->core, clock_us(), equal);
    settle_and_unlock(mesh);
}

/* What state_in has of the segments that came before. */
static void
part_give_back(struct mesh *mesh)
{
    const struct core_stages *stages = &mesh->setup.stages;
    for (size_t k = 0; k < stages->span_count; k++) {
        const struct core_span *span = &stages->spans[k];
        if (span->segment != CORE_ALL_HOLD && (mesh->part >> span->segment & 1))
            pages_give_back(mesh->state_in + span->offset, span->size);
    }
}

void
mesh_part(struct mesh *mesh, uint64_t segments)
{
    pthread_mutex_lock(&mesh->lock);
    part_give_back(mesh);
    mesh->part = segments;
    core_part(mesh->core, clock_us(), segments);
    settle_and_unlock(mesh);
}

const uint8_t *
mesh_page_in(const struct mesh *mesh)
{
    return mesh->page_in;
}

void
mesh_file(struct mesh *mesh, uint64_t blocks, const void *data, size_t size)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_file(mesh->core, clock_us(), blocks, data, size);
    settle_and_unlock(mesh);
    actor_wake(mesh);
}

void
mesh_page(struct mesh *mesh, uint64_t round, const void *data, size_t size)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_page(mesh->core, clock_us(), round, data, size);
    settle_and_unlock(mesh);
    actor_wake(mesh);
}

void
mesh_interrupt(struct mesh *mesh)
{
    atomic_store(&mesh->interrupted, true);
    actor_wake(mesh);
}

void
mesh_in_use(struct mesh *mesh, bool in_use)
{
    pthread_mutex_lock(&mesh->lock);
    core_in_use(mesh->core, clock_us(), in_use);
    settle_and_unlock(mesh);
    actor_wake(mesh);
}

bool
mesh_ends_later(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    bool later = core_on_interrupt(mesh->core, clock_us());
    settle_and_unlock(mesh);
    actor_wake(mesh);
    return later;
}

void
mesh_known(struct mesh *mesh, const struct proto_endpoint *at)
{
    pthread_mutex_lock(&mesh->lock);
    core_on_known(mesh->core, clock_us(), at);
    settle_and_unlock(mesh);
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
    discover_network(mesh->discover, &out->network);
    discover_print(mesh->discover, true, out->interfaces, sizeof out->interfaces);
    discover_print(mesh->discover, false, out->names, sizeof out->names);
    out->mute = discover_reach(mesh->discover, out->address);
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

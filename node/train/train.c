/* train.c - the loop of a run: do what the mesh says until the state is done. */
#include "node/train/train_internal.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "node/cli/term.h"
#include "node/train/gossip_train.h"
#include "node/train/push_train.h"
#include "node/train/repair.h"
#include "proto/clock.h"
#include "proto/fail.h"

static struct mesh *_Atomic interruptible;
static volatile sig_atomic_t interrupted;

bool
train_interrupt(void)
{
    struct mesh *mesh = atomic_load(&interruptible);
    interrupted = 1;
    if (mesh)
        mesh_interrupt(mesh);
    return mesh != NULL;
}

bool
train_interrupted(void)
{
    return interrupted;
}

void
train_say(struct run *run, int level, const char *format, ...)
{
    char line[TRAIN_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (level <= run->config->log_level)
        metrics_say(run->metrics, level, line);
}

void
train_log(void *ctx, int level, const char *line)
{
    train_say(ctx, level, "%s", line);
}

enum { CAUGHT_S = 60 };

/* Returns 0, or the exit status. */
static int
repair_damaged(struct run *run)
{
    struct why why = {""};
    struct repair repair = {
        .dir = run->config->out,
        .mesh = run->mesh,
        .file = save_file(run->save, &run->state),
        .found = run->found,
        .peers_min = (unsigned)run->config->mesh.peers,
        .gather_ms = run->config->mesh.gather_ms,
        .say = train_log,
        .ctx = run,
    };
    enum repair_end end = repair_run(&repair, &why);
    run->found.whole = run->found.whole || end == REPAIR_DONE;
    if (end == REPAIR_INTERRUPTED)
        return 130;
    if (end == REPAIR_FAILED && !run->found.whole) {
        train_say(run, 3,
                  "%s: no whole checkpoint%s. Training does not start from step 0 by itself: "
                  "use --fresh for that",
                  run->config->out,
                  repair.met ? " here or on other nodes" : " here, and no other node was met");
        return 1;
    }
    if (run->found.whole)
        train_say(run, 6, "resumed at step %llu", (unsigned long long)run->state.header->step);
    return 0;
}

/* Tell the mesh where we are; what the next round exchanges follows from the state. */
static void
announce(struct run *run, uint64_t hash)
{
    size_t count;
    work_buckets(run->work, &count);
    bool evaluation = run->state.header->phase == STATE_EVALUATE;
    run->hash = hash;
    run->round = run->state.header->round;
    mesh_state(run->mesh, run->state.block,
               &(struct core_state){.round = gossip_train_is(run->config) ? run->state.header->step
                                                                          : run->round,
                                    .hash = hash,
                                    .first_bucket = evaluation ? count - 1 : 0,
                                    .done = run->state.header->done});
}

/* Is the state still the one that was told to the mesh? */
static bool
sound(struct run *run)
{
    run->damaged = run->damaged || state_hash(&run->state, run->pool) != run->hash;
    return !run->damaged;
}

/* What was computed from the state counts only if that has not changed since: nothing is final before the last bucket.
 * Gradients do not depend on the slots of the optimizer. Each step looks at these when it uses them. */
static bool
computed_soundly(struct run *run)
{
    if (run->state.header->phase != STATE_TRAIN)
        return sound(run);
    run->damaged = run->damaged || !state_params_sound(&run->state, run->pool);
    return !run->damaged;
}

/* The state that the present one was made of, if it is still there. */
static bool
state_before(struct run *run, uint64_t round)
{
    if (!run->before || run->next.header->round >= round ||
        state_hash(&run->next, run->pool) != run->before_hash)
        return false;
    state_swap(&run->state, &run->next);
    return true;
}

/* To the newest state before a round below `round` that can be trusted: the one before, a checkpoint, the one before
 * the first step. */
static void
go_back(struct run *run, uint64_t round)
{
    work_drop(run->work);
    save_withdraw(run->save, &run->state);
    if (!state_before(run, round) &&
        (run->anew || !save_find_below(run->save, &run->state, round))) {
        memset(run->state.block, 0, run->state.size);
        job_state(&run->job, run->config, &run->state);
    }
    run->before = run->damaged = false;
    announce(run, state_hash_anew(&run->state, run->pool));
}

/* What was computed from data that could not be read is not handed over, as nothing is final before the last
 * bucket; the others go on without this node. */
static bool
give_up(struct run *run)
{
    const char *why = data_failed(run->job.data);
    if (!why)
        return false;
    if (!run->blind)
        train_say(run, 3, "%s; leaving the mesh", why);
    run->blind = true;
    mesh_interrupt(run->mesh);
    return true;
}

/* What is told of it counts no more; the others go on without it, and have what is needed to catch up. */
static void
recover(struct run *run)
{
    train_say(run, 3, "the weights changed in memory: going back to older ones");
    train_say(run, 7, "the state before round %llu changed in memory",
              (unsigned long long)run->round);
    mesh_damaged(run->mesh);
    go_back(run, run->round);
}

/* Other nodes hold another one, or held another one before a round long ago. */
static void
retreat(struct run *run, uint64_t round)
{
    bool past = round < run->round;
    if (run->config->train.exact) /* inexact ones are others, and not wrong: the mesh has said so */
        train_say(run, 3, "the weights may be wrong: going back to older ones");
    train_say(run, 7, "the state before round %llu may be wrong", (unsigned long long)round);
    if (!past && run->reported == run->round)
        metrics_withdraw(run->metrics);
    go_back(run, round);
    if (past)
        metrics_withdraw_from(run->metrics, run->state.header->step + 1);
}

static void
bucket_ready(void *ctx, size_t bucket)
{
    struct run *run = ctx;
    size_t count;
    work_buckets(run->work, &count);
    if (bucket == count - 1 && (!computed_soundly(run) || data_failed(run->job.data)))
        return;
    mesh_bucket(run->mesh, bucket);
    metrics_alive(run->metrics);
}

static void
compute(struct run *run, const struct mesh_task *task)
{
    double start = clock_s();
    run->shards = task->fresh ? task->shards : run->shards | task->shards;
    fail_hit(FAIL_COMPUTE, run->state.block, run->state.size);
    run->damaged = !state_head_sound(&run->state);
    if (!run->damaged)
        work_round(run->work, &run->state, task->shards, task->fresh, mesh_own(run->mesh),
                   bucket_ready, run);
    run->compute_s += clock_s() - start;
    if (!give_up(run) && run->damaged)
        recover(run);
    fail_hit(FAIL_COMPUTED, run->state.block, run->state.size);
}

/* The next state is begun anew when the sum is that of another plan: what was made of it before is void. */
static void
begin_next(struct run *run)
{
    work_drop(run->work);
    run->before = false;
    run->early = state_head_sound(&run->state) &&
                 state_begin(&run->next, &run->state, mesh_sum(run->mesh), &run->event);
}

/* A bucket is final: apply it and compute ahead of the commit. The plan may last and give us the same shards. */
static void
work_ahead(struct run *run, const struct mesh_task *task)
{
    size_t count;
    const struct core_bucket *bucket = &work_buckets(run->work, &count)[task->bucket];
    double start = clock_s();
    if (task->fresh)
        begin_next(run);
    else if (run->early && bucket->first < run->state.param_count) /* not the ledger */
        state_apply(&run->next, &run->state, mesh_sum(run->mesh), bucket->first, bucket->count,
                    run->pool);
    if (run->early)
        work_begin(run->work, &run->next, run->shards, state_known(&run->next));
    run->compute_s += clock_s() - start;
}

/* The hash of the next state. It is there in part if work_ahead has begun it. */
static uint64_t
advance(struct run *run, bool fresh)
{
    const int32_t *total = mesh_sum(run->mesh);
    if (!fresh)
        return state_finish(&run->next, &run->state, total, run->pool);
    work_drop(run->work);
    run->before = false;
    return state_advance(&run->next, &run->state, total, &run->event, run->pool);
}

static void
commit(struct run *run, const struct mesh_task *task)
{
    const struct state_event *event = &run->event;
    struct why why;
    uint64_t coverage;
    double start = clock_s();
    fail_hit(FAIL_COMMIT, NULL, 0);
    if (!state_head_sound(&run->state)) {
        recover(run);
        return;
    }
    const int32_t *total = mesh_sum(run->mesh);
    uint64_t hash = 0;
    int bad = state_check_counts(&run->state, total, &coverage, &why);
    if (!bad) {
        hash = advance(run, task->fresh);
        bad = state_check_gradients(&run->next, &run->state, total, &why);
    }
    if (bad) {
        train_say(run, 4, "a sum of gradients is damaged: %s; computing it again", why.line);
        train_say(run, 7, "the total of round %llu is damaged",
                  (unsigned long long)run->state.header->round);
        work_drop(run->work);
        mesh_total_bad(run->mesh);
        return;
    }
    if (!hash) {
        recover(run);
        return;
    }
    run->event.coverage = coverage;
    state_swap(&run->state, &run->next);
    run->before = true;
    run->before_hash = run->hash;
    run->compute_s += clock_s() - start;
    if (event->skipped)
        train_tell_skipped(run, run->state.header->step);
    if (event->stepped || event->evaluated)
        train_report(run, event, task, hash, NULL);
    fail_hit(FAIL_REPORTED, NULL, 0);
    announce(run, hash);
    fail_hit(FAIL_ANNOUNCED, NULL, 0);
    if (run->anew)
        save_forget(run->save);
    run->anew = false;
    if (event->evaluated && !run->state.header->done)
        save_model(run->save, run->state.header, state_weights(&run->state));
    if (event->stepped)
        save_step(run->save, &run->state, event->steps, run->config->train.checkpoint_every);
}

/* At most once in CAUGHT_S: a slow node may do so again and again. */
static void
tell_caught_up(struct run *run)
{
    double now = clock_s();
    if (run->caught_at > 0 && now - run->caught_at < CAUGHT_S)
        return;
    run->caught_at = now;
    train_say(run, 6, "caught up: at step %llu of %llu",
              (unsigned long long)run->state.header->step,
              (unsigned long long)state_steps_total(&run->state));
}

static void
adopt(struct run *run, const struct mesh_task *task)
{
    fail_hit(FAIL_ADOPT, NULL, 0);
    work_drop(run->work);
    if (state_take(&run->state, mesh_state_in(run->mesh), task->state_hash, run->pool)) {
        train_say(run, 4, "the weights that were received are damaged: asking again");
        train_say(run, 7, "the state before round %llu is damaged",
                  (unsigned long long)task->round);
        mesh_state_bad(run->mesh);
        return;
    }
    run->before = false;
    tell_caught_up(run);
    fail_hit(FAIL_ADOPTED, NULL, 0);
    announce(run, task->state_hash);
}

/* Somebody else's shard, computed here: is it what was claimed? */
static void
audit(struct run *run, const struct mesh_task *task)
{
    double start = clock_s();
    unsigned shard = (unsigned)__builtin_ctzll(task->shards);
    bool equal = work_probe(run->work, &run->state, shard, run->scratch, task->claim);
    run->compute_s += clock_s() - start;
    if (!give_up(run))
        mesh_audited(run->mesh, equal);
}

/* Until the run is done or interrupted. */
static enum mesh_task_kind
follow_mesh(struct run *run)
{
    for (;;) {
        struct mesh_task task;
        double start = clock_s();
        mesh_next(run->mesh, &task);
        run->wait_s += clock_s() - start;
        train_tell_lonely(run);
        switch (task.kind) {
        case MESH_COMPUTE:
            if (run->gossip && gossip_train_step(run, &task))
                return MESH_INTERRUPTED;
            if (!run->gossip)
                compute(run, &task);
            break;
        case MESH_SUMMED:
            work_ahead(run, &task);
            break;
        case MESH_COMMIT:
            (run->gossip ? gossip_train_finish : commit)(run, &task);
            break;
        case MESH_ADOPT:
            adopt(run, &task);
            break;
        case MESH_AUDIT:
            audit(run, &task);
            break;
        case MESH_BACK:
            retreat(run, task.round);
            break;
        case MESH_PAGE: /* asked for and not waited for */
            break;
        case MESH_IDLE:
            metrics_alive(run->metrics);
            train_tell_doing(run);
            break;
        case MESH_INTERRUPTED:
            if (gossip_train_ends_later(run))
                break;
            return task.kind;
        case MESH_DONE:
            return task.kind;
        }
    }
}

static int
run_mesh(struct run *run)
{
    struct why why = {""};
    if (run->found.damaged_count && train_is_free(run->config)) {
        if (train_tell_damaged(run))
            return 1;
    } else if (run->found.damaged_count) {
        int status = repair_damaged(run);
        if (status)
            return status;
    }
    if (gossip_train_is(run->config))
        gossip_train_values(run);
    announce(run, state_hash_anew(&run->state, run->pool));
    bool done = (run->push ? push_train_follow(run) : follow_mesh(run)) == MESH_DONE;
    if (!done && train_is_free(run->config) && !push_train_saved(run)) {
        save_wait(run->save);
        if (train_tell_hopeless(run))
            return 1;
        if (run->gossip && run->state.header->round &&
            save_model_last(run->save, &run->state, &why))
            train_say(run, 4, "%s", why.line);
        train_tell_left(run);
        return 130;
    }
    fail_hit(FAIL_DONE, run->state.block, run->state.size);
    if (!sound(run)) {
        train_say(run, 3,
                  "the state changed in memory: no checkpoint and no results were written; start "
                  "again to "
                  "go on from the other nodes or the last checkpoint");
        return 1;
    }
    metrics_find(run->metrics);
    int failed = save_last(run->save, &run->state, &why);
    if (done && train_tell_hopeless(run))
        return 1;
    if (!done && !failed && run->state.header->round)
        failed = save_model_last(run->save, &run->state, &why);
    if (!done) {
        train_tell_stopped(run, failed ? why.line : NULL);
        return run->blind ? 1 : 130;
    }
    int rc = train_results(run);
    fail_hit(FAIL_RESULT, NULL, 0);
    return rc ? 1 : 0;
}

int
train_run(struct config *config, enum train_start start)
{
    struct run run = {.config = config, .started = clock_s()};
    struct why why = {""};
    int status = 2;
    if (train_open(&run, start, &why) == 0) {
        atomic_store(&interruptible, run.mesh);
        status = run_mesh(&run);
    } else {
        term_fail("%s", why.line);
    }
    atomic_store(&interruptible, NULL);
    train_close(&run);
    return status;
}

/* train.c - one run: set up the job, then do what the mesh says until the state is done. */
#include "node/train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sodium.h>

#include "mesh/mesh.h"
#include "nn/files.h"
#include "node/job.h"
#include "node/memory.h"
#include "node/metrics.h"
#include "node/repair.h"
#include "node/save.h"
#include "node/state.h"
#include "node/work.h"
#include "proto/fail.h"

enum { LINE = 512, RESULTS_PATIENCE_S = 10 };

struct run {
    struct config *config;
    struct job job;       /* data, model, exponent blocks */
    struct memory memory; /* what there is of it, and how it is used */
    struct spill spill;
    struct pool *pool;
    struct work *work;
    uint64_t hash, round;     /* of the state, as it was told to the mesh */
    bool damaged;             /* it is not what it was */
    bool blind;               /* the data can no longer be read */
    uint64_t reported;        /* the last round in the metrics */
    bool before;              /* `next` is the one that it was made of, */
    uint64_t before_hash;     /* which had this hash */
    int32_t *scratch;         /* [vector] for audits, else NULL */
    struct state state, next; /* the present one; F builds the next beside it */
    struct state_event event; /* of the round that leads to next */
    bool early;               /* next may be built bucket by bucket */
    uint64_t shards;          /* computed here for the present round */
    struct mesh *mesh;
    struct metrics *metrics;
    struct save *save;
    struct checkpoint_found found;
    bool resumed; /* an earlier run goes on */
    bool anew;    /* the first step ends what an earlier run left */
    uint64_t job_hash;
    double started, step_started;
    double compute_s, wait_s; /* since the last step */
    uint64_t tx, rx;          /* at the last step */
    unsigned peers_max;
    bool failed;
};

static struct mesh *_Atomic interruptible;
static volatile sig_atomic_t interrupted;

void
train_interrupt(void)
{
    interrupted = 1;
    struct mesh *mesh = atomic_load(&interruptible);
    if (mesh)
        mesh_interrupt(mesh);
}

static double
now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((format(printf, 3, 4))) static void
say(struct run *run, int level, const char *format, ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (level <= run->config->log_level)
        metrics_say(run->metrics, level, line);
}

static void
log_line(void *ctx, int level, const char *line)
{
    say(ctx, level, "%s", line);
}

/* Set-up ------------------------------------------------------------------------------------------ */

static int
open_memory(struct run *run, char *why, size_t why_size)
{
    int rc = memory_plan(&run->memory, run->config, &run->job, why, why_size);
    if (rc || !run->memory.spilled)
        return rc;
    return spill_open(&run->spill, run->config->out, memory_file(&run->memory), why, why_size);
}

/* NULL: on the heap. */
static void *
idle_memory(struct run *run, size_t size)
{
    return run->memory.spilled ? spill_take(&run->spill, size) : NULL;
}

static int
open_state(struct run *run, char *why, size_t why_size)
{
    const struct config *config = run->config;
    struct state_job job = job_rules(&run->job, config);
    size_t params = nn_param_count(run->job.model);
    size_t size = state_size(&job.optim, params, exact_blocks(run->job.exact));
    struct state_job other = job;
    job.block = idle_memory(run, size);
    other.block = idle_memory(run, size);
    if (state_init(&run->state, &job, run->job.exact, params) ||
        state_init(&run->next, &other, run->job.exact, params)) {
        snprintf(why, why_size, "not enough memory for %zu parameters", params);
        return -ENOMEM;
    }
    state_start(&run->state);
    job_params(&run->job, config, run->state.params);
    return 0;
}

static void
sign_of_life(void *ctx)
{
    metrics_alive(((struct run *)ctx)->metrics);
}

static int
open_work(struct run *run, char *why, size_t why_size)
{
    const struct config *config = run->config;
    int rc = pool_new(&run->pool, config->threads);
    if (rc) {
        snprintf(why, why_size, "%u threads: %s", config->threads, strerror(-rc));
        return rc;
    }
    struct work_setup setup = {
        .model = run->job.model,
        .data = run->job.data,
        .exact = run->job.exact,
        .pool = run->pool,
        .threads = config->threads,
        .shards = config->train.shards,
        .batch = config->train.batch,
        .local_steps = config->train.local_steps,
        .local = config->train.optim,
        .alive = sign_of_life,
        .alive_ctx = run,
        .seed = config->run.seed,
        .exact_mode = config->train.exact,
        .lanes = run->memory.lanes,
        .bucket_bytes = config->mesh.bucket,
        .claims = config->mesh.audit > 0,
    };
    rc = work_new(&run->work, &setup);
    if (!rc && setup.claims) {
        run->scratch = calloc(work_vector_count(run->work), sizeof *run->scratch);
        rc = run->scratch ? 0 : -ENOMEM;
    }
    if (rc)
        snprintf(why, why_size, "not enough memory for the activations of %llu samples",
                 (unsigned long long)config->train.batch);
    return rc;
}

static void
answer_page(void *ctx, uint64_t round, const void *data, size_t size)
{
    mesh_page(((struct run *)ctx)->mesh, round, data, size);
}

static void
serve_page(void *ctx, uint64_t step, uint64_t round, uint64_t page)
{
    save_serve(((struct run *)ctx)->save, step, round, page);
}

static int
open_mesh(struct run *run, char *why, size_t why_size)
{
    struct config *config = run->config;
    struct mesh_setup setup = {
        .group = config->mesh.group,
        .interface = config->mesh.interface[0] ? config->mesh.interface : NULL,
        .port = (uint16_t)config->mesh.port,
        .beacon_port = (uint16_t)config->mesh.beacon_port,
        .seeds = config->mesh.seed,
        .seed_count = config->mesh.seed_count,
        .shards = config->train.shards,
        .peers_min = config->mesh.peers ? config->mesh.peers : 1,
        .gather_ms = config->mesh.gather_ms,
        .vector_count = work_vector_count(run->work),
        .state_size = run->state.size,
        .idle = idle_memory(
            run, mesh_idle_size(run->state.size, work_vector_count(run->work) * sizeof(int32_t))),
        .job = config->text,
        .want = serve_page,
        .want_ctx = run,
        .log = log_line,
        .log_ctx = run,
    };
    setup.buckets = work_buckets(run->work, &setup.bucket_count);
    setup.audit = config->mesh.audit;
    setup.audit_bucket = setup.audit > 0 ? setup.bucket_count - 2 : 0;
    snprintf(setup.hello.run, sizeof setup.hello.run, "%s", config->run.name);
    snprintf(setup.hello.kernel, sizeof setup.hello.kernel, "%s", run->job.kernel);
    setup.hello.job_hash = run->job_hash;
    setup.hello.numerics = nn_fingerprint();
    int rc = mesh_new(&run->mesh, &setup, why, why_size);
    atomic_store(&interruptible, run->mesh);
    return rc;
}

/* Checkpoints and results ------------------------------------------------------------------------- */

static void
alarm_line(void *ctx, const char *line)
{
    metrics_alarm(((struct run *)ctx)->metrics, line);
}

static int
open_save(struct run *run, char *why, size_t why_size)
{
    const struct save_setup setup = {
        .dir = run->config->out,
        .job_hash = run->job_hash,
        .numerics = nn_fingerprint(),
        .size = run->state.size,
        .spill = run->memory.spilled ? &run->spill : NULL,
        .answer = answer_page,
        .say = log_line,
        .alarm = alarm_line,
        .ctx = run,
    };
    return save_new(&run->save, &setup, why, why_size);
}

/* The newest whole checkpoint into the state, as `start` says. What is damaged is repaired later, when there
 * are others to ask. */
static int
resume_from(struct run *run, enum train_start start, char *why, size_t why_size)
{
    struct checkpoint_found *found = &run->found;
    run->anew = start == TRAIN_FRESH || (start == TRAIN_AUTO && save_ended(run->save));
    if (run->anew)
        return 0;
    int rc = save_find(run->save, &run->state, found, why, why_size);
    run->resumed = found->whole || found->damaged_count > 0;
    if (run->resumed || !why[0])
        return rc == -ENOENT ? 0 : rc;
    if (rc == -ENOENT && !found->unfit && start == TRAIN_AUTO)
        return 0;
    size_t used = strlen(why);
    snprintf(why + used, why_size - used, "; --fresh begins anew");
    return rc;
}

/* Returns 0, or the exit status. */
static int
repair_damaged(struct run *run)
{
    char why[LINE] = "";
    struct repair repair = {
        .dir = run->config->out,
        .mesh = run->mesh,
        .file = save_file(run->save, &run->state),
        .found = run->found,
        .peers_min = (unsigned)run->config->mesh.peers,
        .gather_ms = run->config->mesh.gather_ms,
        .say = log_line,
        .ctx = run,
    };
    enum repair_end end = repair_run(&repair, why, sizeof why);
    run->found.whole = run->found.whole || end == REPAIR_DONE;
    if (end == REPAIR_INTERRUPTED)
        return 130;
    if (end == REPAIR_FAILED && !run->found.whole) {
        say(run, 3,
            "%s: no checkpoint is whole, here or elsewhere, and training does not start over "
            "by itself; --fresh begins anew",
            run->config->out);
        return 1;
    }
    if (run->found.whole)
        say(run, 6, "resumed at step %llu", (unsigned long long)run->state.header->step);
    return 0;
}

static void
sha256_hex(const void *data, size_t size, char out[65])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, data, size);
    sodium_bin2hex(out, 65, hash, sizeof hash);
}

static int
write_files(struct run *run, const struct metrics_result *result, char *why, size_t why_size)
{
    char path[CONFIG_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/model.safetensors", run->config->out);
    const char *metadata[] = {"run", run->config->run.name, "params_sha256", result->params_sha256,
                              NULL};
    int rc = safetensors_write(path, run->job.model, state_weights(&run->state), metadata, why,
                               why_size);
    return rc ? rc : metrics_result(run->metrics, result, why, why_size);
}

/* A disk that is full may be full for a while only. */
static int
insist(struct run *run, const struct metrics_result *result)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    double until = now_s() + RESULTS_PATIENCE_S;
    char why[LINE];
    int rc = write_files(run, result, why, sizeof why);
    if (rc)
        say(run, 4, "%s; trying again for %d s", why, RESULTS_PATIENCE_S);
    while (rc && !interrupted && now_s() < until) {
        nanosleep(&pause, NULL);
        rc = write_files(run, result, why, sizeof why);
    }
    if (rc)
        say(run, 3, "%s: the results could not be written", why);
    return rc;
}

static int
write_results(struct run *run)
{
    const struct state_header *h = run->state.header;
    char node[PROTO_NAME_MAX];
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    snprintf(node, sizeof node, "%016llx", (unsigned long long)stats.node.id);
    struct metrics_result result = {
        .run = run->config->run.name,
        .node = node,
        .steps = h->step,
        .epochs = h->epoch,
        .samples = h->samples,
        .train_loss = h->train_loss,
        .test_loss = h->evaluations ? h->test_loss : (double)NAN,
        .test_accuracy = h->evaluations && run->state.job.labels ? h->test_accuracy : (double)NAN,
        .wall_s = now_s() - run->started,
        .exact = run->config->train.exact,
        .peers_max = run->peers_max,
        .plans = stats.core.plans,
        .aborts = stats.core.aborts,
        .damages = stats.core.damages,
        .audits = stats.core.probes,
        .expelled = stats.core.expulsions,
        .tx_bytes = stats.tx_bytes,
        .rx_bytes = stats.rx_bytes,
    };
    sha256_hex(state_weights(&run->state), run->state.param_count * sizeof(float),
               result.params_sha256);
    sha256_hex(run->state.block, run->state.size, result.state_sha256);
    int rc = insist(run, &result);
    metrics_show_result(run->metrics, &result);
    return rc;
}

/* The loop ---------------------------------------------------------------------------------------- */

static void
report_step(struct run *run, const struct state_event *event, uint64_t hash)
{
    const struct state_header *h = run->state.header;
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    if (stats.core.members > run->peers_max)
        run->peers_max = stats.core.members;
    struct metrics_step line = {
        .step = h->step,
        .steps_total = state_steps_total(&run->state),
        .epoch = event->stepped && !h->epoch_step ? h->epoch - 1 : h->epoch,
        .loss = event->loss,
        .accuracy = event->accuracy,
        .peers = stats.core.members,
        .plan = stats.core.plan,
        .samples = event->evaluated ? 0 : event->samples,
        .first = event->first,
        .coverage = event->coverage,
        .shards = stats.core.mine,
        .rows = event->rows,
        .ledger = h->ledger,
        .compute_s = run->compute_s,
        .wait_s = run->wait_s,
        .tx_bytes = stats.tx_bytes - run->tx,
        .rx_bytes = stats.rx_bytes - run->rx,
        .state_hash = hash,
        .skipped = event->skipped,
        .evaluated = event->evaluated,
        .test_loss = h->test_loss,
        .test_accuracy = run->state.job.labels ? h->test_accuracy : -1,
    };
    metrics_step(run->metrics, &line);
    run->reported = h->round;
    run->compute_s = run->wait_s = 0;
    run->tx = stats.tx_bytes;
    run->rx = stats.rx_bytes;
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
    mesh_state(run->mesh, run->state.header->round, run->state.block, hash,
               evaluation ? count - 1 : 0, run->state.header->done);
}

/* Is the state still the one that was told to the mesh? What is computed from it counts only if it is: nothing
 * is final before the last bucket. */
static bool
sound(struct run *run)
{
    run->damaged = run->damaged || state_hash(&run->state, run->pool) != run->hash;
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
        state_start(&run->state);
        job_params(&run->job, run->config, run->state.params);
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
        say(run, 3, "%s; leaving the mesh", why);
    run->blind = true;
    mesh_interrupt(run->mesh);
    return true;
}

/* What is told of it counts no more; the others go on without it, and have what is needed to catch up. */
static void
recover(struct run *run)
{
    say(run, 3, "the state before round %llu changed in memory: going back to an older one",
        (unsigned long long)run->round);
    mesh_damaged(run->mesh);
    go_back(run, run->round);
}

/* Other nodes hold another one, or held another one before a round long ago. */
static void
retreat(struct run *run, uint64_t round)
{
    bool past = round < run->round;
    say(run, 3, "the state before round %llu may be wrong: going back to an older one",
        (unsigned long long)round);
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
    if (bucket == count - 1 && (!sound(run) || data_failed(run->job.data)))
        return;
    mesh_bucket(run->mesh, bucket);
    metrics_alive(run->metrics);
}

static void
compute(struct run *run, const struct mesh_task *task)
{
    double start = now_s();
    run->shards = task->fresh ? task->shards : run->shards | task->shards;
    fail_hit(FAIL_COMPUTE, run->state.block, run->state.size);
    run->damaged = !state_head_sound(&run->state);
    if (!run->damaged)
        work_round(run->work, &run->state, task->shards, task->fresh, mesh_own(run->mesh),
                   bucket_ready, run);
    run->compute_s += now_s() - start;
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
    double start = now_s();
    if (task->fresh)
        begin_next(run);
    else if (run->early && bucket->first < run->state.param_count) /* not the ledger */
        state_apply(&run->next, &run->state, mesh_sum(run->mesh), bucket->first, bucket->count,
                    run->pool);
    if (run->early)
        work_begin(run->work, &run->next, run->shards, state_known(&run->next));
    run->compute_s += now_s() - start;
}

static void
commit(struct run *run, const struct mesh_task *task)
{
    const struct state_event *event = &run->event;
    char why[LINE];
    uint64_t coverage;
    double start = now_s();
    fail_hit(FAIL_COMMIT, NULL, 0);
    if (!state_head_sound(&run->state)) {
        recover(run);
        return;
    }
    if (state_check(&run->state, mesh_sum(run->mesh), &coverage, why, sizeof why)) {
        say(run, 4, "the total of round %llu is damaged: %s; computing it again",
            (unsigned long long)run->state.header->round, why);
        work_drop(run->work);
        mesh_total_bad(run->mesh);
        return;
    }
    if (task->fresh)
        begin_next(run);
    run->event.coverage = coverage;
    state_finish(&run->next, &run->state, mesh_sum(run->mesh), run->pool);
    fail_hit(FAIL_APPLIED, run->next.block, run->next.size);
    uint64_t hash = state_hash_rest(&run->next, run->pool);
    if (state_doubted(&run->next, &run->state)) {
        recover(run);
        return;
    }
    state_swap(&run->state, &run->next);
    run->before = true;
    run->before_hash = run->hash;
    run->compute_s += now_s() - start;
    if (event->skipped)
        say(run, 4, "step %llu: NaN or infinity in the gradient, skipped by all nodes",
            (unsigned long long)run->state.header->step - 1);
    if (event->stepped || event->evaluated)
        report_step(run, event, hash);
    fail_hit(FAIL_REPORTED, NULL, 0);
    announce(run, hash);
    fail_hit(FAIL_ANNOUNCED, NULL, 0);
    if (run->anew)
        save_forget(run->save);
    run->anew = false;
    if (event->stepped)
        save_step(run->save, &run->state, event->steps, run->config->train.checkpoint_every);
}

static void
adopt(struct run *run, const struct mesh_task *task)
{
    fail_hit(FAIL_ADOPT, NULL, 0);
    work_drop(run->work);
    if (state_take(&run->state, mesh_state_in(run->mesh), task->state_hash, run->pool)) {
        say(run, 4, "a state received for round %llu is damaged: asking again",
            (unsigned long long)task->round);
        mesh_state_bad(run->mesh);
        return;
    }
    run->before = false;
    say(run, 6, "caught up: took the state of step %llu from the mesh",
        (unsigned long long)run->state.header->step);
    fail_hit(FAIL_ADOPTED, NULL, 0);
    announce(run, task->state_hash);
}

/* Somebody else's shard, computed here: is it what was claimed? */
static void
audit(struct run *run, const struct mesh_task *task)
{
    double start = now_s();
    unsigned shard = (unsigned)__builtin_ctzll(task->shards);
    bool equal = work_probe(run->work, &run->state, shard, run->scratch, task->claim);
    run->compute_s += now_s() - start;
    if (!give_up(run))
        mesh_probed(run->mesh, equal);
}

/* Until the run is done or interrupted. */
static enum mesh_task_kind
follow_mesh(struct run *run)
{
    for (;;) {
        struct mesh_task task;
        double start = now_s();
        mesh_next(run->mesh, &task);
        run->wait_s += now_s() - start;
        switch (task.kind) {
        case MESH_COMPUTE:
            compute(run, &task);
            break;
        case MESH_SUMMED:
            work_ahead(run, &task);
            break;
        case MESH_COMMIT:
            commit(run, &task);
            break;
        case MESH_ADOPT:
            adopt(run, &task);
            break;
        case MESH_PROBE:
            audit(run, &task);
            break;
        case MESH_BACK:
            retreat(run, task.round);
            break;
        case MESH_PAGE: /* asked for and not waited for */
            break;
        case MESH_IDLE:
            metrics_alive(run->metrics);
            break;
        case MESH_DONE:
        case MESH_INTERRUPTED:
            return task.kind;
        }
    }
}

static int
run_mesh(struct run *run)
{
    char why[LINE] = "";
    if (interrupted)
        mesh_interrupt(run->mesh);
    if (run->found.damaged_count) {
        int status = repair_damaged(run);
        if (status)
            return status;
    }
    announce(run, state_hash_anew(&run->state, run->pool));
    bool done = follow_mesh(run) == MESH_DONE;
    fail_hit(FAIL_DONE, run->state.block, run->state.size);
    if (!sound(run)) {
        say(run, 3,
            "the state changed in memory: neither a checkpoint nor results of it are written; "
            "start "
            "again to have them from the others or the last checkpoint");
        return 1;
    }
    const struct state_header *h = run->state.header;
    int saved = save_last(run->save, &run->state, why, sizeof why);
    if (!done)
        say(run, 4, "%s at step %llu: %s%s", run->blind ? "stopped" : "interrupted",
            (unsigned long long)h->step,
            saved      ? "no checkpoint: "
            : h->round ? "checkpoint written to "
                       : "nothing to save in ",
            saved ? why : run->config->out);
    if (!done)
        return run->blind ? 1 : 130;
    int rc = write_results(run);
    fail_hit(FAIL_RESULT, NULL, 0);
    return rc ? 1 : 0;
}

static int
open_run(struct run *run, enum train_start start, char *why, size_t why_size)
{
    int rc = job_open(&run->job, run->config, why, why_size);
    if (!rc)
        rc = job_start(&run->job, run->config, why, why_size);
    if (!rc)
        rc = open_memory(run, why, why_size);
    if (!rc)
        rc = open_state(run, why, why_size);
    if (!rc)
        rc = open_work(run, why, why_size);
    if (rc)
        return rc;
    run->job_hash = job_hash(&run->job, run->config);
    rc = open_save(run, why, why_size);
    if (!rc)
        rc = resume_from(run, start, why, why_size);
    if (!rc)
        rc = metrics_new(&run->metrics, run->config->out, run->resumed, run->config->quiet, why,
                         why_size);
    if (!rc)
        metrics_job(run->metrics, &(struct metrics_job){
                                      .run = run->config->run.name,
                                      .job = run->job_hash,
                                      .seed = run->config->run.seed,
                                      .train = data_info(run->job.data)->train,
                                      .batch = run->config->train.batch,
                                      .steps = state_steps_total(&run->state),
                                      .shards = run->config->train.shards,
                                      .local_steps = run->config->train.local_steps,
                                  });
    if (!rc && run->found.whole && !run->found.damaged_count)
        say(run, 6, "resumed at step %llu%s%s", (unsigned long long)run->state.header->step,
            why[0] ? "; skipped " : "", why);
    if (!rc && (run->memory.spilled || run->memory.lanes < run->config->train.shards))
        say(run, 6, "train.memory_max: %u of %u shards at a time%s", run->memory.lanes,
            run->config->train.shards, run->memory.spilled ? ", states in a file" : "");
    if (!rc && run->job.from)
        say(run, 6, "the job starts from %s, weights %016llx", run->config->model.from,
            (unsigned long long)run->job.from_hash);
    if (!rc)
        rc = open_mesh(run, why, why_size);
    return rc;
}

static void
close_run(struct run *run)
{
    atomic_store(&interruptible, NULL);
    save_quiet(run->save);
    mesh_destroy(&run->mesh);
    save_destroy(&run->save);
    metrics_destroy(&run->metrics);
    free(run->scratch);
    work_destroy(&run->work);
    pool_destroy(&run->pool);
    state_fini(&run->next);
    state_fini(&run->state);
    spill_close(&run->spill);
    job_close(&run->job);
}

int
train_run(struct config *config, enum train_start start)
{
    struct run run = {.config = config, .started = now_s()};
    char why[LINE] = "";
    int status = 2;
    if (sodium_init() < 0)
        snprintf(why, sizeof why, "libsodium does not start");
    else if (open_run(&run, start, why, sizeof why) == 0)
        status = run_mesh(&run);
    if (status == 2)
        fprintf(stderr, "meshnode: %s\n", why);
    close_run(&run);
    return status;
}

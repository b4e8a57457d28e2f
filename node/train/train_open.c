/* train_open.c - a run set up: job, memory, state, workers, the checkpoint it goes on from, metrics, mesh; and
 * closed. */
#include "node/train/train_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "node/base/host.h"
#include "node/base/parse.h"
#include "node/job/data_text.h"
#include "node/train/from.h"
#include "node/train/gather.h"
#include "node/train/job_differ.h"
#include "node/train/left.h"
#include "node/train/meeting.h"
#include "proto/mix.h"
#include "proto/text.h"

static int
open_memory(struct run *run, struct why *why)
{
    int rc = memory_here(&run->memory, run->config, &run->job, why);
    if (rc || !run->memory.spilled)
        return rc;
    return spill_open(&run->spill, run->config->out, memory_file(&run->memory), why);
}

/* NULL: on the heap. */
static void *
idle_memory(struct run *run, size_t size)
{
    return run->memory.spilled ? spill_take(&run->spill, size) : NULL;
}

static int
open_state(struct run *run, struct why *why)
{
    const struct config *config = run->config;
    struct state_job job = job_rules(&run->job, config);
    size_t params = nn_param_count(run->job.model);
    size_t size =
        state_size(state_slots(&job.rules.optim, job.bases), params, exact_blocks(run->job.exact));
    struct state_job other = job;
    job.block = idle_memory(run, size);
    other.block = idle_memory(run, size);
    if (state_init(&run->state, &job, run->job.exact, params) ||
        state_init(&run->next, &other, run->job.exact, params))
        return why_error(why, -ENOMEM, "not enough memory for %zu parameters", params);
    return run->memory.part ? 0 : job_state(&run->job, config, &run->state, why);
}

static void
sign_of_life(void *ctx)
{
    metrics_alive(((struct run *)ctx)->metrics);
}

static void
tell_evaluation(void *ctx, uint64_t done, uint64_t all)
{
    char line[64];
    snprintf(line, sizeof line, "evaluating %ju/%ju", done, all);
    sign_of_life(ctx);
    metrics_doing(((struct run *)ctx)->metrics, line);
}

static int
open_work(struct run *run, struct why *why)
{
    const struct config *config = run->config;
    int rc = config->idle ? pool_new_idle(&run->pool, config->threads)
                          : pool_new(&run->pool, config->threads);
    if (rc)
        return why_error(why, rc, "%u threads: %s", config->threads, strerror(-rc));
    struct work_setup setup = job_work(&run->job, config);
    setup.pool = run->pool;
    setup.lanes = run->memory.lanes;
    setup.alive = sign_of_life;
    setup.evaluates = tell_evaluation;
    setup.alive_ctx = run;
    rc = work_new(&run->work, &setup);
    if (rc)
        why_set(why, "not enough memory for the activations of %ju samples", config->train.batch);
    return rc;
}

static void
answer_page(void *ctx, uint64_t round, const void *data, size_t size)
{
    mesh_page(((struct run *)ctx)->mesh, round, data, size);
}

/* How the job of another node, `theirs`, differs from ours. */
static void
tell_other_job(void *ctx, const char *theirs, size_t size, char *out, size_t out_size)
{
    const struct run *run = ctx;
    bool data;
    job_differ(run->config, run->job.data, theirs, size, out, out_size, &data);
}

static void
tell_twin(void *ctx, const char *who)
{
    struct run *run = ctx;
    if (run->told.twin)
        return;
    run->told.twin = true;
    train_say(run, 4,
              "%s has this node's identity: %s was copied. %s/identity is deleted, and the next "
              "start draws another one",
              who, run->config->out, run->config->out);
    meeting_forget(run->config->out);
}

static void
share_file(void *ctx, const struct core_file_block *wanted)
{
    share_wanted(((struct run *)ctx)->share, wanted);
}

static int
open_mesh(struct run *run, struct why *why)
{
    struct config *config = run->config;
    size_t vector = work_vector_count(run->work);
    run->offer = data_text_offer(config->text, run->job.data);
    if (!run->offer)
        return why_error(why, -ENOMEM, "not enough memory for the text of the job");
    struct mesh_setup setup = {
        .shards = config->train.shards,
        .peers_min = config->mesh.peers ? config->mesh.peers : 1,
        .even = config->mesh.even,
        .gather_ms = config->mesh.gather_ms,
        .vector_count = vector,
        .state_size = run->state.size,
        .idle = idle_memory(run, mesh_idle_size(run->state.size, vector * sizeof(int32_t))),
        .job = run->offer,
        .program = {.differ = tell_other_job,
                    .file_wanted = share_file,
                    .twin = tell_twin,
                    .log = train_log},
        .ctx = run,
    };
    setup.buckets = work_buckets(run->work, &setup.bucket_count);
    run->way->config(run, &setup);
    snprintf(setup.hello.run, sizeof setup.hello.run, "%s", config->run.name);
    snprintf(setup.hello.kernel, sizeof setup.hello.kernel, "%s", run->job.kernel);
    meeting_setup(config, &setup);
    setup.hello.job_hash = mix64_pair(run->job_hash, config->exchange_hash);
    setup.hello.identity = meeting_identity(config->out);
    setup.hello.numerics = nn_fingerprint();
    if (share_new(&run->share, data_manifest(run->job.data), config->model.from, train_log, run))
        return why_error(why, -ENOMEM, "not enough memory to give files to others");
    if (config->no_share)
        setup.program.file_wanted = NULL;
    int rc = mesh_new(&run->mesh, &setup, why);
    if (rc)
        return rc;
    share_begin(run->share, run->mesh);
    meeting_keep(config->out, setup.hello.identity);
    meeting_recall(run->mesh, config->out);
    return 0;
}

static void
alarm_line(void *ctx, const char *line)
{
    metrics_alarm(((struct run *)ctx)->metrics, line);
}

/* What a checkpoint speaks of must not be lost when it is not. */
static void
before_save(void *ctx)
{
    struct run *run = ctx;
    metrics_sync(run->metrics);
    train_journal_sync(run);
}

static int
open_save(struct run *run, struct why *why)
{
    size_t more_size = 0;
    void *more = run->way->more ? run->way->more(run, &more_size) : NULL;
    struct save_setup setup = {
        .dir = run->config->out,
        .more_name = run->way->name,
        .more = more,
        .more_size = more_size,
        .job_hash = run->job_hash,
        .numerics = nn_fingerprint(),
        .spill = run->memory.spilled ? &run->spill : NULL,
        .answer = answer_page,
        .before = before_save,
        .say = train_log,
        .alarm = alarm_line,
        .ctx = run,
        .model = train_model,
        .weight_count = run->state.param_count,
    };
    setup.extent_count = state_extents(&run->state, setup.extent);
    return save_new(&run->save, &setup, why);
}

/* There are checkpoints, but only of other jobs. They may be older than a run of ours that had none yet: job.json tells
 * whose metrics these are. */
static int
check_left(const struct run *run, const struct left *left, enum train_start start, struct why *why)
{
    char reason[TRAIN_LINE];
    if (left->known && left->job.job == run->job_hash)
        return 0;
    left_tell(left, run->config, &run->job, start, reason, sizeof reason);
    return why_error(why, -EEXIST, "%s: %s", run->config->out, reason);
}

/* The newest checkpoint of an earlier part of the run, where there is none of this job. */
static void
read_earlier_part(struct run *run, struct checkpoint_found *out, struct why *why)
{
    const struct job *job = &run->job;
    for (size_t i = job->past_count; i-- > 0 && !out->whole;) {
        struct checkpoint_found found;
        struct why reason;
        save_find_part(run->save, job->past_hash[i], job->past[i].until, &run->state, &found,
                       &reason);
        out->whole = found.whole;
    }
    if (!out->whole)
        return;
    state_go_on(&run->state);
    why_set(why, "%s", "");
}

int
train_read(struct run *run, struct checkpoint_found *found, struct why *why)
{
    int rc = save_find(run->save, &run->state, found, why);
    if (rc == -ENOENT)
        read_earlier_part(run, found, why);
    return rc;
}

/* Where it is not known yet what this node holds: is there a checkpoint? */
static int
look_for(struct run *run, struct why *why)
{
    struct checkpoint_found *found = &run->folder.found;
    int rc = run->folder.unread ? 0 : train_read(run, found, why);
    run->folder.unread = run->folder.unread || found->whole || found->damaged_count > 0;
    *found = (struct checkpoint_found){.unfit = found->unfit};
    return rc;
}

/* The newest whole checkpoint into the state, as `start` says. What is damaged is repaired later, when there
 * are others to ask. */
static int
resume_from(struct run *run, enum train_start start, struct why *why)
{
    struct checkpoint_found *found = &run->folder.found;
    struct left left;
    left_read(&left, run->config->out, NULL);
    size_t part = left_part(&left, &run->job);
    bool goes_on = part < run->job.past_count;
    run->folder.fresh = start == TRAIN_FRESH || (start == TRAIN_AUTO && left.ended && !goes_on);
    run->folder.replaces = run->folder.fresh && (left.known || left.ended);
    run->folder.restarts = !run->folder.fresh && left.known && left.job.job == run->job_hash;
    run->folder.ended = left.ended;
    run->folder.unreadable = left.unreadable;
    run->folder.kept = goes_on ? run->job.past[part].until : 0;
    bool known = !run->way->holding || run->way->holding(run);
    int rc = run->folder.fresh ? 0 : known ? train_read(run, found, why) : look_for(run, why);
    run->folder.resumed = found->whole || found->damaged_count > 0 || run->folder.unread ||
                          (goes_on && !run->folder.fresh);
    if (run->folder.fresh || run->folder.resumed || (rc == -ENOENT && !why->line[0])) {
        rc = 0;
    } else if (rc == -ENOENT && !found->unfit) { /* else the folder itself */
        rc = check_left(run, &left, start, why);
    } else if (rc == -ENOENT) {
        why_append(why, "; --fresh begins again");
    }
    left_fini(&left);
    return rc;
}

/* Begins with what a checkpoint says beside the state. */
static int
resume_way(struct run *run, struct why *why)
{
    if (!run->folder.found.whole || !run->way->resume)
        return 0;
    if (exact_valid(run->state.exact, run->state.exponent) && run->way->resume(run))
        return 0;
    return why_error(why, -EBADMSG,
                     "%s/checkpoint-%ju: what it says of the %s cannot be; delete it, or --fresh "
                     "begins again",
                     run->config->out, run->state.header->step, run->way->holds);
}

/* "from step 76 on train.epochs = 6, before 3" */
static void
tell_parts(struct run *run)
{
    struct config_parts parts;
    struct config_difference difference;
    struct why line;
    int rc = config_parts_init(&parts, run->config, &line);
    for (size_t at = 0;
         !rc && parts.count &&
         config_differ(parts.config[parts.count - 1], run->config, &at, &difference);)
        train_say(run, 6, "from step %ju on %s = %s, before %s", parts.until[parts.count - 1] + 1,
                  difference.key, difference.right, difference.left);
    config_parts_fini(&parts);
}

/* A warm-up that does not end. */
static void
tell_warmup(struct run *run)
{
    const struct config *config = run->config;
    unsigned long long steps = state_steps_total(&run->state), warmup = run->state.job.warmup;
    if (config->mesh.compress != CODEC_none && !run->way->free && warmup >= steps)
        train_say(run, 5,
                  "mesh.compress_warmup = %llu: the run has %llu steps, so nothing is compressed",
                  warmup, steps);
}

/* Who I am, which job, from whom, how much it is, where results go. */
static void
tell_job(struct run *run)
{
    const struct config *config = run->config;
    const struct data_info *data = data_info(run->job.data);
    char way[TRAIN_LINE];
    config_way_tell(config, way, sizeof way);
    train_say(run, 6, "job %s%s%s: %ju samples, %ju steps%s; results in %s", config->run.name,
              config->from[0] ? " from " : "", config->from, data->train,
              state_steps_total(&run->state), way, config->out);
}

/* A mistyped label is a class of its own; digits that the program draws have none. */
static void
tell_data(struct run *run)
{
    char classes[TRAIN_LINE - 16], text[TRAIN_LINE];
    const char *remark = data_remark(run->job.data);
    data_text_classes(run->job.data, classes, sizeof classes);
    if (classes[0] && run->config->data.source != DATA_GLYPHS &&
        run->config->data.source != DATA_COUNTING)
        train_say(run, 6, "classes: %s", classes);
    text_copy(text, sizeof text, remark ? remark : "");
    if (remark)
        train_say(run, 4, "%s", text);
}

static void
tell_self(struct run *run)
{
    const struct config *config = run->config;
    char name[PROTO_NAME_MAX];
    struct mesh_status status;
    host_name(config->name, name, sizeof name);
    mesh_status(run->mesh, &status);
    train_say(run, 6, "this node is %s: %s, port %u", name[0] ? name : "nameless",
              status.interfaces[0] ? status.interfaces : "no network", status.control_port);
    struct proto_endpoint own = {.control_port = status.control_port};
    char at[PROTO_WHO_MAX];
    text_copy(own.host, sizeof own.host, status.address);
    const char *quote = parse_endpoint_text(&own, at)[0] == '[' ? "'" : ""; /* for the shell */
    if (status.mute)
        train_say(
            run, 5,
            "%s cannot broadcast, so nodes of other machines do not find this one: start them "
            "with --peer %s%s%s",
            status.names, quote, at, quote);
}

static void
tell_from(void *ctx, const char *line)
{
    train_say(ctx, 4, "%s", line);
}

/* Of which rounds of several steps end with spans. What auto takes, and so its spans, is not known from the job. */
static uint64_t
told_span(const struct run *run)
{
    const struct state_job *job = &run->state.job;
    return job->local_steps > 1 && (job->moments || !job->choose) ? state_span(&run->state) : 0;
}

/* `skipped`: checkpoints that were of no use, or "". */
static void
tell_start(struct run *run, enum train_start start, const char *skipped)
{
    const struct config *config = run->config;
    uint64_t part[CONFIG_PARTS_MAX];
    for (size_t i = 0; i < run->job.past_count; i++)
        part[i] = run->job.past[i].until;
    metrics_job(run->metrics, &(struct metrics_job){
                                  .run = config->run.name,
                                  .job = run->job_hash,
                                  .seed = config->run.seed,
                                  .train = data_info(run->job.data)->train,
                                  .batch = config->train.batch,
                                  .steps = state_steps_total(&run->state),
                                  .shards = config->train.shards,
                                  .local_steps = config->train.local_steps,
                                  .span = told_span(run),
                                  .warmup = run->state.job.warmup,
                                  .data = data_info(run->job.data)->hash,
                                  .from = run->job.from_hash,
                                  .begun = run->job.begun,
                                  .text = config->text,
                                  .part = part,
                                  .part_count = run->job.past_count,
                                  .kept = run->folder.kept,
                                  .inexact = !config->train.exact,
                                  .curves = config->tensorboard,
                              });
    tell_job(run);
    tell_warmup(run);
    tell_data(run);
    tell_self(run);
    if (run->folder.replaces)
        train_say(run, 6, "%s: the %s run in it is replaced", config->out,
                  run->folder.ended ? "ended" : "unfinished");
    if (run->folder.unreadable)
        train_say(run, 4, "%s/%s is empty or damaged, as a power cut may leave it: passed over",
                  config->out, run->folder.unreadable);
    if (run->folder.found.whole && (!run->folder.found.damaged_count || !run->way->repair))
        train_tell_resumed(run, skipped);
    tell_parts(run);
    if (start == TRAIN_RESUME && !run->folder.resumed)
        train_say(
            run, 6,
            "%s has no checkpoint to resume from: starting at step 0, or at the step of others",
            config->out);
    if (!run->memory.part && (run->memory.spilled || run->memory.lanes < run->memory.lanes_most))
        train_say(run, 6, "train.memory_max: %u of %u shards at a time%s", run->memory.lanes,
                  run->memory.lanes_most, run->memory.spilled ? ", states in a file" : "");
    if (run->job.from)
        train_say(run, 6, "the job starts from %s, weights %016jx", config->model.from,
                  run->job.from_hash);
    if (run->job.from && safetensors_said(run->job.from)[0])
        train_say(run, 6, "%s: %s", config->model.from, safetensors_said(run->job.from));
    from_tell(&run->job, run->config, tell_from, run);
    if (run->job.start)
        train_say(run, 6, "the job starts from %s, after step %ju, state %016jx",
                  config->train.from, run->job.begun, run->job.from_hash);
}

/* The files of a job of the mesh come from there, too, if they are not here. */
static int
open_job(struct run *run, struct why *why)
{
    struct config *config = run->config;
    bool taken = config->from[0];
    if (taken && config->model.from[0] && access(config->model.from, R_OK) != 0) {
        int rc = taking_run(&run->taken, config, SHARE_FROM, why);
        if (rc)
            return rc;
    }
    int rc = job_open(&run->job, config, why);
    if (rc != -ENOENT || !taken || config->data.dir[0])
        return rc;
    job_close(&run->job);
    run->job = (struct job){.data = NULL};
    rc = taking_run(&run->taken, config, SHARE_DATA, why);
    rc = rc ? rc : job_open(&run->job, config, why);
    config->data.known = NULL;
    return rc;
}

int
train_open(struct run *run, enum train_start start, struct why *why)
{
    if (sodium_init() < 0)
        return why_error(why, -ENOSYS, "libsodium does not start");
    int rc = polite_begin(run->config, why);
    rc = rc ? rc : open_job(run, why);
    rc = rc ? rc : memory_settle_stages(run->config, &run->job, why);
    rc = rc ? rc : job_start(&run->job, run->config, why);
    rc = rc ? rc
            : left_settle(run->config, &run->job, start, (const char *const[]){run->config->out}, 1,
                          why);
    rc = rc ? rc : open_memory(run, why);
    rc = rc ? rc : open_state(run, why);
    rc = rc ? rc : open_work(run, why);
    if (rc)
        return rc;
    run->job_hash = job_hash(&run->job, run->config);
    rc = run->way->open(run, why);
    rc = rc ? rc : open_save(run, why);
    rc = rc ? rc : resume_from(run, start, why);
    rc = rc ? rc : resume_way(run, why);
    rc = rc ? rc
            : metrics_new(&run->metrics, run->config->out,
                          run->folder.resumed || run->folder.restarts, run->config->quiet, why);
    if (rc)
        return rc;
    const struct why skipped = *why;
    rc = open_mesh(run, why);
    if (!rc && run->way->free)
        rc = train_journal_open(run, why);
    if (rc) /* nothing but the error is said */
        return rc;
    tell_start(run, start, skipped.line);
    return polite_new(&run->polite,
                      &(struct polite_setup){run->config, run->pool, run->mesh, run->metrics}, why);
}

void
train_close(struct run *run)
{
    polite_destroy(&run->polite);
    save_quiet(run->save);
    share_destroy(&run->share);
    mesh_destroy(&run->mesh);
    run->way->close(run);
    evaluation_fini(&run->free.evaluation);
    save_destroy(&run->save);
    gather_close(&run->gather);
    train_journal_close(run);
    metrics_destroy(&run->metrics);
    work_destroy(&run->work);
    pool_destroy(&run->pool);
    state_fini(&run->next);
    state_fini(&run->state);
    spill_close(&run->spill);
    free(run->offer);
    job_close(&run->job);
    taking_close(&run->taken);
}

/* way_push.c - servers that do not wait: mesh.sync ssp, softsync or async. mesh/core/push/push.h has the idea,
 * push_ranges.h the arithmetic.
 *
 *     run->state    what this node's worker computes from; in the end the model
 *     run->next     what it holds as owner and backup
 *
 * What it does goes into the journal of the run's folder, as push_journal.h says. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "node/train/state_internal.h"
#include "node/train/way_push.h"
#include "proto/bytes.h"
#include "proto/clock.h"
#include "proto/fail.h"

enum {
    PROGRAM = 14 << 20, /* memory without sockets: what is in them is on its way */
    STATES = 3,         /* the worker's, the server's, the checkpoint's */
};

/* --- The journal ------------------------------------------------------------------------------------ */

static size_t
put_histories(const struct push_run *push, const uint64_t *history, uint8_t *data)
{
    struct bytes_out out = bytes_out(data, 8 * (size_t)push->ranges.count);
    for (unsigned r = 0; r < push->ranges.count; r++)
        bytes_put_u64(&out, history[r]);
    return bytes_written(&out, data);
}

static void
note_computed(struct run *run, uint64_t ticket, uint64_t number, const uint64_t *history)
{
    struct push_run *push = run->own;
    if (!train_journal_writes(run))
        return;
    /* what is not written, is not in `noted` either: a reader knows only the records */
    size_t head = push_journal_put_computed(&push->noted, ticket, number, push->note);
    size_t size = put_histories(push, history, push->note + head);
    train_journal_add(run, PUSH_NOTE_COMPUTED, push->note, head + size);
}

/* --- What the engine asks for; it holds the mesh's lock ------------------------------------------------ */

static void
on_begin(void *ctx, uint64_t ticket, uint64_t number, const uint64_t *history)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    save_release(run->save); /* the mesh goes on: all have saved */
    state_fini(&push->first);
    push_save_read(run);
    note_computed(run, ticket, number, history);
}

static void
on_collect(void *ctx)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    for (unsigned r = 0; r < push->ranges.count; r++)
        push->size[r] = push_ranges_gradient(&push->ranges, r, mesh_own(run->mesh),
                                             run->state.exponent, push->gradient + push->at[r]);
}

static const void *
on_gradient(void *ctx, unsigned range, size_t *size)
{
    const struct push_run *push = ((struct run *)ctx)->own;
    *size = push->size[range];
    return push->gradient + push->at[range];
}

static void
on_take(void *ctx, const struct push_taken *taken, const void *gradient, size_t size)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    uint8_t data[PUSH_TAKEN_MAX];
    save_release(run->save);
    push_ranges_take(&push->ranges, &push->held, taken, gradient, size);
    if (train_journal_writes(run))
        train_journal_add(run, PUSH_NOTE_TAKEN, data,
                          push_journal_put_taken(&push->noted, taken, data));
}

static uint64_t
on_hash(void *ctx, unsigned range)
{
    const struct push_run *push = ((struct run *)ctx)->own;
    return push_ranges_hash(&push->ranges, &push->held, range);
}

static void
on_copy(void *ctx, unsigned range, void *out)
{
    const struct push_run *push = ((struct run *)ctx)->own;
    push_ranges_copy(&push->ranges, &push->held, range, out);
}

static void
on_adopt(void *ctx, unsigned range, const void *copy)
{
    struct push_run *push = ((struct run *)ctx)->own;
    push_ranges_adopt(&push->ranges, &push->held, range, copy);
}

static void
on_value(void *ctx, unsigned range, bool model, void *out)
{
    const struct push_run *push = ((struct run *)ctx)->own;
    push_ranges_value(&push->ranges, &push->held, range, model, out);
}

static void
on_read(void *ctx, unsigned range, bool model, const void *value)
{
    struct push_run *push = ((struct run *)ctx)->own;
    push_ranges_read(&push->ranges, range, model, value, push->ahead, push->ahead_exponent);
}

/* Seldom: at the start, and when this node has forgotten what it held. All ranges are wanted one after the other: what
 * they begin with stays until the next ticket is computed. */
static void
on_initial(void *ctx, unsigned range)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    struct state *first = &push->first;
    struct state_job job = job_rules(&run->job, run->config);
    struct why why;
    if (!first->block) {
        if (state_init(first, &job, run->job.exact, run->state.param_count))
            abort(); /* it was there at the start */
        if (job_state(&run->job, run->config, first, &why)) {
            train_say(run, 3, "%s", why.line);
            abort(); /* as if the machine had failed */
        }
    }
    push_ranges_begin(&push->ranges, &push->held, range, first->params,
                      run->job.start ? first->slot : NULL, first->exponent);
}

static void
on_restore(void *ctx, unsigned range, uint64_t before, uint64_t after)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    uint8_t data[PUSH_RESTORED_MAX];
    if (before == after) { /* the model, and nothing is lost */
        push_ranges_begin(&push->ranges, &push->held, range, push->ahead, NULL,
                          push->ahead_exponent);
        return;
    }
    push_ranges_restore(&push->ranges, &push->held, range, push->ahead, push->ahead_exponent);
    if (train_journal_writes(run))
        train_journal_add(run, PUSH_NOTE_RESTORED, data,
                          push_journal_put_restored(&push->noted, range, before, after, data));
}

static void
on_end(void *ctx, const uint64_t *history)
{
    struct run *run = ctx;
    struct push_run *push = run->own;
    push_save_read(run);
    memcpy(push->saved.history, history, push->ranges.count * sizeof *history);
    if (train_journal_writes(run))
        train_journal_add(run, PUSH_NOTE_FINAL, push->note,
                          put_histories(push, history, push->note));
}

static const struct push_keeper push_keeper = {
    .begin = on_begin,
    .collect = on_collect,
    .gradient = on_gradient,
    .take = on_take,
    .hash = on_hash,
    .copy = on_copy,
    .adopt = on_adopt,
    .value = on_value,
    .read = on_read,
    .initial = on_initial,
    .restore = on_restore,
    .save_range = push_save_range,
    .synced = train_journal_synced,
    .save = push_save_cut,
    .end = on_end,
};

/* --- Computing ---------------------------------------------------------------------------------------- */

static void
report(struct run *run, uint64_t ticket, const int32_t *tail, const struct evaluation_news *news)
{
    struct push_run *push = run->own;
    struct mesh_stats stats;
    uint64_t step = ticket / push->ranges.step.tickets;
    double rows = tail[TAIL_SAMPLES];
    const struct train_test test = news ? evaluation_name(news) : (struct train_test){.step = 0};
    mesh_stats(run->mesh, &stats);
    struct metrics_step line = {
        .step = step + 1,
        .epoch = step / state_epoch_steps(&run->state.job),
        .loss = state_tail_mean(tail),
        .accuracy = run->state.job.labels && rows > 0
                        ? tail[TAIL_CORRECT] / (rows * (double)run->state.job.labels)
                        : -1,
        .plan = stats.core.plan,
        .samples = (uint64_t)rows,
        .shards = push_step_shards(&push->ranges.step, ticket),
        .skipped = tail[TAIL_BAD] != 0,
        .evaluated = news != NULL,
        .test_loss = news ? news->means.loss : 0,
        .test_accuracy = news ? news->means.accuracy : -1,
        .test_of = news ? test.of : NULL,
        .test_step = test.step,
    };
    unsigned members = stats.core.members ? stats.core.members : 1;
    train_write(run, &line, members, (double)(ticket + 1) / push->ranges.step.tickets);
}

/* Rows of a piece: as many as a few tickets have, so that nobody waits long for the tickets that this node has in hand,
 * and so many that one node evaluates in at most EVALUATION_PIECES. */
static uint64_t
piece_rows(const struct run *run)
{
    const struct push_run *push = run->own;
    uint64_t few = 4 * (uint64_t)run->config->train.batch / push->ranges.step.tickets;
    uint64_t least = run->state.job.test / EVALUATION_PIECES + 1;
    return few > least ? few : least;
}

/* True: this node is to stop, as its gradients are not finite any more. */
static bool
compute_ticket(struct run *run, uint64_t ticket)
{
    struct push_run *push = run->own;
    double start = clock_s();
    struct evaluation_news news;
    int32_t *own = mesh_own(run->mesh), *tail = own + run->state.param_count;
    uint64_t step = ticket / push->ranges.step.tickets;
    fail_hit(FAIL_COMPUTE, run->state.block, run->state.size);
    bool any = evaluation_step(&run->free.evaluation, run, step, &news);
    push_shard_compute(run->work, &run->state, &push->ranges.step, push->exponent, ticket, own);
    run->meter.compute_s += clock_s() - start;
    mesh_bucket(run->mesh, 0);
    bool hopeless = train_count(run, step + 1, tail[TAIL_BAD] != 0);
    report(run, ticket, tail, any ? &news : NULL);
    start = clock_s();
    evaluation_piece(&run->free.evaluation, run, piece_rows(run));
    run->meter.compute_s += clock_s() - start;
    return hopeless;
}

/* --- The end ------------------------------------------------------------------------------------------ */

/* With the others, who have the same parameters. */
static void
evaluate_result(struct run *run)
{
    struct state *state = &run->state;
    struct state_header *h = state->header;
    uint64_t hash = XXH3_64bits(state->params, state->param_count * sizeof *state->params);
    struct score_means means = evaluation_result(&run->free.evaluation, run, hash);
    h->best_loss = h->test_loss = means.loss;
    h->test_accuracy = means.accuracy;
}

static void
announce_push(struct run *run)
{
    train_announce(run, run->state.header->round, state_rehash(&run->state, run->pool));
}

/* All ranges are read. What is not of the model is the same on all nodes: there is one state. */
static void
finish(struct run *run)
{
    struct state_header *h = run->state.header;
    uint64_t steps = state_steps_total(&run->state);
    bool again = h->done;
    push_shard_step(&run->state, steps);
    h->samples = state_samples(&run->state.job, steps);
    h->train_loss = (double)NAN;
    h->done = h->evaluations = 1;
    train_count_last(run, run->state.params, run->state.param_count * sizeof(float));
    push_save_end(run);
    if (run->state.job.test)
        evaluate_result(run);
    if (again)
        train_say(run, 4, "another part of the mesh has another model: taking it");
    announce_push(run);
}

static bool
follow_push(struct run *run, const struct mesh_task *task)
{
    if (task->kind == MESH_COMPUTE)
        return compute_ticket(run, task->round);
    if (task->kind == MESH_COMMIT)
        finish(run);
    return false;
}

/* run->state fits together only if a checkpoint was saved, and nothing has changed it since. */
static int
end_push(struct run *run, bool saved)
{
    if (!saved)
        return train_leave(run, false);
    state_rehash(&run->state, run->pool);
    return -1;
}

/* --- Life --------------------------------------------------------------------------------------------- */

static int
open_memory(struct push_run *push, const struct run *run)
{
    const struct state *next = &run->next;
    size_t size = 0;
    push->ahead = calloc(next->param_count, sizeof *push->ahead);
    push->ahead_exponent = calloc(next->block_count, sizeof *push->ahead_exponent);
    push->exponent = calloc(next->block_count, sizeof *push->exponent);
    push->at = calloc(push->ranges.count, sizeof *push->at);
    push->size = calloc(push->ranges.count, sizeof *push->size);
    push->note = calloc(PUSH_COMPUTED_HEAD_MAX + 8 * (size_t)push->ranges.count, 1);
    for (unsigned r = 0; push->at && r < push->ranges.count; r++) {
        push->at[r] = size;
        size += (push->ranges.size[r].gradient + 7) / 8 * 8;
    }
    push->gradient = calloc(1, size);
    if (push_held_init(&push->held, next, &push->ranges) ||
        push_journal_init(&push->noted, push->ranges.count) ||
        push_save_open(push, next->param_count))
        return -ENOMEM;
    return push->ahead && push->ahead_exponent && push->exponent && push->at && push->size &&
                   push->note && push->gradient
               ? 0
               : -ENOMEM;
}

static int
open_push(struct run *run, struct why *why)
{
    const struct config *config = run->config;
    struct push_run *push = run->own = calloc(1, sizeof *push);
    const struct push_step step = push_step_of(config);
    int rc = push ? push_ranges_init(&push->ranges, &run->state, &step, run->job.begun) : -ENOMEM;
    rc = rc ? rc : open_memory(push, run);
    rc = rc ? rc : evaluation_init(&run->free.evaluation, run);
    if (rc)
        return why_error(why, rc, "not enough memory for mesh.sync");
    run->state.header->train_loss = (double)NAN;
    push->config = (struct push_config){
        .keeper = &push_keeper,
        .keeper_ctx = run,
        .tickets = state_steps_total(&run->state) * step.tickets,
        .per_step = step.tickets,
        .bound = config->mesh.sync == CONFIG_SSP ? config->mesh.staleness : PUSH_UNBOUND,
        .group = step.group,
        .servers = config->mesh.servers == CORE_SERVERS_AUTO ? 0 : config->mesh.servers,
        .range_count = push->ranges.count,
        .size = push->ranges.size,
        .first = push->ranges.first,
        .save_every = config->train.checkpoint_every,
    };
    return 0;
}

static void
close_push(struct run *run)
{
    struct push_run *push = run->own;
    if (!push)
        return;
    state_fini(&push->first);
    push_ranges_fini(&push->ranges);
    push_journal_fini(&push->noted);
    free(push->held.sum);
    free(push->ahead);
    free(push->ahead_exponent);
    free(push->exponent);
    free(push->gradient);
    free(push->at);
    free(push->size);
    free(push->note);
    free(push->more);
    free(push);
    run->own = NULL;
}

static void
start_push(struct run *run)
{
    train_begin_fresh(run);
    train_count_first(run, run->state.params, run->state.param_count * sizeof(float));
    announce_push(run);
}

static void
configure_push(struct run *run, struct mesh_setup *setup)
{
    struct push_run *push = run->own;
    setup->engine = &engine_push;
    setup->push = &push->config;
    setup->chunks = 2 * (size_t)push->config.range_count;
    setup->frames = PUSH_QUEUE_MAX;
    evaluation_setup(setup);
}

/* Servers that do not wait have what is pushed, read and evaluated, but no sum, and softsync what an update gathers,
 * here, in a checkpoint, and in copies that are on their way. */
static void
measure_push(struct memory *m, const struct config *config, size_t params, uint64_t vector)
{
    (void)params;
    m->program = PROGRAM;
    m->states = STATES;
    m->lanes = m->lanes_most = push_step_of(config).each;
    m->sums +=
        (3 + (config->train.eval_every > 0) + 4 * (config->mesh.sync == CONFIG_SOFTSYNC)) * vector;
    m->copies = "what this node serves";
    m->gradients = "own, what is pushed and read, and what is on its way";
    m->of = " of a ticket";
}

const struct way way_push = {
    .free = true,
    .name = "push",
    .holds = "servers",
    .whose = "as one node read them from the servers",
    .remedy = " or train.warmup",
    .memory = measure_push,
    .check = way_check_push,
    .open = open_push,
    .close = close_push,
    .more = push_save_more,
    .resume = push_save_resume,
    .config = configure_push,
    .start = start_push,
    .follow = follow_push,
    .ends = end_push,
};

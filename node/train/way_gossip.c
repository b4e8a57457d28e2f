/* way_gossip.c - replicas that average with their neighbours (mesh.topology: gossip); replica.h has what one computes.
 *
 * The state's parameters are only a copy of what the mesh holds. The result is the exact mean of all replicas. What
 * happens to the values goes into the journal of the run's folder (gossip_journal.h). A checkpoint has beside the state
 * the section "gossip":
 *
 *     snapshot, u64, 0: after the last step | step of this node, u64 | shards computed by the mesh, u64
 *     starts of nodes of which this one knows [GOSSIP_STARTS + 1]: id, incarnation and shards computed, u64; or zeros
 *     weight of each range of MESH_CHUNK_ELEMS values, int64 | values, int64
 *
 * Little-endian. Parameters of the state are the values, with push-sum by weight; slots and exponents are this
 * node's. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "node/train/gossip_journal.h"
#include "node/train/replica.h"
#include "node/train/train_internal.h"
#include "proto/clock.h"
#include "proto/fail.h"

struct gossip_run {
    struct gossip_config config;
    struct codec codec;
    struct replica replica;
    const int64_t *weight; /* of the values of this step */
    uint64_t from; /* hash of the parameters of the checkpoint that it goes on from; 0: none */
    struct gossip_names names; /* in the journal */
    /* Of a checkpoint, as in the file: `saved` points into it. */
    uint64_t *more;
    size_t more_size;
    struct gossip_saved saved;
    bool begins;              /* with `saved` */
    struct state_event event; /* of the present step */
    double train_loss;        /* of the last epoch of this node's replica */
};

/* --- The journal ----------------------------------------------------------------------------------- */

/* The mesh is locked. What a message is about is written before the message is sent. */
static void
on_note(void *ctx, const struct gossip_note *note)
{
    struct run *run = ctx;
    struct gossip_run *gossip = run->record;
    struct gossip_note event = *note;
    if (event.event != GOSSIP_SAVED && event.event != GOSSIP_COPIED)
        save_release(run->save); /* the mesh goes on: all have saved */
    uint8_t data[GOSSIP_RECORD_MAX];
    if (!train_journal_writes(run) || !gossip_journal_has(event.event))
        return;
    if (event.event == GOSSIP_BEGAN)
        event.number = gossip->from;
    size_t size = gossip_journal_put(&gossip->names, &event, data);
    train_journal_add(run, event.event, data, size);
}

static void
on_weigh(void *ctx, const int64_t *weight)
{
    struct gossip_run *gossip = ((struct run *)ctx)->record;
    gossip->weight = weight;
}

/* --- Checkpoints ----------------------------------------------------------------------------------- */

/* Words of `more`; a start has START_WORDS. */
enum {
    SNAPSHOT,
    STEP,
    TOTAL,
    STARTS,
    START_WORDS = sizeof(struct gossip_start) / sizeof(uint64_t),
    WEIGHTS = STARTS + (GOSSIP_STARTS + 1) * START_WORDS,
};

_Static_assert(START_WORDS == 3, "id, incarnation, shards: no gap may be in the file");

static size_t
weight_count(const struct run *run)
{
    return gossip_flow_ranges(run->state.param_count, MESH_CHUNK_ELEMS);
}

/* What the state is like for who only has the file. */
static void
show(struct run *run, const struct gossip_saved *saved)
{
    struct state *state = &run->state;
    int32_t *values = mesh_own(run->mesh);
    uint64_t total = state_steps_total(state);
    bool async = run->config->mesh.sync == CONFIG_ASYNC;
    uint64_t step = async ? saved->total / state->job.shards : saved->step;
    gossip_flow_clamp(values, saved->values, state->param_count);
    if (run->config->gossip.push_sum)
        gossip_flow_debias(values, values, saved->weight, MESH_CHUNK_ELEMS, state->param_count);
    replica_show(state, values, step < total ? step : total - 1);
}

/* The mesh is locked, and this node computes nothing. Its state stays as it is, but for the parameters: they are set
 * before each step. */
static void
on_save(void *ctx, const struct gossip_saved *saved)
{
    struct run *run = ctx;
    struct gossip_run *gossip = run->record;
    const struct state_header before = *run->state.header;
    size_t ranges = weight_count(run);
    if (!save_idle(run->save) || !gossip_flow_weighs(saved->weight, ranges))
        return; /* it joined, and has not got all yet */
    gossip->more[SNAPSHOT] = saved->snapshot;
    gossip->more[STEP] = saved->step;
    gossip->more[TOTAL] = saved->total;
    memcpy(gossip->more + STARTS, saved->starts, (GOSSIP_STARTS + 1) * sizeof *saved->starts);
    memcpy(gossip->more + WEIGHTS, saved->weight, ranges * sizeof *saved->weight);
    memcpy(gossip->more + WEIGHTS + ranges, saved->values,
           run->state.param_count * sizeof *saved->values);
    show(run, saved);
    save_begin(run->save, &run->state, true);
    *run->state.header = before;
}

static void *
gossip_more(struct run *run, size_t *size)
{
    const struct gossip_run *gossip = run->record;
    *size = gossip->more_size;
    return gossip->more;
}

static bool
gossip_resume(struct run *run)
{
    struct gossip_run *gossip = run->record;
    const uint64_t *more = gossip->more;
    const int64_t *weight = (const int64_t *)(const void *)(more + WEIGHTS);
    size_t ranges = weight_count(run);
    bool sound = more[STEP] <= PROTO_ROUND_MAX && more[TOTAL] <= PROTO_ROUND_MAX;
    gossip->saved = (struct gossip_saved){
        .snapshot = more[SNAPSHOT],
        .step = more[STEP],
        .total = more[TOTAL],
        .starts = (const struct gossip_start *)(const void *)(more + STARTS),
        .weight = weight,
        .values = weight + ranges,
    };
    gossip->begins = more[SNAPSHOT] != 0;
    for (size_t p = 0; p < ranges; p++)
        sound = sound && (!gossip->begins || (weight[p] > 0 && weight[p] <= GOSSIP_WEIGHT_MAX));
    return sound;
}

static void
configure_gossip(struct run *run, struct mesh_setup *setup)
{
    static const struct gossip_keeper keeper = {
        .note = on_note, .weigh = on_weigh, .synced = train_journal_synced, .save = on_save};
    const struct config *config = run->config;
    struct gossip_run *gossip = run->record;
    gossip->config = (struct gossip_config){
        .keeper = &keeper,
        .keeper_ctx = run,
        .graph = (enum gossip_kind)config->gossip.graph,
        .push_sum = config->gossip.push_sum,
        .async = config->mesh.sync == CONFIG_ASYNC,
        .codec = job_codec(config, &gossip->codec) ? &gossip->codec : NULL,
        .steps = state_steps_total(&run->state),
        .count = run->state.param_count,
        .save_every = config->train.checkpoint_every,
        .saved = gossip->begins ? &gossip->saved : NULL,
    };
    setup->engine = &engine_gossip;
    setup->gossip = &gossip->config;
    evaluation_setup(setup);
}

/* --- Life ------------------------------------------------------------------------------------------ */

static int
open_gossip(struct run *run, struct why *why)
{
    struct gossip_run *gossip = run->record = calloc(1, sizeof *gossip);
    size_t params = run->state.param_count;
    if (gossip) {
        gossip->more_size = (WEIGHTS + weight_count(run) + params) * sizeof *gossip->more;
        gossip->more = calloc(1, gossip->more_size);
        gossip->replica = (struct replica){
            .state = &run->state,
            .next = &run->next,
            .work = run->work,
            .pool = run->pool,
            .before = calloc(params, sizeof(float)),
            .async = run->config->mesh.sync == CONFIG_ASYNC,
        };
    }
    run->state.header->train_loss = (double)NAN; /* a slow node may complete no epoch */
    if (!gossip || !gossip->replica.before || !gossip->more ||
        evaluation_init(&run->free.evaluation, run))
        return why_error(why, -ENOMEM, "not enough memory for a replica");
    return 0;
}

static void
close_gossip(struct run *run)
{
    struct gossip_run *gossip = run->record;
    if (!gossip)
        return;
    free(gossip->replica.before);
    free(gossip->more);
    free(gossip);
    run->record = NULL;
}

/* What a replica has beside its states: the engine's memory, the replica before its step, and as it is evaluated. */
static void
measure_gossip(struct memory *m, const struct config *config, size_t params, uint64_t vector)
{
    struct gossip_config gossip = {
        .graph = (enum gossip_kind)config->gossip.graph,
        .push_sum = config->gossip.push_sum,
        .async = config->mesh.sync == CONFIG_ASYNC,
        .codec = codec_of(config->mesh.compress),
        .count = params,
    };
    (void)vector;
    m->gossip = gossip_size(&gossip, MESH_CHUNK_ELEMS) +
                (1 + (config->train.eval_every > 0)) * params * sizeof(float);
    m->told = gossip_size(&gossip, MESH_CHUNK_ELEMS);
    gossip.codec = NULL;
    m->told -= gossip_size(&gossip, MESH_CHUNK_ELEMS);
}

/* What gossip_flow.h clamps; once. */
static void
tell_cut(struct run *run, const int32_t *values)
{
    size_t count = 0;
    for (size_t k = 0; k < run->state.param_count && !run->told.cut; k++)
        count += values[k] == INT32_MAX || values[k] == INT32_MIN;
    if (count == 0)
        return;
    run->told.cut = true;
    train_say(run, 4,
              "step %ju: %zu of %zu weights are cut off at -128 or 128, beyond which gossip holds "
              "none: the model is another one than without it",
              run->state.header->step, count, run->state.param_count);
}

static void
start_gossip(struct run *run)
{
    struct gossip_run *gossip = run->record;
    int32_t *own = mesh_own(run->mesh);
    replica_values(&run->state, own);
    train_count_first(run, own, run->state.param_count * sizeof *own);
    tell_cut(run, own);
    if (run->folder.found.whole)
        gossip->from = gossip->begins ? gossip->saved.snapshot : replica_hash(&run->state);
    train_announce(run, run->state.header->step, state_rehash(&run->state, run->pool));
}

/* --- A step ---------------------------------------------------------------------------------------- */

static void
alive(void *ctx, size_t bucket)
{
    (void)bucket;
    metrics_alive(((struct run *)ctx)->metrics);
}

/* Returns the hash of the replica's state after the step. */
static uint64_t
advance_replica(struct run *run, uint64_t shards)
{
    struct gossip_run *gossip = run->record;
    uint64_t hash;
    do
        hash = replica_round(&gossip->replica, shards, mesh_own(run->mesh), &gossip->event, alive,
                             run);
    while (!gossip->event.stepped);
    return hash;
}

static void
report_means(struct run *run, const struct score_means *means, unsigned members,
             const struct train_test *test)
{
    struct state_header *h = run->state.header;
    const struct state_event event = {.evaluated = true, .loss = (double)NAN, .accuracy = -1};
    h->evaluations++;
    h->test_loss = means->loss;
    h->test_accuracy = means->accuracy;
    train_report(run, &(struct train_step){.event = &event,
                                           .task = &(struct mesh_task){.members = members},
                                           .test = test});
}

static void
report_news(struct run *run, const struct evaluation_news *news, unsigned members)
{
    const struct train_test test = evaluation_name(news);
    report_means(run, &news->means, members, &test);
}

/* The state is behind a step of this task, and that is reported. */
static void
evaluate_step(struct run *run, const struct mesh_task *task)
{
    struct evaluation_news news;
    if (evaluation_step(&run->free.evaluation, run, run->state.header->step, &news))
        report_news(run, &news, task->members);
}

/* So many that this node's part of an evaluation takes a quarter of the steps until the next one: its neighbours never
 * wait for more than a piece. */
static uint64_t
piece_rows(const struct run *run, const struct mesh_task *task)
{
    const struct state_job *job = &run->state.job;
    uint64_t part = (state_epoch_steps(job) * job->rules.eval_every + 3) / 4;
    uint64_t pieces = part < EVALUATION_PIECES ? part : EVALUATION_PIECES;
    uint64_t mine = job->test * (uint64_t)__builtin_popcountll(task->mine) / job->shards;
    return mine / (pieces ? pieces : 1) + 1;
}

/* With push-sum by weight; own is free until the step is computed. */
static const int32_t *
values_of(const struct run *run)
{
    const struct gossip_run *gossip = run->record;
    const int32_t *values = mesh_sum(run->mesh);
    int32_t *own = mesh_own(run->mesh);
    if (!run->config->gossip.push_sum)
        return values;
    gossip_flow_debias(own, values, gossip->weight, MESH_CHUNK_ELEMS, run->state.param_count);
    return own;
}

/* By how much the whole mesh has come on. */
static double
reached(const struct run *run, const struct mesh_task *task)
{
    const struct gossip_run *gossip = run->record;
    return gossip->config.async ? (double)task->known / run->state.job.shards
                                : (double)run->state.header->step;
}

static bool
step(struct run *run, const struct mesh_task *task)
{
    struct gossip_run *gossip = run->record;
    const struct replica *replica = &gossip->replica;
    const struct core_task what = {
        .round = task->round, .shards = task->shards, .known = task->known};
    double start = clock_s();
    size_t buckets;
    const int32_t *values = values_of(run);
    tell_cut(run, values);
    replica_begin(replica, &what, values);
    fail_hit(FAIL_COMPUTE, run->state.block, run->state.size);
    uint64_t hash = advance_replica(run, replica_shards(replica, &what));
    gossip->event.skipped |= !replica_update(replica, mesh_own(run->mesh));
    bool hopeless = train_count(run, run->state.header->step, gossip->event.skipped);
    run->meter.compute_s += clock_s() - start;
    train_report(run, &(struct train_step){.event = &gossip->event,
                                           .task = task,
                                           .hash = hash,
                                           .reached = reached(run, task)});
    start = clock_s();
    run->state.header->phase = STATE_TRAIN; /* evaluations are no rounds here */
    evaluate_step(run, task);
    run->meter.compute_s += clock_s() - start;
    train_begin_fresh(run);
    work_buckets(run->work, &buckets);
    mesh_bucket(run->mesh, buckets - 1);
    start = clock_s();
    evaluation_piece(&run->free.evaluation, run, piece_rows(run, task));
    run->meter.compute_s += clock_s() - start;
    return hopeless;
}

/* --- The end --------------------------------------------------------------------------------------- */

static void
evaluate_result(struct run *run, uint64_t result)
{
    struct mesh_stats stats;
    struct score_means means = evaluation_result(&run->free.evaluation, run, result);
    mesh_stats(run->mesh, &stats);
    const struct train_test test = {"mean model", run->state.header->step};
    report_means(run, &means, stats.core.peers + 1, &test);
    run->state.header->best_loss = run->state.header->test_loss;
}

/* The mesh is told of the result before it is evaluated: so all agree on one at once, however long that takes. */
static void
finish(struct run *run)
{
    struct gossip_run *gossip = run->record;
    struct state *state = &run->state;
    const int32_t *sum = mesh_sum(run->mesh);
    uint64_t result = XXH3_64bits(sum, state->param_count * sizeof *sum) | 1;
    train_count_last(run, sum, state->param_count * sizeof *sum);
    tell_cut(run, sum);
    struct evaluation_news news;
    if (evaluation_last(&run->free.evaluation, run, &news))
        report_news(run, &news, run->meter.peers_max);
    if (!state->header->done)                                 /* else a result was taken before */
        gossip->train_loss = state_train_loss(state->header); /* what this node's steps were like */
    replica_result(state, sum);
    gossip->more[SNAPSHOT] = 0;
    state->header->done = 1;
    state->header->round = 1;
    train_announce(run, 1, result);
    if (state->job.test)
        evaluate_result(run, result);
    state_rehash(state, run->pool);
}

static bool
follow_gossip(struct run *run, const struct mesh_task *task)
{
    if (task->kind == MESH_COMPUTE)
        return step(run, task);
    if (task->kind == MESH_COMMIT)
        finish(run);
    return false;
}

/* Its checkpoints are those of all members; what it trained since is with its neighbours. */
static int
end_gossip(struct run *run, bool saved)
{
    (void)saved;
    return train_leave(run, true);
}

static void
report_gossip(const struct run *run, struct metrics_result *result)
{
    const struct gossip_run *gossip = run->record;
    result->train_loss = gossip->train_loss;
}

const struct way way_gossip = {
    .free = true,
    .name = "gossip",
    .holds = "replica",
    .whose = "the replica of one node",
    .remedy = ", train.warmup or train.clip_norm",
    .memory = measure_gossip,
    .check = way_check_gossip,
    .open = open_gossip,
    .close = close_gossip,
    .more = gossip_more,
    .resume = gossip_resume,
    .config = configure_gossip,
    .start = start_gossip,
    .follow = follow_gossip,
    .ends = end_gossip,
    .report = report_gossip,
};

/* gossip_train.c - see gossip_train.h. */
#include "node/train/gossip_train.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "proto/clock.h"

static const double UNIT = 1.0 / 16777216; /* 1 / GOSSIP_ONE */

bool
gossip_train_is(const struct config *config)
{
    return strcmp(config->mesh.topology, "gossip") == 0;
}

struct gossip_config
gossip_train_config(const struct run *run)
{
    const struct config *config = run->config;
    return (struct gossip_config){
        .graph = (enum gossip_kind)config->gossip.graph,
        .push_sum = config->gossip.push_sum,
        .async = config->mesh.sync == CONFIG_ASYNC,
        .steps = state_steps_total(&run->state),
        .count = run->state.param_count,
    };
}

static int32_t
whole(double value)
{
    double units = nearbyint(value / UNIT);
    return units >= INT32_MAX ? INT32_MAX : units <= INT32_MIN ? INT32_MIN : (int32_t)units;
}

static void
take_values(struct state *state, const int32_t *values)
{
    for (size_t k = 0; k < state->param_count; k++)
        state->params[k] = (float)(values[k] * UNIT);
}

void
gossip_train_begin(struct run *run)
{
    int32_t *own = mesh_own(run->mesh);
    for (size_t k = 0; k < run->state.param_count; k++)
        own[k] = whole((double)run->state.params[k]);
}

/* --- A step --- */

/* Before which step is the replica? It may have joined late; nobody's steps are counted but its own. With async the
 * mesh's common progress decides on the rate, and on the data: a slow node does not stay behind. */
static void
place(struct run *run, const struct mesh_task *task)
{
    struct state_header *h = run->state.header;
    const struct state_job *job = &run->state.job;
    uint64_t total = state_steps_total(&run->state),
             each = (job->train + job->batch - 1) / job->batch;
    bool async = run->config->mesh.sync == CONFIG_ASYNC;
    uint64_t step = async ? task->known / job->shards : task->round;
    step = step < total ? step : total - 1;
    h->done = 0;
    h->phase = STATE_TRAIN;
    if (h->step == step)
        return;
    h->step = step;
    h->epoch = step / each;
    h->epoch_step = step % each;
}

/* With async a fast node may make several steps while the mesh makes one: each with other shards of it. */
static uint64_t
shards_of(const struct run *run, const struct mesh_task *task)
{
    unsigned shards = run->config->train.shards, by = (unsigned)(task->round % shards);
    uint64_t all = shards == 64 ? UINT64_MAX : (UINT64_C(1) << shards) - 1;
    if (run->config->mesh.sync != CONFIG_ASYNC || by == 0)
        return task->shards;
    return (task->shards << by | task->shards >> (shards - by)) & all;
}

static void
no_bucket(void *ctx, size_t bucket)
{
    struct run *run = ctx;
    (void)bucket;
    metrics_alive(run->metrics);
}

/* Some shards stand for all. */
static void
scale(const struct run *run, int32_t *sum)
{
    const struct state *state = &run->state;
    int64_t mine = sum[state->param_count + TAIL_SAMPLES], all = (int64_t)state_rows(state);
    if (mine <= 0 || mine == all)
        return;
    for (size_t k = 0; k < state->param_count; k++) {
        int64_t value = sum[k] * all / mine;
        sum[k] = (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
    }
}

/* One round of the state machine on this node alone: a step, a repeat with larger exponents, or an evaluation. */
static void
advance(struct run *run, uint64_t shards, const struct mesh_task *task)
{
    int32_t *sum = mesh_own(run->mesh);
    uint64_t hash = state_hash_anew(&run->state, run->pool);
    bool evaluation = run->state.header->phase == STATE_EVALUATE;
    work_drop(run->work);
    work_round(run->work, &run->state, shards, true, sum, no_bucket, run);
    if (!evaluation)
        scale(run, sum);
    hash = state_advance(&run->next, &run->state, sum, &run->event, run->pool);
    state_swap(&run->state, &run->next);
    run->event.coverage = shards;
    train_tell_skipped(run, &run->event);
    if (run->event.stepped || run->event.evaluated)
        train_report(run, &run->event, task, hash);
}

static uint64_t
all_shards(const struct run *run)
{
    unsigned shards = run->config->train.shards;
    return shards == 64 ? UINT64_MAX : (UINT64_C(1) << shards) - 1;
}

/* What the step changed, in whole numbers. */
static void
tell_update(struct run *run)
{
    size_t buckets;
    int32_t *own = mesh_own(run->mesh);
    work_buckets(run->work, &buckets);
    for (size_t k = 0; k < run->state.param_count; k++)
        own[k] = whole((double)run->update[k] - (double)run->replica[k]);
    mesh_bucket(run->mesh, buckets - 1);
}

void
gossip_train_step(struct run *run, const struct mesh_task *task)
{
    double start = clock_s();
    size_t size = run->state.param_count * sizeof(float);
    place(run, task);
    take_values(&run->state, mesh_values(run->mesh));
    memcpy(run->replica, run->state.params, size);
    do
        advance(run, shards_of(run, task), task);
    while (!run->event.stepped);
    memcpy(run->update, run->state.params, size);
    if (run->state.header->phase == STATE_EVALUATE &&
        run->state.header->step < state_steps_total(&run->state))
        advance(run, all_shards(run), task); /* this replica alone */
    run->compute_s += clock_s() - start;
    if (run->anew)
        save_forget(run->save);
    run->anew = false;
    tell_update(run);
}

/* --- The end --- */

/* The same on all nodes: the result, behind the last step, with a new optimiser. What this node's steps were like is kept
 * apart. */
static void
take_result(struct run *run)
{
    struct state *state = &run->state;
    struct state_header *h = state->header;
    const struct state_job *job = &state->job;
    uint64_t total = state_steps_total(state), each = (job->train + job->batch - 1) / job->batch;
    run->train_loss = h->train_loss;
    for (size_t s = 0; s < state->slot_count; s++)
        memset(state->slot[s], 0, state->param_count * sizeof *state->slot[s]);
    state_start(state, NULL);
    take_values(state, mesh_sum(run->mesh));
    h->step = total;
    h->epoch = total / each;
    h->samples = total / each * job->train + total % each * job->batch;
}

static void
evaluate(struct run *run)
{
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    run->state.header->phase = STATE_EVALUATE;
    advance(run, all_shards(run), &(struct mesh_task){.members = stats.core.peers + 1});
    run->state.header->phase = STATE_TRAIN;
}

void
gossip_train_finish(struct run *run)
{
    struct state *state = &run->state;
    const int32_t *sum = mesh_sum(run->mesh);
    uint64_t result = XXH3_64bits(sum, state->param_count * sizeof *sum) | 1;
    take_result(run);
    if (state->job.test)
        evaluate(run);
    state->header->done = 1;
    run->hash = state_hash_anew(state, run->pool);
    run->round = state->header->round;
    mesh_state(run->mesh, state->block,
               &(struct core_state){.round = run->round, .hash = result, .done = true});
}

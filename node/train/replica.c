/* replica.c - see replica.h. */
#include "node/train/replica.h"
#include "proto/bits.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

static const double UNIT = 1.0 / GOSSIP_ONE;

/* `value` is finite. */
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
replica_values(const struct state *state, int32_t *out)
{
    for (size_t k = 0; k < state->param_count; k++)
        out[k] = whole((double)state->params[k]);
}

uint64_t
replica_hash(const struct state *state)
{
    return XXH3_64bits(state->params, state->param_count * sizeof *state->params) | 1;
}

/* --- A step --------------------------------------------------------------------------------------- */

/* Before which step is the replica? It may have joined late; nobody's steps are counted but its own. With async the
 * mesh's common progress decides on the rate, and on the data: a slow node does not stay behind. */
static void
place(struct state *state, bool async, const struct core_task *task)
{
    struct state_header *h = state->header;
    const struct state_job *job = &state->job;
    uint64_t total = state_steps_total(state);
    uint64_t step = async ? task->known / job->shards : task->round;
    h->done = 0;
    h->phase = STATE_TRAIN;
    state_place(state, step < total ? step : total - 1);
}

void
replica_show(struct state *state, const int32_t *values, uint64_t step)
{
    struct state_header *h = state->header;
    state_place(state, step);
    h->samples = state_samples(&state->job, step);
    h->round = h->round > 0 ? h->round : 1; /* a joiner, too, has something to save */
    h->done = 0;
    take_values(state, values);
}

void
replica_begin(const struct replica *replica, const struct core_task *task, const int32_t *values)
{
    struct state *state = replica->state;
    place(state, replica->async, task);
    take_values(state, values);
    memcpy(replica->before, state->params, state->param_count * sizeof(float));
}

/* With async a fast node may make several steps while the mesh makes one: each with other shards of it. */
uint64_t
replica_shards(const struct replica *replica, const struct core_task *task)
{
    unsigned shards = replica->state->job.shards, by = (unsigned)(task->round % shards);
    uint64_t all = bits_below(shards);
    if (!replica->async || by == 0)
        return task->shards;
    return (task->shards << by | task->shards >> (shards - by)) & all;
}

/* Some shards stand for all. */
static void
scale(const struct state *state, int32_t *sum)
{
    int64_t mine = sum[state->param_count + TAIL_SAMPLES], all = (int64_t)state_rows(state);
    if (mine <= 0 || mine == all)
        return;
    for (size_t k = 0; k < state->param_count; k++) {
        int64_t value = sum[k] * all / mine;
        sum[k] = (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
    }
}

uint64_t
replica_round(const struct replica *replica, uint64_t shards, int32_t *own,
              struct state_event *event, void (*ready)(void *ctx, size_t bucket), void *ctx)
{
    bool evaluation = replica->state->header->phase == STATE_EVALUATE;
    state_rehash(replica->state, replica->pool);
    work_drop(replica->work);
    work_round(replica->work, replica->state, shards, true, own, ready, ctx);
    if (!evaluation)
        scale(replica->state, own);
    uint64_t hash = state_advance(replica->next, replica->state, own, event, replica->pool);
    state_swap(replica->state, replica->next);
    event->coverage = shards;
    return hash;
}

/* All or nothing, as a gradient: what the optimizer makes of a finite one may not be finite. */
bool
replica_update(const struct replica *replica, int32_t *out)
{
    size_t count = replica->state->param_count;
    const float *params = replica->state->params;
    bool finite = true;
    for (size_t k = 0; k < count; k++) {
        finite = finite && isfinite(params[k]);
        out[k] = finite ? whole((double)params[k] - (double)replica->before[k]) : 0;
    }
    if (!finite)
        memset(out, 0, count * sizeof *out);
    return finite;
}

/* --- The end -------------------------------------------------------------------------------------- */

void
replica_result(struct state *state, const int32_t *values)
{
    struct state_header *h = state->header;
    const struct state_job *job = &state->job;
    uint64_t total = state_steps_total(state);
    state_start(state);
    take_values(state, values);
    h->train_loss = (double)NAN; /* each node has one of its own */
    h->step = total;
    h->epoch = total / state_epoch_steps(job);
    h->samples = state_samples(job, total);
}

/* train_tell.c - what a run tells of itself while it trains: its steps, what the node does, and why it stops. */
#include "node/train/train_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "mesh/core/gossip/gossip_flow.h"
#include "node/results/waiting.h"
#include "node/train/meeting.h"
#include "proto/clock.h"

enum { SLOW_SURE_S = 10 /* a PC is slow for so long before it is said */ };

/* Once: there are more nodes than shards, and this one has none. */
static void
tell_watching(struct run *run, const struct mesh_task *task)
{
    unsigned shards = run->config->train.shards;
    if (run->told.watches || task->mine || task->members <= shards)
        return;
    run->told.watches = true;
    train_say(run, 6, "%u %s, %u nodes: this node only watches for now (train.shards)", shards,
              shards == 1 ? "shard" : "shards", task->members);
}

/* The mesh has made about so many steps: how many since the last line. */
static void
count_progress(struct run *run, double steps, struct metrics_step *line)
{
    const struct state_job *job = &run->state.job;
    double each = (double)job->train / (double)state_epoch_steps(job), now = clock_s();
    line->mesh_steps =
        run->free.mesh_steps > 0 ? fmax(steps - run->free.mesh_steps, 0) : (double)NAN;
    line->mesh_samples = line->mesh_steps * each;
    line->mesh_s = now - run->free.mesh_at;
    run->free.mesh_steps = fmax(steps, run->free.mesh_steps);
    run->free.mesh_at = now;
}

/* As a share of the root mean square of the parameters. */
static double
distance_of(const struct run *run, double square)
{
    double sum = 0;
    for (size_t k = 0; square > 0 && k < run->state.param_count; k++)
        sum += (double)run->state.params[k] * (double)run->state.params[k];
    return sum > 0 ? sqrt(square * (double)run->state.param_count / sum) / GOSSIP_ONE : 0;
}

/* Who came within a span in which shards must not change hands; once for each PC and span. */
static void
tell_waits(struct run *run, const struct core_stats *stats)
{
    struct train_told *told = &run->told;
    uint64_t bit = UINT64_C(1) << (stats->slow & 63), end = state_span_end(&run->state);
    if (told->waits_until != end)
        told->waits_bits = 0;
    told->waits_until = end;
    if (told->waits_bits & bit)
        return;
    told->waits_bits |= bit;
    train_say(run, 6, "%s computes from step %ju on%s", stats->slow_who, end + 1,
              run->config->mesh.stages > 1 ? ", if it is needed" : "");
}

/* Who does much less than the others; once for each PC. */
static void
tell_slow(struct run *run, const struct core_stats *stats)
{
    uint64_t bit = UINT64_C(1) << (stats->slow & 63);
    double now = clock_s();
    if (stats->slow_share == 0 && state_span(&run->state) > 0) {
        tell_waits(run, stats);
        return;
    }
    if (stats->slow_share < 0 || stats->slow != run->told.slow || run->told.slow_since <= 0) {
        run->told.slow = stats->slow;
        run->told.slow_since = stats->slow_share < 0 ? 0 : now;
    } else if (!(run->told.slow_bits & bit) && now - run->told.slow_since >= SLOW_SURE_S) {
        run->told.slow_bits |= bit;
        train_say(run, 6, "slow PC %s: %.0f %% of the work", stats->slow_who,
                  100 * stats->slow_share);
    }
}

/* Who has which stages; it is said when that changes. NULL: the plan of the task is over, and nobody knows. */
static const char *
tell_holders(struct run *run, const struct mesh_task *task)
{
    struct train_told *told = &run->told;
    struct mesh_status status;
    char text[HOLDERS_TEXT];
    if (run->config->mesh.stages == 1 || task->members == 0)
        return NULL;
    if (task->plan != told->divided) {
        mesh_status(run->mesh, &status);
        if (status.core.division.plan != task->plan)
            return NULL;
        told->divided = task->plan;
        holders_text(&status.core.division, text);
        if (strcmp(text, told->holders) != 0)
            train_say(run, 6, "stages: %s", text[0] ? text : "none, each node has the whole model");
        memcpy(told->holders, text, sizeof text);
    }
    return told->holders[0] ? told->holders : NULL;
}

/* What each of so many members of a ring sends for a sum, if an element takes 32 bits. */
static double
ring_bytes(const struct run *run, unsigned members)
{
    return 2.0 * (members - 1) / members * (double)run->state.param_count * sizeof(int32_t);
}

/* Where nodes go their own ways, who goes on without the others ends with another model than they. Peers that are here
 * and in no plan have made their last step, and wait for this node. */
static void
tell_left_alone(struct run *run, uint64_t step, unsigned members, unsigned peers)
{
    bool exact = run->config->train.exact && !run->way->free;
    uint64_t total = state_steps_total(&run->state);
    if (members == 1 && peers > 0)
        return;
    if (!exact && members == 1 && run->meter.members > 1 && step < total)
        train_say(run, 4,
                  "step %ju of %ju: all other nodes are gone, and this one goes on alone. If they "
                  "go on, too, or have ended, it ends with another model than they",
                  step, total);
    run->meter.members = members ? members : run->meter.members;
}

/* Adds to a line what the run has measured since the last one, and writes it: a step of `members` nodes, 0: that others
 * computed; `reached` as in struct train_step. */
static void
write_line(struct run *run, struct metrics_step *line, unsigned members, double reached)
{
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    if (members > run->meter.peers_max)
        run->meter.peers_max = members;
    tell_left_alone(run, line->step, run->way->free ? stats.core.members : members,
                    stats.core.peers);
    line->steps_total = state_steps_total(&run->state);
    line->peers = members ? members : stats.core.peers + 1;
    line->unreached = stats.core.unreached;
    line->compute_s = run->meter.compute_s;
    line->wait_s = run->meter.wait_s;
    line->tx_bytes = stats.tx_bytes - run->meter.tx;
    line->rx_bytes = stats.rx_bytes - run->meter.rx;
    if (run->config->mesh.compress != CODEC_none && members > 1 && !run->way->free)
        line->wire_ratio = (double)line->tx_bytes / ring_bytes(run, members);
    line->distance = distance_of(run, stats.core.distance);
    line->skipped_steps = run->skips.count;
    if (reached > 0)
        count_progress(run, reached, line);
    metrics_step(run->metrics, line);
    tell_slow(run, &stats.core);
    if (stats.core.peers > run->told.peers)
        meeting_remember(run->mesh, run->config->out);
    run->told.peers = stats.core.peers;
    run->meter.compute_s = run->meter.wait_s = 0;
    run->meter.tx = stats.tx_bytes;
    run->meter.rx = stats.rx_bytes;
}

void
train_report(struct run *run, const struct train_step *step)
{
    const struct state_header *h = run->state.header;
    const struct state_event *event = step->event;
    const struct mesh_task *task = step->task;
    const struct train_test *test = step->test;
    run->meter.last_alone = task->members == 1;
    struct metrics_step line = {
        .step = h->step,
        .epoch = event->stepped && !h->epoch_step ? h->epoch - 1 : h->epoch,
        .loss = event->loss,
        .accuracy = event->accuracy,
        .plan = task->plan,
        .servers = task->servers,
        .served_bytes = task->served,
        .pipeline = task->pipeline,
        .times = step->times,
        .holders = tell_holders(run, task),
        .followed = task->members == 0,
        .samples = event->evaluated ? 0 : event->samples,
        .first = event->first,
        .clipped = event->clipped,
        .residual_norm = step->residual_norm,
        .replayed_steps = step->replayed_steps,
        .coverage = event->coverage,
        .shards = task->mine,
        .rows = event->rows,
        .ledger = h->ledger,
        .state_hash = step->hash,
        .mesh_steps = (double)event->steps,
        .mesh_samples = (double)event->samples,
        .mesh_s = run->meter.compute_s + run->meter.wait_s,
        .skipped = event->skipped,
        .evaluated = event->evaluated,
        .test_loss = h->test_loss,
        .test_accuracy = run->state.job.labels ? h->test_accuracy : -1,
        .test_of = test ? test->of : NULL,
        .test_step = test ? test->step : 0,
    };
    write_line(run, &line, task->members, step->reached);
    if (line.followed)
        metrics_doing(run->metrics, "catching up");
    tell_watching(run, task);
}

/* The live line counts the others. */
void
train_tell_skipped(struct run *run, uint64_t step)
{
    if (run->told.skipped)
        return;
    run->told.skipped = true;
    train_say(run, 4,
              "step %ju: the gradient is not finite (NaN or infinity); all nodes skip such %s",
              step, run->way->free ? "gradients" : "steps");
}

bool
train_count(struct run *run, uint64_t step, bool skipped)
{
    run->skips.count += skipped;
    run->skips.row = skipped ? run->skips.row + 1 : 0;
    run->skips.at = step;
    if (skipped)
        train_tell_skipped(run, step);
    return run->skips.row >= STATE_SKIPS_MAX;
}

void
train_count_first(struct run *run, const void *weights, size_t size)
{
    run->skips.first = run->folder.resumed ? 0 : XXH3_64bits(weights, size) | 1;
}

void
train_count_last(struct run *run, const void *weights, size_t size)
{
    run->skips.unmoved = run->skips.first == (XXH3_64bits(weights, size) | 1);
}

/* In a free way a node knows of its own gradients, and the weights tell of those of the others. */
static bool
none_counted(const struct run *run)
{
    const struct state_header *h = run->state.header;
    const struct job *job = &run->job;
    if (run->way->free)
        return run->skips.count > 0 && run->skips.unmoved;
    return h->step > job->begun && h->skipped - job->begun_skipped == h->step - job->begun;
}

static bool
all_finite(const float *weights, size_t count)
{
    size_t k = 0;
    while (k < count && isfinite(weights[k]))
        k++;
    return k == count;
}

/* In a ring all nodes stop at the same step. In a free way each one by itself, so that the last one may come to the end
 * before it has counted enough. */
bool
train_tell_hopeless(struct run *run)
{
    uint64_t row = run->skips.row;
    char what[64] = "the weights are";
    if (row < STATE_SKIPS_MAX && none_counted(run)) {
        train_say(run, 3,
                  "stopped at step %ju: none of the steps counted, as their gradients were not "
                  "finite (NaN or infinity). Try a smaller train.optimizer.*.rate%s.",
                  run->skips.at, run->way->remedy);
        return true;
    }
    if (row >= STATE_SKIPS_MAX)
        snprintf(what, sizeof what, "the last %ju gradients were", row);
    else if (!run->way->free || all_finite(run->state.params, run->state.param_count))
        return false;
    train_say(run, 3,
              "stopped at step %ju: %s not finite (NaN or infinity). Try a smaller "
              "train.optimizer.*.rate%s.",
              run->skips.at, what, run->way->remedy);
    return true;
}

/* For --peers N: who is here, and, once, what to check when the others do not come. False: it waits for nobody. */
static bool
tell_waiting(struct run *run)
{
    struct mesh_status status;
    char line[WAITING_LINE];
    mesh_status(run->mesh, &status);
    if (!status.core.waiting)
        return false;
    waiting_peers(&status, line);
    metrics_doing(run->metrics, line);
    if (status.core.waiting_us < WAITING_HINT_US || waiting_gaps(&status) > 0 ||
        (status.core.here == 1 &&
         waiting_findings(&status, &run->told.causes, 4, train_log, run)) ||
        run->told.hinted)
        return true;
    run->told.hinted = true;
    waiting_peers_hint(&status, line);
    train_say(run, 4, "%s", line);
    return true;
}

void
train_tell_lonely(struct run *run)
{
    struct mesh_status status;
    char line[WAITING_LINE];
    if (clock_s() - run->meter.started < 1e-6 * WAITING_HINT_US || clock_us() < run->told.alone_us)
        return;
    run->told.alone_us = clock_us() + WAITING_HINT_US;
    mesh_status(run->mesh, &status);
    if (status.core.waiting || status.core.contact_count > 0 || strcmp(status.names, "lo") == 0 ||
        waiting_findings(&status, &run->told.causes, 6, train_log, run) || run->told.hinted)
        return;
    run->told.hinted = true;
    waiting_alone_hint(&status, line);
    train_say(run, 6, "%s", line);
}

/* What the live line says while no step is made. */
void
train_tell_doing(struct run *run)
{
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    if (tell_waiting(run))
        return;
    char text[TRAIN_LINE];
    snprintf(text, sizeof text,
             run->state.header->step > 0
                 ? "waiting for %u %% of the model: start the nodes that had it, also if they ended"
                 : "waiting for nodes with room for %u %% of the model",
             stats.core.missing);
    if (stats.core.missing > 0)
        metrics_doing(run->metrics, text);
    else if (stats.core.catching_up)
        metrics_doing(run->metrics, "catching up");
}

void
train_tell_resumed(struct run *run, const char *skipped)
{
    const struct state_header *h = run->state.header;
    train_say(run, 6, "resumed at step %ju%s%s%s", h->step,
              h->done ? ", the last one: this run is over" : "", skipped[0] ? "; skipped " : "",
              skipped);
}

/* `why`: there is no checkpoint; or NULL. */
void
train_tell_stopped(struct run *run, const char *why)
{
    unsigned long long step = run->state.header->step, of = state_steps_total(&run->state);
    if (why)
        train_say(run, 4, "stopped at step %llu of %llu; no checkpoint: %s", step, of, why);
    else if (run->state.header->round == 0)
        train_say(run, 6, "stopped before the first of %llu steps; nothing to save", of);
    else
        train_say(run, 6,
                  "stopped at step %llu of %llu; saved in %s. The same command goes on from there.",
                  step, of, run->config->out);
}

void
train_tell_left(struct run *run)
{
    uint64_t step;
    struct mesh_stats stats;
    bool any = checkpoint_newest(run->config->out, run->job_hash, &step);
    mesh_stats(run->mesh, &stats);
    bool alone = stats.core.peers == 0;
    if (any)
        train_say(run, 6,
                  "stopped; %s the same command goes on from the checkpoint of step %ju in %s",
                  alone ? "nobody else trains:"
                        : "the other nodes go on without this one. If all have stopped,",
                  step, run->config->out);
    else
        train_say(run, 6, "stopped before the first checkpoint (train.checkpoint_every): %s",
                  alone ? "nothing is saved" : "only the nodes that go on have the model");
}

int
train_tell_damaged(struct run *run)
{
    if (!run->folder.found.whole)
        train_say(run, 3,
                  "%s: no whole checkpoint; --fresh takes the model of the nodes that train, or "
                  "begins again",
                  run->config->out);
    return run->folder.found.whole ? 0 : 1;
}

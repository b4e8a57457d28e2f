/* train_result.c - what a run that is done leaves: the model, result.json, its last lines. */
#include "node/train/train_internal.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "node/results/waiting.h"
#include "node/train/gather.h"
#include "node/train/model_file.h"
#include "proto/clock.h"

enum { PATIENCE_S = 10 };

/* In the writer's thread: the state may be exchanged for the next one meanwhile. */
int
train_model(void *ctx, const struct state_header *header, const float *weights, struct why *why)
{
    struct run *run = ctx;
    char path[CONFIG_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/model.safetensors", run->config->out);
    const bool labels = job_rules(&run->job, run->config).labels > 0;
    struct model_file file = model_file_of(header, labels, weights, nn_param_count(run->job.model));
    if (!header->done && run->way->whose)
        file.whose = run->way->whose;
    int rc = model_file_write(path, run->config, &run->job, &file, weights, why);
    if (!rc && !run->told.model)
        train_say(run, 6, "model of step %ju: %s", header->step, path);
    run->told.model = run->told.model || !rc;
    return rc;
}

/* The weights are in the file of what this node and others hold. */
static int
write_gathered(struct run *run, struct why *why)
{
    char path[CONFIG_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/model.safetensors", run->config->out);
    const bool labels = job_rules(&run->job, run->config).labels > 0;
    const struct model_file file = model_file_of(run->state.header, labels, NULL, 0);
    return gather_write_model(run->gather, path, run->config, &run->job, &file, why);
}

static int
write_last_model(struct run *run, const struct metrics_result *result, struct why *why)
{
    if (result->no_model)
        return 0;
    return run->gather ? write_gathered(run, why) : save_model_last(run->save, &run->state, why);
}

static int
write_files(struct run *run, const struct metrics_result *result, struct why *why)
{
    metrics_find(run->metrics);
    int rc = write_last_model(run, result, why);
    return rc ? rc : metrics_result(run->metrics, result, why);
}

/* A disk that is full may be full for a while only. */
static int
insist(struct run *run, const struct metrics_result *result)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    double until = clock_s() + PATIENCE_S;
    struct why why;
    int rc = write_files(run, result, &why);
    if (rc)
        train_say(run, 4, "%s; trying again for %d s", why.line, PATIENCE_S);
    while (rc && !train_interrupted() && clock_s() < until) {
        nanosleep(&pause, NULL);
        rc = write_files(run, result, &why);
    }
    if (rc)
        train_say(run, 3, "%s: the results could not be written", why.line);
    return rc;
}

/* Equal weights do not show that nodes worked together: any of them comes to these alone. */
static void
tell_alone(struct run *run, const struct mesh_status *status)
{
    char unmet[WAITING_LINE];
    size_t count = waiting_unmet(status, unmet);
    if (count > 0)
        train_say(run, 4, "this node trained alone: it heard %s, but never had a connection to %s",
                  unmet, count == 1 ? "it" : "them");
}

/* Has no other node this model? An exact one is the same whoever computed it, so there it is alone who did all by
 * itself. Else only nodes
 * that end together have the same. */
static bool
ended_alone(const struct run *run, const struct core_stats *stats)
{
    bool rounds = !run->way->free;
    if (stats->equal > 0)
        return false;
    if (rounds && run->config->train.exact)
        return stats->shared == 0;
    return !rounds || run->meter.last_alone || stats->shared == 0;
}

/* Did this node train with others, or an earlier start of it perhaps, and nobody has its model? */
static void
tell_apart(struct run *run, const struct core_stats *stats)
{
    bool exact = run->config->train.exact && !run->way->free;
    char kind[160] = "  train.exact no";
    if (run->way->free)
        config_way_tell(run->config, kind, sizeof kind);
    if (!exact && ended_alone(run, stats) &&
        (run->meter.peers_max > 1 || run->folder.resumed || run->folder.restarts))
        train_say(run, 4,
                  "no other node ended together with this one. With %s, any others of this run "
                  "have other weights: compare their sha256",
                  kind + 2);
}

/* Of the weights and of the state. */
static void
hash_all(struct run *run, struct metrics_result *result)
{
    const struct state *state = &run->state;
    struct why *why = &run->no_model;
    if (run->gather && gather_sha256(run->gather, result->params_sha256, result->state_sha256, why))
        train_say(run, 4, "%s", why->line);
    result->no_model = why->line[0] ? why->line : NULL;
    if (run->gather || result->no_model)
        return;
    model_file_sha256(state_weights(state), state->param_count * sizeof(float),
                      result->params_sha256);
    model_file_sha256(state->block, state->size, result->state_sha256);
}

int
train_results(struct run *run)
{
    const struct state_header *h = run->state.header;
    char node[PROTO_NAME_MAX];
    struct mesh_stats stats;
    struct mesh_status status;
    mesh_stats(run->mesh, &stats);
    mesh_status(run->mesh, &status);
    snprintf(node, sizeof node, "%016jx", stats.node.id);
    struct metrics_result result = {
        .run = run->config->run.name,
        .node = node,
        .steps = h->step,
        .epochs = h->epoch,
        .samples = h->samples,
        .train_loss = state_train_loss(h),
        .test_loss = h->evaluations ? h->test_loss : (double)NAN,
        .test_accuracy = h->evaluations && run->state.job.labels ? h->test_accuracy : (double)NAN,
        .wall_s = clock_s() - run->meter.started,
        .exact = run->config->train.exact && !run->way->free,
        .peers_max = run->meter.peers_max,
        .alone = ended_alone(run, &stats.core),
        .mesh = &status.core,
        .plans = stats.core.plans,
        .aborts = stats.core.aborts,
        .damages = stats.core.damages,
        .audits = stats.core.audits,
        .expelled = stats.core.expulsions,
        .tx_bytes = stats.tx_bytes,
        .rx_bytes = stats.rx_bytes,
    };
    if (run->way->report)
        run->way->report(run, &result);
    hash_all(run, &result);
    run->told.model = true; /* the last lines say where it is */
    if (result.alone && stats.core.shared == 0)
        tell_alone(run, &status);
    tell_apart(run, &stats.core);
    int rc = insist(run, &result);
    if (!rc)
        metrics_show_result(run->metrics, &result);
    return rc;
}

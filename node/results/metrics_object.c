/* metrics_object.c - steps, jobs and results as JSON objects. */
#include "node/results/metrics_object.h"

#include <math.h>
#include <stdio.h>

#include "node/base/parse.h"
#include "node/results/waiting.h"

static json_t *
number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* 0..1; negative means that there is none. */
static json_t *
share_json(double value)
{
    return value < 0 ? json_null() : number(value);
}

/* JSON's integers end at 2^63 - 1 here. */
static json_t *
integer_json(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *
integers_json(const uint64_t *value, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, integer_json(value[i]));
    return array;
}

static json_t *
hash_text(uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016jx", hash);
    return json_string(text);
}

static json_t *
safe_text(const char *text)
{
    char safe[512];
    parse_escape(safe, sizeof safe, text ? text : "");
    return json_string(safe);
}

double
metrics_idle(const struct recording_times *times)
{
    return 1 - (double)times->busy_us / fmax(1, (double)times->round_us);
}

double
metrics_idle_formula(unsigned stages, uint64_t shards)
{
    double k = stages, m = __builtin_popcountll(shards);
    return (k - 1) / (m + k - 1);
}

static json_t *
pipeline_object(const struct metrics_step *step)
{
    const struct core_pipeline *pipeline = &step->pipeline;
    const struct recording_times *times = &step->times;
    json_t *object = json_object(), *mine = json_array();
    for (unsigned stage = 0; stage < pipeline->stages; stage++)
        if (pipeline->computes >> stage & 1)
            json_array_append_new(mine, integer_json(stage));
    json_object_set_new(object, "stages", integer_json(pipeline->stages));
    json_object_set_new(object, "mine", mine);
    json_object_set_new(object, "round_s", number(1e-6 * (double)times->round_us));
    json_object_set_new(object, "busy_s", number(1e-6 * (double)times->busy_us));
    json_object_set_new(object, "wait_s", number(1e-6 * (double)times->waits_us));
    json_object_set_new(object, "sent_bytes", integer_json(pipeline->sent));
    json_object_set_new(object, "idle", number(metrics_idle(times)));
    json_object_set_new(object, "idle_formula",
                        number(metrics_idle_formula(pipeline->stages, step->shards)));
    if (step->holders)
        json_object_set_new(object, "nodes", safe_text(step->holders));
    return object;
}

void
metrics_test_set(json_t *object, const struct metrics_step *step)
{
    json_object_set_new(object, "test_loss", number(step->test_loss));
    json_object_set_new(object, "test_accuracy", share_json(step->test_accuracy));
    if (!step->test_of)
        return;
    json_object_set_new(object, "test_of", json_string(step->test_of));
    json_object_set_new(object, "test_step", integer_json(step->test_step));
}

json_t *
metrics_step_object(const struct metrics_step *step, double time_s, const char *alarm)
{
    json_t *object = json_object();
    json_object_set_new(object, "step", integer_json(step->step));
    json_object_set_new(object, "time_s", number(time_s));
    json_object_set_new(object, "epoch", integer_json(step->epoch));
    json_object_set_new(object, "loss", number(step->loss));
    json_object_set_new(object, "accuracy", share_json(step->accuracy));
    json_object_set_new(object, "peers", integer_json(step->peers));
    if (step->followed)
        json_object_set_new(object, "followed", json_true());
    else
        json_object_set_new(object, "plan", hash_text(step->plan));
    if (step->servers) {
        json_object_set_new(object, "servers", integer_json(step->servers));
        json_object_set_new(object, "served_bytes", integer_json(step->served_bytes));
    }
    json_object_set_new(object, "samples", integer_json(step->samples));
    json_object_set_new(object, "first", integer_json(step->first));
    json_object_set_new(object, "coverage", hash_text(step->coverage));
    json_object_set_new(object, "shards", hash_text(step->shards));
    json_object_set_new(object, "rows", hash_text(step->rows));
    json_object_set_new(object, "ledger", hash_text(step->ledger));
    json_object_set_new(object, "samples_per_s",
                        number(step->mesh_samples / fmax(step->mesh_s, 1e-9)));
    json_object_set_new(object, "compute_s", number(step->compute_s));
    json_object_set_new(object, "wait_s", number(step->wait_s));
    json_object_set_new(object, "tx_bytes", integer_json(step->tx_bytes));
    json_object_set_new(object, "rx_bytes", integer_json(step->rx_bytes));
    if (step->wire_ratio > 0) {
        json_object_set_new(object, "wire_ratio", number(step->wire_ratio));
        json_object_set_new(object, "clipped", integer_json(step->clipped));
    }
    if (step->residual_norm > 0)
        json_object_set_new(object, "residual_norm", number(step->residual_norm));
    if (step->replayed_steps > 0)
        json_object_set_new(object, "replayed_steps", integer_json(step->replayed_steps));
    if (step->pipeline.stages)
        json_object_set_new(object, "pipeline", pipeline_object(step));
    json_object_set_new(object, "state_hash", hash_text(step->state_hash));
    if (step->distance > 0)
        json_object_set_new(object, "distance", number(step->distance));
    if (step->skipped)
        json_object_set_new(object, "skipped", json_true());
    if (step->evaluated)
        metrics_test_set(object, step);
    if (alarm[0])
        json_object_set_new(object, "alarm", safe_text(alarm));
    return object;
}

/* The nodes that were heard and never met: [{"address": "192.168.7.13:20000", "host": "pc3"}], host null when it is
 * not known. */
static json_t *
unmet(const struct core_status *mesh)
{
    json_t *list = json_array();
    for (size_t i = 0; mesh && i < mesh->contact_count; i++) {
        const struct core_contact *contact = &mesh->contacts[i];
        char address[PROTO_HOST_MAX + 8];
        if (!waiting_is_unmet(contact))
            continue;
        snprintf(address, sizeof address, "%s:%u", contact->at.host, contact->at.control_port);
        json_t *object = json_object();
        json_object_set_new(object, "address", safe_text(address));
        json_object_set_new(object, "host",
                            contact->name[0] ? safe_text(contact->name) : json_null());
        json_array_append_new(list, object);
    }
    return list;
}

json_t *
metrics_result_object(const struct metrics_result *result, uint64_t warnings)
{
    json_t *object = json_object();
    json_object_set_new(object, "run", safe_text(result->run));
    json_object_set_new(object, "node", safe_text(result->node));
    json_object_set_new(object, "steps", integer_json(result->steps));
    json_object_set_new(object, "epochs", integer_json(result->epochs));
    json_object_set_new(object, "samples", integer_json(result->samples));
    json_object_set_new(object, "train_loss", number(result->train_loss));
    json_object_set_new(object, "test_loss", number(result->test_loss));
    json_object_set_new(object, "test_accuracy", share_json(result->test_accuracy));
    json_object_set_new(object, "wall_s", number(result->wall_s));
    json_object_set_new(object, "exact", json_boolean(result->exact));
    bool whole = !result->no_model;
    json_object_set_new(object, "params_sha256",
                        whole ? safe_text(result->params_sha256) : json_null());
    json_object_set_new(object, "state_sha256",
                        whole ? safe_text(result->state_sha256) : json_null());
    if (!whole)
        json_object_set_new(object, "no_model", safe_text(result->no_model));
    json_object_set_new(object, "peers_max", integer_json(result->peers_max));
    json_object_set_new(object, "alone", json_boolean(result->alone));
    json_object_set_new(object, "unmet", unmet(result->mesh));
    json_object_set_new(object, "plans", integer_json(result->plans));
    json_object_set_new(object, "aborts", integer_json(result->aborts));
    json_object_set_new(object, "damages", integer_json(result->damages));
    json_object_set_new(object, "audits", integer_json(result->audits));
    json_object_set_new(object, "expelled", integer_json(result->expelled));
    json_object_set_new(object, "tx_bytes", integer_json(result->tx_bytes));
    json_object_set_new(object, "rx_bytes", integer_json(result->rx_bytes));
    json_object_set_new(object, "warnings", integer_json(warnings));
    return object;
}

json_t *
metrics_job_object(const struct metrics_job *job)
{
    json_t *object = json_object();
    json_object_set_new(object, "run", safe_text(job->run));
    json_object_set_new(object, "job", hash_text(job->job));
    json_object_set_new(object, "seed", integer_json(job->seed));
    json_object_set_new(object, "train", integer_json(job->train));
    json_object_set_new(object, "batch", integer_json(job->batch));
    json_object_set_new(object, "shards", integer_json(job->shards));
    json_object_set_new(object, "steps", integer_json(job->steps));
    json_object_set_new(object, "local_steps", integer_json(job->local_steps));
    if (job->span) {
        json_object_set_new(object, "span", integer_json(job->span));
        json_object_set_new(object, "warmup", integer_json(job->warmup));
    }
    if (job->begun)
        json_object_set_new(object, "begun", integer_json(job->begun));
    if (job->part_count)
        json_object_set_new(object, "parts", integers_json(job->part, job->part_count));
    json_object_set_new(object, "data", hash_text(job->data));
    if (job->from)
        json_object_set_new(object, "from", hash_text(job->from));
    if (job->text)
        json_object_set_new(object, "text", json_string(job->text));
    return object;
}

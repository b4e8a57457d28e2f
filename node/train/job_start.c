/* job_start.c - what training starts from: the weights of the seed or of model.from, or the state of train.from. */
#include <errno.h>
#include <stdlib.h>

#include <xxhash.h>

#include "node/job/kind.h"
#include "node/train/from.h"
#include "node/train/job.h"

/* Of all weights in the file, tensor by tensor. */
static int
hash_from(const struct job *job, uint64_t *hash, struct why *why)
{
    XXH3_state_t *running = XXH3_createState();
    size_t most = 0;
    for (size_t i = 0; i < nn_tensor_count(job->model); i++)
        most = nn_tensor(job->model, i)->count > most ? nn_tensor(job->model, i)->count : most;
    float *buffer = malloc((most + 1) * sizeof *buffer);
    int rc = running && buffer ? 0 : why_error(why, -ENOMEM, "not enough memory");
    if (!rc)
        XXH3_64bits_reset(running);
    for (size_t i = 0; i < nn_tensor_count(job->model) && !rc; i++) {
        const struct nn_tensor *tensor = nn_tensor(job->model, i);
        rc = safetensors_take(job->from, tensor->first, tensor->first + tensor->count, buffer, why);
        if (!rc)
            XXH3_64bits_update(running, buffer, tensor->count * sizeof *buffer);
    }
    *hash = rc ? 0 : XXH3_64bits_digest(running);
    XXH3_freeState(running);
    free(buffer);
    return rc;
}

/* The weights in model.from. */
static int
read_from(struct job *job, const struct config *config, struct why *why)
{
    struct why reason;
    uint64_t hash = 0;
    if (config->model.from[0] == '\0')
        return 0;
    int rc = safetensors_open(&job->from, config->model.from, job->model, &reason);
    rc = rc ? rc : hash_from(job, &hash, &reason);
    if (rc && kind_of(config->model.from) == KIND_CHECKPOINT)
        why_set(&reason, "%s: is a checkpoint: train.from takes it", config->model.from);
    else if (rc && kind_of(config->model.from) == KIND_FOLDER)
        why_set(&reason, "%s: is a folder, expected a file such as %s/model.safetensors",
                config->model.from, config->model.from);
    if (rc)
        return why_error(why, rc, "%s: model.from: %s", config->file, reason.line);
    job->from_hash = hash ? hash : 1;
    return 0;
}

int
job_start(struct job *job, const struct config *config, struct why *why)
{
    int rc = read_from(job, config, why);
    rc = rc ? rc : from_read(job, config, why);
    return rc ? rc : job_parts(job, config, why);
}

int
job_state(const struct job *job, const struct config *config, struct state *state, struct why *why)
{
    int rc = 0;
    state_start(state);
    if (job->start)
        return from_state(job, state, why);
    for (size_t i = 0; i < state->held_count && !rc; i++) {
        const struct state_range *held = &state->held[i];
        if (job->from)
            rc = safetensors_take(job->from, held->first, held->end, state->params + held->first,
                                  why);
        else
            nn_init_range(job->model, config->run.seed, held->first, held->end, state->params);
    }
    return rc;
}

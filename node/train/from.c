/* from.c - see from.h. */
#include "node/train/from.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/job/kind.h"
#include "proto/hash.h"

static int
refuse_from(const struct config *config, int rc, const char *reason, struct why *why)
{
    return why_error(why, rc, "%s: train.from: %s", config->file, reason);
}

int
from_probe(const char *path, struct checkpoint_head *head, struct why *why)
{
    int rc = checkpoint_probe(path, head, why);
    enum kind kind = rc ? kind_of(path) : KIND_UNKNOWN;
    uint64_t step = 0;
    struct left left;
    if (kind == KIND_UNKNOWN || kind == KIND_CHECKPOINT)
        return rc;
    if (kind != KIND_FOLDER)
        return why_error(why, rc, "%s: %s, expected a checkpoint", path, kind_is(kind));
    left_read(&left, path, NULL);
    if (checkpoint_newest(path, left.job.job, &step))
        why_set(why, "%s: is a folder, expected a file such as %s/checkpoint-%llu", path, path,
                (unsigned long long)step);
    else
        why_set(why, "%s: is a folder, expected a checkpoint", path);
    left_fini(&left);
    return rc;
}

static struct config *
writer_of(const struct left *left, uint64_t job_hash)
{
    struct config_parts parts;
    struct config *found = NULL;
    struct why why;
    if (!left->config)
        return NULL;
    if (left->job.job == job_hash)
        return config_copy(&found, left->config, &why) ? NULL : found;
    int rc = config_parts_init(&parts, left->config, &why);
    for (size_t i = 0; i < parts.count && !rc && !found; i++)
        if (config_job_hash(parts.config[i], left->job.data, left->job.from) == job_hash)
            rc = config_copy(&found, parts.config[i], &why);
    config_parts_fini(&parts);
    return found;
}

struct config *
from_writer(const char *path, uint64_t job_hash, struct left *left)
{
    char dir[CONFIG_PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    left_read(left, dir, NULL);
    return writer_of(left, job_hash);
}

/* Is what the state is made of the same in both jobs? */
static int
check_writer(const struct config *config, uint64_t job_hash, struct why *why)
{
    const char *path = config->train.from;
    struct config_difference difference;
    struct why reason;
    struct left left;
    struct config *writer = from_writer(path, job_hash, &left);
    left_fini(&left);
    if (!writer) {
        why_set(&reason, "%s: no job.json beside it says which model and optimizer it is of", path);
        return refuse_from(config, -EINVAL, reason.line, why);
    }
    bool differ = config_differ_state(writer, config, &difference);
    config_destroy(&writer);
    if (!differ)
        return 0;
    why_set(&reason, "%s: %s is %s there, %s here; model.from takes the weights alone", path,
            difference.key, difference.left, difference.right);
    return refuse_from(config, -EINVAL, reason.line, why);
}

static int
check_state(const struct job *job, const struct config *config, struct why *why)
{
    const struct state_header *header = (const void *)job->start;
    const struct state_job rules = job_rules(job, config);
    uint64_t total = state_rules_total(&rules, &rules.rules);
    struct why reason;
    if (header->step >= total) {
        why_set(&reason,
                "%s has done %llu steps, and train.%s = %llu ends with step %llu: expected more",
                config->train.from, (unsigned long long)header->step,
                config->train.steps == total ? "steps" : "epochs",
                (unsigned long long)(config->train.steps == total ? total : config->train.epochs),
                (unsigned long long)total);
        return refuse_from(config, -EINVAL, reason.line, why);
    }
    return 0;
}

static int
read_state(struct job *job, const struct config *config, size_t size,
           const struct checkpoint_head *head, struct why *why)
{
    struct why reason;
    struct checkpoint checkpoint = {
        .job_hash = head->job_hash,
        .numerics = head->numerics,
        .count = 1,
        .part = true, /* what a way to train keeps beside it is not needed */
        .section[0] = {"state", job->start, size},
    };
    int rc = checkpoint_read(config->train.from, &checkpoint, &reason);
    if (rc)
        return refuse_from(config, rc, reason.line, why);
    if (state_restart(job->start, size, nn_param_count(job->model), job->exact))
        return 0;
    why_set(&reason, "%s: the state in it is damaged", config->train.from);
    return refuse_from(config, -EBADMSG, reason.line, why);
}

int
from_read(struct job *job, const struct config *config, struct why *why)
{
    struct checkpoint_head head;
    struct why reason;
    if (config->train.from[0] == '\0')
        return 0;
    int rc = from_probe(config->train.from, &head, &reason);
    if (rc && kind_of(config->train.from) == KIND_MODEL)
        why_append(&reason, ": model.from takes it");
    if (rc)
        return refuse_from(config, rc, reason.line, why);
    rc = check_writer(config, head.job_hash, why);
    if (rc)
        return rc;
    const struct optim_spec outer = job_outer(config);
    size_t size = state_size(&outer, nn_param_count(job->model), exact_blocks(job->exact));
    job->start = calloc(1, size);
    if (!job->start)
        return refuse_from(config, -ENOMEM, "not enough memory", why);
    rc = read_state(job, config, size, &head, why);
    rc = rc ? rc : check_state(job, config, why);
    if (rc)
        return rc;
    job->begun = ((const struct state_header *)(const void *)job->start)->step;
    uint64_t hash = hash64(job->start, size);
    job->from_hash = hash ? hash : 1;
    return 0;
}

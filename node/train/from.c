/* from.c - see from.h. */
#include "node/train/from.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "node/job/data_text.h"
#include "node/job/kind.h"
#include "node/train/model_file.h"

enum {
    BUFFER = 1 << 20, /* bytes that are hashed at a time */
};

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
        why_set(why, "%s: is a folder, expected a file such as %s/checkpoint-%ju", path, path,
                step);
    else
        why_set(why, "%s: is a folder, expected a checkpoint", path);
    left_fini(&left);
    return rc;
}

/* The folder that a file is in. */
static void
folder_of(const char *path, char dir[CONFIG_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(dir, CONFIG_PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
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
    folder_of(path, dir);
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
check_state(const struct job *job, const struct config *config, const struct state_header *header,
            struct why *why)
{
    const struct state_job rules = job_rules(job, config);
    uint64_t total = state_rules_total(&rules, &rules.rules);
    struct why reason;
    if (header->step >= total) {
        why_set(&reason,
                "%s has done %ju steps, and train.%s = %ju ends with step %ju: expected more",
                config->train.from, header->step, config->train.steps == total ? "steps" : "epochs",
                (config->train.steps == total ? total : config->train.epochs), total);
        return refuse_from(config, -EINVAL, reason.line, why);
    }
    return 0;
}

/* Bytes of the state from `offset` on; to NULL: could all of it be read? What a way to train keeps beside it is not
 * needed. */
static int
read_extent(struct checkpoint_file *file, size_t offset, void *to, size_t size, struct why *why)
{
    const struct checkpoint_head *head = checkpoint_head(file);
    struct checkpoint checkpoint = {.job_hash = head->job_hash,
                                    .numerics = head->numerics,
                                    .count = 1,
                                    .part = true,
                                    .section[0] = {"state", to, size}};
    if (to)
        snprintf(checkpoint.section[0].name, CHECKPOINT_NAME, "state+%zx", offset);
    return checkpoint_take(file, &checkpoint, why);
}

/* The hash of the state as it is begun with, whose header is *header. */
static int
hash_begun(struct checkpoint_file *file, size_t size, struct state_header *header, uint64_t *hash,
           struct why *why)
{
    XXH3_state_t *running = XXH3_createState();
    uint8_t *buffer = malloc(BUFFER);
    int rc = running && buffer ? 0 : why_error(why, -ENOMEM, "not enough memory");
    if (!rc)
        XXH3_64bits_reset(running);
    for (size_t at = 0, n; at < size && !rc; at += n) {
        n = size - at < BUFFER ? size - at : BUFFER;
        rc = read_extent(file, at, buffer, n, why);
        if (!rc && at == 0)
            memcpy(buffer, header, sizeof *header);
        if (!rc)
            XXH3_64bits_update(running, buffer, n);
    }
    *hash = rc ? 0 : XXH3_64bits_digest(running);
    XXH3_freeState(running);
    free(buffer);
    return rc;
}

static bool
exponents_sound(struct checkpoint_file *file, const struct exact *exact, size_t at)
{
    struct why why;
    size_t size = exact_blocks(exact) * sizeof(int16_t);
    int16_t *exponent = malloc(size);
    bool valid = exponent && read_extent(file, at, exponent, size, &why) == 0 &&
                 exact_valid(exact, exponent);
    free(exponent);
    return valid;
}

/* Is the file one of a state without bases, which this job has? */
static bool
lacks_bases(const struct job *job, size_t slots, struct why *why)
{
    size_t params = nn_param_count(job->model), blocks = exact_blocks(job->exact);
    return job->bases && job->start &&
           read_extent(job->start, 0, NULL, state_size(slots - 1, params, blocks), why) == 0;
}

/* The header, as the run begins with it, and the hash. */
static int
read_state(struct job *job, const struct config *config, struct state_header *header,
           struct why *why)
{
    const struct optim_spec outer = config_outer(config);
    size_t params = nn_param_count(job->model), blocks = exact_blocks(job->exact);
    size_t slots = state_slots(&outer, job->bases), exponents = state_size(slots, params, 0);
    size_t size = state_size(slots, params, blocks);
    struct why reason;
    uint64_t hash;
    int rc = checkpoint_open(&job->start, config->train.from, &reason);
    rc = rc ? rc : read_extent(job->start, 0, NULL, size, &reason);
    if (rc && lacks_bases(job, slots, &reason))
        why_set(&reason,
                "%s is of a run without mesh.compress = powersgd or auto, whose vectors are part "
                "of the "
                "state: use model.from, or another codec",
                config->train.from);
    rc = rc ? rc : read_extent(job->start, 0, header, sizeof *header, &reason);
    if (!rc && !(state_restart(header) && exponents_sound(job->start, job->exact, exponents)))
        rc = why_error(&reason, -EBADMSG, "%s: the state in it is damaged", config->train.from);
    rc = rc ? rc : hash_begun(job->start, size, header, &hash, &reason);
    if (rc)
        return refuse_from(config, rc, reason.line, why);
    job->begun = header->step;
    job->begun_skipped = header->skipped;
    job->from_hash = hash ? hash : 1;
    return 0;
}

int
from_read(struct job *job, const struct config *config, struct why *why)
{
    struct checkpoint_head head;
    struct state_header header;
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
    rc = read_state(job, config, &header, why);
    return rc ? rc : check_state(job, config, &header, why);
}

int
from_state(const struct job *job, struct state *state, struct why *why)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    int rc = 0;
    for (size_t i = state_extents(state, extent); i-- > 0 && !rc;)
        rc = read_extent(job->start, extent[i].offset, state->block + extent[i].offset,
                         extent[i].size, why);
    if (!rc && !state_restart(state->header))
        rc = why_error(why, -EBADMSG, "train.from: its state has changed");
    if (!rc)
        state_place(state, state->header->step);
    return rc;
}

void
from_tell(const struct job *job, const struct config *config, from_say *say, void *ctx)
{
    const char *from = job->from ? config->model.from : config->train.from;
    char dir[CONFIG_PATH_MAX], path[CONFIG_PATH_MAX + 32];
    struct config_difference difference;
    struct model_note note;
    struct why line[2] = {{""}, {""}}, text;
    if (!job->from && !job->start)
        return;
    folder_of(from, dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (model_note_read(&note, job->from ? from : path, &text) == 0) {
        if (job->from && model_note_differ(&note, config, &difference))
            why_set(&line[0], "%s is %s there, %s here", difference.key, difference.left,
                    difference.right);
        if (!data_text_differ_model(&note.scaling, job->data, line[1].line, sizeof line[1].line))
            line[1].line[0] = '\0';
    }
    for (int i = 0; i < 2; i++) {
        if (!line[i].line[0])
            continue;
        why_set(&text, "%s %s: %s", job->from ? "model.from" : "train.from", from, line[i].line);
        say(ctx, text.line);
    }
    model_note_fini(&note);
}

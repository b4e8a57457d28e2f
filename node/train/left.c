/* left.c - see left.h. */
#include "node/train/left.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files.h"
#include "nn/files/disk.h"

/* The job of the text in job.json. A version that writes texts otherwise has other hashes, too. */
static void
read_text(struct left *left, const char *text)
{
    struct why why;
    int rc = config_parse(&left->config, "job.json", text, strlen(text), &why);
    rc = rc ? rc : config_check(left->config, &why);
    if (rc || config_job_hash(left->config, left->job.data, left->job.from) != left->job.job)
        config_destroy(&left->config);
}

/* A file that a power cut spoilt is as if it were not there; but it is told. */
static json_t *
read_object(struct left *left, const char *dir, const char *name, struct why *why)
{
    char path[DISK_PATH_MAX];
    uint8_t *text;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (disk_read(path, VERIFY_JOB_MAX, &text, &size, why))
        return NULL;
    json_t *object = verify_object((const char *)text, size, VERIFY_JOB_MAX, why);
    if (!object)
        left->unreadable = name;
    free(text);
    return object;
}

int
left_read(struct left *out, const char *dir, struct why *why)
{
    *out = (struct left){.known = false};
    json_t *object = read_object(out, dir, "result.json", NULL);
    out->ended = object != NULL;
    json_decref(object);
    object = read_object(out, dir, "job.json", why);
    out->known = object && verify_read_job(&out->job, object, why) == 0;
    const char *text = json_string_value(json_object_get(object, "text"));
    out->text = text != NULL;
    if (out->known && text)
        read_text(out, text);
    json_decref(object);
    return out->known ? 0 : -EBADMSG;
}

void
left_fini(struct left *left)
{
    config_destroy(&left->config);
}

static bool
same_sources(const struct left *left, const struct job *job)
{
    return left->job.data == data_info(job->data)->hash && left->job.from == job->from_hash;
}

/* The run in the folder is this job, and goes on with other settings already. */
static bool
goes_on(const struct left *left, const struct config *config, enum train_start start)
{
    struct config_difference difference;
    size_t at = 0;
    return left->config->train.past[0] && (start == TRAIN_RESUME || !left->ended) &&
           !config_differ(left->config, config, &at, &difference);
}

static bool
may_go_on(const struct left *left, const struct config *config)
{
    struct config_difference difference;
    size_t at = 0;
    return config_differ(left->config, config, &at, &difference) &&
           !config_differ_fixed(left->config, config, &difference);
}

static int
take_past(struct config *config, const struct left *left, struct why *why)
{
    char assignment[CONFIG_PAST_MAX + 16];
    snprintf(assignment, sizeof assignment, "train.past=%s", left->config->train.past);
    return config_set(config, assignment, why);
}

int
left_settle(struct config *config, struct job *job, enum train_start start, const char *const *dir,
            size_t count, struct why *why)
{
    struct left best = {.known = false};
    uint64_t newest = 0, step;
    bool done = start == TRAIN_FRESH || config->train.past[0] != '\0', changed = false;
    int rc = 0;
    for (size_t i = 0; i < count && !done; i++) {
        struct left left;
        left_read(&left, dir[i], NULL);
        bool fits = left.config && same_sources(&left, job);
        if (fits && goes_on(&left, config, start)) {
            rc = take_past(config, &left, why);
            done = changed = true;
        } else if (fits && start == TRAIN_RESUME && may_go_on(&left, config) &&
                   checkpoint_newest(dir[i], left.job.job, &step) && step > newest) {
            newest = step;
            left_fini(&best);
            best = left;
            left.config = NULL;
        }
        left_fini(&left);
    }
    if (!done && best.config) {
        rc = config_parts_add(config, best.config, newest, why);
        changed = true;
    }
    left_fini(&best);
    return rc || !changed ? rc : job_parts(job, config, why);
}

size_t
left_part(const struct left *left, const struct job *job)
{
    size_t i = 0;
    while (i < job->past_count && !(left->known && left->job.job == job->past_hash[i]))
        i++;
    return i;
}

/* Does it say how to train, and not what? */
static bool
is_way(const char *key)
{
    return strncmp(key, "mesh.", 5) == 0 || strncmp(key, "gossip.", 7) == 0;
}

void
left_tell(const struct left *left, const struct config *config, const struct job *job,
          enum train_start start, char *out, size_t size)
{
    struct config_difference difference;
    char what[3 * CONFIG_SHOWN_MAX + 16] = "other data, model or settings";
    const char *ways = "--fresh begins again, --out takes another folder";
    size_t at = 0;
    bool fixed = left->config && config_differ_fixed(left->config, config, &difference);
    bool later = left->config && !fixed && config_differ(left->config, config, &at, &difference);
    if (fixed || later)
        snprintf(what, sizeof what, "%s %s, here %s", difference.key, difference.left,
                 difference.right);
    else if (left->config && !same_sources(left, job))
        snprintf(what, sizeof what, "%s",
                 left->job.data != data_info(job->data)->hash
                     ? "other data"
                     : "other weights in model.from, or another state in train.from");
    else if (left->config)
        snprintf(what, sizeof what, "other settings of earlier steps, train.past");
    if (later && start != TRAIN_RESUME)
        ways = "--resume goes on with these settings, --fresh begins again, --out takes another "
               "folder";
    bool asked = fixed && start == TRAIN_RESUME, way = fixed && is_way(difference.key);
    snprintf(out, size, "holds %s run of another job (%s)%s; %s%s",
             left->ended ? "a" : "an unfinished", what,
             asked ? ", which cannot change on the way" : "", ways,
             way     ? ", train.from=CHECKPOINT trains on from a checkpoint in another way"
             : asked ? ", model.from starts from the weights of a run"
                     : "");
}

bool
left_of_part(const struct left *left, uint64_t hash)
{
    struct config_parts parts;
    struct why why;
    bool same = false;
    if (!left->config || config_parts_init(&parts, left->config, &why))
        return false;
    for (size_t i = 0; i < parts.count && !same; i++)
        same = hash == config_job_hash(parts.config[i], left->job.data, left->job.from);
    config_parts_fini(&parts);
    return same;
}

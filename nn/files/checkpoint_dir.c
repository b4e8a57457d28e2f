/* checkpoint_dir.c - a directory of checkpoint-STEP files: find the newest that is valid, delete old ones. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/files/checkpoint.h"
#include "nn/files/disk.h"

static const char prefix[] = "checkpoint-";

/* The STEP of "checkpoint-STEP", digits without leading zeros. */
static bool
step_of(const char *file, uint64_t *step)
{
    char name[sizeof prefix + 20];
    unsigned long long value = 0;
    if (strncmp(file, prefix, sizeof prefix - 1) == 0)
        value = strtoull(file + sizeof prefix - 1, NULL, 10);
    snprintf(name, sizeof name, "%s%llu", prefix, value);
    *step = value;
    return strcmp(file, name) == 0;
}

void
checkpoint_path(char *path, const char *dir, uint64_t step)
{
    snprintf(path, DISK_PATH_MAX, "%s/%s%ju", dir, prefix, step);
}

static int
newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static int
is_checkpoint(const struct dirent *entry)
{
    uint64_t step;
    return step_of(entry->d_name, &step);
}

int
checkpoint_list(const char *dir, uint64_t **steps, size_t *count)
{
    struct dirent **entry;
    int found = scandir(dir, &entry, is_checkpoint, NULL);
    *steps = NULL;
    *count = 0;
    if (found < 0)
        return -errno;
    *steps = calloc((size_t)found + 1, sizeof **steps);
    for (int i = 0; i < found; i++) {
        if (*steps)
            step_of(entry[i]->d_name, &(*steps)[(*count)++]);
        free(entry[i]);
    }
    free(entry);
    if (*count)
        qsort(*steps, *count, sizeof **steps, newest_first);
    return *steps ? 0 : -ENOMEM;
}

/* One that cannot be used: somebody else's, unfit, or damaged and perhaps ours? */
static void
pass_over(struct checkpoint_found *found, uint64_t step, int rc)
{
    if (rc == -EINVAL)
        found->others = true;
    else if (rc != -EBADMSG && rc != -EIO)
        found->unfit = true;
    else if (found->damaged_count < CHECKPOINT_DAMAGED_MAX)
        found->damaged[found->damaged_count++] = step;
}

int
checkpoint_read_newest(const char *dir, uint64_t step_max, struct checkpoint *checkpoint,
                       struct checkpoint_found *found, struct why *why)
{
    uint64_t *steps;
    size_t count;
    bool any = false; /* a line in `why` */
    why_set(why, "%s", "");
    *found = (struct checkpoint_found){.whole = false};
    int rc = checkpoint_list(dir, &steps, &count);
    if (rc && rc != -ENOENT)
        why_set(why, "%s: %s", dir, strerror(-rc));
    for (size_t i = 0; !rc && !found->whole && i < count; i++) {
        char path[DISK_PATH_MAX];
        struct why line;
        if (steps[i] > step_max)
            continue;
        checkpoint_path(path, dir, steps[i]);
        int bad = checkpoint_read_step(path, &steps[i], checkpoint, &line);
        found->whole = bad == 0;
        if (bad) {
            pass_over(found, steps[i], bad);
            why_append(why, "%s%s", any ? "; " : "", line.line);
            any = true;
        }
    }
    free(steps);
    return rc ? rc : found->whole ? 0 : -ENOENT;
}

struct candidate {
    uint64_t step, job_hash;
};

static int
by_job_then_newest(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->job_hash != y->job_hash)
        return (x->job_hash > y->job_hash) - (x->job_hash < y->job_hash);
    return (x->step < y->step) - (x->step > y->step);
}

/* Walk down each job's checkpoints; once `keep` have been passed, a valid one among them, the rest goes. */
static void
delete_old(const char *dir, const struct candidate *candidate, size_t count, unsigned keep,
           const uint64_t *verified)
{
    unsigned kept = 0;
    bool safe = false;
    for (size_t i = 0; i < count; i++) {
        char path[DISK_PATH_MAX];
        checkpoint_path(path, dir, candidate[i].step);
        if (i && candidate[i].job_hash != candidate[i - 1].job_hash) {
            kept = 0;
            safe = false;
        }
        if (safe && kept >= keep) {
            unlink(path);
            continue;
        }
        kept++;
        safe = safe || (verified && *verified == candidate[i].step) ||
               checkpoint_valid(path, candidate[i].step);
    }
}

static int
is_temporary(const struct dirent *entry)
{
    char name[sizeof entry->d_name];
    uint64_t step;
    size_t length = strlen(entry->d_name), suffix = strlen(DISK_TEMP);
    if (length < suffix || strcmp(entry->d_name + length - suffix, DISK_TEMP) != 0)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(length - suffix), entry->d_name);
    return step_of(name, &step);
}

/* Remove checkpoint-STEP.tmp of a run that was killed while writing. */
static void
delete_temporaries(const char *dir)
{
    struct dirent **entry;
    int found = scandir(dir, &entry, is_temporary, NULL);
    for (int i = 0; i < found; i++) {
        char path[DISK_PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
        unlink(path);
        free(entry[i]);
    }
    if (found >= 0)
        free(entry);
}

void
checkpoint_prune(const char *dir, unsigned keep, const uint64_t *verified)
{
    uint64_t *steps;
    size_t count, candidates = 0;
    delete_temporaries(dir);
    struct candidate *candidate = NULL;
    if (checkpoint_list(dir, &steps, &count) == 0 && count)
        candidate = calloc(count, sizeof *candidate);
    for (size_t i = 0; candidate && i < count; i++) {
        char path[DISK_PATH_MAX];
        struct checkpoint_head head;
        checkpoint_path(path, dir, steps[i]);
        checkpoint_probe(path, &head, NULL);
        candidate[candidates] = (struct candidate){steps[i], head.job_hash};
        candidates += head.size > 0;
    }
    if (candidates) {
        qsort(candidate, candidates, sizeof *candidate, by_job_then_newest);
        delete_old(dir, candidate, candidates, keep ? keep : 1, verified);
    }
    free(candidate);
    free(steps);
}

void
checkpoint_forget(const char *dir, uint64_t job_hash, bool others)
{
    uint64_t *steps;
    size_t count;
    int rc = checkpoint_list(dir, &steps, &count);
    for (size_t i = 0; !rc && i < count; i++) {
        char path[DISK_PATH_MAX];
        struct checkpoint_head head;
        checkpoint_path(path, dir, steps[i]);
        bool whole = checkpoint_probe(path, &head, NULL) == 0;
        if ((whole && head.job_hash != job_hash) == others)
            unlink(path);
    }
    free(steps);
}

bool
checkpoint_newest(const char *dir, uint64_t job_hash, uint64_t *step)
{
    uint64_t *steps;
    size_t count;
    bool found = false;
    int rc = checkpoint_list(dir, &steps, &count);
    for (size_t i = 0; !rc && !found && i < count; i++) {
        char path[DISK_PATH_MAX];
        struct checkpoint_head head;
        checkpoint_path(path, dir, *step = steps[i]);
        found = checkpoint_probe(path, &head, NULL) == 0 && head.job_hash == job_hash &&
                checkpoint_valid(path, steps[i]);
    }
    free(steps);
    return found;
}

void
checkpoint_delete(const char *dir, uint64_t step)
{
    char path[DISK_PATH_MAX];
    checkpoint_path(path, dir, step);
    unlink(path);
}

int
checkpoint_store(const char *dir, uint64_t step, const uint8_t *image, size_t size, struct why *why)
{
    char path[DISK_PATH_MAX];
    checkpoint_path(path, dir, step);
    return disk_write(path, &(struct disk_bytes){image, size}, 1, why);
}

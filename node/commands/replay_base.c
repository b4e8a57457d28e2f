/* replay_base.c - see replay_base.h. */
#include "node/commands/replay_base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sodium.h>

#include "nn/files/disk.h"

enum { JSON_MAX = 1 << 18 };

char *
replay_json_text(const char *dir, const char *file, const char *key, struct why *why)
{
    char path[DISK_PATH_MAX], *text = NULL;
    uint8_t *bytes = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (disk_read(path, JSON_MAX, &bytes, &size, why))
        return NULL;
    json_t *object = json_loadb((const char *)bytes, size, 0, NULL);
    const char *value = json_string_value(json_object_get(object, key));
    if (value)
        text = strdup(value);
    else
        why_set(why, "%s: %s is missing", path, key);
    json_decref(object);
    free(bytes);
    return text;
}

int
replay_journal(struct journal_text *text, const char *dir, uint64_t job_hash, struct why *why)
{
    char path[DISK_PATH_MAX];
    snprintf(path, sizeof path, "%s/" JOURNAL_FILE, dir);
    int rc = journal_load(text, path, why);
    if (rc || text->job_hash == job_hash)
        return rc;
    rc = why_error(why, -EINVAL, "%s: journal of another job (%016llx, expected %016llx)", path,
                   (unsigned long long)text->job_hash, (unsigned long long)job_hash);
    journal_unload(text);
    return rc;
}

static int
open_work(struct replay_base *base, struct why *why)
{
    const struct config *config = base->config;
    int rc = pool_new(&base->pool, config->threads);
    const struct work_setup setup = {
        .model = base->job.model,
        .data = base->job.data,
        .exact = base->job.exact,
        .pool = base->pool,
        .threads = config->threads,
        .shards = config->train.shards,
        .local_steps = 1,
        .batch = config->train.batch,
        .seed = config->run.seed,
        .exact_mode = true,
        .bucket_bytes = config->mesh.bucket,
    };
    rc = rc ? rc : work_new(&base->work, &setup);
    if (!rc)
        base->own = calloc(work_vector_count(base->work), sizeof *base->own);
    return rc || !base->own ? why_error(why, -ENOMEM, "not enough memory to compute") : 0;
}

int
replay_base_open(struct replay_base *base, const struct config *config, struct why *why)
{
    *base = (struct replay_base){.config = config};
    int rc = job_open(&base->job, config, why);
    rc = rc ? rc : job_start(&base->job, config, why);
    return rc ? rc : open_work(base, why);
}

void
replay_base_close(struct replay_base *base)
{
    work_destroy(&base->work);
    pool_destroy(&base->pool);
    job_close(&base->job);
    free(base->own);
}

void
replay_hex(const float *params, size_t count, char hex[REPLAY_HEX_SIZE])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, (const unsigned char *)params, count * sizeof *params);
    sodium_bin2hex(hex, REPLAY_HEX_SIZE, hash, sizeof hash);
}

/* Returns 1 if the folder has a result, 2 if it is another one, else 0. */
static int
compare(FILE *out, const char *hex, const char *dir)
{
    struct why why;
    char *theirs = replay_json_text(dir, "result.json", "params_sha256", &why);
    if (!theirs)
        return 0;
    bool same = hex && strcmp(theirs, hex) == 0;
    if (!same && hex)
        fprintf(out, "%s: params_sha256 is %s, the replay's %s\n", dir, theirs, hex);
    else if (!same)
        fprintf(out, "%s: params_sha256 is %s, but its journal does not come to the end\n", dir,
                theirs);
    free(theirs);
    return same ? 1 : 2;
}

int
replay_compare(FILE *out, const char *const *hex, const char *const *dir, size_t count)
{
    int differ = 0;
    size_t results = 0;
    bool one = true;
    const char *shown = NULL;
    for (size_t k = 0; k < count; k++) {
        int found = compare(out, hex[k], dir[k]);
        results += found > 0;
        differ += found == 2;
        one = one && !(found && hex[k] && shown && strcmp(shown, hex[k]) != 0);
        shown = found && hex[k] ? hex[k] : shown;
    }
    fprintf(out, "replay: sha256 %s, %s\n", shown ? shown : "of no folder",
            results == 0 ? "as no folder has a result"
            : differ > 0 ? "which is not that of the run"
            : one        ? "as in every result"
                         : "as in its result, but not in every one: nodes ended apart");
    return results == 0 ? -1 : differ + !one;
}

/* replay_base.c - see replay_base.h. */
#include "node/commands/replay_base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "proto/clock.h"

enum { PLAIN_MS = 10000 /* between lines on a pipe */ };

/* Less is done before another thread has woken up. */
static const double THREAD_FLOP = 1e8;

/* --- Journals ------------------------------------------------------------------------------------- */

struct replay_parts
replay_parts_of(const struct job *job, const struct config *config)
{
    struct replay_parts parts = {.job = {job_hash(job, config)}, .count = 1};
    for (size_t i = 0; i < job->past_count; i++)
        parts.job[parts.count++] = job->past_hash[i];
    return parts;
}

int
replay_journals_add(struct replay_journals *journals, const char *dir,
                    const struct replay_parts *parts, struct why *why)
{
    char path[DISK_PATH_MAX];
    struct journal_text *text = &journals->text[journals->count];
    snprintf(path, sizeof path, "%s/" JOURNAL_FILE, dir);
    int rc = journal_load(text, path, why);
    if (rc)
        return rc;
    journals->dir[journals->count++] = dir;
    for (size_t i = 0; i < parts->count; i++)
        if (text->job_hash == parts->job[i])
            return 0;
    return why_error(why, -EINVAL, "%s: is of job %016llx, expected %016llx as in job.json", path,
                     (unsigned long long)text->job_hash, (unsigned long long)parts->job[0]);
}

int
replay_journals_load(struct replay_journals *journals, const struct verify_folders *folders,
                     const struct replay_parts *parts, struct why *why)
{
    char path[DISK_PATH_MAX];
    int rc = 0;
    for (size_t d = 0; d < folders->count && !rc; d++) {
        const struct verify_folder *folder = &folders->folder[d];
        snprintf(path, sizeof path, "%s/" JOURNAL_FILE, folder->dir);
        if (!folder->stepless || access(path, F_OK) == 0)
            rc = replay_journals_add(journals, folder->dir, parts, why);
    }
    return rc;
}

void
replay_journals_unload(struct replay_journals *journals)
{
    for (size_t k = 0; k < journals->count; k++)
        journal_unload(&journals->text[k]);
    journals->count = 0;
}

/* --- Nodes ---------------------------------------------------------------------------------------- */

void
replay_names_add(struct replay_names *names, uint64_t id)
{
    size_t i = 0;
    while (i < names->count && names->id[i] != id)
        i++;
    if (i == names->count && i < REPLAY_NAMES_MAX)
        names->id[names->count++] = id;
}

void
replay_names_tell(struct replay_names *names, const struct replay_journals *journals,
                  struct why *why)
{
    struct replay_names here = {.count = 0};
    for (size_t t = 0; t < journals->count; t++) {
        struct journal_record record = {0};
        while (journal_next(&journals->text[t], &record))
            if (record.type == JOURNAL_START)
                replay_names_add(&here, record.id);
    }
    for (size_t k = 0; k < here.count; k++)
        replay_names_add(names, here.id[k]);
    why_append(why,
               "; the journals name %zu %s, and they are of %zu: name the results folders of all",
               names->count, names->count == 1 ? "node" : "nodes", here.count);
}

/* --- Computing ------------------------------------------------------------------------------------ */

/* As many threads as the work of so many shards is worth: they wait for one another a few times in each layer. */
static unsigned
threads_for(const struct replay_base *base, unsigned shards)
{
    const struct config *config = base->config;
    double flop = 0, rows = (double)config->train.batch * shards / config->train.shards;
    for (size_t layer = 0; layer < nn_layer_count(base->job.model); layer++)
        flop += 3 * rows * nn_layer_flops(base->job.model, layer);
    double worth = flop / THREAD_FLOP;
    return worth < 1 ? 1 : worth < config->threads ? (unsigned)worth : config->threads;
}

static int
open_replay_work(struct replay_base *base, unsigned shards, struct why *why)
{
    const struct config *config = base->config;
    unsigned threads = threads_for(base, shards);
    int rc = pool_new(&base->pool, threads);
    struct work_setup setup = job_work(&base->job, config);
    setup.pool = base->pool;
    setup.threads = threads;
    rc = rc ? rc : work_new(&base->work, &setup);
    if (!rc)
        base->own = calloc(work_vector_count(base->work), sizeof *base->own);
    return rc || !base->own ? why_error(why, -ENOMEM, "not enough memory to compute") : 0;
}

int
replay_base_open(struct replay_base *base, const struct config *config, unsigned shards,
                 struct why *why)
{
    *base = (struct replay_base){.config = config};
    term_init(&base->term, STDERR_FILENO);
    int rc = job_open(&base->job, config, why);
    rc = rc ? rc : job_start(&base->job, config, why);
    rc = rc ? rc : open_replay_work(base, shards, why);
    base->begun_ms = clock_ms();
    base->next_ms = base->begun_ms + PLAIN_MS;
    return rc;
}

void
replay_base_close(struct replay_base *base)
{
    term_fini(&base->term);
    work_destroy(&base->work);
    pool_destroy(&base->pool);
    job_close(&base->job);
    free(base->own);
}

void
replay_progress(struct replay_base *base, uint64_t done, uint64_t all, const char *what)
{
    char line[TERM_LINE_MAX];
    uint64_t now = clock_ms();
    if (!base->term.tty && now < base->next_ms)
        return;
    double left =
        done ? 1e-3 * (double)(now - base->begun_ms) / (double)done * (double)(all - done) : 0;
    snprintf(line, sizeof line, "replay: %llu of %llu %s, %.0f s left", (unsigned long long)done,
             (unsigned long long)all, what, left);
    if (base->term.tty)
        term_live(&base->term, now, line);
    else
        term_line(&base->term, line);
    base->next_ms = now + PLAIN_MS;
}

/* --- The verdict ---------------------------------------------------------------------------------- */

void
replay_compare(struct verify_folders *folders, const char *dir, const char *hex)
{
    size_t d = 0;
    while (d < folders->count && folders->folder[d].dir != dir)
        d++;
    if (d == folders->count || !folders->folder[d].ended)
        return;
    const char *theirs = folders->folder[d].result.params_sha256;
    if (!hex)
        verify_find(folders, dir, "result.json",
                    "params_sha256 is %s, but the folder's journal does not come to the end",
                    theirs);
    else if (strcmp(theirs, hex) != 0)
        verify_find(folders, dir, "result.json", "params_sha256 is %s, the replay's %s", theirs,
                    hex);
}

int
replay_verdict(struct verify_folders *folders, const char *hex)
{
    FILE *out = folders->out;
    verify_folders_tell(folders);
    if (verify_folders_verdict(folders))
        fprintf(out, "; the replay's sha256 %s\n", hex ? hex : "none");
    else
        fprintf(out, "replay: sha256 %s, %s\n", hex ? hex : "none",
                folders->results ? "as in every result" : "as no folder has a result");
    return folders->findings || folders->results == 0;
}

/* replay_journals.c - see replay_journals.h. */
#include "node/commands/replay_journals.h"

#include <errno.h>
#include <unistd.h>

#include "nn/files/disk.h"

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
    return why_error(why, -EINVAL, "%s: is of job %016jx, expected %016jx as in job.json", path,
                     text->job_hash, parts->job[0]);
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

/* taking.c - see taking.h.
 *
 * First the manifest, whole: it must be that of the job, whose hash the mesh told. Then what is in the cache is hashed,
 * and the blocks that are not there are taken, run by run. */
#include "node/train/taking.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/results/show.h"
#include "node/train/meeting.h"
#include "proto/clock.h"
#include "proto/mix.h"

enum { HINT_US = 5000000, ROOM_US = 5000000, TEXT_MAX = 512 << 20, LINE = 256 + CONFIG_PATH_MAX };

struct taking {
    struct config *config;
    unsigned group;
    struct show show;
    struct cache *cache;
    struct manifest manifest;
    bool parsed;
    struct share_text text;   /* of the manifest, as far as it came */
    uint8_t *missing;         /* [manifest.blocks] */
    uint64_t here, next;      /* blocks that are here; below next none is missing */
    uint64_t begun_us, taken; /* bytes that came */
    bool hinted;              /* that nobody gives them */
    uint64_t room_at;         /* there was no room on the disk: looks again then; 0: there was */
    int rc;                   /* why it ended early, with `why` */
    struct why *why;
};

static const char *
of_group(unsigned group)
{
    return group == SHARE_DATA ? "the data" : "the weights of model.from";
}

static void
taking_say(void *ctx, int level, const char *line)
{
    struct taking *t = ctx;
    if (level <= t->config->log_level)
        show_say(&t->show, level, line);
}

/* --- The manifest ------------------------------------------------------------------------------- */

/* With what the mesh told of the job, the manifest of the data must give its hash. What the weights of model.from are
 * is only known with them. */
static bool
is_of_job(const struct taking *t)
{
    struct data_spec spec;
    config_data_spec(t->config, &spec);
    if (t->group != SHARE_DATA || t->config->model.from[0] || t->config->train.from[0])
        return true;
    uint64_t job = config_job_hash(t->config, data_hash(&spec, &t->manifest), 0);
    return mix64_pair(job, t->config->exchange_hash) == t->config->mesh_hash;
}

/* False: whoever sent the last of its blocks, and so all of them, is to be asked no more. */
static bool
text_came(struct taking *t, const struct core_file_block *came)
{
    struct why why;
    if (!share_text_came(&t->text, came, TEXT_MAX / MANIFEST_BLOCK))
        return false;
    if (t->text.here < t->text.blocks)
        return true;
    manifest_fini(&t->manifest);
    t->parsed = !manifest_parse(&t->manifest, t->text.bytes, t->text.size, &why) && is_of_job(t);
    return t->parsed;
}

/* --- Blocks ------------------------------------------------------------------------------------- */

/* What is in the cache already? */
static int
look_at_cache(struct taking *t)
{
    struct manifest_reader *reader = t->cache->fresh ? NULL : manifest_reader_new(&t->manifest);
    uint8_t *block = reader ? malloc(MANIFEST_BLOCK) : NULL;
    struct why why;
    t->missing = malloc((size_t)t->manifest.blocks + 1);
    if (t->missing)
        memset(t->missing, 1, (size_t)t->manifest.blocks + 1);
    for (uint64_t b = 0; t->missing && block && b < t->manifest.blocks; b++) {
        t->missing[b] = manifest_reader_block(reader, b, block, &why) != 0;
        t->here += !t->missing[b];
    }
    free(block);
    manifest_reader_free(&reader);
    return t->missing ? 0 : why_error(t->why, -ENOMEM, "no memory for the list of blocks");
}

static void
tell_begin(struct taking *t)
{
    char line[LINE];
    uint64_t bytes = t->manifest.size, left = t->manifest.blocks - t->here;
    snprintf(line, sizeof line, "%s: %.1f MB in %zu file%s, %s%s", of_group(t->group),
             (double)bytes / 1e6, t->manifest.count, t->manifest.count == 1 ? "" : "s",
             left ? "from the mesh into " : "are in ", t->cache->path);
    taking_say(t, 6, line);
}

static int
open_cache(struct taking *t)
{
    int rc = cache_open(t->cache, t->config, &t->manifest, t->why);
    rc = rc ? rc : cache_prepare(t->cache, &t->manifest, t->why);
    rc = rc ? rc : look_at_cache(t);
    if (!rc && t->taken == 0)
        tell_begin(t);
    return rc;
}

/* A disk that is too small may have room later. */
static void
wait_for_room(struct taking *t)
{
    char line[LINE + sizeof t->why->line];
    if (t->rc != -ENOSPC)
        return;
    snprintf(line, sizeof line, "%s. Until there is room this node only watches", t->why->line);
    if (t->room_at == 0)
        taking_say(t, 4, line);
    t->room_at = clock_us() + ROOM_US;
    free(t->missing);
    t->missing = NULL;
    t->here = t->next = 0;
    t->rc = 0;
    cache_close(t->cache);
}

static bool
block_came(struct taking *t, const struct core_file_block *came)
{
    if (!t->missing)
        return true; /* there is no room */
    if (!manifest_block_good(&t->manifest, came->block, came->data, came->size))
        return false;
    t->rc = t->rc ? t->rc : cache_write(&t->manifest, came->block, came->data, t->why);
    t->here += t->missing[came->block];
    t->missing[came->block] = 0;
    t->taken += came->size;
    wait_for_room(t);
    return true;
}

static bool
file_came(void *ctx, const struct core_file_block *came)
{
    struct taking *t = ctx;
    return came->names ? !t->parsed && text_came(t, came) : t->parsed && block_came(t, came);
}

/* The manifest, and then the next run of blocks of the files. */
static bool
next_run(void *ctx, struct core_files *want)
{
    struct taking *t = ctx;
    *want = (struct core_files){.job = t->config->mesh_hash, .group = t->group, .count = 1};
    if (!t->parsed) {
        want->names = true;
        return true;
    }
    want->count = 0;
    if (!t->missing && clock_us() < t->room_at)
        return true;
    if (!t->missing)
        t->rc = open_cache(t);
    wait_for_room(t);
    if (!t->rc && !t->missing)
        return true;
    while (!t->rc && t->next < t->manifest.blocks && !t->missing[t->next])
        t->next++;
    if (t->rc || t->next == t->manifest.blocks)
        return false;
    want->first = t->next;
    while (want->count < CORE_FILES_RUN && want->first + want->count < t->manifest.blocks &&
           t->missing[want->first + want->count])
        want->count++;
    return true;
}

/* --- The search --------------------------------------------------------------------------------- */

static void
tell_doing(void *ctx, const struct mesh_status *status, uint64_t taking_us)
{
    struct taking *t = ctx;
    char line[LINE], left[TERM_TIME] = "";
    if (!t->parsed && taking_us > HINT_US && !t->hinted) {
        t->hinted = true;
        snprintf(
            line, sizeof line,
            "no node gives %s so far: --data names a folder that has them (here: %u other node%s)",
            of_group(t->group), status->core.here - 1, status->core.here == 2 ? "" : "s");
        taking_say(t, 4, line);
    }
    uint64_t now = clock_us(), blocks = t->parsed ? t->manifest.blocks : 0;
    if (t->begun_us == 0 && t->taken > 0)
        t->begun_us = now;
    double part = blocks ? (double)t->here / (double)blocks : 0;
    double seconds = t->begun_us ? (double)(now - t->begun_us) * 1e-6 : 0;
    if (seconds > 0 && t->taken > 0)
        term_time(left, (1 - part) * (double)t->manifest.size * seconds / (double)t->taken);
    snprintf(line, sizeof line, "%s %s: %.0f %% of %.1f MB%s%s%s  %u node%s",
             t->parsed && !t->missing ? "no room for" : "taking", of_group(t->group), 100 * part,
             (double)t->manifest.size / 1e6, left[0] ? "  " : "", left, left[0] ? " left" : "",
             status->core.here - 1, status->core.here == 2 ? "" : "s");
    show_doing(&t->show, line, now);
}

static int
taking_search(struct taking *t)
{
    struct mesh_setup setup = {
        .program = {.log = taking_say, .file_came = file_came}, .searching = tell_doing, .ctx = t};
    meeting_setup(t->config, &setup);
    int rc = mesh_files_take(&setup, next_run, t->why);
    return rc ? rc : t->rc;
}

int
taking_run(struct taken *taken, struct config *config, unsigned group, struct why *why)
{
    struct taking t = {.config = config, .group = group, .cache = &taken->cache[group], .why = why};
    taken->open[group] = true;
    taken->cache[group].lock = -1;
    show_init(&t.show, config->quiet);
    int rc = taking_search(&t);
    show_fini(&t.show);
    if (!rc && group == SHARE_DATA) {
        snprintf(config->data.dir, sizeof config->data.dir, "%s", t.cache->path);
        taken->data = t.manifest;
        t.manifest = (struct manifest){.count = 0};
        config->data.known = &taken->data;
    } else if (!rc) {
        snprintf(config->model.from, sizeof config->model.from, "%s", t.manifest.file[0].path);
    }
    manifest_fini(&t.manifest);
    free(t.missing);
    free(t.text.bytes);
    return rc;
}

void
taking_close(struct taken *taken)
{
    for (size_t i = 0; i < SHARE_GROUPS; i++)
        if (taken->open[i])
            cache_close(&taken->cache[i]);
    manifest_fini(&taken->data);
}

/* repair.c - see repair.h. */
#include "node/train/repair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"

/* One damaged file in work. */
struct mending {
    struct run *run;
    bool *met; /* another node */
    struct checkpoint file;
    uint8_t *image;
    bool *good; /* [pages] */
    size_t pages, bad, first_bad, next;
    uint64_t started_ms, gathered_ms, gained_ms; /* gathered 0: not yet */
    bool behind; /* a node was as far or further when nobody had the last page that was asked for */
};

/* Ask for the next page that is not whole. */
static void
want(struct mending *m)
{
    while (m->good[m->next % m->pages])
        m->next++;
    m->next %= m->pages;
    mesh_want(m->run->mesh, m->file.step, m->file.round, m->next);
}

static void
salvage(struct mending *m)
{
    m->bad = checkpoint_salvage(m->run->config->out, &m->file, m->image, m->good);
}

/* A page has come. */
static void
take_page(struct mending *m, const struct mesh_task *task)
{
    if (m->file.round == 0) { /* ours did not even tell the round */
        m->file.round = task->round;
        salvage(m);
    }
    size_t offset, page = m->next;
    const uint8_t *data = mesh_page_in(m->run->mesh);
    if (task->round != m->file.round || m->good[page] ||
        !checkpoint_page_good(&m->file, page, data, task->size))
        return;
    checkpoint_page(&m->file, page, &offset);
    memcpy(m->image + offset, data, task->size);
    m->good[page] = true;
    m->bad--;
    m->gained_ms = clock_ms();
}

/* Has everybody come who is waited for, and nobody helped for long? */
static bool
hopeless(struct mending *m, const struct mesh_stats *stats)
{
    const struct config *config = m->run->config;
    uint64_t now = clock_ms();
    bool here = config->mesh.peers > 1 ? stats->core.peers + 1 >= config->mesh.peers
                                       : now - m->started_ms >= config->mesh.gather_ms;
    if (!m->gathered_ms && (here || stats->core.ahead > 0))
        m->gathered_ms = now;
    uint64_t since = m->gained_ms > m->gathered_ms ? m->gained_ms : m->gathered_ms;
    return m->gathered_ms && now - since >= REPAIR_PATIENCE_MS;
}

/* Does another node have this state, or a later one? */
static bool
ahead(const struct mending *m, const struct mesh_stats *stats)
{
    uint64_t least = m->file.round > m->file.step ? m->file.round : m->file.step;
    return stats->core.ahead > 0 && stats->core.ahead >= least;
}

/* Until every page is whole, or there is no hope. */
static enum repair_end
collect(struct mending *m)
{
    struct mesh_stats stats;
    struct mesh_task task = {.kind = MESH_IDLE};
    if (m->bad)
        want(m);
    while (m->bad) {
        mesh_next(m->run->mesh, &task);
        if (task.kind == MESH_INTERRUPTED)
            return REPAIR_INTERRUPTED;
        if (task.kind != MESH_PAGE)
            continue;
        if (task.size > 0)
            take_page(m, &task);
        mesh_stats(m->run->mesh, &stats);
        *m->met = *m->met || stats.core.peers > 0;
        bool behind = task.size == 0 && ahead(m, &stats);
        if (behind && m->behind) /* not the first time: who came just then is asked, too */
            return REPAIR_AHEAD;
        m->behind = behind;
        if (hopeless(m, &stats))
            return REPAIR_FAILED;
        m->next++;
        if (m->bad)
            want(m);
    }
    return REPAIR_DONE;
}

/* Every page is whole: is it one file? Then it is the state, and takes the damaged one's place. */
static enum repair_end
finish_file(struct mending *m, struct why *why)
{
    char name[64];
    size_t size = checkpoint_size(&m->file);
    snprintf(name, sizeof name, "checkpoint of step %ju", m->file.step);
    if (checkpoint_parse(name, m->image, size, &m->file, why))
        return REPAIR_FAILED;
    train_say(m->run, 6, "%s restored: %zu of %zu pages from other nodes", name, m->first_bad,
              m->pages);
    if (checkpoint_store(m->run->config->out, m->file.step, m->image, size, why))
        train_say(m->run, 4, "%s", why->line);
    return REPAIR_DONE;
}

/* A file of a node that holds a part of the model has sections NAME+OFFSET. Its pages are on those that hold the same
 * part. */
static bool
of_parts(const struct checkpoint *file)
{
    for (size_t i = 0; i < file->count; i++)
        if (strchr(file->section[i].name, '+'))
            return true;
    return false;
}

static void
tell_missing(const struct mending *m, struct why *why)
{
    size_t first = 0;
    while (first < m->pages && m->good[first])
        first++;
    why_set(why,
            "checkpoint of step %ju: %zu of %zu pages are damaged here%s%s, page %zu the first",
            m->file.step, m->bad, m->pages,
            *m->met ? " and on every other node" : ", and no other node was met",
            *m->met && of_parts(&m->file) ? " that holds this part of the model" : "", first);
}

static enum repair_end
repair_one(struct run *run, uint64_t step, bool *met, struct why *why)
{
    struct mending m = {.run = run,
                        .met = met,
                        .file = save_file(run->save, run->state.block),
                        .started_ms = clock_ms()};
    enum repair_end end = REPAIR_FAILED;
    m.file.step = step;
    m.file.round = 0;
    m.pages = checkpoint_pages(&m.file);
    m.image = malloc(checkpoint_size(&m.file));
    m.good = calloc(m.pages, sizeof *m.good);
    if (!m.image || !m.good) {
        why_set(why, "no memory to restore the checkpoint of step %ju", step);
    } else {
        salvage(&m);
        m.first_bad = m.bad;
        train_say(run, 4, "checkpoint of step %ju: %zu of %zu pages are damaged: asking the others",
                  step, m.bad, m.pages);
        end = collect(&m);
        if (end == REPAIR_DONE)
            end = finish_file(&m, why);
        else if (end == REPAIR_FAILED)
            tell_missing(&m, why);
    }
    free(m.image);
    free(m.good);
    return end;
}

enum repair_end
repair_run(struct run *run, bool *met, struct why *why)
{
    const struct checkpoint_found *found = &run->folder.found;
    enum repair_end end = REPAIR_FAILED;
    *met = false;
    for (size_t i = 0; end == REPAIR_FAILED && i < found->damaged_count; i++) {
        end = repair_one(run, found->damaged[i], met, why);
        if (end == REPAIR_FAILED)
            train_say(run, 4, "%s", why->line);
    }
    return end;
}

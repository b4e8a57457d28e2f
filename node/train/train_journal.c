/* train_journal.c - the journal of a run whose result depends on who was when how fast. See train_internal.h.
 *
 * The core asks, with the mesh locked, whether it is on the disk. So a thread of its own waits for the disk. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "node/results/journal.h"
#include "node/train/train_internal.h"

struct train_journal {
    struct journal *file;
    struct run *run;
    bool failed; /* what is not written to it cannot be replayed */
    pthread_t thread;
    pthread_mutex_t lock; /* over the rest */
    pthread_cond_t turn;
    bool wanted, stop;
    uint64_t added, synced; /* records; synced: these are on the disk, or cannot be */
    bool told;              /* that they cannot be */
};

static void *
run_syncs(void *arg)
{
    struct train_journal *journal = arg;
    prctl(PR_SET_NAME, "journal");
    pthread_mutex_lock(&journal->lock);
    for (;;) {
        while (!journal->wanted && !journal->stop)
            pthread_cond_wait(&journal->turn, &journal->lock);
        if (journal->stop)
            break;
        journal->wanted = false;
        pthread_mutex_unlock(&journal->lock);
        train_journal_sync(journal->run);
        pthread_mutex_lock(&journal->lock);
    }
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

static int
open_file(struct run *run, struct journal **out, struct why *why)
{
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    const struct journal_start start = {.job_hash = run->job_hash,
                                        .id = stats.node.id,
                                        .incarnation = stats.node.incarnation,
                                        .past = run->job.past_hash,
                                        .past_count = run->job.past_count,
                                        .fresh = run->folder.fresh};
    int rc = journal_open(out, run->config->out, &start, why);
    if (!rc && run->folder.found.whole && journal_kept(*out) == 0)
        train_say(run, 4,
                  "%s/" JOURNAL_FILE
                  " is empty or missing: the steps before this checkpoint cannot "
                  "be replayed",
                  run->config->out);
    return rc;
}

int
train_journal_open(struct run *run, struct why *why)
{
    struct journal *file;
    int rc = open_file(run, &file, why);
    if (rc)
        return rc;
    struct train_journal *journal = calloc(1, sizeof *journal);
    if (journal) {
        *journal = (struct train_journal){.file = file, .run = run, .added = 1};
        pthread_mutex_init(&journal->lock, NULL);
        pthread_cond_init(&journal->turn, NULL);
    }
    rc = journal ? pthread_create(&journal->thread, NULL, run_syncs, journal) : ENOMEM;
    if (rc) {
        journal_close(&file);
        free(journal);
        return why_error(why, -rc, "no thread for the journal (ulimit -u, ulimit -v): %s",
                         strerror(rc));
    }
    run->free.journal = journal;
    return 0;
}

void
train_journal_close(struct run *run)
{
    struct train_journal *journal = run->free.journal;
    if (!journal)
        return;
    pthread_mutex_lock(&journal->lock);
    journal->stop = true;
    pthread_cond_broadcast(&journal->turn);
    pthread_mutex_unlock(&journal->lock);
    pthread_join(journal->thread, NULL);
    pthread_cond_destroy(&journal->turn);
    pthread_mutex_destroy(&journal->lock);
    journal_close(&journal->file);
    free(journal);
    run->free.journal = NULL;
}

bool
train_journal_writes(const struct run *run)
{
    return run->free.journal && !run->free.journal->failed;
}

void
train_journal_add(struct run *run, unsigned type, const void *data, size_t size)
{
    struct train_journal *journal = run->free.journal;
    int rc = journal_add(journal->file, type, data, size);
    pthread_mutex_lock(&journal->lock);
    journal->added++;
    pthread_mutex_unlock(&journal->lock);
    journal->failed = rc != 0;
    if (rc)
        train_say(run, 3, "%s/" JOURNAL_FILE ": %s; this run cannot be replayed", run->config->out,
                  strerror(-rc));
}

/* A checkpoint without its journal is better than none. */
void
train_journal_sync(struct run *run)
{
    struct train_journal *journal = run->free.journal;
    if (!journal)
        return;
    pthread_mutex_lock(&journal->lock);
    uint64_t added = journal->added;
    pthread_mutex_unlock(&journal->lock);
    int rc = journal_sync(journal->file);
    pthread_mutex_lock(&journal->lock);
    bool tell = rc && !journal->told;
    journal->told = rc != 0;
    journal->synced = journal->synced > added ? journal->synced : added;
    pthread_mutex_unlock(&journal->lock);
    if (tell)
        train_say(run, 4,
                  "%s/" JOURNAL_FILE ": cannot sync: %s; after a loss of power this run cannot be "
                  "replayed",
                  run->config->out, strerror(-rc));
}

bool
train_journal_synced(void *ctx)
{
    struct train_journal *journal = ((struct run *)ctx)->free.journal;
    if (!journal)
        return true;
    pthread_mutex_lock(&journal->lock);
    bool synced = journal->synced == journal->added;
    if (!synced)
        pthread_cond_broadcast(&journal->turn);
    journal->wanted = !synced;
    pthread_mutex_unlock(&journal->lock);
    return synced;
}

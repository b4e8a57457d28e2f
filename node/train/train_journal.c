/* train_journal.c - the journal of a run whose result depends on who was when how fast. See train_internal.h. */
#include <string.h>

#include "node/results/journal.h"
#include "node/train/train_internal.h"

int
train_journal_open(struct run *run, struct why *why)
{
    struct mesh_stats stats;
    mesh_stats(run->mesh, &stats);
    const struct journal_start start = {.job_hash = run->job_hash,
                                        .id = stats.node.id,
                                        .incarnation = stats.node.incarnation,
                                        .past = run->job.past_hash,
                                        .past_count = run->job.past_count,
                                        .anew = run->anew};
    int rc = journal_open(&run->journal, run->config->out, &start, why);
    if (!rc && run->found.whole && journal_kept(run->journal) == 0)
        train_say(run, 4,
                  "%s/" JOURNAL_FILE
                  " is empty or missing: the steps before this checkpoint cannot "
                  "be replayed",
                  run->config->out);
    return rc;
}

bool
train_journal_writes(const struct run *run)
{
    return run->journal && !run->journal_failed;
}

void
train_journal_add(struct run *run, unsigned type, const void *data, size_t size)
{
    int rc = journal_add(run->journal, type, data, size);
    if (!rc)
        return;
    run->journal_failed = true;
    train_say(run, 3, "%s/" JOURNAL_FILE ": %s; this run cannot be replayed", run->config->out,
              strerror(-rc));
}

/* In the writer's thread. A checkpoint without its journal is better than none. */
void
train_journal_sync(struct run *run)
{
    int rc = run->journal ? journal_sync(run->journal) : 0;
    if (rc && !run->journal_unsynced)
        train_say(run, 4,
                  "%s/" JOURNAL_FILE ": cannot sync: %s; after a loss of power this run cannot be "
                  "replayed",
                  run->config->out, strerror(-rc));
    run->journal_unsynced = rc != 0;
}

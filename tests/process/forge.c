/* forge.c - writes the journals of a run again so that they lie, and still fit one another: for test_verify.sh.
 *
 *     forge less DIR...      gossip: each step leaves out one of its shards
 *     forge same DIR...      gossip: all nodes compute the shards of the first one
 *     forge skip DIR...      gossip: step 6 is left out, and one more is made at the end
 *     forge alone DIR...     gossip: each node says that it had a plan of its own, in which the others did nothing
 *
 * less and same change only steps in plans of several nodes, and print of each folder what is to be said of the
 * first one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/results/journal.h"
#include "node/train/gossip_journal.h"

enum { DIRS_MAX = 8, RECORD_MAX = 1 << 16, SKIPPED = 5 };

static const char *what;
static char *const *dir;
static int dirs;
static struct journal_text text[DIRS_MAX];

static void
must(bool good, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "forge: %s\n", why);
    exit(1);
}

/* --- Gossip --------------------------------------------------------------------------------------- */

static struct gossip_names read_names, put_names;
static uint64_t first_shards;

/* Other shards than those of its rank. */
static void
exchange(struct gossip_note *note, uint64_t shards, int d)
{
    static bool told[DIRS_MAX];
    if (!told[d] && shards != note->shards)
        printf("%s/" JOURNAL_FILE ": step %ju: computed shards %jx, expected %jx: those of node "
               "%u of %ju\n",
               dir[d], note->step + 1, shards, note->shards, note->rank + 1, note->number);
    told[d] = told[d] || shards != note->shards;
    note->shards = shards;
}

static void
change(struct gossip_note *note, int d)
{
    if (note->event != GOSSIP_READ)
        return;
    if (note->number > 1 && strcmp(what, "less") == 0)
        exchange(note, note->shards & (note->shards - 1), d);
    if (note->number > 1 && strcmp(what, "same") == 0) {
        first_shards = first_shards ? first_shards : note->shards;
        exchange(note, first_shards, d);
    }
    if (strcmp(what, "skip") == 0)
        note->step += note->step >= SKIPPED;
    if (strcmp(what, "alone") == 0)
        note->plan += (uint64_t)d;
}

static size_t
gossip(const struct journal_record *record, int d, uint8_t *out)
{
    struct gossip_note note;
    must(gossip_journal_get(&read_names, record->type, record->data, record->size, &note),
         "no event");
    change(&note, d);
    return gossip_journal_put(&put_names, &note, out);
}

/* --- Writing -------------------------------------------------------------------------------------- */

static void
start(struct journal **journal, int d, const struct journal_record *record)
{
    struct why why;
    const struct journal_start begin = {.job_hash = text[d].job_hash,
                                        .id = record->id,
                                        .incarnation = record->incarnation,
                                        .fresh = *journal == NULL};
    journal_close(journal);
    must(journal_open(journal, dir[d], &begin, &why) == 0, "cannot write");
    read_names = put_names = (struct gossip_names){.plan = 0};
}

static void
rewrite(int d)
{
    static uint8_t out[RECORD_MAX];
    struct journal *journal = NULL;
    struct journal_record record = {0};
    while (journal_next(&text[d], &record)) {
        must(record.size < RECORD_MAX / 2, "a long record");
        if (record.type == JOURNAL_START) {
            start(&journal, d, &record);
            continue;
        }
        size_t size = gossip(&record, d, out);
        must(journal_add(journal, record.type, out, size) == 0, "cannot write");
    }
    journal_close(&journal);
}

int
main(int argc, char **argv)
{
    must(argc > 2 && argc <= DIRS_MAX + 2, "usage: forge less|same|skip|alone DIR...");
    what = argv[1];
    dir = argv + 2;
    dirs = argc - 2;
    for (int d = 0; d < dirs; d++) {
        char path[4096];
        struct why why;
        snprintf(path, sizeof path, "%s/" JOURNAL_FILE, dir[d]);
        must(journal_load(&text[d], path, &why) == 0, "no journal");
    }
    for (int d = 0; d < dirs; d++)
        rewrite(d);
    return 0;
}

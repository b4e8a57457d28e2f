/* forge.c - writes the journals of a run again so that they lie, and still fit one another: for test_verify.sh.
 *
 *     forge fresh DIR...     servers that do not wait: all gradients are said to be of values 0 updates old
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
#include "node/train/push_journal.h"
#include "proto/bytes.h"

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

/* --- Histories: what each becomes ----------------------------------------------------------------- */

struct link {
    uint64_t was, is; /* is 0: not known yet */
    struct push_taken taken;
};

static struct link *links;
static size_t link_count;
static unsigned ranges;

static int
by_history(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    return (x->was > y->was) - (x->was < y->was);
}

static uint64_t
renamed(uint64_t history)
{
    const struct link key = {.was = history};
    const struct link *found = bsearch(&key, links, link_count, sizeof key, by_history);
    return found ? found->is : history; /* the first one */
}

static bool
count_ranges(const struct journal_record *record)
{
    if (record->type == PUSH_NOTE_FINAL)
        ranges = (unsigned)record->size / 8;
    return true;
}

static void
each(int d, bool (*fn)(const struct journal_record *record))
{
    struct journal_record record = {0};
    while (journal_next(&text[d], &record))
        must(fn(&record), "a record that nobody wrote");
}

static struct push_journal reader, writer;

static bool
add_link(const struct journal_record *record)
{
    struct link *link = &links[link_count];
    const uint8_t *histories;
    uint64_t ticket, number;
    if (record->type == JOURNAL_START)
        push_journal_start(&reader);
    if (record->type == PUSH_NOTE_COMPUTED)
        return push_journal_get_computed(&reader, record->data, record->size, &ticket, &number,
                                         &histories);
    if (record->type != PUSH_NOTE_TAKEN)
        return true;
    links = realloc(links, (link_count + 2) * sizeof *links);
    link = &links[link_count++];
    must(push_journal_get_taken(&reader, record->data, record->size, &link->taken), "no gradient");
    link->was = link->taken.after;
    link->is = 0;
    return true;
}

static void
rename_all(void)
{
    bool more = true;
    for (int d = 0; d < dirs; d++)
        each(d, count_ranges);
    must(ranges > 0 && push_journal_init(&reader, ranges) == 0 &&
             push_journal_init(&writer, ranges) == 0,
         "no end of a run");
    links = calloc(2, sizeof *links);
    for (int d = 0; d < dirs; d++)
        each(d, add_link);
    qsort(links, link_count, sizeof *links, by_history);
    while (more) {
        more = false;
        for (size_t k = 0; k < link_count; k++) {
            struct push_taken taken = links[k].taken;
            taken.before = renamed(taken.before);
            taken.tau = 0;
            if (links[k].is || taken.before == 0)
                continue;
            links[k].is = push_taken_after(&taken);
            more = true;
        }
    }
}

static size_t
put_histories(const uint8_t *data, uint8_t *out)
{
    struct bytes_in in = bytes_in(data, 8 * (size_t)ranges);
    struct bytes_out to = bytes_out(out, 8 * (size_t)ranges);
    for (unsigned r = 0; r < ranges; r++)
        bytes_put_u64(&to, renamed(bytes_u64(&in)));
    return 8 * (size_t)ranges;
}

static size_t
fresh(const struct journal_record *record, uint8_t *out)
{
    const uint8_t *histories;
    uint64_t ticket, number;
    struct push_taken taken;
    if (record->type == PUSH_NOTE_FINAL)
        return put_histories(record->data, out);
    if (record->type == PUSH_NOTE_COMPUTED) {
        must(push_journal_get_computed(&reader, record->data, record->size, &ticket, &number,
                                       &histories),
             "nothing computed");
        size_t size = push_journal_put_computed(&writer, ticket, number, out);
        return size + put_histories(histories, out + size);
    }
    must(record->type == PUSH_NOTE_TAKEN &&
             push_journal_get_taken(&reader, record->data, record->size, &taken),
         "another record");
    taken.before = renamed(taken.before);
    taken.tau = 0;
    return push_journal_put_taken(&writer, &taken, out);
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
        printf("%s/" JOURNAL_FILE ": step %llu: computed shards %llx, expected %llx: those of node "
               "%u of %llu\n",
               dir[d], (unsigned long long)note->step + 1, (unsigned long long)shards,
               (unsigned long long)note->shards, note->range + 1, (unsigned long long)note->number);
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
    if (ranges) {
        push_journal_start(&reader);
        push_journal_start(&writer);
    }
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
        size_t size = ranges ? fresh(&record, out) : gossip(&record, d, out);
        must(journal_add(journal, record.type, out, size) == 0, "cannot write");
    }
    journal_close(&journal);
}

int
main(int argc, char **argv)
{
    must(argc > 2 && argc <= DIRS_MAX + 2, "usage: forge fresh|less|same|skip|alone DIR...");
    what = argv[1];
    dir = argv + 2;
    dirs = argc - 2;
    for (int d = 0; d < dirs; d++) {
        char path[4096];
        struct why why;
        snprintf(path, sizeof path, "%s/" JOURNAL_FILE, dir[d]);
        must(journal_load(&text[d], path, &why) == 0, "no journal");
    }
    if (strcmp(what, "fresh") == 0)
        rename_all();
    for (int d = 0; d < dirs; d++)
        rewrite(d);
    return 0;
}

/* fuzz_journal.c - a journal in bytes that nobody chose: refused with one printable line, or all its records lie one
 * behind the other within it, and the first one is a start. What the readers of gossip and push take (gossip_journal.h,
 * push_journal.h) can be written and read again. */
#include <stdio.h>
#include <stdlib.h>

#include "node/base/parse.h"
#include "node/results/journal.h"
#include "node/train/gossip_journal.h"
#include "node/train/push_journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void
gossip(struct gossip_names *names, const struct journal_record *record)
{
    struct gossip_names fresh = {.plan = 0}, again = {.plan = 0};
    uint8_t out[GOSSIP_RECORD_MAX];
    struct gossip_note note, same;
    if (!gossip_journal_get(names, record->type, record->data, record->size, &note))
        return;
    must(gossip_journal_has(note.event) && note.event == record->type, "another event");
    size_t size = gossip_journal_put(&fresh, &note, out);
    must(gossip_journal_get(&again, note.event, out, size, &same), "it cannot be read again");
    must(note.peer.id == same.peer.id && note.peer.incarnation == same.peer.incarnation &&
             note.link == same.link && note.number == same.number && note.range == same.range &&
             note.share == same.share && note.step == same.step && note.total == same.total &&
             note.shards == same.shards,
         "other numbers");
}

enum { RANGES = 16 }; /* as in the seed */

static void
push_taken(struct push_journal *journal, struct push_journal *fresh, struct push_journal *again,
           const struct journal_record *record)
{
    uint8_t out[PUSH_TAKEN_MAX];
    struct push_taken taken, same;
    if (!push_journal_get_taken(journal, record->data, record->size, &taken))
        return;
    must(taken.range < RANGES && taken.after == push_taken_after(&taken), "no such gradient");
    size_t size = push_journal_put_taken(fresh, &taken, out);
    must(push_journal_get_taken(again, out, size, &same), "it cannot be read again");
    must(taken.range == same.range && taken.count == same.count && taken.after == same.after,
         "another gradient");
}

/* As a reader that goes on behind records that nobody wrote: the worst one. */
static void
push(struct push_journal *journal, struct push_journal *fresh, struct push_journal *again,
     const struct journal_record *record)
{
    const uint8_t *data = record->data, *histories;
    uint8_t out[PUSH_COMPUTED_HEAD_MAX];
    uint64_t ticket, number;
    struct push_taken taken;
    if (record->type == JOURNAL_START) {
        push_journal_start(journal);
    } else if (record->type == PUSH_NOTE_TAKEN) {
        push_taken(journal, fresh, again, record);
    } else if (record->type == PUSH_NOTE_RESTORED) {
        push_journal_get_restored(journal, data, record->size, &taken);
        must(taken.range < RANGES, "no such range");
    } else if (record->type == PUSH_NOTE_COMPUTED &&
               push_journal_get_computed(journal, data, record->size, &ticket, &number,
                                         &histories)) {
        must(histories + 8 * RANGES == data + record->size, "histories are not at the end");
        push_journal_put_computed(fresh, ticket, number, out);
        push_journal_put_computed(again, ticket, number, out);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why = {""};
    struct journal_text text = {.bytes = NULL};
    struct journal_record record = {0};
    struct gossip_names names = {.plan = 0};
    struct push_journal pushed[3];
    if (journal_check(&text, "input", data, size, &why)) {
        must(why.line[0] && parse_printable(why.line), "the reason is not one clean line");
        return 0;
    }
    must(text.size <= size, "more than there is");
    uint8_t *copy = malloc(size);
    for (size_t k = 0; copy && k < size; k++)
        copy[k] = data[k];
    text.bytes = copy;
    size_t end = JOURNAL_HEAD_SIZE;
    for (int k = 0; k < 3; k++)
        must(push_journal_init(&pushed[k], RANGES) == 0, "no memory");
    while (copy && journal_next(&text, &record)) {
        must(record.at == end, "a record that does not follow the one before");
        must(end > JOURNAL_HEAD_SIZE || record.type == JOURNAL_START, "nobody wrote the first one");
        gossip(&names, &record);
        push(&pushed[0], &pushed[1], &pushed[2], &record);
        end = record.at + JOURNAL_RECORD_HEAD + record.size;
    }
    must(!copy || end == text.size, "the records do not end at the end");
    for (int k = 0; k < 3; k++)
        push_journal_fini(&pushed[k]);
    free(copy);
    return 0;
}

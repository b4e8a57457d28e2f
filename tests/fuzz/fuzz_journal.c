/* fuzz_journal.c - a journal in bytes that nobody chose: refused with one printable line, or all its records lie one
 * behind the other within it, and the first one is a start. What the reader of gossip takes (gossip_journal.h)
 * can be written and read again. */
#include "node/base/parse.h"
#include "node/results/journal.h"
#include "node/train/gossip_journal.h"
#include "tests/fuzz/fuzz.h"

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
             note.link == same.link && note.number == same.number && note.rank == same.rank &&
             note.share == same.share && note.step == same.step && note.total == same.total &&
             note.shards == same.shards,
         "other numbers");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why = {""};
    struct journal_text text = {.bytes = NULL};
    struct journal_record record = {0};
    struct gossip_names names = {.plan = 0};
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
    while (copy && journal_next(&text, &record)) {
        must(record.at == end, "a record that does not follow the one before");
        must(end > JOURNAL_HEAD_SIZE || record.type == JOURNAL_START, "nobody wrote the first one");
        gossip(&names, &record);
        end = record.at + JOURNAL_RECORD_HEAD + record.size;
    }
    must(!copy || end == text.size, "the records do not end at the end");
    free(copy);
    return 0;
}

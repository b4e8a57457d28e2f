/* fuzz_journal.c - a journal in bytes that nobody chose: refused with one printable line, or all its records lie one
 * behind the other within it, and the first one is a start. */
#include <stdio.h>
#include <stdlib.h>

#include "node/job/parse.h"
#include "node/results/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why = {""};
    struct journal_text text = {NULL};
    struct journal_record record = {0};
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
        end = record.at + JOURNAL_RECORD_HEAD + record.size;
    }
    must(!copy || end == text.size, "the records do not end at the end");
    free(copy);
    return 0;
}

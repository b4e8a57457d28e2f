/* push_journal.h - the records of a node that trains with servers which do not wait, in the journal of its run
 * (node/results/journal.h). From them meshnode verify --replay computes the run again.
 *
 *     COMPUTED   ticket*, number*, then 8 bytes for each range: the history of what was read
 *     TAKEN      4 * range + 2 * updates + goes_on; unless it goes on: the history before, 8 bytes, and count;
 *                then who, ticket*, number*, tau
 *     RESTORED   range, the history before and after, 8 bytes each: what was read last begins with a new optimizer
 *     FINAL      8 bytes for each range: the history of the model
 *
 * All others are numbers, as varint.h says. A number with a star is the difference to the last one: of a ticket to that
 * of the record before, of a number to that of the same node; 2 * d, or -2 * d - 1 if d is negative. A record goes on
 * if the history before is the one after the last gradient of the range in this journal, and count is one more. Who is
 * as journal_peers.h says. Each start of the program begins with nothing known.
 *
 * So a gradient that a range takes costs 5 or 6 bytes at its owner and at its backup, and a computed one 8 for each
 * range and 2 or 3 more, each with the 10 of a record's head. */
#ifndef NODE_PUSH_JOURNAL_H
#define NODE_PUSH_JOURNAL_H

#include "mesh/core/push/push.h"
#include "node/train/journal_peers.h"

enum {
    PUSH_NOTE_COMPUTED = 2,
    PUSH_NOTE_TAKEN,
    PUSH_NOTE_RESTORED,
    PUSH_NOTE_FINAL,
    PUSH_NUMBER_MAX = 10, /* bytes of a number */
    PUSH_TAKEN_MAX = 6 * PUSH_NUMBER_MAX + 3 * 8,
    PUSH_COMPUTED_HEAD_MAX = 2 * PUSH_NUMBER_MAX,
    PUSH_RESTORED_MAX = PUSH_NUMBER_MAX + 2 * 8,
};

/* What the records so far say; the same at who writes them and at who reads them. */
struct push_journal {
    unsigned ranges;
    struct push_journal_range {
        uint64_t after, count; /* of the last gradient; after 0: none is known */
    } * range;
    uint64_t ticket;
    struct journal_peers peers;
    uint64_t number_of[JOURNAL_PEERS];
    uint64_t number; /* of this node's last compute */
};

/* Returns 0 or -ENOMEM; push_journal_fini follows in both cases. */
int push_journal_init(struct push_journal *journal, unsigned ranges);
void push_journal_fini(struct push_journal *journal);
/* A start of the program. */
void push_journal_start(struct push_journal *journal);

/* Each writes the data of a record and returns its size; of COMPUTED all but the histories. */
size_t push_journal_put_taken(struct push_journal *journal, const struct push_taken *taken,
                              uint8_t out[PUSH_TAKEN_MAX]);
size_t push_journal_put_computed(struct push_journal *journal, uint64_t ticket, uint64_t number,
                                 uint8_t out[PUSH_COMPUTED_HEAD_MAX]);
size_t push_journal_put_restored(struct push_journal *journal, unsigned range, uint64_t before,
                                 uint64_t after, uint8_t out[PUSH_RESTORED_MAX]);
/* Each reads a record. False: no node of this job wrote it, and the ones behind it cannot be read. `histories`:
 * borrowed from data. Of RESTORED range, before and after are set. */
bool push_journal_get_taken(struct push_journal *journal, const uint8_t *data, size_t size,
                            struct push_taken *taken);
bool push_journal_get_computed(struct push_journal *journal, const uint8_t *data, size_t size,
                               uint64_t *ticket, uint64_t *number, const uint8_t **histories);
bool push_journal_get_restored(struct push_journal *journal, const uint8_t *data, size_t size,
                               struct push_taken *taken);

#endif

/* gossip_journal.h - the records of a node that gossips, in the journal of its run (node/results/journal.h).
 *
 * A record is one event of mesh/core/gossip/gossip.h, in the order in which the node noted them; its type is the event.
 * The data are those numbers of the note from which the run follows, as varint.h says:
 *
 *     BEGAN     the snapshot that it went on from; or the hash of the parameters of the checkpoint after the last step;
 *               0: it began with those of the job
 *     READ      step, total, shards; 0, or, if the plan is another one than at the READ before: 1, its hash, 8 bytes,
 *               how many members it has, and the rank of this node
 *     ASKED     peer, link, number
 *     ASKED_WHOLE  the same, with a codec: with all values; ASKED is then with changes of them (gossip_public.h)
 *     GAVE      peer, link, number, range, share
 *     TOOK      peer, link, number
 *     COPIED    number, range
 *     GOT       peer, number
 *     SAVED     number: the values, and the trainer's state, are now those of the checkpoint of this snapshot
 *
 *     UPDATED, PHASE, ADOPTED, EMPTY, MEAN_BEGAN, MEAN_VOID, MEAN, RESULT: nothing
 *
 * LOST changes no values and is not written. What a flow or a copy consists of is not written either: it follows from
 * the values at its ends.
 *
 * A peer is as journal_peers.h says. */
#ifndef NODE_GOSSIP_JOURNAL_H
#define NODE_GOSSIP_JOURNAL_H

#include "mesh/core/gossip/gossip.h"
#include "node/train/journal_peers.h"

enum { GOSSIP_RECORD_MAX = 80 };

/* The peers, and the plan at the last READ; zeros at a start. */
struct gossip_names {
    struct journal_peers peers;
    uint64_t plan, members;
    uint32_t rank;
};

/* Is there a record of this event? */
bool gossip_journal_has(unsigned type);
/* Writes the data of a record. Returns its size. */
size_t gossip_journal_put(struct gossip_names *names, const struct gossip_note *note,
                          uint8_t out[GOSSIP_RECORD_MAX]);
/* Reads one. False: no node wrote it. */
bool gossip_journal_get(struct gossip_names *names, unsigned type, const uint8_t *data, size_t size,
                        struct gossip_note *note);

#endif

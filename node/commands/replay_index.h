/* replay_index.h - what the journals of all nodes say, in the order in which a replay needs it: for each range the
 * chain of what it took, from the first parameters to the model. For replay.c. */
#ifndef NODE_REPLAY_INDEX_H
#define NODE_REPLAY_INDEX_H

#include "node/commands/verify.h"
#include "node/results/journal.h"
#include "node/train/push_journal.h"

/* One gradient that somebody computed. */
struct replay_computed {
    struct proto_node who;
    uint64_t number, ticket;
    const uint8_t *history; /* [ranges] u64 in the journal: of what was read */
    bool needed;            /* the model has it in some range */
    unsigned missing;       /* ranges whose values it waits for */
    size_t left;            /* chain links that will still take it */
    float *params;          /* what it was computed from; NULL: not yet, or not any more */
    int16_t *exponent;
    uint8_t *gradient; /* NULL: not yet, or not any more */
};

struct replay_link {
    struct push_taken taken;
    bool restored;
    size_t place; /* in the chain of its range, from 1; 0: not in it */
    struct replay_computed *computed;
};

struct replay_index {
    struct journal_text text[VERIFY_DIRS_MAX];
    size_t text_count;
    unsigned ranges;
    struct replay_link *link; /* [link_count], by range and history */
    size_t link_count;
    struct replay_computed *computed; /* [computed_count], by who and number */
    size_t computed_count;
    size_t starts;               /* of programs */
    struct push_journal said;    /* by the records of a journal so far */
    uint64_t *final;             /* [ranges], of the last PUSH_NOTE_FINAL */
    struct replay_link ***chain; /* [ranges][length[range]] */
    size_t *length;
};

/* Reads the journals and finds the chains. Returns 0 or a negative errno with `why`; replay_index_fini follows. */
int replay_index_init(struct replay_index *index, const char *const *dir, size_t count,
                      unsigned ranges, uint64_t job_hash, struct why *why);
void replay_index_fini(struct replay_index *index);
/* The place in its range's chain of the history that a gradient was computed from; SIZE_MAX: it is not in it. */
size_t replay_index_place(const struct replay_index *index, const struct replay_computed *computed,
                          unsigned range);

#endif

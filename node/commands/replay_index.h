/* replay_index.h - what the journals of all nodes say, in the order in which a replay needs it: for each range the
 * chain of what it took, from the first parameters to the model. For replay.c. */
#ifndef NODE_REPLAY_INDEX_H
#define NODE_REPLAY_INDEX_H

#include "node/commands/replay_base.h"
#include "node/train/push_journal.h"

/* One gradient that somebody computed. */
struct replay_computed {
    struct proto_node who;
    uint64_t number, ticket;
    const uint8_t *history; /* [ranges] u64 in the journal: of what was read */
    size_t journal;         /* where it is written */
    bool needed;            /* the model has it in some range */
    unsigned missing;       /* ranges whose values it waits for */
    size_t left;            /* chain links that will still take it */
    float *params;          /* what it was computed from; NULL: not yet, or not any more */
    int16_t *exponent;
    uint8_t *gradient; /* NULL: not yet, or not any more; */
    size_t *at;        /* [ranges + 1] where that of each range begins */
    double loss;       /* NaN: not yet; with it */
    double accuracy;   /* and */
    uint64_t samples;  /* of these */
};

struct replay_link {
    struct push_taken taken;
    bool restored;
    size_t journal, at; /* where it is written: which journal, and its byte */
    size_t place;       /* in the chain of its range, from 1; 0: not in it */
    uint64_t count;     /* gradients that the range has taken up to and with it */
    bool ends_part;     /* a part of the run ended behind it: the next has a new optimizer */
    struct replay_computed *computed;
};

/* What the job says of a chain. */
struct replay_job {
    unsigned ranges, group; /* group: gradients of an update */
    uint64_t hash;          /* of the job, in its last part */
    uint64_t first;         /* gradients that another run has taken: train.from */
};

struct replay_index {
    const struct replay_journals *journals; /* borrowed */
    struct replay_job job;
    unsigned ranges;
    struct replay_link *link; /* [link_count], by range and history */
    size_t link_count;
    struct replay_computed *computed; /* [computed_count], by who and number */
    size_t computed_count;
    size_t starts;                           /* of programs */
    struct proto_node last[VERIFY_DIRS_MAX]; /* [journals->count] the last one of each journal */
    struct push_journal said;                /* by the records of a journal so far */
    uint64_t *final;         /* [ranges], of the last PUSH_NOTE_FINAL of this job; */
    const uint8_t **earlier; /* [earlier_count] those of earlier parts, u64 in the journals */
    size_t earlier_count;
    bool ended[VERIFY_DIRS_MAX]; /* [journals->count] that has one */
    struct replay_link ***chain; /* [ranges][length[range]] */
    size_t *length;
};

/* Finds the chains. Returns 0 or a negative errno with `why`; replay_index_fini follows. */
int replay_index_init(struct replay_index *index, const struct replay_journals *journals,
                      const struct replay_job *job, struct why *why);
void replay_index_fini(struct replay_index *index);
/* The place in its range's chain of the history that a gradient was computed from; SIZE_MAX: it is not in it. */
size_t replay_index_place(const struct replay_index *index, const struct replay_computed *computed,
                          unsigned range);
/* How many updates old the values were that a link of a chain was computed from, and whether it completes an update: by
 * the places in the chain, whatever the journal says. The place of what it was computed from must be known. */
uint64_t replay_index_tau(const struct replay_index *index, const struct replay_link *link);
bool replay_index_updates(const struct replay_index *index, const struct replay_link *link);

#endif

/* fetch.h - a node that is behind fetches the state of one that is ahead.
 *
 *     NONE --somebody usable is ahead--> FETCHING --all blocks--> COMPLETE --trainer free--> adopt
 *       ^                                  |  ^ |
 *       +---- donor lost, too many tries --+  +-+ no block for FETCH_ASK_US: ask again
 *
 * FETCH(block) asks for FETCH_WINDOW blocks; two windows are under way at a time, so that the link stays
 * busy and nothing floods. Blocks come in order; one out of order is dropped and asked for again. When
 * the donor goes on to the next round meanwhile, its blocks say so and the transfer begins anew; so a
 * donor that is idle or done is preferred, and a leader holds its plan for a joiner. The trainer checks
 * the hash of the whole. */
#ifndef MESH_FETCH_H
#define MESH_FETCH_H

#include "mesh/core.h"

enum {
    FETCH_WINDOW = 4,          /* blocks per FETCH */
    FETCH_ASK_US = 100000,     /* without a block: ask again */
    FETCH_TRIES = 4,           /* then ask somebody else */
    FETCH_AVOID_US = 500000,   /* a donor that did not answer */
    FETCH_BAD_US = 5000000,    /* a donor whose state was wrong */
    FETCH_PATIENT_US = 300000, /* idle for so long: fetch even from one that is running */
    FETCH_REPEAT_US = 20000,   /* the same block is not served again within this time */
};

struct fetch {
    int donor; /* index in peers, -1 none */
    bool complete;
    bool named; /* round and hash are known: the first block has come */
    uint64_t round;
    uint64_t hash;
    uint64_t next;  /* first block that is missing */
    uint64_t asked; /* blocks asked for */
    unsigned tries;
    uint64_t progress_at_us; /* awake */
    uint64_t asked_at_us;    /* awake */
};

void fetch_init(struct core *core);
void fetch_step(struct core *core);
void fetch_applied(struct core *core);
void fetch_bad(struct core *core);
void fetch_peer_lost(struct core *core, int i);
void fetch_on_fetch(struct core *core, int from, const struct proto_fetch *fetch);
void fetch_on_block(struct core *core, int from, const struct proto_state *msg, const void *body,
                    size_t size);
/* Has a block come within `us`? */
bool fetch_moving(const struct core *core, uint64_t us);

#endif

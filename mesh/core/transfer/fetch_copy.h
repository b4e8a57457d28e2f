/* fetch_copy.h - a copy of the state of those ahead: the states ASKING, BLOCKS and COMPLETE of fetch.h. */
#ifndef MESH_FETCH_COPY_H
#define MESH_FETCH_COPY_H

#include "mesh/core/transfer/fetch.h"

enum {
    FETCH_WINDOW = 4,        /* blocks per FETCH; two FETCHes may be open with each donor */
    FETCH_TRIES = 3,         /* after this many tries, this donor is not asked any more */
    FETCH_VOTE_US = 20000,   /* how long to wait for further offers */
    FETCH_AVOID_US = 500000, /* a donor that did not answer is not asked for this long */
    FETCH_BAD_US = 5000000,  /* the same for donors whose state was wrong */
};

struct fetch_verdict fetch_copy_step(struct fetch *fetch, const struct core *core);
void fetch_on_offer(struct fetch *fetch, const struct core *core, int from,
                    const struct proto_offer *offer, const void *body, size_t size);
void fetch_on_block(struct fetch *fetch, const struct core *core, int from,
                    const struct proto_state *msg, const void *body, size_t size);
/* The state that the trainer was to adopt, or the part that it got, is wrong. */
void fetch_copy_bad(struct fetch *fetch, const struct core *core);
/* Has nothing of a part come for long, or was what came wrong each time? */
bool fetch_copy_lost(const struct core *core);
/* The session with peers[i] ended. */
void fetch_gone(struct fetch *fetch, const struct core *core, int i);

#endif

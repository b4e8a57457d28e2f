/* fetch_follow.h - the totals of later rounds, one after the other, from one donor: the state FOLLOWING of fetch.h. */
#ifndef MESH_FETCH_FOLLOW_H
#define MESH_FETCH_FOLLOW_H

#include "mesh/core/transfer/fetch.h"

enum {
    /* without a total after this time: ask again, doubled each time up to FETCH_ASK_MAX_US */
    FETCH_FOLLOW_US = 200000,
    FETCH_FOLLOW_BYTES = 8 << 20, /* bytes of totals that may be under way; that is at least */
    FETCH_FOLLOW_LEAST = 8,       /* this many blocks, and at most FETCH_FOLLOW_MAX */
    FETCH_AGAIN_US = 20000,       /* nobody to follow: ask again after this time */
    /* overtaken by the mesh: ask again after this time, doubled each time */
    FETCH_RETRY_US = 250000,
    FETCH_RETRY_MAX_US = 8000000,
};

struct fetch_verdict fetch_follow_step(struct fetch *fetch, const struct core *core);
struct fetch_verdict fetch_on_total(struct fetch *fetch, const struct core *core, int from,
                                    const struct proto_total *total, struct core_frame *frame);
/* The total that the trainer was to commit is wrong. */
void fetch_total_bad(struct fetch *fetch, const struct core *core);

#endif

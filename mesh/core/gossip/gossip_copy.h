/* gossip_copy.h - copies of values: who joins copies a neighbour; at the end the leader adds up the copies of all
 * members to the mean, and the others copy its result.
 *
 * A copy travels as a flow does (gossip_link.h): it is what the values were when its first range was asked for, all of
 * it, or none. Nothing is taken away from the values that were copied. */
#ifndef MESH_GOSSIP_COPY_H
#define MESH_GOSSIP_COPY_H

#include "mesh/core/gossip/gossip_link.h"

struct core;

/* What is copied: the kind of the ASK for it. */
enum gossip_fetch {
    GOSSIP_FETCH_NONE,
    GOSSIP_FETCH_VALUES = PROTO_ASK_COPY,
    GOSSIP_FETCH_MEAN = PROTO_ASK_LAST,
    GOSSIP_FETCH_RESULT = PROTO_ASK_RESULT,
};

/* Copies under way to this node. */
struct gossip_copy {
    enum gossip_fetch what;
    struct proto_node from; /* VALUES, RESULT */
    uint64_t got;           /* MEAN: bitmap of ranks */
};

/* Begins fetches, and asks for what is missing. */
void gossip_copy_step(struct gossip_copy *copy, struct gossip_links *links,
                      struct gossip_replica *replica, const struct core *core);
/* The copy of this link has come, with this weight. */
void gossip_copy_take(struct gossip_copy *copy, struct gossip_replica *replica,
                      const struct core *core, const struct gossip_link *link, int64_t weight);
/* What is complete, and ends here: FETCH_VALUES of a joiner, FETCH_RESULT or FETCH_MEAN, which is the result. */
enum gossip_fetch gossip_copy_end(struct gossip_copy *copy, struct gossip_replica *replica,
                                  const struct core *core);
/* May this node give such a copy now? */
bool gossip_copy_may_give(const struct core *core, const struct proto_ask *ask);
/* Does another node have another result, which is to be ours, too? After a split there may be two: all take that of the
 * node with the lowest id. */
bool gossip_copy_other(const struct core *core);
/* The plan has changed: a mean that was being made is void, and the values are as before. */
void gossip_copy_break(struct gossip_copy *copy, struct gossip_replica *replica,
                       const struct core *core);

#endif

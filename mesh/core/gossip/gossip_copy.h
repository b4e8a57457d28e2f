/* gossip_copy.h - copies of values: who joins copies a neighbour; at the end the leader adds up the copies of all
 * members to the mean, and the others copy its result.
 *
 * A copy travels in ranges, as flows do (gossip_link.h). Each is what the values are when it is asked for, and nothing
 * is taken away from them. A joiner, or who copies the result, has it in config.own until all of it has come. */
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
    uint64_t number;        /* of those that were begun */
    struct proto_node from; /* VALUES, RESULT */
    uint64_t got;           /* all of it came: bitmap of ranks; VALUES, RESULT: 1 */
};

/* Begins fetches, and asks for what is missing. */
void gossip_copy_step(struct gossip_copy *copy, struct gossip_links *links,
                      struct gossip_replica *replica, const struct core *core);
/* A range has come. */
void gossip_copy_take(struct gossip_copy *copy, struct gossip_replica *replica,
                      const struct core *core, const struct gossip_link *link,
                      const struct proto_flow *flow, const void *body);
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

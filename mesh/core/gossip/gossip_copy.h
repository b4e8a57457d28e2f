/* gossip_copy.h - copies of values: who joins copies a neighbour; at the end the leader adds up the copies of all
 * members to the mean, and the others copy its result. */
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

/* Parts that one donor was asked for. */
struct gossip_donor {
    uint32_t next, under; /* the next one to ask for, and how many are under way */
};

/* Copies under way to this node. */
struct gossip_copy {
    enum gossip_fetch what;
    struct proto_node from;                  /* VALUES, RESULT */
    uint64_t plan;                           /* MEAN: with its members */
    uint64_t *got;                           /* [range_count] MEAN: bitmap of ranks; else 1 */
    struct gossip_donor of[PROTO_PEERS_MAX]; /* MEAN: by rank; else the first one */
    uint64_t left;                           /* ranges */
    struct awake retry_at;
    uint64_t retry_us;
    uint64_t sent;        /* copies that this node has sent, */
    struct awake sent_at; /* the last one */
};

/* Begins fetches, and asks for what is missing. Returns what is complete now and ends here: FETCH_VALUES of a joiner
 * (from copy->from), FETCH_RESULT or FETCH_MEAN, which is the result. */
enum gossip_fetch gossip_copy_step(struct gossip_copy *copy, struct gossip_links *links,
                                   struct gossip_replica *replica, const struct core *core);
void gossip_copy_on_ask(struct gossip_copy *copy, struct gossip_links *links,
                        const struct core *core, int i, const struct proto_ask *ask);
void gossip_copy_on_flow(struct gossip_copy *copy, struct gossip_links *links,
                         struct gossip_replica *replica, const struct core *core, int i,
                         const struct proto_flow *flow, const struct core_frame *frame);
/* Does another node have another result, which is to be ours, too? After a split there may be two: all take that of the
 * node with the lowest id. */
bool gossip_copy_other(const struct core *core);
/* The plan has changed: a mean that was being made is void, and the values are as before. */
void gossip_copy_break(struct gossip_copy *copy, struct gossip_replica *replica,
                       const struct core *core);

#endif

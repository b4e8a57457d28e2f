/* gossip_copy.h - copies of values: who joins copies a neighbour; at the end the leader adds up the copies of all
 * members to the mean, and the others copy its result.
 *
 *     object   label               its blocks                           who gives it
 *     VALUES   id of the giver     the ranges                           one node that trains
 *     LAST     hash of the plan    those of each member, by its rank    each member its own, at rest
 *     RESULT   hash of the result  the ranges                           all who have it
 *
 * They travel as transfer/take.h says. A block is what the values are when it is given, and nothing is taken away from
 * them; GIVE has its weight, and a number: each node counts the blocks that it gives. A joiner, or who copies the
 * result, has it in config.own until all of it has come. */
#ifndef MESH_GOSSIP_COPY_H
#define MESH_GOSSIP_COPY_H

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/transfer/take.h"

struct core;

struct gossip_copy {
    unsigned what; /* PROTO_OBJECT_VALUES, LAST or RESULT come to this node; 0: nothing does */
    struct take take;
    uint8_t *asked;        /* [PROTO_PEERS_MAX * range_count] take.blocks */
    uint64_t given;        /* blocks */
    struct awake given_at; /* the last of them */
};

/* Gives what peers[to] asks for, if this node has it now. `scratch`: memory for a range. */
void gossip_copy_give(struct gossip_copy *copy, int32_t *scratch, const struct core *core, int to,
                      const struct proto_fetch *fetch);
/* Begins copies, and asks for what is missing. */
void gossip_copy_step(struct gossip_copy *copy, struct gossip_replica *replica,
                      const struct core *core);
/* A block came. True: it was waited for. */
bool gossip_copy_take(struct gossip_copy *copy, struct gossip_replica *replica,
                      const struct core *core, int from, const struct proto_give *give,
                      const void *body, size_t size);
/* What is complete, and ends here: VALUES of a joiner, RESULT, or LAST, whose mean is the result. 0: nothing. */
unsigned gossip_copy_end(struct gossip_copy *copy, struct gossip_replica *replica,
                         const struct core *core);
/* Does another node have another result, which is to be ours, too? After a split there may be two: all take that of the
 * node with the lowest id. */
bool gossip_copy_other(const struct core *core);
/* The plan has changed: a mean that was being made is void, and the values are as before. */
void gossip_copy_break(struct gossip_copy *copy, struct gossip_replica *replica,
                       const struct core *core);

#endif

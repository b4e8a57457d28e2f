/* gossip_public.h - with a codec (mesh.compress): what both ends of a link know of the taker's values.
 *
 * After CHOCO-SGD (Koloskova, Stich and Jaggi, ICML 2019). Both ends of a link have the same *public copy* c of the
 * taker's values x. To begin with the ASK has all values, and so has the flow; then c = x. From then on
 *
 *     ASK     CHANGES: q, the largest few of x - c. The taker sets c += q when it asks
 *     FLOW    the giver sets c += q. One part in `share` of (its values - c) flows, of the places of q and of the
 *             largest few others. It sets c += flow when it gives, and the taker when it takes
 *
 * What was left out of q is in the next x - c by itself, and what was left out of a flow stays with the giver. So
 * nothing is lost, and the sum over all nodes is as exact as without a codec. A flow moves both ends of the difference
 * at once, x and c. The paper moves x only, and needs a step size below 1 so that it does not swing.
 *
 * *When is the copy the same?* Of each range a taker tells changes only when it has taken the flow before, and a giver
 * heeds them only if it has the copy of then: it gave that flow. A void flow ends the copy of its range at the taker,
 * which has told what its giver may not know. Another link ends it, and a place that another link needed, and a
 * restart. Then the next ASK has all values again. A giver that lacks the copy answers with a void flow: after it the
 * taker does so.
 *
 * Bodies are packed (compress/packed.h), copies of gossip_copy.h are not. There are places for as many copies as the
 * graph has neighbours (gossip_graph_most); with async both directions of a link have one. The one that was used
 * longest ago goes first, but for those under way to this node. */
#ifndef MESH_GOSSIP_PUBLIC_H
#define MESH_GOSSIP_PUBLIC_H

#include "mesh/core/gossip/gossip.h"

struct core;
struct gossip_link;

/* The copy of a link. */
struct gossip_place {
    struct proto_node node; /* the other end, */
    uint64_t link;          /* and its number; 0: free */
    bool gives;             /* this node is the giver */
    uint64_t used;          /* the lowest one was used longest ago */
    bool *same;             /* [range_count] both ends have the same of this range */
    int32_t *values;        /* [config.gossip->count] */
};

/* Without a codec all is 0. */
struct gossip_publics {
    struct gossip_place *places; /* [count] */
    size_t count;
    int32_t *copies;   /* of all places */
    bool *sames;       /* the same */
    int32_t *elements; /* [chunk_elems] of a body */
    uint8_t *packed;   /* as it travels */
    uint64_t uses;
};

/* Once memory is there: places of so many values each, in ranges. */
void gossip_public_init(struct gossip_publics *publics, size_t count, size_t ranges);

/* The taker asks for the next flow of range p. Does it tell changes? Else all values, `mine`, which are the copy
 * then. */
bool gossip_public_ask(struct gossip_publics *publics, const struct core *core,
                       const struct gossip_link *link, size_t p, const int32_t *mine);
/* The changes of range p to tell; the copy follows them. */
const int32_t *gossip_public_tell(struct gossip_publics *publics, const struct core *core,
                                  const struct gossip_link *link, size_t p, const int32_t *mine);
/* The elements of the body of an ASK or a FLOW, until the next one is read. NULL: they are not of this range. */
const void *gossip_public_read(struct gossip_publics *publics, const struct core *core,
                               const struct core_frame *frame, size_t p);
/* Has the giver the copy of range p to which changes are told? */
bool gossip_public_has(struct gossip_publics *publics, const struct gossip_link *link, size_t p);
/* The flow that answers this ASK, of which `body` has the elements. `flow` may be `mine`. */
void gossip_public_give(struct gossip_publics *publics, const struct core *core,
                        const struct gossip_link *link, const struct proto_ask *ask,
                        const void *body, int32_t *flow, const int32_t *mine, unsigned share);
/* The taker has taken a flow of range p. */
void gossip_public_took(struct gossip_publics *publics, const struct core *core,
                        const struct gossip_link *link, size_t p, const int32_t *flow);

#endif

/* gossip_give.h - the giver's end of flows, and how it is found out what became of them.
 *
 * The giver answers each ASK with a range of the flow, or says that the flow is void. With the last range it takes the
 * flow away from its values, and keeps it until the taker has it. The first ASK for a flow may come too early,
 * and waits while there is room. */
#ifndef MESH_GOSSIP_GIVE_H
#define MESH_GOSSIP_GIVE_H

#include "mesh/core/core.h"
#include "mesh/core/gossip/gossip.h"

struct gossip_links;
struct gossip_link;

enum {
    GOSSIP_KEPT_MAX = 16, /* early ASKs with values are kept until they can be answered */
};

/* The giver's end. */
struct gossip_give {
    uint64_t number;         /* of the last flow */
    bool none;               /* it is void, */
    uint32_t made;           /* or so many ranges of it are made; all: it is given */
    uint16_t kind;           /* as in the ASKs */
    uint64_t plan, phase;    /* for this phase */
    unsigned share;          /* it is one part in so many */
    int64_t weight;          /* of push-sum */
    int slot;                /* where it is kept until the taker has it; -1: it is not */
    bool fresh;              /* the link is new to us: the first ASK says how many were given */
    bool waits;              /* the first ASK for the next one is early, */
    struct proto_ask ask;    /* this one, */
    struct core_frame frame; /* with the taker's values; handle NULL: it has none */
};

void gossip_give_on_ask(struct gossip_links *links, struct gossip_replica *replica,
                        const struct core *core, int i, const struct proto_ask *ask,
                        struct core_frame *frame);
/* Answers the early ASKs, as far as it can. */
void gossip_give_waiting(struct gossip_links *links, struct gossip_replica *replica,
                         const struct core *core);
/* The phase is over, or will not end: what is being made comes to nothing, and all that is open is settled. */
void gossip_give_stop(struct gossip_links *links, const struct core *core);
/* Asks peers[i] about what is open, and sends again what it has not taken. */
void gossip_give_settle(struct gossip_links *links, const struct core *core, int i);
/* The same with every node of which nothing was heard for a while. */
void gossip_give_tick(struct gossip_links *links, const struct core *core);

#endif

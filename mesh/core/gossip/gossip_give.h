/* gossip_give.h - the giver's end of flows, and how it is found out what became of them.
 *
 * The giver answers an ASK once, with a flow or with a void one, and keeps the flow until the taker has it. An ASK that
 * comes too early waits; its values are kept while there is room. */
#ifndef MESH_GOSSIP_GIVE_H
#define MESH_GOSSIP_GIVE_H

#include "mesh/core/gossip/gossip_link.h"

enum {
    GOSSIP_SLOTS_MIN = 8, /* flows that are kept at a time, at least; else one per range */
    GOSSIP_KEPT_MAX =
        16, /* early ASKs with all values, or smaller ones of as many bytes, are kept until they can be answered */
};

void gossip_give_on_ask(struct gossip_links *links, struct gossip_replica *replica,
                        const struct core *core, int i, const struct proto_ask *ask,
                        struct core_frame *frame);
/* Answers the ASKs that wait, as far as it can. */
void gossip_give_waiting(struct gossip_links *links, struct gossip_replica *replica,
                         const struct core *core);
/* The phase is over, or will not end: asks about everything that is open. */
void gossip_give_settle_all(struct gossip_links *links, const struct core *core);
/* Asks peers[i] about what is open, and sends again what it has not taken. */
void gossip_give_settle(struct gossip_links *links, const struct core *core, int i);
/* The same with every node of which nothing was heard for a while. */
void gossip_give_tick(struct gossip_links *links, const struct core *core);

#endif

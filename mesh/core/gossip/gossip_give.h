/* gossip_give.h - the giver's end of flows, and how it is found out what became of them.
 *
 * The giver answers each ASK with a flow, or says that it is void. It takes the flow away from its values, and keeps it
 * until the taker has it. An ASK may come too early, or find no place for its flow: it waits while there is room. */
#ifndef MESH_GOSSIP_GIVE_H
#define MESH_GOSSIP_GIVE_H

#include "mesh/core/gossip/gossip_link.h"

void gossip_give_on_ask(struct gossip_links *links, struct gossip_replica *replica,
                        const struct core *core, int i, const struct proto_ask *ask,
                        struct core_frame *frame);
/* Answers the early ASKs, as far as it can. */
void gossip_give_waiting(struct gossip_links *links, struct gossip_replica *replica,
                         const struct core *core);
/* Asks peers[i] about what is open, and sends again what it has not taken. */
void gossip_give_settle(struct gossip_links *links, const struct core *core, int i);
/* The same with every node of which nothing was heard for a while. */
void gossip_give_tick(struct gossip_links *links, const struct core *core);

#endif

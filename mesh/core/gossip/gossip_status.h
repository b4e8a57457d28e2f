/* gossip_status.h - the status of a node of the engine gossip, from START to DONE, and what each event makes possible. */
#ifndef MESH_GOSSIP_STATUS_H
#define MESH_GOSSIP_STATUS_H

#include "mesh/core/gossip/gossip.h"

struct core;

/* Whatever is possible now. */
void gossip_status_step(struct core *core);
/* Another plan, or none, is in force. */
void gossip_status_plan_changed(struct core *core);

#endif

/* meeting.h - where a node meets others, whatever it wants of them. */
#ifndef NODE_MEETING_H
#define NODE_MEETING_H

#include "mesh/mesh.h"
#include "node/job/config.h"

/* Sets group, interface, ports, seeds and the name of the node; borrows from the config. */
void meeting_setup(const struct config *config, struct mesh_setup *setup);

#endif

/* meeting.h - where a node meets others, whatever it wants of them. */
#ifndef NODE_MEETING_H
#define NODE_MEETING_H

#include "mesh/mesh.h"
#include "node/job/config.h"

/* Sets group, interface, ports, seeds and the name of the node; borrows from the config. */
void meeting_setup(const struct config *config, struct mesh_setup *setup);

/* The addresses of the nodes that are here go to DIR/peers, a line each: HOST:PORT. A node that is started again tries
 * them, and so finds the mesh where beacons do not reach it and nobody named it. A file that is broken, or cannot be
 * written, is worth nothing and does no harm. */
void meeting_remember(struct mesh *mesh, const char *dir);
void meeting_recall(struct mesh *mesh, const char *dir);

/* The number in DIR/identity, a new one if there is none. */
uint64_t meeting_identity(const char *dir);
/* Writes it there, once this node has a mesh: a start that fails leaves nothing. */
void meeting_keep(const char *dir, uint64_t identity);
/* It is another node's: the next start draws a new one. */
void meeting_forget(const char *dir);

#endif

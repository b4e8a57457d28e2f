/* waiting.h - what a node says while it waits for others, and when it never met them: sentences made of what the mesh
 * knows. No state, no I/O. */
#ifndef NODE_WAITING_H
#define NODE_WAITING_H

#include "mesh/mesh.h"

enum { WAITING_LINE = 448, WAITING_HINT_US = 5000000 /* after so long what to check is said */ };

/* How many nodes are heard at present, but not reached. */
unsigned waiting_gaps(const struct mesh_status *status);

/* The live line of a node that looks for a job: "looking for a mesh on eth0, wlan0: 0:25". A node that is heard and
 * not reached is added: "  not reached: 192.168.7.13:20000". */
void waiting_search(const struct mesh_status *status, uint64_t searching_us,
                    char out[WAITING_LINE]);
/* What to check when nobody answers. */
void waiting_search_hint(const struct mesh_status *status, char out[WAITING_LINE]);

/* The same for a node that has a job and trains by itself. */
void waiting_alone_hint(const struct mesh_status *status, char out[WAITING_LINE]);

/* The live line of a node that waits for --peers N: "waiting for 3 nodes: 2 are here (pc1, pc3): 0:25". */
void waiting_peers(const struct mesh_status *status, char out[WAITING_LINE]);
void waiting_peers_hint(const struct mesh_status *status, char out[WAITING_LINE]);

/* While a node is alone: what it finds wrong, each cause once, by `say`. Returns whether there is anything, said now or
 * before. */
struct findings_said;
bool waiting_findings(const struct mesh_status *status, struct findings_said *said, int level,
                      void (*say)(void *ctx, int level, const char *line), void *ctx);

/* The nodes that were heard and never met: "pc3 (192.168.7.13:20000), 192.168.7.14:20000". Returns their number. */
size_t waiting_unmet(const struct mesh_status *status, char out[WAITING_LINE]);
bool waiting_is_unmet(const struct core_contact *contact);

#endif

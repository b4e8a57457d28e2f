/* sessions.h - how sessions begin and end: what beacons, HELLOs, refusals, links and time do to the peers.
 *
 * peers.h has the states of a peer. Sessions call none of the parts that use them. What happened to them is *news*
 * (peers.h): core.c takes it after each of these calls and tells the parts. */
#ifndef MESH_SESSIONS_H
#define MESH_SESSIONS_H

#include "mesh/core/sessions/peers.h"

void sessions_init(struct peers *peers, const struct core *core);
void sessions_tick(struct peers *peers, const struct core *core);
/* An endpoint was found: by a beacon (node known), or as a seed or in a peer's list (node.id 0). */
void sessions_found(struct peers *peers, const struct core *core, const struct proto_endpoint *at,
                    struct proto_node node, bool forever);
/* The shell reports that a link is up, or down. */
void sessions_link(struct peers *peers, const struct core *core, unsigned link, bool up);
/* `from`, whose address is `host`, says HELLO, or refuses us. */
void sessions_hello(struct peers *peers, const struct core *core, struct proto_node from,
                    const char *host, const struct proto_hello *hello);
void sessions_refused(struct peers *peers, const struct core *core, struct proto_node from,
                      const char *host, const struct proto_refuse *refuse, const void *job,
                      size_t job_size);
/* peers[i] leaves; `done`: it has finished. */
void sessions_bye(struct peers *peers, const struct core *core, int i, bool done);
/* The session with peers[i] ends: it does not answer. */
void sessions_silent(struct peers *peers, const struct core *core, int i, const char *why);
/* Refuses `node` for the rest of the run, because of a wrong contribution. */
void sessions_expel(struct peers *peers, const struct core *core, struct proto_node node);

/* Opens the line for bodies to a node that is no peer in training; if it is open, nothing. */
void sessions_open_bulk(struct peers *peers, const struct core *core, int i);

#endif

/* heartbeat.h - who is alive: heartbeats, and what their absence means.
 *
 * Every CORE_HEARTBEAT_US, and when something changed that others wait for, a node tells all peers where it is, whom it
 * hears and how long its trainer has been busy.
 *
 * Silence for CORE_SUSPECT_US makes a peer suspected, for CORE_FORGET_US ends its session. Both are
 * measured in core->awake, which stands still while this node itself does not run, and goes the slower the later its
 * ticks come: a node that was paused or is starved of CPU does not blame the others for it (Lifeguard: Dadgar et al.,
 * DSN-W 2018). More than half of the mesh is not suspected on silence before CORE_SPLIT_US: it is rather this node that
 * hears nobody. Then it goes on all the same, with whom it hears or alone, as it must on the smaller side of a split.
 *
 * A node whose heartbeats come may still hang: they say how long its trainer has not got on with what it was
 * asked for. One that is *stuck* for longer than a plan may be without progress is in no plan until its trainer
 * moves again. */
#ifndef MESH_HEARTBEAT_H
#define MESH_HEARTBEAT_H

#include "mesh/core.h"

enum {
    HEARTBEAT_HUSH_US = 125000, /* who missed two counts when most of the mesh is silent */
};

/* To everybody, now; who has no job asks for one instead. */
void heartbeat_send(struct core *core);
/* The peer said something. */
void heartbeat_heard(struct core *core, int i);
void heartbeat_take(struct core *core, int i, const struct proto_heartbeat *beat);
/* Suspect peers[i], which is up, or end its session when it has been silent for too long. */
void heartbeat_watch(struct core *core, int i);
void heartbeat_tick(struct core *core);

#endif

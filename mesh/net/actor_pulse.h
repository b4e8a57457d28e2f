/* actor_pulse.h - tells the peers that this node is alive while its core is too busy to tell them.
 *
 * The core sends the heartbeats, so they wait while the lock of the core is held: while it copies or checks large sums,
 * or touches memory for the first time. On a machine with too much to do, each millisecond of that takes twenty. So a
 * thread that does nothing else watches the heartbeats. When none has left for PULSE_QUIET_US, the thread sends an
 * empty PEERS, which says only that this node is alive, to each peer for which one is overdue. It repeats that until
 * the next heartbeat leaves. After PULSE_MAX_US it stops: a node whose core hangs must fall silent. */
#ifndef MESH_ACTOR_PULSE_H
#define MESH_ACTOR_PULSE_H

#include "mesh/net/actor_wire.h"

struct pulse;

enum {
    PULSE_EVERY_US = 50000,
    PULSE_QUIET_US = 75000,
    PULSE_MAX_US = 3000000,
};

/* Is it time to say so, when the last heartbeat left `quiet_us` ago? */
bool pulse_due(uint64_t quiet_us);
/* Starts the thread. 0 or -errno. */
int pulse_new(struct pulse **out, struct wire *wire);
/* Before the wire is destroyed. */
void pulse_destroy(struct pulse **pulse);

#endif

/* heartbeat.h - which nodes are alive: heartbeats, and what follows when they do not come.
 *
 * Every CORE_HEARTBEAT_US, and when something changed that others wait for, a node tells all peers its round, for how
 * long its trainer has made no progress, and what its engine has to say. core.c calls these functions for what the wire
 * brings, and the engine for the heartbeat itself.
 *
 * Whom a node hears, it tells when that has changed. A heartbeat only names the hash of the list, so it has as many
 * bytes with 64 nodes as with 2. Who does not have the list asks for it.
 *
 * A peer that is silent for CORE_SUSPECT_US is suspected. After CORE_FORGET_US its session ends. Both times are
 * measured in core->awake. This clock stops while this node does not run, and runs slower when its ticks come late.
 * So a node that was paused or gets too little CPU does not blame the others (Lifeguard: Dadgar et al., DSN-W
 * 2018). When more than half of the mesh is silent, they are suspected only after CORE_SPLIT_US: more likely this
 * node hears nobody. After that it goes on all the same, with the nodes it hears or alone. The smaller side of a
 * split must do so.
 *
 * While a node waits for others to come, nothing depends on it: it beats every CORE_IDLE_US. Each heartbeat says when
 * the next one comes; a peer that beats more slowly may be silent for so much longer before it is suspected. group.h
 * makes no plan with who was not heard lately.
 *
 * n nodes send n(n-1) heartbeats, so in a crowd, of more than HEARTBEAT_CROWD nodes, most would do little else. There,
 * only the HEARTBEAT_LEADERS nodes with the lowest ids that are not left out hear from everybody, and everybody from
 * them, every CORE_HEARTBEAT_US: they lead, or will when the leader is gone. All others hear from one another every
 * HEARTBEAT_FAR_US, and when something has changed. Lists of whom a node hears, and of endpoints, come more rarely,
 * too. When all three are gone, who leads then has heard the others late: a plan does not wait for longer than any plan
 * does for who has missed a beat.
 *
 * A node that sends heartbeats may still hang. Its heartbeats say for how long its trainer has made no progress
 * with its task. If this is longer than a plan may be without progress, the node is *stuck*: it is in no plan until
 * its trainer makes progress. */
#ifndef MESH_HEARTBEAT_H
#define MESH_HEARTBEAT_H

#include "mesh/core/sessions/view.h"

enum {
    /* a peer that missed two heartbeats counts as silent when we ask whether most of the mesh is */
    HEARTBEAT_QUIET_US = 125000,
    HEARTBEAT_CROWD = 16,
    HEARTBEAT_LEADERS = 3,
    HEARTBEAT_FAR_US = 400000,
};

/* What a heartbeat of peers[i] brought. */
struct heartbeat_news {
    uint64_t healed; /* bitmap of peers that something kept out of plans, and that is over */
    bool moves;      /* its trainer has made progress */
    bool back;       /* it is not left out any more */
};

enum heartbeat_verdict {
    HEARTBEAT_AS_BEFORE,
    HEARTBEAT_SUSPECTED, /* it is suspected from now on */
    HEARTBEAT_LOST,      /* its session is to end */
};

/* Sends a heartbeat now: to all peers if it comes early, since something has changed; else to those for which one is
 * due. A node without a job asks for one instead. */
void heartbeat_send(struct view *view, const struct core *core, const struct proto_heartbeat *beat);
/* A message of peers[i] came. Returns true if it was suspected. */
bool heartbeat_heard(struct view *view, const struct core *core, int i);
/* peers[i] says whom it hears: that counts when a heartbeat names this list. */
void heartbeat_hears(struct view *view, int i, const struct proto_hears *hears);
/* peers[i] asks whom we hear. */
void heartbeat_whom(struct view *view, const struct core *core, int i);
struct heartbeat_news heartbeat_take(struct view *view, const struct core *core, int i,
                                     const struct proto_heartbeat *beat);
/* A chunk of peers[i] was computed from a state with this hash before core->round. */
void heartbeat_state(struct view *view, const struct core *core, int i, uint64_t state);
/* Has peers[i], which is up, been silent for too long? */
enum heartbeat_verdict heartbeat_watch(struct view *view, const struct core *core, int i);
/* A session with peers[i] begins; it has ended; slot i is free, and nobody hears it. */
void heartbeat_up(struct view *view, const struct core *core, int i);
void heartbeat_gone(struct view *view, int i);
void heartbeat_forget(struct view *view, int i);

#endif

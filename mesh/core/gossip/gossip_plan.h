/* gossip_plan.h - the members of a gossip mesh, and their ranks. */
#ifndef MESH_GOSSIP_PLAN_H
#define MESH_GOSSIP_PLAN_H

#include "mesh/core/gossip/gossip.h"

struct core;

enum {
    GOSSIP_HUNG_US = 2000000, /* a member computes for so long, beside four steps: it hangs */
};

/* The newest plan of a leader that this node has followed. */
struct gossip_newest {
    struct proto_node leader;
    uint64_t counter;
};

struct gossip_plan {
    bool active;
    struct proto_plan now;
    uint64_t hash;
    unsigned rank;
    struct gossip_newest newest[PEERS_MAX]; /* of peers[i] */
    uint64_t counter, plans, aborts;
    struct awake idle_at; /* without a plan since, and nobody is waited for */
    struct awake adopted_at;
    struct awake told_at; /* when the plan was last sent */
};

/* Makes, repeats or drops a plan. True: another plan, or none, is in force. */
bool gossip_plan_step(struct gossip_plan *plan, const struct core *core);
/* As a message says. True: it is in force now. */
bool gossip_plan_on_plan(struct gossip_plan *plan, const struct core *core, int from,
                         const struct proto_plan *said);
/* Makes the present plan again, with the same members. */
void gossip_plan_again(struct gossip_plan *plan, const struct core *core);
/* The first plan waits for config.peers_min nodes. */
bool gossip_plan_waits(const struct core *core);

#endif

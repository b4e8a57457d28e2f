/* gossip_run.h - what a node computes and exchanges by itself: phases (bsp), or pairs (async). */
#ifndef MESH_GOSSIP_RUN_H
#define MESH_GOSSIP_RUN_H

#include "mesh/core/gossip/gossip_link.h"

struct core;

struct gossip_run {
    uint64_t step; /* the next one here */
    bool on;       /* a phase runs */
    uint64_t phase;
    uint64_t takes, gives; /* ranks */
    bool computing;
    uint64_t shards; /* of the present compute */
    struct awake compute_at;
    uint64_t compute_us;
    struct proto_node partner; /* async: whom we ask now; id 0: nobody */
    bool due;                  /* async: there was an update since the last exchange */
    bool told_modelless;       /* it was said that this node is alone and has no model */
};

/* Ends a phase in which everything was exchanged and computed. */
void gossip_run_end_phase(struct gossip_run *run, const struct core *core);
/* Begins a phase or an exchange, asks for flows, and lets the trainer compute. */
void gossip_run_step(struct gossip_run *run, struct gossip_replica *replica,
                     struct gossip_links *links, const struct core *core);
/* Another plan, or none, is in force: the phase is over, and what is under way is settled. */
void gossip_run_stop(struct gossip_run *run, const struct gossip_links *links,
                     const struct core *core);
/* The trainer has computed. */
void gossip_run_computed(struct gossip_run *run, const struct core *core);
/* Will no member compute any more in this plan? In the next one who rested for a checkpoint does. */
bool gossip_run_all_frozen(const struct core *core);
/* Does the trainer compute, or does a result come that ends everything? */
bool gossip_run_busy(const struct core *core);

#endif

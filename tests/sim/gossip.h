/* gossip.h - what the files of the engine gossip share: gossip.c has the trainer, gossip_judge.c and gossip_verdict.c
 * the oracle, gossip_mute.c a node that does not answer. */
#ifndef SIM_GOSSIP_H
#define SIM_GOSSIP_H

#include "mesh/core/gossip/gossip.h"
#include "tests/sim/engine.h"
#include "tests/sim/sim.h"

enum { SIM_GOSSIP_VALUES = 24, SIM_GOSSIP_RANGES = 4 };

/* A checkpoint, as a node's disk has it. */
struct sim_gossip_file {
    bool there;
    struct gossip_saved saved; /* points to the following */
    int64_t values[SIM_GOSSIP_VALUES], weight[SIM_GOSSIP_RANGES];
    struct gossip_start starts[GOSSIP_STARTS + 1];
};
extern struct sim_gossip_file sim_gossip_disk[SIM_NODES_MAX];

/* gossip.c */
extern struct gossip_config sim_gossip_config; /* of the present schedule */
extern uint32_t sim_gossip_chunk;              /* values in a range */
size_t sim_gossip_ranges(void);
/* The values that all nodes begin with. */
int32_t sim_gossip_initial(const struct sim *sim, size_t k);
/* The update of element k that `node` computes from the values it was given. */
int32_t sim_gossip_update(const struct sim *sim, const struct sim_node *node, uint64_t step,
                          uint64_t shards, int32_t value, size_t k);

/* gossip_verdict.c: a node saves this. */
void sim_gossip_judge_saved(struct sim *sim, const struct sim_node *node,
                            const struct gossip_saved *saved);
/* gossip_mute.c: some schedules have a node that does not answer. `computed`: a node has done a step. */
void sim_gossip_mute_begin(struct sim *sim);
bool sim_gossip_muted(void); /* is this one of them? */
/* No faults come, and messages take no time to speak of. */
void sim_gossip_quiet(struct sim *sim);
void sim_gossip_mute_wire(struct core_config *config);
void sim_gossip_mute_computed(struct sim *sim, const struct sim_node *node);

/* gossip_end.c: in some schedules nodes are told to end; that is done, and they do. */
void sim_gossip_end_begin(struct sim *sim);
void sim_gossip_end(struct sim *sim, struct sim_node *node);
void sim_gossip_ended(void *ctx, bool saved);

/* gossip_judge.c: every event of a core's journal is followed, with arithmetic of its own. */
void sim_gossip_judge_begin(struct sim *sim);
void sim_gossip_judge_note(struct sim *sim, struct sim_node *node, const struct gossip_note *note);
void sim_gossip_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event);
void sim_gossip_judge_end(struct sim *sim);

#endif

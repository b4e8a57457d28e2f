/* engine.h - what the nodes of a schedule do together: a trainer for each, and an oracle that judges them.
 *
 * Another way to train is another file with such a table, and a line in the list of world.c. The rest of the simulator
 * asks the table and knows of no engine. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "tests/sim/sim.h"

struct sim_engine {
    const char *name; /* as in --engine */

    /* A schedule begins: the profile is known, no node runs yet. */
    void (*begin)(struct sim *sim);
    /* The simulator ends: free what `begin` allocated. NULL: nothing. */
    void (*end)(struct sim *sim);
    /* The next two may be NULL, if equal rounds are not equal states: see sim_state_at and sim_hash.
     * The state that every node has before `round`; before round 0 it is the initial state. */
    const struct sim_state *(*state)(const struct sim *sim, uint64_t round);
    /* Of a state: what the trainer tells the core, and the check of a checkpoint. Never 0. */
    uint64_t (*hash)(const struct sim *sim, const struct sim_state *state);

    /* The trainer: puts its callbacks into the config of a core. */
    void (*trainer)(struct core_config *config, struct shell *shell);
    /* node->round and node->state are what its disk had: tell the core. */
    void (*start)(struct sim *sim, struct sim_node *node);
    /* One that the trainer pushed has come. */
    void (*event)(struct sim *sim, struct sim_node *node, const struct sim_event *event);
    /* After each event of a node, when all was judged: work ahead, for instance. */
    void (*idle)(struct sim *sim, struct sim_node *node);

    /* The oracle. A failure is told with sim_fail. `sent`, which may be NULL: a control message is given to a link.
     * `came`, which may be NULL: a message is about to be given to the core of `node`. */
    void (*sent)(struct sim *sim, const struct sim_node *node, const struct proto_msg *msg);
    void (*came)(struct sim *sim, struct sim_node *node, unsigned from,
                 const struct proto_msg *msg);
    void (*judge)(struct sim *sim, struct sim_node *node, const struct sim_event *event);
    /* Has everybody who runs done everything? */
    bool (*done)(const struct sim *sim);
    /* The schedule is over, or its deadline: who hangs? */
    void (*judge_end)(struct sim *sim);
};

/* Of engines whose nodes have no common state it is empty, */
static inline const struct sim_state *
sim_state_at(const struct sim *sim, uint64_t round)
{
    static const struct sim_state none;
    return sim->engine->state ? sim->engine->state(sim, round) : &none;
}

/* and all hashes are equal. */
static inline uint64_t
sim_hash(const struct sim *sim, const struct sim_state *state)
{
    return sim->engine->hash ? sim->engine->hash(sim, state) : 1;
}

extern const struct sim_engine sim_engine_rounds;  /* rounds.c */
extern const struct sim_engine sim_engine_inexact; /* the same with train.exact: no: inexact.c */
extern const struct sim_engine sim_engine_gossip;  /* gossip.c */

/* shell.c; as in struct core_trainer. An error: nobody wants a job. */
void shell_job_offered(void *ctx, const char *from, uint64_t job, const char *text, size_t size);

#endif

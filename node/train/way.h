/* way.h - a way to train, as a table: all that a run asks of it. Its other half is an engine of the mesh
 * (mesh/core/engine.h), which struct core_trainer makes tasks for, and which asks a keeper of the way what must be
 * answered at once, with the mesh locked.
 *
 *     way_rounds.c    exact sums, one round after the other, by a ring or by servers
 *     way_gossip.c    replicas that average with their neighbours (mesh.topology: gossip)
 *     way_check.c     what `meshnode check` prints of each
 *
 * Each has a record of its own, run->record. Only the job's keys and hashes (node/job) and the replay ask which way
 * it is. Another way is another such file with its rows in way.c and way_check.c, and
 *
 *     node/job/config.h, config.c    its value in enum config_way; which keys mean it; its part of the job's hash, if
 *                                    the same job has another result in it
 *     node/job/config_key.c, config_rules.c    its keys, and with which others they cannot go; configs/reference.yaml
 *     node/commands/replay.c         its row: what computes it again from its journal (train_journal_add), if it is
 *                                    `free`
 *     mesh/core/engine.h             what another engine is, if none there does it
 *
 * Local steps (train.local_steps, local_sgd.h) are no way of their own: a round of way_rounds.c has several
 * (work.h). */
#ifndef NODE_WAY_H
#define NODE_WAY_H

#include "node/train/job.h"

struct memory;
struct mesh_setup;
struct mesh_task;
struct metrics_result;
struct run;

struct way {
    /* The timing of the nodes decides the result: it is no exact one, and each node keeps a journal, from which the run
     * can be computed again. */
    bool free;
    const char *name;  /* of its section in a checkpoint, 1..15 letters, */
    const char *holds; /* what people are told that such a checkpoint has */
    const char *
        whose; /* whose weights model.safetensors has before the end; NULL: the model of that step */
    const char *remedy; /* follows "Try a smaller rate" when gradients are not finite */

    /* Adjusts the estimate of memory for this way: so many parameters, a vector of so many bytes. */
    void (*memory)(struct memory *m, const struct config *config, size_t params, uint64_t vector);
    /* What `meshnode check` says of a step; 0 or -ENOMEM. */
    int (*check)(const struct config *config, const struct job *job);

    /* After state and workers, before checkpoints and mesh: makes run->record. 0, or a negative errno with `why`.
     * `close` follows in both cases. */
    int (*open)(struct run *run, struct why *why);
    void (*close)(struct run *run);
    /* What a checkpoint has beside the state; and the state and this were read: begin with them. False: they cannot be.
     * Both NULL: nothing. */
    void *(*more)(struct run *run, size_t *size);
    bool (*resume)(struct run *run);
    /* Before a checkpoint is read: what does this node hold of the state? False: that is not known yet; then it is read
     * later (train_read). NULL: all of it. */
    bool (*holding)(struct run *run);
    /* The engine, and what it needs to know. Borrowed. */
    void (*config)(struct run *run, struct mesh_setup *setup);
    /* All checkpoints or some are damaged: has them repaired by others. 0 or the exit status. NULL: others have other
     * ones. */
    int (*repair)(struct run *run);
    void (*start)(struct run *run); /* gives the mesh the first state */

    /* Carries out a task. True: this node is to stop, as its gradients are not finite any more. */
    bool (*follow)(struct run *run, const struct mesh_task *task);
    /* This node ends, and the run is not done; `saved` as in struct mesh_task. The exit status; -1: run->state is to be
     * saved. NULL: -1. */
    int (*ends)(struct run *run, bool saved);
    /* The run is done: what differs in its result. NULL: nothing. */
    void (*report)(const struct run *run, struct metrics_result *result);
};

const struct way *way_of(const struct config *config);

extern const struct way way_rounds, way_gossip;

/* For the tables: way_check.c. */
int way_check_rounds(const struct config *config, const struct job *job);
int way_check_gossip(const struct config *config, const struct job *job);

#endif

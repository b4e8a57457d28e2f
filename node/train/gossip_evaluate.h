/* gossip_evaluate.h - evaluations of a mesh that gossips; gossip_score.h says which there are.
 *
 * On the way a node evaluates a copy of its replica in pieces, one after each step, when the mesh already has its update:
 * neighbours never wait for more than a piece. The result is evaluated at once, as nobody trains any more. */
#ifndef NODE_GOSSIP_EVALUATE_H
#define NODE_GOSSIP_EVALUATE_H

#include "node/train/gossip_score.h"
#include "node/train/train_internal.h"

struct gossip_evaluate {
    struct gossip_scores scores;
    float *params; /* [parameters] of the replica that is evaluated, as it was then */
    bool begun;    /* the first step was made */
    uint64_t mine; /* shards that this node had in the last step */
    uint64_t last; /* evaluation that was begun, or was due before that step */
    bool shown;    /* its means are in the metrics */
    /* What is left of it here: shards, the first one of which is evaluated from row `at` on. */
    uint64_t left, at, piece;
    struct nn_result sum;
};

/* Returns 0 or -ENOMEM. */
int gossip_evaluate_init(struct gossip_evaluate *evaluate, const struct run *run);
void gossip_evaluate_fini(struct gossip_evaluate *evaluate);
/* The state is behind a step of this task, and that is reported: reports what is known of an evaluation, and begins the
 * next one if it is due. */
void gossip_evaluate_step(struct gossip_evaluate *evaluate, struct run *run,
                          const struct mesh_task *task);
/* Evaluates a piece, if there is one. Does not look at the state. */
void gossip_evaluate_piece(struct gossip_evaluate *evaluate, const struct run *run);
/* There are no more steps: reports what is known. */
void gossip_evaluate_last(struct gossip_evaluate *evaluate, struct run *run);
/* The state is the result of this hash: evaluates it with the others, sets the header, and reports it. */
void gossip_evaluate_result(struct gossip_evaluate *evaluate, struct run *run, uint64_t result);

#endif

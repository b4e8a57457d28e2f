/* evaluation.h - evaluations of a mesh whose nodes do not step together: mesh.topology gossip. scores.h says which
 * there are.
 *
 * On the way a node evaluates a copy of the parameters that it had at the end of an epoch, in pieces between its
 * steps: one shard of the test part after the other that nobody has told yet, so fast nodes evaluate more. The
 * result is evaluated at once, as nobody trains any more. */
#ifndef NODE_EVALUATION_H
#define NODE_EVALUATION_H

#include "node/train/scores.h"

struct mesh_setup;
struct run;

enum { EVALUATION_PIECES = 50 /* of an evaluation by one node, at most */ };

struct evaluation {
    struct scores scores;
    float *params; /* [parameters] to evaluate, as they were then; NULL: only the result is */
    bool stepped;  /* this node has made a step, */
    uint64_t last; /* and this evaluation was begun, or was due before that step */
    bool shown;    /* its means were given out */
    uint64_t draw; /* where this node begins among the shards */
    bool within;   /* it has evaluated a part of this shard, up to row `at` */
    unsigned shard;
    uint64_t at;
    struct nn_result sum;
};

/* Returns 0 or -ENOMEM. */
int evaluation_init(struct evaluation *evaluation, const struct run *run);
void evaluation_fini(struct evaluation *evaluation);
/* What an evaluation on the way came to. */
struct evaluation_news {
    struct score_means means;
    uint64_t epoch, step; /* it is of the parameters after so many */
};

/* The parameters in run->state are those before `step`. Begins the evaluation that is due, and before that ends the one
 * before. True: `news` are of an evaluation that has ended since the last call, and what this node has evaluated is
 * being written as the model. */
bool evaluation_step(struct evaluation *evaluation, const struct run *run, uint64_t step,
                     struct evaluation_news *news);
/* Evaluates so many rows, if there is something to evaluate. Does not look at the state. */
void evaluation_piece(struct evaluation *evaluation, const struct run *run, uint64_t rows);
/* "epoch 1" */
struct train_test evaluation_name(const struct evaluation_news *news);
/* There are no more steps. True: `news` are what is known of an evaluation that was not given out. */
bool evaluation_last(struct evaluation *evaluation, const struct run *run,
                     struct evaluation_news *news);
/* run->state has the result of this hash: evaluates it with the others. */
struct score_means evaluation_result(struct evaluation *evaluation, const struct run *run,
                                     uint64_t result);

/* Its part of the setup; ctx is the run. */
void evaluation_setup(struct mesh_setup *setup);

#endif

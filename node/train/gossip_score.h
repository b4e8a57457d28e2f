/* gossip_score.h - what evaluations of a mesh that gossips come to (mesh.topology: gossip).
 *
 * The test part is cut into the job's shards. Who has some shards of a step evaluates the same ones of the test part, and
 * tells the others what each came to. Two kinds of evaluation have names of their own:
 *
 *     the n-th on the way     n: each node evaluates its own replica, on its shards alone
 *     of the result           its hash, with the highest bit: all have one model, and whoever is free takes what is left
 *
 * So the mean over all shards is on the way that over the replicas, each on its share, and in the end that of the model.
 * All functions may be called from any thread. */
#ifndef NODE_GOSSIP_SCORE_H
#define NODE_GOSSIP_SCORE_H

#include <pthread.h>

#include "compress/exact.h"
#include "nn/nn.h"
#include "proto/proto.h"

#define GOSSIP_SCORE_RESULT (UINT64_C(1) << 63)

struct gossip_evaluation {
    uint64_t name;    /* 0: none */
    uint64_t covered; /* shards */
    struct proto_score of[EXACT_SHARDS_MAX];
};

struct gossip_scores {
    pthread_mutex_t lock;
    unsigned shards;
    uint64_t rows, labels; /* of the test part; labels per sample, 0: there is no accuracy */
    struct gossip_evaluation mine;  /* the one that this node is in, */
    uint64_t untold;                /* its shards of which no other node knows; */
    struct gossip_evaluation ahead; /* and one that others are in already */
};

struct gossip_means {
    uint64_t rows;         /* that they are of; 0: of none */
    double loss, accuracy; /* accuracy -1: there is none */
};

void gossip_scores_init(struct gossip_scores *scores, unsigned shards, uint64_t rows,
                        uint64_t labels);
void gossip_scores_fini(struct gossip_scores *scores);
/* This node begins with the evaluation of this name. What was heard of it before counts. */
void gossip_scores_begin(struct gossip_scores *scores, uint64_t name);
/* This node has evaluated a shard. */
void gossip_scores_add(struct gossip_scores *scores, unsigned shard,
                       const struct nn_result *result);
/* Another one has. What cannot be is ignored. */
void gossip_scores_hear(struct gossip_scores *scores, const struct proto_score *score);
/* The next one to tell; false: there is none. */
bool gossip_scores_tell(struct gossip_scores *scores, struct proto_score *out);
/* Shards of the present evaluation that are known. */
uint64_t gossip_scores_covered(struct gossip_scores *scores);
/* Of the present evaluation. The sums run in the order of the shards: who knows all of them gets the same bits. */
struct gossip_means gossip_scores_means(struct gossip_scores *scores);

#endif

/* scores.h - what evaluations of a mesh without common steps come to (gossip, and servers that do not wait).
 *
 * The test part is divided into the job's shards. Whoever is free takes a shard that nobody has told of, and tells the
 * others what it came to; the first one to tell of a shard counts. Two kinds of evaluation have names of their own:
 *
 *     the n-th on the way     n: each node evaluates the parameters that it had at the end of an epoch
 *     of the result           its hash, with the highest bit: all have one model
 *
 * So the mean over all shards is on the way that over the parameters of the nodes, each on its share: of gossip their
 * replicas, of servers what they had read. In the end it is that of the model. All functions may be called from any
 * thread. */
#ifndef NODE_SCORES_H
#define NODE_SCORES_H

#include <pthread.h>

#include "compress/exact.h"
#include "nn/nn.h"
#include "proto/proto.h"

#define SCORES_RESULT (UINT64_C(1) << 63)

struct scores_of {
    uint64_t name;    /* 0: none */
    uint64_t covered; /* shards */
    struct proto_score of[EXACT_SHARDS_MAX];
};

struct scores {
    pthread_mutex_t lock;
    unsigned shards;
    uint64_t rows, labels;  /* of the test part; labels per sample, 0: there is no accuracy */
    struct scores_of mine;  /* the one that this node is in, */
    uint64_t untold;        /* its shards of which no other node knows; */
    struct scores_of ahead; /* and one that others are in already */
};

struct score_means {
    uint64_t rows;         /* that they are of; 0: of none */
    double loss, accuracy; /* accuracy -1: there is none */
};

void scores_init(struct scores *scores, unsigned shards, uint64_t rows, uint64_t labels);
void scores_fini(struct scores *scores);
/* This node begins with the evaluation of this name. What was heard of it before counts. */
void scores_begin(struct scores *scores, uint64_t name);
/* This node has evaluated a shard. */
void scores_add(struct scores *scores, unsigned shard, const struct nn_result *result);
/* Another one has. What cannot be is ignored. */
void scores_hear(struct scores *scores, const struct proto_score *score);
/* The next one to tell; false: there is none. */
bool scores_tell(struct scores *scores, struct proto_score *out);
/* Shards of the present evaluation that are known. */
uint64_t scores_covered(struct scores *scores);
/* Of the present evaluation. The sums run in the order of the shards: who knows all of them gets the same bits. */
struct score_means scores_means(struct scores *scores);

#endif

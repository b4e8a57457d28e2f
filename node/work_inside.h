/* work_inside.h - what the files that compute shards share: lanes.c shares out shards over lanes and lanes over threads,
 * work.c trains, work_evaluate.c evaluates.
 *
 * A lane is what one worker pushes through the network at a time: a pass, the rows in it, its result.
 * In exact mode a lane is one shard, and when there are fewer lanes, shards come in waves; otherwise all shards of a
 * worker share a lane. When there are fewer lanes than threads, all threads work on one lane after the other, on pieces
 * of each layer (nn_team), with the same bits. */
#ifndef NODE_WORK_INSIDE_H
#define NODE_WORK_INSIDE_H

#include <pthread.h>

#include "node/buckets.h"
#include "node/walk.h"
#include "node/work.h"

struct lane {
    struct work *work;
    struct nn_pass *pass;
    uint32_t *index; /* [count_max] samples of the round */
    size_t count;    /* of them */
    uint64_t shards; /* of this compute */
    struct nn_context context;
    struct nn_result result;
    size_t rows;          /* in the pass */
    struct walk walk;     /* with local steps */
    pthread_mutex_t lock; /* of the next two, when a team computes the lane */
    int32_t bad;
    uint64_t check; /* of what was added to own */
};

struct work {
    struct work_setup setup;
    size_t rows_max;         /* of a lane */
    size_t count_max;        /* of a lane in a round */
    bool walks;              /* several local steps to a round */
    size_t lane_count, used; /* allocated; in use by this compute */
    struct lane *lane;
    struct nn_team team; /* all threads, on one lane at a time, when there are fewer lanes */
    struct nn_result *shard_result; /* [shards], evaluation */
    struct buckets cut;             /* of the vector of a round */
    size_t present;                 /* section being computed */
    pthread_mutex_t *stripe;
    size_t stripe_count;
    bool probing; /* it is somebody else's shard that is computed */
    /* Of the present round: */
    const struct state *state;
    const float *params;
    int32_t *own;
    float scale;
    uint64_t step; /* of the round, from 0, when it has several */
    /* Of the round whose forward pass is under way: */
    bool begun;
    uint64_t begun_round, begun_shards;
    size_t layer, layer_end; /* passed; to be passed now */
};

int lanes_init(struct work *work); /* 0 or -ENOMEM */
void lanes_fini(struct work *work);
/* Share out the set bits of `shards` over the lanes, as evenly as whole shards allow. */
void lanes_assign(struct work *work, uint64_t shards);
/* Each lane by a thread of its own; or, when that leaves threads without a lane, each by all of them. */
void lanes_run(struct work *work, void (*run)(void *ctx, size_t lane));

/* The samples of the lane's shards of a step of the present round, in order, behind those of the steps before. */
void lane_fill(struct lane *lane, uint64_t step);
/* Through layers [layer, end). */
void lane_forward(struct lane *lane, const float *params, size_t layer, size_t end);

/* The first of `rows` rows that is the shard's. */
uint64_t work_shard_first(const struct work *work, uint64_t rows, unsigned shard);
/* Of a shard in all steps of the round. */
size_t work_shard_rows(const struct work *work, unsigned shard);

/* The test part of `shards`, added to the tail. */
void work_evaluate_shards(struct work *work, uint64_t shards, int32_t *tail);

#endif

/* stages.h - where a model may be divided into the stages of a pipeline, and what the parts cost.
 *
 *     layers    first .......... | .... | ................ last, loss
 *     stages    0                  1      2
 *     cuts                     [1]    [0]
 *     cost           [2]          [1]           [0]
 *
 * Cuts are those of nn_cut_below: at most one between two layers with parameters, so each has a bucket of its own, the
 * first one below it. Of more than PROTO_STAGES_MAX - 1, so many are legal, spread evenly. Cuts, and the costs of the
 * layers between them, are counted like buckets, from the output to the input; stages from the input to the output. */
#ifndef NODE_STAGES_H
#define NODE_STAGES_H

#include "node/train/buckets.h"
#include "node/train/state.h"

enum { STAGES_CUTS_MAX = NN_LAYERS_MAX };

struct stages_cut {
    size_t layer;  /* the stage above begins with it */
    size_t bucket; /* the first one below the cut */
    size_t words;  /* of 32 bits, per row that crosses it */
};

struct stages {
    size_t cut_count; /* the legal ones, below PROTO_STAGES_MAX */
    struct stages_cut cut[STAGES_CUTS_MAX];
    double cost[STAGES_CUTS_MAX + 1]; /* flops per row of a training step */
    bool tied; /* the first and the last stage share a weight: the same members compute both */
};

/* `buckets` are those of a job with stages. */
void stages_of(struct stages *out, const struct nn_model *model, const struct buckets *buckets);

/* Groups of nodes for k stages: as many, but that the first and the last stage are of one group if tied. */
unsigned stages_groups(const struct stages *stages, unsigned k);

/* The segments, from the input on: what lies between two legal cuts. They are fewer than PROTO_STAGES_MAX + 1. */
void stages_segments(const struct stages *stages, const struct nn_model *model,
                     struct state_stages *out);

#endif

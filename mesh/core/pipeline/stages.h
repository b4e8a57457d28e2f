/* stages.h - how a model is cut into stages, and what the trainer is asked for then: pieces of a round. For core.h. */
#ifndef MESH_STAGES_H
#define MESH_STAGES_H

#include "mesh/core/pipeline/schedule.h"

/* Where a model may be cut into stages: a row gives so many words of 32 bits to the layers above. */
struct core_cut {
    uint16_t bucket; /* the first one of the layers below the cut; 1.. */
    uint32_t words;  /* 1.. */
};

/* Contiguous bytes of the state. */
struct core_span {
    size_t offset, size; /* bytes of the state */
    int segment;         /* it belongs to this one; CORE_ALL_HOLD: everybody has it */
};
enum { CORE_ALL_HOLD = -1 };

/* How plans of this node cut the model. Between two legal cuts lies a *segment*; segments are numbered from the input
 * on. What a node holds is a bitmap of them: it has their part of the state, and sums their gradients. All tables are
 * borrowed. With count above 1, first_bucket of core_state is always 0 or the last bucket. */
struct core_stages {
    unsigned
        count; /* of groups of members, if there are so many members; 0 or 1: no plan has cuts */
    enum schedule_rule schedule;
    const struct core_cut *cuts; /* [cut_count]: the legal ones, in the order of the buckets */
    size_t cut_count;
    /* [cut_count + 1]: about the time of the layers between two of these, in the same order, in any unit */
    const uint64_t *cost;
    bool
        tied; /* the first and the last layers share a weight: one member computes both for a shard */
    uint64_t item_words; /* of the largest item */
    /* [cut_count + 1]: memory that a node needs to hold each segment, in any unit; NULL: any node holds all. */
    const uint64_t *bytes;
    uint64_t room; /* for all that this node holds, in the same unit */
    /* The trainer holds nothing yet and waits for `hold`. Else it says what it holds, in the first core_on_applied. */
    bool choose;
    /* Hold as much as there is room for, beside what is computed here, so that a death costs nothing. Else the segments
     * of one of `count` equal stages. */
    bool mirror;
    /* Of a state, by rising offset, together all of it; 0: the whole is one, and everybody has it. */
    const struct core_span *spans;
    size_t span_count;
    uint64_t shard_rows; /* of a step: what items take on lines is judged by these */
};

/* A round under a plan with cuts is computed in pieces. What a stage gives to its neighbours are *items*, in memory
 * that core and trainer share: the item of (stage, shard) is what the stage gets, its input, or with `gradient` the
 * gradient of what it gives. Each is a pure function of state, cut and shard. A piece reads and writes, for its shard:
 *
 *     FORWARD            reads the input of its stage (stage 0: the data), writes that of the next stage (the last: the
 *                        loss)
 *     INPUT, BACKWARD    reads the gradient of its stage (the last: of the loss), writes that of the stage before
 *     WEIGHT             nothing
 *     TAIL               nothing. All other pieces of this node are computed: write the last bucket of own; again under
 *                        another plan
 *
 * Gradients of weights are added to own: in INPUT, WEIGHT and BACKWARD. An evaluation, in which only the last bucket is
 * exchanged, has FORWARD and TAIL alone; there the last stage adds in FORWARD what the last bucket is to have. */
struct core_piece {
    enum schedule_kind kind;
    unsigned stage, shard;
    uint64_t round;
    /* The first one that adds to own for this stage: set its buckets to zero first, and forget what it has counted for
     * the last bucket. */
    bool fresh;
    uint64_t held; /* shards of the stage whose activations are needed: others may be dropped */
    const struct proto_plan *plan; /* the present one, during the call; */
    unsigned rank;                 /* this node's in it */
};

/* Rows of a shard, of so many in a round. */
static inline uint64_t
core_shard_rows(uint64_t rows, unsigned shards, unsigned shard)
{
    return rows * (shard + 1) / shards - rows * shard / shards;
}

/* Where an item is, in units of item_words; the items of all stages are CORE_ITEMS(stages, shards). */
#define CORE_ITEMS(stages, shards) ((size_t)2 * (stages) * (shards))
static inline size_t
core_item_at(unsigned shards, unsigned stage, unsigned shard, bool gradient)
{
    return ((size_t)stage * 2 + gradient) * shards + shard;
}

/* What this node does of the running round, computed in pieces: so far; when it is committed, all. */
struct core_pipeline {
    unsigned stages;   /* of the plan; 0: the round is not computed in pieces */
    uint64_t computes; /* by this node, bitmap */
    uint64_t sent;     /* bytes of items */
};

/* Who computes which stages of the present plan, and who holds them: for people. */
struct core_division {
    uint64_t plan;          /* its hash; 0: there is none */
    unsigned stages, count; /* of these, and of members */
    struct core_holder {
        char who[PROTO_WHO_MAX];  /* its name; more of it if several members have that name */
        uint64_t holds, computes; /* bitmaps */
    } of[PROTO_PEERS_MAX];
};

#endif

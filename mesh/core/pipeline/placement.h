/* placement.h - where a model is cut into stages, and which peers compute which stage.
 *
 *     parts    0 1 2 3 | 4 5 | 6 7 8     a part lies between two legal cuts
 *     stages       0      1      2
 *     peers       a, b    c    d, e, f   the peers of a stage divide the shards of a round, by their speed
 *
 * How it is found, for each number of stages:
 *
 *  1. Dynamic programming (after Narayanan et al., PipeDream, SOSP 2019, section 3.1, which is for equal peers): with
 *     peers in an order, how many parts can the first j stages of the first x peers have, if no stage takes longer than a
 *     limit and no peer is over its memory? The least limit with which all parts have a stage is found by bisection.
 *  2. Cuts and peers are moved at random; what does not make the step longer is kept. steptime.h is the judge.
 *
 * More than PLACEMENT_MERGED parts are merged first, the smallest neighbours each time. Of up to 6 peers and 8 parts the
 * step is within 10 % of the best placement of all (test_placement). With tied weights the same peers have the first and
 * the last stage.
 *
 * A peer is never over its memory: it holds parameters x states, and the activations of as many micro-batches as
 * schedule_room says. Pure and deterministic; no allocation. */
#ifndef MESH_PLACEMENT_H
#define MESH_PLACEMENT_H

#include "mesh/core/pipeline/steptime.h"

enum {
    PLACEMENT_PARTS_MAX = 256,
    PLACEMENT_MERGED = 32,
    PLACEMENT_SPEED = 1000,   /* of a peer on which a part takes the times that its record says */
    PLACEMENT_BYTES_LOG = 40, /* no part has more than 2^40 bytes of one kind */
    PLACEMENT_STATES_MAX = 16
};

struct placement_part {
    double forward_us, input_us, weight_us; /* of a shard, at PLACEMENT_SPEED */
    uint64_t param_bytes;
    uint64_t held_bytes; /* activations of a shard, until the gradient of its weights is there */
    uint64_t cut_bytes;  /* of a shard: what the part gives to the next one, if a cut follows */
};

struct placement_peer {
    uint32_t speed;  /* 0: it computes nothing */
    uint32_t line;   /* bytes per second in each direction; 0: they cost no time */
    uint64_t memory; /* bytes */
};

struct placement_job {
    enum schedule_rule rule;
    bool tied; /* the first and the last part share a weight */
    unsigned
        stages; /* fewer if there are fewer parts or peers, or if so many do not fit; 0: the fastest */
    unsigned shards; /* 1..PROTO_SHARDS_MAX */
    unsigned states; /* a parameter byte is held so many times, 1..PLACEMENT_STATES_MAX */
    uint32_t hop_us; /* a small message from peer to peer */
    size_t part_count, peer_count; /* 1..PLACEMENT_PARTS_MAX, 1..PROTO_PEERS_MAX */
    const struct placement_part *parts;
    const struct placement_peer *peers;
};

struct placement {
    unsigned stages;
    uint16_t first[PROTO_STAGES_MAX + 1]; /* stage s has parts first[s] to first[s+1]-1 */
    uint8_t owner[PROTO_STAGES_MAX][PROTO_SHARDS_MAX]; /* the peer that computes a shard */
    uint64_t step_us;                                  /* predicted */
};

/* The tables of a step, as steptime.h wants them. */
struct placement_step {
    struct steptime step; /* points to the tables below, and to the placement */
    struct steptime_times times[PROTO_PEERS_MAX * PROTO_STAGES_MAX];
    struct steptime_link links[PROTO_PEERS_MAX * PROTO_PEERS_MAX];
    uint64_t bytes[PROTO_STAGES_MAX], sums_us[PROTO_STAGES_MAX];
};

/* Of the caller, about 600 KiB. */
struct placement_room {
    struct placement_part merged[PLACEMENT_MERGED];
    struct placement made;
    struct placement_step tables;
    struct steptime_room steptime;
};

/* False: nothing fits. */
bool placement_find(const struct placement_job *job, struct placement_room *room,
                    struct placement *out);
/* *out refers to itself and to the placement: it must not be copied. */
void placement_tables(const struct placement_job *job, const struct placement *placement,
                      struct placement_step *out);

#endif

/* placement.h - where a model is cut into stages, and which peers compute which stage.
 *
 *     parts    0 1 2 3 | 4 5 | 6 7 8     a part lies between two legal cuts
 *     stages       0      1      2
 *     peers       a, b    c    d, e, f   the peers of a stage, a group, divide the shards of a round, by their speed
 *
 * A peer computes a stage only if it holds all its parts. So many groups as are wanted, or as many as there can be;
 * each has one stage, but with tied weights the first group has the last stage, too. How that is found:
 *
 *  1. Dynamic programming (after Narayanan et al., PipeDream, SOSP 2019, section 3.1, which is for equal peers): with
 *     peers in an order, or for all sets of few peers, in what time can the first j stages compute the first x parts?
 *  2. Cuts and peers are moved at random; what does not make the step longer is kept. steptime.h is the judge.
 *  3. If there is no such division: each stage goes to one peer, which may have several of them. From the input on, a
 *     stage is as long as somebody holds all of it, so no other cover has fewer stages. There may be more of them than
 *     groups are wanted.
 *
 * Of up to 6 peers and 8 parts the step is within 10 % of the best one in 499 of 500 random cases, and within 14 % in
 * all of 5,000 (test_placement 5000). Memory is a matter of who holds what.
 * Pure and deterministic, no allocation; a few milliseconds at most (test_placement counts the work). */
#ifndef MESH_PLACEMENT_H
#define MESH_PLACEMENT_H

#include "mesh/core/pipeline/steptime.h"

enum {
    PLACEMENT_SPEED = 1000000
}; /* of a peer on which a part takes the times that its record says */

struct placement_part {
    double forward_us, input_us, weight_us; /* of a shard, at PLACEMENT_SPEED */
    uint64_t param_bytes;
    uint64_t cut_bytes; /* of a shard: what the part gives to the next one, if a cut follows */
};

struct placement_peer {
    uint32_t speed; /* 1.. */
    uint32_t line;  /* bytes per second in each direction; 0: they cost no time */
    uint64_t holds; /* parts, bitmap */
    uint64_t have;  /* shards that it has computed, and keeps if it can */
};

struct placement_job {
    enum schedule_rule rule;
    bool tied;       /* the first and the last part share a weight: who holds one holds both */
    unsigned groups; /* wanted, 1.. */
    unsigned shards; /* 1..PROTO_SHARDS_MAX */
    uint32_t hop_us; /* a small message from peer to peer */
    size_t part_count, peer_count; /* 1..PROTO_STAGES_MAX, 1..PROTO_PEERS_MAX */
    const struct placement_part *parts;
    const struct placement_peer *peers;
};

struct placement {
    unsigned stages;
    uint8_t first[PROTO_STAGES_MAX + 1]; /* stage s has parts first[s] to first[s+1]-1 */
    uint64_t computes[PROTO_PEERS_MAX];  /* stages of a peer, bitmap; 0: it computes nothing */
    uint64_t shards[PROTO_PEERS_MAX];    /* that it computes through these */
};

/* The tables of a step, as steptime.h wants them. */
struct placement_step {
    struct steptime step; /* points to the tables below */
    uint8_t owner[PROTO_STAGES_MAX][PROTO_SHARDS_MAX];
    struct steptime_times times[PROTO_PEERS_MAX * PROTO_STAGES_MAX];
    struct steptime_link links[PROTO_PEERS_MAX * PROTO_PEERS_MAX];
    uint64_t bytes[PROTO_STAGES_MAX], sums_us[PROTO_STAGES_MAX];
};

enum { PLACEMENT_SETS = PROTO_PEERS_MAX + 1, PLACEMENT_ENDS = PROTO_STAGES_MAX + 1 };

/* Of some groups: the time until all have computed, and what a shard takes through them. */
struct placement_cell {
    float us, path_us;
};

enum { PLACEMENT_KNOWN = 1024 };
struct placement_known {
    uint64_t key, us;
};

/* Of the caller, about 1.5 MiB, of which a small job touches little. */
struct placement_room {
    struct placement_known known[PLACEMENT_KNOWN];
    struct placement made;
    struct placement_step tables;
    struct steptime_room steptime;
    struct placement_cell table[PLACEMENT_ENDS][PLACEMENT_SETS][PLACEMENT_ENDS];
};

/* False: nobody holds some part. */
bool placement_find(const struct placement_job *job, struct placement_room *room,
                    struct placement *out);
/* These peers, a bitmap, compute these stages, and divide the shards. */
void placement_group(const struct placement_job *job, uint64_t peers, uint64_t computes,
                     struct placement *out);
/* *out refers to itself: it must not be copied. */
void placement_tables(const struct placement_job *job, const struct placement *placement,
                      struct placement_step *out);
/* Microseconds of a step. */
uint64_t placement_us(const struct placement_job *job, const struct placement *placement,
                      struct placement_room *room);

#endif

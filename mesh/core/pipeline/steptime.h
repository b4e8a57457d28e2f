/* steptime.h - one step of a pipeline, computed event by event: how long it takes, and what each member does when.
 *
 * Every member computes in the order of schedule.h, the same code that orders real pieces. What a piece gives goes to
 * the holder of its shard in the next stage, or in the one before. A line carries one transfer after the other in each
 * direction, as they are asked for: a transfer begins when the sender's line out and the receiver's line in are free,
 * and arrives bytes / rate and the latency later. A stage ends when all its pieces are computed, and its sums with
 * what is said to follow. Who sums several stages sums one after the other, the last stage first. All times are whole
 * microseconds from the start of the step.
 *
 *     struct steptime_room *room;                 about 400 KiB, the caller's
 *     steptime_run(&step, room, pieces, &result);
 *
 * Pure, deterministic, no allocation. */
#ifndef MESH_STEPTIME_H
#define MESH_STEPTIME_H

#include <stddef.h>

#include "mesh/core/pipeline/schedule.h"

/* What a shard of a stage takes at a member. */
struct steptime_times {
    uint32_t forward_us, input_us, weight_us; /* a whole backward: input_us + weight_us */
};

struct steptime_link {
    uint32_t latency_us;
    uint32_t rate; /* bytes per second; 0: bytes cost no time */
};

/* All tables are borrowed. */
struct steptime {
    enum schedule_rule rule;
    unsigned stages, shards, members;
    const uint8_t (*owner)[PROTO_SHARDS_MAX]; /* [stages]: which member computes a shard */
    const struct steptime_times *times;       /* [members][stages] */
    const struct steptime_link *links; /* [members][members]: from, to; NULL: none costs time */
    const uint64_t *bytes;   /* [stages]: a shard to the next stage, and as many back; NULL: none */
    const uint64_t *sums_us; /* [stages]: after the last piece of the stage; NULL: nothing */
    const uint64_t
        *holders; /* [stages]: bitmap of the members that sum it; NULL: no two stages have one */
};

struct steptime_piece {
    unsigned member;
    struct schedule_piece piece;
    uint64_t begin_us, end_us;
};

struct steptime_result {
    uint64_t step_us;
    uint64_t pieces_us; /* until the last piece is computed */
    double idle;        /* share of pieces_us in which a member computes nothing, mean of all */
    uint64_t busy_us[PROTO_PEERS_MAX];
    uint64_t sent[PROTO_PEERS_MAX]; /* bytes */
    size_t pieces;
};

enum { STEPTIME_PIECES_MAX = 3 * PROTO_STAGES_MAX * PROTO_SHARDS_MAX };

/* On its way to its owner. */
struct steptime_transfer {
    uint64_t at_us;
    uint8_t stage, shard;
    bool gradient;
};

struct steptime_room {
    uint64_t now_us;
    uint64_t due; /* members that may begin a piece: one has ended, or something came; bitmap */
    struct schedule schedule[PROTO_PEERS_MAX];
    uint64_t end_us[PROTO_PEERS_MAX];                         /* of the piece under way */
    uint64_t computed_us[PROTO_STAGES_MAX];                   /* end of the last piece so far */
    uint64_t out_us[PROTO_PEERS_MAX], in_us[PROTO_PEERS_MAX]; /* when the line is free */
    struct steptime_transfer transfers[2 * PROTO_STAGES_MAX * PROTO_SHARDS_MAX];
    size_t transfer_count;
};

/* `pieces`: NULL, or an array of result->pieces elements, at most STEPTIME_PIECES_MAX, in the order of their begin. */
void steptime_run(const struct steptime *step, struct steptime_room *room,
                  struct steptime_piece *pieces, struct steptime_result *result);

#endif

/* timeline.h - draws a step of a pipeline as SVG: one row per node, one box per piece, coloured by its kind, with the
 * number of its shard, above an axis in milliseconds. What is between the pieces of a row is waiting, what is behind
 * them the sum of all nodes. At the end of a row is the share of its time that is no piece, and beside it what
 * (k-1)/(m+k-1) says (metrics.h). */
#ifndef NODE_TIMELINE_H
#define NODE_TIMELINE_H

#include "mesh/core/pipeline/steptime.h"
#include "proto/why.h"

enum { TIMELINE_NAME = 64, TIMELINE_LINE = 200 };

struct timeline_row {
    char name[TIMELINE_NAME];
    uint64_t begin_us, end_us; /* the step on this node */
};

struct timeline {
    char title[TIMELINE_LINE], note[TIMELINE_LINE]; /* above and below; "": none */
    unsigned stages;
    unsigned nodes; /* 1..PROTO_PEERS_MAX */
    struct timeline_row rows[PROTO_PEERS_MAX];
    uint64_t step_us; /* no row ends later */
    const struct steptime_piece
        *pieces; /* those of a row in their order, within its times; borrowed */
    size_t piece_count;
};

/* What a row says at its end. */
struct timeline_idle {
    uint64_t busy_us, done_us; /* with pieces; when the last one ends */
    uint64_t computes;         /* stages, bitmap */
    double idle, formula;
};
struct timeline_idle timeline_idle(const struct timeline *timeline, unsigned row);

/* Returns 0, or a negative errno with one line in `why`, which names the file. */
int timeline_write(const struct timeline *timeline, const char *path, struct why *why);

#endif

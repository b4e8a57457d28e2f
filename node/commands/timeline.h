/* timeline.h - draws a step of a pipeline as SVG: one row per node, one box per piece, coloured by its kind, with the number of
 * its shard, above an axis in milliseconds. */
#ifndef NODE_TIMELINE_H
#define NODE_TIMELINE_H

#include "mesh/core/pipeline/steptime.h"
#include "proto/why.h"

struct timeline {
    unsigned nodes;
    uint64_t step_us;                    /* until all is summed; no piece ends later */
    const struct steptime_piece *pieces; /* borrowed */
    size_t piece_count;
};

/* Returns 0, or a negative errno with one line in `why`, which names the file. */
int timeline_write(const struct timeline *timeline, const char *path, struct why *why);

#endif

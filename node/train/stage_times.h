/* stage_times.h - what the parts of a model between two cuts take on this machine, measured: for placement. Parts are
 * counted like the costs in stages.h, from the output to the input. */
#ifndef NODE_STAGE_TIMES_H
#define NODE_STAGE_TIMES_H

#include "node/train/stages.h"
#include "node/train/work.h"

/* For one shard, with all threads. */
struct stage_times {
    double forward_s, input_s, weight_s; /* as SCHEDULE_FORWARD, _INPUT and _WEIGHT (schedule.h) */
};

/* Computes a shard of the state's next round, a training step, several times, part by part, each on numbers like those
 * that cross cuts; the least time of each kind counts, as of the whole step in estimate.c, to which it is compared.
 * *piece is what each piece takes beside its layers: a stage of several parts takes their sum, less this for each part
 * but one. out[stages->cut_count + 1]; own is a vector as in work_round, whose values are lost. Returns 0 or
 * -ENOMEM. */
int stage_times_measure(struct stage_times *out, struct stage_times *piece,
                        const struct stages *stages, struct work *work, const struct state *state,
                        int32_t *own);

#endif

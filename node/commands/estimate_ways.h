/* estimate_ways.h - for `meshnode check --peers N`: what a step would take if the job had stages, or local steps, as
 * far as its other keys allow that.
 *
 * It computes a few shards in each way. Local steps of a round are measured two at a time; with more of them, they take
 * as long each. */
#ifndef NODE_ESTIMATE_WAYS_H
#define NODE_ESTIMATE_WAYS_H

#include "node/commands/estimate_stages.h"
#include "node/job/config.h"
#include "node/train/job.h"
#include "proto/why.h"

struct estimate_ways {
    struct config staged;           /* the job with stages; the estimate borrows it, */
    struct estimate_stages *stages; /* NULL: it cannot have any */
    double staged_apply_s;
    double
        local_s; /* of a local step of one of config->mesh.peers nodes; 0: it cannot have any, or has some */
};

/* `share`: of the bytes of sums, those that travel. The job has the grids of config's own codec again in the end.
 * Returns 0, or a negative errno with one line. Call estimate_ways_fini in both cases. */
int estimate_ways(struct estimate_ways *ways, const struct config *config, struct job *job,
                  unsigned lanes, double share, struct why *why);
void estimate_ways_fini(struct estimate_ways *ways);

#endif

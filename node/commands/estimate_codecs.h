/* estimate_codecs.h - for `meshnode check --peers N`: what a node would send in a step with each codec of
 * mesh.compress, among 2, 4 and 8 nodes, and the memory that it would need.
 *
 * It computes a few steps of the job with each of them. The bytes are those of a ring: a half of what travels is on
 * its way to the total. Codecs that the job cannot have are left out. */
#ifndef NODE_ESTIMATE_CODECS_H
#define NODE_ESTIMATE_CODECS_H

#include "compress/codec.h"
#include "node/train/job.h"
#include "proto/why.h"

/* Seconds of a round: to compute all shards, and those of one of config->mesh.peers nodes; and to apply the sum. The
 * bytes of the sum, as share of those that a ring sends in 32 bits. Not tried: all_s is 0. */
struct estimate_codec {
    double all_s, few_s, apply_s, share;
};

/* Prints a table for people. A step takes `step_s`: if that is long, only codecs that auto may take are tried, in few
 * steps. `lanes`: shards computed at a time. The job has the grids of config's own codec again in the end. Returns 0,
 * or a negative errno with one line. */
int estimate_codecs(const struct config *config, struct job *job, unsigned lanes, double step_s,
                    struct estimate_codec of[CODECS], struct why *why);

#endif

/* estimate.h - for `meshnode check --peers N`: how long a step takes with 1..N nodes like this machine, and how
 * many are worth it.
 *
 * It computes a few steps of the job here, and asks mesh/core/group/cost.h what they take together on lines of 10
 * Mbit/s, 100 Mbit/s and 1 Gbit/s, and on those of a mesh that runs here, as its nodes measured them. If the job has
 * stages, it says more of the last of these (estimate_stages.h). What each codec would send and need comes last
 * (estimate_codecs.h). */
#ifndef NODE_ESTIMATE_H
#define NODE_ESTIMATE_H

#include "node/train/job.h"
#include "node/train/memory.h"
#include "proto/why.h"

/* Prints a table for people; nothing for one node, and where nodes do not wait for the sum of a step. `timeline`: NULL,
 * or the file into which the step of a job with stages is drawn. Returns 0, or a negative errno with a line in
 * `why`. */
int estimate_print(const struct config *config, struct job *job, const struct memory *memory,
                   const char *timeline, struct why *why);

#endif

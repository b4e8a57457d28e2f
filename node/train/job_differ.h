/* job_differ.h - how the job of another node differs from ours, in words. */
#ifndef NODE_JOB_DIFFER_H
#define NODE_JOB_DIFFER_H

#include "nn/data.h"
#include "node/job/config.h"

/* `theirs` is untrusted. Writes "run.seed is 2 there, 1 here": the first key that differs, or what differs in the data;
 * nothing if it is no job. `data`: the keys are the same. */
void job_differ(const struct config *config, const struct data_set *here, const char *theirs,
                size_t size, char *out, size_t out_size, bool *data);

#endif

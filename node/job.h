/* job.h - what a config describes, opened: data, model, exponent blocks. */
#ifndef NODE_JOB_H
#define NODE_JOB_H

#include "compress/exact.h"
#include "node/config.h"

struct job {
    struct data_set *data;
    struct nn_model *model;
    struct exact *exact;
    float *average;     /* per exponent block: struct state_job */
    const char *kernel; /* what computes products, as nn_init says */
};

/* Returns 0, or a negative errno with one line in `why`. job_close also after an error. */
int job_open(struct job *job, const struct config *config, char *why, size_t why_size);
void job_close(struct job *job);

#endif

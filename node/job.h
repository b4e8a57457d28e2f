/* job.h - what a config describes, opened: data, model, exponent blocks; and the weights that training starts from. */
#ifndef NODE_JOB_H
#define NODE_JOB_H

#include "compress/exact.h"
#include "node/config.h"
#include "node/state.h"

struct job {
    struct data_set *data;
    struct nn_model *model;
    struct exact *exact;
    float *average;     /* per exponent block: struct state_job */
    float *from;        /* [params] the weights in model.from; NULL without */
    uint64_t from_hash; /* of them; 0 without */
    const char *kernel; /* what computes products, as nn_init says */
};

/* Returns 0, or a negative errno with one line in `why`. job_close also after an error. */
int job_open(struct job *job, const struct config *config, char *why, size_t why_size);
void job_close(struct job *job);
/* The model alone, without data: one that reads data.context bytes and gives the odds of the byte behind each. */
int job_open_bytes(struct job *job, const struct config *config, char *why, size_t why_size);

/* What a job is trained from: read model.from, where there is one. Same results. */
int job_start(struct job *job, const struct config *config, char *why, size_t why_size);
/* params[nn_param_count] before the first step: those of model.from or of the seed. */
void job_params(const struct job *job, const struct config *config, float *params);
/* What is applied to the sum of a round: the optimiser; with train.local_steps above 1, in which it is that of the
 * steps within a shard, block-wise model-update filtering of the mean difference (BMUF; Chen and Huo, ICASSP 2016).
 * With G the sum, v = block_momentum * v + G, and the parameters p -= block_rate * v; the paper's Nesterov variant, seen from
 * where blocks begin, is p -= block_rate * (G + block_momentum * v). That is SGD, with G in the place of the gradient. */
struct optim_spec job_outer(const struct config *config);
/* What F needs to know; borrows from the job. */
struct state_job job_rules(const struct job *job, const struct config *config);
/* Equal on nodes that may train together. After job_start. */
uint64_t job_hash(const struct job *job, const struct config *config);

#endif

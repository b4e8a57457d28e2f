/* job.h - opens what a config describes: data, model, exponent blocks, and the weights that training starts from. */
#ifndef NODE_JOB_H
#define NODE_JOB_H

#include "compress/exact.h"
#include "node/job/config_parts.h"
#include "node/train/stages.h"
#include "node/train/state.h"
#include "node/train/work.h"
#include "proto/why.h"

struct job {
    struct data_set *data;
    struct nn_model *model;
    struct exact *exact;
    /* The same blocks, in the grids of mesh.compress: the first one; with auto those of each codec that may be chosen.
     * NULL: without */
    struct codec_grids codec[CODECS];
    bool memory, bases;            /* has one of them a memory, does one send products? */
    size_t moments;                /* vectors that each shard keeps within a span: config_moments */
    unsigned ledgers;              /* one per segment of the model; 1 without mesh.stages */
    float *average;                /* one value per exponent block: see struct state_job */
    struct safetensors_file *from; /* model.from, open; NULL: there is none */
    struct checkpoint_file *start; /* train.from, open; NULL: there is none */
    uint64_t begun;                /* steps that were done before the first one: in train.from */
    uint64_t begun_skipped;        /* of these, in which a gradient was not finite */
    uint64_t from_hash;            /* hash of these weights or this state; 0 if there are none */
    const char *kernel;            /* what computes products, as nn_init returned it */
    /* train.past: what the steps of each earlier part were trained with, and the hash of the job at that time */
    struct state_rules past[CONFIG_PARTS_MAX];
    uint64_t past_hash[CONFIG_PARTS_MAX];
    size_t past_count;
};

/* Returns 0, or a negative errno with one line in `why`. Call job_close after an error, too. */
int job_open(struct job *job, const struct config *config, struct why *why);
/* The same for a model that learned from other data: the samples and classes of the data are made as `like` says
 * (data.h). NULL: as their own. There may be fewer samples than a batch has. `scaled`: the numbers of the data are
 * scaled already. */
int job_open_like(struct job *job, const struct config *config, const struct data_scaling *like,
                  bool scaled, struct why *why);
void job_close(struct job *job);
/* Opens only the model and its exponent blocks, without data, for samples of this shape. */
int job_open_input(struct job *job, const struct config *config, const struct nn_shape *shape,
                   struct why *why);
/* Opens only the model, without data. It must be one that reads data.context bytes and gives the probabilities of
 * the next byte at each position. */
int job_open_bytes(struct job *job, const struct config *config, struct why *why);

/* Sets that of mesh.compress, with what is set of it. False: there is none. Of auto it means nothing. */
bool job_codec(const struct config *config, struct codec *codec);
/* Makes the grids of mesh.compress anew (none with gossip, which sends no gradients), after a change of it. Returns 0,
 * or a negative errno with `why`: -EINVAL if the model is too small for it. */
int job_code(struct job *job, const struct config *config, struct why *why);
/* Reads model.from or train.from, if the job has it: what training starts from. Reads train.past. Returns as
 * job_open. */
int job_start(struct job *job, const struct config *config, struct why *why);
/* Reads train.past again, after a change. */
int job_parts(struct job *job, const struct config *config, struct why *why);
/* Sets what a state holds as before the first round: what is in train.from, or the weights of model.from or of the
 * seed. No more than that is read. Returns 0, or a negative errno with `why` if the file cannot be read any more. */
int job_state(const struct job *job, const struct config *config, struct state *state,
              struct why *why);
/* Vectors of all that a shard keeps within a span; 0: there are no spans. */
static inline size_t
job_keeps(const struct job *job)
{
    return job->memory + job->moments;
}
/* What F needs to know about the job; borrows from it. */
struct state_job job_rules(const struct job *job, const struct config *config);
/* Where its model may be cut into stages. Returns 0 or -ENOMEM. */
int job_stages(const struct job *job, const struct config *config, struct stages *out);
/* How its shards are computed, without a pool; borrows from the job. */
struct work_setup job_work(const struct job *job, const struct config *config);
/* Equal on nodes that may train together. Call it after job_start. */
uint64_t job_hash(const struct job *job, const struct config *config);

#endif

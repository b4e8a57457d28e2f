/* bench.h - a few rounds of a job on this machine alone, to measure them: for the estimates of `meshnode check --peers
 * N`.
 *
 * It begins with the weights of the job, and neither ends nor evaluates. A codec begins with the second round, and no
 * span ends. */
#ifndef NODE_BENCH_H
#define NODE_BENCH_H

#include "node/train/job.h"
#include "node/train/pool.h"
#include "node/train/work.h"
#include "proto/why.h"

enum { BENCH_ROUNDS = 2 }; /* at least, until sums are as long as they stay */

struct bench {
    struct pool *pool;
    struct work *work;
    struct state now, next;
    int32_t *own; /* [work_vector_count] */
    bool failed;  /* there was no memory for what a codec leaves out */
};

/* `lanes`: shards computed at a time. Returns 0, or a negative errno with one line. Call bench_close after an error,
 * too. */
int bench_open(struct bench *bench, const struct config *config, const struct job *job,
               unsigned lanes, struct why *why);
void bench_close(struct bench *bench);
/* Seconds to compute the first so many shards of the round into own, and to apply own, which holds all of them. */
double bench_compute(struct bench *bench, unsigned shards);
double bench_apply(struct bench *bench);
/* Bytes of own on its way (compress/packed.h), of those of its int32. */
double bench_share(const struct bench *bench);

#endif

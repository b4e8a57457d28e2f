/* estimate_ways.c - see estimate_ways.h. */
#include "node/commands/estimate_ways.h"

#include <math.h>

#include "node/commands/bench.h"
#include "node/job/config_rules.h"

enum { LOCAL = 2, ROUNDS = 3 };

static unsigned
few_shards(const struct config *config)
{
    unsigned peers = (unsigned)config->mesh.peers;
    return (config->train.shards + peers - 1) / peers;
}

/* Without a codec: one way at a time. */
static struct config
changed(const struct config *config, unsigned stages, uint64_t local_steps)
{
    struct config with = *config;
    with.mesh.compress = CODEC_none;
    with.mesh.compress_k = with.mesh.compress_rank = 0;
    with.mesh.compress_bits = 0;
    with.mesh.stages = stages;
    with.train.local_steps = local_steps;
    return with;
}

static bool
allowed(const struct config *with)
{
    struct why why;
    return config_rules_check(with, &why) == 0;
}

/* The quickest of some rounds. */
static int
measure_local(struct estimate_ways *ways, const struct config *with, const struct job *job,
              unsigned lanes, struct why *why)
{
    struct bench bench;
    double round_s = HUGE_VAL;
    int rc = bench_open(&bench, with, job, lanes, why);
    for (int r = 0; r < ROUNDS && !rc && !bench.failed; r++)
        round_s = fmin(round_s, bench_compute(&bench, few_shards(with)));
    if (!rc && !bench.failed)
        ways->local_s = round_s / LOCAL;
    bench_close(&bench);
    return rc;
}

static int
measure_staged(struct estimate_ways *ways, const struct job *job, unsigned lanes, double share,
               struct why *why)
{
    struct bench bench;
    int rc = bench_open(&bench, &ways->staged, job, lanes, why);
    if (!rc) {
        bench_compute(&bench, ways->staged.train.shards);
        rc = estimate_stages_new(&ways->stages, &ways->staged, job, bench.work, &bench.now,
                                 bench.own, share);
    }
    if (!rc) {
        bench_compute(&bench, ways->staged.train.shards);
        ways->staged_apply_s = bench_apply(&bench);
    }
    bench_close(&bench);
    return rc;
}

int
estimate_ways(struct estimate_ways *ways, const struct config *config, struct job *job,
              unsigned lanes, double share, struct why *why)
{
    const struct config local = changed(config, config->mesh.stages, LOCAL);
    *ways = (struct estimate_ways){
        .staged = changed(config, (unsigned)config->mesh.peers, config->train.local_steps)};
    int rc = job_code(job, &local, why);
    if (!rc && config->train.local_steps == 1 && allowed(&local))
        rc = measure_local(ways, &local, job, lanes, why);
    if (!rc && config->mesh.stages == 1 && allowed(&ways->staged))
        rc = measure_staged(ways, job, lanes, share, why);
    int again = job_code(job, config, why);
    return rc ? rc : again;
}

void
estimate_ways_fini(struct estimate_ways *ways)
{
    estimate_stages_destroy(&ways->stages);
}

/* bench.c - see bench.h. */
#include "node/commands/bench.h"

#include <errno.h>
#include <stdlib.h>

#include "compress/coding.h"
#include "proto/bits.h"
#include "proto/clock.h"

enum { EPOCHS = 1000000 };

void
bench_close(struct bench *bench)
{
    work_destroy(&bench->work);
    pool_destroy(&bench->pool);
    state_fini(&bench->now);
    state_fini(&bench->next);
    free(bench->own);
}

int
bench_open(struct bench *bench, const struct config *config, const struct job *job, unsigned lanes,
           struct why *why)
{
    struct work_setup setup = job_work(job, config);
    struct state_job rules = job_rules(job, config);
    rules.rules = (struct state_rules){.until = UINT64_MAX, /* it neither ends nor evaluates */
                                       .optim = rules.rules.optim,
                                       .local = rules.rules.local,
                                       .epochs = EPOCHS};
    rules.past_count = 0;
    rules.warmup = BENCH_ROUNDS - 1; /* the last rounds say how long sums are */
    rules.span = UINT64_MAX / 2;
    size_t params = nn_param_count(job->model);
    *bench = (struct bench){0};
    why_set(why, "not enough memory to compute a step");
    if (pool_new(&bench->pool, config->threads))
        return -ENOMEM;
    setup.pool = bench->pool;
    setup.lanes = lanes;
    if (work_new(&bench->work, &setup) || state_init(&bench->now, &rules, job->exact, params) ||
        state_init(&bench->next, &rules, job->exact, params))
        return -ENOMEM;
    bench->own = calloc(work_vector_count(bench->work), sizeof *bench->own);
    return bench->own ? job_state(job, config, &bench->now, why) : -ENOMEM;
}

double
bench_compute(struct bench *bench, unsigned shards)
{
    double start = clock_s();
    if (work_open(bench->work, &bench->now, bits_below(shards)))
        bench->failed = true;
    else
        work_round(bench->work, &bench->now, bits_below(shards), true, bench->own, NULL, NULL);
    return clock_s() - start;
}

double
bench_apply(struct bench *bench)
{
    struct state_event event;
    double start = clock_s();
    state_advance(&bench->next, &bench->now, bench->own, &event, bench->pool);
    state_swap(&bench->now, &bench->next);
    work_applied(bench->work, &bench->now, &bench->next, &event);
    return clock_s() - start;
}

double
bench_share(const struct bench *bench)
{
    size_t count = work_vector_count(bench->work);
    return (double)packed_size(bench->own, count) / (double)coding_raw(count);
}

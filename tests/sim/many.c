/* many.c - schedules by the thousand, on several processes, and what they saw. */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/run.h"

enum { JOBS_MAX = 64, FAILURES_MAX = 5, REPEAT_EVERY = 64 };

/* What one worker did; goes through a pipe. */
struct share {
    struct sim_counts counts;
    uint64_t repeated;
    unsigned failures;
    double cpu_s;
};

static double
seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Every jobs-th seed from `first` + `job` on. */
static void
work(struct sim *sim, const struct sim_options *options, unsigned job, struct share *share)
{
    double begin = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t k = job; share->failures < FAILURES_MAX; k += options->jobs) {
        bool enough =
            (options->seeds && k >= options->seeds) ||
            (options->events && sim->counts.events * options->jobs >= options->events) ||
            (options->seconds > 0 && seconds_of(CLOCK_MONOTONIC) - begin >= options->seconds);
        if (enough)
            break;
        if (!sim_run(sim, options->first + k, options->planted)) {
            run_failure(sim);
            share->failures++;
        }
        if (k / options->jobs % REPEAT_EVERY == 0) {
            share->repeated++;
            share->failures += !run_again(sim);
        }
    }
    share->counts = sim->counts;
    share->cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static void
add(struct share *total, const struct share *share)
{
    const struct sim_counts *c = &share->counts;
    struct sim_counts *t = &total->counts;
    t->schedules += c->schedules;
    t->events += c->events;
    t->commits += c->commits;
    t->adoptions += c->adoptions;
    t->plans += c->plans;
    t->aborts += c->aborts;
    t->audits += c->audits;
    t->expulsions += c->expulsions;
    t->flips += c->flips;
    t->forgeries += c->forgeries;
    t->staged += c->staged;
    t->grown += c->grown;
    t->pieces += c->pieces;
    t->states += c->states;
    t->damages += c->damages;
    t->astray += c->astray;
    t->strikes += c->strikes;
    t->begun_again += c->begun_again;
    t->limits += c->limits;
    t->repairs += c->repairs;
    t->repaired += c->repaired;
    t->pages += c->pages;
    t->nobodies += c->nobodies;
    t->virtual_us += c->virtual_us;
    t->digest += c->digest;
    t->worst_us = c->worst_us > t->worst_us ? c->worst_us : t->worst_us;
    for (int k = 0; k < SIM_FAULTS; k++)
        t->faults[k] += c->faults[k];
    for (int k = 0; k < SIM_SPELLINGS; k++)
        t->spelled[k] += c->spelled[k];
    total->repeated += share->repeated;
    total->failures += share->failures;
    total->cpu_s += share->cpu_s;
}

static void
report(const struct share *total, const struct sim_options *options, double seconds)
{
    const struct sim_counts *c = &total->counts;
    printf("sim: %" PRIu64 " schedules from seed %" PRIu64 " on, %u failed; %" PRIu64
           " run twice, each with the same trace both times\n",
           c->schedules, options->first, total->failures, total->repeated);
    printf("sim: %.0f schedules/s and core, %.0f/s in all with %u jobs; %.2f M events/s and core, "
           "%.0f "
           "times real time\n",
           (double)c->schedules / total->cpu_s, (double)c->schedules / seconds, options->jobs,
           (double)c->events / total->cpu_s / 1e6, (double)c->virtual_us / 1e6 / total->cpu_s);
    printf("sim: %" PRIu64 " commits and %" PRIu64 " adoptions, all of the reference's state and "
           "with the right counts; %" PRIu64 " plans, %" PRIu64 " aborted; %" PRIu64
           " shards audited, %" PRIu64 " times a liar expelled\n",
           c->commits, c->adoptions, c->plans, c->aborts, c->audits, c->expulsions);
    printf("sim: %" PRIu64 " chunks and items of hostile members; %" PRIu64
           " schedules of models in stages, %" PRIu64 " pieces computed, %" PRIu64
           " segments taken later; %" PRIu64 " accidents of parts, %" PRIu64
           " times begun again as one was lost\n",
           c->forgeries, c->staged, c->pieces, c->grown, c->strikes, c->begun_again);
    printf("sim: sums as");
    for (int k = 0; k < SIM_SPELLINGS; k++)
        printf("%s %" PRIu64 " %s", k ? "," : "", c->spelled[k],
               numbers_spelling((enum sim_spelling)k));
    printf("\n");
    printf("sim: %" PRIu64 " damaged checkpoints, %" PRIu64 " made whole with %" PRIu64
           " pages of others; %" PRIu64 " times it was judged that nobody had one\n",
           c->repairs, c->repaired, c->pages, c->nobodies);
    printf(
        "sim: longest wait for a round once the faults were over, beside the work of one: %.0f ms\n"
        "sim: faults:",
        (double)c->worst_us / 1e3);
    for (int k = 0; k < SIM_FAULTS; k++)
        printf(" %s %" PRIu64, fault_name((enum sim_fault)k), c->faults[k]);
    printf(" bits %" PRIu64 ", of states %" PRIu64 ", for which nodes went back %" PRIu64
           " times; others took %" PRIu64 " of them, in %" PRIu64
           " schedules all, so that nobody was left who could know\n"
           "sim: digest %016" PRIx64 " of all traces\n",
           c->flips, c->states, c->damages, c->astray, c->limits, c->digest);
}

static int
spawn(struct sim *sim, const struct sim_options *options, unsigned job, pid_t *pid)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    *pid = fork();
    if (*pid == 0) {
        close(ends[0]);
        struct share share = {.failures = 0};
        work(sim, options, job, &share);
        bool told = write(ends[1], &share, sizeof share) == (ssize_t)sizeof share;
        _exit(told ? 0 : 1);
    }
    close(ends[1]);
    return *pid < 0 ? -1 : ends[0];
}

/* A worker that ends without a word died: its last line says of what. */
static void
collect(int end, pid_t pid, struct share *total)
{
    struct share share;
    size_t got = 0;
    for (ssize_t n;
         got < sizeof share && (n = read(end, (char *)&share + got, sizeof share - got)) > 0;)
        got += (size_t)n;
    close(end);
    waitpid(pid, NULL, 0);
    if (got == sizeof share)
        add(total, &share);
    else
        total->failures++;
}

int
run_many(struct sim *sim, const struct sim_options *options)
{
    double begin = seconds_of(CLOCK_MONOTONIC);
    struct share total = {.failures = 0};
    if (options->jobs == 1) {
        work(sim, options, 0, &total);
    } else {
        int ends[JOBS_MAX];
        pid_t pids[JOBS_MAX];
        for (unsigned job = 0; job < options->jobs && job < JOBS_MAX; job++) {
            ends[job] = spawn(sim, options, job, &pids[job]);
            if (ends[job] < 0) {
                fprintf(stderr, "sim: no process for job %u\n", job);
                return 1;
            }
        }
        for (unsigned job = 0; job < options->jobs && job < JOBS_MAX; job++)
            collect(ends[job], pids[job], &total);
    }
    report(&total, options, seconds_of(CLOCK_MONOTONIC) - begin);
    return total.failures == 0 ? 0 : 1;
}

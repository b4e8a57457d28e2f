/* polite.c - see polite.h. */
#include "node/train/polite.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "node/base/host.h"
#include "node/base/host_use.h"
#include "node/train/idle.h"
#include "node/train/pause_when.h"
#include "proto/clock.h"

struct polite {
    struct polite_setup setup;
    struct idle idle;
    struct pause_when when;
    struct host_use use;        /* at the last look, */
    uint64_t ran_us, waited_us; /* and of the threads that compute */
    bool refused;               /* it was said that Linux does not let them be idle */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool stop;
};

int
polite_begin(const struct config *config, struct why *why)
{
    if (config->idle)
        (void)host_idle_disk(); /* disks without classes are as good */
    return host_nice(config->nice, why);
}

/* In CPUs, if the time is that of the last look. */
static double
share(uint64_t now_us, uint64_t before_us, uint64_t us)
{
    return now_us > before_us && us > 0 ? (double)(now_us - before_us) / (double)us : 0;
}

/* Time without nice is ours where it is that of threads without it. */
static struct idle_look
measure_use(struct polite *polite)
{
    struct host_use before = polite->use;
    struct idle_look look = {.now_us = clock_us()};
    uint64_t ran_us = polite->ran_us, waited_us = polite->waited_us;
    if (!polite->setup.config->idle)
        return look;
    host_use_read("", &polite->use);
    pool_times(polite->setup.pool, &polite->ran_us, &polite->waited_us);
    uint64_t us = polite->use.now_us - before.now_us;
    look.ran = share(polite->ran_us, ran_us, us);
    look.waited = share(polite->waited_us, waited_us, us);
    look.waiting = share(polite->use.waits_us, before.waits_us, us);
    double own = share(polite->use.own_us, before.own_us, us) - look.ran;
    double counted = own > 0 && polite->setup.config->nice == 0 ? own : 0;
    look.others = share(polite->use.busy_us, before.busy_us, us) - counted;
    look.others = look.others > 0 ? look.others : 0;
    return look;
}

/* "idle: 1 of 8 threads, the machine is in use" */
static void
tell_people(const struct polite *polite, unsigned before)
{
    char line[96];
    const struct idle *idle = &polite->idle;
    bool all = idle->threads == idle->most;
    if (idle->threads == before)
        return;
    snprintf(line, sizeof line, "idle: %u of %u threads%s", idle->threads, idle->most,
             all ? "" : ", the machine is in use");
    metrics_use(polite->setup.metrics, line, all, idle->threads == 0);
}

static void
obey(const struct polite *polite, unsigned before)
{
    unsigned threads = polite->idle.threads;
    if (polite->setup.config->idle)
        pool_limit(polite->setup.pool, threads > 0 ? threads : 1);
    if ((threads == 0) != (before == 0))
        mesh_in_use(polite->setup.mesh, threads == 0);
}

static void
warn(struct polite *polite, const struct why *why)
{
    char line[128];
    int error =
        polite->setup.config->idle && !polite->refused ? pool_idle_error(polite->setup.pool) : 0;
    if (why->line[0])
        metrics_say(polite->setup.metrics, 4, why->line);
    if (!error)
        return;
    polite->refused = true;
    snprintf(line, sizeof line, "--idle: Linux does not let threads run at SCHED_IDLE: %s",
             strerror(-error));
    metrics_say(polite->setup.metrics, 4, line);
}

static void
look_around(struct polite *polite)
{
    struct why why;
    unsigned before = polite->idle.threads;
    struct idle_look now = measure_use(polite);
    now.told = pause_when_ask(&polite->when, now.now_us, &why);
    idle_look(&polite->idle, &now);
    obey(polite, before);
    tell_people(polite, before);
    warn(polite, &why);
    if (polite->idle.threads == 0)
        metrics_alive(polite->setup.metrics);
}

static void *
polite_run(void *arg)
{
    struct polite *polite = arg;
    prctl(PR_SET_NAME, "polite");
    pthread_mutex_lock(&polite->lock);
    while (!polite->stop) {
        pthread_mutex_unlock(&polite->lock);
        look_around(polite);
        pthread_mutex_lock(&polite->lock);
        if (!polite->stop)
            clock_wait(&polite->ends, &polite->lock, IDLE_LOOK_US);
    }
    pthread_mutex_unlock(&polite->lock);
    return NULL;
}

static void
polite_free(struct polite *polite)
{
    pause_when_fini(&polite->when);
    pthread_cond_destroy(&polite->ends);
    pthread_mutex_destroy(&polite->lock);
    free(polite);
}

int
polite_new(struct polite **out, const struct polite_setup *setup, struct why *why)
{
    const struct config *config = setup->config;
    *out = NULL;
    if (!config->idle && !config->pause_when)
        return 0;
    struct polite *polite = calloc(1, sizeof *polite);
    if (!polite)
        return why_error(why, -ENOMEM, "out of memory");
    polite->setup = *setup;
    polite->when.command = config->pause_when;
    idle_init(&polite->idle, host_cpus(), config->threads, config->idle);
    (void)measure_use(polite);
    pthread_mutex_init(&polite->lock, NULL);
    clock_cond_init(&polite->ends);
    int rc = pthread_create(&polite->thread, NULL, polite_run, polite);
    if (rc) {
        polite_free(polite);
        return why_error(why, -rc, "--idle: no thread: %s", strerror(rc));
    }
    *out = polite;
    return 0;
}

void
polite_destroy(struct polite **out)
{
    struct polite *polite = *out;
    if (!polite)
        return;
    pthread_mutex_lock(&polite->lock);
    polite->stop = true;
    pthread_mutex_unlock(&polite->lock);
    pthread_cond_signal(&polite->ends);
    pthread_join(polite->thread, NULL);
    polite_free(polite);
    *out = NULL;
}

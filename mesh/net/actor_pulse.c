/* actor_pulse.c - a thread that sleeps most of the time. See actor_pulse.h. */
#include "mesh/net/actor_pulse.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "proto/clock.h"

struct pulse {
    struct wire *wire;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool stop;
};

bool
pulse_due(uint64_t quiet_us)
{
    return quiet_us > PULSE_QUIET_US && quiet_us < PULSE_MAX_US;
}

static void *
pulse_run(void *arg)
{
    struct pulse *pulse = arg;
    pthread_mutex_lock(&pulse->lock);
    while (!pulse->stop) {
        clock_wait(&pulse->ends, &pulse->lock, PULSE_EVERY_US);
        uint64_t quiet_us = clock_us() - wire_beat_at(pulse->wire);
        if (!pulse->stop && pulse_due(quiet_us))
            wire_pulse(pulse->wire);
    }
    pthread_mutex_unlock(&pulse->lock);
    return NULL;
}

static void
release(struct pulse *pulse)
{
    pthread_cond_destroy(&pulse->ends);
    pthread_mutex_destroy(&pulse->lock);
    free(pulse);
}

int
pulse_new(struct pulse **out, struct wire *wire)
{
    struct pulse *pulse = calloc(1, sizeof *pulse);
    *out = NULL;
    if (!pulse)
        return -ENOMEM;
    pulse->wire = wire;
    clock_cond_init(&pulse->ends);
    pthread_mutex_init(&pulse->lock, NULL);
    int rc = pthread_create(&pulse->thread, NULL, pulse_run, pulse);
    if (rc != 0) {
        release(pulse);
        return -rc;
    }
    *out = pulse;
    return 0;
}

void
pulse_destroy(struct pulse **out)
{
    struct pulse *pulse = *out;
    if (!pulse)
        return;
    pthread_mutex_lock(&pulse->lock);
    pulse->stop = true;
    pthread_mutex_unlock(&pulse->lock);
    pthread_cond_signal(&pulse->ends);
    pthread_join(pulse->thread, NULL);
    release(pulse);
    *out = NULL;
}

/* made_up.h - for tests of gossip whose trainers compute nothing that makes sense: values, their hash, and a place to
 * meet.
 *
 *     own[k] += made_up_value(seed, k)
 *     hash = made_up_hash(values, count)
 *     made_up_meet(&meeting, nodes)      before the first step */
#ifndef TEST_MADE_UP_H
#define TEST_MADE_UP_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "proto/mix.h"

enum { MADE_UP_MEET_S = 30 };

static inline int32_t
made_up_value(uint64_t seed, size_t k)
{
    return (int32_t)(mix64_pair(seed, k) & 0xfffff) - 0x80000;
}

/* Of a result. Never 0. */
static inline uint64_t
made_up_hash(const int32_t *values, size_t count)
{
    uint64_t hash = 1;
    for (size_t k = 0; k < count; k++)
        hash = mix64_pair(hash, (uint32_t)values[k]);
    return hash | 1;
}

struct made_up_meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned here;
};

/* Waits until so many threads are here; nobody has computed before all are about to. Who is told late that the others
 * train would copy a neighbour. */
static inline void
made_up_meet(struct made_up_meeting *meeting, unsigned nodes)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += MADE_UP_MEET_S;
    pthread_mutex_lock(&meeting->lock);
    meeting->here++;
    pthread_cond_broadcast(&meeting->changed);
    while (meeting->here < nodes &&
           pthread_cond_timedwait(&meeting->changed, &meeting->lock, &until) != ETIMEDOUT)
        continue;
    pthread_mutex_unlock(&meeting->lock);
}

#endif

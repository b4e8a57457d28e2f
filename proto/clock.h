/* clock.h - monotonic time: it never jumps back. For measuring and waiting. */
#ifndef PROTO_CLOCK_H
#define PROTO_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t
clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline uint64_t
clock_ms(void)
{
    return clock_us() / 1000;
}

static inline double
clock_s(void)
{
    return 1e-6 * (double)clock_us();
}

/* Waits on a condition by this clock, at most so long, or until it is signalled. */
static inline void
clock_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t us)
{
    uint64_t end = clock_us() + us;
    const struct timespec until = {.tv_sec = (time_t)(end / 1000000),
                                   .tv_nsec = (long)(end % 1000000) * 1000};
    pthread_cond_timedwait(cond, lock, &until);
}

static inline void
clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

#endif

/* clock.h - monotonic time: it never jumps back. For measuring and waiting. */
#ifndef PROTO_CLOCK_H
#define PROTO_CLOCK_H

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

#endif

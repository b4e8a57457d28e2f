/* backoff.h - waiting times that double after each failure. Uses nothing. */
#ifndef MESH_BACKOFF_H
#define MESH_BACKOFF_H

#include <stdint.h>

/* The waiting time after one of `us`: the first one after 0, else twice as long, and at most `most_us`. */
static inline uint64_t
backoff_us(uint64_t us, uint64_t first_us, uint64_t most_us)
{
    uint64_t next_us = us == 0 ? first_us : 2 * us;
    return next_us > most_us ? most_us : next_us;
}

#endif

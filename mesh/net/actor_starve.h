/* actor_starve.h - how long the threads of this process wait for a processor.
 *
 * On a machine with too much to do, a trainer makes slow progress although it works correctly. Linux counts for each
 * thread how long it could have run and did not (/proc/self/task/N/schedstat). On a system that does not count this, no
 * thread seems to wait. */
#ifndef MESH_ACTOR_STARVE_H
#define MESH_ACTOR_STARVE_H

#include <stddef.h>
#include <stdint.h>

enum { STARVE_THREADS_MAX = 128 };

struct starve {
    size_t count;
    struct {
        int tid;
        uint64_t waited_ns;
    } threads[STARVE_THREADS_MAX];
};

/* Microseconds since the call before for which the thread that waited longest waited. A new thread counts from now on,
 * and the first call, with a zeroed *starve, returns 0. */
uint64_t starve_us(struct starve *starve);

#endif

/* host_use.h - how much others use this machine, and how this process leaves it to them: --idle, --nice.
 *
 * A program that runs with nice is no use that counts: it leaves its CPU to others, too. So threads that compute for
 * --idle, of this process and of others, have nice 19 beside SCHED_IDLE, and Linux counts their time apart. */
#ifndef NODE_HOST_USE_H
#define NODE_HOST_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/why.h"

/* Times since some moment, in us; those of CPUs are summed over the ones that this process may use. */
struct host_use {
    uint64_t now_us;
    uint64_t
        busy_us; /* of these CPUs for programs without nice, this one too, and for the kernel */
    uint64_t
        waits_us; /* in which some program waited for a CPU: /proc/pressure/cpu; 0: not counted */
    uint64_t own_us; /* of all CPUs for this process */
};

/* `root` is "", in tests the folder that has proc. What cannot be read is 0. */
void host_use_read(const char *root, struct host_use *out);

/* What a thread has had of CPUs, and for how long it waited for one, in us; 0 where Linux does not count. */
void host_use_thread(const char *root, int tid, uint64_t *ran_us, uint64_t *waited_us);

/* From now on the calling thread runs where nobody else wants to. 0 or -errno. */
int host_idle_thread(void);
/* The same with disks, for this thread and those that it starts. */
int host_idle_disk(void);
/* Adds to the nice of this thread and those that it starts, up to `nice`. 0, or -errno with `why`. */
int host_nice(unsigned nice, struct why *why);

#endif

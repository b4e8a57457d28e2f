/* host.h - what this machine has: CPUs, and kernels that can compute a job's products. */
#ifndef NODE_HOST_H
#define NODE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of CPUs that this process may use; at least 1. */
unsigned host_cpus(void);

/* Bytes of memory that this process may have: those of the machine, or of its control groups if they allow less.
 * UINT64_MAX: unknown. `root` is "", in tests the folder that has proc and sys. */
uint64_t host_memory(const char *root);

/* How other nodes call this one: `name`, or, if that is "", the host name of this machine up to its first dot, as
 * printable text. */
void host_name(const char *name, char *out, size_t size);

/* Raises the limit of descriptors to what a mesh needs, because ZeroMQ ends the program when they run out. Returns
 * 0, or -EMFILE with `why`. */
int host_descriptors(char *why, size_t why_size);

/* Makes products run as `run.numerics` says: "portable", an OpenBLAS kernel, or "auto". auto is the fastest of
 * these on this CPU, by shards (`exact`) or by whole batches. OpenBLAS reads its settings when it is loaded, before
 * main(). So this function sets them and executes the program again with `argv`, once.
 *
 * Returns what `auto` became, else `numerics`, as a constant: the process now uses it. Returns NULL with `why` if
 * this CPU or library does not have the kernel, or the program cannot be executed. */
const char *host_pin(const char *numerics, bool exact, char *const argv[], char *why,
                     size_t why_size);

/* True if host_pin has set up this process: OpenBLAS has no threads of its own. */
bool host_pinned(void);

#endif

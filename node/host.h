/* host.h - what this machine offers: CPUs, and what may compute a job's products. */
#ifndef NODE_HOST_H
#define NODE_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* CPUs this process may run on; at least 1. */
unsigned host_cpus(void);

/* What other nodes call this one: `name`, or, where that is "", the name of this machine up to its first dot, as
 * printable text. */
void host_name(const char *name, char *out, size_t size);

/* Allow this process the descriptors that a mesh takes; ZeroMQ ends the program where they run out.
 * 0, or -EMFILE with `why`. */
int host_descriptors(char *why, size_t why_size);

/* Make products run as `run.numerics` says: "portable", an OpenBLAS kernel, or "auto", the fastest of these
 * for this CPU, by shards (`exact`) or by whole batches. OpenBLAS reads its settings when it is loaded, before main(): so this sets them and executes
 * the program anew with `argv`, once.
 *
 * Returns what `auto` came to, else `numerics`, as a constant: the process now runs with it. NULL with `why`
 * when this CPU or library lacks the kernel, or the program cannot be executed. */
const char *host_pin(const char *numerics, bool exact, char *const argv[], char *why,
                     size_t why_size);

/* host_pin has set up this process: OpenBLAS has no threads of its own. */
bool host_pinned(void);

#endif

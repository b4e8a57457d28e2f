/* host.h - what this machine offers: CPUs, and the BLAS kernel a job asks for. */
#ifndef NODE_HOST_H
#define NODE_HOST_H

#include <stddef.h>

/* CPUs this process may run on; at least 1. */
unsigned host_cpus(void);

/* Make OpenBLAS use the kernel that `run.numerics` names. The library reads its settings when it is
 * loaded, before main(): so this sets them and executes the program anew with `argv`, once.
 *
 * Returns 0 when the process runs with these settings; -ENOTSUP when this CPU lacks what the kernel
 * needs, or another -errno, with `why`. */
int host_pin(const char *numerics, char *const argv[], char *why, size_t why_size);

/* run.numerics of a kernel as OpenBLAS calls it ("Haswell" is "haswell"); NULL when it cannot be asked
 * for by name. */
const char *host_numerics(const char *kernel);

#endif

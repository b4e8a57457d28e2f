/* host.h - what this machine has: CPUs, memory, a name, descriptors. */
#ifndef NODE_HOST_H
#define NODE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

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
int host_descriptors(struct why *why);

#endif

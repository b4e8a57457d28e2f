/* discover_iface.h - which network interfaces carry beacons.
 *
 * Usable is an interface that is up and has an IPv4 broadcast address, and the loopback interface. Of
 * the usable ones those that lead somewhere are preferred: hardware and ordinary names before the
 * bridges and cable ends that container and machine managers create, which often come first in the
 * system's list and reach nobody. Uses libc only. */
#ifndef MESH_DISCOVER_IFACE_H
#define MESH_DISCOVER_IFACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

enum { IFACES_MAX = 16 };

struct iface {
    char name[IF_NAMESIZE];
    struct in_addr address, broadcast;
    bool loopback;
    int rank; /* see iface_rank; loopback 0 */
};

/* 3 hardware, 2 any other name, 1 a name that container and machine managers give; one more when the
 * default route leaves there and the name is not of the last kind. */
int iface_rank(const char *name, bool hardware, bool default_route);

/* Those that `wanted` means: NULL the preferred ones and loopback, "lo" or 127.0.0.1 loopback only,
 * another name or address exactly that one.
 *
 * Returns 0, or -ENODEV with a line in `why` that lists the usable ones. */
int iface_select(const char *wanted, struct iface out[IFACES_MAX], size_t *count, char *why,
                 size_t why_size);

/* "name address" of each usable interface, separated by `separator`, cut at `size`. */
void iface_print(const char *separator, char *out, size_t size);

#endif

/* discover_iface.h - which network interfaces carry beacons, and which could only be used without.
 *
 * An interface carries beacons if it is up and its IPv4 address lies in a network that has a broadcast address; the
 * loopback interface does, too. One that has IPv6 alone carries them by multicast on its link. Point-to-point lines (a
 * VPN) and networks of one or two addresses (/32, /31) carry none. Such an interface is used when it is asked for, or
 * where no other leads anywhere: then nodes must be named.
 * Hardware and ordinary names are preferred over the bridges and cable ends that container and machine managers
 * create. Those often come first in the system's list and lead nowhere. Uses libc only. */
#ifndef MESH_DISCOVER_IFACE_H
#define MESH_DISCOVER_IFACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/why.h"

enum { IFACES_MAX = 16 };

struct iface {
    char name[IF_NAMESIZE];
    char text[INET6_ADDRSTRLEN];       /* its address */
    struct in_addr address, broadcast; /* 0: it has none */
    struct in6_addr address6;          /* where `v6` */
    bool loopback, v6;
    bool mute;    /* it carries no beacons */
    int rank;     /* see iface_rank; loopback has 0 */
    size_t order; /* in the system's list: the first address of an interface comes first */
};

/* 3: hardware; 2: any other name; 1: a name that container and machine managers give. One more if the default route
 * uses the interface, but not for the last kind. */
int iface_rank(const char *name, bool hardware, bool default_route);

/* The last address of the network. The system knows it even where none was configured, as with `ip addr add A/24`:
 * then it names the own address instead. 0: the network is too small. */
struct in_addr iface_broadcast(struct in_addr address, struct in_addr mask);

/* Do these flags of an interface let beacons go to a group of its link? */
bool iface_multicast(unsigned flags);

/* "name address, name address", or the names alone, cut at `size`. */
void iface_print(const struct iface *list, size_t count, bool addresses, char *out, size_t size);

/* Does a name belong to containers or virtual machines? */
bool iface_managed(const char *name);

/* The interfaces that `wanted` means. NULL: the preferred ones, one for each network, and loopback; if none of them
 * leads anywhere, those that carry no beacons, too. "lo" or 127.0.0.1: only loopback. Another name or address: exactly
 * that one. The name of an interface means its first address, IPv6 only if there is no other.
 *
 * Returns 0, or -ENODEV with a line in `why` that lists the usable ones. */
int iface_select(const char *wanted, struct iface out[IFACES_MAX], size_t *count, struct why *why);

#endif

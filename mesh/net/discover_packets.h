/* discover_packets.h - beacons that come to an interface, and not to this program: they are of another network on the
 * same cable, or a firewall here drops them. Only root may look at packets; others see nothing here. */
#ifndef MESH_DISCOVER_PACKETS_H
#define MESH_DISCOVER_PACKETS_H

#include "mesh/network.h"

/* A socket that sees UDP to this port, or -1. */
int packets_open(uint16_t port);
/* The next beacon of `group` that came from outside, and the interface. False: there is none now. */
bool packets_next(int fd, uint64_t group, struct network_beacon *out, char interface[IF_NAMESIZE]);

#endif

/* discover.h - how nodes of one LAN, one host or one list of seeds learn of one another.
 *
 * Three sources feed one callback: CZMQ's zbeacon on the best broadcast interface; small UDP sockets with the same
 * datagrams (proto_beacon) on the other usable interfaces and on loopback, which zbeacon does not serve, so that
 * nodes of one machine meet even without a network; and seeds, which the caller names. What a node hears is only a
 * hint: all it can cause is a connection. Interfaces that cannot broadcast are listened on, and have no beacons.
 *
 * The interfaces are checked twice a second, because cables are pulled, DHCP changes addresses, and containers move
 * to other networks. Sockets of interfaces that are gone are closed, new interfaces get sockets, and then beacons
 * are sent as often as at the start.
 *
 * zbeacon's interface is a setting of the whole process. So only the first discover of a process uses zbeacon;
 * others (tests run several nodes in a process) use UDP sockets only. One thread at a time may call the functions
 * of one discover. */
#ifndef MESH_DISCOVER_H
#define MESH_DISCOVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/network.h"
#include "proto/proto.h"
#include "proto/why.h"

struct discover;

struct discover_setup {
    const char *interface; /* as in struct mesh_setup */
    uint16_t port;         /* UDP, not 0 */
    struct proto_node self;
    uint64_t group;
    const struct proto_endpoint *seeds;
    size_t seed_count;
    bool curious;                                        /* report beacons of other groups, too */
    void (*log)(void *ctx, int level, const char *line); /* may be NULL */
    void *log_ctx;
};

typedef void discover_found(void *ctx, const struct proto_endpoint *at, struct proto_node node);

/* Returns 0; -ENODEV (interface), -EADDRINUSE (port) and others with one line in `why`. */
int discover_new(struct discover **out, const struct discover_setup *setup, struct why *why);
void discover_destroy(struct discover **discover);

/* The address for TCP sockets: "*", or the address of the one interface that was asked for. discover_tick may
 * change the latter. */
const char *discover_address(const struct discover *discover);

/* The interfaces in use, separated by ", ": "eth0 192.168.7.11", or the name alone; loopback only where there is no
 * other. Cut at `size`. */
void discover_print(const struct discover *discover, bool addresses, char *out, size_t size);
/* The address on the best of them, "" none. Returns whether it carries no beacons: nodes of other machines must be
 * named. */
bool discover_reach(const struct discover *discover, char out[INET6_ADDRSTRLEN]);

/* The interfaces, the beacons that came, and what became of the names of seeds. */
void discover_network(const struct discover *discover, struct network *out);

/* From now on, announce that we listen on `control_port`: every 100 ms for 3 s, then every 250 ms. */
void discover_publish(struct discover *discover, uint64_t now, uint16_t control_port);
/* Announces once that we leave. */
void discover_leave(struct discover *discover);

/* Reports a part of what was heard since the last call. True when more may be waiting. Call it periodically, not
 * for each beacon: then the kernel drops most of a flood, because zbeacon waits while we do not read. Beacons of
 * other groups and our own are skipped. */
bool discover_read(struct discover *discover, discover_found *found, void *ctx);
/* Sends what is due, checks the interfaces and reports seeds (node.id 0). Returns when to call it again;
 * microseconds. */
uint64_t discover_tick(struct discover *discover, uint64_t now, discover_found *found, void *ctx);

#endif

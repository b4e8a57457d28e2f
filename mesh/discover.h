/* discover.h - how nodes of one LAN, one host or one list of seeds hear of one another.
 *
 * Three sources feed one callback: CZMQ's zbeacon on the best broadcast interface; the same datagrams
 * (proto_beacon) from small UDP sockets on the other usable interfaces and on loopback, which zbeacon
 * does not serve, so that nodes of one machine meet even without a network; and seeds, which the caller
 * names. What is heard is a hint: it may only cause a connection.
 *
 * The interfaces are looked at again twice a second: cables are pulled, addresses change by DHCP, containers
 * are put into other networks. What has gone is closed, what has come is served, and then beacons are
 * sent as often as at the start.
 *
 * zbeacon's interface is a setting of the whole process, so the first discover of a process uses it
 * and further ones (tests run several nodes in a process) use UDP sockets only. All functions of one
 * discover are called from one thread at a time. */
#ifndef MESH_DISCOVER_H
#define MESH_DISCOVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/proto.h"

struct discover;

struct discover_setup {
    const char *interface; /* as in struct mesh_setup */
    uint16_t port;         /* UDP, not 0 */
    struct proto_node self;
    uint64_t group;
    const struct proto_endpoint *seeds;
    size_t seed_count;
    void (*log)(void *ctx, int level, const char *line); /* may be NULL */
    void *log_ctx;
};

typedef void discover_found(void *ctx, const struct proto_endpoint *at, struct proto_node node);

/* Returns 0; -ENODEV (interface), -EADDRINUSE (port) and others with one line in `why`. */
int discover_new(struct discover **out, const struct discover_setup *setup, char *why,
                 size_t why_size);
void discover_destroy(struct discover **discover);

/* What to bind TCP sockets to: "*", or the address of the one interface that was asked for. The latter may
 * be another one after discover_tick. */
const char *discover_address(const struct discover *discover);

/* The interfaces in use, separated by ", ": "eth0 192.168.7.11", or the name alone; loopback only where there is no
 * other. Cut at `size`. */
void discover_print(const struct discover *discover, bool addresses, char *out, size_t size);
/* The address on the best of them, "" none. */
void discover_reach(const struct discover *discover, char out[INET_ADDRSTRLEN]);

/* From now on say that we listen on `control_port`: often in the first seconds, then each second. */
void discover_publish(struct discover *discover, uint64_t now, uint16_t control_port);
/* Say, once, that we leave. */
void discover_leave(struct discover *discover);

/* Report a portion of what was heard since the last call; true when more may be waiting. To be called every
 * now and then, not whenever a beacon comes: of a flood, most is then dropped by the kernel, since zbeacon waits
 * when we do not read. Nodes of other groups and ourselves are skipped. */
bool discover_read(struct discover *discover, discover_found *found, void *ctx);
/* Send what is due, look at the interfaces and report seeds (node.id 0). Returns when to call again; times in microseconds. */
uint64_t discover_tick(struct discover *discover, uint64_t now, discover_found *found, void *ctx);

/* Is zbeacon among the sources? */
bool discover_has_zbeacon(const struct discover *discover);

#endif

/* discover_internal.h - what the files of discovery share. discover_sources.c opens and closes the ways over which
 * beacons go; discover.c sends and reads them. */
#ifndef MESH_DISCOVER_INTERNAL_H
#define MESH_DISCOVER_INTERNAL_H

#include <czmq.h>

#include "mesh/net/discover.h"
#include "mesh/net/discover_heard.h"
#include "mesh/net/discover_iface.h"
#include "mesh/net/discover_packets.h"
#include "mesh/net/discover_resolve.h"

enum {
    FAST_MS = 100, /* between beacons in the first FAST_FOR_MS, so that nodes meet quickly */
    FAST_FOR_MS = 3000,
};

struct discover_source {
    struct iface iface;
    int fd; /* UDP; -1: zbeacon serves it */
};

struct discover {
    struct discover_setup setup; /* .interface and .seeds are not kept */
    char *interface;             /* the one that was asked for, or NULL */
    char address[INET6_ADDRSTRLEN];
    struct discover_source source[IFACES_MAX];
    size_t source_count;
    struct iface wanted[IFACES_MAX]; /* at the last look, the best first */
    size_t wanted_count;
    zactor_t *zbeacon; /* NULL: not ours */
    void *zbeacon_socket;
    struct resolve *resolve;
    uint8_t beacon[PROTO_BEACON_MAX];
    size_t beacon_size;                   /* 0: not published */
    bool slow;                            /* every SLOW_MS, no longer every FAST_MS */
    uint64_t slow_from, next_at, look_at; /* us */
    struct proto_endpoint *known;         /* [SEEDS_SHOWN] */
    struct heard_beacons heard;
    int packets; /* discover_packets.h; -1: not looked at */
};

__attribute__((format(printf, 3, 4))) void discover_log(const struct discover *discover, int level,
                                                        const char *format, ...);
/* Where the beacons of an interface go, and come. Returns the size of the address. */
socklen_t discover_target(const struct discover *discover, const struct iface *iface,
                          struct sockaddr_storage *out);
/* At the start: one way per interface, or what is wrong. */
int discover_sources_open(struct discover *discover, struct why *why);
/* Later: interfaces come and go. */
void discover_sources_look(struct discover *discover, uint64_t now);
void discover_source_close(struct discover *discover, size_t i);
/* Does nothing without zbeacon. */
void discover_zbeacon_publish(struct discover *discover, int interval_ms);
void discover_zbeacon_start(struct discover *discover);

#endif

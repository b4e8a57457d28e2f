/* network.h - what a node sees of the networks around it: interfaces, beacons, the names it was given, connections that
 * were tried. Facts, which others judge. */
#ifndef MESH_NETWORK_H
#define MESH_NETWORK_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/proto.h"

enum {
    NETWORK_LINES_MAX = 24,
    NETWORK_BEACONS_MAX = 64,
    NETWORK_NAMES_MAX = 64,
    NETWORK_TRIES_MAX = 128,
};

/* An address of an interface, or an interface without one. */
struct network_line {
    char name[IF_NAMESIZE];
    char address[INET6_ADDRSTRLEN]; /* "": it has none */
    uint32_t at, mask;              /* IPv4, in the order of the host; 0: none */
    bool up, carrier;               /* it is switched on; its cable is plugged in */
    bool loopback;
    bool managed; /* it belongs to containers or virtual machines */
    bool mute;    /* it carries no beacons */
    bool used;    /* the node uses it */
};

enum network_kind {
    NETWORK_OURS,          /* a node of our group */
    NETWORK_OTHER_GROUP,   /* of another mesh.group */
    NETWORK_OTHER_VERSION, /* of another version of the protocol */
    NETWORK_UNHEARD, /* of our group: it came to an interface in use; heard is what has another kind, too */
};

/* From whom beacons came, by address and port. */
struct network_beacon {
    enum network_kind kind;
    struct proto_node node; /* id 0: unknown */
    char host[INET_ADDRSTRLEN];
    uint16_t port;
    uint64_t at_us; /* the last one, by clock_us */
};

/* A host that was named (--peer). */
struct network_name {
    struct proto_endpoint given;
    bool failed;                    /* its look-up failed, */
    bool pending;                   /* or has not ended yet */
    bool loopback;                  /* all its addresses are of this machine alone: 127.0.1.1 */
    bool answers;                   /* somebody said HELLO there */
    char address[INET6_ADDRSTRLEN]; /* the first one */
};

/* A TCP connection that was tried. */
struct network_try {
    struct proto_endpoint to;
    bool bulk; /* to the port for bodies */
    int error; /* 0: it was accepted; -1: it is under way; else an errno */
};

struct network {
    size_t line_count, beacon_count, name_count, try_count;
    struct network_line lines[NETWORK_LINES_MAX];
    struct network_beacon beacons[NETWORK_BEACONS_MAX];
    struct network_name names[NETWORK_NAMES_MAX];
    struct network_try tries[NETWORK_TRIES_MAX];
    bool starved; /* of mesh_probe: its threads had no CPU for most of the time that it may take */
};

#endif

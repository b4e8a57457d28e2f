/* discover.c - zbeacon on one interface, UDP sockets on the rest, seeds. */
#include "mesh/discover.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <czmq.h>

#include "mesh/discover_iface.h"
#include "mesh/discover_resolve.h"
#include "proto/fail.h"

enum {
    FAST_MS = 100, /* between beacons in the first FAST_FOR_MS, so that nodes meet quickly */
    FAST_FOR_MS = 3000,
    SLOW_MS = 250,     /* what was split by the network is to be one soon after */
    READ_MAX = 64,     /* beacons per call of discover_read: a flood must not starve the rest */
    PREFIX_SIZE = 5,   /* bytes all our beacons start with: zbeacon filters by them */
    SEEDS_SHOWN = 256, /* addresses of seeds reported per tick */
};

struct socket_udp {
    int fd;
    struct sockaddr_in to;
};

struct discover {
    struct discover_setup setup;
    char address[INET_ADDRSTRLEN];
    struct socket_udp udp[IFACES_MAX];
    size_t udp_count;
    zactor_t *zbeacon; /* NULL: not ours */
    void *zbeacon_socket;
    int zbeacon_fd;
    bool zbeacon_slow;
    struct resolve *resolve;
    uint8_t beacon[PROTO_BEACON_MAX];
    size_t beacon_size;           /* 0: not published */
    uint64_t slow_from, next_at;  /* us */
    struct proto_endpoint *known; /* [SEEDS_SHOWN] */
};

static atomic_flag zbeacon_taken = ATOMIC_FLAG_INIT;

/* A socket bound to a broadcast address hears that subnet's broadcasts and nothing else; SO_REUSEADDR
 * lets all nodes of a host do so. */
static int
udp_open(struct socket_udp *udp, const struct iface *iface, uint16_t port)
{
    int one = 1;
    udp->to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = iface->broadcast};
    udp->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (udp->fd < 0)
        return -errno;
    if (setsockopt(udp->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(udp->fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) != 0 ||
        bind(udp->fd, (struct sockaddr *)&udp->to, sizeof udp->to) != 0) {
        int rc = -errno;
        close(udp->fd);
        udp->fd = -1;
        return rc;
    }
    return 0;
}

/* CZMQ by itself catches signals and writes to the terminal, and it aborts on a multicast address. */
static void
czmq_tame(void)
{
    unsetenv("ZSYS_IPV4_MCAST_ADDRESS");
    unsetenv("ZSYS_IPV6_MCAST_ADDRESS");
    setenv("ZSYS_SIGHANDLER", "false", 1);
    zsys_handler_set(NULL);
    zsys_set_logstream(NULL);
    zsys_set_logsystem(false);
}

/* True when zbeacon serves `iface`; false leaves it to a UDP socket. */
static bool
zbeacon_open(struct discover *discover, const struct iface *iface)
{
    if (iface->loopback || atomic_flag_test_and_set(&zbeacon_taken))
        return false;
    czmq_tame();
    zsys_set_interface(iface->name);
    discover->zbeacon = zactor_new(zbeacon, NULL);
    char *host = NULL;
    if (discover->zbeacon) {
        zsock_send(discover->zbeacon, "si", "CONFIGURE", (int)discover->setup.port);
        host = zstr_recv(discover->zbeacon);
    }
    bool works = host && *host;
    zstr_free(&host);
    if (!works) {
        zactor_destroy(&discover->zbeacon);
        atomic_flag_clear(&zbeacon_taken);
        return false;
    }
    discover->zbeacon_socket = zsock_resolve(discover->zbeacon);
    discover->zbeacon_fd = zsock_fd(zactor_sock(discover->zbeacon));
    return true;
}

static int
open_all(struct discover *discover, char *why, size_t why_size)
{
    struct iface list[IFACES_MAX];
    size_t count;
    const char *wanted = discover->setup.interface;
    int rc = iface_select(wanted, list, &count, why, why_size);
    if (rc != 0)
        return rc;
    if (wanted)
        inet_ntop(AF_INET, &list[0].address, discover->address, sizeof discover->address);
    else
        snprintf(discover->address, sizeof discover->address, "*");
    for (size_t i = 0; i < count; i++) {
        struct socket_udp *udp = &discover->udp[discover->udp_count];
        rc = udp_open(udp, &list[i], discover->setup.port);
        if (rc == -EADDRINUSE || rc == -EACCES) {
            snprintf(why, why_size, "beacon port %u (UDP) on interface %s: %s",
                     discover->setup.port, list[i].name, strerror(-rc));
            return rc;
        }
        if (rc != 0) /* an address that went away meanwhile */
            continue;
        if (zbeacon_open(discover, &list[i]))
            close(udp->fd);
        else
            discover->udp_count++;
    }
    return 0;
}

static int
build(struct discover *discover, char *why, size_t why_size)
{
    discover->known = calloc(SEEDS_SHOWN, sizeof *discover->known);
    int rc = discover->known ? 0 : -ENOMEM;
    if (rc == 0)
        rc = resolve_new(&discover->resolve, discover->setup.seeds, discover->setup.seed_count);
    if (rc != 0) {
        snprintf(why, why_size, "seeds: %s", strerror(-rc));
        return rc;
    }
    return open_all(discover, why, why_size);
}

int
discover_new(struct discover **out, const struct discover_setup *setup, char *why, size_t why_size)
{
    assert(setup->port != 0);
    assert(setup->self.id != 0);
    *out = NULL;
    struct discover *discover = calloc(1, sizeof *discover);
    if (!discover) {
        snprintf(why, why_size, "discovery: out of memory");
        return -ENOMEM;
    }
    discover->setup = *setup;
    discover->next_at = UINT64_MAX;
    int rc = build(discover, why, why_size);
    discover->setup.interface = NULL; /* borrowed for the call only */
    discover->setup.seeds = NULL;
    if (rc == 0)
        *out = discover;
    else
        discover_destroy(&discover);
    return rc;
}

void
discover_destroy(struct discover **out)
{
    struct discover *discover = out ? *out : NULL;
    if (!discover)
        return;
    for (size_t i = 0; i < discover->udp_count; i++)
        close(discover->udp[i].fd);
    if (discover->zbeacon) {
        zactor_destroy(&discover->zbeacon);
        atomic_flag_clear(&zbeacon_taken);
    }
    resolve_destroy(&discover->resolve);
    free(discover->known);
    free(discover);
    *out = NULL;
}

const char *
discover_address(const struct discover *discover)
{
    return discover->address;
}

bool
discover_has_zbeacon(const struct discover *discover)
{
    return discover->zbeacon != NULL;
}

size_t
discover_fds(const struct discover *discover, int fds[DISCOVER_FDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < discover->udp_count; i++)
        fds[count++] = discover->udp[i].fd;
    if (discover->zbeacon)
        fds[count++] = discover->zbeacon_fd;
    return count;
}

static void
zbeacon_publish(struct discover *discover, int interval_ms)
{
    if (discover->zbeacon)
        zsock_send(discover->zbeacon, "sbi", "PUBLISH", discover->beacon, discover->beacon_size,
                   interval_ms);
}

static void
encode(struct discover *discover, uint16_t control_port)
{
    struct proto_beacon beacon = {discover->setup.self, discover->setup.group, control_port};
    discover->beacon_size = proto_beacon_encode(&beacon, discover->beacon);
}

/* A network that is down, full or gone makes this fail; the next beacon tries again. */
static void
udp_send(const struct discover *discover)
{
    fail_hit(FAIL_BEACON_SEND, NULL, 0);
    for (size_t i = 0; i < discover->udp_count; i++) {
        const struct socket_udp *udp = &discover->udp[i];
        ssize_t sent = sendto(udp->fd, discover->beacon, discover->beacon_size, MSG_NOSIGNAL,
                              (const struct sockaddr *)&udp->to, sizeof udp->to);
        (void)sent;
    }
}

void
discover_publish(struct discover *discover, uint64_t now, uint16_t control_port)
{
    assert(control_port != 0);
    encode(discover, control_port);
    if (discover->zbeacon)
        zsock_send(discover->zbeacon, "sb", "SUBSCRIBE", discover->beacon, (size_t)PREFIX_SIZE);
    zbeacon_publish(discover, FAST_MS);
    discover->slow_from = now + FAST_FOR_MS * 1000;
    discover->next_at = now;
}

void
discover_leave(struct discover *discover)
{
    if (discover->beacon_size == 0)
        return;
    encode(discover, 0);
    zbeacon_publish(discover, SLOW_MS);
    udp_send(discover);
    discover->next_at = UINT64_MAX;
}

static void
report(const struct discover *discover, const char *host, const uint8_t *data, size_t size,
       discover_found *found, void *ctx)
{
    struct proto_beacon beacon;
    struct proto_endpoint at;
    if (proto_beacon_decode(&beacon, data, size) != 0 || beacon.group != discover->setup.group ||
        beacon.node.id == discover->setup.self.id)
        return;
    if (beacon.control_port ==
        0) /* it leaves; it says so on its connection too, where we believe it */
        return;
    snprintf(at.host, sizeof at.host, "%s", host);
    at.control_port = beacon.control_port;
    found(ctx, &at, beacon.node);
}

static size_t
udp_read(const struct discover *discover, const struct socket_udp *udp, size_t budget,
         discover_found *found, void *ctx)
{
    size_t got = 0;
    for (; got < budget; got++) {
        uint8_t data[PROTO_BEACON_MAX + 1];
        struct sockaddr_in from;
        socklen_t from_size = sizeof from;
        ssize_t size =
            recvfrom(udp->fd, data, sizeof data, 0, (struct sockaddr *)&from, &from_size);
        if (size < 0)
            break;
        char host[INET_ADDRSTRLEN];
        fail_hit(FAIL_BEACON_GOT, data, (size_t)size);
        if (inet_ntop(AF_INET, &from.sin_addr, host, sizeof host))
            report(discover, host, data, (size_t)size, found, ctx);
    }
    return got;
}

/* A beacon is two frames: address, datagram. */
static size_t
zbeacon_read(const struct discover *discover, size_t budget, discover_found *found, void *ctx)
{
    size_t got = 0;
    for (; got < budget; got++) {
        char host[PROTO_HOST_MAX];
        uint8_t data[PROTO_BEACON_MAX + 1];
        int host_size = zmq_recv(discover->zbeacon_socket, host, sizeof host - 1, ZMQ_DONTWAIT);
        if (host_size < 0)
            break;
        int size = zmq_recv(discover->zbeacon_socket, data, sizeof data, ZMQ_DONTWAIT);
        if (size < 0 || host_size >= (int)sizeof host || size > (int)sizeof data)
            continue;
        host[host_size] = '\0';
        report(discover, host, data, (size_t)size, found, ctx);
    }
    return got;
}

bool
discover_read(struct discover *discover, discover_found *found, void *ctx)
{
    bool more = false;
    for (size_t i = 0; i < discover->udp_count; i++)
        more |= udp_read(discover, &discover->udp[i], READ_MAX, found, ctx) == READ_MAX;
    if (discover->zbeacon)
        more |= zbeacon_read(discover, READ_MAX, found, ctx) == READ_MAX;
    return more;
}

static void
report_seeds(struct discover *discover, discover_found *found, void *ctx)
{
    size_t count = resolve_known(discover->resolve, discover->known, SEEDS_SHOWN);
    for (size_t i = 0; i < count; i++)
        found(ctx, &discover->known[i], (struct proto_node){0, 0});
}

uint64_t
discover_tick(struct discover *discover, uint64_t now, discover_found *found, void *ctx)
{
    if (now < discover->next_at || discover->beacon_size == 0)
        return discover->next_at;
    bool slow = now >= discover->slow_from;
    udp_send(discover);
    report_seeds(discover, found, ctx);
    if (slow && !discover->zbeacon_slow) {
        zbeacon_publish(discover, SLOW_MS);
        discover->zbeacon_slow = true;
    }
    discover->next_at = now + (slow ? SLOW_MS : FAST_MS) * 1000;
    return discover->next_at;
}

/* discover.c - zbeacon on one interface, UDP sockets on the rest, seeds.
 *
 * Each interface in use is a source. look_again() makes the sources those that iface_select names now. */
#include "mesh/net/discover.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <czmq.h>

#include "mesh/net/discover_iface.h"
#include "mesh/net/discover_resolve.h"
#include "proto/fail.h"

enum {
    PORT_DISCARD = 9, /* no datagram is sent to it: it only names a way */
    FAST_MS = 100,    /* between beacons in the first FAST_FOR_MS, so that nodes meet quickly */
    FAST_FOR_MS = 3000,
    SLOW_MS = 250,     /* what was split by the network is to be one soon after */
    LOOK_MS = 500,     /* between two looks at the interfaces */
    READ_MAX = 16,     /* beacons per call of discover_read and source */
    PREFIX_SIZE = 5,   /* bytes all our beacons start with: zbeacon filters by them */
    SEEDS_SHOWN = 256, /* addresses of seeds reported per tick */
};

struct source {
    struct iface iface;
    int fd; /* UDP; -1: zbeacon serves it */
};

struct discover {
    struct discover_setup setup; /* .interface and .seeds are not kept */
    char *interface;             /* the one that was asked for, or NULL */
    char address[INET_ADDRSTRLEN];
    struct source source[IFACES_MAX];
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
};

static atomic_flag zbeacon_taken = ATOMIC_FLAG_INIT;

__attribute__((format(printf, 3, 4))) static void
say(const struct discover *discover, int level, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (discover->setup.log)
        discover->setup.log(discover->setup.log_ctx, level, line);
}

static struct sockaddr_in
broadcast_of(const struct discover *discover, const struct iface *iface)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(discover->setup.port),
                                .sin_addr = iface->broadcast};
}

/* A socket bound to a broadcast address hears that subnet's broadcasts and nothing else; SO_REUSEADDR
 * lets all nodes of a host do so. Returns it or a negative errno. */
static int
udp_open(const struct discover *discover, const struct iface *iface)
{
    int one = 1;
    struct sockaddr_in at = broadcast_of(discover, iface);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
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

static void
zbeacon_close(struct discover *discover)
{
    if (!discover->zbeacon)
        return;
    zactor_destroy(&discover->zbeacon);
    atomic_flag_clear(&zbeacon_taken);
}

static void
zbeacon_publish(struct discover *discover, int interval_ms)
{
    if (discover->zbeacon)
        zsock_send(discover->zbeacon, "sbi", "PUBLISH", discover->beacon, discover->beacon_size,
                   interval_ms);
}

static void
zbeacon_start(struct discover *discover)
{
    if (discover->zbeacon)
        zsock_send(discover->zbeacon, "sb", "SUBSCRIBE", discover->beacon, (size_t)PREFIX_SIZE);
    zbeacon_publish(discover, FAST_MS);
}

/* Would a broadcast into this network leave from this address without our help? Not from the second of two addresses
 * in a network. */
static bool
leaves_from(const struct iface *iface)
{
    int one = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT_DISCARD)}, from = {0};
    socklen_t size = sizeof from;
    to.sin_addr = iface->broadcast;
    bool known = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) == 0 &&
                 connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
                 getsockname(fd, (struct sockaddr *)&from, &size) == 0;
    if (fd >= 0)
        close(fd);
    return known && from.sin_addr.s_addr == iface->address.s_addr;
}

/* True when zbeacon serves `iface`; false leaves it to a UDP socket. zbeacon takes the first address of the interface
 * that it is given by name. */
static bool
zbeacon_open(struct discover *discover, const struct iface *iface)
{
    if (iface->loopback || !leaves_from(iface) || atomic_flag_test_and_set(&zbeacon_taken))
        return false;
    czmq_tame();
    zsys_set_interface(iface->name);
    discover->zbeacon = zactor_new(zbeacon, NULL);
    char *host = NULL;
    if (discover->zbeacon) {
        zsock_send(discover->zbeacon, "si", "CONFIGURE", (int)discover->setup.port);
        host = zstr_recv(discover->zbeacon);
    }
    char address[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &iface->address, address, sizeof address);
    bool works = host && strcmp(host, address) == 0;
    zstr_free(&host);
    if (works) {
        discover->zbeacon_socket = zsock_resolve(discover->zbeacon);
    } else {
        zactor_destroy(&discover->zbeacon);
        atomic_flag_clear(&zbeacon_taken);
    }
    return works;
}

/* ---- sources ---- */

static bool
same(const struct iface *a, const struct iface *b)
{
    return strcmp(a->name, b->name) == 0 && a->address.s_addr == b->address.s_addr &&
           a->broadcast.s_addr == b->broadcast.s_addr;
}

static bool
serves(const struct discover *discover, const struct iface *iface)
{
    for (size_t i = 0; i < discover->source_count; i++)
        if (same(&discover->source[i].iface, iface))
            return true;
    return false;
}

/* 0 or -errno; -EADDRINUSE and -EACCES are about the port. */
static int
source_open(struct discover *discover, const struct iface *iface)
{
    int fd = udp_open(discover, iface);
    if (fd < 0)
        return fd;
    if (zbeacon_open(discover, iface)) {
        close(fd);
        fd = -1;
    }
    discover->source[discover->source_count++] = (struct source){*iface, fd};
    return 0;
}

static void
source_close(struct discover *discover, size_t i)
{
    if (discover->source[i].fd >= 0)
        close(discover->source[i].fd);
    else
        zbeacon_close(discover);
    discover->source[i] = discover->source[--discover->source_count];
}

/* Close the sources that are not in list. */
static void
close_gone(struct discover *discover, const struct iface *list, size_t count)
{
    for (size_t i = discover->source_count; i-- > 0;) {
        const struct iface gone = discover->source[i].iface;
        size_t k = 0;
        while (k < count && !same(&gone, &list[k]))
            k++;
        if (k < count)
            continue;
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &gone.address, address, sizeof address);
        say(discover, 5, "network interface %s %s is gone", gone.name, address);
        source_close(discover, i);
    }
}

/* Open what is in list and not served. What fails is tried again with the next look. Returns how many came. */
static size_t
open_new(struct discover *discover, const struct iface *list, size_t count)
{
    size_t opened = 0;
    for (size_t i = 0; i < count; i++) {
        if (serves(discover, &list[i]) || source_open(discover, &list[i]) != 0)
            continue;
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &list[i].address, address, sizeof address);
        say(discover, 5, "network interface %s %s has come", list[i].name, address);
        opened++;
    }
    return opened;
}

static void
set_address(struct discover *discover, const struct iface *first)
{
    if (discover->interface)
        inet_ntop(AF_INET, &first->address, discover->address, sizeof discover->address);
    else
        snprintf(discover->address, sizeof discover->address, "*");
}

static void
look_again(struct discover *discover, uint64_t now)
{
    const struct iface *list = discover->wanted;
    struct why why;
    if (iface_select(discover->interface, discover->wanted, &discover->wanted_count, &why) != 0)
        discover->wanted_count = 0;
    close_gone(discover, list, discover->wanted_count);
    if (discover->wanted_count > 0)
        set_address(discover, &list[0]);
    if (open_new(discover, list, discover->wanted_count) > 0) {
        discover->slow_from = now + FAST_FOR_MS * 1000;
        discover->slow = false;
        zbeacon_start(discover);
    }
}

/* At the start what is wrong is said instead. */
static int
open_all(struct discover *discover, struct why *why)
{
    const struct iface *list = discover->wanted;
    int rc = iface_select(discover->interface, discover->wanted, &discover->wanted_count, why);
    if (rc != 0)
        return rc;
    set_address(discover, &list[0]);
    for (size_t i = 0; i < discover->wanted_count; i++) {
        rc = source_open(discover, &list[i]);
        if (rc == -EADDRINUSE || rc == -EACCES)
            return why_error(why, rc, "beacon port %u (UDP) on interface %s: %s",
                             discover->setup.port, list[i].name, strerror(-rc));
    }
    return 0;
}

/* ---- life ---- */

static int
build(struct discover *discover, struct why *why)
{
    const char *interface = discover->setup.interface;
    discover->known = calloc(SEEDS_SHOWN, sizeof *discover->known);
    discover->interface = interface ? strdup(interface) : NULL;
    int rc = discover->known && (!interface || discover->interface) ? 0 : -ENOMEM;
    if (rc == 0)
        rc = resolve_new(&discover->resolve, discover->setup.seeds, discover->setup.seed_count);
    discover->setup.interface = NULL; /* both were borrowed for the call only */
    discover->setup.seeds = NULL;
    if (rc != 0)
        return why_error(why, rc, "discovery: %s", strerror(-rc));
    return open_all(discover, why);
}

int
discover_new(struct discover **out, const struct discover_setup *setup, struct why *why)
{
    assert(setup->port != 0);
    assert(setup->self.id != 0);
    *out = NULL;
    struct discover *discover = calloc(1, sizeof *discover);
    if (!discover)
        return why_error(why, -ENOMEM, "discovery: out of memory");
    discover->setup = *setup;
    discover->next_at = UINT64_MAX;
    int rc = build(discover, why);
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
    while (discover->source_count > 0)
        source_close(discover, discover->source_count - 1);
    resolve_destroy(&discover->resolve);
    free(discover->interface);
    free(discover->known);
    free(discover);
    *out = NULL;
}

const char *
discover_address(const struct discover *discover)
{
    return discover->address;
}

void
discover_print(const struct discover *discover, bool addresses, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < discover->wanted_count && used < size; i++) {
        const struct iface *iface = &discover->wanted[i];
        char address[INET_ADDRSTRLEN];
        if (iface->loopback && i > 0)
            continue;
        inet_ntop(AF_INET, &iface->address, address, sizeof address);
        int put = snprintf(out + used, size - used, "%s%s%s%s", i > 0 ? ", " : "", iface->name,
                           addresses ? " " : "", addresses ? address : "");
        used += put > 0 ? (size_t)put : 0;
    }
}

void
discover_reach(const struct discover *discover, char out[INET_ADDRSTRLEN])
{
    out[0] = '\0';
    if (discover->wanted_count > 0)
        inet_ntop(AF_INET, &discover->wanted[0].address, out, INET_ADDRSTRLEN);
}

bool
discover_has_zbeacon(const struct discover *discover)
{
    return discover->zbeacon != NULL;
}

static void
encode(struct discover *discover, uint16_t control_port)
{
    struct proto_beacon beacon = {discover->setup.self, discover->setup.group, control_port};
    discover->beacon_size = proto_beacon_encode(&beacon, discover->beacon);
}

/* Into the network of this source, from its interface and address, whatever other way the system would choose. */
static ssize_t
udp_send_from(struct discover *discover, const struct source *source)
{
    struct sockaddr_in to = broadcast_of(discover, &source->iface);
    struct in_pktinfo way = {.ipi_ifindex = (int)if_nametoindex(source->iface.name),
                             .ipi_spec_dst = source->iface.address};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof way)];
    } control = {0};
    struct iovec data = {.iov_base = discover->beacon, .iov_len = discover->beacon_size};
    struct msghdr msg = {.msg_name = &to,
                         .msg_namelen = sizeof to,
                         .msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = IPPROTO_IP;
    head->cmsg_type = IP_PKTINFO;
    head->cmsg_len = CMSG_LEN(sizeof way);
    memcpy(CMSG_DATA(head), &way, sizeof way);
    return sendmsg(source->fd, &msg, MSG_NOSIGNAL);
}

/* A network that is down, full or gone makes this fail; the next beacon tries again. */
static void
udp_send(struct discover *discover)
{
    fail_hit(FAIL_BEACON_SEND, NULL, 0);
    for (size_t i = 0; i < discover->source_count; i++) {
        const struct source *source = &discover->source[i];
        if (source->fd < 0)
            continue;
        ssize_t sent = udp_send_from(discover, source);
        (void)sent;
    }
}

void
discover_publish(struct discover *discover, uint64_t now, uint16_t control_port)
{
    assert(control_port != 0);
    encode(discover, control_port);
    zbeacon_start(discover);
    discover->slow_from = now + FAST_FOR_MS * 1000;
    discover->look_at = now + LOOK_MS * 1000;
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
udp_read(const struct discover *discover, int fd, size_t budget, discover_found *found, void *ctx)
{
    size_t got = 0;
    for (; got < budget; got++) {
        uint8_t data[PROTO_BEACON_MAX + 1];
        struct sockaddr_in from;
        socklen_t from_size = sizeof from;
        ssize_t size = recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &from_size);
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
    for (size_t i = 0; i < discover->source_count; i++)
        if (discover->source[i].fd >= 0)
            more |= udp_read(discover, discover->source[i].fd, READ_MAX, found, ctx) == READ_MAX;
    if (discover->zbeacon)
        more |= zbeacon_read(discover, READ_MAX, found, ctx) == READ_MAX;
    return more;
}

static void
tell_names(struct discover *discover)
{
    struct proto_endpoint name;
    char address[PROTO_HOST_MAX];
    while (resolve_news(discover->resolve, &name, address))
        if (address[0])
            say(discover, 5, "the address of %s (--peer) is %s", name.host, address);
        else
            say(discover, 4, "cannot find the address of %s (--peer): trying again", name.host);
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
    if (now >= discover->look_at) {
        look_again(discover, now);
        discover->look_at = now + LOOK_MS * 1000;
    }
    bool slow = now >= discover->slow_from;
    udp_send(discover);
    tell_names(discover);
    report_seeds(discover, found, ctx);
    if (slow && !discover->slow)
        zbeacon_publish(discover, SLOW_MS);
    discover->slow = slow;
    discover->next_at = now + (slow ? SLOW_MS : FAST_MS) * 1000;
    return discover->next_at;
}

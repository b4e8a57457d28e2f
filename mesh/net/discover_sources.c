/* discover_sources.c - one way out per network interface: a UDP socket, or CZMQ's zbeacon, which serves one interface
 * of one mesh in a process. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mesh/net/discover_internal.h"

enum {
    PORT_DISCARD = 9, /* no datagram is sent to it: it only names a way */
    PREFIX_SIZE = 4,  /* bytes that beacons of all versions start with: zbeacon filters by them */
};

static atomic_flag zbeacon_taken = ATOMIC_FLAG_INIT;

void
discover_log(const struct discover *discover, int level, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (discover->setup.log)
        discover->setup.log(discover->setup.log_ctx, level, line);
}

/* The group of our nodes on a link: not permanent, of the link (RFC 4291, 2.7), "mesh". */
static struct sockaddr_in6
group_target(uint16_t port, const struct iface *iface)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                              .sin6_port = htons(port),
                              .sin6_scope_id = if_nametoindex(iface->name)};
    memcpy(&to.sin6_addr, "\xff\x12\0\0\0\0\0\0\0\0\0\0mesh", sizeof to.sin6_addr);
    return to;
}

socklen_t
discover_target(const struct discover *discover, const struct iface *iface,
                struct sockaddr_storage *out)
{
    uint16_t port = discover->setup.port;
    struct sockaddr_in broadcast = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = iface->broadcast};
    if (!iface->v6) {
        memcpy(out, &broadcast, sizeof broadcast);
        return sizeof broadcast;
    }
    struct sockaddr_in6 group = group_target(port, iface);
    memcpy(out, &group, sizeof group);
    return sizeof group;
}

/* May this socket send to the target, and hear what comes to it? */
static bool
udp_allow(int fd, const struct iface *iface)
{
    int one = 1;
    struct sockaddr_in6 group = group_target(0, iface);
    struct ipv6_mreq join = {group.sin6_addr, group.sin6_scope_id};
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
        return false;
    return iface->v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &join, sizeof join) == 0
                     : setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) == 0;
}

/* A socket bound to a broadcast address, or to a group, hears what goes there and nothing else; SO_REUSEADDR lets all
 * nodes of a host do so. Returns it or a negative errno. */
static int
udp_open(const struct discover *discover, const struct iface *iface)
{
    struct sockaddr_storage at;
    socklen_t size = discover_target(discover, iface, &at);
    int fd = socket(at.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (!udp_allow(fd, iface) || bind(fd, (struct sockaddr *)&at, size) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

/* CZMQ by itself catches signals and writes to the terminal, and it aborts on a multicast address. */
static void
czmq_configure(void)
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

void
discover_zbeacon_publish(struct discover *discover, int interval_ms)
{
    if (discover->zbeacon)
        zsock_send(discover->zbeacon, "sbi", "PUBLISH", discover->beacon, discover->beacon_size,
                   interval_ms);
}

void
discover_zbeacon_start(struct discover *discover)
{
    if (discover->zbeacon)
        zsock_send(discover->zbeacon, "sb", "SUBSCRIBE", discover->beacon, (size_t)PREFIX_SIZE);
    discover_zbeacon_publish(discover, FAST_MS);
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
    if (iface->loopback || iface->v6 || !leaves_from(iface) ||
        atomic_flag_test_and_set(&zbeacon_taken))
        return false;
    czmq_configure();
    zsys_set_interface(iface->name);
    discover->zbeacon = zactor_new(zbeacon, NULL);
    char *host = NULL;
    if (discover->zbeacon) {
        zsock_send(discover->zbeacon, "si", "CONFIGURE", (int)discover->setup.port);
        host = zstr_recv(discover->zbeacon);
    }
    bool works = host && strcmp(host, iface->text) == 0;
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
iface_same(const struct iface *a, const struct iface *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->text, b->text) == 0 &&
           a->broadcast.s_addr == b->broadcast.s_addr;
}

static bool
serves(const struct discover *discover, const struct iface *iface)
{
    for (size_t i = 0; i < discover->source_count; i++)
        if (iface_same(&discover->source[i].iface, iface))
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
    discover->source[discover->source_count++] = (struct discover_source){*iface, fd};
    return 0;
}

void
discover_source_close(struct discover *discover, size_t i)
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
        while (k < count && !iface_same(&gone, &list[k]))
            k++;
        if (k < count)
            continue;
        discover_log(discover, 5, "network interface %s %s is gone", gone.name, gone.text);
        discover_source_close(discover, i);
    }
}

/* Open what is in list and not served. What fails is tried again with the next look. Returns how many came. */
static size_t
open_new(struct discover *discover, const struct iface *list, size_t count)
{
    size_t opened = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].mute || serves(discover, &list[i]) || source_open(discover, &list[i]) != 0)
            continue;
        discover_log(discover, 5, "network interface %s %s has come", list[i].name, list[i].text);
        opened++;
    }
    return opened;
}

static void
set_address(struct discover *discover, const struct iface *first)
{
    snprintf(discover->address, sizeof discover->address, "%s",
             discover->interface ? first->text : "*");
}

void
discover_sources_look(struct discover *discover, uint64_t now)
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
        discover_zbeacon_start(discover);
    }
}

int
discover_sources_open(struct discover *discover, struct why *why)
{
    const struct iface *list = discover->wanted;
    int rc = iface_select(discover->interface, discover->wanted, &discover->wanted_count, why);
    if (rc != 0)
        return rc;
    set_address(discover, &list[0]);
    for (size_t i = 0; i < discover->wanted_count; i++) {
        rc = list[i].mute ? 0 : source_open(discover, &list[i]);
        if (rc == -EADDRINUSE || rc == -EACCES)
            return why_error(why, rc, "beacon port %u (UDP) on interface %s: %s",
                             discover->setup.port, list[i].name, strerror(-rc));
    }
    return 0;
}

/* discover.c - zbeacon on one interface, UDP sockets on the rest, seeds.
 *
 * Each interface in use is a source: discover_sources.c makes the sources those that iface_select names now. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): in6_pktinfo */
#include "mesh/net/discover.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mesh/net/discover_internal.h"
#include "proto/clock.h"
#include "proto/fail.h"

enum {
    SLOW_MS = 250,     /* what was split by the network is to be one soon after */
    LOOK_MS = 500,     /* between two looks at the interfaces */
    READ_MAX = 16,     /* beacons per call of discover_read and source */
    SEEDS_SHOWN = 256, /* addresses of seeds reported per tick */
};

/* ---- life ---- */

static int
discover_build(struct discover *discover, struct why *why)
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
    return discover_sources_open(discover, why);
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
    discover->packets = setup->curious ? packets_open(setup->port) : -1;
    int rc = discover_build(discover, why);
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
        discover_source_close(discover, discover->source_count - 1);
    resolve_destroy(&discover->resolve);
    if (discover->packets >= 0)
        close(discover->packets);
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
    size_t count = discover->wanted_count; /* loopback comes last */
    while (count > 1 && discover->wanted[count - 1].loopback)
        count--;
    iface_print(discover->wanted, count, addresses, out, size);
}

bool
discover_reach(const struct discover *discover, char out[INET6_ADDRSTRLEN])
{
    const struct iface *best = &discover->wanted[0];
    snprintf(out, INET6_ADDRSTRLEN, "%s", discover->wanted_count > 0 ? best->text : "");
    return discover->wanted_count > 0 && best->mute;
}

static void
encode(struct discover *discover, uint16_t control_port)
{
    struct proto_beacon beacon = {discover->setup.self, discover->setup.group, control_port};
    discover->beacon_size = proto_beacon_encode(&beacon, discover->beacon);
}

/* The interface and the address from which a datagram goes, whatever the system would choose. Fills the message's
 * control data. */
static void
udp_say_from(struct msghdr *msg, const struct iface *iface)
{
    unsigned index = if_nametoindex(iface->name);
    struct in_pktinfo way = {.ipi_ifindex = (int)index, .ipi_spec_dst = iface->address};
    struct in6_pktinfo way6 = {.ipi6_addr = iface->address6, .ipi6_ifindex = index};
    size_t size = iface->v6 ? sizeof way6 : sizeof way;
    struct cmsghdr *head = CMSG_FIRSTHDR(msg);
    head->cmsg_level = iface->v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    head->cmsg_type = iface->v6 ? IPV6_PKTINFO : IP_PKTINFO;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), iface->v6 ? (void *)&way6 : (void *)&way, size);
    msg->msg_controllen = CMSG_SPACE(size);
}

/* Into the network of this source. */
static ssize_t
udp_send_from(struct discover *discover, const struct discover_source *source)
{
    struct sockaddr_storage to;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    } control = {0};
    struct iovec data = {.iov_base = discover->beacon, .iov_len = discover->beacon_size};
    struct msghdr msg = {.msg_name = &to,
                         .msg_namelen = discover_target(discover, &source->iface, &to),
                         .msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof control.room};
    udp_say_from(&msg, &source->iface);
    return sendmsg(source->fd, &msg, MSG_NOSIGNAL);
}

/* A network that is down, full or gone makes this fail; the next beacon tries again. */
static void
udp_send(struct discover *discover)
{
    fail_hit(FAIL_BEACON_SEND, NULL, 0);
    for (size_t i = 0; i < discover->source_count; i++) {
        const struct discover_source *source = &discover->source[i];
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
    discover_zbeacon_start(discover);
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
    discover_zbeacon_publish(discover, SLOW_MS);
    udp_send(discover);
    discover->next_at = UINT64_MAX;
}

static enum network_kind
beacon_kind(const struct discover *discover, int rc, const struct proto_beacon *beacon)
{
    if (rc != 0)
        return NETWORK_OTHER_VERSION;
    if (beacon->group != discover->setup.group)
        return NETWORK_OTHER_GROUP;
    return NETWORK_OURS;
}

/* All but farewells and our own. */
static void
note_beacon(struct discover *discover, const char *host, int rc, const struct proto_beacon *beacon)
{
    struct network_beacon note = {.kind = beacon_kind(discover, rc, beacon), .at_us = clock_us()};
    if (rc == 0) {
        note.node = beacon->node;
        note.port = beacon->control_port;
    }
    bool own = rc == 0 && note.node.id == discover->setup.self.id;
    if (own || (rc == 0 && note.port == 0) || (rc != 0 && rc != -EPROTONOSUPPORT))
        return;
    snprintf(note.host, sizeof note.host, "%s", host);
    heard_note(&discover->heard, &note);
}

static void
discover_report(struct discover *discover, const char *host, const uint8_t *data, size_t size,
                discover_found *found, void *ctx)
{
    struct proto_beacon beacon;
    struct proto_endpoint at;
    int rc = proto_beacon_decode(&beacon, data, size);
    note_beacon(discover, host, rc, &beacon);
    if (rc != 0 || beacon.node.id == discover->setup.self.id ||
        (beacon.group != discover->setup.group && !discover->setup.curious))
        return;
    if (beacon.control_port ==
        0) /* it leaves; it says so on its connection too, where we believe it */
        return;
    snprintf(at.host, sizeof at.host, "%s", host);
    at.control_port = beacon.control_port;
    found(ctx, &at, beacon.node);
}

static size_t
udp_read(struct discover *discover, int fd, size_t budget, discover_found *found, void *ctx)
{
    size_t got = 0;
    for (; got < budget; got++) {
        uint8_t data[PROTO_BEACON_MAX + 1];
        struct sockaddr_storage from;
        socklen_t from_size = sizeof from;
        ssize_t size = recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &from_size);
        if (size < 0)
            break;
        char host[INET6_ADDRSTRLEN];
        fail_hit(FAIL_BEACON_GOT, data, (size_t)size);
        if (getnameinfo((struct sockaddr *)&from, from_size, host, sizeof host, NULL, 0,
                        NI_NUMERICHOST) == 0)
            discover_report(discover, host, data, (size_t)size, found, ctx);
    }
    return got;
}

/* A beacon is two frames: address, datagram. */
static size_t
zbeacon_read(struct discover *discover, size_t budget, discover_found *found, void *ctx)
{
    size_t got = 0;
    for (; got < budget; got++) {
        char host[PROTO_HOST_MAX];
        uint8_t data[PROTO_BEACON_MAX + 1];
        int host_size = zmq_recv(discover->zbeacon_socket, host, sizeof host - 1, ZMQ_DONTWAIT);
        if (host_size < 0)
            break;
        int size = zmq_recv(discover->zbeacon_socket, data, sizeof data, ZMQ_DONTWAIT);
        if (size < 0 || host_size >= (int)sizeof host)
            continue;
        if (size > (int)sizeof data) /* it was cut: that of another version may be longer */
            size = sizeof data;
        host[host_size] = '\0';
        discover_report(discover, host, data, (size_t)size, found, ctx);
    }
    return got;
}

/* Those of the interfaces on which we listen. */
static void
packets_read(struct discover *discover)
{
    struct network_beacon beacon;
    char interface[IF_NAMESIZE];
    for (int i = 0; i < READ_MAX; i++) {
        if (!packets_next(discover->packets, discover->setup.group, &beacon, interface))
            return;
        beacon.at_us = clock_us();
        for (size_t k = 0; k < discover->source_count; k++)
            if (strcmp(discover->source[k].iface.name, interface) == 0)
                heard_note(&discover->heard, &beacon);
    }
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
    if (discover->packets >= 0)
        packets_read(discover);
    return more;
}

static void
tell_names(struct discover *discover)
{
    struct proto_endpoint name;
    char address[PROTO_HOST_MAX];
    while (resolve_news(discover->resolve, &name, address))
        if (address[0])
            discover_log(discover, 5, "the address of %s (--peer) is %s", name.host, address);
        else
            discover_log(discover, 4, "cannot find the address of %s (--peer): trying again",
                         name.host);
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
        discover_sources_look(discover, now);
        discover->look_at = now + LOOK_MS * 1000;
    }
    bool slow = now >= discover->slow_from;
    udp_send(discover);
    tell_names(discover);
    report_seeds(discover, found, ctx);
    if (slow && !discover->slow)
        discover_zbeacon_publish(discover, SLOW_MS);
    discover->slow = slow;
    discover->next_at = now + (slow ? SLOW_MS : FAST_MS) * 1000;
    return discover->next_at;
}

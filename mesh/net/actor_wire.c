/* actor_wire.c - the bound sockets of a node, from birth to death, and which event is whose. */
#include "mesh/net/actor_wire.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <zmq.h>

#include "mesh/net/actor_wire_internal.h"
#include "proto/clock.h"

enum {
    CONTROL_BUDGET = 256, /* messages per wire_ready */
    BULK_BUDGET = 8,      /* the same for bulk: a few milliseconds of adding at most */
    KEEPALIVE_S = 4, /* of TCP, where we listen: a peer that lost power never says that it goes */
    BACKLOG = 512,
    SOCKETS_MAX = 8 * WIRE_LINKS_MAX,
    /* For the guard. ZeroMQ reads 8 KiB ahead, and wraps each frame in a few bytes. */
    MARGIN = 1 << 16,
    CONTROL_MAX = PROTO_FRAME_MAX + PROTO_JOB_MAX + MARGIN,
    BULK_MAX = PROTO_FRAME_MAX + PROTO_BLOCK_MAX + MARGIN,
    STRANGER_MAX = 1 << 16, /* on bulk the first message is a greeting of 17 bytes */
    OUT_MAX = 1 << 16,
};

const struct core_wire wire_for_core = {
    .connect = wire_connect,
    .disconnect = wire_disconnect,
    .send = wire_send,
    .send_bulk = wire_send_bulk,
    .make = wire_make,
    .pass_on = wire_pass_on,
    .peer_up = wire_peer_up,
    .peer_down = wire_peer_down,
    .keep = wire_keep,
    .release = wire_release,
};

/* What it sends is the kernel's: a peer that is stopped or busy answers. */
static void
set_keepalive(void *bound)
{
    wire_set(bound, ZMQ_TCP_KEEPALIVE, 1);
    wire_set(bound, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_S);
    wire_set(bound, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_S / 2);
    wire_set(bound, ZMQ_TCP_KEEPALIVE_CNT, 3);
}

bool
wire_ready(struct wire *wire, uint64_t tag)
{
    unsigned link = (unsigned)(tag & 0xffffffffu), left;
    assert(link < WIRE_LINKS_MAX);
    switch ((enum tag)(tag >> 32 & 0xff)) {
    case TAG_CONTROL:
        for (left = CONTROL_BUDGET; left && wire_receive_control(wire); left--)
            ;
        return left == 0;
    case TAG_BULK:
        for (left = BULK_BUDGET; left && wire_receive_bulk(wire); left--)
            ;
        return left == 0;
    case TAG_CONTROL_MONITOR:
        wire_read_monitor(wire, link, &wire->links[link].control);
        break;
    case TAG_BULK_MONITOR:
        wire_read_monitor(wire, link, &wire->links[link].bulk);
        break;
    case TAG_EXPRESS_MONITOR:
        wire_read_monitor(wire, link, &wire->links[link].express);
        break;
    case TAG_ROOM:
        if (wire->links[link].bulk.socket)
            wire_queue_send(wire, link);
        break;
    }
    return false;
}

/* Who has connected to our router or our pull socket since, and who has hung up. Returns whether anybody is left. */
static bool
read_callers(struct wire *wire, enum guard_plane plane)
{
    uint16_t event;
    int32_t fd;
    while (wire->accepted[plane] && wire_monitor_read(wire->accepted[plane], &event, &fd)) {
        bool comes = event == ZMQ_EVENT_ACCEPTED;
        if (comes)
            guard_add(wire->guard, fd, plane);
        wire->callers[plane] += comes ? 1 : -1;
    }
    return wire->callers[plane] > 0;
}

bool
wire_tick(struct wire *wire, uint64_t now)
{
    read_callers(wire, GUARD_CONTROL);
    read_callers(wire, GUARD_BULK);
    if (wire->trim_at && now >= wire->trim_at) {
        wire->trim_at = 0;
        malloc_trim(0);
    }
    return guard_check(wire->guard, now);
}

static void
on_ended(void *ctx, const char *who, uint64_t bytes)
{
    struct wire *wire = ctx;
    char host[GUARD_WHO_MAX], line[256];
    snprintf(host, sizeof host, "%.*s", (int)(strrchr(who, ':') - who), who);
    if (!wire_complains(wire, host, -EFBIG))
        return;
    snprintf(line, sizeof line,
             "closed the connection of %s: it sent %llu KiB of a message without an end", who,
             (unsigned long long)bytes >> 10);
    wire_log(wire, 4, line);
}

static int
new_guard(struct wire *wire)
{
    const struct guard_setup setup = {
        .limits = {[GUARD_CONTROL] = {CONTROL_MAX, CONTROL_MAX, 32 * CONTROL_MAX},
                   [GUARD_BULK] = {STRANGER_MAX, BULK_MAX, (WIRE_BULK_IN + 2) * BULK_MAX},
                   [GUARD_OUT] = {OUT_MAX, OUT_MAX, OUT_MAX}},
        .ended = on_ended,
        .ctx = wire};
    return guard_new(&wire->guard, &setup);
}

/* Both address families where the machine has both. */
static bool
has_v6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int
bind_to(void *socket, const char *address, uint16_t port)
{
    char endpoint[INET6_ADDRSTRLEN + 32];
    bool any = address[0] == '*', v6 = strchr(address, ':') != NULL;
    wire_set(socket, ZMQ_IPV6, v6 || (any && has_v6()));
    snprintf(endpoint, sizeof endpoint, v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", address, port);
    return zmq_bind(socket, endpoint) == 0 ? 0 : -zmq_errno();
}

/* The port asked for, or the first free one from `first` on. Returns the port or a negative errno. */
static int
bind_first(struct wire *wire, void *socket, uint16_t port, uint16_t first)
{
    if (port) {
        int rc = bind_to(socket, wire->setup.address, port);
        return rc != 0 ? rc : port;
    }
    for (unsigned p = first; p <= wire->setup.port_last; p++) {
        int rc = bind_to(socket, wire->setup.address, (uint16_t)p);
        if (rc != -EADDRINUSE)
            return rc != 0 ? rc : (int)p;
    }
    return -EADDRINUSE;
}

static int
bind_both(struct wire *wire, struct why *why)
{
    const struct wire_setup *setup = &wire->setup;
    void *const sockets[] = {wire->router, wire->pull};
    for (size_t i = 0; i < 2; i++)
        wire_set(sockets[i], ZMQ_BACKLOG, BACKLOG);
    int control = bind_first(wire, wire->router, setup->port, setup->port_first);
    int bulk = control;
    if (control > 0) {
        uint16_t next = control >= setup->port_first && control < setup->port_last
                            ? (uint16_t)(control + 1)
                            : setup->port_first;
        bulk = bind_first(wire, wire->pull, 0, next);
    }
    if (bulk > 0) {
        wire->control_port = (uint16_t)control;
        wire->bulk_port = (uint16_t)bulk;
        return 0;
    }
    if (setup->port && control < 0)
        why_set(why, "port %u on %s: %s; give another --port, or none", setup->port, setup->address,
                zmq_strerror(-bulk));
    else
        why_set(why, "ports %u to %u on %s: %s", setup->port_first, setup->port_last,
                setup->address, zmq_strerror(-bulk));
    return bulk;
}

/* Others call us back where our connections come from, so these come from where we listen. On loopback they do by
 * themselves. */
static void
set_source(struct wire *wire, const char *address)
{
    bool any = strcmp(address, "*") == 0 || strncmp(address, "127.", 4) == 0;
    snprintf(wire->source, sizeof wire->source, "%s", any ? "" : address);
}

int
wire_move(struct wire *wire, const char *address)
{
    void *const sockets[] = {wire->router, wire->pull};
    const uint16_t ports[] = {wire->control_port, wire->bulk_port};
    char before[INET6_ADDRSTRLEN + 32];
    size_t size = sizeof before;
    set_source(wire, address);
    for (size_t i = 0; i < 2; i++) {
        if (zmq_getsockopt(sockets[i], ZMQ_LAST_ENDPOINT, before, &size) == 0)
            zmq_unbind(sockets[i], before);
        size = sizeof before;
        int rc = bind_to(sockets[i], address, ports[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void *
new_context(void)
{
    void *context = zmq_ctx_new();
    if (context)
        zmq_ctx_set(context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    return context;
}

/* Connected before the socket is bound, and with room for any number of events: see connection_watch. */
static void *
watch_accepted(void *socket, void *context)
{
    static const char name[] = "inproc://monitor-bound";
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (!monitor)
        return NULL;
    wire_set(monitor, ZMQ_LINGER, 0);
    wire_set(monitor, ZMQ_RCVHWM, 0);
    if (zmq_socket_monitor(socket, name, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) == 0 &&
        zmq_connect(monitor, name) == 0)
        return monitor;
    zmq_close(monitor);
    return NULL;
}

static int
build(struct wire *wire)
{
    int rc = new_guard(wire);
    if (rc != 0)
        return rc;
    rc = wire_frames_new(wire);
    rc = rc ? rc : wire_buffers_new(wire);
    wire->control_ctx = new_context();
    wire->bulk_ctx = new_context();
    if (rc != 0 || !wire->control_ctx || !wire->bulk_ctx)
        return -ENOMEM;
    wire->sent.wire = wire;
    wire->router = zmq_socket(wire->control_ctx, ZMQ_ROUTER);
    if (!wire->router)
        return -zmq_errno();
    wire->pull = zmq_socket(wire->bulk_ctx, ZMQ_PULL);
    if (!wire->pull)
        return -zmq_errno();
    wire_set_control(wire->router);
    wire_set_bulk(wire->pull);
    set_keepalive(wire->router);
    set_keepalive(wire->pull);
    wire->accepted[GUARD_CONTROL] = watch_accepted(wire->router, wire->control_ctx);
    wire->accepted[GUARD_BULK] = watch_accepted(wire->pull, wire->bulk_ctx);
    return wire->accepted[GUARD_CONTROL] && wire->accepted[GUARD_BULK] ? 0 : -zmq_errno();
}

int
wire_new(struct wire **out, const struct wire_setup *setup, const struct wire_events *events,
         void *ctx, struct why *why)
{
    assert(setup->frames > 0);
    assert(setup->queue_size > 0);
    *out = NULL;
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return why_error(why, -ENOMEM, "sockets: out of memory");
    wire->setup = *setup;
    wire->events = *events;
    wire->ctx = ctx;
    pthread_mutex_init(&wire->pulse_lock, NULL);
    set_source(wire, setup->address);
    int rc = build(wire);
    if (rc != 0)
        why_set(why, "sockets: %s", zmq_strerror(-rc));
    else
        rc = bind_both(wire, why);
    wire->setup.address = NULL;
    if (rc != 0) {
        wire_destroy(&wire, 0);
        return rc;
    }
    wire_watch(wire, wire_socket_fd(wire->router), TAG_CONTROL, 0);
    wire_watch(wire, wire_socket_fd(wire->pull), TAG_BULK, 0);
    *out = wire;
    return 0;
}

static void
close_bound(void *socket, void *monitor)
{
    if (socket)
        zmq_socket_monitor(socket, NULL, 0);
    if (monitor)
        zmq_close(monitor);
    if (socket)
        zmq_close(socket);
}

/* To a peer, a bound socket that closes is a node that died. Who has read BYE hangs up, so wait for that. */
static void
wait_for_callers(struct wire *wire, int most_ms)
{
    zmq_pollitem_t item = {.socket = wire->accepted[GUARD_CONTROL], .events = ZMQ_POLLIN};
    uint64_t now = clock_us(), end = now + (uint64_t)most_ms * 1000;
    for (; read_callers(wire, GUARD_CONTROL) && now < end; now = clock_us())
        zmq_poll(&item, 1, (long)((end - now + 999) / 1000));
}

void
wire_destroy(struct wire **out, int linger_ms)
{
    struct wire *wire = out ? *out : NULL;
    if (!wire)
        return;
    for (unsigned i = 0; i < WIRE_LINKS_MAX; i++) {
        if (wire->links[i].control.socket)
            wire_set(wire->links[i].control.socket, ZMQ_LINGER, linger_ms);
        wire_close(wire, i);
    }
    wait_for_callers(wire, linger_ms);
    wire_frames_free(wire);
    close_bound(wire->router, wire->accepted[GUARD_CONTROL]);
    close_bound(wire->pull, wire->accepted[GUARD_BULK]);
    if (wire->bulk_ctx)
        zmq_ctx_term(wire->bulk_ctx); /* waits for the free functions of all zero-copy sends */
    if (wire->control_ctx)
        zmq_ctx_term(wire->control_ctx);
    wire_buffers_free(wire);
    guard_destroy(&wire->guard);
    pthread_mutex_destroy(&wire->pulse_lock);
    free(wire);
    *out = NULL;
}

uint16_t
wire_control_port(const struct wire *wire)
{
    return wire->control_port;
}

uint16_t
wire_bulk_port(const struct wire *wire)
{
    return wire->bulk_port;
}

void
wire_counts(const struct wire *wire, struct wire_counts *out)
{
    *out = wire->counts;
}

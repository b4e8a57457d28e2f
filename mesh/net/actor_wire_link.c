/* actor_wire_link.c - outgoing connections: opened, watched, and closed when they fail.
 *
 *             wire_connect           handshake                 wire_peer_up
 *     closed -------------> control --------------> link_up ----------------> control, bulk, express
 *       ^                      |                       |                           |
 *       +----------------------+-----------------------+---------------------------+
 *         wire_disconnect, wire_peer_down; one that fails: wire_settle, link_down */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "mesh/net/actor_wire_internal.h"
#include "mesh/net/discover_resolve.h"
#include "proto/clock.h"
#include "proto/fail.h"

enum {
    HEARTBEAT_MS = 500, /* ZeroMQ's own, on control: a backstop against half-open connections; */
    HEARTBEAT_DEAD_MS = 2000, /* as the core ends a silent session (CORE_FORGET_US) */
    CONNECT_MS = 400,         /* of TCP alone; a SYN that was lost is sent again only after 1 s */
    TRIM_US = 5000000,
};

/* Only where nothing is ever received: ZeroMQ (4.3.4, 4.3.5) aborts the process when it is to
 * ping on a broken connection whose input it had stopped, because nobody reads or the socket is being
 * closed. The other side answers, and ends the connection when no ping comes. */
static void
set_heartbeat(void *dealer)
{
    wire_set(dealer, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS);
    wire_set(dealer, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_DEAD_MS);
    wire_set(dealer, ZMQ_HEARTBEAT_TTL, HEARTBEAT_DEAD_MS);
}

/* The monitor is connected before the socket: ZeroMQ's I/O thread blocks on one that nobody reads. The
 * first read finds nothing; after it the descriptor tells when there is something. */
static int
connection_watch(struct wire *wire, struct connection *connection, void *context, enum tag tag,
                 unsigned link)
{
    char name[64];
    uint16_t event;
    int32_t fd;
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;
    snprintf(name, sizeof name, "inproc://monitor-%u", wire->serial);
    if (zmq_socket_monitor(connection->socket, name, events) != 0)
        return -zmq_errno();
    connection->monitor = zmq_socket(context, ZMQ_PAIR);
    if (!connection->monitor)
        return -zmq_errno();
    wire_set(connection->monitor, ZMQ_LINGER, 0);
    if (zmq_connect(connection->monitor, name) != 0)
        return -zmq_errno();
    wire_monitor_read(connection->monitor, &event, &fd);
    connection->monitor_fd = wire_socket_fd(connection->monitor);
    wire_watch(wire, connection->monitor_fd, tag, link);
    return 0;
}

/* Stop the monitor first, so that no I/O thread writes to a socket that is gone. */
static void
connection_close(struct wire *wire, struct connection *connection)
{
    if (connection->socket)
        zmq_socket_monitor(connection->socket, NULL, 0);
    if (connection->monitor) {
        wire_unwatch(wire, connection->monitor_fd);
        zmq_close(connection->monitor);
    }
    if (connection->socket)
        zmq_close(connection->socket);
    *connection = (struct connection){NULL, NULL, -1};
}

/* From the address that we listen on when that was chosen: the other side calls back there. */
static int
connection_connect(const struct wire *wire, struct connection *connection, const char *host,
                   uint16_t port)
{
    char endpoint[PROTO_HOST_MAX + INET6_ADDRSTRLEN + 32], from[INET6_ADDRSTRLEN + 8] = "";
    bool v6 = strchr(host, ':') != NULL, from_v6 = strchr(wire->source, ':') != NULL;
    if (wire->source[0] && v6 == from_v6)
        snprintf(from, sizeof from, v6 ? "[%s]:0;" : "%s:0;", wire->source);
    wire_set(connection->socket, ZMQ_IPV6, v6);
    wire_set(connection->socket, ZMQ_RECONNECT_IVL, -1);
    wire_set(connection->socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS);
    snprintf(endpoint, sizeof endpoint, v6 ? "tcp://%s[%s]:%u" : "tcp://%s%s:%u", from, host, port);
    return zmq_connect(connection->socket, endpoint) == 0 ? 0 : -zmq_errno();
}

static void
routing_id(struct wire *wire, uint8_t out[WIRE_ROUTING_SIZE])
{
    proto_node_encode(wire->setup.self, out);
    memcpy(out + PROTO_NODE_SIZE, &wire->serial, WIRE_SERIAL_SIZE);
}

static int
open_control(struct wire *wire, unsigned index, const struct proto_endpoint *to)
{
    struct connection *connection = &wire->links[index].control;
    uint8_t id[WIRE_ROUTING_SIZE];
    fail_hit(FAIL_CONNECT, NULL, 0);
    wire->serial++;
    routing_id(wire, id);
    if (!resolve_numeric(to->host)) /* looking a name up would stop the I/O thread */
        return -EINVAL;
    connection->socket = zmq_socket(wire->control_ctx, ZMQ_DEALER);
    if (!connection->socket)
        return -zmq_errno();
    wire_set_control(connection->socket);
    set_heartbeat(connection->socket);
    zmq_setsockopt(connection->socket, ZMQ_ROUTING_ID, id, sizeof id);
    int rc = connection_watch(wire, connection, wire->control_ctx, TAG_CONTROL_MONITOR, index);
    return rc != 0 ? rc : connection_connect(wire, connection, to->host, to->control_port);
}

/* The first message says whose connection it is: the receiver then gives it room for large ones. */
static int
greet(struct wire *wire, struct connection *connection)
{
    uint8_t node[PROTO_NODE_SIZE];
    proto_node_encode(wire->setup.self, node);
    return zmq_send(connection->socket, node, sizeof node, ZMQ_DONTWAIT) < 0 ? -zmq_errno() : 0;
}

static int
open_push(struct wire *wire, unsigned index, struct connection *connection, enum tag tag,
          uint16_t port)
{
    wire->serial++;
    connection->socket = zmq_socket(wire->bulk_ctx, ZMQ_PUSH);
    if (!connection->socket)
        return -zmq_errno();
    wire_set_bulk(connection->socket);
    int rc = connection_watch(wire, connection, wire->bulk_ctx, tag, index);
    if (rc == 0)
        rc = connection_connect(wire, connection, wire->links[index].host, port);
    return rc != 0 ? rc : greet(wire, connection);
}

static int
open_bulk(struct wire *wire, unsigned index, uint16_t port)
{
    struct link *link = &wire->links[index];
    link->queue = calloc(wire->setup.queue_size, sizeof *link->queue);
    if (!link->queue)
        return -ENOMEM;
    int rc = open_push(wire, index, &link->bulk, TAG_BULK_MONITOR, port);
    return rc != 0 ? rc : open_push(wire, index, &link->express, TAG_EXPRESS_MONITOR, port);
}

static void
close_bulk(struct wire *wire, unsigned index)
{
    struct link *link = &wire->links[index];
    wire_queue_close(wire, index);
    connection_close(wire, &link->bulk);
    connection_close(wire, &link->express);
    link->node = (struct proto_node){0, 0};
}

void
wire_close(struct wire *wire, unsigned index)
{
    close_bulk(wire, index);
    pthread_mutex_lock(&wire->pulse_lock);
    connection_close(wire, &wire->links[index].control);
    wire->links[index].pulse_at = 0;
    pthread_mutex_unlock(&wire->pulse_lock);
    wire->links[index].failed = false;
}

void
wire_connect(void *ctx, unsigned link, const struct proto_endpoint *to)
{
    struct wire *wire = ctx;
    assert(link < WIRE_LINKS_MAX);
    wire_close(wire, link);
    snprintf(wire->links[link].host, sizeof wire->links[link].host, "%s", to->host);
    if (open_control(wire, link, to) != 0)
        wire_fail(wire, link);
}

void
wire_disconnect(void *ctx, unsigned link)
{
    struct wire *wire = ctx;
    assert(link < WIRE_LINKS_MAX);
    wire_close(wire, link);
}

/* Peers that come and go leave holes in all heaps, which are given back then. */
static void
trim_soon(struct wire *wire)
{
    if (!wire->trim_at)
        wire->trim_at = clock_us() + TRIM_US;
}

void
wire_peer_up(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port)
{
    struct wire *wire = ctx;
    assert(link < WIRE_LINKS_MAX);
    fail_hit(FAIL_PEER_UP, NULL, 0);
    close_bulk(wire, link);
    if (open_bulk(wire, link, bulk_port) != 0)
        wire_fail(wire, link);
    wire->links[link].node = node;
    guard_met(wire->guard, node);
    trim_soon(wire);
}

void
wire_peer_down(void *ctx, unsigned link)
{
    struct wire *wire = ctx;
    assert(link < WIRE_LINKS_MAX);
    fail_hit(FAIL_PEER_DOWN, NULL, 0);
    wire_close(wire, link);
    trim_soon(wire);
}

void
wire_read_monitor(struct wire *wire, unsigned index, struct connection *connection)
{
    struct link *link = &wire->links[index];
    uint16_t event;
    int32_t fd;
    bool up = false;
    while (connection->monitor && wire_monitor_read(connection->monitor, &event, &fd))
        if (event == ZMQ_EVENT_CONNECTED)
            guard_add(wire->guard, fd, GUARD_OUT);
        else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            up = true;
        else
            wire_fail(wire, index);
    if (up && connection == &link->control && !link->failed) {
        fail_hit(FAIL_CONNECTED, NULL, 0);
        wire->events.link_up(wire->ctx, index);
    }
}

bool
wire_settle(struct wire *wire)
{
    bool any = wire->any_failed;
    wire->any_failed = false;
    for (unsigned i = 0; any && i < WIRE_LINKS_MAX; i++)
        if (wire->links[i].failed) {
            wire_close(wire, i);
            fail_hit(FAIL_LINK_LOST, NULL, 0);
            wire->events.link_down(wire->ctx, i);
        }
    return any;
}

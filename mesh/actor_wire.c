/* actor_wire.c - open, watch, use and close the sockets of a node. */
#include "mesh/actor_wire.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <zmq.h>

#include "mesh/actor_guard.h"
#include "mesh/discover_resolve.h"
#include "proto/fail.h"
#include "proto/mix.h"
#include "proto/text.h"

enum {
    SERIAL_SIZE = 4,
    ROUTING_SIZE = PROTO_ROUTING_SIZE + SERIAL_SIZE,
    CONTROL_QUEUE = 1000, /* messages, per direction */
    BULK_OUT = 64,        /* messages inside ZeroMQ; zero-copy ones hold no memory */
    BULK_IN =
        4, /* the same received: few, so that they are still in the cache when they are added */
    COPY_MAX = 16 << 10,  /* bodies up to this size are copied: cheaper than to wait for them */
    CONTROL_BUDGET = 256, /* messages per wire_ready */
    BULK_BUDGET = 8,      /* the same for bulk: a few milliseconds of adding at most */
    HEARTBEAT_MS = 250,   /* ZeroMQ's own, on control: a backstop against half-open connections; */
    HEARTBEAT_DEAD_MS = 1500, /* the core suspects a silent peer much sooner */
    KEEPALIVE_S = 4,  /* of TCP, where we listen: a peer that lost power never says that it goes */
    CONNECT_MS = 400, /* of TCP alone; a SYN that was lost is sent again only after 1 s */
    HANDSHAKE_MS = 2000,
    BACKLOG = 512,
    SOCKETS_MAX = 8 * WIRE_LINKS_MAX,
    /* Bytes that ZeroMQ may hold of one connection; without a message nobody but a stranger comes near. */
    CONTROL_HELD_MAX = 1 << 18,
    BULK_HELD_MAX = (BULK_IN + 3) * PROTO_BLOCK_MAX,
    OUT_HELD_MAX = 1 << 16, /* of one that we opened: nothing is to come on it */
    REASONS_MAX = 64,       /* distinct (host, error) of bad bytes that are logged */
};

enum tag {
    TAG_CONTROL = 0,
    TAG_BULK = 1,
    TAG_CONTROL_MONITOR,
    TAG_BULK_MONITOR,
    TAG_EXPRESS_MONITOR,
    TAG_ROOM
};

/* An outgoing socket with the socket that tells what becomes of its connection. */
struct plug {
    void *socket, *monitor;
    int monitor_fd;
    int fd; /* of the connection, -1 none */
};

/* A message that waits for room. */
struct parcel {
    zmq_msg_t header, body;
};

struct link {
    struct plug control, bulk, express;
    bool failed;            /* report and close at the next wire_settle */
    struct proto_node node; /* id 0: not accepted yet */
    char host[PROTO_HOST_MAX];
    struct parcel *queue; /* [queue_size], a ring; allocated with the bulk socket */
    size_t queue_first, queue_count;
    bool wants_room; /* its PUSH is watched */
};

/* A received body; on the free list unless the core looks at it or keeps it. */
struct frame {
    zmq_msg_t body;
    bool lent; /* the core looks at it just now, and may keep and release it meanwhile */
    bool kept;
    struct frame *next;
};

/* Zero-copy sends, counted by ZeroMQ's threads as they finish. */
struct sent {
    atomic_uint done;
    unsigned taken;
    struct wire *wire;
};

struct wire {
    struct wire_setup setup;
    struct wire_events events;
    void *ctx;
    void *control_ctx, *bulk_ctx;
    void *router, *pull;
    struct guard *guard;
    void *accepted[2]; /* monitors of router and pull */
    uint16_t control_port, bulk_port;
    uint32_t serial; /* of the next connection */
    bool any_failed, pull_stalled;
    struct wire_counts counts;
    struct sent sent;
    atomic_bool sleeping;
    struct frame *frames, *free_frames;
    uint64_t reasons[REASONS_MAX];
    size_t reason_count;
    struct link links[WIRE_LINKS_MAX];
    /* Hosts on which there has been a node, the last ones. */
    char met[WIRE_LINKS_MAX][PROTO_HOST_MAX];
    unsigned met_count;
    struct proto_endpoint endpoints[PROTO_PEERS_MAX]; /* room for proto_decode */
    struct proto_msg msg;
};

/* ---- small helpers ---- */

static void
watch(struct wire *wire, int fd, enum tag tag, unsigned link)
{
    struct epoll_event event = {.events = EPOLLIN};
    event.data.u64 = WIRE_TAG | (uint64_t)tag << 32 | link;
    int rc = epoll_ctl(wire->setup.epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(rc == 0);
}

static void
unwatch(struct wire *wire, int fd)
{
    epoll_ctl(wire->setup.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int
socket_fd(void *socket)
{
    int fd = -1;
    size_t size = sizeof fd;
    zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    return fd;
}

static void
set(void *socket, int option, int value)
{
    int rc = zmq_setsockopt(socket, option, &value, sizeof value);
    assert(rc == 0);
}

static void
set_common(void *socket, int queue_out, int queue_in, int64_t size_max)
{
    set(socket, ZMQ_LINGER, 0);
    set(socket, ZMQ_SNDHWM, queue_out);
    set(socket, ZMQ_RCVHWM, queue_in);
    set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    int rc = zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &size_max, sizeof size_max);
    assert(rc == 0);
}

/* What it sends is the kernel's: a peer that is stopped or busy answers. */
static void
set_keepalive(void *bound)
{
    set(bound, ZMQ_TCP_KEEPALIVE, 1);
    set(bound, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_S);
    set(bound, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_S / 2);
    set(bound, ZMQ_TCP_KEEPALIVE_CNT, 3);
}

static void
set_control(void *socket)
{
    set_common(socket, CONTROL_QUEUE, CONTROL_QUEUE,
               PROTO_JOB_MAX > PROTO_FRAME_MAX ? PROTO_JOB_MAX : PROTO_FRAME_MAX);
}

/* Only where nothing is ever received: ZeroMQ (4.3.4, 4.3.5) aborts the process when it is to
 * ping on a broken connection whose input it had stopped, because nobody reads or the socket is being
 * closed. The other side answers, and ends the connection when no ping comes. */
static void
set_heartbeat(void *dealer)
{
    set(dealer, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS);
    set(dealer, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_DEAD_MS);
    set(dealer, ZMQ_HEARTBEAT_TTL, HEARTBEAT_DEAD_MS);
}

/* No heartbeats here: a long body on a slow link would look like death. */
static void
set_bulk(void *socket)
{
    int64_t body_max = PROTO_CHUNK_MAX * (int64_t)sizeof(int32_t);
    set_common(socket, BULK_OUT, BULK_IN, body_max > PROTO_BLOCK_MAX ? body_max : PROTO_BLOCK_MAX);
}

static void
log_line(struct wire *wire, int level, const char *line)
{
    wire->events.log(wire->ctx, level, line);
}

static void
fail_link(struct wire *wire, unsigned link)
{
    wire->links[link].failed = true;
    wire->any_failed = true;
}

/* ---- outgoing sockets ---- */

/* Events of a monitor are two frames: number and value, then the endpoint. */
static bool
monitor_read(void *monitor, uint16_t *event, int32_t *fd)
{
    uint8_t value[6];
    char endpoint[PROTO_HOST_MAX];
    if (zmq_recv(monitor, value, sizeof value, ZMQ_DONTWAIT) < (int)sizeof value)
        return false;
    memcpy(event, value, sizeof *event);
    memcpy(fd, value + sizeof *event, sizeof *fd);
    return zmq_recv(monitor, endpoint, sizeof endpoint, ZMQ_DONTWAIT) >= 0;
}

/* The monitor is connected before the socket: ZeroMQ's I/O thread blocks on one that nobody reads. The
 * first read finds nothing; after it the descriptor tells when there is something. */
static int
plug_watch(struct wire *wire, struct plug *plug, void *context, enum tag tag, unsigned link)
{
    char name[64];
    uint16_t event;
    int32_t fd;
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;
    snprintf(name, sizeof name, "inproc://monitor-%u", wire->serial);
    if (zmq_socket_monitor(plug->socket, name, events) != 0)
        return -zmq_errno();
    plug->monitor = zmq_socket(context, ZMQ_PAIR);
    if (!plug->monitor)
        return -zmq_errno();
    set(plug->monitor, ZMQ_LINGER, 0);
    if (zmq_connect(plug->monitor, name) != 0)
        return -zmq_errno();
    monitor_read(plug->monitor, &event, &fd);
    plug->monitor_fd = socket_fd(plug->monitor);
    watch(wire, plug->monitor_fd, tag, link);
    return 0;
}

/* Stop the monitor first, so that no I/O thread writes to a socket that is gone. */
static void
plug_close(struct wire *wire, struct plug *plug)
{
    if (plug->socket)
        zmq_socket_monitor(plug->socket, NULL, 0);
    if (plug->monitor) {
        unwatch(wire, plug->monitor_fd);
        zmq_close(plug->monitor);
    }
    if (plug->socket)
        zmq_close(plug->socket);
    guard_remove(wire->guard, plug->fd);
    *plug = (struct plug){NULL, NULL, -1, -1};
}

static int
plug_connect(struct plug *plug, const char *host, uint16_t port)
{
    char endpoint[PROTO_HOST_MAX + 32];
    bool v6 = strchr(host, ':') != NULL;
    set(plug->socket, ZMQ_IPV6, v6);
    set(plug->socket, ZMQ_RECONNECT_IVL, -1);
    set(plug->socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS);
    snprintf(endpoint, sizeof endpoint, v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, port);
    return zmq_connect(plug->socket, endpoint) == 0 ? 0 : -zmq_errno();
}

static void
routing_id(struct wire *wire, uint8_t out[ROUTING_SIZE])
{
    proto_routing_encode(wire->setup.self, out);
    memcpy(out + PROTO_ROUTING_SIZE, &wire->serial, SERIAL_SIZE);
}

static int
open_control(struct wire *wire, unsigned index, const struct proto_endpoint *to)
{
    struct plug *plug = &wire->links[index].control;
    uint8_t id[ROUTING_SIZE];
    fail_hit(FAIL_CONNECT, NULL, 0);
    wire->serial++;
    routing_id(wire, id);
    if (!resolve_numeric(to->host)) /* looking a name up would stop the I/O thread */
        return -EINVAL;
    plug->socket = zmq_socket(wire->control_ctx, ZMQ_DEALER);
    if (!plug->socket)
        return -zmq_errno();
    set_control(plug->socket);
    set_heartbeat(plug->socket);
    zmq_setsockopt(plug->socket, ZMQ_ROUTING_ID, id, sizeof id);
    int rc = plug_watch(wire, plug, wire->control_ctx, TAG_CONTROL_MONITOR, index);
    return rc != 0 ? rc : plug_connect(plug, to->host, to->control_port);
}

static int
open_push(struct wire *wire, unsigned index, struct plug *plug, enum tag tag, uint16_t port)
{
    wire->serial++;
    plug->socket = zmq_socket(wire->bulk_ctx, ZMQ_PUSH);
    if (!plug->socket)
        return -zmq_errno();
    set_bulk(plug->socket);
    int rc = plug_watch(wire, plug, wire->bulk_ctx, tag, index);
    return rc != 0 ? rc : plug_connect(plug, wire->links[index].host, port);
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
watch_room(struct wire *wire, unsigned index, bool wanted)
{
    struct link *link = &wire->links[index];
    if (link->wants_room == wanted)
        return;
    link->wants_room = wanted;
    if (wanted)
        watch(wire, socket_fd(link->bulk.socket), TAG_ROOM, index);
    else
        unwatch(wire, socket_fd(link->bulk.socket));
}

static void
queue_clear(struct wire *wire, struct link *link)
{
    for (; link->queue_count > 0; link->queue_count--) {
        struct parcel *parcel = &link->queue[link->queue_first];
        zmq_msg_close(&parcel->header);
        zmq_msg_close(&parcel->body);
        link->queue_first = (link->queue_first + 1) % wire->setup.queue_size;
    }
    free(link->queue);
    link->queue = NULL;
    link->queue_first = 0;
}

static void
close_bulk(struct wire *wire, unsigned index)
{
    struct link *link = &wire->links[index];
    if (link->bulk.socket)
        watch_room(wire, index, false);
    plug_close(wire, &link->bulk);
    plug_close(wire, &link->express);
    queue_clear(wire, link);
    link->node = (struct proto_node){0, 0};
}

static void
close_link(struct wire *wire, unsigned index)
{
    close_bulk(wire, index);
    plug_close(wire, &wire->links[index].control);
    wire->links[index].failed = false;
}

/* ---- operations of the core ---- */

void
wire_connect(struct wire *wire, unsigned link, const struct proto_endpoint *to)
{
    assert(link < WIRE_LINKS_MAX);
    close_link(wire, link);
    snprintf(wire->links[link].host, sizeof wire->links[link].host, "%s", to->host);
    if (open_control(wire, link, to) != 0)
        fail_link(wire, link);
}

void
wire_disconnect(struct wire *wire, unsigned link)
{
    assert(link < WIRE_LINKS_MAX);
    close_link(wire, link);
}

static bool
has_met(const struct wire *wire, const char *host)
{
    bool met = false;
    for (unsigned i = 0; !met && i < WIRE_LINKS_MAX; i++)
        met = strcmp(wire->met[i], host) == 0;
    return met;
}

void
wire_peer_up(struct wire *wire, unsigned link, struct proto_node node, uint16_t bulk_port)
{
    assert(link < WIRE_LINKS_MAX);
    fail_hit(FAIL_PEER_UP, NULL, 0);
    close_bulk(wire, link);
    if (open_bulk(wire, link, bulk_port) != 0)
        fail_link(wire, link);
    wire->links[link].node = node;
    if (!has_met(wire, wire->links[link].host))
        text_copy(wire->met[wire->met_count++ % WIRE_LINKS_MAX], PROTO_HOST_MAX,
                  wire->links[link].host);
}

void
wire_peer_down(struct wire *wire, unsigned link)
{
    assert(link < WIRE_LINKS_MAX);
    fail_hit(FAIL_PEER_DOWN, NULL, 0);
    close_link(wire, link);
}

static bool
make_message(zmq_msg_t *out, const void *data, size_t size)
{
    if (zmq_msg_init_size(out, size) != 0)
        return false;
    if (size)
        memcpy(zmq_msg_data(out), data, size);
    return true;
}

void
wire_send(struct wire *wire, unsigned link, const struct proto_msg *msg, const void *body,
          size_t size)
{
    void *socket = wire->links[link].control.socket;
    uint8_t frame[PROTO_FRAME_MAX];
    size_t frame_size = proto_encode(msg, frame);
    fail_message(msg->type, FAIL_SEND, NULL, 0);
    if (!socket || wire->links[link].failed ||
        zmq_send(socket, frame, frame_size, ZMQ_DONTWAIT | (size ? ZMQ_SNDMORE : 0)) < 0) {
        wire->counts.dropped++;
        return;
    }
    wire->counts.tx_bytes += frame_size + size;
    if (size && zmq_send(socket, body, size, ZMQ_DONTWAIT) < 0) {
        wire->counts.dropped++;
        fail_link(wire, link);
    }
    fail_message(msg->type, FAIL_SENT, NULL, 0);
}

/* Runs in a thread of ZeroMQ. */
static void
buffer_free(void *data, void *hint)
{
    struct sent *sent = hint;
    (void)data;
    atomic_fetch_add(&sent->done, 1);
    if (atomic_load(&sent->wire->sleeping) && atomic_exchange(&sent->wire->sleeping, false)) {
        uint64_t one = 1;
        ssize_t rc = write(sent->wire->setup.wake_fd, &one, sizeof one);
        (void)rc; /* full means that somebody is awake already */
    }
}

static bool
make_header(struct wire *wire, zmq_msg_t *out, const struct proto_msg *msg)
{
    uint8_t header[PROTO_ROUTING_SIZE + PROTO_FRAME_MAX];
    proto_routing_encode(wire->setup.self, header);
    return make_message(out, header,
                        PROTO_ROUTING_SIZE + proto_encode(msg, header + PROTO_ROUTING_SIZE));
}

/* Whatever happens, a body that was lent is counted as returned once. */
static bool
make_body(struct wire *wire, zmq_msg_t *out, const void *body, size_t size, bool lent)
{
    bool copy = !lent || size <= COPY_MAX, ok;
    union {
        const void *in;
        void *out; /* ZeroMQ wants it so; it only reads */
    } data = {body};
    if (copy)
        ok = make_message(out, body, size);
    else
        ok = zmq_msg_init_data(out, data.out, size, buffer_free, &wire->sent) == 0;
    if (lent && (copy || !ok))
        atomic_fetch_add(&wire->sent.done, 1);
    return ok;
}

/* Returns 0, -EAGAIN when there is no room, or another error. The parcel is empty unless -EAGAIN. */
static int
ship(void *socket, struct parcel *parcel)
{
    int rc = 0;
    if (zmq_msg_send(&parcel->header, socket, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        rc = zmq_errno() == EAGAIN ? -EAGAIN : -EPIPE;
    else if (zmq_msg_send(&parcel->body, socket, ZMQ_DONTWAIT) < 0)
        rc = -EPIPE; /* half a message: the connection has just gone */
    if (rc != -EAGAIN) {
        zmq_msg_close(&parcel->header);
        zmq_msg_close(&parcel->body);
    }
    return rc;
}

static void
drop(struct wire *wire, unsigned link, struct parcel *parcel)
{
    zmq_msg_close(&parcel->header);
    zmq_msg_close(&parcel->body);
    wire->counts.dropped++;
    fail_link(wire, link);
}

static bool
by_express(const struct wire *wire, const struct proto_msg *msg)
{
    return (msg->type == PROTO_REDUCE || msg->type == PROTO_GATHER) &&
           msg->chunk.bucket < wire->setup.bucket_count && wire->setup.express[msg->chunk.bucket];
}

/* Send both frames, or queue them. What finds no room in the express goes with the others. */
static void
post(struct wire *wire, unsigned index, const struct proto_msg *msg, struct parcel *parcel)
{
    struct link *link = &wire->links[index];
    wire->counts.tx_bytes += zmq_msg_size(&parcel->header) + zmq_msg_size(&parcel->body);
    int rc = by_express(wire, msg) ? ship(link->express.socket, parcel) : -EAGAIN;
    if (rc == -EAGAIN && link->queue_count == 0)
        rc = ship(link->bulk.socket, parcel);
    fail_message(msg->type, FAIL_SENT, NULL, 0);
    if (rc == 0)
        return;
    if (rc != -EAGAIN) {
        fail_link(wire, index);
    } else if (link->queue_count == wire->setup.queue_size) {
        log_line(wire, 4, "a peer takes no data and its queue is full: closing its link");
        drop(wire, index, parcel);
    } else {
        struct parcel *last =
            &link->queue[(link->queue_first + link->queue_count++) % wire->setup.queue_size];
        zmq_msg_init(&last->header);
        zmq_msg_init(&last->body);
        zmq_msg_move(&last->header, &parcel->header);
        zmq_msg_move(&last->body, &parcel->body);
        watch_room(wire, index, true);
    }
}

static bool
takes_bulk(struct wire *wire, unsigned index)
{
    const struct link *link = &wire->links[index];
    bool takes = link->express.socket && !link->failed;
    wire->counts.dropped += !takes;
    return takes;
}

void
wire_send_bulk(struct wire *wire, unsigned index, const struct proto_msg *msg, const void *body,
               size_t size, bool lent)
{
    struct parcel parcel;
    if (!takes_bulk(wire, index)) {
        if (lent)
            atomic_fetch_add(&wire->sent.done, 1);
        return;
    }
    fail_message(msg->type, FAIL_SEND, NULL, 0);
    if (!make_body(wire, &parcel.body, body, size, lent)) {
        fail_link(wire, index);
    } else if (!make_header(wire, &parcel.header, msg)) {
        zmq_msg_close(&parcel.body);
        fail_link(wire, index);
    } else {
        post(wire, index, msg, &parcel);
    }
}

void
wire_pass_on(struct wire *wire, unsigned index, const struct proto_msg *msg,
             struct core_frame *frame)
{
    struct frame *mine = frame->handle;
    struct parcel parcel;
    if (!takes_bulk(wire, index))
        return;
    fail_message(msg->type, FAIL_SEND, frame->data, frame->size);
    if (!make_header(wire, &parcel.header, msg)) {
        fail_link(wire, index);
        return;
    }
    zmq_msg_init(&parcel.body);
    zmq_msg_move(&parcel.body, &mine->body);
    post(wire, index, msg, &parcel);
}

static void
queue_ship(struct wire *wire, unsigned index)
{
    struct link *link = &wire->links[index];
    while (link->queue_count > 0 && !link->failed) {
        int rc = ship(link->bulk.socket, &link->queue[link->queue_first]);
        if (rc == -EAGAIN)
            return;
        link->queue_first = (link->queue_first + 1) % wire->setup.queue_size;
        link->queue_count--;
        if (rc != 0)
            fail_link(wire, index);
    }
    if (link->bulk.socket && link->queue_count == 0)
        watch_room(wire, index, false);
}

void
wire_keep(struct wire *wire, struct core_frame *frame)
{
    struct frame *mine = frame->handle;
    (void)wire;
    mine->kept = true;
}

static void
frame_put_back(struct wire *wire, struct frame *frame)
{
    assert(!frame->lent && !frame->kept);
    zmq_msg_close(&frame->body);
    frame->next = wire->free_frames;
    wire->free_frames = frame;
}

void
wire_release(struct wire *wire, void *handle)
{
    struct frame *mine = handle;
    assert(mine->kept);
    mine->kept = false;
    if (!mine->lent)
        frame_put_back(wire, mine);
}

/* ---- what comes in ---- */

/* Once per host and reason, so that nobody can fill the log. */
static void
complain(struct wire *wire, const char *host, int reason, const char *why)
{
    uint64_t key = mix64((uint64_t)-reason);
    wire->counts.bad++;
    for (const char *c = host; *c; c++)
        key = mix64_pair(key, (uint8_t)*c);
    for (size_t i = 0; i < wire->reason_count; i++)
        if (wire->reasons[i] == key)
            return;
    if (wire->reason_count == REASONS_MAX)
        return;
    wire->reasons[wire->reason_count++] = key;
    char line[512];
    snprintf(line, sizeof line, "bad message from %s: %s", host[0] ? host : "?", why);
    log_line(wire, 4, line);
}

/* Whoever sends nonsense as an accepted peer loses its link; a stranger has none. */
static void
punish(struct wire *wire, struct proto_node node)
{
    for (unsigned i = 0; i < WIRE_LINKS_MAX; i++)
        if (node.id && wire->links[i].node.id == node.id &&
            wire->links[i].node.incarnation == node.incarnation)
            fail_link(wire, i);
}

static const char *
peer_host(zmq_msg_t *message)
{
    const char *host = zmq_msg_gets(message, "Peer-Address");
    if (!host)
        return "";
    return strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host;
}

static bool
has_more(zmq_msg_t *message)
{
    return zmq_msg_more(message) != 0;
}

/* Read the rest of a message that is too long; false when there was none. */
static bool
skip_rest(void *socket, zmq_msg_t *last)
{
    bool any = false;
    while (has_more(last) && zmq_msg_recv(last, socket, ZMQ_DONTWAIT) >= 0)
        any = true;
    return any;
}

static void
take_control(struct wire *wire, zmq_msg_t *id, zmq_msg_t *header, zmq_msg_t *body, bool too_long)
{
    char why[PROTO_TEXT_MAX] = "unexpected frames";
    char host[PROTO_HOST_MAX];
    struct proto_node from = {0, 0};
    snprintf(host, sizeof host, "%s", peer_host(header));
    wire->counts.rx_bytes += zmq_msg_size(header) + zmq_msg_size(body);
    int rc = too_long || zmq_msg_size(id) != ROUTING_SIZE ? -EBADMSG : 0;
    if (rc == 0)
        rc = proto_routing_decode(&from, zmq_msg_data(id), PROTO_ROUTING_SIZE);
    if (rc == 0)
        rc = proto_decode(&wire->msg, wire->endpoints, zmq_msg_data(header), zmq_msg_size(header),
                          why, sizeof why);
    if (rc == 0) {
        const int type = wire->msg.type;
        fail_message(type, FAIL_GOT, zmq_msg_data(body), zmq_msg_size(body));
        wire->events.message(wire->ctx, from, host, &wire->msg, zmq_msg_data(body),
                             zmq_msg_size(body));
        fail_message(type, FAIL_TAKEN, NULL, 0);
        return;
    }
    complain(wire, host, rc, why);
    punish(wire, from);
}

static bool
read_control_one(struct wire *wire)
{
    zmq_msg_t id, header, body;
    bool too_long = false;
    zmq_msg_init(&id);
    if (zmq_msg_recv(&id, wire->router, ZMQ_DONTWAIT) < 0)
        return false;
    zmq_msg_init(&header);
    zmq_msg_init(&body);
    if (has_more(&id))
        zmq_msg_recv(&header, wire->router, ZMQ_DONTWAIT);
    if (has_more(&header))
        zmq_msg_recv(&body, wire->router, ZMQ_DONTWAIT);
    too_long = skip_rest(wire->router, &body);
    guard_heard(wire->guard, zmq_msg_get(&header, ZMQ_SRCFD));
    take_control(wire, &id, &header, &body, too_long);
    zmq_msg_close(&id);
    zmq_msg_close(&header);
    zmq_msg_close(&body);
    return true;
}

static void
take_bulk(struct wire *wire, zmq_msg_t *header, struct frame *frame, bool too_long)
{
    char why[PROTO_TEXT_MAX] = "unexpected frames";
    const uint8_t *data = zmq_msg_data(header);
    size_t size = zmq_msg_size(header);
    struct proto_node from = {0, 0};
    struct core_frame body = {zmq_msg_data(&frame->body), zmq_msg_size(&frame->body), frame};
    wire->counts.rx_bytes += size + body.size;
    int rc = too_long || size < PROTO_ROUTING_SIZE ? -EBADMSG : 0;
    if (rc == 0)
        rc = proto_routing_decode(&from, data, PROTO_ROUTING_SIZE);
    if (rc == 0)
        rc = proto_decode(&wire->msg, NULL, data + PROTO_ROUTING_SIZE, size - PROTO_ROUTING_SIZE,
                          why, sizeof why);
    if (rc == 0) {
        const int type = wire->msg.type;
        fail_message(type, FAIL_GOT, zmq_msg_data(&frame->body), body.size);
        wire->events.bulk(wire->ctx, from, &wire->msg, &body);
        fail_message(type, FAIL_TAKEN, NULL, 0);
        return;
    }
    complain(wire, peer_host(header), rc, why);
    punish(wire, from);
}

static bool
read_bulk_one(struct wire *wire)
{
    zmq_msg_t header;
    struct frame *frame = wire->free_frames;
    wire->pull_stalled = frame == NULL; /* all kept: let TCP hold the senders back */
    if (!frame)
        return false;
    zmq_msg_init(&header);
    if (zmq_msg_recv(&header, wire->pull, ZMQ_DONTWAIT) < 0)
        return false;
    wire->free_frames = frame->next;
    zmq_msg_init(&frame->body);
    if (has_more(&header))
        zmq_msg_recv(&frame->body, wire->pull, ZMQ_DONTWAIT);
    bool too_long = skip_rest(wire->pull, &frame->body);
    guard_heard(wire->guard, zmq_msg_get(&header, ZMQ_SRCFD));
    frame->lent = true;
    take_bulk(wire, &header, frame, too_long);
    frame->lent = false;
    zmq_msg_close(&header);
    if (!frame->kept)
        frame_put_back(wire, frame);
    return true;
}

static void
read_monitor(struct wire *wire, unsigned index, struct plug *plug)
{
    struct link *link = &wire->links[index];
    uint16_t event;
    int32_t fd;
    bool up = false;
    while (plug->monitor && monitor_read(plug->monitor, &event, &fd))
        if (event == ZMQ_EVENT_CONNECTED)
            guard_add(wire->guard, plug->fd = fd, OUT_HELD_MAX);
        else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            up = true;
        else
            fail_link(wire, index);
    if (up && plug == &link->control && !link->failed) {
        fail_hit(FAIL_CONNECTED, NULL, 0);
        wire->events.link_up(wire->ctx, index);
    }
}

bool
wire_ready(struct wire *wire, uint64_t tag)
{
    unsigned link = (unsigned)(tag & 0xffffffffu), left;
    assert(link < WIRE_LINKS_MAX);
    switch ((enum tag)(tag >> 32 & 0xff)) {
    case TAG_CONTROL:
        for (left = CONTROL_BUDGET; left && read_control_one(wire); left--)
            ;
        return left == 0;
    case TAG_BULK:
        for (left = BULK_BUDGET; left && read_bulk_one(wire); left--)
            ;
        return left == 0;
    case TAG_CONTROL_MONITOR:
        read_monitor(wire, link, &wire->links[link].control);
        break;
    case TAG_BULK_MONITOR:
        read_monitor(wire, link, &wire->links[link].bulk);
        break;
    case TAG_EXPRESS_MONITOR:
        read_monitor(wire, link, &wire->links[link].express);
        break;
    case TAG_ROOM:
        if (wire->links[link].bulk.socket)
            queue_ship(wire, link);
        break;
    }
    return false;
}

bool
wire_stalled(const struct wire *wire)
{
    return wire->pull_stalled && wire->free_frames;
}

static void
read_accepted(struct wire *wire, void *monitor, uint64_t bytes_max)
{
    uint16_t event;
    int32_t fd;
    while (monitor && monitor_read(monitor, &event, &fd))
        if (event == ZMQ_EVENT_ACCEPTED)
            guard_add(wire->guard, fd, bytes_max);
        else
            guard_remove(wire->guard, fd);
}

void
wire_tick(struct wire *wire, uint64_t now)
{
    read_accepted(wire, wire->accepted[0], CONTROL_HELD_MAX);
    read_accepted(wire, wire->accepted[1], BULK_HELD_MAX);
    unsigned ended = guard_check(wire->guard, now);
    wire->counts.bad += ended;
    if (ended > 0)
        log_line(wire, 4, "a stranger sends messages without an end: not listened to");
}

bool
wire_settle(struct wire *wire)
{
    bool any = wire->any_failed;
    wire->any_failed = false;
    for (unsigned i = 0; any && i < WIRE_LINKS_MAX; i++)
        if (wire->links[i].failed) {
            close_link(wire, i);
            fail_hit(FAIL_LINK_LOST, NULL, 0);
            wire->events.link_down(wire->ctx, i);
        }
    return any;
}

unsigned
wire_sent(struct wire *wire)
{
    struct sent *sent = &wire->sent;
    unsigned done = atomic_load(&sent->done), fresh = done - sent->taken;
    sent->taken = done;
    return fresh;
}

bool
wire_sleep(struct wire *wire, bool sleep)
{
    atomic_store(&wire->sleeping, sleep);
    return !sleep || atomic_load(&wire->sent.done) == wire->sent.taken;
}

/* ---- life ---- */

static int
bind_to(void *socket, const char *address, uint16_t port)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "tcp://%s:%u", address, port);
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
bind_both(struct wire *wire, char *why, size_t why_size)
{
    const struct wire_setup *setup = &wire->setup;
    void *const sockets[] = {wire->router, wire->pull};
    for (size_t i = 0; i < 2; i++) {
        set(sockets[i], ZMQ_BACKLOG, BACKLOG);
        set(sockets[i], ZMQ_IPV6, setup->address[0] == '*' && has_v6());
    }
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
        snprintf(why, why_size, "port %u on %s: %s", setup->port, setup->address,
                 zmq_strerror(-bulk));
    else
        snprintf(why, why_size, "ports %u to %u on %s: %s", setup->port_first, setup->port_last,
                 setup->address, zmq_strerror(-bulk));
    return bulk;
}

int
wire_move(struct wire *wire, const char *address)
{
    void *const sockets[] = {wire->router, wire->pull};
    const uint16_t ports[] = {wire->control_port, wire->bulk_port};
    char before[64];
    size_t size = sizeof before;
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

/* Connected before the socket is bound, and with room for any number of events: see plug_watch. */
static void *
watch_accepted(void *socket, void *context)
{
    static const char name[] = "inproc://monitor-bound";
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (!monitor)
        return NULL;
    set(monitor, ZMQ_LINGER, 0);
    set(monitor, ZMQ_RCVHWM, 0);
    if (zmq_socket_monitor(socket, name, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) == 0 &&
        zmq_connect(monitor, name) == 0)
        return monitor;
    zmq_close(monitor);
    return NULL;
}

/* One that is gone, too: who is held up by much else to do takes others for gone, and gets what they sent meanwhile. */
static bool
is_peer(void *ctx, const char *host)
{
    const struct wire *wire = ctx;
    bool peer = has_met(wire, host);
    for (unsigned i = 0; !peer && i < WIRE_LINKS_MAX; i++)
        peer = wire->links[i].node.id != 0 && strcmp(wire->links[i].host, host) == 0;
    return peer;
}

static int
build(struct wire *wire)
{
    size_t frames = wire->setup.frames;
    int rc = guard_new(&wire->guard, is_peer, wire);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < WIRE_LINKS_MAX; i++)
        wire->links[i].control.fd = wire->links[i].bulk.fd = -1;
    wire->frames = calloc(frames, sizeof *wire->frames);
    wire->control_ctx = new_context();
    wire->bulk_ctx = new_context();
    if (!wire->frames || !wire->control_ctx || !wire->bulk_ctx)
        return -ENOMEM;
    for (size_t i = 0; i < frames; i++) {
        zmq_msg_init(&wire->frames[i].body);
        frame_put_back(wire, &wire->frames[i]);
    }
    wire->sent.wire = wire;
    wire->router = zmq_socket(wire->control_ctx, ZMQ_ROUTER);
    if (!wire->router)
        return -zmq_errno();
    wire->pull = zmq_socket(wire->bulk_ctx, ZMQ_PULL);
    if (!wire->pull)
        return -zmq_errno();
    set_control(wire->router);
    set_bulk(wire->pull);
    set_keepalive(wire->router);
    set_keepalive(wire->pull);
    wire->accepted[0] = watch_accepted(wire->router, wire->control_ctx);
    wire->accepted[1] = watch_accepted(wire->pull, wire->bulk_ctx);
    return wire->accepted[0] && wire->accepted[1] ? 0 : -zmq_errno();
}

int
wire_new(struct wire **out, const struct wire_setup *setup, const struct wire_events *events,
         void *ctx, char *why, size_t why_size)
{
    assert(setup->frames > 0);
    assert(setup->queue_size > 0);
    *out = NULL;
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire) {
        snprintf(why, why_size, "sockets: out of memory");
        return -ENOMEM;
    }
    wire->setup = *setup;
    wire->events = *events;
    wire->ctx = ctx;
    int rc = build(wire);
    if (rc != 0)
        snprintf(why, why_size, "sockets: %s", zmq_strerror(-rc));
    else
        rc = bind_both(wire, why, why_size);
    wire->setup.address = NULL;
    if (rc != 0) {
        wire_destroy(&wire, 0);
        return rc;
    }
    watch(wire, socket_fd(wire->router), TAG_CONTROL, 0);
    watch(wire, socket_fd(wire->pull), TAG_BULK, 0);
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

void
wire_destroy(struct wire **out, int linger_ms)
{
    struct wire *wire = out ? *out : NULL;
    if (!wire)
        return;
    for (unsigned i = 0; i < WIRE_LINKS_MAX; i++) {
        if (wire->links[i].control.socket)
            set(wire->links[i].control.socket, ZMQ_LINGER, linger_ms);
        close_link(wire, i);
    }
    for (size_t i = 0; wire->frames && i < wire->setup.frames; i++)
        if (wire->frames[i].kept)
            zmq_msg_close(&wire->frames[i].body);
    close_bound(wire->router, wire->accepted[0]);
    close_bound(wire->pull, wire->accepted[1]);
    if (wire->bulk_ctx)
        zmq_ctx_term(wire->bulk_ctx); /* waits for the free functions of all zero-copy sends */
    if (wire->control_ctx)
        zmq_ctx_term(wire->control_ctx);
    guard_destroy(&wire->guard);
    free(wire->frames);
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

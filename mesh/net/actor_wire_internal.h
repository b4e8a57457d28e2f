/* actor_wire_internal.h - internals of a wire, for the files actor_wire*.c that implement it.
 *
 *     actor_wire.c          the bound sockets, start and end, which event belongs to which socket
 *     actor_wire_socket.c   options, monitors, descriptors
 *     actor_wire_link.c     outgoing connections
 *     actor_wire_send.c     sending
 *     actor_wire_make.c     buffers for what the core writes
 *     actor_wire_receive.c  receiving */
#ifndef MESH_ACTOR_WIRE_INTERNAL_H
#define MESH_ACTOR_WIRE_INTERNAL_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include <zmq.h>

#include "mesh/net/actor_guard.h"
#include "mesh/net/actor_wire.h"

enum {
    WIRE_SERIAL_SIZE = 4,
    WIRE_ROUTING_SIZE = PROTO_NODE_SIZE + WIRE_SERIAL_SIZE,
    /* Received bulk messages inside ZeroMQ: few, so that they are still in the cache when they are added up. */
    WIRE_BULK_IN = 4,
    WIRE_COPY_MAX = 16 << 10, /* bodies up to this size are copied: cheaper than to wait for them */
    WIRE_BUFFERS = 7,         /* of 1 MiB, under way at a time; with the spare one 8 MiB */
    WIRE_REASONS_MAX = 64,    /* different (host, error) pairs of bad bytes that are logged */
};

enum tag {
    TAG_CONTROL = 0,
    TAG_BULK = 1,
    TAG_CONTROL_MONITOR,
    TAG_BULK_MONITOR,
    TAG_EXPRESS_MONITOR,
    TAG_ROOM
};

/* An outgoing socket and the socket that reports the events of its connection. */
struct connection {
    void *socket, *monitor;
    int monitor_fd;
};

/* A message that waits for room in a queue. */
struct outgoing {
    zmq_msg_t header, body;
};

struct link {
    struct connection control, bulk, express;
    uint64_t pulse_at;      /* us; to hear from us by then; 0: no heartbeat yet; under pulse_lock */
    uint32_t pause_us;      /* as the last heartbeat said */
    bool failed;            /* wire_settle must report and close it */
    struct proto_node node; /* id 0: not accepted yet */
    char host[PROTO_HOST_MAX];
    struct outgoing *queue; /* [queue_size], a ring; allocated with the bulk socket */
    size_t queue_first, queue_count;
    bool wants_room; /* its PUSH is watched for room */
};

/* A received body. It is on the free list unless the core uses it or keeps it. */
struct frame {
    zmq_msg_t body;
    bool lent; /* the core is using it, and may keep and release it meanwhile */
    bool kept;
    struct frame *next;
};

/* Memory for a body that the core writes. */
struct buffer {
    uint8_t *memory;
    atomic_bool busy; /* ZeroMQ reads it */
};

/* The body that the core writes at present. */
struct made {
    struct frame frame;
    struct buffer *buffer;
    bool sent; /* frame.body is made */
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
    void *accepted[2]; /* monitors of router and pull: index GUARD_CONTROL, GUARD_BULK */
    int callers[2];    /* connections that they have accepted */
    char source[INET6_ADDRSTRLEN]; /* address that our connections come from; "" any */
    uint16_t control_port, bulk_port;
    uint32_t serial; /* serial number of the next connection */
    bool any_failed, pull_stalled;
    struct wire_counts counts;
    pthread_mutex_t pulse_lock; /* sending on a control link, and closing it */
    atomic_uint_fast64_t beat_at;
    struct sent sent;
    atomic_bool sleeping;
    struct frame *frames, *free_frames;
    struct buffer buffers[WIRE_BUFFERS + 1]; /* the last one is the spare one */
    struct made made;
    size_t frames_used; /* of `frames`; those behind were never needed */
    uint64_t trim_at;   /* us; 0: no peer came or went since the last trim */
    uint64_t reasons[WIRE_REASONS_MAX];
    size_t reason_count;
    struct link links[WIRE_LINKS_MAX];
    struct proto_endpoint endpoints[PROTO_PEERS_MAX]; /* room for proto_decode */
    struct proto_msg msg;
};

/* --- actor_wire.c --- */
static inline void
wire_log(struct wire *wire, int level, const char *line)
{
    wire->events.log(wire->ctx, level, line);
}

/* --- actor_wire_socket.c --- */
void wire_watch(struct wire *wire, int fd, enum tag tag, unsigned link);
void wire_unwatch(struct wire *wire, int fd);
int wire_socket_fd(void *socket);
void wire_set(void *socket, int option, int value);
void wire_set_control(void *socket);
void wire_set_bulk(void *socket);
/* The next event of a monitor; false when there is none. */
bool wire_monitor_read(void *monitor, uint16_t *event, int32_t *fd);

/* --- actor_wire_link.c --- */
/* Closes the link; the next wire_settle reports it. */
static inline void
wire_fail(struct wire *wire, unsigned link)
{
    wire->links[link].failed = true;
    wire->any_failed = true;
}
void wire_close(struct wire *wire, unsigned link);
void wire_read_monitor(struct wire *wire, unsigned link, struct connection *connection);

/* --- actor_wire_send.c --- */
/* Sends what waits for room in the PUSH of this link. */
void wire_queue_send(struct wire *wire, unsigned link);
/* Drops what waits. Call it before the PUSH is closed. */
void wire_queue_close(struct wire *wire, unsigned link);

/* --- actor_wire_make.c --- */
int wire_buffers_new(struct wire *wire);
void wire_buffers_free(struct wire *wire);
/* Before the frame is passed on: false if there is no memory. Nothing to do for a received one. */
bool wire_made_body(struct wire *wire, const struct core_frame *frame);
/* Was this a frame that was made? Then it is released. */
bool wire_made_release(struct wire *wire, void *handle);

/* --- actor_wire_receive.c --- */
int wire_frames_new(struct wire *wire);
void wire_frames_free(struct wire *wire);
/* Counts a bad message. True once per host and reason, so that nobody can fill the log. */
bool wire_complains(struct wire *wire, const char *host, int reason);
/* Receives one message. False when there is none, or no frame for it. */
bool wire_receive_control(struct wire *wire);
bool wire_receive_bulk(struct wire *wire);

#endif

/* actor_wire_socket.c - the options of our ZeroMQ sockets, their monitors, and how they are watched. */
#include <assert.h>
#include <string.h>
#include <sys/epoll.h>

#include <zmq.h>

#include "compress/coding.h"
#include "mesh/net/actor_wire_internal.h"

enum {
    CONTROL_QUEUE = 1000, /* messages, per direction */
    BULK_OUT = 64,        /* messages inside ZeroMQ; zero-copy ones hold no memory */
    HANDSHAKE_MS = 2000,
};

void
wire_watch(struct wire *wire, int fd, enum tag tag, unsigned link)
{
    struct epoll_event event = {.events = EPOLLIN};
    event.data.u64 = WIRE_TAG | (uint64_t)tag << 32 | link;
    int rc = epoll_ctl(wire->setup.epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(rc == 0);
}

void
wire_unwatch(struct wire *wire, int fd)
{
    epoll_ctl(wire->setup.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int
wire_socket_fd(void *socket)
{
    int fd = -1;
    size_t size = sizeof fd;
    zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    return fd;
}

void
wire_set(void *socket, int option, int value)
{
    int rc = zmq_setsockopt(socket, option, &value, sizeof value);
    assert(rc == 0);
}

static void
set_common(void *socket, int queue_out, int queue_in, int64_t size_max)
{
    wire_set(socket, ZMQ_LINGER, 0);
    wire_set(socket, ZMQ_SNDHWM, queue_out);
    wire_set(socket, ZMQ_RCVHWM, queue_in);
    wire_set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    int rc = zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &size_max, sizeof size_max);
    assert(rc == 0);
}

void
wire_set_control(void *socket)
{
    set_common(socket, CONTROL_QUEUE, CONTROL_QUEUE,
               PROTO_JOB_MAX > PROTO_FRAME_MAX ? PROTO_JOB_MAX : PROTO_FRAME_MAX);
}

/* No heartbeats here: a long body on a slow link would look like death. */
void
wire_set_bulk(void *socket)
{
    int64_t body_max = (int64_t)coding_most(PROTO_CHUNK_MAX);
    set_common(socket, BULK_OUT, WIRE_BULK_IN,
               body_max > PROTO_BLOCK_MAX ? body_max : PROTO_BLOCK_MAX);
}

/* Events of a monitor are two frames: number and value, then the endpoint. */
bool
wire_monitor_read(void *monitor, uint16_t *event, int32_t *fd)
{
    uint8_t value[6];
    char endpoint[PROTO_HOST_MAX];
    if (zmq_recv(monitor, value, sizeof value, ZMQ_DONTWAIT) < (int)sizeof value)
        return false;
    memcpy(event, value, sizeof *event);
    memcpy(fd, value + sizeof *event, sizeof *fd);
    return zmq_recv(monitor, endpoint, sizeof endpoint, ZMQ_DONTWAIT) >= 0;
}

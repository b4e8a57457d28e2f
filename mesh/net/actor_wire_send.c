/* actor_wire_send.c - what goes out: control messages, and bulk bodies copied, lent or passed on.
 *
 * A body that is lent is not copied: ZeroMQ reads it where it is and says when it has done so. What finds no room in
 * the PUSH of its link waits in the link's queue, which is sent on when there is room; a peer whose queue is full takes
 * nothing, and loses its link. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "mesh/net/actor_wire_internal.h"
#include "proto/clock.h"
#include "proto/fail.h"

static bool
make_message(zmq_msg_t *out, const void *data, size_t size)
{
    if (zmq_msg_init_size(out, size) != 0)
        return false;
    if (size)
        memcpy(zmq_msg_data(out), data, size);
    return true;
}

/* 0, 1 when nothing of it was sent, 2 when a part of it was. */
static int
send_frames(void *socket, const void *frame, size_t frame_size, const void *body, size_t size)
{
    if (zmq_send(socket, frame, frame_size, ZMQ_DONTWAIT | (size ? ZMQ_SNDMORE : 0)) < 0)
        return 1;
    return size && zmq_send(socket, body, size, ZMQ_DONTWAIT) < 0 ? 2 : 0;
}

void
wire_send(void *ctx, unsigned index, const struct proto_msg *msg, const void *body, size_t size)
{
    struct wire *wire = ctx;
    struct link *link = &wire->links[index];
    uint8_t frame[PROTO_FRAME_MAX];
    size_t frame_size = proto_encode(msg, frame);
    int bad = 1;
    fail_message(msg->type, FAIL_SEND, NULL, 0);
    if (link->control.socket && !link->failed) {
        pthread_mutex_lock(&wire->pulse_lock);
        bad = send_frames(link->control.socket, frame, frame_size, body, size);
        if (msg->type == PROTO_HEARTBEAT) {
            link->pause_us = msg->heartbeat.pause_us;
            link->pulse_at = clock_us() + link->pause_us;
        }
        pthread_mutex_unlock(&wire->pulse_lock);
    }
    if (msg->type == PROTO_HEARTBEAT)
        atomic_store(&wire->beat_at, clock_us());
    wire->counts.dropped += bad != 0;
    if (bad != 1)
        wire->counts.tx_bytes += frame_size + size;
    if (bad == 2)
        wire_fail(wire, index);
    if (bad != 1)
        fail_message(msg->type, FAIL_SENT, NULL, 0);
}

void
wire_pulse(struct wire *wire)
{
    const struct proto_msg alive = {.type = PROTO_PEERS};
    uint8_t frame[PROTO_FRAME_MAX];
    size_t size = proto_encode(&alive, frame);
    uint64_t now = clock_us();
    pthread_mutex_lock(&wire->pulse_lock);
    for (unsigned i = 0; i < WIRE_LINKS_MAX; i++) {
        struct link *link = &wire->links[i];
        if (link->pulse_at == 0 || now < link->pulse_at)
            continue;
        link->pulse_at = now + link->pause_us;
        zmq_send(link->control.socket, frame, size, ZMQ_DONTWAIT);
    }
    pthread_mutex_unlock(&wire->pulse_lock);
}

uint64_t
wire_beat_at(struct wire *wire)
{
    return atomic_load(&wire->beat_at);
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
    uint8_t header[PROTO_NODE_SIZE + PROTO_FRAME_MAX];
    proto_node_encode(wire->setup.self, header);
    return make_message(out, header, PROTO_NODE_SIZE + proto_encode(msg, header + PROTO_NODE_SIZE));
}

/* Whatever happens, a body that was lent is counted as returned once. */
static bool
make_body(struct wire *wire, zmq_msg_t *out, const void *body, size_t size, bool lent)
{
    bool copy = !lent || size <= WIRE_COPY_MAX, ok;
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

/* Returns 0, -EAGAIN when there is no room, or another error. The message is empty unless -EAGAIN. */
static int
outgoing_send(void *socket, struct outgoing *outgoing)
{
    int rc = 0;
    if (zmq_msg_send(&outgoing->header, socket, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        rc = zmq_errno() == EAGAIN ? -EAGAIN : -EPIPE;
    else if (zmq_msg_send(&outgoing->body, socket, ZMQ_DONTWAIT) < 0)
        rc = -EPIPE; /* half a message: the connection has just gone */
    if (rc != -EAGAIN) {
        zmq_msg_close(&outgoing->header);
        zmq_msg_close(&outgoing->body);
    }
    return rc;
}

static void
outgoing_drop(struct wire *wire, unsigned link, struct outgoing *outgoing)
{
    zmq_msg_close(&outgoing->header);
    zmq_msg_close(&outgoing->body);
    wire->counts.dropped++;
    wire_fail(wire, link);
}

static bool
by_express(const struct wire *wire, const struct proto_msg *msg)
{
    return (msg->type == PROTO_REDUCE || msg->type == PROTO_GATHER) &&
           msg->chunk.bucket < wire->setup.bucket_count && wire->setup.express[msg->chunk.bucket];
}

static void
watch_room(struct wire *wire, unsigned index, bool wanted)
{
    struct link *link = &wire->links[index];
    if (link->wants_room == wanted)
        return;
    link->wants_room = wanted;
    if (wanted)
        wire_watch(wire, wire_socket_fd(link->bulk.socket), TAG_ROOM, index);
    else
        wire_unwatch(wire, wire_socket_fd(link->bulk.socket));
}

void
wire_queue_close(struct wire *wire, unsigned index)
{
    struct link *link = &wire->links[index];
    if (link->bulk.socket)
        watch_room(wire, index, false);
    for (; link->queue_count > 0; link->queue_count--) {
        struct outgoing *outgoing = &link->queue[link->queue_first];
        zmq_msg_close(&outgoing->header);
        zmq_msg_close(&outgoing->body);
        link->queue_first = (link->queue_first + 1) % wire->setup.queue_size;
    }
    free(link->queue);
    link->queue = NULL;
    link->queue_first = 0;
}

/* Send both frames, or queue them. What finds no room in the express goes with the others. */
static void
outgoing_post(struct wire *wire, unsigned index, const struct proto_msg *msg,
              struct outgoing *outgoing)
{
    struct link *link = &wire->links[index];
    wire->counts.tx_bytes += zmq_msg_size(&outgoing->header) + zmq_msg_size(&outgoing->body);
    int rc = by_express(wire, msg) ? outgoing_send(link->express.socket, outgoing) : -EAGAIN;
    if (rc == -EAGAIN && link->queue_count == 0)
        rc = outgoing_send(link->bulk.socket, outgoing);
    fail_message(msg->type, FAIL_SENT, NULL, 0);
    if (rc == 0)
        return;
    if (rc != -EAGAIN) {
        wire_fail(wire, index);
    } else if (link->queue_count == wire->setup.queue_size) {
        wire_log(wire, 4, "a node has read no data for too long: its connection is closed");
        outgoing_drop(wire, index, outgoing);
    } else {
        struct outgoing *last =
            &link->queue[(link->queue_first + link->queue_count++) % wire->setup.queue_size];
        zmq_msg_init(&last->header);
        zmq_msg_init(&last->body);
        zmq_msg_move(&last->header, &outgoing->header);
        zmq_msg_move(&last->body, &outgoing->body);
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
wire_send_bulk(void *ctx, unsigned index, const struct proto_msg *msg, const void *body,
               size_t size, bool lent)
{
    struct wire *wire = ctx;
    struct outgoing outgoing;
    if (!takes_bulk(wire, index)) {
        if (lent)
            atomic_fetch_add(&wire->sent.done, 1);
        return;
    }
    fail_message(msg->type, FAIL_SEND, NULL, 0);
    if (!make_body(wire, &outgoing.body, body, size, lent)) {
        wire_fail(wire, index);
    } else if (!make_header(wire, &outgoing.header, msg)) {
        zmq_msg_close(&outgoing.body);
        wire_fail(wire, index);
    } else {
        outgoing_post(wire, index, msg, &outgoing);
    }
}

/* To one link; ZeroMQ counts who still needs the body. */
static void
pass_on(struct wire *wire, unsigned index, const struct proto_msg *msg, zmq_msg_t *body)
{
    struct outgoing outgoing;
    if (!takes_bulk(wire, index))
        return;
    if (!make_header(wire, &outgoing.header, msg)) {
        wire_fail(wire, index);
        return;
    }
    zmq_msg_init(&outgoing.body);
    zmq_msg_copy(&outgoing.body, body);
    outgoing_post(wire, index, msg, &outgoing);
}

void
wire_pass_on(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
             struct core_frame *frame)
{
    struct wire *wire = ctx;
    struct frame *mine = frame->handle;
    fail_message(msg->type, FAIL_SEND, frame->data, frame->size);
    bool made = wire_made_body(wire, frame);
    for (size_t k = 0; k < count; k++)
        made ? pass_on(wire, links[k], msg, &mine->body) : wire_fail(wire, links[k]);
    zmq_msg_close(&mine->body);
    zmq_msg_init(&mine->body);
}

void
wire_queue_send(struct wire *wire, unsigned index)
{
    struct link *link = &wire->links[index];
    while (link->queue_count > 0 && !link->failed) {
        int rc = outgoing_send(link->bulk.socket, &link->queue[link->queue_first]);
        if (rc == -EAGAIN)
            return;
        link->queue_first = (link->queue_first + 1) % wire->setup.queue_size;
        link->queue_count--;
        if (rc != 0)
            wire_fail(wire, index);
    }
    if (link->bulk.socket && link->queue_count == 0)
        watch_room(wire, index, false);
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

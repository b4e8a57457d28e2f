/* actor_wire_receive.c - what comes in: messages taken from the bound sockets, decoded, and bodies that may be kept.
 *
 *             received           wire_keep                wire_release
 *     free -------------> lent ------------> kept ------------------> free
 *       ^                   |
 *       +-------------------+ not kept
 *
 * When the core keeps every frame, nothing more is read and TCP holds the senders back. Who sends what cannot be
 * understood gets one line in the log, and loses its link when it is an accepted peer. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "mesh/net/actor_wire_internal.h"
#include "proto/fail.h"
#include "proto/mix.h"

void
wire_keep(void *ctx, struct core_frame *frame)
{
    struct frame *mine = frame->handle;
    (void)ctx;
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

int
wire_frames_new(struct wire *wire)
{
    wire->frames = calloc(wire->setup.frames, sizeof *wire->frames);
    wire->frames_used = 0;
    return wire->frames ? 0 : -ENOMEM;
}

/* There may be many: memory of those that were never needed is not touched. NULL: all are kept. */
static struct frame *
frame_free(struct wire *wire)
{
    if (!wire->free_frames && wire->frames_used < wire->setup.frames) {
        struct frame *fresh = &wire->frames[wire->frames_used++];
        zmq_msg_init(&fresh->body);
        frame_put_back(wire, fresh);
    }
    return wire->free_frames;
}

void
wire_frames_free(struct wire *wire)
{
    for (size_t i = 0; wire->frames && i < wire->frames_used; i++)
        if (wire->frames[i].kept)
            zmq_msg_close(&wire->frames[i].body);
    free(wire->frames);
    wire->frames = NULL;
}

void
wire_release(void *ctx, void *handle)
{
    struct wire *wire = ctx;
    struct frame *mine = handle;
    assert(mine->kept);
    if (wire_made_release(wire, handle))
        return;
    mine->kept = false;
    if (!mine->lent)
        frame_put_back(wire, mine);
}

bool
wire_complains(struct wire *wire, const char *host, int reason)
{
    uint64_t key = mix64((uint64_t)-reason);
    wire->counts.bad++;
    for (const char *c = host; *c; c++)
        key = mix64_pair(key, (uint8_t)*c);
    for (size_t i = 0; i < wire->reason_count; i++)
        if (wire->reasons[i] == key)
            return false;
    if (wire->reason_count == WIRE_REASONS_MAX)
        return false;
    wire->reasons[wire->reason_count++] = key;
    return true;
}

static void
complain(struct wire *wire, const char *host, int reason, const char *why)
{
    char line[512];
    if (!wire_complains(wire, host, reason))
        return;
    if (reason == -EPROTONOSUPPORT)
        snprintf(line, sizeof line,
                 "%s runs another version of meshnode and cannot take part (%s): install the same "
                 "version on both",
                 host[0] ? host : "a node", why);
    else
        snprintf(line, sizeof line, "bad message from %s: %s", host[0] ? host : "?", why);
    wire_log(wire, 4, line);
}

/* Whoever sends nonsense as an accepted peer loses its link; a stranger has none. */
static void
fail_link_of(struct wire *wire, struct proto_node node)
{
    for (unsigned i = 0; i < WIRE_LINKS_MAX; i++)
        if (node.id && proto_node_equal(wire->links[i].node, node))
            wire_fail(wire, i);
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

/* Tell the guard of a whole message; `from` has id 0 when it was not valid. */
static void
tell_guard(struct wire *wire, int fd, enum guard_plane plane, struct proto_node from)
{
    bool member = false;
    for (unsigned i = 0; from.id && !member && i < WIRE_LINKS_MAX; i++)
        member = proto_node_equal(wire->links[i].node, from);
    guard_heard(wire->guard, fd, plane, from, member);
}

/* Returns the sender, id 0 when the message is not valid. */
static struct proto_node
take_control(struct wire *wire, zmq_msg_t *id, zmq_msg_t *header, zmq_msg_t *body, bool too_long)
{
    struct why why = {"unexpected frames"};
    char host[PROTO_HOST_MAX];
    struct proto_node from = {0, 0};
    snprintf(host, sizeof host, "%s", peer_host(header));
    wire->counts.rx_bytes += zmq_msg_size(header) + zmq_msg_size(body);
    int rc = too_long || zmq_msg_size(id) != WIRE_ROUTING_SIZE ? -EBADMSG : 0;
    if (rc == 0)
        rc = proto_node_decode(&from, zmq_msg_data(id), PROTO_NODE_SIZE);
    if (rc == 0)
        rc = proto_decode(&wire->msg, wire->endpoints, zmq_msg_data(header), zmq_msg_size(header),
                          &why);
    if (rc == 0) {
        const int type = wire->msg.type;
        fail_message(type, FAIL_GOT, zmq_msg_data(body), zmq_msg_size(body));
        wire->events.message(wire->ctx, from, host, &wire->msg, zmq_msg_data(body),
                             zmq_msg_size(body));
        fail_message(type, FAIL_TAKEN, NULL, 0);
        return from;
    }
    complain(wire, host, rc, why.line);
    fail_link_of(wire, from);
    return (struct proto_node){0, 0};
}

bool
wire_receive_control(struct wire *wire)
{
    zmq_msg_t id, header, body;
    bool too_long = false;
    zmq_msg_init(&id);
    if (zmq_msg_recv(&id, wire->router, ZMQ_DONTWAIT) < 0) {
        guard_empty(wire->guard, GUARD_CONTROL);
        return false;
    }
    zmq_msg_init(&header);
    zmq_msg_init(&body);
    if (has_more(&id))
        zmq_msg_recv(&header, wire->router, ZMQ_DONTWAIT);
    if (has_more(&header))
        zmq_msg_recv(&body, wire->router, ZMQ_DONTWAIT);
    too_long = skip_rest(wire->router, &body);
    int fd = zmq_msg_get(&header, ZMQ_SRCFD);
    tell_guard(wire, fd, GUARD_CONTROL, take_control(wire, &id, &header, &body, too_long));
    zmq_msg_close(&id);
    zmq_msg_close(&header);
    zmq_msg_close(&body);
    return true;
}

/* As take_control. A greeting is a sender without a header. */
static struct proto_node
take_bulk(struct wire *wire, zmq_msg_t *header, struct frame *frame, bool too_long)
{
    struct why why = {"unexpected frames"};
    const uint8_t *data = zmq_msg_data(header);
    size_t size = zmq_msg_size(header);
    struct proto_node from = {0, 0};
    struct core_frame body = {zmq_msg_data(&frame->body), zmq_msg_size(&frame->body), frame};
    wire->counts.rx_bytes += size + body.size;
    int rc = too_long || size < PROTO_NODE_SIZE ? -EBADMSG : 0;
    if (rc == 0)
        rc = proto_node_decode(&from, data, PROTO_NODE_SIZE);
    if (rc == 0 && size == PROTO_NODE_SIZE && !has_more(header))
        return from;
    if (rc == 0)
        rc = proto_decode(&wire->msg, NULL, data + PROTO_NODE_SIZE, size - PROTO_NODE_SIZE, &why);
    if (rc == 0) {
        const int type = wire->msg.type;
        fail_message(type, FAIL_GOT, zmq_msg_data(&frame->body), body.size);
        if (type == PROTO_GIVE && wire->msg.give.object == PROTO_OBJECT_STATE)
            fail_hit(FAIL_STATE_GOT, zmq_msg_data(&frame->body), body.size);
        wire->events.bulk(wire->ctx, from, &wire->msg, &body);
        fail_message(type, FAIL_TAKEN, NULL, 0);
        return from;
    }
    complain(wire, peer_host(header), rc, why.line);
    fail_link_of(wire, from);
    return (struct proto_node){0, 0};
}

bool
wire_receive_bulk(struct wire *wire)
{
    zmq_msg_t header;
    struct frame *frame = frame_free(wire);
    wire->pull_stalled = frame == NULL; /* all kept: let TCP hold the senders back */
    if (!frame)
        return false;
    zmq_msg_init(&header);
    if (zmq_msg_recv(&header, wire->pull, ZMQ_DONTWAIT) < 0) {
        guard_empty(wire->guard, GUARD_BULK);
        return false;
    }
    wire->free_frames = frame->next;
    zmq_msg_init(&frame->body);
    if (has_more(&header))
        zmq_msg_recv(&frame->body, wire->pull, ZMQ_DONTWAIT);
    bool too_long = skip_rest(wire->pull, &frame->body);
    int fd = zmq_msg_get(&header, ZMQ_SRCFD);
    frame->lent = true;
    tell_guard(wire, fd, GUARD_BULK, take_bulk(wire, &header, frame, too_long));
    frame->lent = false;
    zmq_msg_close(&header);
    if (!frame->kept)
        frame_put_back(wire, frame);
    return true;
}

bool
wire_stalled(const struct wire *wire)
{
    return wire->pull_stalled && wire->free_frames;
}

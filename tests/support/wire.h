/* wire.h - the wire of a core in a test: it keeps what core.h says of links and frames, or the program ends.
 *
 *     wire_init(&world->wire, sent, leads, world);
 *     config.wire = &wire_calls, config.wire_ctx = &world->wire;      // or a copy with a make and a pass_on
 *     wire_deliver(&world->wire, world->core, now, node, &msg, body, size);   // a bulk message, in memory of its own
 *
 * `sent` is told what the core sends, and `leads` says whose endpoint that is to which it connects. Memory of frames is
 * exact, for sanitizers. */
#ifndef SUPPORT_WIRE_H
#define SUPPORT_WIRE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/core.h"

enum { WIRE_LINKS = 2 * PROTO_PEERS_MAX, WIRE_NOBODY = UINT16_MAX };

struct wire_link {
    bool open, up, peer;
    unsigned to;    /* as `leads` said; WIRE_NOBODY: nobody is there */
    uint32_t asked; /* in the newest HELLO */
};

struct wire_frame {
    bool kept;
    size_t size;
    uint8_t *data;
};

typedef void wire_sent(void *owner, unsigned link, const struct proto_msg *msg, const void *body,
                       size_t size, bool bulk);

struct wire {
    struct wire_link links[WIRE_LINKS];
    size_t in_flight;                   /* bodies lent */
    unsigned kept;                      /* frames */
    size_t kept_size;                   /* their bytes */
    const struct wire_frame *delivered; /* right now */
    wire_sent *sent;
    unsigned (*leads)(void *owner, const struct proto_endpoint *to);
    void *owner;
};

static inline void
wire_demand(bool kept, const char *what)
{
    if (kept)
        return;
    fprintf(stderr, "the core breaks its contract: %s\n", what);
    abort();
}

static inline void
wire_init(struct wire *wire, wire_sent *sent,
          unsigned (*leads)(void *owner, const struct proto_endpoint *to), void *owner)
{
    *wire = (struct wire){.sent = sent, .leads = leads, .owner = owner};
}

static inline void
wire_connect(void *ctx, unsigned link, const struct proto_endpoint *to)
{
    struct wire *wire = ctx;
    wire_demand(link < WIRE_LINKS && !wire->links[link].open, "connect on a link in use");
    wire_demand(to->control_port != 0, "connect to no port");
    wire->links[link] = (struct wire_link){.open = true, .to = wire->leads(wire->owner, to)};
}

static inline void
wire_close(struct wire *wire, unsigned link, bool peer)
{
    wire_demand(link < WIRE_LINKS && wire->links[link].open, "close of a closed link");
    wire_demand(wire->links[link].peer == peer, "disconnect and peer_down mixed up");
    wire->links[link].open = wire->links[link].up = wire->links[link].peer = false;
}

static inline void
wire_disconnect(void *ctx, unsigned link)
{
    wire_close(ctx, link, false);
}

static inline void
wire_peer_up(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port)
{
    struct wire *wire = ctx;
    wire_demand(link < WIRE_LINKS && wire->links[link].up && !wire->links[link].peer,
                "peer_up without a link");
    wire_demand(node.id != 0 && bulk_port != 0, "peer_up of nobody");
    wire->links[link].peer = true;
}

static inline void
wire_peer_down(void *ctx, unsigned link)
{
    wire_close(ctx, link, true);
}

/* Fields outside their limits fail in the coder. */
static inline void
wire_pass(struct wire *wire, unsigned link, const struct proto_msg *msg, const void *body,
          size_t size, bool bulk)
{
    uint8_t frame[PROTO_FRAME_MAX];
    wire_demand(link < WIRE_LINKS && wire->links[link].up, "send on a link that is not up");
    size_t coded = proto_encode(msg, frame);
    wire_demand(coded > 0 && coded <= sizeof frame, "a message that cannot be encoded");
    if (msg->type == PROTO_HELLO && msg->hello.asks != 0)
        wire->links[link].asked = msg->hello.asks;
    wire->sent(wire->owner, link, msg, body, size, bulk);
}

static inline void
wire_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size)
{
    wire_pass(ctx, link, msg, body, size, false);
}

static inline void
wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
               bool lent)
{
    struct wire *wire = ctx;
    wire_demand(link < WIRE_LINKS && wire->links[link].peer, "bulk without a peer");
    wire_pass(wire, link, msg, body, size, true);
    wire->in_flight += lent;
}

static inline void
wire_keep(void *ctx, struct core_frame *frame)
{
    struct wire *wire = ctx;
    struct wire_frame *mine = frame->handle;
    wire_demand(!mine->kept, "a frame is kept twice");
    mine->kept = true;
    mine->size = frame->size;
    wire->kept++;
    wire->kept_size += frame->size;
}

static inline void
wire_release(void *ctx, void *handle)
{
    struct wire *wire = ctx;
    struct wire_frame *frame = handle;
    wire_demand(frame->kept && wire->kept > 0, "release of what was not kept");
    wire->kept--;
    wire->kept_size -= frame->size;
    free(frame->data);
    *frame = (struct wire_frame){.kept = false};
    if (frame != wire->delivered)
        free(frame);
}

/* A frame that the core writes: kept from the start. */
static inline struct core_frame
wire_made(struct wire *wire, size_t size)
{
    struct wire_frame *frame = calloc(1, sizeof *frame);
    wire_demand(frame != NULL, "memory");
    *frame = (struct wire_frame){.kept = true, .data = malloc(size ? size : 1)};
    wire_demand(frame->data != NULL, "memory");
    wire->kept++;
    return (struct core_frame){frame->data, 0, frame};
}

static inline void
wire_deliver(struct wire *wire, struct core *core, uint64_t now, struct proto_node from,
             const struct proto_msg *msg, const void *body, size_t size)
{
    struct core_frame made = wire_made(wire, size);
    struct wire_frame *frame = made.handle;
    wire->kept--;
    frame->kept = false;
    if (size)
        memcpy(frame->data, body, size);
    made.size = size;
    wire->delivered = frame;
    core_on_bulk(core, now, from, msg, &made);
    wire->delivered = NULL;
    if (frame->kept)
        return;
    free(frame->data);
    free(frame);
}

static const struct core_wire wire_calls = {
    .connect = wire_connect,
    .disconnect = wire_disconnect,
    .send = wire_send,
    .send_bulk = wire_send_bulk,
    .peer_up = wire_peer_up,
    .peer_down = wire_peer_down,
    .keep = wire_keep,
    .release = wire_release,
};

#endif

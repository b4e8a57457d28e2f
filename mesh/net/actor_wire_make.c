/* actor_wire_make.c - bodies that the core writes itself, in buffers that come back.
 *
 * A buffer is lent to ZeroMQ as own[] is, and is free again when the last peer's bytes have left: a thread of ZeroMQ
 * says so. What is short, and what must be sent while all buffers are under way, is written into one spare buffer and
 * copied. So this memory is bounded, and nobody waits for it. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compress/coding.h"
#include "mesh/net/actor_wire_internal.h"

/* What a buffer is for a chunk: 1 MiB, and the widths. */
static size_t
buffer_size(void)
{
    return (coding_most(PROTO_CHUNK_MAX) + 63) & ~(size_t)63;
}

int
wire_buffers_new(struct wire *wire)
{
    for (unsigned i = 0; i <= WIRE_BUFFERS; i++) {
        wire->buffers[i].memory = aligned_alloc(64, buffer_size());
        if (!wire->buffers[i].memory)
            return -ENOMEM;
    }
    return 0;
}

void
wire_buffers_free(struct wire *wire)
{
    for (unsigned i = 0; i <= WIRE_BUFFERS; i++)
        free(wire->buffers[i].memory);
}

static struct buffer *
spare_buffer(struct wire *wire)
{
    return &wire->buffers[WIRE_BUFFERS];
}

static struct buffer *
free_buffer(struct wire *wire)
{
    for (unsigned i = 0; i < WIRE_BUFFERS; i++)
        if (!atomic_load(&wire->buffers[i].busy))
            return &wire->buffers[i];
    return NULL;
}

bool
wire_make(void *ctx, size_t most, bool must, struct core_frame *frame)
{
    struct wire *wire = ctx;
    struct made *made = &wire->made;
    assert(most <= buffer_size() && !made->frame.kept);
    made->buffer = most > WIRE_COPY_MAX ? free_buffer(wire) : spare_buffer(wire);
    if (!made->buffer && must)
        made->buffer = spare_buffer(wire);
    if (!made->buffer)
        return false;
    made->frame.kept = true;
    made->sent = false;
    zmq_msg_init(&made->frame.body);
    *frame = (struct core_frame){made->buffer->memory, 0, &made->frame};
    return true;
}

/* Runs in a thread of ZeroMQ. */
static void
buffer_is_back(void *data, void *hint)
{
    struct buffer *buffer = hint;
    (void)data;
    atomic_store(&buffer->busy, false);
}

/* The body of what was made, as ZeroMQ wants it. */
bool
wire_made_body(struct wire *wire, const struct core_frame *frame)
{
    struct made *made = &wire->made;
    if (frame->handle != &made->frame || made->sent)
        return true;
    made->sent = true;
    if (made->buffer == spare_buffer(wire) || frame->size <= WIRE_COPY_MAX) {
        if (zmq_msg_init_size(&made->frame.body, frame->size) != 0)
            return false;
        memcpy(zmq_msg_data(&made->frame.body), frame->data, frame->size);
        return true;
    }
    atomic_store(&made->buffer->busy, true);
    if (zmq_msg_init_data(&made->frame.body, frame->data, frame->size, buffer_is_back,
                          made->buffer) == 0)
        return true;
    atomic_store(&made->buffer->busy, false);
    return false;
}

bool
wire_made_release(struct wire *wire, void *handle)
{
    struct made *made = &wire->made;
    if (handle != &made->frame)
        return false;
    made->frame.kept = false;
    zmq_msg_close(&made->frame.body);
    return true;
}

/* bytes.c - little-endian cursors: every access first takes its room, and an overrun empties the cursor. */
#include "proto/bytes.h"

#include <string.h>

struct bytes_in
bytes_in(const void *data, size_t size)
{
    const uint8_t *at = data;
    return (struct bytes_in){.at = at, .end = size ? at + size : at};
}

size_t
bytes_left(const struct bytes_in *in)
{
    return (size_t)(in->end - in->at);
}

bool
bytes_done(const struct bytes_in *in)
{
    return !in->overrun && in->at == in->end;
}

const uint8_t *
bytes_raw(struct bytes_in *in, size_t size)
{
    static const uint8_t nothing[1];
    if (in->overrun || size > bytes_left(in)) {
        in->overrun = true;
        in->at = in->end;
        return NULL;
    }
    if (size == 0)
        return nothing;
    in->at += size;
    return in->at - size;
}

static uint64_t
get(struct bytes_in *in, size_t size)
{
    const uint8_t *from = bytes_raw(in, size);
    uint64_t value = 0;
    for (size_t i = 0; from && i < size; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

uint8_t
bytes_u8(struct bytes_in *in)
{
    return (uint8_t)get(in, 1);
}

uint16_t
bytes_u16(struct bytes_in *in)
{
    return (uint16_t)get(in, 2);
}

uint64_t
bytes_u64(struct bytes_in *in)
{
    return get(in, 8);
}

struct bytes_out
bytes_out(void *data, size_t size)
{
    uint8_t *at = data;
    return (struct bytes_out){.at = at, .end = size ? at + size : at};
}

size_t
bytes_written(const struct bytes_out *out, const void *data)
{
    return (size_t)(out->at - (const uint8_t *)data);
}

void
bytes_put_raw(struct bytes_out *out, const void *data, size_t size)
{
    if (out->overrun || size > (size_t)(out->end - out->at)) {
        out->overrun = true;
        return;
    }
    if (size == 0)
        return;
    memcpy(out->at, data, size);
    out->at += size;
}

static void
put_uint(struct bytes_out *out, uint64_t value, size_t size)
{
    uint8_t little[8];
    for (size_t i = 0; i < size; i++)
        little[i] = (uint8_t)(value >> 8 * i);
    bytes_put_raw(out, little, size);
}

void
bytes_put_u8(struct bytes_out *out, uint8_t value)
{
    put_uint(out, value, 1);
}

void
bytes_put_u16(struct bytes_out *out, uint16_t value)
{
    put_uint(out, value, 2);
}

void
bytes_put_u64(struct bytes_out *out, uint64_t value)
{
    put_uint(out, value, 8);
}

/* bytes.h - little-endian cursors with bounds checks. An overrun is remembered.
 *
 * Read or write a whole record first, and check once at the end:
 *
 *     struct bytes_in in = bytes_in(frame, size);
 *     uint16_t version = bytes_u16(&in);
 *     uint64_t id = bytes_u64(&in);
 *     if (!bytes_done(&in))                // too short or too long
 *         return -EBADMSG;
 *
 * After an overrun every read returns 0 and every write does nothing. Uses nothing. */
#ifndef PROTO_BYTES_H
#define PROTO_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes_in {
    const uint8_t *at, *end; /* borrowed */
    bool overrun;
};

struct bytes_out {
    uint8_t *at, *end; /* borrowed */
    bool overrun;
};

struct bytes_in bytes_in(const void *data, size_t size);
uint8_t bytes_u8(struct bytes_in *in);
uint16_t bytes_u16(struct bytes_in *in);
uint64_t bytes_u64(struct bytes_in *in);
/* The next `size` bytes, borrowed from the input. NULL only on overrun. */
const uint8_t *bytes_raw(struct bytes_in *in, size_t size);
size_t bytes_left(const struct bytes_in *in);
/* True when there was no overrun and nothing is left. */
bool bytes_done(const struct bytes_in *in);

struct bytes_out bytes_out(void *data, size_t size);
void bytes_put_u8(struct bytes_out *out, uint8_t value);
void bytes_put_u16(struct bytes_out *out, uint16_t value);
void bytes_put_u64(struct bytes_out *out, uint64_t value);
void bytes_put_raw(struct bytes_out *out, const void *data, size_t size);
/* Bytes written so far since `data`. */
size_t bytes_written(const struct bytes_out *out, const void *data);

#endif

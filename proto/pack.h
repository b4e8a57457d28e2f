/* pack.h - reads and writes msgpack one token at a time, with bounds checks and without allocating memory.
 *
 * Writing uses msgpack-c's packer on a buffer of fixed size. Reading does not use msgpack_unpack, because it
 * allocates memory for the counts that a message announces: 8 GiB for the five bytes dd 0f ff ff ff. Instead the
 * caller knows which token must come next and asks for it. Only the shortest form of a token is accepted, so equal
 * messages have equal bytes. When a read fails, the cursor does not move, and pack_found describes the token there.
 * Format: github.com/msgpack/msgpack/blob/master/spec.md. Uses msgpack-c. */
#ifndef PROTO_PACK_H
#define PROTO_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_in {
    const uint8_t *at, *end; /* borrowed */
};

bool pack_read_uint(struct pack_in *in, uint64_t *value);
bool pack_read_bool(struct pack_in *in, bool *value);
/* *text is borrowed from the input and has no final 0. At most 65535 bytes. */
bool pack_read_text(struct pack_in *in, const char **text, size_t *size);
/* Reads only the head; the elements follow. At most 65535 elements. */
bool pack_read_list(struct pack_in *in, size_t *count);
/* Describes the token at the cursor, for messages: "a float". */
const char *pack_found(const struct pack_in *in);

struct pack_out {
    uint8_t *data; /* borrowed */
    size_t size;   /* written so far */
    size_t max;    /* asserted: writing more is our own bug */
};

void pack_uint(struct pack_out *out, uint64_t value);
void pack_bool(struct pack_out *out, bool value);
void pack_text(struct pack_out *out, const char *text, size_t size);
void pack_list(struct pack_out *out, size_t count);

#endif

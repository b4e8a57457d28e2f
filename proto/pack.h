/* pack.h - msgpack, one token at a time, within bounds and without memory of its own.
 *
 * Writing goes through msgpack-c's packer into a buffer of fixed size. Reading does not go through
 * msgpack_unpack, which reserves memory by announced counts (8 GiB for the five bytes dd 0f ff ff ff): the
 * caller knows which token must come next and asks for it. Only the shortest form of a token is taken, so
 * equal messages are equal bytes. A reader that fails stays where it is; pack_found then names what is
 * there. Format: github.com/msgpack/msgpack/blob/master/spec.md. Uses msgpack-c. */
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
/* *text is borrowed from the input, without a final 0; at most 65535 bytes. */
bool pack_read_text(struct pack_in *in, const char **text, size_t *size);
/* The elements follow; at most 65535. */
bool pack_read_list(struct pack_in *in, size_t *count);
/* What is at the cursor, for messages: "a float". */
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

/* coding.h - how the elements of a chunk are written in its body, and sums of what is written.
 *
 *     PROTO_CODING_RAW       int32, one after the other: sent from the vector, and added in the received frame
 *     PROTO_CODING_PACKED    packed.h: as many bits as a group of 128 needs
 *
 * A coding says which bytes travel, and loses nothing: the grid to which gradients are rounded is that of exact.h. Who
 * sends its own elements chooses the shorter one; a sum goes on as it came. Another coding is a value of enum
 * proto_coding, and a case in each function here: a body is read and written a block at a time, beside its sum and its
 * checksum (check.h), and is nowhere in memory as int32.
 *
 * Uses proto. No allocation. */
#ifndef COMPRESS_CODING_H
#define COMPRESS_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/packed.h"
#include "proto/proto.h"

enum { CODING_LEAST = PACKED_GROUP /* fewer elements are not worth packing */ };

/* Bytes of `count` elements as int32. */
static inline size_t
coding_raw(uint64_t count)
{
    return (size_t)count * sizeof(int32_t);
}

/* The most bytes that a body of `count` elements can have. */
static inline size_t
coding_most(uint64_t count)
{
    return packed_most((size_t)count);
}

/* Is body[size] a body of exactly `count` elements? */
bool coding_fits(enum proto_coding coding, const void *body, size_t size, uint64_t count);

/* Writes x[n] as a packed body, to[coding_most(n)], with the checksum of x. Returns its size; 0: it would have more
 * than `most` bytes, by its first blocks or as a whole. `quick`: as struct packed_out says. */
size_t coding_pack(void *to, const int32_t *x, size_t n, size_t most, bool quick, uint64_t *check);
/* out[n] = the body's elements, which fits. Sets *check to their checksum. False: bits that must be zero are not. */
bool coding_copy(int32_t *out, enum proto_coding coding, const void *body, size_t n,
                 uint64_t *check);
/* out[n] = a[n] + the body's elements. Sets the checksums of a and of out. */
bool coding_sum(int32_t *out, const int32_t *a, enum proto_coding coding, const void *body,
                size_t n, uint64_t *a_check, uint64_t *out_check);
/* The sum of a[n] and a packed body as another packed body, to[coding_most(n)], of *size bytes; and in out[n], unless
 * that is NULL. */
bool coding_sum_on(void *to, size_t *size, int32_t *out, const int32_t *a, const void *body,
                   size_t n, bool quick, uint64_t *a_check, uint64_t *out_check);

#endif

/* coding.h - how the elements of a chunk are written in its body. The coding judges how long a body must be. PROTO_CODING_RAW:
 * int32, one after the other; it is sent from the vector and added from the frame in place, never copied. Uses proto. */
#ifndef COMPRESS_CODING_H
#define COMPRESS_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/proto.h"

/* Bytes of a body of `count` elements, at most. */
static inline size_t
coding_bytes(enum proto_coding coding, uint64_t count)
{
    (void)coding;
    return (size_t)count * sizeof(int32_t);
}

/* May a body of `size` bytes hold exactly `count` elements? */
static inline bool
coding_fits(enum proto_coding coding, uint64_t count, size_t size)
{
    return size == coding_bytes(coding, count);
}

#endif

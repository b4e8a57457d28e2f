/* coding.h - how the elements of a chunk are written in its body. The coding judges how long a body must be. Uses libc. */
#ifndef COMPRESS_CODING_H
#define COMPRESS_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coding {
    CODING_RAW, /* int32, little-endian, one after the other: sent from and added in place, never copied */
};

/* Bytes of a body of `count` elements, at most. */
static inline size_t
coding_bytes(enum coding coding, uint64_t count)
{
    (void)coding;
    return (size_t)count * sizeof(int32_t);
}

/* May a body of `size` bytes hold exactly `count` elements? */
static inline bool
coding_fits(enum coding coding, uint64_t count, size_t size)
{
    return size == coding_bytes(coding, count);
}

#endif

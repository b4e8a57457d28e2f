/* coding.h - how the elements of a chunk are written in its body. The coding judges how long a body must be. PROTO_CODING_RAW:
 * int32, one after the other; it is sent from the vector and added from the frame in place, never copied. Uses proto.
 *
 * A coding only says which bytes travel: the grid to which gradients are rounded is that of exact.h. Another one is a value in
 * enum proto_coding, its length here, and in mesh/core/rounds
 *
 *     route.h                   own_chunk chooses it, send_own writes a body, lane_take_total reads one
 *     route_*.c                 add a body (check_sum, check_sum_copy, check_copy), and pass its frame on
 *     collective.c, servers.c   count the bytes of RAW where they choose routes; so do cost.c and straggler.c of group
 *
 * What it loses, a node may keep for its shards if they do not change hands: pinned in struct core_state. */
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

/* servers.h - elected servers: which members sum which ranges of a bucket. The leader decides it, the plan carries it.
 *
 * A bucket that servers sum is divided into *ranges*: as few as give each server its share, as messages have a price;
 * but where a share is longer than a chunk, none is longer than half of one, so that a server sums in its caches. Each
 * range belongs to one server by weighted rendezvous hashing (Thaler and Ravishankar, IEEE/ACM Trans. Netw. 1998): a
 * server draws `weight` numbers from the range, its own id and a counter, and the highest number of all servers wins.
 * But no server gets more ranges of a bucket than its share by weight, rounded up: the ranges are given away in their
 * order, and who has its share draws no more (Mirrokni, Thorup and Zadimoghaddam, SODA 2018). So servers of equal
 * weight have equal work. When one is replaced by another, few ranges move beside its own. Only integers are compared,
 * so all members of a plan come to the same result.
 *
 * In a plan of the engine "rounds" the duties of a member are:
 *
 *     bits 0..4    weight, 0..SERVERS_WEIGHT_MAX; 0: it serves nothing, and all other bits are 0
 *     bits 8..13   it serves buckets of more than 2^above bytes
 *     bits 16..21  and of at most 2^upto bytes
 *
 * A bucket that nobody serves goes round the ring, or directly from everyone to everyone (collective.h).
 *
 * Who is elected: the `servers` members with the highest weights. The weight is the share of the best member's speed or
 * of its line that this member has, whichever is less. The leader knows both from heartbeats. With `auto`, all members
 * serve, but only the buckets for which two trips to the servers take less time than 2(n-1) trips along the ring
 * (cost.h). */
#ifndef MESH_SERVERS_H
#define MESH_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/core.h"

enum {
    SERVERS_WEIGHT_MAX = 16,
    SERVERS_RANGE_MIN = 1 << 16, /* elements of a range, unless the bucket is smaller */
    SERVERS_FINE = 4,            /* ranges per server when weights differ, to tell shares apart */
    SERVERS_PARTS_MAX = 64,      /* a bucket has no more ranges, if a chunk is long enough */
    SERVERS_SIZE_MAX = 63,       /* log2 of bytes */
    SERVERS_AUTO_MAX = 40,       /* `auto` looks at buckets of up to 2^40 bytes */
};

/* What a member of a plan serves. */
struct servers_duty {
    unsigned weight, above, upto;
};

static inline uint64_t
servers_pack(struct servers_duty duty)
{
    return duty.weight == 0 ? 0
                            : duty.weight | (uint64_t)duty.above << 8 | (uint64_t)duty.upto << 16;
}

static inline struct servers_duty
servers_unpack(uint64_t duties)
{
    return (struct servers_duty){duties & 31, duties >> 8 & SERVERS_SIZE_MAX,
                                 duties >> 16 & SERVERS_SIZE_MAX};
}

/* Are the duties of this plan well formed? */
bool servers_valid(const struct proto_plan *plan);

/* --- The geometry --------------------------------------------------------------------------------- */

/* Range r of a bucket is [first + r * elems, first + (r + 1) * elems), within the bucket. `first` may lie before the
 * bucket, so that ranges begin where copies may bypass the caches. */
struct servers_ranges {
    uint64_t first;
    uint32_t elems;
    size_t count; /* of ranges */
};

/* The ranges of a bucket under this plan; somebody serves it. */
struct servers_ranges servers_divide(const struct core_bucket *bucket, uint32_t chunk_elems,
                                     const struct proto_plan *plan);
/* The most ranges that it may have under any plan. */
size_t servers_ranges_max(const struct core_bucket *bucket, uint32_t chunk_elems);

static inline uint64_t
servers_begin(const struct servers_ranges *ranges, const struct core_bucket *bucket, size_t r)
{
    return r == 0 ? bucket->first : ranges->first + r * ranges->elems;
}

static inline uint64_t
servers_end(const struct servers_ranges *ranges, const struct core_bucket *bucket, size_t r)
{
    return r + 1 >= ranges->count ? bucket->first + bucket->count
                                  : ranges->first + (r + 1) * ranges->elems;
}

/* --- Who serves ----------------------------------------------------------------------------------- */

/* Does a bucket of at most `direct_bytes` go directly from everyone to everyone? All members of a plan must agree, so
 * this is a rule of the protocol and asks no measurement: it pays on a line of 1 Gbit/s. */
bool servers_direct(size_t n, uint64_t direct_bytes, uint64_t bytes);
/* Does anybody serve buckets of this size? */
bool servers_take(const struct proto_plan *plan, uint64_t bytes);

/* The ranges of a bucket are given to servers, one after the other. */
struct servers_deal {
    const struct proto_plan *plan;  /* borrowed */
    size_t bucket, next;            /* range */
    uint64_t room[PROTO_PEERS_MAX]; /* ranges that each member may still get */
    unsigned weight[PROTO_PEERS_MAX];
};

/* Bucket `bucket` has `bytes` bytes and `ranges` ranges; somebody serves it. */
void servers_deal(struct servers_deal *deal, const struct proto_plan *plan, uint64_t bytes,
                  size_t bucket, size_t ranges);
/* The rank of the server of the next range: of range 0, then 1, ... */
unsigned servers_deal_next(struct servers_deal *deal);

#endif

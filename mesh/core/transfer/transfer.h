/* transfer.h - what both sides of catching up compute in the same way: which blocks there are, and checksums; and the
 * memory of one state.
 *
 * A state consists of ranges, config.stages.spans, each of one segment or of all (pipeline/stages.h); without such, of
 * one range that everybody has. A range is divided into blocks of config.block_size bytes; its last one may be shorter,
 * and an empty state is one empty block. The blocks are numbered over all ranges, so a number means the same on all
 * nodes, also on those that do not hold it.
 *
 * A total consists of the buckets of its round, one after the other. Where the model may be cut, the buckets of each
 * segment are a range, and buckets that belong to no segment are one more. A range is divided into blocks as above.
 * They are numbered over the ranges that somebody gets: a follower that holds two of three segments has no gap in its
 * numbers.
 *
 * config.state_in and the hashes have room for one state. Either it is being fetched (fetch.h), or it is the copy that
 * others get (serve.h). The two take turns: the engine tells one to yield as soon as the other uses the memory. Only a
 * node that is done may fetch beside its copy: segments that it does not hold. */
#ifndef MESH_TRANSFER_H
#define MESH_TRANSFER_H

#include "mesh/core/core.h"
#include "proto/hash.h"
#include "proto/mix.h"

struct transfer_range {
    size_t offset, size; /* bytes of the state; of a total of all buckets */
    int segment;         /* or CORE_ALL_HOLD */
    uint64_t first;      /* of a state: number of its first block */
};

struct transfer {
    struct transfer_range *state, *total;
    size_t state_ranges, total_ranges;
    size_t *bucket_at; /* [bucket_count + 1]: where each bucket begins in a total of all */
    size_t block_size;
    size_t segments;  /* whose hashes an OFFER tells: 0 if the model cannot be cut */
    uint64_t all;     /* bitmap of all segments */
    uint64_t blocks;  /* of a state; at least 1 */
    uint64_t *hashes; /* [blocks] of the state in config.state_in, as far as it is there */
    uint64_t *offer;  /* [segments + blocks]: the body of an OFFER */
};

struct transfer_block {
    size_t offset,
        size; /* as of the ranges; size 0: an empty state, or the total has no such block */
    int segment;
};

/* Returns 0 or -ENOMEM; call transfer_fini in both cases. */
int transfer_init(struct transfer *transfer, const struct core_config *config,
                  const struct core_bucket *buckets);
void transfer_fini(struct transfer *transfer);

struct transfer_block transfer_state_block(const struct transfer *transfer, uint64_t block);
/* How many blocks are of these segments and of all. */
uint64_t transfer_state_count(const struct transfer *transfer, uint64_t segments);

/* What who holds these segments gets of a total of the buckets from `first` on: bytes, the number of blocks, one of
 * them. */
size_t transfer_total_size(const struct transfer *transfer, size_t first, uint64_t segments);
uint64_t transfer_total_count(const struct transfer *transfer, size_t first, uint64_t segments);
struct transfer_block transfer_total_block(const struct transfer *transfer, size_t first,
                                           uint64_t segments, uint64_t block);
/* How many bytes of that come before this offset. */
size_t transfer_total_before(const struct transfer *transfer, size_t first, uint64_t segments,
                             size_t offset);
/* Does who holds these segments sum this bucket? */
bool transfer_sums(const struct transfer *transfer, uint64_t segments, size_t bucket);

/* Does who holds these segments have what is of this one? */
static inline bool
transfer_has(uint64_t segments, int segment)
{
    return segment == CORE_ALL_HOLD || (segments >> segment & 1);
}

/* Checksums of an OFFER and a TOTAL of these segments: over the body and the fields about it. */
static inline uint64_t
transfer_offer_check(const struct proto_offer *offer, uint64_t segments, const void *body,
                     size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(offer->round, offer->state_hash), offer->size);
    return hash64_seeded(body, size, mix64_pair(seed, segments));
}

static inline uint64_t
transfer_total_check(const struct proto_total *total, uint64_t segments, const void *body,
                     size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(total->round, total->block), total->state_hash);
    seed = mix64_pair(mix64_pair(mix64_pair(seed, total->commit), total->coding), segments);
    return hash64_seeded(body, size, seed);
}

#endif

/* transfer.h - objects that nodes give one another in blocks: what both sides compute in the same way, and the memory
 * of one state.
 *
 *     object  round              label                what it is
 *     STATE   before which       hash of the state    a copy of a state
 *     LIST    the same           the same             a hash of each segment, and of each block of the copy: one block
 *     TOTAL   of the total       of the state before  the sum of a round
 *     PAGE    of the checkpoint  its step             a file
 *     NAMES   which files        HELLO's job hash     the manifest of files of the job
 *     FILES   the same           the same             what is in them
 *     VALUES, LAST, RESULT: of gossip (gossip_copy.h)
 *
 * FETCH asks for blocks of one, GIVE has one block; an empty GIVE says that there is none. take.h takes the blocks of
 * an object from several donors, give.h gives them; files.h is the program's files on both sides, fetch.h the way of
 * a node that is behind: a state of several donors, then totals of one.
 *
 * A state consists of ranges, config.stages.spans, each of one segment or of all (pipeline/stages.h); without such, of
 * one range that everybody has. A range is divided into blocks of config.block_size bytes; its last one may be shorter,
 * and an empty state is one empty block. Blocks are small, so that also on a slow line it is soon seen that they come,
 * but a LIST has room for the hashes of all. The blocks are numbered over all ranges, so a number means the same on all
 * nodes, also on those that do not hold it.
 *
 * A total consists of the buckets of its round, one after the other. Where the model may be cut, the buckets of each
 * segment are a range, and buckets that belong to no segment are one more. A range is divided into blocks as above.
 * They are numbered over the ranges that somebody gets: a follower that holds two of three segments has no gap in its
 * numbers.
 *
 * config.state_in and the hashes have room for one state. Either it is being fetched (fetch.h), or it is the copy that
 * others get (give.h). The two take turns: the engine tells one to yield as soon as the other uses the memory. Only a
 * node that is done may fetch beside its copy: segments that it does not hold. */
#ifndef MESH_TRANSFER_H
#define MESH_TRANSFER_H

#include "mesh/core/core.h"
#include "proto/hash.h"
#include "proto/mix.h"

enum {
    TRANSFER_BLOCK = 1 << 17, /* bytes; twice, four times as many for each of the largest states */
    TRANSFER_RUN = 16,        /* blocks of a state for one FETCH */
};

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
    size_t segments;  /* whose hashes a LIST has: 0 if the model cannot be cut */
    uint64_t all;     /* bitmap of all segments */
    uint64_t blocks;  /* of a state; at least 1 */
    uint64_t *hashes; /* [blocks] of the state in config.state_in, as far as it is there */
    uint64_t *list;   /* [segments + blocks]: the body of a LIST */
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
uint64_t transfer_total_count(const struct transfer *transfer, size_t first, uint64_t segments);
struct transfer_block transfer_total_block(const struct transfer *transfer, size_t first,
                                           uint64_t segments, uint64_t block);
/* How many bytes of that come before this offset. */
size_t transfer_total_before(const struct transfer *transfer, size_t first, uint64_t segments,
                             size_t offset);

static inline size_t
transfer_total_size(const struct transfer *transfer, size_t first, uint64_t segments)
{
    return transfer_total_before(transfer, first, segments, SIZE_MAX);
}

/* Does who holds these segments have what is of this one? */
static inline bool
transfer_has(uint64_t segments, int segment)
{
    return segment == CORE_ALL_HOLD || (segments >> segment & 1);
}

/* The check of a GIVE: over its fields and its body, for who asked for these segments (PAGE: 0). */
static inline uint64_t
transfer_check(const struct proto_give *give, uint64_t segments, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(give->object, give->round), give->label);
    seed = mix64_pair(mix64_pair(seed, give->block), give->commit);
    seed = mix64_pair(mix64_pair(seed, give->coding), segments);
    return hash64_seeded(body, size, seed);
}

#endif

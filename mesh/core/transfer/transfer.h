/* transfer.h - what both sides of catching up compute in the same way: sizes, checksums, and the memory of one state.
 *
 * A state is divided into blocks of config.block_size bytes; the last one may be shorter, and an empty state is one empty
 * block. A total is divided into blocks in the same way, with its buckets one after the other.
 *
 * config.state_in and the hashes have room for one state. Either it is being fetched (fetch.h), or it is the copy that
 * others get (serve.h). The two take turns: the engine tells one to yield as soon as the other uses the memory. */
#ifndef MESH_TRANSFER_H
#define MESH_TRANSFER_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <xxhash.h>

#include "mesh/core/core.h"
#include "proto/mix.h"

struct transfer {
    uint64_t blocks;  /* of a state; at least 1 */
    uint64_t *hashes; /* [blocks] of the state in config.state_in */
};

/* Returns 0 or -ENOMEM. */
static inline int
transfer_init(struct transfer *transfer, const struct core_config *config)
{
    assert(config->block_size > 0);
    uint64_t blocks = (config->state_size + config->block_size - 1) / config->block_size;
    transfer->blocks = blocks == 0 ? 1 : blocks;
    transfer->hashes = calloc(transfer->blocks, sizeof *transfer->hashes);
    return transfer->hashes ? 0 : -ENOMEM;
}

static inline void
transfer_fini(struct transfer *transfer)
{
    free(transfer->hashes);
}

static inline size_t
transfer_block_size(const struct core_config *config, uint64_t block)
{
    size_t at = (size_t)block * config->block_size;
    assert(at <= config->state_size);
    size_t rest = config->state_size - at;
    return rest < config->block_size ? rest : config->block_size;
}

/* Where the block lies in state_in. */
static inline uint8_t *
transfer_block(const struct core_config *config, uint64_t block)
{
    return config->state_in + (size_t)block * config->block_size;
}

/* Bytes of a transferred total of the buckets from `first` on. */
static inline uint64_t
transfer_total_size(const struct core_bucket *buckets, size_t first, size_t bucket_count)
{
    uint64_t count = 0;
    for (size_t b = first; b < bucket_count; b++)
        count += buckets[b].count;
    return count * sizeof(int32_t);
}

/* Blocks of a total of all buckets. */
static inline uint64_t
transfer_total_blocks(const struct core_config *config, const struct core_bucket *buckets)
{
    uint64_t size = transfer_total_size(buckets, 0, config->bucket_count);
    return (size + config->block_size - 1) / config->block_size;
}

/* Checksums of an OFFER and a TOTAL: over the body and the fields about it. */
static inline uint64_t
transfer_offer_check(const struct proto_offer *offer, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(offer->round, offer->state_hash), offer->size);
    return XXH3_64bits_withSeed(body, size, seed);
}

static inline uint64_t
transfer_total_check(const struct proto_total *total, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(total->round, total->block), total->state_hash);
    seed = mix64_pair(seed, total->commit);
    return XXH3_64bits_withSeed(body, size, seed);
}

#endif

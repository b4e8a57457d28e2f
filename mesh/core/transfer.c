/* transfer.c - see transfer.h. */
#include "mesh/core/transfer.h"

#include <errno.h>
#include <stdlib.h>

#include <xxhash.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"

int
transfer_init(struct transfer *transfer, const struct core_config *config)
{
    assert(config->block_size > 0);
    uint64_t blocks = (config->state_size + config->block_size - 1) / config->block_size;
    transfer->blocks = blocks == 0 ? 1 : blocks;
    transfer->hashes = calloc(transfer->blocks, sizeof *transfer->hashes);
    return transfer->hashes ? 0 : -ENOMEM;
}

void
transfer_fini(struct transfer *transfer)
{
    free(transfer->hashes);
}

uint64_t
transfer_total_size(const struct core *core, size_t first_bucket)
{
    uint64_t count = 0;
    for (size_t b = first_bucket; b < core->config.bucket_count; b++)
        count += core->buckets[b].count;
    return count * sizeof(int32_t);
}

uint64_t
transfer_offer_check(const struct proto_offer *offer, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(offer->round, offer->state_hash), offer->size);
    return XXH3_64bits_withSeed(body, size, seed);
}

uint64_t
transfer_total_check(const struct proto_total *total, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(total->round, total->block), total->state_hash);
    return XXH3_64bits_withSeed(body, size, seed);
}

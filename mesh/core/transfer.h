/* transfer.h - what both sides of catching up compute in the same way: sizes, checksums, and the memory of one state.
 *
 * A state is cut into blocks of config.block_size bytes; the last one may be shorter, and an empty state is one empty
 * block. A total is cut into blocks in the same way, with its buckets one after the other.
 *
 * config.state_in and the hashes have room for one state. Either it is being fetched (fetch.h), or it is the copy that
 * others get (serve.h). The two take turns: core.c tells one to yield as soon as the other uses the memory. */
#ifndef MESH_TRANSFER_H
#define MESH_TRANSFER_H

#include <assert.h>

#include "mesh/core/core.h"

struct transfer {
    uint64_t blocks;  /* of a state; at least 1 */
    uint64_t *hashes; /* [blocks] of the state in config.state_in */
};

/* Returns 0 or -ENOMEM. */
int transfer_init(struct transfer *transfer, const struct core_config *config);
void transfer_fini(struct transfer *transfer);

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

/* Bytes of a transferred total of the buckets from first_bucket on. */
uint64_t transfer_total_size(const struct core *core, size_t first_bucket);
/* Checksums of an OFFER and a TOTAL: over the body and the fields about it. */
uint64_t transfer_offer_check(const struct proto_offer *offer, const void *body, size_t size);
uint64_t transfer_total_check(const struct proto_total *total, const void *body, size_t size);

#endif

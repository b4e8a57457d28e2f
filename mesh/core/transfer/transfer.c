/* transfer.c - see transfer.h. */
#include "mesh/core/transfer/transfer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/bits.h"

/* --- Life ---------------------------------------------------------------------------------------- */

static uint64_t
blocks_of(const struct transfer *transfer, size_t size)
{
    return (size + transfer->block_size - 1) / transfer->block_size;
}

static size_t
bytes_of_block(const struct core_config *config)
{
    size_t size = config->block_size ? config->block_size : TRANSFER_BLOCK;
    while (!config->block_size && size < PROTO_BLOCK_MAX &&
           config->state_size / size > PROTO_BLOCK_MAX / sizeof(uint64_t) / 2)
        size *= 2;
    return size;
}

/* Without spans the whole is one that everybody has. */
static void
divide_state(struct transfer *transfer, const struct core_config *config)
{
    const struct core_stages *stages = &config->stages;
    const struct core_span whole = {.size = config->state_size, .segment = CORE_ALL_HOLD};
    transfer->state_ranges = stages->span_count ? stages->span_count : 1;
    for (size_t r = 0; r < transfer->state_ranges; r++) {
        const struct core_span *span = stages->span_count ? &stages->spans[r] : &whole;
        transfer->state[r] =
            (struct transfer_range){span->offset, span->size, span->segment, transfer->blocks};
        transfer->blocks += blocks_of(transfer, span->size);
    }
    transfer->blocks += transfer->blocks == 0;
}

/* The first bucket of those that are of no segment. */
static size_t
bucket_of_all(const struct core_config *config)
{
    return config->audit_share ? config->audit_bucket : config->bucket_count - 1;
}

/* A range of each segment, from the output to the input; the last one is of all. */
static void
divide_total(struct transfer *transfer, const struct core_config *config)
{
    const struct core_stages *stages = &config->stages;
    const size_t *at = transfer->bucket_at;
    size_t first, end = 0, segments = stages->cut_count ? stages->cut_count + 1 : 0;
    for (size_t k = 0; k < segments; k++) {
        first = end;
        end = k < stages->cut_count ? stages->cuts[k].bucket : bucket_of_all(config);
        assert(first <= end && end < config->bucket_count);
        transfer->total[k] = (struct transfer_range){
            .offset = at[first],
            .size = at[end] - at[first],
            .segment = (int)(stages->cut_count - k),
        };
    }
    transfer->total[segments] = (struct transfer_range){
        .offset = at[end],
        .size = at[config->bucket_count] - at[end],
        .segment = CORE_ALL_HOLD,
    };
    transfer->total_ranges = segments + 1;
}

int
transfer_init(struct transfer *transfer, const struct core_config *config,
              const struct core_bucket *buckets)
{
    const struct core_stages *stages = &config->stages;
    *transfer = (struct transfer){
        .block_size = bytes_of_block(config),
        .segments = stages->cut_count > 0 ? stages->cut_count + 1 : 0,
        .all = bits_below((unsigned)stages->cut_count + 1),
        .state = calloc(stages->span_count + 1, sizeof *transfer->state),
        .total = calloc(stages->cut_count + 2, sizeof *transfer->total),
        .bucket_at = calloc(config->bucket_count + 1, sizeof *transfer->bucket_at),
    };
    if (!transfer->state || !transfer->total || !transfer->bucket_at)
        return -ENOMEM;
    for (size_t b = 0; b < config->bucket_count; b++)
        transfer->bucket_at[b + 1] = transfer->bucket_at[b] + buckets[b].count * sizeof(int32_t);
    divide_state(transfer, config);
    divide_total(transfer, config);
    transfer->hashes = calloc(transfer->blocks, sizeof *transfer->hashes);
    transfer->list = calloc(transfer->segments + transfer->blocks, sizeof *transfer->list);
    return transfer->hashes && transfer->list ? 0 : -ENOMEM;
}

void
transfer_fini(struct transfer *transfer)
{
    free(transfer->state);
    free(transfer->total);
    free(transfer->bucket_at);
    free(transfer->hashes);
    free(transfer->list);
}

/* --- States -------------------------------------------------------------------------------------- */

/* Block number `block` of a part of a range. */
static struct transfer_block
block_at(const struct transfer *transfer, const struct transfer_range *part, uint64_t block)
{
    size_t skip = (size_t)block * transfer->block_size, rest = part->size - skip;
    assert(skip <= part->size);
    return (struct transfer_block){
        .offset = part->offset + skip,
        .size = rest < transfer->block_size ? rest : transfer->block_size,
        .segment = part->segment,
    };
}

struct transfer_block
transfer_state_block(const struct transfer *transfer, uint64_t block)
{
    assert(block < transfer->blocks);
    size_t low = 0, high = transfer->state_ranges - 1;
    while (low < high) { /* the last range that does not begin behind it */
        size_t middle = (low + high + 1) / 2;
        if (transfer->state[middle].first <= block)
            low = middle;
        else
            high = middle - 1;
    }
    return block_at(transfer, &transfer->state[low], block - transfer->state[low].first);
}

uint64_t
transfer_state_count(const struct transfer *transfer, uint64_t segments)
{
    uint64_t count = 0, end = transfer->blocks;
    for (size_t r = transfer->state_ranges; r-- > 0; end = transfer->state[r].first)
        if (transfer_has(segments, transfer->state[r].segment))
            count += end - transfer->state[r].first;
    return count;
}

/* --- Totals -------------------------------------------------------------------------------------- */

/* What there is of a range in a total of the buckets from `first` on, for who holds these segments. */
static struct transfer_range
total_part(const struct transfer *transfer, size_t r, size_t first, uint64_t segments)
{
    struct transfer_range part = transfer->total[r];
    size_t from = transfer->bucket_at[first], end = part.offset + part.size;
    part.offset = part.offset > from ? part.offset : from;
    part.size = part.offset < end && transfer_has(segments, part.segment) ? end - part.offset : 0;
    return part;
}

size_t
transfer_total_before(const struct transfer *transfer, size_t first, uint64_t segments,
                      size_t offset)
{
    size_t size = 0;
    for (size_t r = 0; r < transfer->total_ranges; r++) {
        struct transfer_range part = total_part(transfer, r, first, segments);
        size_t before = offset > part.offset ? offset - part.offset : 0;
        size += before < part.size ? before : part.size;
    }
    return size;
}

uint64_t
transfer_total_count(const struct transfer *transfer, size_t first, uint64_t segments)
{
    uint64_t count = 0;
    for (size_t r = 0; r < transfer->total_ranges; r++)
        count += blocks_of(transfer, total_part(transfer, r, first, segments).size);
    return count;
}

struct transfer_block
transfer_total_block(const struct transfer *transfer, size_t first, uint64_t segments,
                     uint64_t block)
{
    for (size_t r = 0; r < transfer->total_ranges; r++) {
        struct transfer_range part = total_part(transfer, r, first, segments);
        uint64_t count = blocks_of(transfer, part.size);
        if (block < count)
            return block_at(transfer, &part, block);
        block -= count;
    }
    return (struct transfer_block){.size = 0};
}

/* push_ranges.c - see push_ranges.h. */
#include "node/train/push_ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "proto/mix.h"

enum { RANGES_MIN = 16 }; /* so that some nodes can serve a small model */

/* Where a range lies: elements and blocks. */
struct part {
    size_t first, count, block, blocks;
};

static struct part
part_of(const struct push_ranges *ranges, unsigned range)
{
    size_t block = ranges->first_block[range], end = ranges->first_block[range + 1];
    size_t first = exact_block_first(ranges->exact, block);
    return (struct part){first, exact_block_first(ranges->exact, end) - first, block, end - block};
}

static size_t
vectors(const struct push_ranges *ranges)
{
    return 1 + ranges->slot_count + (ranges->group > 1);
}

/* How many blocks a range may have, so that a copy of it is one message. */
static size_t
blocks_of_range(const struct push_ranges *ranges)
{
    size_t block = EXACT_BLOCK * sizeof(float) * vectors(ranges) + sizeof(int16_t);
    size_t most = (PROTO_BLOCK_MAX - PUSH_SET_SIZE) / block;
    size_t even = (ranges->block_count + RANGES_MIN - 1) / RANGES_MIN;
    size_t least = (ranges->block_count + PUSH_RANGES_MAX - 1) / PUSH_RANGES_MAX;
    size_t count = even < most ? even : most;
    return count > least ? count : least;
}

static void
measure(struct push_ranges *ranges)
{
    for (unsigned r = 0; r < ranges->count; r++) {
        struct part p = part_of(ranges, r);
        size_t exponents = p.blocks * sizeof(int16_t);
        ranges->size[r] = (struct push_size){
            .gradient = p.count * sizeof(int32_t) + exponents,
            .value = p.count * sizeof(float) + exponents,
            .copy = p.count * sizeof(float) * vectors(ranges) + exponents,
        };
    }
}

int
push_ranges_init(struct push_ranges *ranges, const struct state *state, unsigned group,
                 bool scaling)
{
    *ranges = (struct push_ranges){
        .exact = state->exact,
        .job = &state->job,
        .param_count = state->param_count,
        .slot_count = state->slot_count,
        .block_count = state->block_count,
        .group = group,
        .scaling = scaling,
    };
    size_t each = blocks_of_range(ranges);
    ranges->count = (unsigned)((ranges->block_count + each - 1) / each);
    ranges->first_block = calloc(ranges->count + 1, sizeof *ranges->first_block);
    ranges->size = calloc(ranges->count, sizeof *ranges->size);
    ranges->scale = calloc(ranges->block_count, sizeof *ranges->scale);
    ranges->exponent = calloc(ranges->block_count, sizeof *ranges->exponent);
    if (!ranges->first_block || !ranges->size || !ranges->scale || !ranges->exponent)
        return -ENOMEM;
    for (unsigned r = 0; r <= ranges->count; r++)
        ranges->first_block[r] = r * each < ranges->block_count ? r * each : ranges->block_count;
    measure(ranges);
    return 0;
}

void
push_ranges_fini(struct push_ranges *ranges)
{
    free(ranges->first_block);
    free(ranges->size);
    free(ranges->scale);
    free(ranges->exponent);
}

/* --- Taking a gradient ------------------------------------------------------------------------------ */

/* The gradient of a block as floats, times `weight`. Returns the largest integer. */
static uint32_t
read_block(const uint8_t *from, size_t n, float scale, float weight, float *g)
{
    uint32_t most = 0;
    for (size_t k = 0; k < n; k++) {
        int32_t q;
        memcpy(&q, from + k * sizeof q, sizeof q);
        uint32_t size = q < 0 ? 0u - (uint32_t)q : (uint32_t)q;
        most = size > most ? size : most;
        g[k] = (float)q / scale * weight;
    }
    return most;
}

/* An update of a block by its gradient g[n], which stands for `group` shards. */
static void
update(const struct push_ranges *ranges, struct push_held *held, const struct push_taken *taken,
       size_t block, float *g, size_t n)
{
    const struct state_job *job = ranges->job;
    const struct optim_spec *optim = &job->rules.optim;
    size_t first = exact_block_first(ranges->exact, block);
    float average = job->average ? job->average[block] : 0, *slot[OPTIM_SLOTS_MAX] = {0};
    double share = (double)ranges->group / (double)job->shards;
    uint64_t step = taken->count / job->shards;
    for (size_t k = 0; average > 0 && k < n; k++)
        held->params[first + k] -= average * g[k];
    if (average > 0)
        return;
    for (size_t k = 0; k < n; k++)
        g[k] *= (float)(1 / share);
    for (size_t s = 0; s < ranges->slot_count; s++)
        slot[s] = held->slot[s] + first;
    double rate = optim_rate(optim, step, state_rules_total(job, &job->rules),
                             step / state_epoch_steps(job), (size_t)job->batch);
    optim_apply(optim, rate * share, taken->count / ranges->group, held->params + first, slot, g,
                n);
}

/* 1 / max(1, age in steps) */
static float
weight_of(const struct push_ranges *ranges, uint64_t tau)
{
    double steps = (double)tau * ranges->group / (double)ranges->job->shards;
    return ranges->scaling && steps > 1 ? (float)(1 / steps) : 1.0f;
}

void
push_ranges_take(const struct push_ranges *ranges, struct push_held *held,
                 const struct push_taken *taken, const void *gradient)
{
    struct part p = part_of(ranges, taken->range);
    const uint8_t *q = gradient, *exponents = q + p.count * sizeof(int32_t);
    float limit, g[EXACT_BLOCK], weight = weight_of(ranges, taken->tau);
    memcpy(ranges->exponent + p.block, exponents, p.blocks * sizeof(int16_t));
    exact_scales(ranges->exact, ranges->exponent, ranges->scale, &limit);
    for (size_t b = p.block; b < p.block + p.blocks; b++) {
        size_t first = exact_block_first(ranges->exact, b);
        size_t n = exact_block_first(ranges->exact, b + 1) - first;
        uint32_t most =
            read_block(q + (first - p.first) * sizeof(int32_t), n, ranges->scale[b], weight, g);
        for (size_t k = 0; held->sum && k < n; k++)
            g[k] = held->sum[first + k] += g[k];
        if (taken->updates) {
            if (held->sum)
                memset(held->sum + first, 0, n * sizeof *held->sum);
            update(ranges, held, taken, b, g, n);
        }
        held->exponent[b] = ranges->exponent[b];
        exact_follow_bits(ranges->exact, b, most, taken->count == ranges->first, held->exponent);
    }
}

/* --- Bytes -------------------------------------------------------------------------------------------- */

uint64_t
push_ranges_hash(const struct push_ranges *ranges, const struct push_held *held, unsigned range)
{
    struct part p = part_of(ranges, range);
    size_t size = p.count * sizeof(float);
    uint64_t hash = XXH3_64bits(held->params + p.first, size);
    for (size_t s = 0; s < ranges->slot_count; s++)
        hash = mix64_pair(hash, XXH3_64bits(held->slot[s] + p.first, size));
    if (held->sum)
        hash = mix64_pair(hash, XXH3_64bits(held->sum + p.first, size));
    return mix64_pair(hash, XXH3_64bits(held->exponent + p.block, p.blocks * sizeof(int16_t)));
}

static uint8_t *
put(uint8_t *out, const void *from, size_t size)
{
    memcpy(out, from, size);
    return out + size;
}

static const uint8_t *
get(const uint8_t *in, void *to, size_t size)
{
    memcpy(to, in, size);
    return in + size;
}

void
push_ranges_copy(const struct push_ranges *ranges, const struct push_held *held, unsigned range,
                 void *out)
{
    struct part p = part_of(ranges, range);
    size_t size = p.count * sizeof(float);
    uint8_t *at = put(out, held->params + p.first, size);
    for (size_t s = 0; s < ranges->slot_count; s++)
        at = put(at, held->slot[s] + p.first, size);
    if (held->sum)
        at = put(at, held->sum + p.first, size);
    put(at, held->exponent + p.block, p.blocks * sizeof(int16_t));
}

void
push_ranges_adopt(const struct push_ranges *ranges, struct push_held *held, unsigned range,
                  const void *copy)
{
    struct part p = part_of(ranges, range);
    size_t size = p.count * sizeof(float);
    const uint8_t *at = get(copy, held->params + p.first, size);
    for (size_t s = 0; s < ranges->slot_count; s++)
        at = get(at, held->slot[s] + p.first, size);
    if (held->sum)
        at = get(at, held->sum + p.first, size);
    get(at, held->exponent + p.block, p.blocks * sizeof(int16_t));
}

void
push_ranges_value(const struct push_ranges *ranges, const struct push_held *held, unsigned range,
                  void *out)
{
    struct part p = part_of(ranges, range);
    uint8_t *at = put(out, held->params + p.first, p.count * sizeof(float));
    put(at, held->exponent + p.block, p.blocks * sizeof(int16_t));
}

void
push_ranges_read(const struct push_ranges *ranges, unsigned range, const void *value, float *params,
                 int16_t *exponent)
{
    struct part p = part_of(ranges, range);
    const uint8_t *at = get(value, params + p.first, p.count * sizeof(float));
    get(at, exponent + p.block, p.blocks * sizeof(int16_t));
}

void
push_ranges_begin(const struct push_ranges *ranges, struct push_held *held, unsigned range,
                  const float *params, float *const *slot, const int16_t *exponent)
{
    struct part p = part_of(ranges, range);
    size_t size = p.count * sizeof(float);
    memcpy(held->params + p.first, params + p.first, size);
    for (size_t s = 0; s < ranges->slot_count; s++)
        if (slot)
            memcpy(held->slot[s] + p.first, slot[s] + p.first, size);
        else
            memset(held->slot[s] + p.first, 0, size);
    if (held->sum)
        memset(held->sum + p.first, 0, size);
    memcpy(held->exponent + p.block, exponent + p.block, p.blocks * sizeof(int16_t));
}

void
push_ranges_gradient(const struct push_ranges *ranges, unsigned range, const int32_t *own,
                     const int16_t *exponent, void *out)
{
    struct part p = part_of(ranges, range);
    uint8_t *at = put(out, own + p.first, p.count * sizeof(int32_t));
    put(at, exponent + p.block, p.blocks * sizeof(int16_t));
}

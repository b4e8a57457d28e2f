/* push_ranges.c - see push_ranges.h. */
#include "node/train/push_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compress/bf16.h"
#include "compress/packed.h"
#include "nn/arithmetic/vmath.h"
#include "proto/hash.h"
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
    return 1 + ranges->slot_count + (ranges->step.group > 1);
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
measure_ranges(struct push_ranges *ranges)
{
    for (unsigned r = 0; r < ranges->count; r++) {
        struct part p = part_of(ranges, r);
        size_t exponents = p.blocks * sizeof(int16_t);
        ranges->size[r] = (struct push_size){
            .gradient = exponents + packed_most(p.count),
            .value =
                exponents + (ranges->step.rounds ? bf16_words(p.count) : p.count) * sizeof(float),
            .model = exponents + p.count * sizeof(float),
            .copy = p.count * sizeof(float) * vectors(ranges) + exponents,
        };
    }
}

int
push_ranges_init(struct push_ranges *ranges, const struct state *state,
                 const struct push_step *step, uint64_t begun)
{
    *ranges = (struct push_ranges){
        .exact = state->exact,
        .job = &state->job,
        .param_count = state->param_count,
        .slot_count = state->slot_count,
        .block_count = state->block_count,
        .step = *step,
        .first = begun * step->tickets,
    };
    size_t each = blocks_of_range(ranges);
    ranges->count = (unsigned)((ranges->block_count + each - 1) / each);
    ranges->first_block = calloc(ranges->count + 1, sizeof *ranges->first_block);
    ranges->size = calloc(ranges->count, sizeof *ranges->size);
    ranges->integers = calloc(each * EXACT_BLOCK, sizeof *ranges->integers);
    if (!ranges->first_block || !ranges->size || !ranges->integers)
        return -ENOMEM;
    for (unsigned r = 0; r <= ranges->count; r++)
        ranges->first_block[r] = r * each < ranges->block_count ? r * each : ranges->block_count;
    measure_ranges(ranges);
    return 0;
}

void
push_ranges_fini(struct push_ranges *ranges)
{
    free(ranges->first_block);
    free(ranges->size);
    free(ranges->integers);
}

int
push_held_init(struct push_held *held, const struct state *state, const struct push_ranges *ranges)
{
    *held = (struct push_held){.params = state->params, .exponent = state->exponent};
    memcpy(held->slot, state->slot, sizeof held->slot);
    if (ranges->step.group == 1)
        return 0;
    held->sum = calloc(state->param_count, sizeof *held->sum);
    return held->sum ? 0 : -ENOMEM;
}

/* --- Taking a gradient ------------------------------------------------------------------------------ */

/* What all blocks of a range have in common when it takes a gradient. */
struct taking {
    const struct push_ranges *ranges;
    struct push_held *held;
    const struct push_taken *taken;
    const struct optim_spec *optim;
    const struct exact *grid;
    float weight, share; /* of the gradient; of the update in a step */
    double rate;
};

/* 1 / max(1, age in steps) */
static float
weight_of(const struct push_ranges *ranges, uint64_t tau)
{
    double steps = (double)tau * ranges->step.group / (double)ranges->step.tickets;
    return ranges->step.scaled && steps > 1 ? (float)(1 / steps) : 1.0f;
}

/* That of the gradients of a step. */
static const struct exact *
grid_at(const struct push_ranges *ranges, uint64_t step)
{
    const struct state_job *job = ranges->job;
    return job->codec && job->codec->coded && step >= job->warmup ? job->codec->coded
                                                                  : ranges->exact;
}

static struct taking
taking_of(const struct push_ranges *ranges, struct push_held *held, const struct push_taken *taken)
{
    const struct state_job *job = ranges->job;
    double share = (double)ranges->step.group / (double)ranges->step.tickets;
    uint64_t step = taken->count / ranges->step.tickets;
    const struct state_rules *rules = state_rules_at(job, step);
    double rate = optim_rate(&rules->optim, step, state_rules_total(job, rules),
                             step / state_epoch_steps(job), (size_t)job->batch);
    return (struct taking){.ranges = ranges,
                           .held = held,
                           .taken = taken,
                           .optim = &rules->optim,
                           .grid = grid_at(ranges, taken->ticket / ranges->step.tickets),
                           .weight = weight_of(ranges, taken->tau),
                           .share = (float)share,
                           .rate = rate * share};
}

/* An update of a block by its gradient g[n], which stands for `group` tickets; in units of a whole step unless it is of
 * running averages. */
static void
update(const struct taking *with, size_t block, float average, float *g, size_t n)
{
    const struct push_ranges *ranges = with->ranges;
    size_t first = exact_block_first(ranges->exact, block);
    float *params = with->held->params + first, *slot[OPTIM_SLOTS_MAX] = {0};
    for (size_t k = 0; average > 0 && k < n; k++)
        params[k] -= average * g[k];
    if (average > 0)
        return;
    for (size_t s = 0; s < ranges->slot_count; s++)
        slot[s] = with->held->slot[s] + first;
    optim_apply(with->optim, with->rate, with->taken->count / ranges->step.group, params, slot, g,
                n);
}

/* Adds g[n] to what the present update has so far; with its last gradient, g becomes the sum times `factor`. */
static void
gather(const struct taking *with, size_t first, float factor, float *g, size_t n)
{
    float *sum = with->held->sum + first;
    for (size_t k = 0; k < n; k++)
        sum[k] += g[k];
    if (!with->taken->updates)
        return;
    for (size_t k = 0; k < n; k++)
        g[k] = sum[k] * factor;
    memset(sum, 0, n * sizeof *sum);
}

/* A block takes its integers. */
static void
take_block(const struct taking *with, size_t block, const int32_t *q, int16_t exponent)
{
    const struct push_ranges *ranges = with->ranges;
    size_t first = exact_block_first(ranges->exact, block);
    size_t n = exact_block_first(ranges->exact, block + 1) - first;
    float average = ranges->job->average ? ranges->job->average[block] : 0;
    float factor = average > 0 ? 1 : 1 / with->share, g[EXACT_BLOCK] = {0};
    bool gathers = with->held->sum != NULL, counts = exponent != PUSH_LEFT_OUT;
    uint32_t bits = 0;
    if (!counts && !(gathers && with->taken->updates))
        return;
    if (counts)
        bits = exact_read_block(with->grid, block, exponent, q,
                                gathers ? with->weight : with->weight * factor, g);
    if (gathers)
        gather(with, first, factor, g, n);
    if (with->taken->updates)
        update(with, block, average, g, n);
    if (!counts)
        return;
    with->held->exponent[block] = exact_clamp(exponent);
    exact_follow(with->grid, block, bits, with->taken->count == ranges->first,
                 with->held->exponent);
}

static bool
unpack(const uint8_t *body, size_t size, int32_t *out, size_t n)
{
    if (!packed_fits(body, size, n))
        return false;
    struct packed_in in = packed_open(body, n);
    bool good = true;
    for (size_t k = 0; good && k < n; k += PACKED_BLOCK)
        good = packed_get(&in, out + k, packed_block(n, k));
    return good;
}

void
push_ranges_take(const struct push_ranges *ranges, struct push_held *held,
                 const struct push_taken *taken, const void *gradient, size_t size)
{
    struct part p = part_of(ranges, taken->range);
    const struct taking with = taking_of(ranges, held, taken);
    const uint8_t *from = gradient;
    size_t head = p.blocks * sizeof(int16_t);
    bool good = size >= head && unpack(from + head, size - head, ranges->integers, p.count);
    for (size_t b = p.block; b < p.block + p.blocks; b++) {
        int16_t exponent = PUSH_LEFT_OUT;
        if (good)
            memcpy(&exponent, from + (b - p.block) * sizeof exponent, sizeof exponent);
        take_block(&with, b, ranges->integers + exact_block_first(ranges->exact, b) - p.first,
                   exponent);
    }
}

/* --- Bytes -------------------------------------------------------------------------------------------- */

uint64_t
push_ranges_hash(const struct push_ranges *ranges, const struct push_held *held, unsigned range)
{
    struct part p = part_of(ranges, range);
    size_t size = p.count * sizeof(float);
    uint64_t hash = hash64(held->params + p.first, size);
    for (size_t s = 0; s < ranges->slot_count; s++)
        hash = mix64_pair(hash, hash64(held->slot[s] + p.first, size));
    if (held->sum)
        hash = mix64_pair(hash, hash64(held->sum + p.first, size));
    return mix64_pair(hash, hash64(held->exponent + p.block, p.blocks * sizeof(int16_t)));
}

static uint8_t *
put_bytes(uint8_t *out, const void *from, size_t size)
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

/* A peer may send any, and a checkpoint with one outside the limits is refused. */
static void
get_exponents(const uint8_t *in, int16_t *to, size_t count)
{
    get(in, to, count * sizeof *to);
    for (size_t b = 0; b < count; b++)
        to[b] = exact_clamp(to[b]);
}

void
push_ranges_copy(const struct push_ranges *ranges, const struct push_held *held, unsigned range,
                 void *out)
{
    struct part p = part_of(ranges, range);
    size_t size = p.count * sizeof(float);
    uint8_t *at = put_bytes(out, held->params + p.first, size);
    for (size_t s = 0; s < ranges->slot_count; s++)
        at = put_bytes(at, held->slot[s] + p.first, size);
    if (held->sum)
        at = put_bytes(at, held->sum + p.first, size);
    put_bytes(at, held->exponent + p.block, p.blocks * sizeof(int16_t));
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
    get_exponents(at, held->exponent + p.block, p.blocks);
}

/* x[n], rounded, in half the bytes. */
static void
put_rounded(uint8_t *out, const float *x, size_t n)
{
    float rounded[PACKED_BLOCK];
    int32_t words[PACKED_BLOCK / 2];
    for (size_t k = 0; k < n; k += PACKED_BLOCK) {
        size_t m = packed_block(n, k);
        memcpy(rounded, x + k, m * sizeof *x);
        vmath_bf16(rounded, m);
        bf16_pack(words, rounded, m);
        out = put_bytes(out, words, bf16_words(m) * sizeof *words);
    }
}

static void
get_rounded(const uint8_t *in, float *x, size_t n)
{
    int32_t words[PACKED_BLOCK / 2];
    for (size_t k = 0; k < n; k += PACKED_BLOCK) {
        size_t m = packed_block(n, k);
        in = get(in, words, bf16_words(m) * sizeof *words);
        bf16_unpack(x + k, words, m);
    }
}

void
push_ranges_value(const struct push_ranges *ranges, const struct push_held *held, unsigned range,
                  bool model, void *out)
{
    struct part p = part_of(ranges, range);
    uint8_t *at = put_bytes(out, held->exponent + p.block, p.blocks * sizeof(int16_t));
    if (model || !ranges->step.rounds)
        put_bytes(at, held->params + p.first, p.count * sizeof(float));
    else
        put_rounded(at, held->params + p.first, p.count);
}

void
push_ranges_read(const struct push_ranges *ranges, unsigned range, bool model, const void *value,
                 float *params, int16_t *exponent)
{
    struct part p = part_of(ranges, range);
    const uint8_t *at = value;
    get_exponents(at, exponent + p.block, p.blocks);
    at += p.blocks * sizeof(int16_t);
    if (model || !ranges->step.rounds)
        get(at, params + p.first, p.count * sizeof(float));
    else
        get_rounded(at, params + p.first, p.count);
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
push_ranges_restore(const struct push_ranges *ranges, struct push_held *held, unsigned range,
                    const float *params, const int16_t *exponent)
{
    struct part p = part_of(ranges, range);
    push_ranges_begin(ranges, held, range, params, NULL, exponent);
    if (ranges->step.rounds)
        vmath_bf16(held->params + p.first, p.count);
}

size_t
push_ranges_gradient(const struct push_ranges *ranges, unsigned range, const int32_t *own,
                     const int16_t *exponent, void *out)
{
    struct part p = part_of(ranges, range);
    uint8_t *at = out;
    const int16_t left_out = PUSH_LEFT_OUT;
    bool bad = own[ranges->param_count + TAIL_BAD] != 0;
    for (size_t b = p.block; b < p.block + p.blocks; b++)
        at = put_bytes(at, bad ? &left_out : &exponent[b], sizeof left_out);
    return p.blocks * sizeof left_out + packed_write(at, own + p.first, p.count);
}

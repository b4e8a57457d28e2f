/* state_hash.c - hashes of a state: of each exponent block, remembered as it was built, and of the whole.
 *
 * What is remembered shows whether the memory has changed since.
 *
 * The hash of the whole is a sum, so whoever holds only some blocks can add its part to those of others. Bellare and
 * Micciancio (A New Paradigm for Collision-Free Hashing: Incrementality at Reduced Cost, Eurocrypt 1997) call it
 * AdHASH: each block is hashed together with its number, and the results are added. A sum of 64 bits does not withstand
 * somebody who chooses the blocks, and neither do XXH3 and a chain of it. It need not: it finds faults of memory and
 * programs, which do not choose. A fault in one block changes one term for certain if it changes the block's hash, as
 * mix64 is a bijection. Faults in several change the sum by a sum of differences of mixed words, which is 0 by chance
 * once in 2^64 times, as often as two chains are equal. Two blocks that changed places differ, as the number is mixed
 * in. */
#include "node/train/state_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/hash.h"
#include "proto/mix.h"

enum { BASIS_LOOK = 63 }; /* rounds: odd, so that both states are */

/* What the hash functions look at: a state's memory or a copy of it, and where the blocks' hashes go. */
struct hashing {
    const struct state *state;
    const uint8_t *memory;
    uint64_t *hash;
};

/* Of the parameters of a block, or, with `slot` above 0, of one of its slots. The last block has the padding behind
 * it. */
static uint64_t
hash_part(const struct state *state, const uint8_t *memory, size_t block, size_t slot)
{
    size_t vector = state_offset(state, state->block_count), from = state_offset(state, block);
    const uint8_t *params = memory + ((const uint8_t *)state->params - state->block);
    return hash64(params + slot * vector + from, state_offset(state, block + 1) - from);
}

/* Of a whole block, of whose parameters it is `params`, and of its part of the bases, if there are any, `basis`. */
static uint64_t
hash_with(const struct state *state, const uint8_t *memory, size_t block, uint64_t params,
          uint64_t basis)
{
    uint64_t hash = mix64_pair(0, params);
    size_t slots = state->slot_count - (state->basis != NULL);
    for (size_t s = 1; s <= slots; s++)
        hash = mix64_pair(hash, hash_part(state, memory, block, s));
    hash = state->basis ? mix64_pair(hash, basis) : hash;
    return hash ? hash : 1;
}

/* 0: there are none. */
static uint64_t
hash_basis(const struct state *state, const uint8_t *memory, size_t block)
{
    return state->basis ? hash_part(state, memory, block, state->slot_count) : 0;
}

void
state_hash_block(const struct state *state, const uint8_t *memory, size_t block, uint64_t *hash)
{
    uint64_t params = hash_part(state, memory, block, 0),
             *basis = state_basis_hash(state, hash, block);
    *basis = *basis ? *basis : hash_basis(state, memory, block);
    hash[block] = hash_with(state, memory, block, params, *basis);
    hash[state->block_count + block] = params;
}

/* Bases that do not move are looked at now and then. */
bool
state_block_sound(const struct state *state, size_t block)
{
    uint64_t hash = state->hash[block], basis = *state_basis_hash(state, state->hash, block);
    bool rests = basis && !state->products && (state->header->round + block) % BASIS_LOOK != 0;
    return !hash ||
           hash == hash_with(state, state->block, block, hash_part(state, state->block, block, 0),
                             rests ? basis : hash_basis(state, state->block, block));
}

static uint64_t
hash_head(const struct state *state, const uint8_t *memory)
{
    uint64_t hash = hash64(memory, state_aligned(sizeof(struct state_header)));
    for (size_t i = 0; i < state->held_count; i++) {
        struct state_extent exponents = state_part(state, state->slot_count + 1, &state->held[i]);
        hash = mix64_pair(hash, hash64(memory + exponents.offset, exponents.size));
    }
    return hash;
}

static void
hash_item(void *ctx, size_t i)
{
    const struct hashing *h = ctx;
    struct state_item item = state_item(0, h->state->block_count, i);
    for (size_t b = item.first; b < item.end; b++)
        if (!h->hash[b] && state_holds_block(h->state, b))
            state_hash_block(h->state, h->memory, b, h->hash);
}

/* What a block adds to the hash of the whole. The last exponent has the padding behind it. */
static uint64_t
term_of(const struct hashing *h, size_t block)
{
    const struct state *state = h->state;
    size_t exponents = (size_t)((const uint8_t *)state->exponent - state->block);
    size_t from = exponents + block * sizeof(int16_t);
    size_t end = block + 1 < state->block_count ? from + sizeof(int16_t) : state->size;
    return mix64_pair(block, mix64_pair(h->hash[block], hash64(h->memory + from, end - from)));
}

/* What the held blocks add, where hashes that are not 0 are known already. */
static uint64_t
hash_blocks(const struct hashing *h, struct pool *pool)
{
    uint64_t sum = 0;
    pool_run(pool, hash_item, (void *)(uintptr_t)h, state_items(h->state->block_count));
    for (size_t b = 0; b < h->state->block_count; b++)
        sum += state_holds_block(h->state, b) ? term_of(h, b) : 0;
    return sum;
}

static uint64_t
hash_range(const struct hashing *h, const struct state_range *range)
{
    struct state_item blocks = state_blocks(h->state, range);
    uint64_t sum = 0;
    for (size_t b = blocks.first; b < blocks.end; b++)
        sum += term_of(h, b);
    return sum;
}

uint64_t
state_hash_range(const struct state *state, const struct state_range *range)
{
    return hash_range(&(struct hashing){state, state->block, state->hash}, range);
}

/* Of a segment. */
static uint64_t
hash_part_of(const struct hashing *h, const struct state_range *segment)
{
    uint64_t part = mix64(hash_range(h, segment));
    return part ? part : 1;
}

static void
hash_segments(const struct hashing *h, const struct state_stages *segments, uint64_t *parts)
{
    for (size_t s = 0; s < segments->count; s++) {
        bool held = state_holds(h->state, &segments->stage[s]);
        parts[s] = held ? hash_part_of(h, &segments->stage[s]) : 0;
    }
}

void
state_parts(const struct state *state, const struct state_stages *segments,
            uint64_t parts[PROTO_STAGES_MAX])
{
    hash_segments(&(struct hashing){state, state->block, state->hash}, segments, parts);
}

static uint64_t
hash_header(const uint8_t *memory)
{
    uint64_t name = mix64(hash64(memory, state_aligned(sizeof(struct state_header))));
    return name ? name : 1;
}

uint64_t
state_name(const struct state *state)
{
    return hash_header(state->block);
}

static uint64_t
hash_whole(const uint8_t *memory, uint64_t parts)
{
    uint64_t hash = mix64(hash64(memory, state_aligned(sizeof(struct state_header)))) + parts;
    return hash ? hash : 1;
}

uint64_t
state_hash_whole(const struct state *state, uint64_t parts)
{
    return hash_whole(state->block, parts);
}

uint64_t
state_hash_rest(struct state *state, struct pool *pool)
{
    state->head_hash = hash_head(state, state->block);
    state->part = hash_blocks(&(struct hashing){state, state->block, state->hash}, pool);
    return state_hash_whole(state, state->part);
}

uint64_t
state_hash(const struct state *state, struct pool *pool)
{
    state_hash_forget(state, state->scratch);
    return state_hash_whole(
        state, hash_blocks(&(struct hashing){state, state->block, state->scratch}, pool));
}

uint64_t
state_hash_known(const struct state *state, struct pool *pool)
{
    return state->head_hash ? state_hash_whole(state, state->part) : state_hash(state, pool);
}

bool
state_sound(const struct state *state, struct pool *pool)
{
    return !state->head_hash || (state_hash(state, pool) == state_hash_whole(state, state->part) &&
                                 state_head_sound(state));
}

uint64_t
state_rehash(struct state *state, struct pool *pool)
{
    state_hash_forget(state, state->hash);
    return state_hash_rest(state, pool);
}

/* Where nothing moves, the blocks were copied unseen; where a codec is chosen, begin_chosen looks at them. */
static bool
copied_otherwise(const struct state *next, const struct state *now)
{
    for (size_t b = 0; !next->moves && !state_chooses(now) && b < now->block_count; b++)
        if (now->hash[b] && now->hash[b] != next->hash[b])
            return true;
    return false;
}

bool
state_head_sound(const struct state *state)
{
    return !state->head_hash || state->head_hash == hash_head(state, state->block);
}

struct params_check {
    const struct state *state;
    struct state_item blocks;
    atomic_bool changed;
};

/* What the next round computes from. */
static bool
used_soundly(const struct state *s, size_t block)
{
    bool averaged = s->header->phase == STATE_EVALUATE && state_weights(s) != s->params;
    if (averaged)
        return state_block_sound(s, block);
    return !s->hash[block] || s->hash[s->block_count + block] == hash_part(s, s->block, block, 0);
}

static void
params_item(void *ctx, size_t i)
{
    struct params_check *c = ctx;
    const struct state *s = c->state;
    struct state_item item = state_item(c->blocks.first, c->blocks.end, i);
    for (size_t b = item.first; b < item.end; b++)
        if (!used_soundly(s, b))
            atomic_store(&c->changed, true);
}

bool
state_range_sound(const struct state *state, const struct state_range *range, struct pool *pool)
{
    struct params_check check = {.state = state, .blocks = state_blocks(state, range)};
    pool_run(pool, params_item, &check, state_items(check.blocks.end - check.blocks.first));
    return state_head_sound(state) && !atomic_load(&check.changed);
}

bool
state_params_sound(const struct state *state, struct pool *pool)
{
    return state_range_sound(state, &(struct state_range){0, state->param_count}, pool);
}

bool
state_changed_below(const struct state *next, const struct state *now)
{
    return atomic_load(&next->changed) || copied_otherwise(next, now) || !state_head_sound(now);
}

static bool
exponent_valid(const struct state *state, const uint8_t *memory, size_t block)
{
    size_t exponents = (size_t)((const uint8_t *)state->exponent - state->block);
    int16_t exponent = ((const int16_t *)(const void *)(memory + exponents))[block];
    return exponent >= EXACT_EXPONENT_MIN && exponent <= EXACT_EXPONENT_MAX;
}

static bool
exponents_valid(const struct state *state, const uint8_t *memory)
{
    for (size_t b = 0; b < state->block_count; b++)
        if (state_holds_block(state, b) && !exponent_valid(state, memory, b))
            return false;
    return true;
}

bool
state_segment_sound(const struct state *state, const struct state_range *segment,
                    const uint8_t *block, uint64_t part)
{
    const struct state_item blocks = state_blocks(state, segment);
    const struct hashing h = {state, block, state->scratch};
    bool valid = true;
    state_hash_forget(state, state->scratch);
    for (size_t b = blocks.first; b < blocks.end; b++) {
        state_hash_block(state, block, b, state->scratch);
        valid = valid && exponent_valid(state, block, b);
    }
    return valid && hash_part_of(&h, segment) == part;
}

/* What is held of a block, whose hashes are in ->scratch and add up to `part`. */
static void
take(struct state *state, const uint8_t *block, uint64_t part)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    for (size_t i = state_extents(state, extent); i-- > 0;)
        memcpy(state->block + extent[i].offset, block + extent[i].offset, extent[i].size);
    uint64_t *taken = state->scratch;
    state->scratch = state->hash;
    state->hash = taken;
    state->part = part;
    state->head_hash = hash_head(state, block);
}

int
state_take(struct state *state, const uint8_t *block, uint64_t hash, struct pool *pool)
{
    state_hash_forget(state, state->scratch);
    uint64_t part = hash_blocks(&(struct hashing){state, block, state->scratch}, pool);
    if (hash_whole(block, part) != hash || !exponents_valid(state, block))
        return -EBADMSG;
    take(state, block, part);
    return 0;
}

int
state_take_segments(struct state *state, const struct state_stages *segments, const uint8_t *block,
                    uint64_t name, const uint64_t *parts, struct pool *pool)
{
    uint64_t had[PROTO_STAGES_MAX];
    const struct hashing h = {state, block, state->scratch};
    state_hash_forget(state, state->scratch);
    uint64_t part = hash_blocks(&h, pool);
    hash_segments(&h, segments, had);
    bool same = hash_header(block) == name && exponents_valid(state, block);
    for (size_t s = 0; s < segments->count; s++)
        same = same && (had[s] == 0 || had[s] == parts[s]);
    if (!same)
        return -EBADMSG;
    take(state, block, part);
    return 0;
}

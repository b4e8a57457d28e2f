/* route.c - what the routes share: see route.h. */
#include "mesh/core/rounds/route.h"

#include <assert.h>
#include <stdio.h>

#include "compress/check.h"
#include "compress/coding.h"
#include "proto/mutant.h"

enum verdict
collective_refuse(struct collective *c, const char *what, const struct proto_chunk *chunk)
{
    c->broken = true;
    snprintf(c->why, sizeof c->why, "%s in bucket %u, elements %llu+%u, hop %u", what,
             (unsigned)chunk->bucket, (unsigned long long)chunk->first, (unsigned)chunk->count,
             (unsigned)chunk->hop);
    return VERDICT_BAD;
}

/* The most bytes of a packed body that is sent instead of `count` elements; 0: none is. */
static size_t
packed_limit(const struct collective *c, uint64_t count)
{
    if (c->setup.pack_all)
        return SIZE_MAX;
    return count < CODING_LEAST || c->quarters == 0 ? 0 : coding_raw(count) / 4 * c->quarters - 1;
}

/* False: it is not shorter, or no buffer is free. */
static bool
send_packed(struct collective *c, uint64_t ranks, const struct proto_chunk *chunk)
{
    struct proto_msg msg = {.type = PROTO_REDUCE, .chunk = *chunk};
    struct core_frame frame;
    size_t limit = packed_limit(c, chunk->count);
    if (limit == 0 ||
        !c->setup.wire->make(c->setup.wire_ctx, coding_most(chunk->count), false, &frame))
        return false;
    size_t size = coding_pack(frame.data, c->setup.own + chunk->first, chunk->count, limit,
                              c->quick, &msg.chunk.check);
    msg.chunk.coding = PROTO_CODING_PACKED;
    if (size > 0)
        c->ops.pass_on(c->ctx, ranks, &msg, &(struct core_frame){frame.data, size, frame.handle});
    c->setup.wire->release(c->setup.wire_ctx, frame.handle);
    return size > 0;
}

void
send_own(struct collective *c, uint64_t ranks, const struct proto_chunk *chunk)
{
    struct proto_msg msg = {.type = PROTO_REDUCE, .chunk = *chunk};
    if (send_packed(c, ranks, chunk))
        return;
    msg.chunk.check = check_of(c->setup.own + chunk->first, 0, chunk->count);
    for (unsigned d = 1; d < c->all->n; d++) {
        unsigned rank = (c->all->rank + d) % c->all->n;
        if (ranks >> rank & 1)
            c->ops.send(c->ctx, rank, &msg, c->setup.own + chunk->first, coding_raw(chunk->count));
    }
}

bool
onward_add(struct collective *c, struct onward *on, int32_t *out, const int32_t *base,
           const struct proto_chunk *chunk, const struct core_frame *frame)
{
    *on = (struct onward){*frame, chunk->coding == PROTO_CODING_PACKED, 0, 0};
    uint64_t *a_check = &on->base_check, *sum_check = &on->sum_check;
    if (on->made) {
        struct core_frame fresh;
        size_t size = 0;
        c->setup.wire->make(c->setup.wire_ctx, coding_most(chunk->count), true, &fresh);
        bool good = coding_sum_on(fresh.data, &size, out, base, frame->data, chunk->count, c->quick,
                                  a_check, sum_check);
        on->frame = (struct core_frame){fresh.data, size, fresh.handle};
        return good;
    }
    if (out)
        check_sum_copy(out, base, frame->data, chunk->count, a_check, sum_check);
    else
        check_sum(frame->data, base, frame->data, chunk->count, a_check, sum_check);
    return true;
}

void
onward_end(struct collective *c, struct onward *on)
{
    if (on->made)
        c->setup.wire->release(c->setup.wire_ctx, on->frame.handle);
    on->made = false;
}

struct proto_chunk
own_chunk(const struct collective *c, size_t bucket, uint64_t first, uint64_t count)
{
    return (struct proto_chunk){
        .plan_hash = c->plan,
        .round = c->round,
        .bucket = (uint16_t)bucket,
        .direct = c->lanes[bucket].route->direct,
        .first = first,
        .count = (uint32_t)count,
        .coding = PROTO_CODING_RAW,
        .coverage = holders_of(c, bucket)->mine,
        .state_hash = c->lanes[bucket].state,
    };
}

bool
check_differs(uint64_t a, uint64_t b)
{
    return a != b && !mutant(MUTANT_CHECK);
}

/* Shards that coverage is about: all. */
static uint64_t
covered_shards(void)
{
    return mutant(MUTANT_ZERO) ? ~UINT64_C(1) : ~UINT64_C(0);
}

bool
covers_twice(uint64_t a, uint64_t b)
{
    return (a & b & covered_shards()) != 0 && !mutant(MUTANT_COVERAGE);
}

bool
covers_all(const struct holders *h, uint64_t coverage)
{
    return (coverage & covered_shards()) == (h->complete & covered_shards()) ||
           mutant(MUTANT_COVERAGE);
}

/* Does the chunk have elements, and all of them in its bucket? */
bool
chunk_in_bucket(const struct collective *c, const struct proto_chunk *chunk)
{
    const struct core_bucket *b = &c->setup.buckets[chunk->bucket];
    return chunk->count > 0 && chunk->first >= b->first && chunk->first - b->first < b->count &&
           chunk->count <= b->count - (chunk->first - b->first);
}

void
lane_count(struct collective *c, struct lane *lane)
{
    assert(lane->left > 0);
    c->progress++;
    if (--lane->left == 0)
        c->left--;
}

enum verdict
lane_take_total(struct collective *c, const struct proto_chunk *chunk,
                const struct core_frame *frame)
{
    if (!covers_all(holders_of(c, chunk->bucket), chunk->coverage))
        return collective_refuse(c, "a shard is missing", chunk);
    if (mutant(MUTANT_MIRROR) && holders_of(c, chunk->bucket)->mine == 0 &&
        chunk->bucket + 1u < c->setup.bucket_count) {
        lane_count(c, &c->lanes[chunk->bucket]);
        return VERDICT_DONE;
    }
    uint64_t check;
    bool good =
        coding_copy(c->setup.sum + chunk->first, chunk->coding, frame->data, chunk->count, &check);
    if (!good || check_differs(check, chunk->check))
        return collective_refuse(c, "wrong checksum", chunk);
    lane_count(c, &c->lanes[chunk->bucket]);
    return VERDICT_DONE;
}

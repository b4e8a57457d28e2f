/* route.c - what the routes share: see route.h. */
#include "mesh/core/rounds/route.h"

#include <assert.h>
#include <stdio.h>

#include "compress/check.h"
#include "compress/coding.h"
#include "mesh/core/mutant.h"

enum verdict
collective_refuse(struct collective *c, const char *what, const struct proto_chunk *chunk)
{
    c->broken = true;
    snprintf(c->why, sizeof c->why, "%s in bucket %u, elements %llu+%u, hop %u", what,
             (unsigned)chunk->bucket, (unsigned long long)chunk->first, (unsigned)chunk->count,
             (unsigned)chunk->hop);
    return VERDICT_BAD;
}

void
send_own(struct collective *c, unsigned rank, const struct proto_chunk *chunk)
{
    struct proto_msg msg = {.type = PROTO_REDUCE, .chunk = *chunk};
    c->ops.send(c->ctx, holders_of(c, chunk->bucket)->of_plan[rank], &msg,
                c->setup.own + chunk->first, coding_bytes(chunk->coding, chunk->count));
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
        .check = check_of(c->setup.own + first, 0, count),
        .state_hash = c->lanes[bucket].state,
    };
}

bool
check_differs(uint64_t a, uint64_t b)
{
    return a != b && !core_mutant(MUTANT_CHECK);
}

/* Shards that coverage is about: all. */
static uint64_t
covered_shards(void)
{
    return core_mutant(MUTANT_ZERO) ? ~UINT64_C(1) : ~UINT64_C(0);
}

bool
covers_twice(uint64_t a, uint64_t b)
{
    return (a & b & covered_shards()) != 0 && !core_mutant(MUTANT_COVERAGE);
}

bool
covers_all(const struct holders *h, uint64_t coverage)
{
    return (coverage & covered_shards()) == (h->complete & covered_shards()) ||
           core_mutant(MUTANT_COVERAGE);
}

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
    if (core_mutant(MUTANT_MIRROR) && holders_of(c, chunk->bucket)->mine == 0 &&
        chunk->bucket + 1u < c->setup.bucket_count) {
        lane_count(c, &c->lanes[chunk->bucket]);
        return VERDICT_DONE;
    }
    uint64_t check = check_copy(c->setup.sum + chunk->first, frame->data, chunk->count);
    if (check_differs(check, chunk->check))
        return collective_refuse(c, "wrong checksum", chunk);
    lane_count(c, &c->lanes[chunk->bucket]);
    return VERDICT_DONE;
}

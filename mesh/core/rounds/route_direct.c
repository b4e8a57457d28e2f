/* route_direct.c - a bucket that is small goes from every member to every other one: one step instead of the 2(n-1) of
 * a ring. A member that is alone takes it, too. */
#include <assert.h>

#include "compress/check.h"
#include "compress/coding.h"
#include "mesh/core/rounds/route.h"
#include "proto/mutant.h"

static void
direct_send(struct collective *c, size_t bucket)
{
    const struct core_bucket *b = &c->setup.buckets[bucket];
    const struct holders *h = holders_of(c, bucket);
    struct proto_chunk chunk = own_chunk(c, bucket, b->first, b->count);
    send_own(c, h->others, &chunk);
}

/* Sum starts as my contribution, with others it is written when the first comes. */
static void
direct_open(struct collective *c, size_t bucket)
{
    struct lane *lane = &c->lanes[bucket];
    const struct core_bucket *b = &c->setup.buckets[bucket];
    if (lane->may_write || lane->left == 0)
        return;
    const struct holders *h = lane->holders;
    if (lane->left == 1 && !covers_all(h, h->mine)) {
        struct proto_chunk chunk = own_chunk(c, bucket, b->first, 0);
        collective_refuse(c, "a shard is missing", &chunk);
        return;
    }
    lane->may_write = true;
    if (h->n == 1)
        check_copy(c->setup.sum + b->first, c->setup.own + b->first, b->count);
    lane->covered = h->mine;
    lane_count(c, lane);
}

static enum verdict
direct_reduce(struct collective *c, const struct proto_chunk *chunk, unsigned from,
              struct core_frame *frame)
{
    struct lane *lane = &c->lanes[chunk->bucket];
    const struct core_bucket *b = &c->setup.buckets[chunk->bucket];
    assert(chunk->direct && lane->holders->n > 1);
    if (chunk->first != b->first || chunk->count != b->count)
        return collective_refuse(c, "wrong range", chunk);
    if (!lane->may_write)
        return VERDICT_LATER;
    uint8_t *taken = &c->chunks[lane->chunk + from];
    if (*taken && !mutant(MUTANT_DIRECT_AGAIN))
        return VERDICT_DONE;
    if (covers_twice(chunk->coverage, lane->covered) && !mutant(MUTANT_DIRECT))
        return collective_refuse(c, "a shard counted twice", chunk);
    int32_t *sum = c->setup.sum + b->first;
    bool first = lane->left == lane->holders->n - 1;
    uint64_t before, after;
    const int32_t *base = first ? c->setup.own + b->first : sum;
    bool good = coding_sum(sum, base, chunk->coding, frame->data, b->count, &before, &after);
    if (!good || check_differs(check_add(before, chunk->check), after))
        return collective_refuse(c, "wrong checksum", chunk);
    *taken = CHUNK_FINAL;
    lane->covered |= chunk->coverage;
    if (lane->left == 1 && !covers_all(lane->holders, lane->covered))
        return collective_refuse(c, "a shard is missing", chunk);
    lane_count(c, lane);
    return VERDICT_DONE;
}

/* What is sent directly is final where it arrives. */
static enum verdict
direct_gather(struct collective *c, const struct proto_chunk *chunk, unsigned from,
              struct core_frame *frame)
{
    (void)from, (void)frame;
    return collective_refuse(c, "wrong range", chunk);
}

static size_t
direct_begin(struct collective *c, size_t bucket)
{
    size_t n = holders_of(c, bucket)->n;
    c->lanes[bucket].left = n;
    return n;
}

const struct route route_direct = {
    .direct = true,
    .begin = direct_begin,
    .send = direct_send,
    .open = direct_open,
    .reduce = direct_reduce,
    .gather = direct_gather,
};

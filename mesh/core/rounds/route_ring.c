/* route_ring.c - a bucket is divided into n arcs, which go round the ring of members twice: reduce-scatter,
 * all-gather. Each member sends 2(n-1)/n of the bucket, for any n. collective.h has the states of a chunk. */
#include <assert.h>

#include "compress/check.h"
#include "mesh/core/rounds/route.h"
#include "proto/mutant.h"

/* Long arcs begin where copies may bypass the caches. */
static uint64_t
arc_first(const struct collective *c, size_t bucket, unsigned s)
{
    const struct core_bucket *b = &c->setup.buckets[bucket];
    unsigned n = holders_of(c, bucket)->n;
    uint64_t first = b->first + b->count * s / n;
    bool inside = s > 0 && s < n && b->count / n >= CHECK_STREAM;
    return inside ? first / CHECK_LANES * CHECK_LANES : first;
}

/* Chunks of the longest arc of a bucket among n members. */
static size_t
arc_chunks(const struct collective *c, size_t bucket)
{
    unsigned n = holders_of(c, bucket)->n;
    return chunks_of(c, (c->setup.buckets[bucket].count + n - 1) / n);
}

static unsigned
right_neighbour(const struct holders *h)
{
    return (h->rank + 1) % h->n;
}

/* Steps from rank a to rank b along the ring. */
static unsigned
ring_distance(const struct holders *h, unsigned a, unsigned b)
{
    return (b + h->n - a) % h->n;
}

static size_t
ring_begin(struct collective *c, size_t bucket)
{
    struct lane *lane = &c->lanes[bucket];
    unsigned n = lane->holders->n;
    assert(n > 1);
    lane->stride = arc_chunks(c, bucket);
    for (unsigned s = 0; s < n; s++)
        lane->left += chunks_of(c, arc_first(c, bucket, s + 1) - arc_first(c, bucket, s));
    return lane->stride * n;
}

static void
ring_send(struct collective *c, size_t bucket)
{
    struct lane *lane = &c->lanes[bucket];
    const struct holders *h = lane->holders;
    uint64_t first = arc_first(c, bucket, h->rank);
    uint64_t end = arc_first(c, bucket, h->rank + 1);
    for (size_t k = 0; first < end; k++, first += c->setup.chunk_elems) {
        uint64_t count = end - first;
        if (count > c->setup.chunk_elems)
            count = c->setup.chunk_elems;
        struct proto_chunk chunk = own_chunk(c, bucket, first, count);
        c->chunks[lane->chunk + h->rank * lane->stride + k] = CHUNK_PASSED;
        send_own(c, UINT64_C(1) << h->of_plan[right_neighbour(h)], &chunk);
    }
}

/* Send a received chunk on to the right neighbour, with what we made of its body. */
static void
ring_pass_on(struct collective *c, enum proto_type type, const struct proto_chunk *chunk,
             struct core_frame *frame)
{
    const struct holders *h = holders_of(c, chunk->bucket);
    struct proto_msg msg = {.type = type, .chunk = *chunk};
    c->ops.pass_on(c->ctx, UINT64_C(1) << h->of_plan[right_neighbour(h)], &msg, frame);
}

/* The check of the range: the status of the chunk with these elements, and its arc; NULL: there is none. */
static uint8_t *
chunk_place(const struct collective *c, const struct proto_chunk *chunk, unsigned *arc)
{
    const struct lane *lane = &c->lanes[chunk->bucket];
    if (!chunk_in_bucket(c, chunk))
        return NULL;
    unsigned s = 0;
    while (arc_first(c, chunk->bucket, s + 1) <= chunk->first)
        s++;
    uint64_t offset = chunk->first - arc_first(c, chunk->bucket, s);
    uint64_t rest = arc_first(c, chunk->bucket, s + 1) - chunk->first;
    uint64_t count = rest < c->setup.chunk_elems ? rest : c->setup.chunk_elems;
    bool exact = offset % c->setup.chunk_elems == 0 && chunk->count == count;
    if (!exact && !mutant(MUTANT_RANGE))
        return NULL;
    *arc = s;
    return &c->chunks[lane->chunk + s * lane->stride + offset / c->setup.chunk_elems];
}

/* The same of a chunk that comes from the left neighbour, `hops` ranks after the one whose arc it is; NULL: it is
 * refused. */
static uint8_t *
chunk_arrives(struct collective *c, const struct proto_chunk *chunk, unsigned from, unsigned hops)
{
    unsigned s = 0;
    const struct holders *h = holders_of(c, chunk->bucket);
    uint8_t *status = chunk_place(c, chunk, &s);
    if (status && (from + 1) % h->n == h->rank && hops == ring_distance(h, s, h->rank) &&
        chunk->hop + 1u < h->n)
        return status;
    collective_refuse(c, status ? "wrong hop" : "wrong range", chunk);
    return NULL;
}

/* The sum becomes final here and starts its second trip. */
static enum verdict
ring_reduce_last(struct collective *c, struct proto_chunk *chunk, uint8_t *status,
                 struct core_frame *frame)
{
    if (!covers_all(holders_of(c, chunk->bucket), chunk->coverage))
        return collective_refuse(c, "a shard is missing", chunk);
    *status = CHUNK_FINAL;
    lane_count(c, &c->lanes[chunk->bucket]);
    chunk->hop = 0;
    ring_pass_on(c, PROTO_GATHER, chunk, frame);
    return VERDICT_DONE;
}

/* Adds our own elements: the sum goes on to the right neighbour, or is final. */
static enum verdict
ring_add(struct collective *c, const struct proto_chunk *chunk, uint8_t *status,
         const struct core_frame *frame, bool last)
{
    int32_t *total = last ? c->setup.sum + chunk->first : NULL;
    const int32_t *own = c->setup.own + chunk->first;
    enum verdict verdict = VERDICT_DONE;
    struct proto_chunk next = *chunk;
    struct onward on;
    bool good = onward_add(c, &on, total, own, chunk, frame);
    next.check = on.sum_check;
    next.coverage |= holders_of(c, chunk->bucket)->mine;
    next.hop++;
    if (!good || check_differs(check_add(chunk->check, on.base_check), next.check)) {
        verdict = collective_refuse(c, "wrong checksum", chunk);
    } else if (last) {
        verdict = ring_reduce_last(c, &next, status, &on.frame);
    } else {
        *status = CHUNK_PASSED;
        c->progress++;
        ring_pass_on(c, PROTO_REDUCE, &next, &on.frame);
    }
    onward_end(c, &on);
    return verdict;
}

static enum verdict
ring_reduce(struct collective *c, const struct proto_chunk *chunk, unsigned from,
            struct core_frame *frame)
{
    const struct holders *h = holders_of(c, chunk->bucket);
    uint8_t *status = chunk_arrives(c, chunk, from, chunk->hop + 1u);
    if (!status)
        return VERDICT_BAD;
    if (*status != CHUNK_WAITING)
        return VERDICT_DONE;
    bool last = chunk->hop + 2u == h->n; /* nothing more to add */
    if (c->ready <= chunk->bucket)
        return VERDICT_LATER;
    if (covers_twice(chunk->coverage, h->mine))
        return collective_refuse(c, "a shard counted twice", chunk);
    return ring_add(c, chunk, status, frame, last);
}

static enum verdict
ring_gather(struct collective *c, const struct proto_chunk *chunk, unsigned from,
            struct core_frame *frame)
{
    uint8_t *status = chunk_arrives(c, chunk, from, chunk->hop);
    if (!status)
        return VERDICT_BAD;
    if (*status == CHUNK_FINAL)
        return VERDICT_DONE;
    if (*status == CHUNK_WAITING) /* overtook the sum it was made of */
        return VERDICT_LATER;
    if (lane_take_total(c, chunk, frame) == VERDICT_BAD)
        return VERDICT_BAD;
    *status = CHUNK_FINAL;
    if (chunk->hop + 2u < holders_of(c, chunk->bucket)->n) {
        struct proto_chunk next = *chunk;
        next.hop++;
        ring_pass_on(c, PROTO_GATHER, &next, frame);
    }
    return VERDICT_DONE;
}

const struct route route_ring = {
    .begin = ring_begin,
    .send = ring_send,
    .reduce = ring_reduce,
    .gather = ring_gather,
};

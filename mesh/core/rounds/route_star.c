/* route_star.c - a bucket is divided into ranges, each with a server among the members (servers.h). All others send
 * their contribution to a range to its server; it adds them as they come, straight from the received frame, and sends
 * the total to all as soon as it has the last one. A member has STAR_WINDOW contributions to a server under way: each
 * total that comes back lets it send one more. So while one range is summed, others are on their way in both
 * directions, but what is summed is in the server's caches, and a line that several send to has little to queue.
 *
 *     member     REDUCE, to the server of the range:    own contribution, hop h
 *     server     GATHER, to all others:                 total of all members, hop h
 *
 * h is the number of the range modulo PROTO_PEERS_MAX: a header in which a bit of `first` flipped contradicts itself.
 * A member sends 1 - s of the bucket to servers, and n - 1 times the part s that it serves itself. With equal parts
 * s = 1/n that is 2(n-1)/n of the bucket, as in the ring, but in two trips.
 *
 * A range at its server, with x contributions in sum:
 *
 *     x = 0 --others'--> 0 < x < n - 1 --own bucket ready: += own--> ... --the last: sum and frame--> FINAL, GATHER
 *
 * The last contribution of the others waits for our own one: its frame carries the total away, to all members, without
 * a copy. */
#include <assert.h>

#include "compress/check.h"
#include "compress/coding.h"
#include "mesh/core/rounds/route.h"
#include "proto/mutant.h"

enum { STAR_WINDOW = 2 /* contributions under way from a member to a server, of a bucket */ };

static const struct layout *
layout_of(const struct collective *c, size_t bucket)
{
    return &c->layouts[bucket];
}

static size_t
star_begin(struct collective *c, size_t bucket)
{
    const struct layout *layout = layout_of(c, bucket);
    const struct holders *h = holders_of(c, bucket);
    assert(h->n > 1 && layout->served);
    for (size_t r = 0; r < layout->ranges.count; r++) {
        struct range *range = &c->ranges[layout->first + r];
        *range = (struct range){.owner = range->owner, .covered = h->mine};
    }
    c->lanes[bucket].left = layout->ranges.count;
    return 0;
}

static uint16_t
range_hop(size_t r)
{
    return (uint16_t)(r % PROTO_PEERS_MAX);
}

/* Our own contribution to a range. */
static struct proto_chunk
range_chunk(const struct collective *c, size_t bucket, size_t r)
{
    const struct core_bucket *b = &c->setup.buckets[bucket];
    const struct servers_ranges *ranges = &layout_of(c, bucket)->ranges;
    uint64_t first = servers_begin(ranges, b, r);
    return own_chunk(c, bucket, first, servers_end(ranges, b, r) - first);
}

static void
range_send(struct collective *c, size_t bucket, size_t r)
{
    struct proto_chunk chunk = range_chunk(c, bucket, r);
    chunk.hop = range_hop(r);
    unsigned owner = c->ranges[layout_of(c, bucket)->first + r].owner;
    send_own(c, UINT64_C(1) << holders_of(c, bucket)->of_plan[owner], &chunk);
}

/* The first range of `owner` from r on; the number of ranges: none. */
static size_t
range_from(const struct collective *c, const struct layout *layout, unsigned owner, size_t r)
{
    while (r < layout->ranges.count && c->ranges[layout->first + r].owner != owner)
        r++;
    return r;
}

/* The range that comes `many` after r among those of its server; the number of ranges: none. */
static size_t
range_after(const struct collective *c, const struct layout *layout, size_t r, unsigned many)
{
    unsigned owner = c->ranges[layout->first + r].owner;
    for (; many > 0 && r < layout->ranges.count; many--)
        r = range_from(c, layout, owner, r + 1);
    return r;
}

/* The first ranges of each server, one of each, beginning with the next rank, then another of each: no two members send
 * to one server at a time, and all contributions to a range come at about the same time. */
static void
star_send(struct collective *c, size_t bucket)
{
    const struct layout *layout = layout_of(c, bucket);
    const struct holders *h = holders_of(c, bucket);
    size_t next[PROTO_PEERS_MAX] = {0};
    for (unsigned w = 0; w < STAR_WINDOW; w++)
        for (unsigned k = 1; k < h->n; k++) {
            unsigned owner = (h->rank + k) % h->n;
            size_t r = range_from(c, layout, owner, next[owner]);
            next[owner] = r + 1;
            if (r < layout->ranges.count)
                range_send(c, bucket, r);
        }
}

/* A total came from its server: it may have one more contribution. */
static void
range_send_next(struct collective *c, size_t bucket, size_t r)
{
    const struct layout *layout = layout_of(c, bucket);
    size_t next = range_after(c, layout, r, STAR_WINDOW);
    if (next < layout->ranges.count)
        range_send(c, bucket, next);
}

/* The check of the range: which one is this? NULL if it is none. */
static struct range *
range_of(const struct collective *c, const struct proto_chunk *chunk)
{
    const struct core_bucket *b = &c->setup.buckets[chunk->bucket];
    const struct layout *layout = layout_of(c, chunk->bucket);
    if (!chunk_in_bucket(c, chunk))
        return NULL;
    size_t r = (size_t)((chunk->first - layout->ranges.first) / layout->ranges.elems);
    bool exact = chunk->first == servers_begin(&layout->ranges, b, r) &&
                 chunk->first + chunk->count == servers_end(&layout->ranges, b, r);
    if (!exact || chunk->hop != range_hop(r))
        return NULL;
    return &c->ranges[layout->first + r];
}

/* Is this member the server of the range? */
static bool
range_served_by(const struct range *range, unsigned rank)
{
    return range->owner == rank || mutant(MUTANT_STAR_OWNER);
}

/* --- At the server -------------------------------------------------------------------------------- */

/* Our own contribution, for ranges to which others came first. */
static void
range_add_own(struct collective *c, struct range *range, const struct proto_chunk *chunk)
{
    int32_t *sum = c->setup.sum + chunk->first;
    uint64_t mine, after;
    check_sum(sum, c->setup.own + chunk->first, sum, chunk->count, &mine, &after);
    range->taken |= UINT64_C(1) << holders_of(c, chunk->bucket)->rank;
    range->check = check_add(range->check, mine);
    if (check_differs(range->check, after))
        collective_refuse(c, "wrong checksum", chunk);
}

static void
star_open(struct collective *c, size_t bucket)
{
    const struct layout *layout = layout_of(c, bucket);
    struct lane *lane = &c->lanes[bucket];
    bool again = lane->may_write && !mutant(MUTANT_STAR_OWN);
    for (size_t r = 0; !again && r < layout->ranges.count; r++) {
        struct range *range = &c->ranges[layout->first + r];
        if (range->owner != lane->holders->rank || range->taken == 0 || range->final)
            continue;
        struct proto_chunk chunk = range_chunk(c, bucket, r);
        range_add_own(c, range, &chunk);
    }
    lane->may_write = true;
}

/* The first contribution of the others when our own one is not ready. False: a checksum is wrong. */
static bool
range_add_first(struct collective *c, struct range *range, const struct proto_chunk *chunk,
                const struct core_frame *frame)
{
    uint64_t check;
    range->check = chunk->check;
    bool good =
        coding_copy(c->setup.sum + chunk->first, chunk->coding, frame->data, chunk->count, &check);
    return good && !check_differs(check, chunk->check);
}

/* Adds a contribution to sum, or to our own one. With `last` the total goes on. */
static bool
range_add(struct collective *c, struct range *range, const struct proto_chunk *chunk,
          const struct core_frame *frame, bool last, struct onward *on)
{
    int32_t *sum = c->setup.sum + chunk->first;
    bool first = range->taken == 0;
    const int32_t *base = first ? c->setup.own + chunk->first : sum;
    if (first && c->ready <= chunk->bucket)
        return range_add_first(c, range, chunk, frame);
    bool good = last ? onward_add(c, on, sum, base, chunk, frame)
                     : coding_sum(sum, base, chunk->coding, frame->data, chunk->count,
                                  &on->base_check, &on->sum_check);
    if (first) {
        range->taken = UINT64_C(1) << holders_of(c, chunk->bucket)->rank;
        range->check = on->base_check;
    }
    range->check = check_add(range->check, chunk->check);
    return good && !check_differs(range->check, on->sum_check);
}

/* All have contributed: the total goes to all others. */
static enum verdict
range_finish(struct collective *c, struct range *range, const struct proto_chunk *chunk,
             struct core_frame *frame)
{
    bool early = mutant(MUTANT_STAR_EARLY);
    const struct holders *h = holders_of(c, chunk->bucket);
    if (!covers_all(h, range->covered) && !early)
        return collective_refuse(c, "a shard is missing", chunk);
    struct proto_msg msg = {.type = PROTO_GATHER, .chunk = *chunk};
    msg.chunk.coverage = early ? h->complete : range->covered;
    msg.chunk.check = range->check;
    range->final = true;
    lane_count(c, &c->lanes[chunk->bucket]);
    c->ops.pass_on(c->ctx, h->others, &msg, frame);
    return VERDICT_DONE;
}

/* Is this the last contribution of the others? */
static bool
is_last_contribution(const struct holders *h, const struct range *range)
{
    uint64_t others = range->taken & ~(UINT64_C(1) << h->rank);
    unsigned missing = h->n - 1 - (unsigned)__builtin_popcountll(others);
    return missing <= (mutant(MUTANT_STAR_EARLY) ? 2 : 1);
}

static enum verdict
star_reduce(struct collective *c, const struct proto_chunk *chunk, unsigned from,
            struct core_frame *frame)
{
    const struct holders *h = holders_of(c, chunk->bucket);
    struct range *range = range_of(c, chunk);
    if (!range)
        return collective_refuse(c, "wrong range", chunk);
    if (!range_served_by(range, h->rank))
        return collective_refuse(c, "a range of another server", chunk);
    if (range->final || ((range->taken >> from & 1) && !mutant(MUTANT_STAR_AGAIN)))
        return VERDICT_DONE;
    bool last = is_last_contribution(h, range);
    if (!c->open || (last && c->ready <= chunk->bucket))
        return VERDICT_LATER;
    if (covers_twice(chunk->coverage, range->covered))
        return collective_refuse(c, "a shard counted twice", chunk);
    struct onward on = {.made = false};
    enum verdict verdict = VERDICT_DONE;
    if (!range_add(c, range, chunk, frame, last, &on)) {
        verdict = collective_refuse(c, "wrong checksum", chunk);
    } else {
        range->taken |= UINT64_C(1) << from;
        range->covered |= chunk->coverage;
        c->progress++;
        verdict = last ? range_finish(c, range, chunk, &on.frame) : VERDICT_DONE;
    }
    onward_end(c, &on);
    return verdict;
}

/* --- At the others -------------------------------------------------------------------------------- */

static enum verdict
star_gather(struct collective *c, const struct proto_chunk *chunk, unsigned from,
            struct core_frame *frame)
{
    struct range *range = range_of(c, chunk);
    if (!range)
        return collective_refuse(c, "wrong range", chunk);
    if (!range_served_by(range, from))
        return collective_refuse(c, "a total from another member than the server", chunk);
    if (range->final)
        return VERDICT_DONE;
    if (!c->lanes[chunk->bucket].sent)
        return collective_refuse(c, "a total without this node", chunk);
    if (lane_take_total(c, chunk, frame) == VERDICT_BAD)
        return VERDICT_BAD;
    range->final = true;
    range_send_next(c, chunk->bucket,
                    (size_t)(range - c->ranges) - layout_of(c, chunk->bucket)->first);
    return VERDICT_DONE;
}

const struct route route_star = {
    .begin = star_begin,
    .send = star_send,
    .open = star_open,
    .reduce = star_reduce,
    .gather = star_gather,
};

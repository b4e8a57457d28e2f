/* servers.c - who serves which range, and who is elected: see servers.h. */
#include "mesh/core/group/servers.h"

#include <assert.h>

#include "compress/check.h"
#include "compress/coding.h"
#include "proto/mix.h"

/* --- Duties ----------------------------------------------------------------------------------------- */

bool
servers_valid(const struct proto_plan *plan)
{
    for (size_t m = 0; m < plan->count; m++) {
        struct servers_duty duty = servers_unpack(plan->members[m].duties);
        if (duty.weight > SERVERS_WEIGHT_MAX || servers_pack(duty) != plan->members[m].duties)
            return false;
    }
    return true;
}

/* --- Who serves ----------------------------------------------------------------------------------- */

/* With which weight a member serves buckets of this size. */
static unsigned
server_weight(const struct proto_member *member, uint64_t bytes)
{
    struct servers_duty duty = servers_unpack(member->duties);
    bool in = bytes > UINT64_C(1) << duty.above && bytes <= UINT64_C(1) << duty.upto;
    return in ? duty.weight : 0;
}

bool
servers_direct(size_t n, uint64_t direct_bytes, uint64_t bytes)
{
    assert(n > 0 && n <= PROTO_PEERS_MAX);
    if (n <= 2) /* the bytes of a ring in half the trips */
        return n < 2 || (direct_bytes > 0 && bytes <= PROTO_CHUNK_MAX * sizeof(int32_t));
    /* Directly (n-1) x bytes take 10 ns each, as several send at once; round the ring 2(n-1)/n x bytes take 8 ns each,
     * and
     * 2(n-1) trips about 160 us each. */
    return bytes <= direct_bytes && bytes * (5 * n - 8) <= UINT64_C(160000) * n;
}

bool
servers_take(const struct proto_plan *plan, uint64_t bytes)
{
    for (size_t m = 0; m < plan->count; m++)
        if (server_weight(&plan->members[m], bytes) > 0)
            return true;
    return false;
}

/* --- The geometry --------------------------------------------------------------------------------- */

/* Into how many equal parts a bucket is to be ranges: one for each server, and more if they are not alike. */
static uint64_t
shares_wanted(const struct proto_plan *plan, uint64_t bytes)
{
    uint64_t servers = 0;
    unsigned least = SERVERS_WEIGHT_MAX, most = 0;
    for (size_t m = 0; m < plan->count; m++) {
        unsigned weight = server_weight(&plan->members[m], bytes);
        servers += weight > 0;
        least = weight > 0 && weight < least ? weight : least;
        most = weight > most ? weight : most;
    }
    assert(servers > 0);
    uint64_t parts = least == most ? servers : SERVERS_FINE * servers;
    return parts < SERVERS_PARTS_MAX ? parts : SERVERS_PARTS_MAX;
}

/* Ranges of so many elements, rounded: they begin where copies may bypass the caches. */
static struct servers_ranges
ranges_of(const struct core_bucket *bucket, uint32_t chunk_elems, uint64_t elems)
{
    elems = (elems + CHECK_LANES - 1) / CHECK_LANES * CHECK_LANES;
    elems = elems < SERVERS_RANGE_MIN ? SERVERS_RANGE_MIN : elems;
    elems = elems > chunk_elems ? chunk_elems : elems;
    struct servers_ranges ranges = {.first = bucket->first, .elems = (uint32_t)elems};
    if (elems >= CHECK_STREAM && elems % CHECK_LANES == 0)
        ranges.first -= bucket->first % CHECK_LANES;
    ranges.count = (size_t)((bucket->first + bucket->count - ranges.first + elems - 1) / elems);
    ranges.count = bucket->count == 0 ? 0 : ranges.count;
    return ranges;
}

static uint32_t
half_of(uint32_t elems)
{
    return (elems + 1) / 2;
}

/* A part that is longer than a chunk has as many ranges as it takes for none to be longer than half a chunk: then its
 * server sums one of them in its caches while others are on their way. */
struct servers_ranges
servers_divide(const struct core_bucket *bucket, uint32_t chunk_elems,
               const struct proto_plan *plan)
{
    assert(chunk_elems > 0);
    uint64_t parts = shares_wanted(plan, coding_raw(bucket->count));
    uint64_t part = (bucket->count + bucket->first % CHECK_LANES + parts - 1) / parts;
    uint64_t most = part > chunk_elems ? half_of(chunk_elems) : chunk_elems;
    uint64_t each = (part + most - 1) / most;
    return ranges_of(bucket, chunk_elems, each ? (part + each - 1) / each : 0);
}

/* A part of one range is not shorter than the first of these, a range of several not than the second. */
size_t
servers_ranges_max(const struct core_bucket *bucket, uint32_t chunk_elems)
{
    uint64_t part = bucket->count / SERVERS_PARTS_MAX, half = half_of(half_of(chunk_elems));
    return ranges_of(bucket, chunk_elems, part < half ? part : half).count;
}

/* --- Who serves which range ------------------------------------------------------------------------- */

void
servers_deal(struct servers_deal *deal, const struct proto_plan *plan, uint64_t bytes,
             size_t bucket, size_t ranges)
{
    uint64_t all = 0;
    *deal = (struct servers_deal){.plan = plan, .bucket = bucket};
    for (size_t m = 0; m < plan->count; m++)
        all += deal->weight[m] = server_weight(&plan->members[m], bytes);
    assert(all > 0);
    for (size_t m = 0; m < plan->count; m++)
        deal->room[m] = (ranges * deal->weight[m] + all - 1) / all;
}

unsigned
servers_deal_next(struct servers_deal *deal)
{
    const struct proto_plan *plan = deal->plan;
    uint64_t range = mix64_pair(deal->bucket, deal->next++), most = 0;
    unsigned owner = (unsigned)plan->count;
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t base = mix64_pair(range, plan->members[m].node.id);
        for (unsigned k = deal->room[m] ? deal->weight[m] : 0; k > 0; k--) {
            uint64_t drawn = mix64_pair(base, k);
            if (owner == plan->count || drawn > most) {
                owner = (unsigned)m;
                most = drawn;
            }
        }
    }
    assert(owner < plan->count);
    deal->room[owner]--;
    return owner;
}

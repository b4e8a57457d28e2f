/* servers.c - who serves which range, and who is elected: see servers.h. */
#include "mesh/core/rounds/servers.h"

#include <assert.h>

#include "compress/check.h"
#include "compress/coding.h"
#include "proto/mix.h"

enum { MIB = 1 << 20 };

/* --- Duties ----------------------------------------------------------------------------------------- */

uint64_t
servers_pack(struct servers_duty duty)
{
    assert(duty.weight <= SERVERS_WEIGHT_MAX);
    assert(duty.above <= SERVERS_SIZE_MAX && duty.upto <= SERVERS_SIZE_MAX);
    return duty.weight == 0 ? 0
                            : duty.weight | (uint64_t)duty.above << 8 | (uint64_t)duty.upto << 16;
}

struct servers_duty
servers_unpack(uint64_t duties)
{
    return (struct servers_duty){duties & 31, duties >> 8 & SERVERS_SIZE_MAX,
                                 duties >> 16 & SERVERS_SIZE_MAX};
}

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
weight_of(const struct proto_member *member, uint64_t bytes)
{
    struct servers_duty duty = servers_unpack(member->duties);
    bool in = bytes > UINT64_C(1) << duty.above && bytes <= UINT64_C(1) << duty.upto;
    return in ? duty.weight : 0;
}

bool
servers_take(const struct proto_plan *plan, uint64_t bytes)
{
    for (size_t m = 0; m < plan->count; m++)
        if (weight_of(&plan->members[m], bytes) > 0)
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
        unsigned weight = weight_of(&plan->members[m], bytes);
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

/* A part that is longer than a chunk has as many ranges as it takes for none to be longer than half a chunk: then its server
 * sums one of them in its caches while others are on their way. */
struct servers_ranges
servers_divide(const struct core_bucket *bucket, uint32_t chunk_elems,
               const struct proto_plan *plan)
{
    assert(chunk_elems > 0);
    uint64_t parts = shares_wanted(plan, coding_bytes(PROTO_CODING_RAW, bucket->count));
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
        all += deal->weight[m] = weight_of(&plan->members[m], bytes);
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

/* --- Electing ------------------------------------------------------------------------------------- */

/* The part of the best that a member has, in sixteenths; who is unknown counts as the best. */
static unsigned
share_of_best(const uint32_t *values, size_t n, size_t m)
{
    uint32_t most = 0;
    for (size_t k = 0; k < n; k++)
        most = values[k] > most ? values[k] : most;
    if (values[m] == 0)
        return SERVERS_WEIGHT_MAX;
    uint64_t part = ((uint64_t)SERVERS_WEIGHT_MAX * values[m] + most / 2) / most;
    return part < 1 ? 1 : (unsigned)part;
}

static unsigned
weigh(const struct servers_view *view, size_t m)
{
    unsigned speed = share_of_best(view->speed, view->n, m),
             line = share_of_best(view->rate, view->n, m);
    return speed < line ? speed : line;
}

/* The next server: of those with the highest weight one that already serves. */
static size_t
best_of(const struct servers_view *view, const unsigned *weight, const bool *chosen)
{
    size_t best = view->n;
    for (size_t m = 0; m < view->n; m++) {
        if (chosen[m])
            continue;
        bool more = best == view->n || weight[m] > weight[best];
        bool stays = best < view->n && weight[m] == weight[best] && view->serves[m];
        if (more || (stays && !view->serves[best]))
            best = m;
    }
    return best;
}

static void
set_duties(struct proto_plan *plan, size_t n, const unsigned *weight, const bool *chosen,
           struct servers_duty duty)
{
    for (size_t m = 0; m < n; m++) {
        duty.weight = chosen[m] ? weight[m] : 0;
        plan->members[m].duties = servers_pack(duty);
    }
}

/* log2, rounded up. */
static unsigned
log2_of(uint64_t bytes)
{
    unsigned log2 = 0;
    while (log2 < SERVERS_SIZE_MAX && UINT64_C(1) << log2 < bytes)
        log2++;
    return log2;
}

/* Time in microseconds of so many bytes on the line of member m; fast lines take none that could be compared. */
static uint64_t
line_us(const struct servers_view *view, size_t m, uint64_t bytes)
{
    return view->rate[m] ? bytes * 1000 / view->rate[m] : 0;
}

uint64_t
servers_ring_us(const struct servers_view *view, uint64_t bytes)
{
    uint64_t n = view->n, trips = 2 * (n - 1), most_us = 0;
    uint64_t chunk = view->chunk_elems * sizeof(int32_t), part = bytes / n;
    for (size_t m = 0; m < view->n; m++) {
        uint64_t us = line_us(view, m, trips * part);
        most_us = us > most_us ? us : most_us;
    }
    return trips * (SERVERS_HOP_US + (part + chunk) / chunk * SERVERS_MESSAGE_US) + most_us;
}

/* Time of so many bytes on the line of a server to which several send. */
static uint64_t
crowd_us(const struct servers_view *view, size_t m, uint64_t bytes)
{
    return line_us(view, m, bytes) * SERVERS_CROWD / 4;
}

/* Time of a range at the server that has one more than its share: any of them, as its weight says. */
static uint64_t
one_range_us(const struct servers_view *view, const struct servers_deal *deal, uint64_t range)
{
    uint64_t all = 0, sum_us = 0;
    for (size_t m = 0; m < view->n; m++) {
        all += deal->weight[m];
        sum_us += deal->weight[m] * crowd_us(view, m, range * (view->n - 1));
    }
    return sum_us / all;
}

uint64_t
servers_star_us(const struct servers_view *view, const struct proto_plan *plan, uint64_t bytes)
{
    struct core_bucket bucket = {0, (bytes + sizeof(int32_t) - 1) / sizeof(int32_t)};
    uint64_t ranges = servers_divide(&bucket, view->chunk_elems, plan).count, all = 0;
    uint64_t range = bytes / ranges;
    struct servers_deal deal;
    servers_deal(&deal, plan, bytes, 0, ranges);
    for (size_t m = 0; m < view->n; m++)
        all += deal.weight[m];
    uint64_t most_us = one_range_us(view, &deal, range);
    for (size_t m = 0; m < view->n; m++) {
        uint64_t own = ranges * deal.weight[m] / all, sends = ranges - own + own * (view->n - 1);
        uint64_t us = crowd_us(view, m, range * sends) + sends * SERVERS_MESSAGE_US;
        most_us = us > most_us ? us : most_us;
    }
    return 2 * SERVERS_HOP_US + bytes * SERVERS_PASS_US / MIB + most_us;
}

/* The largest size up to which servers take less time than the ring. */
static unsigned
auto_upto(const struct servers_view *view, const struct proto_plan *plan, unsigned above)
{
    unsigned upto = above;
    while (upto < SERVERS_AUTO_MAX && servers_star_us(view, plan, UINT64_C(2) << upto) <
                                          servers_ring_us(view, UINT64_C(2) << upto))
        upto++;
    return upto;
}

void
servers_elect(const struct servers_view *view, struct proto_plan *plan)
{
    unsigned weight[PROTO_PEERS_MAX] = {0};
    bool chosen[PROTO_PEERS_MAX] = {false}, none[PROTO_PEERS_MAX] = {false};
    struct servers_duty duty = {.above = 0, .upto = SERVERS_SIZE_MAX};
    assert(view->n == plan->count);
    for (size_t m = 0; m < view->n; m++)
        weight[m] = weigh(view, m);
    for (size_t k = 0; k < view->n && k < view->wanted; k++)
        chosen[best_of(view, weight, chosen)] = true;
    set_duties(plan, view->n, weight, chosen, duty);
    if (view->wanted != CORE_SERVERS_AUTO)
        return;
    duty.above = log2_of(view->direct_bytes);
    duty.upto = view->n > 2 ? auto_upto(view, plan, duty.above) : duty.above;
    set_duties(plan, view->n, weight, duty.upto > duty.above ? chosen : none, duty);
}

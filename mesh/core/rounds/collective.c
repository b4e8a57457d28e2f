/* collective.c - see collective.h for the checks, and for what is kept. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compress/coding.h"
#include "mesh/core/rounds/route.h"
#include "proto/mix.h"
#include "proto/mutant.h"

/* --- Life ------------------------------------------------------------------------------------- */

/* stride * n <= chunks of the bucket + 2n for every n up to PROTO_PEERS_MAX. */
static size_t
chunks_max(const struct collective *c)
{
    size_t total = 0;
    for (size_t b = 0; b < c->setup.bucket_count; b++)
        total += chunks_of(c, c->setup.buckets[b].count) + (size_t)2 * PROTO_PEERS_MAX;
    return total;
}

/* Each bucket gets room for its ranges. Returns how many there may be of all. */
static size_t
ranges_reserve(struct collective *c)
{
    size_t ranges = 0;
    for (size_t b = 0; b < c->setup.bucket_count; b++) {
        c->layouts[b].first = ranges;
        ranges += servers_ranges_max(&c->setup.buckets[b], c->setup.chunk_elems);
    }
    return ranges;
}

int
collective_new(struct collective **out, const struct collective_setup *setup,
               const struct collective_ops *ops, void *ctx)
{
    assert(setup->chunk_elems > 0 && setup->chunk_elems <= PROTO_CHUNK_MAX);
    struct collective *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->setup = *setup;
    c->ops = *ops;
    c->ctx = ctx;
    c->sets = calloc(HOLDERS_SETS, sizeof *c->sets);
    c->layouts = calloc(setup->bucket_count + 1, sizeof *c->layouts);
    size_t chunks = chunks_max(c), ranges = c->layouts ? ranges_reserve(c) : 0;
    c->kept_max = 2 * chunks + PROTO_PEERS_MAX * ranges;
    c->ranges = calloc(ranges + 1, sizeof *c->ranges);
    c->lanes = calloc(setup->bucket_count + 1, sizeof *c->lanes);
    c->chunks = calloc(chunks + 1, 1);
    c->kept = calloc(c->kept_max + 1, sizeof *c->kept);
    if (!c->sets || !c->layouts || !c->ranges || !c->lanes || !c->chunks || !c->kept) {
        collective_destroy(&c);
        return -ENOMEM;
    }
    *out = c;
    return 0;
}

static void
kept_remove(struct collective *c, size_t k)
{
    c->setup.wire->release(c->setup.wire_ctx, c->kept[k].frame.handle);
    c->kept[k] = c->kept[--c->kept_count];
}

void
collective_destroy(struct collective **c)
{
    if (!*c)
        return;
    while ((*c)->kept_count > 0)
        kept_remove(*c, (*c)->kept_count - 1);
    free((*c)->sets);
    free((*c)->layouts);
    free((*c)->ranges);
    free((*c)->lanes);
    free((*c)->chunks);
    free((*c)->kept);
    free(*c);
    *c = NULL;
}

/* --- Plans -------------------------------------------------------------------------------------- */

static void
lanes_plan(struct collective *c)
{
    for (size_t b = 0; b < c->setup.bucket_count; b++) {
        bool last = b + 1 == c->setup.bucket_count;
        c->lanes[b].holders = last ? c->all : &c->sets[core_segment_of(c->setup.stages, b)];
    }
}

/* The ranges of a bucket get their servers. */
static void
ranges_assign(struct collective *c, size_t b)
{
    const struct proto_plan *plan = &holders_of(c, b)->plan;
    const struct core_bucket *bucket = &c->setup.buckets[b];
    struct layout *layout = &c->layouts[b];
    struct servers_deal deal;
    layout->ranges = servers_divide(bucket, c->setup.chunk_elems, plan);
    assert(layout->ranges.count <= servers_ranges_max(bucket, c->setup.chunk_elems));
    servers_deal(&deal, plan, coding_raw(bucket->count), b, layout->ranges.count);
    for (size_t r = 0; r < layout->ranges.count; r++) {
        unsigned owner = servers_deal_next(&deal);
        uint64_t elems =
            servers_end(&layout->ranges, bucket, r) - servers_begin(&layout->ranges, bucket, r);
        c->ranges[layout->first + r].owner = (uint8_t)owner;
        c->serves += owner == holders_of(c, b)->rank ? coding_raw(elems) : 0;
        c->served += coding_raw(elems);
    }
}

/* Which buckets have servers under this plan? */
static void
layouts_plan(struct collective *c)
{
    c->serves = c->served = 0;
    for (size_t b = 0; b < c->setup.bucket_count; b++) {
        uint64_t bytes = coding_raw(c->setup.buckets[b].count);
        const struct holders *h = holders_of(c, b);
        c->layouts[b].served = h->here && h->n > 1 && servers_take(&h->plan, bytes);
        if (c->layouts[b].served)
            ranges_assign(c, b);
    }
}

void
collective_plan(struct collective *c, const struct proto_plan *plan, uint64_t hash, unsigned rank)
{
    assert(rank < plan->count);
    c->planned = true;
    c->running = false;
    c->broken = false;
    c->plan = hash;
    c->all = &c->sets[c->setup.stages->cut_count + 1];
    holders_plan(c->sets, plan, c->setup.stages, rank);
    lanes_plan(c);
    layouts_plan(c);
    for (size_t k = c->kept_count; k-- > 0;)
        if (c->kept[k].chunk.plan_hash != hash)
            kept_remove(c, k);
}

void
collective_stop(struct collective *c)
{
    for (size_t k = c->kept_count; k-- > 0;)
        if (c->planned && c->kept[k].chunk.plan_hash == c->plan)
            kept_remove(c, k);
    c->planned = false;
    c->running = false;
}

void
collective_tick(struct collective *c)
{
    for (size_t k = c->kept_count; k-- > 0;) {
        struct kept *kept = &c->kept[k];
        if (c->planned && kept->chunk.plan_hash == c->plan)
            continue;
        if (kept->old)
            kept_remove(c, k);
        else
            kept->old = true;
    }
}

/* --- Receiving -------------------------------------------------------------------------------- */

/* Is this the bucket of one of several segments? Then its chunks mix in the hash of that. */
static bool
of_part(const struct collective *c, size_t bucket)
{
    return c->setup.stages->cut_count > 0 && bucket + 1 < c->setup.bucket_count;
}

static enum verdict
fail_state(struct collective *c, unsigned from, const struct proto_chunk *chunk)
{
    c->diverged = true;
    c->other = (struct collective_other){from, of_part(c, chunk->bucket), chunk->state_hash};
    return collective_refuse(c, "another state", chunk);
}

/* Was it computed by this other member from another state than ours? Of a segment that is not here, nobody knows. */
static bool
chunk_differs(const struct collective *c, int from, const struct proto_chunk *chunk)
{
    if (from < 0 || from == (int)c->all->rank || mutant(MUTANT_ODD))
        return false;
    if (!of_part(c, chunk->bucket))
        return chunk->state_hash != c->state;
    const struct lane *lane = &c->lanes[chunk->bucket];
    return chunk->bucket >= c->first_bucket && lane->route && chunk->state_hash != lane->state;
}

/* A chunk of the present plan and round. */
static enum verdict
chunk_accept(struct collective *c, struct proto_node node, enum proto_type type,
             const struct proto_chunk *chunk, struct core_frame *frame)
{
    int from = holders_find(c->all, node);
    bool other = from >= 0 && from != (int)c->all->rank;
    if (chunk_differs(c, from, chunk))
        return fail_state(c, (unsigned)from, chunk);
    if (!other || chunk->bucket >= c->setup.bucket_count || chunk->bucket < c->first_bucket)
        return collective_refuse(c, "not of this plan", chunk);
    const struct lane *lane = &c->lanes[chunk->bucket];
    from = lane->route ? holders_find(lane->holders, node) : -1;
    if (from < 0)
        return collective_refuse(c, "of another stage", chunk);
    if (!coding_fits(chunk->coding, frame->data, frame->size, chunk->count))
        return collective_refuse(c, "wrong size", chunk);
    if (lane->left == 0)
        return VERDICT_DONE;
    const struct route *route = lane->route;
    if (type == PROTO_GATHER)
        return route->gather(c, chunk, (unsigned)from, frame);
    if (chunk->direct != route->direct)
        return collective_refuse(c, "wrong range", chunk);
    return route->reduce(c, chunk, (unsigned)from, frame);
}

static bool
chunk_foreign(const struct collective *c, const struct proto_chunk *chunk)
{
    if (!c->planned)
        return true;
    return chunk->plan_hash != c->plan && !mutant(MUTANT_FENCE);
}

/* Is its plan or its round not the present one? */
static bool
chunk_early(const struct collective *c, const struct proto_chunk *chunk)
{
    bool fence = chunk_foreign(c, chunk) && !mutant(MUTANT_DRAIN_FENCE);
    bool round = chunk->round != c->round && !mutant(MUTANT_DRAIN_ROUND);
    return fence || round;
}

/* What came early says which state its sender has, before this node has computed anything. */
static void
kept_compare(struct collective *c)
{
    for (size_t k = 0; k < c->kept_count && !c->broken; k++) {
        const struct kept *kept = &c->kept[k];
        int from = holders_find(c->all, kept->from);
        if (!chunk_early(c, &kept->chunk) && chunk_differs(c, from, &kept->chunk))
            fail_state(c, (unsigned)from, &kept->chunk);
    }
}

/* Everything kept that has become possible; taking one chunk may make another possible. */
static void
kept_accept(struct collective *c)
{
    bool again = c->running;
    while (again && !c->broken) {
        again = false;
        for (size_t k = c->kept_count; k-- > 0 && !c->broken;) {
            struct kept *kept = &c->kept[k];
            if (chunk_early(c, &kept->chunk))
                continue;
            if (chunk_accept(c, kept->from, kept->type, &kept->chunk, &kept->frame) ==
                VERDICT_LATER)
                continue;
            kept_remove(c, k);
            again = true;
        }
    }
}

static bool
kept_already(const struct collective *c, struct proto_node from, const struct proto_msg *msg)
{
    for (size_t k = 0; k < c->kept_count; k++) {
        const struct kept *kept = &c->kept[k];
        const struct proto_chunk *a = &kept->chunk, *b = &msg->chunk;
        if (kept->type == msg->type && kept->from.id == from.id && a->plan_hash == b->plan_hash &&
            a->round == b->round && a->bucket == b->bucket && a->first == b->first)
            return true;
    }
    return false;
}

static void
kept_add(struct collective *c, struct proto_node from, const struct proto_msg *msg,
         struct core_frame *frame)
{
    if (msg->chunk.bucket >= c->setup.bucket_count)
        return;
    /* How many members a plan not yet known has, and so what goes direct in it, is not known either. */
    uint64_t most = c->setup.buckets[msg->chunk.bucket].count;
    if (!msg->chunk.direct && most > c->setup.chunk_elems)
        most = c->setup.chunk_elems;
    if (frame->size > coding_most(most) || c->kept_count == c->kept_max ||
        kept_already(c, from, msg))
        return;
    c->setup.wire->keep(c->setup.wire_ctx, frame);
    c->kept[c->kept_count++] =
        (struct kept){.type = msg->type, .from = from, .chunk = msg->chunk, .frame = *frame};
}

void
collective_chunk(struct collective *c, struct proto_node from, const struct proto_msg *msg,
                 struct core_frame *frame, uint64_t round)
{
    const struct proto_chunk *chunk = &msg->chunk;
    if (c->broken && c->planned && chunk->plan_hash == c->plan)
        return;
    if (!chunk_foreign(c, chunk) && c->running && chunk->round == c->round) {
        if (chunk_accept(c, from, msg->type, chunk, frame) == VERDICT_LATER) {
            kept_add(c, from, msg, frame);
            return;
        }
        kept_accept(c);
        return;
    }
    if (chunk->round == round || chunk->round == round + 1)
        kept_add(c, from, msg, frame);
}

/* --- Rounds ----------------------------------------------------------------------------------- */

static const struct route *
route_of(const struct collective *c, size_t bucket)
{
    uint64_t bytes = coding_raw(c->setup.buckets[bucket].count);
    if (!holders_of(c, bucket)->here)
        return NULL;
    if (c->layouts[bucket].served)
        return &route_star;
    return servers_direct(holders_of(c, bucket)->n, c->setup.direct_bytes, bytes) ? &route_direct
                                                                                  : &route_ring;
}

/* Returns how many chunks the lane has. */
static size_t
lane_begin(struct collective *c, size_t bucket, size_t chunk)
{
    struct lane *lane = &c->lanes[bucket];
    *lane = (struct lane){.route = route_of(c, bucket), .holders = lane->holders, .chunk = chunk};
    if (!lane->route || c->setup.buckets[bucket].count == 0)
        return 0;
    return lane->route->begin(c, bucket);
}

/* What its chunks say of the state that they are computed from. */
static void
lane_state(struct collective *c, size_t bucket, uint64_t state, const uint64_t *parts)
{
    struct lane *lane = &c->lanes[bucket];
    lane->state = state;
    if (of_part(c, bucket) && lane->route)
        lane->state = mix64_pair(state, parts[core_segment_of(c->setup.stages, bucket)]);
}

void
collective_round(struct collective *c, uint64_t round, size_t first_bucket, uint64_t state,
                 const uint64_t *parts)
{
    assert(c->planned);
    c->running = true;
    c->open = false;
    c->broken = false;
    c->diverged = false;
    c->round = round;
    c->state = state;
    c->first_bucket = first_bucket;
    c->ready = 0;
    c->left = 0;
    size_t chunk = 0;
    for (size_t b = first_bucket; b < c->setup.bucket_count; b++) {
        chunk += lane_begin(c, b, chunk);
        lane_state(c, b, state, parts);
        c->left += c->lanes[b].left > 0;
    }
    memset(c->chunks, CHUNK_WAITING, chunk);
    for (size_t k = c->kept_count; k-- > 0;)
        if (c->kept[k].chunk.plan_hash == c->plan && c->kept[k].chunk.round < round)
            kept_remove(c, k);
    kept_compare(c);
}

static void
lane_send(struct collective *c, size_t bucket)
{
    struct lane *lane = &c->lanes[bucket];
    if (!lane->sent && lane->left > 0 && lane->holders->n > 1)
        lane->route->send(c, bucket);
    lane->sent = true;
    if (lane->left > 0 && lane->route->open)
        lane->route->open(c, bucket);
}

static void
lanes_send(struct collective *c)
{
    for (size_t b = c->first_bucket; b < c->ready; b++)
        lane_send(c, b);
    kept_accept(c);
}

void
collective_packs(struct collective *c, unsigned quarters, bool quick)
{
    c->quarters = quarters;
    c->quick = quick;
}

void
collective_open(struct collective *c)
{
    if (!c->running || c->broken || c->open)
        return;
    c->open = true;
    if (c->served > 0)
        kept_accept(c);
}

void
collective_ready(struct collective *c, size_t end)
{
    assert(end <= c->setup.bucket_count);
    if (!c->running || c->broken || end <= c->ready)
        return;
    c->open = true;
    c->ready = end;
    lanes_send(c);
}

/* --- Lending ---------------------------------------------------------------------------------- */

static bool
lane_lend(struct collective *c, size_t bucket)
{
    struct lane *lane = &c->lanes[bucket];
    bool can = lane->route && lane->left == 0 && !lane->lent;
    lane->lent = lane->lent || can;
    return can;
}

bool
collective_final(struct collective *c, size_t *bucket)
{
    size_t last = c->setup.bucket_count - 1;
    if (collective_status(c) != COLLECTIVE_RUNNING || c->ready <= last || c->lanes[last].left > 0)
        return false;
    if (lane_lend(c, last)) {
        *bucket = last;
        return true;
    }
    for (size_t b = c->first_bucket; b < last; b++)
        if (lane_lend(c, b)) {
            *bucket = b;
            return true;
        }
    return false;
}

/* --- Looking ---------------------------------------------------------------------------------- */

enum collective_status
collective_status(const struct collective *c)
{
    if (!c->planned || !c->running)
        return COLLECTIVE_OFF;
    if (c->broken)
        return COLLECTIVE_BROKEN;
    return c->left == 0 && c->ready == c->setup.bucket_count ? COLLECTIVE_FINAL
                                                             : COLLECTIVE_RUNNING;
}

bool
collective_complete(const struct collective *c, size_t bucket)
{
    return c->planned && c->running && !c->broken && bucket < c->ready && c->lanes[bucket].route &&
           c->lanes[bucket].left == 0;
}

bool
collective_done(const struct collective *c, size_t bucket)
{
    return !c->lanes[bucket].route || collective_complete(c, bucket);
}

uint64_t
collective_served(const struct collective *c)
{
    return c->planned ? c->serves : 0;
}

const char *
collective_why(const struct collective *c)
{
    return c->why;
}

bool
collective_diverged(const struct collective *c, struct collective_other *other)
{
    *other = c->other;
    return c->broken && c->diverged;
}

uint64_t
collective_progress(const struct collective *c)
{
    return c->progress;
}

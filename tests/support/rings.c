/* rings.c - see rings.h. */
#include "tests/support/rings.h"

#include <stdlib.h>
#include <string.h>

#include "mesh/core/group/servers.h"

static void *
get(size_t size)
{
    void *memory = calloc(1, size + 1);
    if (!memory)
        abort();
    return memory;
}

static void
message_drop(struct rings_message *message)
{
    if (--message->uses > 0)
        return;
    free(message->body);
    free(message);
}

static void
on_send(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body, size_t size)
{
    struct rings_node *node = ctx;
    struct rings *rings = node->all;
    struct rings_message *message = get(sizeof *message);
    message->from = node->index;
    message->to = rings->member[rank];
    message->msg = *msg;
    message->size = size;
    message->uses = 1;
    message->body = get(size + 1);
    memcpy(message->body + 1, body, size);
    node->bytes += msg->chunk.count * sizeof(int32_t);
    if (rings->waiting == rings->room) {
        rings->room = rings->room * 2 + 64;
        rings->queue = realloc(rings->queue, rings->room * sizeof(void *));
        if (!rings->queue)
            abort();
    }
    rings->queue[rings->waiting++] = message;
}

/* Nobody may look at what was passed on. */
static void
on_pass_on(void *ctx, uint64_t ranks, const struct proto_msg *msg, struct core_frame *frame)
{
    for (; ranks; ranks &= ranks - 1)
        on_send(ctx, (unsigned)__builtin_ctzll(ranks), msg, frame->data, frame->size);
    memset(frame->data, 0x5a, frame->size);
}

static bool
on_make(void *ctx, size_t most, bool must, struct core_frame *frame)
{
    struct rings_node *node = ctx;
    if (!must && node->full)
        return false;
    struct rings_message *message = get(sizeof *message);
    message->uses = 1;
    message->body = get(most + 1);
    node->kept++;
    *frame = (struct core_frame){message->body + 1, 0, message};
    return true;
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    struct rings_node *node = ctx;
    struct rings_message *message = frame->handle;
    message->uses++;
    node->kept++;
}

static void
on_release(void *ctx, void *handle)
{
    struct rings_node *node = ctx;
    node->kept--;
    message_drop(handle);
}

static const struct collective_ops ring_ops = {on_send, on_pass_on};
static const struct core_wire ring_wire = {.make = on_make, .keep = on_keep, .release = on_release};

static void
shards_fill(struct rings *rings, struct rand *rand)
{
    rings->want = get(rings->vector * sizeof(int32_t));
    for (unsigned s = 0; s < RINGS_SHARDS; s++) {
        rings->shard[s] = get(rings->vector * sizeof(int32_t));
        for (size_t e = 0; e < rings->vector; e++) {
            rings->shard[s][e] = (int32_t)(rand_u64(rand) >> 36) - (1 << 27);
            rings->want[e] += rings->shard[s][e];
        }
    }
}

struct rings *
rings_new(unsigned n, const struct core_bucket *buckets, size_t bucket_count, uint32_t chunk_elems,
          uint64_t direct_bytes, struct rand *rand)
{
    struct rings *rings = get(sizeof *rings);
    rings->n = n;
    rings->buckets = buckets;
    rings->bucket_count = bucket_count;
    rings->chunk_elems = chunk_elems;
    for (size_t b = 0; b < bucket_count; b++)
        rings->vector += buckets[b].count;
    shards_fill(rings, rand);
    for (unsigned i = 0; i < n; i++) {
        struct rings_node *node = &rings->nodes[i];
        *node = (struct rings_node){.all = rings, .index = i, .full = rand_below(rand, 4) == 0};
        rings->holds[i] = rings->computes[i] = 1;
        node->own = get(rings->vector * sizeof(int32_t));
        node->sum = get(rings->vector * sizeof(int32_t));
        struct collective_setup setup = {.bucket_count = bucket_count,
                                         .buckets = buckets,
                                         .stages = &rings->model,
                                         .own = node->own,
                                         .sum = node->sum,
                                         .chunk_elems = chunk_elems,
                                         .pack_all = rand_bool(rand),
                                         .direct_bytes = direct_bytes,
                                         .wire = &ring_wire,
                                         .wire_ctx = node};
        if (collective_new(&node->ring, &setup, &ring_ops, node) != 0)
            abort();
    }
    return rings;
}

void
rings_destroy(struct rings **rings)
{
    struct rings *r = *rings;
    while (r->waiting > 0)
        message_drop(r->queue[--r->waiting]);
    for (unsigned i = 0; i < r->n; i++) {
        collective_destroy(&r->nodes[i].ring);
        if (r->nodes[i].kept != 0)
            abort(); /* a frame was never released */
        free(r->nodes[i].own);
        free(r->nodes[i].sum);
    }
    for (unsigned s = 0; s < RINGS_SHARDS; s++)
        free(r->shard[s]);
    free(r->want);
    free(r->queue);
    free(r);
    *rings = NULL;
}

static bool
is_last_bucket(const struct rings *rings, size_t b)
{
    return b + 1 == rings->bucket_count;
}

/* Is the bucket's stage, of the last bucket the last stage, one of these? */
static bool
holds(const struct rings *rings, const struct proto_plan *plan, uint64_t stages, size_t b)
{
    size_t stage = plan->cut_count;
    for (size_t k = 0; k < plan->cut_count && !is_last_bucket(rings, b); k++)
        stage -= plan->cuts[k].bucket <= b;
    return stages >> stage & 1;
}

static void
contribute(struct rings *rings, struct rings_node *node, const struct proto_member *member)
{
    memset(node->own, 0x33, rings->vector * sizeof(int32_t));
    memset(node->sum, 0x77, rings->vector * sizeof(int32_t));
    for (size_t b = 0; b < rings->bucket_count; b++) {
        bool mine = holds(rings, &rings->now, member->computes, b);
        bool sums = is_last_bucket(rings, b) || holds(rings, &rings->now, member->holds, b);
        uint64_t first = rings->buckets[b].first, end = first + rings->buckets[b].count;
        for (uint64_t e = first; e < end && sums; e++)
            node->own[e] = mine || !is_last_bucket(rings, b) ? 0 : (int32_t)node->index + 1;
        for (unsigned s = 0; s < RINGS_SHARDS && mine; s++)
            for (uint64_t e = first; (member->shards >> s & 1) && e < end; e++)
                node->own[e] += rings->shard[s][e];
    }
}

/* Each shard once through each stage. */
static void
shards_divide(struct proto_plan *plan, struct rand *rand)
{
    for (size_t stage = 0; stage <= plan->cut_count; stage++)
        for (unsigned s = 0; s < RINGS_SHARDS; s++) {
            uint64_t taken = 0;
            size_t k = rand_below(rand, plan->count);
            for (size_t m = 0; m < plan->count; m++)
                taken |= proto_plan_computes(plan, m, stage);
            while (!(plan->members[k].computes >> stage & 1))
                k = (k + 1) % plan->count;
            if (!(taken >> s & 1))
                plan->members[k].shards |= 1ull << s;
        }
}

void
rings_plan(struct rings *rings, unsigned nodes, uint64_t hash, struct rand *rand)
{
    static const uint64_t parts[PROTO_STAGES_MAX];
    struct proto_plan plan = {
        .counter = hash, .leader = {1, 1}, .complete = (1u << RINGS_SHARDS) - 1};
    rings->members = 0;
    rings->plan = hash;
    for (unsigned i = 0; i < rings->n; i++)
        if (nodes >> i & 1)
            rings->member[rings->members++] = i;
    plan.count = rings->members;
    plan.cut_count = rings->cut_count;
    memcpy(plan.cuts, rings->cuts, sizeof rings->cuts);
    for (unsigned r = 0; r < rings->members; r++)
        plan.members[r] = (struct proto_member){.node = {rings->member[r] + 1, 1},
                                                .holds = rings->holds[rings->member[r]],
                                                .computes = rings->computes[rings->member[r]],
                                                .duties = rings->duties[rings->member[r]]};
    shards_divide(&plan, rand);
    rings->now = plan;
    rings->model = (struct core_stages){.cuts = rings->legal, .cut_count = plan.cut_count};
    for (size_t k = 0; k < plan.cut_count; k++)
        rings->legal[k].bucket = plan.cuts[k].bucket;
    for (unsigned r = 0; r < rings->members; r++) {
        struct rings_node *node = &rings->nodes[rings->member[r]];
        contribute(rings, node, &plan.members[r]);
        collective_stop(node->ring);
        collective_plan(node->ring, &plan, hash, r);
        collective_round(node->ring, 0, 0, 0, parts);
    }
}

void
rings_ready(struct rings *rings, unsigned node, size_t end)
{
    collective_ready(rings->nodes[node].ring, end);
}

size_t
rings_waiting(const struct rings *rings)
{
    return rings->waiting;
}

void
rings_deliver(struct rings *rings, size_t k)
{
    size_t first = 0;
    while (rings->queue[first]->from != rings->queue[k]->from ||
           rings->queue[first]->to != rings->queue[k]->to)
        first++;
    struct rings_message *message = rings->queue[first];
    rings->waiting--;
    memmove(rings->queue + first, rings->queue + first + 1,
            (rings->waiting - first) * sizeof(void *));
    struct core_frame frame = {message->body + 1, message->size, message};
    collective_chunk(rings->nodes[message->to].ring, (struct proto_node){message->from + 1, 1},
                     &message->msg, &frame, 0);
    message_drop(message);
}

/* Has the member the plain sum of the bucket, if it holds it? */
static bool
bucket_right(const struct rings *rings, unsigned rank, size_t b)
{
    const struct proto_plan *plan = &rings->now;
    int32_t others = 0;
    for (unsigned r = 0; r < rings->members && is_last_bucket(rings, b); r++)
        if (!holds(rings, plan, plan->members[r].computes, b))
            others += (int32_t)rings->member[r] + 1;
    if (!is_last_bucket(rings, b) && !holds(rings, plan, plan->members[rank].holds, b))
        return true;
    uint64_t first = rings->buckets[b].first, end = first + rings->buckets[b].count;
    for (uint64_t e = first; e < end; e++)
        if (rings->nodes[rings->member[rank]].sum[e] != rings->want[e] + others)
            return false;
    return true;
}

bool
rings_right(const struct rings *rings, size_t first_bucket)
{
    for (unsigned r = 0; r < rings->members; r++) {
        const struct rings_node *node = &rings->nodes[rings->member[r]];
        if (collective_status(node->ring) != COLLECTIVE_FINAL)
            return false;
        for (size_t b = first_bucket; b < rings->bucket_count; b++)
            if (!bucket_right(rings, r, b))
                return false;
    }
    return true;
}

/* Elements that `rank` sends of a bucket with servers: of the ranges of others once, of its own to each other one. */
static uint64_t
star_cost(const struct rings *rings, unsigned rank, size_t b)
{
    const struct core_bucket *bucket = &rings->buckets[b];
    struct servers_ranges cut = servers_divide(bucket, rings->chunk_elems, &rings->now);
    struct servers_deal deal;
    uint64_t elements = 0;
    servers_deal(&deal, &rings->now, bucket->count * sizeof(int32_t), b, cut.count);
    for (size_t r = 0; r < cut.count; r++) {
        uint64_t count = servers_end(&cut, bucket, r) - servers_begin(&cut, bucket, r);
        unsigned owner = servers_deal_next(&deal);
        elements += owner == rank ? (rings->members - 1) * count : count;
    }
    return elements;
}

uint64_t
rings_cost(const struct rings *rings, unsigned rank, uint64_t direct_bytes, size_t first_bucket)
{
    uint64_t n = rings->members, elements = 0;
    for (size_t b = first_bucket; b < rings->bucket_count && n > 1; b++) {
        uint64_t c = rings->buckets[b].count;
        uint64_t s = (rank + 1) % n, t = (rank + 2) % n;
        if (c > 0 && servers_take(&rings->now, c * sizeof(int32_t)))
            elements += star_cost(rings, rank, b);
        else if (c * sizeof(int32_t) <= direct_bytes)
            elements += (n - 1) * c;
        else /* all segments twice, but those that end their trips here */
            elements += 2 * c - (c * (s + 1) / n - c * s / n) - (c * (t + 1) / n - c * t / n);
    }
    return elements * sizeof(int32_t);
}

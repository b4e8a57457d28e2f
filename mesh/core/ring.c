/* ring.c - see ring.h for the algorithm, the geometry and the nets. */
#include "mesh/core/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/check.h"
#include "mesh/core/mutant.h"

enum stage { STAGE_WAITING, STAGE_PASSED, STAGE_FINAL };
enum verdict { VERDICT_DONE, VERDICT_LATER, VERDICT_BAD };

/* One bucket in the present round. */
struct lane {
    bool direct;
    bool sent;        /* my contribution is on its way */
    bool lent;        /* ring_final has named it */
    bool begun;       /* sum may be written: direct and single lanes only */
    size_t stage;     /* index of its first chunk in ring->stages */
    size_t stride;    /* chunks of the longest segment */
    uint64_t covered; /* direct: shards in sum */
    size_t left;      /* chunks or contributions that are not final */
};

struct kept {
    enum proto_type type;
    bool old; /* survived a tick while no plan wanted it */
    struct proto_node from;
    struct proto_chunk chunk;
    struct core_frame frame;
};

struct ring {
    struct ring_setup setup;
    struct ring_ops ops;
    void *ctx;
    struct lane *lanes;
    uint8_t *stages;
    struct kept *kept;
    size_t kept_count, kept_max;

    bool planned;
    uint64_t plan;
    unsigned n, rank;
    uint64_t mine;
    struct proto_node members[PROTO_PEERS_MAX];

    bool running; /* a round was begun */
    bool broken;
    bool diverged; /* as a member computes from another state: */
    unsigned diverged_rank;
    uint64_t diverged_state;
    uint64_t round;
    uint64_t state; /* hash of what is computed from */
    size_t first_bucket;
    size_t ready;
    size_t left; /* lanes that are not final */
    uint64_t progress;
    char why[128];
};

/* --- Geometry ---------------------------------------------------------------------------------- */

/* Long segments begin where copies may bypass the caches. */
static uint64_t
segment_first(const struct ring *ring, size_t bucket, unsigned s)
{
    const struct core_bucket *b = &ring->setup.buckets[bucket];
    uint64_t first = b->first + b->count * s / ring->n;
    bool inside = s > 0 && s < ring->n && b->count / ring->n >= CHECK_STREAM;
    return inside ? first / CHECK_LANES * CHECK_LANES : first;
}

static size_t
chunks_of(const struct ring *ring, uint64_t count)
{
    return (size_t)((count + ring->setup.chunk_elems - 1) / ring->setup.chunk_elems);
}

/* Chunks of the longest segment of any bucket cut among n members. */
static size_t
stride_of(const struct ring *ring, size_t bucket, unsigned n)
{
    return chunks_of(ring, (ring->setup.buckets[bucket].count + n - 1) / n);
}

/* Between two, a direct exchange sends the bytes of a ring in half the hops: one message each suffices. */
static uint64_t
direct_bytes(const struct ring *ring)
{
    bool pair = ring->n == 2 && ring->setup.direct_bytes > 0;
    return pair ? PROTO_CHUNK_MAX * sizeof(int32_t) : ring->setup.direct_bytes;
}

static bool
direct_of(const struct ring *ring, size_t bucket)
{
    return ring->setup.buckets[bucket].count * sizeof(int32_t) <= direct_bytes(ring);
}

static unsigned
right_of(const struct ring *ring)
{
    return (ring->rank + 1) % ring->n;
}

/* Steps from rank a to rank b along the ring. */
static unsigned
steps(const struct ring *ring, unsigned a, unsigned b)
{
    return (b + ring->n - a) % ring->n;
}

/* --- Life -------------------------------------------------------------------------------------- */

/* stride * n <= chunks of the bucket + 2n for every n up to PROTO_PEERS_MAX. */
static size_t
stages_max(const struct ring *ring)
{
    size_t total = 0;
    for (size_t b = 0; b < ring->setup.bucket_count; b++)
        total += chunks_of(ring, ring->setup.buckets[b].count) + (size_t)2 * PROTO_PEERS_MAX;
    return total;
}

int
ring_new(struct ring **out, const struct ring_setup *setup, const struct ring_ops *ops, void *ctx)
{
    assert(setup->chunk_elems > 0 && setup->chunk_elems <= PROTO_CHUNK_MAX);
    struct ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return -ENOMEM;
    ring->setup = *setup;
    if (ring->setup.direct_bytes > PROTO_CHUNK_MAX * sizeof(int32_t))
        ring->setup.direct_bytes = PROTO_CHUNK_MAX * sizeof(int32_t);
    ring->ops = *ops;
    ring->ctx = ctx;
    size_t stages = stages_max(ring);
    ring->kept_max = 2 * stages;
    ring->lanes = calloc(setup->bucket_count + 1, sizeof *ring->lanes);
    ring->stages = calloc(stages + 1, 1);
    ring->kept = calloc(ring->kept_max + 1, sizeof *ring->kept);
    if (!ring->lanes || !ring->stages || !ring->kept) {
        ring_destroy(&ring);
        return -ENOMEM;
    }
    *out = ring;
    return 0;
}

static void
kept_remove(struct ring *ring, size_t k)
{
    ring->ops.release(ring->ctx, ring->kept[k].frame.handle);
    ring->kept[k] = ring->kept[--ring->kept_count];
}

void
ring_destroy(struct ring **ring)
{
    if (!*ring)
        return;
    while ((*ring)->kept_count > 0)
        kept_remove(*ring, (*ring)->kept_count - 1);
    free((*ring)->lanes);
    free((*ring)->stages);
    free((*ring)->kept);
    free(*ring);
    *ring = NULL;
}

void
ring_plan(struct ring *ring, const struct proto_plan *plan, uint64_t hash, unsigned rank)
{
    assert(rank < plan->count);
    ring->planned = true;
    ring->running = false;
    ring->broken = false;
    ring->plan = hash;
    ring->n = (unsigned)plan->count;
    ring->rank = rank;
    ring->mine = plan->members[rank].shards;
    for (size_t m = 0; m < plan->count; m++)
        ring->members[m] = plan->members[m].node;
    for (size_t k = ring->kept_count; k-- > 0;)
        if (ring->kept[k].chunk.plan_hash != hash)
            kept_remove(ring, k);
}

void
ring_stop(struct ring *ring)
{
    for (size_t k = ring->kept_count; k-- > 0;)
        if (ring->planned && ring->kept[k].chunk.plan_hash == ring->plan)
            kept_remove(ring, k);
    ring->planned = false;
    ring->running = false;
}

void
ring_tick(struct ring *ring)
{
    for (size_t k = ring->kept_count; k-- > 0;) {
        struct kept *kept = &ring->kept[k];
        if (ring->planned && kept->chunk.plan_hash == ring->plan)
            continue;
        if (kept->old)
            kept_remove(ring, k);
        else
            kept->old = true;
    }
}

static void
fail(struct ring *ring, const char *what, const struct proto_chunk *chunk)
{
    ring->broken = true;
    snprintf(ring->why, sizeof ring->why, "%s in bucket %u, elements %llu+%u, hop %u", what,
             (unsigned)chunk->bucket, (unsigned long long)chunk->first, (unsigned)chunk->count,
             (unsigned)chunk->hop);
}

/* --- Sending ----------------------------------------------------------------------------------- */

static void
send_own(struct ring *ring, unsigned rank, const struct proto_chunk *chunk)
{
    struct proto_msg msg = {.type = PROTO_REDUCE, .chunk = *chunk};
    ring->ops.send(ring->ctx, rank, &msg, ring->setup.own + chunk->first,
                   chunk->count * sizeof(int32_t));
}

static struct proto_chunk
own_chunk(const struct ring *ring, size_t bucket, uint64_t first, uint64_t count)
{
    return (struct proto_chunk){
        .plan_hash = ring->plan,
        .round = ring->round,
        .bucket = (uint16_t)bucket,
        .direct = ring->lanes[bucket].direct,
        .first = first,
        .count = (uint32_t)count,
        .coverage = ring->mine,
        .check = check_of(ring->setup.own + first, count),
        .state_hash = ring->state,
    };
}

static void
send_segment(struct ring *ring, size_t bucket)
{
    struct lane *lane = &ring->lanes[bucket];
    uint64_t first = segment_first(ring, bucket, ring->rank);
    uint64_t end = segment_first(ring, bucket, ring->rank + 1);
    for (size_t c = 0; first < end; c++, first += ring->setup.chunk_elems) {
        uint64_t count = end - first;
        if (count > ring->setup.chunk_elems)
            count = ring->setup.chunk_elems;
        struct proto_chunk chunk = own_chunk(ring, bucket, first, count);
        ring->stages[lane->stage + ring->rank * lane->stride + c] = STAGE_PASSED;
        send_own(ring, right_of(ring), &chunk);
    }
}

static void
send_direct(struct ring *ring, size_t bucket)
{
    const struct core_bucket *b = &ring->setup.buckets[bucket];
    struct proto_chunk chunk = own_chunk(ring, bucket, b->first, b->count);
    for (unsigned d = 1; d < ring->n; d++)
        send_own(ring, (ring->rank + d) % ring->n, &chunk);
}

static void
lane_send(struct ring *ring, size_t bucket)
{
    struct lane *lane = &ring->lanes[bucket];
    if (lane->sent)
        return;
    lane->sent = true;
    if (lane->left == 0 || ring->n == 1)
        return;
    if (lane->direct)
        send_direct(ring, bucket);
    else
        send_segment(ring, bucket);
}

/* Send a received chunk on to the right neighbour, with what we made of its body. */
static void
pass_on(struct ring *ring, enum proto_type type, const struct proto_chunk *chunk,
        struct core_frame *frame)
{
    struct proto_msg msg = {.type = type, .chunk = *chunk};
    ring->ops.pass_on(ring->ctx, right_of(ring), &msg, frame);
}

/* --- Receiving --------------------------------------------------------------------------------- */

static bool
check_differs(uint64_t a, uint64_t b)
{
    return a != b && !core_mutant(MUTANT_CHECK);
}

/* Shards that coverage is about: all. */
static uint64_t
counted(void)
{
    return core_mutant(MUTANT_ZERO) ? ~UINT64_C(1) : ~UINT64_C(0);
}

static bool
overlaps(uint64_t a, uint64_t b)
{
    return (a & b & counted()) != 0 && !core_mutant(MUTANT_COVERAGE);
}

static bool
complete(const struct ring *ring, uint64_t coverage)
{
    return (coverage & counted()) == (ring->setup.all & counted()) || core_mutant(MUTANT_COVERAGE);
}

static void
lane_count(struct ring *ring, struct lane *lane)
{
    assert(lane->left > 0);
    ring->progress++;
    if (--lane->left == 0)
        ring->left--;
}

/* Direct and single lanes: sum starts as my contribution, with others it is written when the first comes. */
static void
lane_begin(struct ring *ring, size_t bucket)
{
    struct lane *lane = &ring->lanes[bucket];
    const struct core_bucket *b = &ring->setup.buckets[bucket];
    if (lane->begun || lane->left == 0 || !(lane->direct || ring->n == 1))
        return;
    if (lane->left == 1 && !complete(ring, ring->mine)) {
        struct proto_chunk chunk = own_chunk(ring, bucket, b->first, 0);
        fail(ring, "a shard is missing", &chunk);
        return;
    }
    lane->begun = true;
    if (ring->n == 1)
        check_copy(ring->setup.sum + b->first, ring->setup.own + b->first, b->count);
    lane->covered = ring->mine;
    lane_count(ring, lane);
}

/* The net of ranges: which chunk of which segment is this? False if it is none. */
static bool
chunk_place(const struct ring *ring, const struct proto_chunk *chunk, unsigned *segment,
            size_t *stage)
{
    const struct lane *lane = &ring->lanes[chunk->bucket];
    const struct core_bucket *b = &ring->setup.buckets[chunk->bucket];
    if (chunk->first < b->first || chunk->count == 0 || chunk->first - b->first >= b->count ||
        chunk->count > b->count - (chunk->first - b->first))
        return false;
    unsigned s = 0;
    while (segment_first(ring, chunk->bucket, s + 1) <= chunk->first)
        s++;
    uint64_t offset = chunk->first - segment_first(ring, chunk->bucket, s);
    uint64_t rest = segment_first(ring, chunk->bucket, s + 1) - chunk->first;
    uint64_t count = rest < ring->setup.chunk_elems ? rest : ring->setup.chunk_elems;
    bool exact = offset % ring->setup.chunk_elems == 0 && chunk->count == count;
    if (!exact && !core_mutant(MUTANT_RANGE))
        return false;
    *segment = s;
    *stage = lane->stage + s * lane->stride + (size_t)(offset / ring->setup.chunk_elems);
    return true;
}

static enum verdict
bad(struct ring *ring, const char *what, const struct proto_chunk *chunk)
{
    fail(ring, what, chunk);
    return VERDICT_BAD;
}

static enum verdict
take_direct(struct ring *ring, const struct proto_chunk *chunk, unsigned from,
            const struct core_frame *frame)
{
    struct lane *lane = &ring->lanes[chunk->bucket];
    const struct core_bucket *b = &ring->setup.buckets[chunk->bucket];
    if (!lane->direct || chunk->first != b->first || chunk->count != b->count)
        return bad(ring, "wrong range", chunk);
    if (!lane->begun)
        return VERDICT_LATER;
    uint8_t *taken = &ring->stages[lane->stage + from];
    if (*taken)
        return VERDICT_DONE;
    if (overlaps(chunk->coverage, lane->covered) && !core_mutant(MUTANT_DIRECT))
        return bad(ring, "a shard counted twice", chunk);
    int32_t *sum = ring->setup.sum + b->first;
    bool first = lane->left == ring->n - 1;
    uint64_t before, after;
    check_sum(sum, first ? ring->setup.own + b->first : sum, frame->data, b->count, &before,
              &after);
    if (check_differs(check_add(before, chunk->check), after))
        return bad(ring, "wrong checksum", chunk);
    *taken = STAGE_FINAL;
    lane->covered |= chunk->coverage;
    if (lane->left == 1 && !complete(ring, lane->covered))
        return bad(ring, "a shard is missing", chunk);
    lane_count(ring, lane);
    return VERDICT_DONE;
}

/* The sum becomes final here and starts its second trip. */
static enum verdict
reduce_last(struct ring *ring, struct proto_chunk *chunk, uint8_t *stage, struct core_frame *frame)
{
    if (!complete(ring, chunk->coverage))
        return bad(ring, "a shard is missing", chunk);
    *stage = STAGE_FINAL;
    lane_count(ring, &ring->lanes[chunk->bucket]);
    chunk->hop = 0;
    pass_on(ring, PROTO_GATHER, chunk, frame);
    return VERDICT_DONE;
}

static enum verdict
take_reduce(struct ring *ring, const struct proto_chunk *chunk, unsigned from,
            struct core_frame *frame)
{
    struct lane *lane = &ring->lanes[chunk->bucket];
    unsigned s = 0;
    size_t at = 0;
    if (lane->direct || !chunk_place(ring, chunk, &s, &at))
        return bad(ring, "wrong range", chunk);
    if (from != (ring->rank + ring->n - 1) % ring->n || s == ring->rank ||
        chunk->hop + 1u != steps(ring, s, ring->rank))
        return bad(ring, "wrong hop", chunk);
    uint8_t *stage = &ring->stages[at];
    if (*stage != STAGE_WAITING)
        return VERDICT_DONE;
    bool last = right_of(ring) == s; /* nothing more to add */
    if (ring->ready <= chunk->bucket)
        return VERDICT_LATER;
    if (overlaps(chunk->coverage, ring->mine))
        return bad(ring, "a shard counted twice", chunk);
    const int32_t *own = ring->setup.own + chunk->first;
    uint64_t mine, sum;
    if (last)
        check_sum_copy(ring->setup.sum + chunk->first, own, frame->data, chunk->count, &mine, &sum);
    else
        check_sum(frame->data, own, frame->data, chunk->count, &mine, &sum);
    if (check_differs(check_add(chunk->check, mine), sum))
        return bad(ring, "wrong checksum", chunk);
    struct proto_chunk next = *chunk;
    next.check = sum;
    next.coverage |= ring->mine;
    next.hop++;
    if (last)
        return reduce_last(ring, &next, stage, frame);
    *stage = STAGE_PASSED;
    ring->progress++;
    pass_on(ring, PROTO_REDUCE, &next, frame);
    return VERDICT_DONE;
}

static enum verdict
take_gather(struct ring *ring, const struct proto_chunk *chunk, unsigned from,
            struct core_frame *frame)
{
    struct lane *lane = &ring->lanes[chunk->bucket];
    unsigned s = 0;
    size_t at = 0;
    if (lane->direct || !chunk_place(ring, chunk, &s, &at))
        return bad(ring, "wrong range", chunk);
    if (from != (ring->rank + ring->n - 1) % ring->n || right_of(ring) == s ||
        chunk->hop != steps(ring, s, ring->rank))
        return bad(ring, "wrong hop", chunk);
    uint8_t *stage = &ring->stages[at];
    if (*stage == STAGE_FINAL)
        return VERDICT_DONE;
    if (*stage == STAGE_WAITING) /* overtook the sum it was made of */
        return VERDICT_LATER;
    if (!complete(ring, chunk->coverage))
        return bad(ring, "a shard is missing", chunk);
    uint64_t check = check_copy(ring->setup.sum + chunk->first, frame->data, chunk->count);
    if (check_differs(check, chunk->check))
        return bad(ring, "wrong checksum", chunk);
    *stage = STAGE_FINAL;
    lane_count(ring, lane);
    if (chunk->hop + 2u < ring->n) {
        struct proto_chunk next = *chunk;
        next.hop++;
        pass_on(ring, PROTO_GATHER, &next, frame);
    }
    return VERDICT_DONE;
}

static enum verdict
odd(struct ring *ring, unsigned from, const struct proto_chunk *chunk)
{
    ring->diverged = true;
    ring->diverged_rank = from;
    ring->diverged_state = chunk->state_hash;
    return bad(ring, "another state", chunk);
}

static int
member_of(const struct ring *ring, struct proto_node node)
{
    for (unsigned r = 0; r < ring->n; r++)
        if (ring->members[r].id == node.id && ring->members[r].incarnation == node.incarnation)
            return (int)r;
    return -1;
}

/* A chunk of the present plan and round. */
static enum verdict
take(struct ring *ring, struct proto_node node, enum proto_type type,
     const struct proto_chunk *chunk, struct core_frame *frame)
{
    int from = member_of(ring, node);
    if (from >= 0 && from != (int)ring->rank && chunk->state_hash != ring->state &&
        !core_mutant(MUTANT_ODD))
        return odd(ring, (unsigned)from, chunk);
    if (from < 0 || from == (int)ring->rank || chunk->bucket >= ring->setup.bucket_count ||
        chunk->bucket < ring->first_bucket)
        return bad(ring, "not for this ring", chunk);
    if (frame->size != chunk->count * sizeof(int32_t))
        return bad(ring, "wrong size", chunk);
    if (ring->lanes[chunk->bucket].left == 0)
        return VERDICT_DONE;
    if (type == PROTO_GATHER)
        return take_gather(ring, chunk, (unsigned)from, frame);
    if (chunk->direct)
        return take_direct(ring, chunk, (unsigned)from, frame);
    return take_reduce(ring, chunk, (unsigned)from, frame);
}

static bool
fenced(const struct ring *ring, const struct proto_chunk *chunk)
{
    if (!ring->planned)
        return true;
    return chunk->plan_hash != ring->plan && !core_mutant(MUTANT_FENCE);
}

/* Is its plan or its round not the present one? */
static bool
waits(const struct ring *ring, const struct proto_chunk *chunk)
{
    bool fence = fenced(ring, chunk) && !core_mutant(MUTANT_DRAIN_FENCE);
    bool round = chunk->round != ring->round && !core_mutant(MUTANT_DRAIN_ROUND);
    return fence || round;
}

/* Everything kept that has become possible; taking one chunk may make another possible. */
static void
drain(struct ring *ring)
{
    bool again = ring->running;
    while (again && !ring->broken) {
        again = false;
        for (size_t k = ring->kept_count; k-- > 0 && !ring->broken;) {
            struct kept *kept = &ring->kept[k];
            if (waits(ring, &kept->chunk))
                continue;
            if (take(ring, kept->from, kept->type, &kept->chunk, &kept->frame) == VERDICT_LATER)
                continue;
            kept_remove(ring, k);
            again = true;
        }
    }
}

static bool
kept_already(const struct ring *ring, struct proto_node from, const struct proto_msg *msg)
{
    for (size_t k = 0; k < ring->kept_count; k++) {
        const struct kept *kept = &ring->kept[k];
        const struct proto_chunk *a = &kept->chunk, *b = &msg->chunk;
        if (kept->type == msg->type && kept->from.id == from.id && a->plan_hash == b->plan_hash &&
            a->round == b->round && a->bucket == b->bucket && a->first == b->first)
            return true;
    }
    return false;
}

static void
keep(struct ring *ring, struct proto_node from, const struct proto_msg *msg,
     struct core_frame *frame)
{
    if (msg->chunk.bucket >= ring->setup.bucket_count)
        return;
    /* How many members a plan not yet known has, and so what goes direct in it, is not known either. */
    uint64_t most = ring->setup.buckets[msg->chunk.bucket].count;
    if (!msg->chunk.direct && most > ring->setup.chunk_elems)
        most = ring->setup.chunk_elems;
    if (frame->size > most * sizeof(int32_t) || ring->kept_count == ring->kept_max ||
        kept_already(ring, from, msg))
        return;
    ring->ops.keep(ring->ctx, frame);
    ring->kept[ring->kept_count++] =
        (struct kept){.type = msg->type, .from = from, .chunk = msg->chunk, .frame = *frame};
}

void
ring_chunk(struct ring *ring, struct proto_node from, const struct proto_msg *msg,
           struct core_frame *frame, uint64_t round)
{
    const struct proto_chunk *chunk = &msg->chunk;
    if (ring->broken && ring->planned && chunk->plan_hash == ring->plan)
        return;
    if (!fenced(ring, chunk) && ring->running && chunk->round == ring->round) {
        if (take(ring, from, msg->type, chunk, frame) == VERDICT_LATER) {
            keep(ring, from, msg, frame);
            return;
        }
        drain(ring);
        return;
    }
    if (chunk->round == round || chunk->round == round + 1)
        keep(ring, from, msg, frame);
}

/* --- Rounds ------------------------------------------------------------------------------------ */

static void
lane_reset(struct ring *ring, size_t bucket, size_t *stage)
{
    struct lane *lane = &ring->lanes[bucket];
    uint64_t count = ring->setup.buckets[bucket].count;
    *lane = (struct lane){.direct = ring->n > 1 && direct_of(ring, bucket), .stage = *stage};
    if (count == 0)
        return;
    if (lane->direct || ring->n == 1) {
        lane->left = ring->n;
        *stage += ring->n;
        return;
    }
    lane->stride = stride_of(ring, bucket, ring->n);
    *stage += lane->stride * ring->n;
    for (unsigned s = 0; s < ring->n; s++)
        lane->left +=
            chunks_of(ring, segment_first(ring, bucket, s + 1) - segment_first(ring, bucket, s));
}

void
ring_round(struct ring *ring, uint64_t round, size_t first_bucket, uint64_t state)
{
    assert(ring->planned);
    ring->running = true;
    ring->broken = false;
    ring->diverged = false;
    ring->round = round;
    ring->state = state;
    ring->first_bucket = first_bucket;
    ring->ready = 0;
    ring->left = 0;
    size_t stage = 0;
    for (size_t b = first_bucket; b < ring->setup.bucket_count; b++) {
        lane_reset(ring, b, &stage);
        ring->left += ring->lanes[b].left > 0;
    }
    memset(ring->stages, STAGE_WAITING, stage);
    for (size_t k = ring->kept_count; k-- > 0;)
        if (ring->kept[k].chunk.plan_hash == ring->plan && ring->kept[k].chunk.round < round)
            kept_remove(ring, k);
}

static void
push(struct ring *ring)
{
    for (size_t b = ring->first_bucket; b < ring->ready; b++) {
        lane_send(ring, b);
        lane_begin(ring, b);
    }
    drain(ring);
}

void
ring_ready(struct ring *ring, size_t end)
{
    assert(end <= ring->setup.bucket_count);
    if (!ring->running || ring->broken || end <= ring->ready)
        return;
    ring->ready = end;
    push(ring);
}

/* --- Lending ----------------------------------------------------------------------------------- */

static bool
lend(struct ring *ring, size_t bucket)
{
    struct lane *lane = &ring->lanes[bucket];
    bool can = lane->left == 0 && !lane->lent;
    lane->lent = lane->lent || can;
    return can;
}

bool
ring_final(struct ring *ring, size_t *bucket)
{
    size_t last = ring->setup.bucket_count - 1;
    if (ring_status(ring) != RING_RUNNING || ring->ready <= last || ring->lanes[last].left > 0)
        return false;
    if (lend(ring, last)) {
        *bucket = last;
        return true;
    }
    for (size_t b = ring->first_bucket; b < last; b++)
        if (lend(ring, b)) {
            *bucket = b;
            return true;
        }
    return false;
}

/* --- Looking ----------------------------------------------------------------------------------- */

enum ring_status
ring_status(const struct ring *ring)
{
    if (!ring->planned || !ring->running)
        return RING_OFF;
    if (ring->broken)
        return RING_BROKEN;
    return ring->left == 0 && ring->ready == ring->setup.bucket_count ? RING_FINAL : RING_RUNNING;
}

bool
ring_complete(const struct ring *ring, size_t bucket)
{
    return ring->planned && ring->running && !ring->broken && bucket < ring->ready &&
           ring->lanes[bucket].left == 0;
}

const char *
ring_why(const struct ring *ring)
{
    return ring->why;
}

bool
ring_diverged(const struct ring *ring, unsigned *rank, uint64_t *state)
{
    *rank = ring->diverged_rank;
    *state = ring->diverged_state;
    return ring->broken && ring->diverged;
}

uint64_t
ring_progress(const struct ring *ring)
{
    return ring->progress;
}

size_t
ring_keep_max(const struct ring *ring)
{
    return ring->kept_max;
}

size_t
ring_kept(const struct ring *ring)
{
    return ring->kept_count;
}

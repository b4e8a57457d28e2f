/* handover.c - see handover.h. */
#include "mesh/core/pipeline/handover.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "compress/check.h"
#include "proto/mutant.h"

enum { KINDS = 2 };

/* Items for a stage, or of it, of one kind: bitmaps of shards. */
struct flow {
    uint64_t made;                   /* here */
    uint64_t here, told;             /* came from others; handover_next has named them */
    uint64_t came[PROTO_SHARDS_MAX]; /* words of each that are in their place */
};

struct early {
    struct proto_node from;
    struct handover_chunk chunk;
    struct core_frame frame;
};

struct handover {
    struct handover_setup setup;
    struct handover_ops ops;
    void *ctx;
    bool planned, running;          /* a round began */
    struct proto_plan plan, before; /* the present one, and the one before it */
    unsigned rank;
    uint64_t round, state;
    struct flow flow[PROTO_STAGES_MAX][KINDS];
    bool lost;  /* a chunk was dropped that this node may want when it comes to that round */
    bool asked; /* for all that was missing, in this round, as a chunk came that nobody wants */
    struct early *early;
    size_t early_count;
};

/* --- Life --------------------------------------------------------------------------------------- */

int
handover_new(struct handover **out, const struct handover_setup *setup,
             const struct handover_ops *ops, void *ctx)
{
    assert(setup->chunk_words > 0 && setup->chunk_words <= PROTO_CHUNK_MAX);
    struct handover *h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    h->setup = *setup;
    h->ops = *ops;
    h->ctx = ctx;
    h->early = calloc(setup->early_max + 1, sizeof *h->early);
    if (!h->early)
        handover_destroy(&h);
    *out = h;
    return h ? 0 : -ENOMEM;
}

static void
early_remove(struct handover *h, size_t k)
{
    h->setup.wire->release(h->setup.wire_ctx, h->early[k].frame.handle);
    h->early_count--;
    for (; k < h->early_count; k++) /* those of one sender stay in their order */
        h->early[k] = h->early[k + 1];
}

void
handover_destroy(struct handover **h)
{
    while (*h && (*h)->early_count > 0)
        early_remove(*h, (*h)->early_count - 1);
    if (*h)
        free((*h)->early);
    free(*h);
    *h = NULL;
}

/* --- Who has what ------------------------------------------------------------------------------- */

static struct flow *
flow_of(struct handover *h, struct handover_item item)
{
    return &h->flow[item.stage][item.gradient];
}

/* The stage that makes an item. */
static unsigned
maker_stage(struct handover_item item)
{
    return item.gradient ? item.stage + 1 : item.stage - 1;
}

/* Is there such an item in the plan? Input of the first stage is data, and the last stage's gradient is of the loss. */
static bool
item_exists(const struct handover *h, struct handover_item item)
{
    unsigned last = (unsigned)h->plan.cut_count;
    return item.shard < PROTO_SHARDS_MAX && item.stage <= last &&
           (item.gradient ? item.stage < last : item.stage > 0);
}

static uint64_t
shards_of(const struct proto_plan *plan, unsigned rank, unsigned stage)
{
    return proto_plan_computes(plan, rank, stage) & plan->complete;
}

/* The rank of the member that computes the shard in the stage. */
static unsigned
holder_of(const struct proto_plan *plan, unsigned stage, unsigned shard)
{
    unsigned rank = 0;
    while (rank + 1 < plan->count && !(shards_of(plan, rank, stage) >> shard & 1))
        rank++;
    assert(shards_of(plan, rank, stage) >> shard & 1); /* a valid plan has each once */
    return rank;
}

/* Does this node want it, from this member? */
static bool
comes_from(const struct handover *h, struct handover_item item, struct proto_node from)
{
    if (!item_exists(h, item) || !(shards_of(&h->plan, h->rank, item.stage) >> item.shard & 1))
        return false;
    unsigned rank = holder_of(&h->plan, maker_stage(item), item.shard);
    return rank != h->rank && proto_node_equal(h->plan.members[rank].node, from);
}

/* --- Sending ------------------------------------------------------------------------------------ */

static void
item_send(struct handover *h, struct handover_item item, unsigned rank)
{
    struct handover_chunk chunk = {.item = item, .round = h->round, .state = h->state};
    const int32_t *words = h->ops.words(h->ctx, item, true, &chunk.size);
    assert(chunk.size > 0);
    while (chunk.first < chunk.size) {
        chunk.count = chunk.size - chunk.first;
        if (chunk.count > h->setup.chunk_words)
            chunk.count = h->setup.chunk_words;
        chunk.check = check_of(words + chunk.first, 0, chunk.count);
        h->ops.send(h->ctx, rank, &chunk, words + chunk.first);
        chunk.first += chunk.count;
    }
}

void
handover_made(struct handover *h, struct handover_item item)
{
    assert(h->running && item_exists(h, item));
    unsigned rank = holder_of(&h->plan, item.stage, item.shard);
    flow_of(h, item)->made |= UINT64_C(1) << item.shard;
    if (rank != h->rank)
        item_send(h, item, rank);
    else
        flow_of(h, item)->here |= UINT64_C(1) << item.shard;
}

void
handover_on_ask(struct handover *h, struct proto_node from, struct handover_item first,
                uint64_t shards)
{
    struct handover_item item = first;
    if (!h->running)
        return;
    for (item.shard = 0; item.shard < PROTO_SHARDS_MAX; item.shard++) {
        if (!(shards >> item.shard & 1) || !item_exists(h, item) ||
            !(flow_of(h, item)->made >> item.shard & 1))
            continue;
        unsigned rank = holder_of(&h->plan, item.stage, item.shard);
        if (rank != h->rank && proto_node_equal(h->plan.members[rank].node, from))
            item_send(h, item, rank);
    }
}

/* --- Receiving ---------------------------------------------------------------------------------- */

/* False: nobody wants it. */
static bool
chunk_take(struct handover *h, struct proto_node from, const struct handover_chunk *chunk,
           const struct core_frame *frame)
{
    struct handover_item item = chunk->item;
    uint64_t size = 0;
    bool odd = chunk->state != h->state && !mutant(MUTANT_ITEM_ROUND);
    if (odd || !comes_from(h, item, from))
        return false;
    struct flow *flow = flow_of(h, item);
    int32_t *words = h->ops.words(h->ctx, item, false, &size);
    uint64_t *came = &flow->came[item.shard];
    if (flow->here >> item.shard & 1)
        return false; /* it is being read, or sent */
    if (chunk->size != size || chunk->count == 0 || chunk->first != *came ||
        chunk->count > size - *came || frame->size != chunk->count * sizeof *words)
        return false;
    if (check_copy_near(words + chunk->first, frame->data, chunk->count) != chunk->check) {
        unsigned maker = holder_of(&h->plan, maker_stage(item), item.shard);
        h->ops.ask(h->ctx, maker, item, UINT64_C(1) << item.shard);
        return true;
    }
    *came += chunk->count;
    if (*came == size)
        flow->here |= UINT64_C(1) << item.shard;
    return true;
}

/* Of the next round. */
static void
early_add(struct handover *h, struct proto_node from, const struct handover_chunk *chunk,
          struct core_frame *frame)
{
    if (frame->size > h->setup.chunk_words * sizeof(int32_t))
        return;
    if (h->early_count == h->setup.early_max) {
        h->lost = true;
        return;
    }
    h->setup.wire->keep(h->setup.wire_ctx, frame);
    h->early[h->early_count++] = (struct early){from, *chunk, *frame};
}

void
handover_on_chunk(struct handover *h, struct proto_node from, const struct handover_chunk *chunk,
                  struct core_frame *frame)
{
    bool wanted = true;
    if (h->running && (chunk->round == h->round || mutant(MUTANT_ITEM_ROUND)))
        wanted = chunk_take(h, from, chunk, frame);
    else if (chunk->round == h->round + 1)
        early_add(h, from, chunk, frame);
    else
        h->lost = true; /* this node may come to that round later */
    if (wanted || h->asked)
        return;
    h->asked = true;
    handover_ask(h);
}

bool
handover_next(struct handover *h, struct handover_item *item)
{
    for (unsigned stage = 0; h->running && stage <= h->plan.cut_count; stage++)
        for (unsigned kind = 0; kind < KINDS; kind++) {
            struct flow *flow = &h->flow[stage][kind];
            uint64_t new = shards_of(&h->plan, h->rank, stage) & flow->here & ~flow->told;
            if (!new)
                continue;
            *item = (struct handover_item){stage, (unsigned)__builtin_ctzll(new), kind};
            flow->told |= new & -new;
            return true;
        }
    return false;
}

/* --- Rounds and plans --------------------------------------------------------------------------- */

/* Of the items of a stage and kind, those that this node wants from a member, and has not got. */
static uint64_t
missing_from(struct handover *h, struct handover_item first, unsigned rank)
{
    unsigned last = (unsigned)h->plan.cut_count;
    if (first.gradient ? first.stage == last : first.stage == 0)
        return 0;
    return shards_of(&h->plan, h->rank, first.stage) &
           shards_of(&h->plan, rank, maker_stage(first)) & ~flow_of(h, first)->here;
}

void
handover_ask(struct handover *h)
{
    assert(h->running);
    for (unsigned rank = 0; rank < h->plan.count; rank++)
        for (unsigned k = 0; rank != h->rank && k < KINDS * (h->plan.cut_count + 1); k++) {
            struct handover_item first = {.stage = k / KINDS, .gradient = k % KINDS};
            uint64_t shards = missing_from(h, first, rank);
            if (shards)
                h->ops.ask(h->ctx, rank, first, shards);
        }
}

/* Those of other stages than the plan's are never written. */
static void
flows_clear(struct handover *h)
{
    for (size_t stage = 0; stage <= h->plan.cut_count; stage++)
        h->flow[stage][0] = h->flow[stage][1] = (struct flow){0};
}

void
handover_end(struct handover *h)
{
    flows_clear(h);
    h->running = false;
}

/* Items of other cuts are others. */
static void
forget_all(struct handover *h)
{
    handover_end(h);
    h->lost = h->lost || h->early_count > 0;
    while (h->early_count > 0)
        early_remove(h, h->early_count - 1);
}

/* What is made goes to the member that has it to do now, if that is another one than before. */
static void
send_again(struct handover *h, struct handover_item item)
{
    if (!item_exists(h, item) || !(flow_of(h, item)->made >> item.shard & 1))
        return;
    unsigned was = holder_of(&h->before, item.stage, item.shard);
    unsigned rank = holder_of(&h->plan, item.stage, item.shard);
    if (rank != h->rank &&
        !proto_node_equal(h->before.members[was].node, h->plan.members[rank].node))
        item_send(h, item, rank);
}

void
handover_again(struct handover *h, unsigned rank)
{
    for (unsigned k = 0; h->running && k < KINDS * (h->plan.cut_count + 1); k++)
        for (unsigned shard = 0; shard < PROTO_SHARDS_MAX; shard++) {
            struct handover_item item = {k / KINDS, shard, k % KINDS};
            if (item_exists(h, item) && (flow_of(h, item)->made >> shard & 1) && rank != h->rank &&
                holder_of(&h->plan, item.stage, shard) == rank)
                item_send(h, item, rank);
        }
}

static void
flow_plan(struct handover *h, unsigned stage, unsigned kind)
{
    struct flow *flow = &h->flow[stage][kind];
    uint64_t mine = shards_of(&h->plan, h->rank, stage);
    flow->here |= flow->made & mine;
    flow->told &= mine;
    for (unsigned shard = 0; h->running && shard < PROTO_SHARDS_MAX; shard++)
        send_again(h, (struct handover_item){stage, shard, kind});
}

void
handover_plan(struct handover *h, const struct proto_plan *plan, unsigned rank)
{
    assert(rank < plan->count && plan->cut_count < PROTO_STAGES_MAX);
    if (!h->planned || !proto_plan_same_cuts(&h->plan, plan))
        forget_all(h);
    h->before = h->planned ? h->plan : *plan;
    h->plan = *plan;
    h->rank = rank;
    h->planned = true;
    for (unsigned stage = 0; stage <= plan->cut_count; stage++)
        for (unsigned kind = 0; kind < KINDS; kind++)
            flow_plan(h, stage, kind);
}

/* Those of these rounds. */
static void
early_keep(struct handover *h, uint64_t first, uint64_t last)
{
    for (size_t k = h->early_count; k-- > 0;)
        if (h->early[k].chunk.round < first || h->early[k].chunk.round > last)
            early_remove(h, k);
}

void
handover_past(struct handover *h, uint64_t round)
{
    early_keep(h, round, round + 1);
}

void
handover_round(struct handover *h, uint64_t round, uint64_t state)
{
    assert(h->planned);
    flows_clear(h);
    h->running = true;
    h->asked = false;
    h->round = round;
    h->state = state;
    for (size_t k = 0; k < h->early_count; k++)
        if (h->early[k].chunk.round == round)
            chunk_take(h, h->early[k].from, &h->early[k].chunk, &h->early[k].frame);
    early_keep(h, round + 1, round + 1);
    if (h->lost)
        handover_ask(h);
    h->lost = false;
}

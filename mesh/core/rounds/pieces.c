/* pieces.c - see pieces.h. */
#include "mesh/core/rounds/pieces.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "mesh/core/rounds/holders.h"

enum { EARLY_MAX = 256 }; /* chunks of the next round that are kept, at most */

/* --- Cuts ----------------------------------------------------------------------------------------- */

/* The number in the plan of the cut that the item crosses. */
static size_t
cut_of_item(const struct proto_plan *plan, struct handover_item item)
{
    return plan->cut_count - item.stage - item.gradient;
}

static struct proto_cut
bucket_of_item(const struct proto_plan *plan, struct handover_item item)
{
    return plan->cuts[cut_of_item(plan, item)];
}

/* The stage that the items of this cut are for; -1: the plan has no such cut. */
static int
stage_of_cut(const struct proto_plan *plan, uint16_t bucket, bool gradient)
{
    for (size_t k = 0; k < plan->cut_count; k++)
        if (plan->cuts[k].bucket == bucket)
            return (int)(plan->cut_count - k - gradient);
    return -1;
}

static uint64_t
words_per_row(const struct core *core, struct proto_cut cut)
{
    size_t k = 0;
    while (core->config.stages.cuts[k].bucket != cut.bucket)
        k++;
    return core->config.stages.cuts[k].words;
}

/* --- Life ------------------------------------------------------------------------------------------ */

int
pieces_init(struct pieces *pieces, const struct core *core, const struct handover_ops *ops,
            void *ctx)
{
    const struct handover_setup setup = {.chunk_words = core->config.chunk_elems,
                                         .early_max = EARLY_MAX,
                                         .wire = core->config.wire,
                                         .wire_ctx = core->config.wire_ctx};
    *pieces = (struct pieces){0};
    return core->config.stages.count > 1 ? handover_new(&pieces->handover, &setup, ops, ctx) : 0;
}

void
pieces_fini(struct pieces *pieces)
{
    handover_destroy(&pieces->handover);
}

bool
pieces_of_plan(const struct pieces *pieces, const struct core *core)
{
    return core->plan.active && core->plan.hash == pieces->plan_hash;
}

uint64_t
pieces_item_words(const struct pieces *pieces, const struct core *core, struct handover_item item)
{
    uint64_t rows = core_shard_rows(core->rows, core->config.shards, item.shard);
    uint64_t words = rows * words_per_row(core, bucket_of_item(&pieces->plan, item));
    return words ? words : 1; /* a shard without rows has an item, too */
}

uint16_t
pieces_bucket(const struct pieces *pieces, struct handover_item item)
{
    return bucket_of_item(&pieces->plan, item).bucket;
}

/* --- A round or a plan begins ---------------------------------------------------------------------- */

/* Do some members hold a part only? Then what needs the whole gradient travels in the last bucket, also without
 * cuts. */
static bool
held_in_parts(const struct core *core)
{
    const struct proto_plan *plan = &core->plan.now;
    for (size_t m = 0; m < plan->count; m++)
        if (plan->members[m].holds != core_segments(&core->config.stages))
            return true;
    return false;
}

bool
pieces_run(const struct core *core)
{
    return core->plan.active &&
           (core->plan.now.cut_count > 0 || (core->config.stages.count > 1 && held_in_parts(core)));
}

bool
pieces_begun(const struct pieces *pieces, const struct core *core)
{
    return pieces->plan_hash == core->plan.hash && pieces->round == core->round &&
           pieces->state == core->state_hash;
}

void
pieces_void(struct pieces *pieces)
{
    pieces->plan_hash = 0;
    pieces->plan.cut_count = 0;
    pieces->zero = 0;
}

static bool
evaluates(const struct core *core)
{
    return core->first_bucket > 0;
}

static void
round_again(struct pieces *pieces, const struct core *core)
{
    unsigned stages = (unsigned)core->plan.now.cut_count + 1;
    enum schedule_rule rule = core->config.stages.schedule;
    schedule_init(&pieces->schedule, evaluates(core) ? SCHEDULE_EVALUATE : rule, stages);
    if (core->config.stages.tied)
        schedule_tie(&pieces->schedule);
    memset(pieces->added, 0, sizeof pieces->added);
    pieces->tail = false;
    pieces->busy_us = pieces->sent = 0;
    if (!proto_plan_same_cuts(&pieces->plan, &core->plan.now))
        pieces->zero = 0;
}

/* The stages that begin again, as a shard of another node cannot be taken out of own[]. The first one needs what the
 * last one has computed, if they share a weight. */
static uint64_t
stages_again(const struct pieces *pieces, const struct core *core)
{
    uint64_t again = 0, one = 1;
    for (unsigned stage = 0; stage <= pieces->plan.cut_count; stage++)
        if (pieces->added[stage] & ~proto_plan_computes(&pieces->plan, pieces->rank, stage))
            again |= one << stage;
    return core->config.stages.tied && (again & 1) ? again | one << pieces->plan.cut_count : again;
}

/* This node computes exactly these shards of the stage. */
static void
stage_plan(struct pieces *pieces, unsigned stage, uint64_t shards, bool again)
{
    uint64_t had = pieces->schedule.of[stage].mine;
    schedule_drop(&pieces->schedule, stage, had & ~shards);
    schedule_add(&pieces->schedule, stage, shards & ~had);
    if (again) {
        schedule_again(&pieces->schedule, stage);
        pieces->added[stage] = 0;
    }
    if (shards)
        pieces->zero &= ~(UINT64_C(1) << stage);
}

static void
wait_by_plan(struct pieces *pieces, const struct proto_plan *plan)
{
    uint8_t owner[PROTO_STAGES_MAX][PROTO_SHARDS_MAX] = {{0}};
    for (unsigned stage = 0; stage <= plan->cut_count; stage++)
        for (unsigned rank = 0; rank < plan->count; rank++)
            for (uint64_t left = proto_plan_computes(plan, rank, stage); left; left &= left - 1)
                owner[stage][__builtin_ctzll(left)] = (uint8_t)rank;
    schedule_wait(&pieces->schedule, (unsigned)__builtin_popcountll(plan->complete),
                  (const uint8_t(*)[PROTO_SHARDS_MAX])owner);
}

/* What came for this node's shards since it was asked last. True: something did. */
static bool
take_items(struct pieces *pieces)
{
    struct handover_item item;
    bool any = false;
    while (handover_next(pieces->handover, &item)) {
        if (item.gradient)
            schedule_on_gradient(&pieces->schedule, item.stage, item.shard);
        else
            schedule_on_input(&pieces->schedule, item.stage, item.shard);
        any = true;
    }
    return any;
}

/* Members that had the plan before this node, and asked. */
static void
answer_early(struct pieces *pieces, const struct core *core)
{
    for (unsigned r = 0; r < core->plan.now.count; r++)
        if (core->plan.peer[r] >= 0 && (pieces->asked >> core->plan.peer[r] & 1))
            handover_again(pieces->handover, r);
    pieces->asked = 0;
}

void
pieces_begin(struct pieces *pieces, const struct core *core)
{
    assert(core->trainer.state == TRAINER_FREE);
    const struct proto_plan *plan = &core->plan.now;
    bool goes_on = pieces->round == core->round && pieces->state == core->state_hash &&
                   pieces->plan_hash != 0 && proto_plan_same_cuts(&pieces->plan, plan);
    bool planned = pieces->plan_hash != core->plan.hash;
    if (!goes_on) {
        round_again(pieces, core);
        handover_end(pieces->handover);
    }
    pieces->plan = *plan;
    pieces->rank = core->plan.rank;
    pieces->plan_hash = core->plan.hash;
    pieces->round = core->round;
    pieces->state = core->state_hash;
    if (planned) {
        pieces->tail = false; /* another member may be the first that computes a stage */
        handover_plan(pieces->handover, plan, pieces->rank);
    }
    if (!goes_on)
        handover_round(pieces->handover, core->round, core->state_hash);
    uint64_t again = mutant(MUTANT_STAGE_KEEPS) ? 0 : stages_again(pieces, core);
    for (unsigned stage = 0; stage <= plan->cut_count; stage++)
        stage_plan(pieces, stage, proto_plan_computes(plan, pieces->rank, stage),
                   again >> stage & 1);
    wait_by_plan(pieces, plan);
    take_items(pieces);
    if (planned)
        handover_ask(pieces->handover);
    answer_early(pieces, core);
}

/* --- Own ------------------------------------------------------------------------------------------- */

/* Of the buckets [first, end), those of the segments that this node holds. */
static void
buckets_zero(const struct core *core, size_t first, size_t end)
{
    for (size_t b = first; b < end; b++)
        if (b + 1 == core->config.bucket_count ||
            (core->holds >> core_segment_of(&core->config.stages, b) & 1))
            memset(core->config.own + core->buckets[b].first, 0,
                   core->buckets[b].count * sizeof *core->config.own);
}

/* The buckets [first, end) of a stage. */
static void
stage_buckets(const struct core *core, unsigned stage, size_t *first, size_t *end)
{
    const struct proto_plan *plan = &core->pieces.plan;
    size_t k = plan->cut_count - stage;
    *first = k > 0 ? plan->cuts[k - 1].bucket : 0;
    *end = stage > 0 ? plan->cuts[k].bucket : core->config.bucket_count - 1;
}

static bool
stage_complete(const struct pieces *pieces, unsigned stage)
{
    const struct schedule_stage *of = &pieces->schedule.of[stage];
    uint64_t left = of->mine & ~of->weight;
    return left == 0 || (mutant(MUTANT_STAGE_EARLY) && (left & (left - 1)) == 0);
}

/* What nobody computes here are zeros, also in the last bucket. The trainer is free. */
static void
zero_rest(struct pieces *pieces, const struct core *core)
{
    bool any = false;
    for (unsigned stage = 0; stage <= pieces->plan.cut_count; stage++) {
        size_t first, end;
        any = any || pieces->schedule.of[stage].mine;
        if (pieces->schedule.of[stage].mine || (pieces->zero >> stage & 1) || evaluates(core))
            continue;
        stage_buckets(core, stage, &first, &end);
        buckets_zero(core, first, end);
        pieces->zero |= UINT64_C(1) << stage;
    }
    if (any || pieces->tail)
        return;
    buckets_zero(core, core->config.bucket_count - 1, core->config.bucket_count);
    pieces->tail = true;
}

size_t
pieces_ready(const struct pieces *pieces, const struct core *core)
{
    for (unsigned stage = (unsigned)pieces->plan.cut_count + 1; stage-- > 0 && !evaluates(core);) {
        size_t first, end;
        stage_buckets(core, stage, &first, &end);
        bool zeros = pieces->schedule.of[stage].mine || (pieces->zero >> stage & 1);
        if (!zeros || !stage_complete(pieces, stage))
            return first;
    }
    return core->config.bucket_count - !pieces->tail;
}

/* --- Pieces ---------------------------------------------------------------------------------------- */

/* The item that the piece has made, if there is one. */
static void
hand_over(struct pieces *pieces)
{
    unsigned stage = pieces->now.stage, last = (unsigned)pieces->plan.cut_count;
    enum schedule_kind kind = pieces->now.kind;
    if (kind == SCHEDULE_FORWARD && stage < last)
        handover_made(pieces->handover,
                      (struct handover_item){stage + 1, pieces->now.shard, false});
    if ((kind == SCHEDULE_INPUT || kind == SCHEDULE_BACKWARD) && stage > 0)
        handover_made(pieces->handover, (struct handover_item){stage - 1, pieces->now.shard, true});
    take_items(pieces);
}

bool
pieces_next(struct pieces *pieces, const struct core *core, bool may_end)
{
    struct schedule_piece piece = {.kind = SCHEDULE_TAIL};
    zero_rest(pieces, core);
    bool tail = !pieces->tail && schedule_complete(&pieces->schedule) && may_end;
    if (!tail && !schedule_next(&pieces->schedule, &piece))
        return false;
    bool scores = evaluates(core) && piece.stage == pieces->plan.cut_count;
    bool adds = !tail && (piece.kind != SCHEDULE_FORWARD || scores);
    const struct schedule_stage *of = &pieces->schedule.of[piece.stage];
    pieces->now = (struct core_piece){
        .kind = piece.kind,
        .stage = piece.stage,
        .shard = piece.shard,
        .round = core->round,
        .fresh = adds && pieces->added[piece.stage] == 0,
        .held = of->forward & ~of->weight,
        .plan = &pieces->plan,
        .rank = pieces->rank,
    };
    if (adds)
        pieces->added[piece.stage] |= UINT64_C(1) << piece.shard;
    pieces->asked_at = core->now;
    if (mutant(MUTANT_ITEM_EARLY))
        hand_over(pieces);
    return true;
}

bool
pieces_done(struct pieces *pieces, const struct core *core)
{
    if (pieces->plan_hash == 0)
        return false;
    pieces->busy_us += wall_since(core->now, pieces->asked_at);
    if (pieces->now.kind == SCHEDULE_TAIL)
        pieces->tail = true;
    else if (schedule_done(&pieces->schedule))
        hand_over(pieces);
    return pieces->tail;
}

/* A stage is a part of the model as the time of its layers is. */
uint64_t
pieces_work(const struct pieces *pieces, const struct core *core)
{
    uint64_t all = 0, work = 0;
    for (size_t k = 0; k <= core->config.stages.cut_count; k++) {
        size_t bucket = k > 0 ? core->config.stages.cuts[k - 1].bucket : 0;
        size_t stage = proto_plan_stage(&pieces->plan, bucket);
        unsigned shards = (unsigned)__builtin_popcountll(pieces->schedule.of[stage].mine);
        all += core->config.stages.cost[k];
        work += core->config.stages.cost[k] * shards;
    }
    return all ? (uint64_t)(1e6 * (double)work / (double)all) : 0;
}

struct core_pipeline
pieces_look(const struct pieces *pieces)
{
    struct core_pipeline look = {
        .stages = (unsigned)pieces->plan.cut_count + 1,
        .sent = pieces->sent,
    };
    for (unsigned stage = 0; stage < look.stages; stage++)
        if (pieces->schedule.of[stage].mine)
            look.computes |= UINT64_C(1) << stage;
    return look;
}

/* --- Messages -------------------------------------------------------------------------------------- */

bool
pieces_on_item(struct pieces *pieces, const struct core *core, int i, const struct proto_item *item,
               struct core_frame *frame)
{
    int stage = stage_of_cut(&pieces->plan, item->bucket, item->gradient);
    if (!pieces_of_plan(pieces, core) || stage < 0)
        return false;
    const struct handover_chunk chunk = {
        .item = {(unsigned)stage, item->shard, item->gradient},
        .round = item->round,
        .state = item->state_hash,
        .first = item->first,
        .count = item->count,
        .size = item->size,
        .check = item->check ^ pieces_item_mix(item),
    };
    handover_on_chunk(pieces->handover, core->peers.peers[i].node, &chunk, frame);
    return take_items(pieces);
}

void
pieces_on_need(struct pieces *pieces, const struct core *core, int i, const struct proto_need *need)
{
    int stage = stage_of_cut(&pieces->plan, need->bucket, need->gradient);
    if (!pieces_of_plan(pieces, core) || need->round != pieces->round)
        pieces->asked |= UINT64_C(1) << i;
    else if (stage >= 0)
        handover_on_ask(pieces->handover, core->peers.peers[i].node,
                        (struct handover_item){(unsigned)stage, 0, need->gradient}, need->shards);
}

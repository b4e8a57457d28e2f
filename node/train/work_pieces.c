/* work_pieces.c - see work_pieces.h. A slot is a lane (work_internal.h) of one shard and the layers of one stage. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compress/bf16.h"
#include "node/train/ledger.h"
#include "node/train/work_internal.h"
#include "node/train/work_pieces.h"
#include "proto/fail.h"

struct slot {
    struct slot *next;
    bool taken;
    unsigned shard;
    bool waits; /* the shard is done here; the first stage, with a shared weight, needs the pass */
    struct lane lane;
};

struct stage {
    size_t layer, end; /* layers [layer, end) */
    struct state_range params;
    struct slot *slots;
    /* what was counted since the sum began */
    int32_t tail[TAIL_OVER], ledger[EXACT_SHARDS_MAX * LEDGER_WORDS];
};

struct pieces {
    struct work_stages plan;
    struct stage stage[PROTO_STAGES_MAX];
    uint64_t round; /* of the pieces so far */
    float *samples; /* [rows of a shard], where only their labels are wanted */
};

/* --- Passes --------------------------------------------------------------------------------------- */

static void
free_slots(struct stage *stage)
{
    for (struct slot *slot = stage->slots, *next; slot; slot = next) {
        next = slot->next;
        lane_fini(&slot->lane);
        free(slot);
    }
    stage->slots = NULL;
}

static bool
is_first(const struct stage *stage)
{
    return stage->layer == 0;
}

static bool
is_last(const struct work *work, const struct stage *stage)
{
    return stage->end == nn_layer_count(work->setup.model);
}

/* The first stage needs the samples, the last one their labels. */
static void
place_samples(const struct work *work, const struct stage *stage, struct nn_batch *batch)
{
    if (!is_first(stage))
        batch->x = is_last(work, stage) ? work->pieces->samples : NULL;
}

static struct slot *
new_slot(struct work *work, struct stage *stage)
{
    struct slot *slot = calloc(1, sizeof *slot);
    const struct nn_room room = {
        .first = stage->layer,
        .end = stage->end,
        .rows_max = work->shard_rows,
        .training = true,
        .late = work->pieces->plan.rule == SCHEDULE_ZB,
    };
    if (!slot)
        return NULL;
    if (lane_init(&slot->lane, work, &room, work->shard_rows)) {
        lane_fini(&slot->lane);
        free(slot);
        return NULL;
    }
    nn_pass_team(slot->lane.pass, work->setup.threads > 1 ? &work->team : NULL);
    place_samples(work, stage, &slot->lane.batch);
    slot->next = stage->slots;
    stage->slots = slot;
    return slot;
}

/* A pass of the last stage with a shared weight is in use for as long as one of the first stage. */
static unsigned
slots_wanted(const struct work_stages *plan, unsigned s)
{
    unsigned most = schedule_room(plan->rule, (unsigned)plan->count, s, plan->shards).all;
    unsigned first = schedule_room(plan->rule, (unsigned)plan->count, 0, plan->shards).all;
    return plan->tied && s + 1 == plan->count && first > most ? first : most;
}

static int
make_slots(struct work *work, unsigned s)
{
    struct stage *stage = &work->pieces->stage[s];
    unsigned count = 0, wanted = slots_wanted(&work->pieces->plan, s);
    for (const struct slot *slot = stage->slots; slot; slot = slot->next)
        count++;
    for (; count < wanted; count++)
        if (!new_slot(work, stage))
            return -ENOMEM;
    return 0;
}

static struct slot *
find_slot(const struct stage *stage, unsigned shard)
{
    for (struct slot *slot = stage->slots; slot; slot = slot->next)
        if (slot->taken && slot->shard == shard)
            return slot;
    return NULL;
}

/* That of before if the shard is computed again. A new one is made when more wait than the schedule has: after a stage
 * began again. NULL: not enough memory. */
static struct slot *
take_slot(struct work *work, struct stage *stage, unsigned shard)
{
    struct slot *slot = find_slot(stage, shard), *any = stage->slots;
    while (!slot && any && any->taken)
        any = any->next;
    slot = slot ? slot : any ? any : new_slot(work, stage);
    if (!slot)
        return NULL;
    slot->taken = true;
    slot->waits = false;
    slot->shard = shard;
    return slot;
}

static void
keep_slots(const struct stage *stage, uint64_t shards)
{
    for (struct slot *slot = stage->slots; slot; slot = slot->next)
        slot->taken = slot->taken && (slot->waits || (shards >> slot->shard & 1));
}

/* --- The plan ------------------------------------------------------------------------------------- */

static void
set_stage(const struct work *work, struct stage *stage, size_t layer, size_t end)
{
    size_t at;
    free_slots(stage);
    *stage = (struct stage){.layer = layer, .end = end};
    for (size_t l = 0; l < end; l++) {
        size_t count = buckets_of_layer(work->setup.model, l, &at);
        stage->params.first += l < layer ? count : 0;
        stage->params.end += count;
    }
}

static bool
same_stages(const struct work_stages *a, const struct work_stages *b)
{
    return a->count == b->count && (a->rule == SCHEDULE_ZB) == (b->rule == SCHEDULE_ZB) &&
           memcmp(a->first, b->first, a->count * sizeof *a->first) == 0;
}

/* Returns 0 or -ENOMEM. */
static int
set_plan(struct work *work, const struct work_stages *plan)
{
    struct pieces *pieces = work->pieces;
    if (!pieces)
        work->pieces = pieces = calloc(1, sizeof *pieces);
    if (pieces && !pieces->samples)
        pieces->samples =
            calloc(work->shard_rows * nn_input_size(work->setup.model), sizeof(float));
    if (!pieces || !pieces->samples)
        return -ENOMEM;
    assert(plan->count > 0 && plan->count <= PROTO_STAGES_MAX);
    for (size_t s = 0; s < plan->count && !same_stages(&pieces->plan, plan); s++)
        set_stage(work, &pieces->stage[s], plan->first[s],
                  s + 1 < plan->count ? plan->first[s + 1] : nn_layer_count(work->setup.model));
    pieces->plan = *plan;
    for (unsigned s = 0; s < PROTO_STAGES_MAX; s++)
        if (s >= plan->count || !(plan->mine >> s & 1))
            free_slots(&pieces->stage[s]);
        else if (make_slots(work, s))
            return -ENOMEM;
    return 0;
}

void
work_pieces_fini(struct work *work)
{
    for (size_t s = 0; work->pieces && s < PROTO_STAGES_MAX; s++)
        free_slots(&work->pieces->stage[s]);
    if (work->pieces)
        free(work->pieces->samples);
    free(work->pieces);
}

/* --- Items ---------------------------------------------------------------------------------------- */

/* [rows, words], for floats [rows, floats]. */
struct item {
    int32_t *at;
    size_t rows, words, floats;
};

/* Of the lane's shard, from `row` on as many as are in its pass. With `gradient` it crosses the cut above the stage,
 * else that below. */
static struct item
item_of(const struct work *work, size_t stage, bool gradient, const struct lane *lane, uint64_t row)
{
    const struct work_stages *plan = &work->pieces->plan;
    const struct nn_model *model = work->setup.model;
    unsigned shard = (unsigned)__builtin_ctzll(lane->shards);
    size_t layer = work->pieces->stage[stage + gradient].layer;
    struct item item = {
        plan->items +
            core_item_at(work->setup.shards, (unsigned)stage, shard, gradient) * plan->item_words,
        lane->rows, nn_cut_words(model, layer), nn_shape_size(nn_layer_output(model, layer - 1))};
    assert((row + item.rows) * item.words <= plan->item_words);
    item.at += row * item.words;
    return item;
}

static void
write_item(struct item item, const float *x)
{
    if (item.words == item.floats)
        memcpy(item.at, x, item.rows * item.floats * sizeof *x);
    for (size_t r = 0; item.words < item.floats && r < item.rows; r++)
        bf16_pack(item.at + r * item.words, x + r * item.floats, item.floats);
}

static void
read_item(struct item item, float *x)
{
    if (item.words == item.floats)
        memcpy(x, item.at, item.rows * item.floats * sizeof *x);
    for (size_t r = 0; item.words < item.floats && r < item.rows; r++)
        bf16_unpack(x + r * item.floats, item.at + r * item.words, item.floats);
}

/* --- Pieces --------------------------------------------------------------------------------------- */

/* The counts of saturated elements of its blocks are in the tail of own. */
static void
clear_over(const struct work *work, const struct stage *stage)
{
    const struct exact *exact = work->setup.exact;
    int32_t *over = work->own + work->state->param_count + TAIL_OVER;
    if (stage->params.first == stage->params.end)
        return;
    size_t block = exact_block_of(exact, stage->params.first),
           end = exact_block_of(exact, stage->params.end - 1) + 1;
    memset(over + block, 0, (end - block) * sizeof *over);
}

/* What the stage adds to the last bucket. */
static void
clear_counts(const struct work *work, struct stage *stage)
{
    clear_over(work, stage);
    memset(stage->tail, 0, sizeof stage->tail);
    memset(stage->ledger, 0, sizeof stage->ledger);
}

/* The rows of the pass go through the layers of the stage; they are those of the items from `row` on. */
static void
forward_rows(struct work *work, unsigned s, struct lane *lane, uint64_t row, float scale,
             struct nn_result *result)
{
    const struct stage *stage = &work->pieces->stage[s];
    if (!is_first(stage))
        read_item(item_of(work, s, false, lane, row), nn_pass_batch(lane->pass)->x);
    lane_forward(lane, work->params, stage->layer, stage->end);
    if (is_last(work, stage))
        nn_loss(work->setup.model, lane->pass, scale, result);
    else
        write_item(item_of(work, s + 1, false, lane, row), nn_pass_output(lane->pass));
}

static void
forward(struct work *work, const struct work_piece *piece, struct lane *lane)
{
    lane_assign(lane, UINT64_C(1) << piece->shard);
    lane_fill(lane, 0);
    if (lane->rows > 0)
        forward_rows(work, piece->stage, lane, 0, work->loss_scale, &lane->part->result);
}

/* A shard of the test part, in the chunks of work_evaluate.c. */
static void
evaluate(struct work *work, const struct work_piece *piece, struct lane *lane)
{
    struct stage *stage = &work->pieces->stage[piece->stage];
    uint64_t first = work_test_first(work, piece->shard),
             end = state_chooses(work->state) ? first : work_test_first(work, piece->shard + 1);
    struct nn_result sum = {0};
    lane_assign(lane, UINT64_C(1) << piece->shard);
    for (uint64_t at = first, next; at < end; at = next) {
        struct nn_result result = {0};
        next = end - at < work->part_rows ? end : at + work->part_rows;
        lane_fill_test(lane, at, next);
        forward_rows(work, piece->stage, lane, at - first, 1.0f, &result);
        result_add(&sum, &result);
    }
    if (piece->fresh || !is_last(work, stage))
        clear_counts(work, stage);
    if (is_last(work, stage))
        state_tail_add(stage->tail, end - first, &sum);
}

/* Those gradients of weights that can wait, or the others. */
static void
weights_of(struct lane *lane, size_t layer, bool late)
{
    const struct work *work = lane->work;
    const struct nn_model *model = work->setup.model;
    const struct nn_sink sink = work_sink(lane->part);
    if ((work->pieces->plan.rule == SCHEDULE_ZB && nn_late(model, layer)) == late)
        nn_gradient(model, layer, lane->pass, work->params, lane->context, &sink);
}

static void
backward(struct work *work, const struct work_piece *piece, struct lane *lane)
{
    const struct nn_model *model = work->setup.model;
    const struct stage *stage = &work->pieces->stage[piece->stage];
    unsigned s = piece->stage;
    if (lane->rows == 0)
        return;
    if (!is_last(work, stage))
        read_item(item_of(work, s, true, lane, 0), nn_pass_gradient(lane->pass, work->loss_scale));
    for (size_t layer = stage->end; layer-- > stage->layer;) {
        weights_of(lane, layer, false);
        nn_backward(model, layer, lane->pass, work->params, lane->context, NULL);
    }
    if (!is_first(stage))
        write_item(item_of(work, s - 1, true, lane, 0), nn_pass_input_gradient(lane->pass));
}

static void
weights(const struct work *work, const struct work_piece *piece, struct lane *lane)
{
    const struct stage *stage = &work->pieces->stage[piece->stage];
    for (size_t layer = stage->end; layer-- > stage->layer && lane->rows > 0;)
        weights_of(lane, layer, true);
}

/* The slot of the other stage that shares a weight with this one, or NULL. */
static struct slot *
tied_slot(const struct work *work, const struct work_piece *piece)
{
    const struct work_stages *plan = &work->pieces->plan;
    bool first = plan->tied && plan->count > 1 && piece->stage == 0;
    return first ? find_slot(&work->pieces->stage[plan->count - 1], piece->shard) : NULL;
}

/* The shard is done in this stage. */
static void
finish_shard(struct work *work, const struct work_piece *piece, struct slot *slot,
             struct slot *tied)
{
    const struct work_stages *plan = &work->pieces->plan;
    struct stage *stage = &work->pieces->stage[piece->stage];
    work_enter(&slot->lane, is_last(work, stage), stage->tail, stage->ledger);
    slot->taken = slot->waits = plan->tied && plan->count > 1 && is_last(work, stage);
    if (tied)
        tied->taken = false;
}

/* The sum of a stage begins. */
static void
begin(struct work *work, struct stage *stage)
{
    exact_scales(state_grid(work->state), work->state->exponent, work->scale);
    work_clear(work, &stage->params);
    clear_counts(work, stage);
}

/* What the layers of the stage have left to be quantised, by a codec with memory. */
static void
add_stage_kept(struct work *work, const struct stage *stage, struct lane *lane)
{
    if (work->keeps)
        work_add_kept(lane->part, stage->params.first, stage->params.end - stage->params.first);
}

/* Returns what work_open returns. */
static int
back(struct work *work, const struct work_piece *piece)
{
    struct stage *stage = &work->pieces->stage[piece->stage];
    struct slot *slot = find_slot(stage, piece->shard), *tied = tied_slot(work, piece);
    uint64_t opens = piece->kind == SCHEDULE_WEIGHT ? 0 : UINT64_C(1) << piece->shard;
    assert(slot);
    int rc = work_open_range(work, work->state, opens, &stage->params);
    if (rc)
        return rc;
    if (piece->fresh)
        begin(work, stage);
    nn_pass_tied(slot->lane.pass, tied ? tied->lane.pass : NULL);
    if (piece->kind != SCHEDULE_WEIGHT)
        backward(work, piece, &slot->lane);
    if (piece->kind == SCHEDULE_WEIGHT)
        weights(work, piece, &slot->lane);
    if (piece->kind == SCHEDULE_INPUT)
        return 0;
    add_stage_kept(work, stage, &slot->lane);
    finish_shard(work, piece, slot, tied);
    return 0;
}

/* What waits, of a round that was given up, waits for nothing. */
static void
drop_slots(struct pieces *pieces)
{
    for (size_t s = 0; s < PROTO_STAGES_MAX; s++)
        for (struct slot *slot = pieces->stage[s].slots; slot; slot = slot->next)
            slot->taken = false;
}

static bool
is_evaluation(const struct state *state)
{
    return state->header->phase != STATE_TRAIN;
}

static void
set_round(struct work *work, const struct state *state, int32_t *own)
{
    if (work->pieces->round != state->header->round)
        drop_slots(work->pieces);
    work->pieces->round = state->header->round;
    work->passing = false;
    work->state = state;
    work->params = is_evaluation(state) ? state_weights(state) : state->params;
    work->own = own;
    work->keeps = work_remembers(work, state);
    work->loss_scale = 1.0f / (float)state_rows(state);
}

static bool
makes_item(const struct work *work, const struct work_piece *piece)
{
    const struct stage *stage = &work->pieces->stage[piece->stage];
    return piece->kind == SCHEDULE_FORWARD ? !is_last(work, stage)
                                           : piece->kind != SCHEDULE_WEIGHT && !is_first(stage);
}

/* What is handed over cannot be taken back: are the parameters that it was made with those of the state? */
static bool
made_soundly(const struct work *work, const struct work_piece *piece)
{
    const struct pieces *pieces = work->pieces;
    bool shares = pieces->plan.tied && is_last(work, &pieces->stage[piece->stage]);
    struct pool *pool = work->setup.pool;
    return state_range_sound(work->state, &pieces->stage[piece->stage].params, pool) &&
           (!shares || state_range_sound(work->state, &pieces->stage[0].params, pool));
}

void
work_piece_point(const struct state *state, enum schedule_kind kind)
{
    int hits = kind == SCHEDULE_TAIL ? 0 : kind == SCHEDULE_BACKWARD ? 2 : 1;
    while (hits-- > 0)
        fail_hit(FAIL_PIECE, state->block, state->size);
}

int
work_piece(struct work *work, const struct state *state, const struct work_stages *stages,
           const struct work_piece *piece, int32_t *own)
{
    assert(work->setup.exact_mode && !work->walks);
    assert(piece->stage < stages->count);
    assert(stages->mine >> piece->stage & 1);
    assert(piece->kind == SCHEDULE_FORWARD || !is_evaluation(state));
    assert(piece->kind == SCHEDULE_FORWARD ||
           (piece->kind == SCHEDULE_BACKWARD) == (stages->rule != SCHEDULE_ZB));
    if (set_plan(work, stages))
        return -ENOMEM;
    struct stage *stage = &work->pieces->stage[piece->stage];
    set_round(work, state, own);
    keep_slots(stage, piece->held);
    if (piece->kind != SCHEDULE_FORWARD) {
        int rc = back(work, piece);
        if (rc)
            return rc;
    } else {
        struct slot *slot = take_slot(work, stage, piece->shard);
        if (!slot)
            return -ENOMEM;
        (is_evaluation(state) ? evaluate : forward)(work, piece, &slot->lane);
        slot->taken = !is_evaluation(state); /* nothing follows there */
    }
    return makes_item(work, piece) && !made_soundly(work, piece) ? -EBADMSG : 0;
}

static void
add_words(int32_t *to, const int32_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (int32_t)((uint32_t)to[i] + (uint32_t)from[i]);
}

int
work_pieces_tail(struct work *work, const struct state *state, const struct work_stages *stages,
                 int32_t *own)
{
    if (set_plan(work, stages))
        return -ENOMEM;
    size_t blocks = exact_blocks(work->setup.exact), words = ledger_words(work->setup.shards);
    int32_t *tail = own + state->param_count, *behind = tail + state_tail(blocks);
    int32_t *end = own + work_vector_count(work);
    assert((size_t)(end - behind) >= stages->count * words);
    set_round(work, state, own);
    memset(tail, 0, TAIL_OVER * sizeof *tail);
    memset(behind, 0, (size_t)(end - behind) * sizeof *behind);
    for (size_t s = 0; s < stages->count; s++) {
        const struct stage *stage = &work->pieces->stage[s];
        if (!(stages->mine >> s & 1)) {
            clear_over(work, stage);
            continue;
        }
        add_words(tail, stage->tail, TAIL_OVER);
        memcpy(behind + s * words, stage->ledger, words * sizeof *behind);
    }
    state_tail_seal(tail, blocks, 0);
    return 0;
}

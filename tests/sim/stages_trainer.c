/* stages_trainer.c - the trainer of a node when the model is cut into stages: it computes piece by piece, as core.h
 * says, and checks what the core promises there. items what it reads is what that item must be, when the piece begins
 * and when it ends, so nobody has written there; what it is about to write is marked, so nobody has sent it before
 * order only shards and stages of this node; FORWARD, INPUT, WEIGHT, each once, or from the beginning; TAIL when all
 * others are computed; of an evaluation FORWARD and TAIL alone own begins from zero, and no shard is in it twice
 * memory no more micro-batches than the rule has room for tied the first stage, going back, has what the last one
 * computed of the shard, which is used up by that */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "tests/sim/stages.h"

enum { MARK = 0x7b, ITEMS_MAX = 2 * SIM_BUCKETS_MAX * PROTO_SHARDS_MAX * SIM_ITEM_MAX };

/* What a node has of a stage: shards. */
struct stage {
    uint64_t forward; /* their activations, */
    uint64_t planned; /* computed in the present plan */
    uint64_t input;   /* the gradient of the input: a part of their gradients is in own, */
    uint64_t weight;  /* or all; in an evaluation, both with FORWARD */
    bool zeroed;      /* own has these alone */
    uint64_t waits;   /* tied, of the last stage: what the first one needs of them is here */
};

static struct work {
    uint64_t round, state; /* what is computed is of these, */
    uint64_t plan_hash;
    struct proto_plan plan; /* and of the cuts of this plan */
    struct core_piece now;
    unsigned count; /* of the round */
    struct stage stage[PROTO_STAGES_MAX];
    int32_t items[ITEMS_MAX];
} works[SIM_NODES_MAX];

static void
forget(struct work *work)
{
    memset(work->stage, 0, sizeof work->stage);
    work->plan_hash = 0;
    work->count = 0;
}

void
stages_trainer(struct core_config *config, struct shell *shell)
{
    const struct sim_profile *p = &shell->sim->profile;
    struct work *work = &works[shell->node->index];
    if (p->stages.core.count == 0)
        return;
    forget(work);
    memset(work->items, 0x55,
           CORE_ITEMS(p->stages.core.cut_count + 1, p->shards) * p->stages.core.item_words *
               sizeof *work->items);
    config->stages = p->stages.core;
    config->stages.room = segments_room(p, shell->node);
    config->stages.choose = segments_waits(shell->sim, shell->node);
    config->items = work->items;
}

void
stages_whole(struct sim *sim, const struct sim_node *node)
{
    const struct proto_plan *plan = &node->core->plan.now;
    bool parts = plan->cut_count > 0;
    for (size_t m = 0; m < plan->count && sim->profile.stages.parts; m++)
        parts = parts || plan->members[m].holds != segments_all(&sim->profile);
    if (sim->profile.stages.core.count && parts)
        sim_fail(sim, "node %u: asked to compute a round of a plan in parts as a whole",
                 node->index);
    forget(&works[node->index]);
}

/* Is the running round an evaluation? */
static bool
evaluates(const struct sim *sim, const struct sim_node *node)
{
    return sim_rounds_first_bucket(sim, &node->state) > 0;
}

/* The stage of the work's cuts that has this segment. */
static size_t
stage_of(const struct sim *sim, const struct work *work, size_t segment)
{
    return proto_plan_stage(&work->plan, core_segment_bucket(&sim->profile.stages.core, segment));
}

uint64_t
stages_has(const struct sim *sim, const struct sim_node *node, size_t segment)
{
    const struct work *work = &works[node->index];
    if (sim->profile.stages.core.count == 0 || work->plan_hash == 0 || work->round != node->round ||
        work->state != sim_rounds_hash(sim, &node->state))
        return 0;
    return work->stage[stage_of(sim, work, segment)].weight;
}

/* --- Items ---------------------------------------------------------------------------------------- */

/* What a piece reads, or writes. False: nothing. */
static bool
item_of(const struct sim_node *node, const struct core_piece *piece, bool writes,
        struct stages_item *item, unsigned *stage)
{
    bool forward = piece->kind == SCHEDULE_FORWARD;
    unsigned last = (unsigned)piece->plan->cut_count;
    if (piece->kind == SCHEDULE_WEIGHT || piece->kind == SCHEDULE_TAIL)
        return false;
    bool below = forward != writes; /* it crosses the cut below the stage, or the one above */
    if (below ? piece->stage == 0 : piece->stage == last)
        return false;
    *stage = piece->stage + (writes ? (forward ? 1u : -1u) : 0u);
    *item = (struct stages_item){.state = &node->state,
                                 .round = node->round,
                                 .bucket = piece->plan->cuts[last - piece->stage - !below].bucket,
                                 .gradient = !forward,
                                 .shard = piece->shard};
    return true;
}

/* Its memory. */
static int32_t *
memory_of(const struct sim *sim, struct work *work, const struct stages_item *item, unsigned stage)
{
    const struct sim_profile *p = &sim->profile;
    size_t at = core_item_at(p->shards, stage, item->shard, item->gradient);
    return work->items + at * p->stages.core.item_words;
}

static bool
is_right(const struct sim *sim, const struct stages_item *item, const int32_t *words)
{
    uint64_t count = stages_item_words(&sim->profile, item);
    for (uint64_t k = 0; k < count; k++)
        if (words[k] != stages_item_word(item, k))
            return false;
    return true;
}

static void
judge_read(struct sim *sim, const struct sim_node *node, struct work *work, const char *when)
{
    struct stages_item item;
    unsigned stage;
    if (item_of(node, &work->now, false, &item, &stage) &&
        !is_right(sim, &item, memory_of(sim, work, &item, stage)))
        sim_fail(sim,
                 "node %u: stage %u of shard %u of round %" PRIu64
                 " is computed from a wrong item, as it is when the piece %s",
                 node->index, work->now.stage, work->now.shard, node->round, when);
}

/* What was made before has the same words, and may be on its way. */
static void
mark_written(const struct sim *sim, const struct sim_node *node, struct work *work)
{
    struct stages_item item;
    unsigned stage;
    if (!item_of(node, &work->now, true, &item, &stage))
        return;
    int32_t *words = memory_of(sim, work, &item, stage);
    if (!is_right(sim, &item, words))
        memset(words, MARK, stages_item_words(&sim->profile, &item) * sizeof *words);
}

static void
write_item(const struct sim *sim, const struct sim_node *node, struct work *work)
{
    struct stages_item item;
    unsigned stage;
    if (!item_of(node, &work->now, true, &item, &stage))
        return;
    int32_t *words = memory_of(sim, work, &item, stage);
    uint64_t count = stages_item_words(&sim->profile, &item);
    for (uint64_t k = 0; k < count; k++)
        words[k] = stages_item_word(&item, k);
}

/* --- Own ------------------------------------------------------------------------------------------ */

static void
zero_stage(const struct sim *sim, struct sim_node *node, const struct core_piece *piece)
{
    size_t first, end;
    stages_buckets(&sim->profile, piece->plan, piece->stage, &first, &end);
    for (; first < end; first++) {
        const struct core_bucket *b = &sim->profile.bucket[first];
        memset(node->own + b->first, 0, b->count * sizeof *node->own);
    }
}

/* Some weights get their gradients together with the input, the others apart. */
static bool
adds_element(enum schedule_kind kind, uint64_t element)
{
    return kind == SCHEDULE_BACKWARD || (kind == SCHEDULE_INPUT && element % 2) ||
           (kind == SCHEDULE_WEIGHT && element % 2 == 0);
}

static void
own_add(struct sim_node *node, uint64_t element, int32_t x)
{
    node->own[element] = (int32_t)((uint32_t)node->own[element] + (uint32_t)x);
}

static void
add_gradient(struct sim *sim, struct sim_node *node, const struct core_piece *piece)
{
    size_t first, end;
    stages_buckets(&sim->profile, piece->plan, piece->stage, &first, &end);
    for (; first < end; first++) {
        const struct core_bucket *b = &sim->profile.bucket[first];
        for (uint64_t e = b->first; e < b->first + b->count; e++)
            if (adds_element(piece->kind, e))
                own_add(
                    node, e,
                    sim_rounds_gradient(sim, &node->state, node->round, first, piece->shard, e));
        sim_rounds_own_flips(sim, node, b);
    }
}

/* What the last stage has counted of its shards. */
static void
write_tail(struct sim *sim, struct sim_node *node, const struct work *work)
{
    const struct sim_profile *p = &sim->profile;
    const struct core_bucket *b = &p->bucket[p->buckets - 1];
    uint64_t shards = work->stage[work->plan.cut_count].weight;
    for (uint64_t e = b->first; e < b->first + b->count; e++) {
        node->own[e] = 0;
        for (unsigned s = 0; s < p->shards; s++)
            if (shards >> s & 1)
                own_add(node, e,
                        sim_rounds_gradient(sim, &node->state, node->round, p->buckets - 1, s, e));
    }
    if (shards)
        sim_rounds_own_flips(sim, node, b);
}

/* --- What is asked for ---------------------------------------------------------------------------- */

static const char *const kinds[] = {"FORWARD", "BACKWARD", "INPUT", "WEIGHT", "TAIL"};

static void
refuse(struct sim *sim, const struct sim_node *node, const struct core_piece *piece,
       const char *why)
{
    sim_fail(sim, "node %u: asked for %s of stage %u, shard %u, round %" PRIu64 ": %s", node->index,
             kinds[piece->kind], piece->stage, piece->shard, piece->round, why);
}

/* What was computed stays as long as state and cuts do. */
static void
note_plan(struct sim *sim, const struct sim_node *node, struct work *work,
          const struct core_piece *piece)
{
    const struct proto_plan *was = &work->plan, *plan = piece->plan;
    uint64_t state = sim_rounds_hash(sim, &node->state), hash = proto_plan_hash(plan);
    bool cuts = was->cut_count == plan->cut_count;
    for (size_t k = 0; k < plan->cut_count; k++) {
        cuts = cuts && was->cuts[k].bucket == plan->cuts[k].bucket;
        if (stages_cut(&sim->profile, plan->cuts[k].bucket) < 0)
            refuse(sim, node, piece, "the plan has a cut where none may be");
    }
    if (!cuts || work->round != piece->round || work->state != state)
        forget(work);
    for (size_t s = 0; s <= plan->cut_count && hash != work->plan_hash; s++) {
        work->stage[s].planned = 0;
        if (!proto_plan_computes(plan, piece->rank, s)) /* the core writes zeros there */
            work->stage[s] = (struct stage){0};
    }
    work->round = piece->round;
    work->state = state;
    work->plan_hash = hash;
    work->plan = *plan;
    work->now = *piece;
    work->now.plan = &work->plan;
    work->count++;
}

/* The last stage counts its shards in the forward. */
static const char *
evaluation_wrong(struct stage *stage, const struct core_piece *piece)
{
    bool last = piece->stage == piece->plan->cut_count;
    uint64_t bit = UINT64_C(1) << piece->shard;
    if (piece->fresh) {
        stage->input = stage->weight = 0;
        stage->zeroed = true;
    }
    if (stage->zeroed != last)
        return last ? "own does not begin from zero" : "nothing is added there";
    if (last && (stage->weight & bit))
        return "it is in own";
    stage->input |= bit;
    stage->weight |= bit;
    return NULL;
}

/* Why there is no room for one more micro-batch; NULL: there is. */
static const char *
forward_wrong(struct sim *sim, const struct sim_node *node, struct stage *stage,
              const struct core_piece *piece)
{
    struct schedule_room room =
        schedule_room(sim->profile.stages.core.schedule, (unsigned)piece->plan->cut_count + 1,
                      piece->stage, PROTO_SHARDS_MAX);
    uint64_t bit = UINT64_C(1) << piece->shard;
    if (stage->planned & bit)
        return "it is computed";
    if ((stage->input & bit) && !evaluates(sim, node)) { /* the stage begins again */
        stage->input = stage->weight = 0;
        stage->zeroed = false;
    }
    stage->forward = (stage->forward & piece->held) | bit;
    stage->planned |= bit;
    if (evaluates(sim, node))
        return evaluation_wrong(stage, piece);
    if ((unsigned)__builtin_popcountll(stage->forward & ~stage->input) > room.held ||
        (unsigned)__builtin_popcountll(stage->forward & ~stage->weight) > room.all)
        return "there is no room for so many micro-batches";
    return NULL;
}

static const char *
backward_wrong(struct stage *stage, const struct core_piece *piece)
{
    uint64_t bit = UINT64_C(1) << piece->shard;
    bool weight = piece->kind == SCHEDULE_WEIGHT;
    if (piece->fresh) {
        stage->input = stage->weight = 0;
        stage->zeroed = true;
    }
    if (!stage->zeroed)
        return "own does not begin from zero";
    if (!((weight ? stage->input : stage->forward) & bit))
        return "what comes before it is not computed";
    if ((weight ? stage->weight : stage->input) & bit)
        return "it is in own";
    stage->input |= bit;
    if (piece->kind != SCHEDULE_INPUT) {
        stage->weight |= bit;
        stage->forward &= ~bit;
    }
    return NULL;
}

/* What the last of two tied stages has computed of a shard, going back, is there until the first one has. */
static const char *
tied_wrong(struct work *work, const struct core_piece *piece)
{
    struct stage *last = &work->stage[piece->plan->cut_count];
    uint64_t bit = UINT64_C(1) << piece->shard;
    bool forward = piece->kind == SCHEDULE_FORWARD, whole = piece->kind != SCHEDULE_INPUT;
    if (piece->stage == piece->plan->cut_count)
        last->waits = forward ? last->waits & ~bit : last->waits | bit;
    if (piece->stage > 0 || forward)
        return NULL;
    if (!(last->waits & bit))
        return "what the last stage has of it is not there, or used up";
    last->waits &= whole ? ~bit : UINT64_MAX;
    return NULL;
}

/* Of an evaluation, only the last stage adds something: others may have made more. */
static const char *
tail_wrong(const struct work *work, bool evaluation)
{
    const struct proto_plan *plan = &work->plan;
    for (size_t s = 0; s <= plan->cut_count; s++) {
        uint64_t shards = proto_plan_computes(plan, work->now.rank, s), has = work->stage[s].weight;
        if (evaluation && s < plan->cut_count ? shards & ~has : shards != has)
            return "own has not exactly the shards of the plan";
    }
    return NULL;
}

static bool
ties(const struct sim *sim, const struct core_piece *piece)
{
    return sim->profile.stages.core.tied && piece->plan->cut_count > 0;
}

static const char *
piece_wrong(struct sim *sim, const struct sim_node *node, struct work *work)
{
    const struct core_piece *piece = &work->now;
    bool zb = sim->profile.stages.core.schedule == SCHEDULE_ZB;
    if (piece->plan->members[piece->rank].node.id != node->id)
        return "that is not the rank of this node";
    if (piece->kind == SCHEDULE_TAIL)
        return tail_wrong(work, evaluates(sim, node));
    if (piece->stage > piece->plan->cut_count ||
        !(proto_plan_computes(piece->plan, piece->rank, piece->stage) >> piece->shard & 1))
        return "that is not of this node";
    if (piece->kind == SCHEDULE_FORWARD && ties(sim, piece) && !evaluates(sim, node))
        tied_wrong(work, piece);
    if (piece->kind == SCHEDULE_FORWARD)
        return forward_wrong(sim, node, &work->stage[piece->stage], piece);
    if (evaluates(sim, node))
        return "an evaluation goes forward only";
    if (zb == (piece->kind == SCHEDULE_BACKWARD))
        return "the schedule has no such pieces";
    const char *wrong = ties(sim, piece) ? tied_wrong(work, piece) : NULL;
    return wrong ? wrong : backward_wrong(&work->stage[piece->stage], piece);
}

/* A backward takes twice as long as a forward, a half of a backward as long. */
static uint64_t
duration_us(const struct sim *sim, const struct sim_node *node, const struct core_piece *piece)
{
    if (piece->kind == SCHEDULE_TAIL)
        return 1;
    double share = stages_share(&sim->profile, piece->plan, piece->stage);
    double thirds = piece->kind == SCHEDULE_BACKWARD ? 2 : 1;
    return (uint64_t)((double)sim->profile.compute_us[node->index] * share * thirds / 3);
}

void
stages_ask(void *ctx, const struct core_piece *piece)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    struct work *work = &works[node->index];
    if (node->busy != SIM_FREE)
        refuse(sim, node, piece, "the trainer is busy");
    if (piece->round != node->round)
        refuse(sim, node, piece, "it is in another round");
    if (sim->verbose)
        printf("%9.3f ms  node %u  7  round %" PRIu64 ": %s of stage %u, shard %u%s\n",
               (double)sim->now / 1000, node->index, piece->round, kinds[piece->kind], piece->stage,
               piece->shard, piece->fresh ? ", from zero" : "");
    note_plan(sim, node, work, piece);
    const char *why = sim->failed ? NULL : piece_wrong(sim, node, work);
    if (why)
        refuse(sim, node, piece, why);
    if (sim->failed)
        return;
    if (piece->fresh && !evaluates(sim, node))
        zero_stage(sim, node, piece);
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count && piece->kind != SCHEDULE_TAIL; s++)
        if (stage_of(sim, work, s) == piece->stage)
            sim_rounds_judge_kept(sim, node, s, UINT64_C(1) << piece->shard);
    judge_read(sim, node, work, "begins");
    mark_written(sim, node, work);
    node->busy = SIM_COMPUTING;
    node->task_round = piece->round;
    uint64_t us = duration_us(sim, node, piece);
    uint64_t at = sim_rounds_free_at(sim, node) + 1 + us / 2 + rand_below(&sim->rand, us + 1);
    sim_push(sim, at, SIM_PIECE, node->index, 0, 0, NULL);
    stages_drill_piece(sim, node, work->count, at);
}

void
stages_computed(struct sim *sim, struct sim_node *node)
{
    struct work *work = &works[node->index];
    const struct core_piece *piece = &work->now;
    judge_read(sim, node, work, "ends");
    write_item(sim, node, work);
    sim->counts.pieces++;
    if (piece->kind == SCHEDULE_TAIL)
        write_tail(sim, node, work);
    else if (piece->kind != SCHEDULE_FORWARD)
        add_gradient(sim, node, piece);
    node->busy = SIM_FREE;
    core_on_piece(node->core, sim->now);
}

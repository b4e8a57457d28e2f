/* stage_times.c - see stage_times.h. A part is measured as a stage of its own in a plan for this node alone: what is
 * below it and what is above it are two more stages, which are not computed. Only a part that shares a weight with the
 * last one needs that one to be computed first. */
#include "node/train/stage_times.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "nn/arithmetic/least.h"
#include "node/train/work_internal.h"
#include "node/train/work_pieces.h"
#include "proto/clock.h"
#include "proto/float_bits.h"
#include "proto/mix.h"

enum { TIMES_MIN = 3, STAGES = 3 };
static const double MEASURE_S = 1;      /* all parts together, and the whole */
static const float GRADIENT = 0x1p-10F; /* of numbers that cross: sums of them fit from the start */

struct measure {
    struct work *work;
    const struct state *state;
    int32_t *own;
    struct work_stages plan;
};

/* Items of numbers that are about as large, as floats and as bfloat16, of which each word has one twice. None is 0,
 * which some layers pass over. */
static void
fill_item(const struct measure *m, unsigned stage, bool gradient, float size)
{
    size_t words = m->plan.item_words;
    size_t at = core_item_at(m->work->setup.shards, stage, 0, gradient);
    int32_t *item = m->plan.items + at * words;
    for (size_t i = 0; i < words; i++) {
        float x = size * ((float)(mix64(i) >> 40) * 0x1p-23F - 0.99F);
        uint32_t half = float_bits(x) >> 16;
        item[i] = (int32_t)(half << 16 | half);
    }
}

/* A part becomes a stage, whose number is returned. */
static unsigned
plan_part(struct measure *m, const struct stages *stages, size_t p)
{
    struct work_stages *plan = &m->plan;
    plan->count = 1;
    if (p < stages->cut_count)
        plan->first[plan->count++] = stages->cut[p].layer;
    unsigned stage = (unsigned)plan->count - 1;
    plan->tied = stage == 0 && stages->tied && p > 0;
    if (p > 0)
        plan->first[plan->count++] = stages->cut[p - 1].layer;
    if (plan->tied && p > 1)
        plan->first[plan->count++] = stages->cut[0].layer;
    plan->mine = UINT64_C(1) << stage | (uint64_t)plan->tied << (plan->count - 1);
    return stage;
}

static const enum schedule_kind kinds[] = {SCHEDULE_FORWARD, SCHEDULE_INPUT, SCHEDULE_WEIGHT};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Seconds of each kind of piece. */
static int
compute_pieces(const struct measure *m, unsigned stage, bool fresh, double s[KINDS])
{
    struct work_piece piece = {.stage = stage, .fresh = fresh, .held = 1};
    int rc = 0;
    for (size_t k = 0; k < KINDS && rc == 0; k++) {
        double start = clock_s();
        piece.kind = kinds[k];
        work_piece_point(m->state, piece.kind);
        rc = work_piece(m->work, m->state, &m->plan, &piece, m->own);
        s[k] = clock_s() - start;
    }
    return rc;
}

/* The least of each kind. */
static int
measure_stage(const struct measure *m, unsigned stage, double seconds, double least[KINDS])
{
    unsigned last = (unsigned)m->plan.count - 1;
    double s[KINDS], other[KINDS], end = clock_s() + seconds;
    int rc = 0;
    for (size_t k = 0; k < KINDS; k++)
        least[k] = HUGE_VAL;
    for (size_t t = 0; (t < TIMES_MIN || clock_s() < end) && rc == 0; t++) {
        if (m->plan.tied)
            rc = compute_pieces(m, last, t == 0, other);
        rc = rc ? rc : compute_pieces(m, stage, t == 0, s);
        for (size_t k = 0; k < KINDS && rc == 0; k++)
            least[k] = fmin(least[k], s[k]);
    }
    return rc;
}

static int
measure_part(struct measure *m, const struct stages *stages, size_t p, struct stage_times *out)
{
    unsigned stage = plan_part(m, stages, p);
    double least[KINDS];
    int rc = measure_stage(m, stage, MEASURE_S / (double)(stages->cut_count + 1), least);
    *out = (struct stage_times){least[0], least[1], least[2]};
    return rc;
}

/* All parts as one stage are faster than one after the other, by this for each. */
static double
saved_s(double parts_s, double least_s, double whole_s, size_t cuts)
{
    return cuts ? fmax(0, fmin(least_s, (parts_s - whole_s) / (double)cuts)) : 0;
}

static int
measure_whole(struct measure *m, const struct stages *stages, const struct stage_times *parts,
              struct stage_times *piece)
{
    size_t cuts = stages->cut_count;
    double whole[KINDS];
    struct stage_times sum = parts[0], least = parts[0];
    m->plan.count = m->plan.mine = 1;
    m->plan.tied = false;
    int rc = measure_stage(m, 0, MEASURE_S, whole);
    for (size_t p = 1; p <= cuts; p++) {
        sum.forward_s += parts[p].forward_s;
        sum.input_s += parts[p].input_s;
        sum.weight_s += parts[p].weight_s;
        least.forward_s = fmin(least.forward_s, parts[p].forward_s);
        least.input_s = fmin(least.input_s, parts[p].input_s);
        least.weight_s = fmin(least.weight_s, parts[p].weight_s);
    }
    *piece = (struct stage_times){saved_s(sum.forward_s, least.forward_s, whole[0], cuts),
                                  saved_s(sum.input_s, least.input_s, whole[1], cuts),
                                  saved_s(sum.weight_s, least.weight_s, whole[2], cuts)};
    return rc;
}

/* Of shard 0 alone: the others are not touched. */
static int
new_items(struct measure *m, const struct stages *stages)
{
    size_t words = 0;
    for (size_t c = 0; c < stages->cut_count; c++)
        words = greatest(words, stages->cut[c].words);
    m->plan.item_words = words * m->work->shard_rows;
    m->plan.items = calloc((STAGES * 2 - 1) * m->work->setup.shards * m->plan.item_words + 1,
                           sizeof *m->plan.items);
    return m->plan.items ? 0 : -ENOMEM;
}

int
stage_times_measure(struct stage_times *out, struct stage_times *piece, const struct stages *stages,
                    struct work *work, const struct state *state, int32_t *own)
{
    struct measure m = {
        .work = work, .state = state, .own = own, .plan = {.shards = 1, .rule = SCHEDULE_ZB}};
    int rc = new_items(&m, stages);
    for (unsigned stage = 0; rc == 0 && stage < STAGES; stage++) {
        fill_item(&m, stage, false, 1);
        if (stage + 1 < STAGES)
            fill_item(&m, stage, true, GRADIENT);
    }
    for (size_t p = 0; p <= stages->cut_count && rc == 0; p++)
        rc = measure_part(&m, stages, p, &out[p]);
    rc = rc ? rc : measure_whole(&m, stages, out, piece);
    free(m.plan.items);
    return rc;
}

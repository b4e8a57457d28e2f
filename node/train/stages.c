/* stages.c - see stages.h. A *segment* is what lies between two legal cuts. Stages are chosen by dynamic programming: the best
 * division of some segments into k stages is a best division of fewer of them into k - 1, and a stage with the rest. */
#include "node/train/stages.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "proto/proto.h"

static double
cost_of(const struct nn_model *model, size_t first, size_t end)
{
    double cost = 0;
    for (size_t layer = first; layer < end; layer++)
        cost += nn_layer_train_flops(model, layer);
    return cost;
}

/* What is between two cuts is one where a cut is passed over. */
static void
limit_cuts(struct stages *stages)
{
    const size_t most = PROTO_STAGES_MAX - 1, all = stages->cut_count;
    double cost = 0;
    size_t kept = 0;
    for (size_t k = 0; k < all && all > most; k++) {
        cost += stages->cost[k];
        if (k * (most + 1) / (all + 1) == (k + 1) * (most + 1) / (all + 1))
            continue;
        stages->cut[kept] = stages->cut[k];
        stages->cost[kept++] = cost;
        cost = 0;
    }
    if (all <= most)
        return;
    stages->cost[kept] = cost + stages->cost[all];
    stages->cut_count = kept;
}

void
stages_of(struct stages *out, const struct nn_model *model, const struct buckets *buckets)
{
    size_t end = nn_layer_count(model);
    *out = (struct stages){.tied = nn_layer_tied(model) != 0};
    for (size_t s = 0; s < buckets->section_count; s++) {
        const struct buckets_section *section = &buckets->section[s];
        size_t cut = nn_cut_below(model, section->layer);
        if (cut == 0)
            continue;
        out->cost[out->cut_count] = cost_of(model, cut, end);
        out->cut[out->cut_count++] =
            (struct stages_cut){cut, section->ready, nn_cut_words(model, cut)};
        end = cut;
    }
    out->cost[out->cut_count] = cost_of(model, 0, end);
    limit_cuts(out);
}

void
stages_segments(const struct stages *stages, const struct nn_model *model, struct state_stages *out)
{
    size_t first;
    *out = (struct state_stages){.count = stages->cut_count + 1};
    for (size_t s = 0, at = 0; s < out->count; s++) {
        size_t layer = s > 0 ? stages->cut[stages->cut_count - s].layer : 0;
        size_t end = s < stages->cut_count ? stages->cut[stages->cut_count - s - 1].layer
                                           : nn_layer_count(model);
        out->stage[s].first = at;
        for (; layer < end; layer++)
            at += buckets_of_layer(model, layer, &first);
        out->stage[s].end = at;
    }
}

enum { ENDS = STAGES_CUTS_MAX + 2 };

/* The costliest of stages that end with segment 0, 1, ..., as cheap as can be, when one more of them begins at best:
 * best[end] before, next[end] after; begin[end] is where the added stage begins. `extra` is added to the last one. */
static void
add_stage(const struct stages *stages, const double *best, double *next, uint16_t *begin,
          double extra)
{
    size_t count = stages->cut_count + 1;
    for (size_t end = 0; end <= count; end++) {
        double cost = end == count ? extra : 0;
        next[end] = HUGE_VAL;
        for (size_t at = end; at-- > 0 && cost < next[end];) {
            cost += stages->cost[at];
            double costliest = fmax(cost, best[at]);
            if (costliest < next[end]) {
                next[end] = costliest;
                begin[end] = (uint16_t)at;
            }
        }
    }
}

/* Divides the segments from `first` on into k stages, of which the last one costs `extra` more. */
static double
choose_cuts(const struct stages *stages, size_t first, unsigned k, double extra, size_t chosen[])
{
    double best[2][ENDS];
    uint16_t begin[PROTO_STAGES_MAX][ENDS];
    size_t count = stages->cut_count + 1;
    for (size_t end = 0; end <= count; end++)
        best[0][end] = end == first ? 0 : HUGE_VAL;
    for (unsigned s = 0; s < k; s++)
        add_stage(stages, best[s % 2], best[(s + 1) % 2], begin[s], s + 1 == k ? extra : 0);
    for (size_t s = k, end = count; isfinite(best[k % 2][count]) && s-- > 1;)
        chosen[s - 1] = (end = begin[s][end]) - 1;
    return best[k % 2][count];
}

/* The last stage, which costs as if the first were in it, has every size once. */
static double
choose_tied(const struct stages *stages, unsigned k, size_t chosen[])
{
    size_t tried[PROTO_STAGES_MAX];
    double best = HUGE_VAL, extra = 0;
    for (size_t first = 1; first <= stages->cut_count; first++) {
        extra += stages->cost[first - 1];
        double cost = choose_cuts(stages, first, k - 1, extra, tried + 1);
        if (cost < best) {
            best = cost;
            tried[0] = first - 1;
            memcpy(chosen, tried, (k - 1) * sizeof *chosen);
        }
    }
    return best;
}

double
stages_choose(const struct stages *stages, unsigned k, size_t chosen[])
{
    assert(k >= 1 && k <= PROTO_STAGES_MAX && k <= stages->cut_count + 1);
    return stages->tied && k > 1 ? choose_tied(stages, k, chosen)
                                 : choose_cuts(stages, 0, k, 0, chosen);
}

unsigned
stages_groups(const struct stages *stages, unsigned k)
{
    return stages->tied && k > 1 ? k - 1 : k;
}

void
stages_layers(const struct stages *stages, const struct nn_model *model, unsigned k,
              const size_t chosen[], size_t first[])
{
    first[0] = 0;
    first[k] = nn_layer_count(model);
    for (unsigned stage = 1; stage < k; stage++)
        first[stage] = stages->cut[chosen[k - 1 - stage]].layer;
}

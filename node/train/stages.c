/* stages.c - see stages.h. */
#include "node/train/stages.h"

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

unsigned
stages_groups(const struct stages *stages, unsigned k)
{
    return stages->tied && k > 1 ? k - 1 : k;
}

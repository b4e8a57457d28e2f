/* stages_mesh.c - see stages_mesh.h. */
#include "node/train/stages_mesh.h"

#include <assert.h>

int
stages_mesh_init(struct stages_mesh *out, const struct job *job, const struct config *config)
{
    int rc = job_stages(job, config, &out->stages);
    double all = 0;
    for (size_t k = 0; rc == 0 && k <= out->stages.cut_count; k++)
        all += out->stages.cost[k];
    for (size_t k = 0; rc == 0 && k <= out->stages.cut_count; k++)
        out->cost[k] = (uint64_t)(1e9 * out->stages.cost[k] / all) + 1;
    for (size_t k = 0; rc == 0 && k < out->stages.cut_count; k++) {
        const struct stages_cut *cut = &out->stages.cut[k];
        assert(cut->bucket > 0 && cut->bucket <= UINT16_MAX);
        out->cut[k] = (struct core_cut){(uint16_t)cut->bucket, (uint32_t)cut->words};
    }
    return rc;
}

struct core_stages
stages_mesh_setup(const struct stages_mesh *from, const struct config *config)
{
    const struct stages *stages = &from->stages;
    struct core_stages out = {.count = config->mesh.stages,
                              .schedule = config->mesh.schedule,
                              .cuts = from->cut,
                              .cut_count = stages->cut_count,
                              .cost = from->cost,
                              .tied = stages->tied};
    uint64_t rows = 1, words = 1;
    for (unsigned s = 0; s < config->train.shards; s++) {
        uint64_t of = core_shard_rows(config->train.batch, config->train.shards, s);
        rows = of > rows ? of : rows;
    }
    for (size_t k = 0; k < stages->cut_count; k++)
        words = stages->cut[k].words > words ? stages->cut[k].words : words;
    out.count -= stages->tied; /* of groups: one has the first and the last stage */
    out.item_words = rows * words;
    return out;
}

static size_t
layer_of_cut(const struct stages *stages, struct proto_cut cut)
{
    size_t k = 0;
    while (stages->cut[k].bucket != cut.bucket)
        k++;
    return stages->cut[k].layer;
}

void
stages_mesh_plan(const struct stages_mesh *from, const struct config *config,
                 const struct core_piece *piece, struct mesh *mesh, struct work_stages *out)
{
    const struct proto_plan *plan = piece->plan;
    const struct proto_member *member = &plan->members[piece->rank];
    *out = (struct work_stages){.count = plan->cut_count + 1,
                                .mine = member->computes,
                                .shards = (unsigned)__builtin_popcountll(member->shards),
                                .rule = config->mesh.schedule,
                                .tied = from->stages.tied,
                                .items = (int32_t *)mesh_item(mesh, 0, 0, false)};
    out->item_words = stages_mesh_setup(from, config).item_words;
    for (size_t stage = 1; stage < out->count; stage++)
        out->first[stage] = layer_of_cut(&from->stages, plan->cuts[plan->cut_count - stage]);
}

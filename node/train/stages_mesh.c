/* stages_mesh.c - see stages_mesh.h. */
#include "node/train/stages_mesh.h"

#include <assert.h>

#include "mesh/core/group/plan_stages.h"

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

size_t
stages_mesh_layer(const struct stages_mesh *from, const struct proto_plan *plan, unsigned stage)
{
    size_t k = 0;
    if (stage == 0)
        return 0;
    while (from->stages.cut[k].bucket != plan->cuts[plan->cut_count - stage].bucket)
        k++;
    return from->stages.cut[k].layer;
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
    for (unsigned stage = 1; stage < out->count; stage++)
        out->first[stage] = stages_mesh_layer(from, plan, stage);
}

void
stages_mesh_divide(const struct stages_mesh *from, const struct config *config, unsigned k,
                   size_t nodes, struct proto_plan *plan)
{
    static const struct plan_stages_member equal[PROTO_PEERS_MAX];
    struct core_config core = {.shards = config->train.shards,
                               .stages = stages_mesh_setup(from, config)};
    core.stages.count = k - (k > 1 && from->stages.tied);
    *plan = (struct proto_plan){.count = nodes};
    plan_stages(&core, equal, NULL, plan);
}

/* stages_mesh.c - see stages_mesh.h. */
#include "node/train/stages_mesh.h"

#include <assert.h>

#include "mesh/core/group/plan_stages.h"

/* Words of the largest item: shards of a step, and of the test part. */
static uint64_t
item_words(const struct stages *stages, const struct config *config, uint64_t tested)
{
    uint64_t rows = 1, words = 1;
    for (unsigned s = 0; s < config->train.shards; s++) {
        uint64_t of = core_shard_rows(config->train.batch, config->train.shards, s),
                 test = core_shard_rows(tested, config->train.shards, s);
        rows = of > rows ? of : rows;
        rows = test > rows ? test : rows;
    }
    for (size_t k = 0; k < stages->cut_count; k++)
        words = stages->cut[k].words > words ? stages->cut[k].words : words;
    return rows * words;
}

static void
set_tables(struct stages_mesh *out)
{
    const struct stages *stages = &out->stages;
    double all = 0;
    for (size_t k = 0; k <= stages->cut_count; k++)
        all += stages->cost[k];
    for (size_t k = 0; k <= stages->cut_count; k++)
        out->cost[k] = (uint64_t)(1e9 * stages->cost[k] / all) + 1;
    for (size_t k = 0; k < stages->cut_count; k++) {
        const struct stages_cut *cut = &stages->cut[k];
        assert(cut->bucket > 0 && cut->bucket <= UINT16_MAX);
        out->cut[k] = (struct core_cut){(uint16_t)cut->bucket, (uint32_t)cut->words};
    }
}

int
stages_mesh_init(struct stages_mesh *out, const struct job *job, const struct config *config)
{
    int rc = job_stages(job, config, &out->stages);
    if (rc)
        return rc;
    out->layers = nn_layer_count(job->model);
    set_tables(out);
    stages_segments(&out->stages, job->model, &out->segments);
    out->core = (struct core_stages){
        .count = stages_groups(&out->stages, config->mesh.stages),
        .schedule = config->mesh.schedule,
        .cuts = out->cut,
        .cut_count = out->stages.cut_count,
        .cost = out->cost,
        .tied = out->stages.tied,
        .shard_rows = (config->train.batch + config->train.shards - 1) / config->train.shards,
        .item_words = item_words(&out->stages, config, data_info(job->data)->test)};
    return 0;
}

void
stages_mesh_spans(struct stages_mesh *out, const struct state *state)
{
    const struct state_stages *segments = &out->segments;
    size_t count = 0;
    if (segments->count == 1)
        return;
    out->span[count++] =
        (struct core_span){0, state_part(state, 0, &segments->stage[0]).offset, CORE_ALL_HOLD};
    for (size_t vector = 0; vector <= state->slot_count + 1; vector++)
        for (size_t s = 0; s < segments->count; s++) {
            struct state_extent part = state_part(state, vector, &segments->stage[s]);
            out->span[count++] = (struct core_span){part.offset, part.size, (int)s};
        }
    out->core.spans = out->span;
    out->core.span_count = count;
}

size_t
stages_mesh_ranges(const struct stages_mesh *from, uint64_t segments,
                   struct state_range range[PROTO_STAGES_MAX])
{
    size_t count = 0;
    for (size_t s = 0; s < from->segments.count; s++)
        if (segments >> s & 1)
            range[count++] = from->segments.stage[s];
    return count;
}

uint64_t
stages_mesh_held(const struct stages_mesh *from, const struct state *state)
{
    uint64_t held = 0;
    for (size_t s = 0; s < from->segments.count; s++)
        held |= (uint64_t)state_holds(state, &from->segments.stage[s]) << s;
    return held;
}

/* The number of the cut below a stage of the plan, which is not the first. */
static size_t
cut_of(const struct stages_mesh *from, const struct proto_plan *plan, size_t stage)
{
    size_t k = 0;
    while (from->stages.cut[k].bucket != plan->cuts[plan->cut_count - stage].bucket)
        k++;
    return k;
}

size_t
stages_mesh_layer(const struct stages_mesh *from, const struct proto_plan *plan, unsigned stage)
{
    if (stage > plan->cut_count)
        return from->layers;
    return stage > 0 ? from->stages.cut[cut_of(from, plan, stage)].layer : 0;
}

void
stages_mesh_params(const struct stages_mesh *from, const struct proto_plan *plan,
                   struct state_stages *out)
{
    const struct state_stages *segments = &from->segments;
    *out = (struct state_stages){.count = plan->cut_count + 1};
    for (size_t s = 1; s < out->count; s++)
        out->stage[s].first = out->stage[s - 1].end =
            segments->stage[from->stages.cut_count - cut_of(from, plan, s)].first;
    out->stage[out->count - 1].end = segments->stage[segments->count - 1].end;
}

bool
stages_mesh_whole(const struct stages_mesh *from, const struct proto_plan *plan)
{
    bool whole = true;
    for (size_t m = 0; m < plan->count; m++)
        whole = whole && plan->members[m].holds == core_segments(&from->core);
    return whole;
}

uint64_t
stages_mesh_speaks(const struct proto_plan *plan, unsigned rank)
{
    uint64_t speaks = 0;
    for (unsigned stage = 0; stage <= plan->cut_count; stage++) {
        unsigned first = 0;
        while (first < rank && !proto_plan_computes(plan, first, stage))
            first++;
        if (first == rank && proto_plan_computes(plan, rank, stage))
            speaks |= UINT64_C(1) << stage;
    }
    return speaks;
}

void
stages_mesh_plan(const struct stages_mesh *from, const struct core_piece *piece, struct mesh *mesh,
                 struct work_stages *out)
{
    const struct proto_plan *plan = piece->plan;
    const struct proto_member *member = &plan->members[piece->rank];
    *out = (struct work_stages){.count = plan->cut_count + 1,
                                .mine = member->computes,
                                .shards = (unsigned)__builtin_popcountll(member->shards),
                                .rule = from->core.schedule,
                                .tied = from->stages.tied,
                                .items = (int32_t *)mesh_item(mesh, 0, 0, false),
                                .item_words = from->core.item_words};
    for (unsigned stage = 1; stage < out->count; stage++)
        out->first[stage] = stages_mesh_layer(from, plan, stage);
}

void
stages_mesh_divide(const struct stages_mesh *from, unsigned shards, unsigned k, size_t nodes,
                   struct proto_plan *plan)
{
    static struct placement_room room;
    struct plan_stages_member equal[PROTO_PEERS_MAX];
    struct core_config core = {.shards = shards, .stages = from->core};
    for (size_t m = 0; m < nodes; m++)
        equal[m] = (struct plan_stages_member){.holds = UINT64_MAX};
    core.stages.count = stages_groups(&from->stages, k);
    *plan = (struct proto_plan){.count = nodes};
    bool covers = plan_stages(&core, equal, NULL, &room, plan);
    assert(covers);
    (void)covers;
}

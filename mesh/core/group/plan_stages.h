/* plan_stages.h - the leader: where the next plan cuts the model, and who computes which stages.
 *
 * The members are divided into groups, as many as config.stages says, or as there are members. A group computes one stage, and
 * its members divide the shards among them. If the first and the last layers share a weight, the group of the first stage
 * computes the last one, too.
 *
 * Groups are about equally fast: the fastest member that has none yet goes to the slowest group. The cuts make the longest time
 * of a group as short as the legal ones allow: the smallest limit is searched for under which stages, filled from the input on,
 * take all layers.
 *
 * If a plan broke in the middle of a round, the members keep their stages, as they have computed something of them; stages
 * that nobody has left go to the group that is done first, and newcomers to the one that is done last. The next plan, between
 * two rounds, divides anew. Costs are those of core_config; nothing but time depends on them. */
#ifndef MESH_PLAN_STAGES_H
#define MESH_PLAN_STAGES_H

#include "mesh/core/core.h"

struct plan_stages_member {
    uint32_t speed;    /* shards per 1e6 seconds; 0: unknown, then all count as equal */
    uint64_t have;     /* shards of this round that it keeps */
    uint64_t holds;    /* segments; none but these are computed by it */
    uint64_t computes; /* stages of this round that it keeps, of the cuts of `before`; 0: none */
};

/* Sets the cuts of the plan and holds, computes and shards of its `count` members. `before`: whose stages they keep; NULL:
 * the division is a new one. */
void plan_stages(const struct core_config *config, const struct plan_stages_member *member,
                 const struct proto_plan *before, struct proto_plan *plan);
/* Microseconds until the last member has computed its shards of its stages, if none waits. No speed may be 0. */
uint64_t plan_stages_us(const struct core_config *config, const struct plan_stages_member *member,
                        const struct proto_plan *plan);
/* May this plan be followed: legal cuts, and each shard through each stage once? */
bool plan_stages_valid(const struct core_config *config, const struct proto_plan *plan);

#endif

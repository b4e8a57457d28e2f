/* plan_stages.h - the leader: where the next plan cuts the model, and who computes which stages.
 *
 * A new division is placement.h's, by what is known: costs of the layers, speeds and lines of the members, and what
 * each of them holds, in segments: the layers between two legal cuts, numbered from the input on.
 * As many groups compute as are wanted (core_stages.count), or fewer. If what the members hold allows no such division,
 * as it may be after deaths, a plan has as many stages as it needs.
 *
 * If a plan broke in the middle of a round, the members keep their stages, as they have computed something of them;
 * stages that nobody has left go to newcomers that hold them, or to the group that is done first, and other newcomers
 * to the one that is done last. The next plan, between two rounds, divides anew. Nothing but time depends on any of
 * this. Where nothing may change hands (core_state.pinned), kept_divide makes the plan. */
#ifndef MESH_PLAN_STAGES_H
#define MESH_PLAN_STAGES_H

#include "mesh/core/core.h"
#include "mesh/core/pipeline/placement.h"

struct plan_stages_member {
    uint32_t speed;    /* shards per 1e6 seconds; 0: unknown */
    uint32_t line;     /* bytes per second in each direction; 0: it costs no time */
    uint64_t holds;    /* segments, bitmap; all ones: the whole model */
    uint64_t have;     /* shards of this round that it keeps */
    uint64_t computes; /* stages of this round that it keeps, of the cuts of `before`; 0: none */
};

/* Sets the cuts of the plan and holds, computes and shards of its `count` members. `before`: whose stages they keep;
 * NULL: the division is a new one. `room`: NULL: no plan has cuts, as with one stage. False: the members do not hold
 * all segments; the plan is as it was. */
bool plan_stages(const struct core_config *config, const struct plan_stages_member *member,
                 const struct proto_plan *before, struct placement_room *room,
                 struct proto_plan *plan);
/* Microseconds of a step: with cuts as in placement.h, else until the last member has computed its shards. */
uint64_t plan_stages_us(const struct core_config *config, const struct plan_stages_member *member,
                        const struct proto_plan *plan, struct placement_room *room);
/* The segments of the stages that a member computes. */
uint64_t plan_stages_segments(const struct core_stages *stages, const struct proto_plan *plan,
                              size_t rank);
/* May this plan be followed: legal cuts, and each shard through each stage once? */
bool plan_stages_valid(const struct core_config *config, const struct proto_plan *plan);

#endif

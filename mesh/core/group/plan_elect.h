/* plan_elect.h - the election of servers (servers.h) by what the leader knows about the members. */
#ifndef MESH_PLAN_ELECT_H
#define MESH_PLAN_ELECT_H

#include "mesh/core/group/cost.h"
#include "mesh/core/group/plan.h"

/* Writes the duties of the members into the plan. `wanted`: as core_config.servers. Of the cost count the buckets that
 * the next rounds exchange, and a weight says that the member serves now. */
void plan_elect_duties(const struct cost *cost, unsigned wanted, struct proto_plan *plan);
/* The same as plan_elect_duties for the next plan, of these peers, by what was measured so far. */
void plan_elect(const struct plan *plan, const struct core *core, const int *peer,
                struct proto_plan *next);
/* Would servers that are elected now be clearly faster than those of the present plan? */
bool plan_elects_better(const struct plan *plan, const struct core *core);

#endif

/* plan_elect.h - what the leader knows about the members, for the election of servers (servers.h). */
#ifndef MESH_PLAN_ELECT_H
#define MESH_PLAN_ELECT_H

#include "mesh/core/group/plan.h"

/* Writes duties for the members of `draft`, whose nodes and peers are known, by what was measured so far. `draft` may
 * be part of `plan`. */
void plan_elect(const struct plan *plan, const struct core *core, struct plan_draft *draft);
/* Would servers that are elected now be clearly faster than those of the present plan? */
bool plan_elects_better(const struct plan *plan, const struct core *core);

#endif

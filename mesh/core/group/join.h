/* join.h - may this node take part in the plan of another one? */
#ifndef MESH_JOIN_H
#define MESH_JOIN_H

#include "mesh/core/group/plan.h"

/* `draft` has a plan and its hash. True: this node takes part, and who the members are to it is filled in. */
bool join_plan(const struct core *core, struct plan_draft *draft);

#endif

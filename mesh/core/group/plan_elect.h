/* plan_elect.h - what the leader knows about the members, for the election of servers (servers.h). */
#ifndef MESH_PLAN_ELECT_H
#define MESH_PLAN_ELECT_H

#include "mesh/core/group/cost.h"
#include "mesh/core/group/plan.h"

/* What the leader knows about the members; ranks as in the plan. */
struct plan_elect_view {
    struct cost cost; /* without weights; its buckets are those that the next rounds exchange */
    unsigned wanted;  /* as core_config.servers */
    bool serves[PROTO_PEERS_MAX]; /* it did in the plan before */
};

/* Writes the duties of the members into the plan. */
void plan_elect_duties(const struct plan_elect_view *view, struct proto_plan *plan);
/* Writes duties for the members of `draft`, whose nodes and peers are known, by what was measured so far. `draft` may
 * be part of `plan`. */
void plan_elect(const struct plan *plan, const struct core *core, struct plan_draft *draft);
/* Would servers that are elected now be clearly faster than those of the present plan? */
bool plan_elects_better(const struct plan *plan, const struct core *core);

#endif

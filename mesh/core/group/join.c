/* join.c - see join.h. */
#include "mesh/core/group/join.h"

#include <assert.h>

#include "mesh/core/group/group.h"
#include "mesh/core/group/plan_stages.h"
#include "mesh/core/group/servers.h"
#include "mesh/core/internal.h"

/* May this node be in a plan with peers[i], which is no other member? */
static bool
accepts(const struct core *core, const int *peer, unsigned count, int i)
{
    return i >= 0 && !core->view.of[i].suspected && !divergence_excludes(core, i) &&
           !group_has(peer, count, i);
}

/* The leader knows what this node holds from a heartbeat; since then it may have taken more. It would get no sums of
 * that. */
static bool
holds_as_planned(const struct core *core, const struct proto_member *member)
{
    return core->config.stages.cut_count == 0 || member->holds == core->holds;
}

/* Who the members are to us; false when one is unknown, we are not among them, or we hold something else. */
static bool
resolve(const struct core *core, struct plan_draft *draft)
{
    bool me = false;
    for (unsigned k = 0; k < draft->plan.count; k++) {
        struct proto_node node = draft->plan.members[k].node;
        if (proto_node_equal(node, core->config.self)) {
            if (me || !holds_as_planned(core, &draft->plan.members[k]))
                return false;
            me = true;
            draft->rank = k;
            draft->peer[k] = -1;
            continue;
        }
        draft->peer[k] = peers_find(core, node);
        if (!accepts(core, draft->peer, k, draft->peer[k]))
            return false;
    }
    return me;
}

bool
join_plan(const struct core *core, struct plan_draft *draft)
{
    assert(trainer_settled(&core->trainer));
    return !divergence_open(core) && core->fetch.state != FETCH_COMPLETE &&
           plan_stages_valid(&core->config, &draft->plan) && servers_valid(&draft->plan) &&
           resolve(core, draft);
}

/* holders.c - see holders.h. */
#include "mesh/core/rounds/holders.h"

#include <assert.h>

/* Those that hold one of the stages, with the shards that they add for stage `adds`. */
static struct holders
holders_of_stages(const struct proto_plan *plan, uint64_t stages, size_t adds, unsigned rank)
{
    struct holders h = {.complete = plan->complete};
    for (unsigned r = 0; r < plan->count; r++) {
        const struct proto_member *member = &plan->members[r];
        if (!(member->stages & stages))
            continue;
        if (r == rank) {
            h.here = true;
            h.rank = h.n;
            h.mine = proto_plan_computes(plan, r, adds);
        } else {
            h.others |= UINT64_C(1) << r;
        }
        h.of_plan[h.n] = (uint8_t)r;
        h.plan.members[h.n] = *member;
        h.plan.members[h.n++].shards = proto_plan_computes(plan, r, adds);
    }
    h.plan.count = h.n;
    return h;
}

void
holders_plan(struct holders sets[HOLDERS_SETS], const struct proto_plan *plan, unsigned rank)
{
    assert(rank < plan->count && plan->cut_count + 1 < HOLDERS_SETS);
    size_t last = plan->cut_count;
    for (size_t s = 0; s <= last; s++)
        sets[s] = holders_of_stages(plan, UINT64_C(1) << s, s, rank);
    sets[last + 1] = holders_of_stages(plan, UINT64_MAX, last, rank);
}

size_t
holders_stage(const struct proto_plan *plan, size_t bucket)
{
    size_t stage = plan->cut_count;
    for (size_t k = 0; k < plan->cut_count; k++)
        stage -= plan->cuts[k].bucket <= bucket;
    return stage;
}

int
holders_find(const struct holders *h, struct proto_node node)
{
    for (unsigned r = 0; r < h->n; r++)
        if (proto_node_equal(h->plan.members[r].node, node))
            return (int)r;
    return -1;
}

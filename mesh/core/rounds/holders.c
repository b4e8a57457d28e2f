/* holders.c - see holders.h. */
#include "mesh/core/rounds/holders.h"

#include <assert.h>

/* Those that hold one of these segments, with the shards that they add for `stage`. */
static struct holders
holders_of_segments(const struct proto_plan *plan, uint64_t segments, size_t stage, unsigned rank)
{
    struct holders h = {.complete = plan->complete};
    for (unsigned r = 0; r < plan->count; r++) {
        const struct proto_member *member = &plan->members[r];
        if (!(member->holds & segments))
            continue;
        if (r == rank) {
            h.here = true;
            h.rank = h.n;
            h.mine = proto_plan_computes(plan, r, stage);
        } else {
            h.others |= UINT64_C(1) << r;
        }
        h.of_plan[h.n] = (uint8_t)r;
        h.plan.members[h.n] = *member;
        h.plan.members[h.n++].shards = proto_plan_computes(plan, r, stage);
    }
    h.plan.count = h.n;
    return h;
}

void
holders_plan(struct holders sets[HOLDERS_SETS], const struct proto_plan *plan,
             const struct core_stages *stages, unsigned rank)
{
    assert(rank < plan->count && stages->cut_count + 1 < HOLDERS_SETS);
    size_t all = stages->cut_count + 1;
    for (size_t s = 0; s < all; s++)
        sets[s] = holders_of_segments(plan, UINT64_C(1) << s,
                                      proto_plan_stage(plan, core_segment_bucket(stages, s)), rank);
    sets[all] = holders_of_segments(plan, UINT64_MAX, plan->cut_count, rank);
}

int
holders_find(const struct holders *h, struct proto_node node)
{
    for (unsigned r = 0; r < h->n; r++)
        if (proto_node_equal(h->plan.members[r].node, node))
            return (int)r;
    return -1;
}

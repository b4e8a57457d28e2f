/* push_elect.c - which members own ranges.
 *
 * A worker reads every range and pushes to every one, so the slowest owner has all wait. Who takes much longer for a ticket
 * than the fastest member is elected last. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push.h"

enum {
    SLOW_IN =
        2, /* a member that owns nothing is slow if its tickets take more than twice as long, */
    SLOW_OUT = 3, /* and one that owns ranges, if three times: a small difference changes nothing */
};

/* Does it own ranges, or may it in its first group? */
static bool
served(const struct push *push, struct proto_node node)
{
    for (unsigned r = 0; r < push->group.count; r++)
        if (core_node_equal(push->group.seats[r].node, node))
            return push->group.seats[r].serves;
    return true;
}

static uint64_t
fastest(const uint64_t *us, size_t count)
{
    uint64_t least = 0;
    for (size_t m = 0; m < count; m++)
        if (us[m] && (least == 0 || us[m] < least))
            least = us[m];
    return least;
}

/* The first ones in an order by hash, so that few change when a member comes or goes; slow ones behind all others. */
void
push_elect(const struct push *push, const struct core *core, struct proto_group *group)
{
    uint64_t us[PROTO_PEERS_MAX], order[PROTO_PEERS_MAX];
    size_t most = 0;
    for (size_t m = 0; m < group->count; m++)
        us[m] = push_ticket_us(push, core_node_equal(group->seats[m].node, core->config.self),
                               peers_find(core, group->seats[m].node));
    uint64_t least = fastest(us, group->count);
    for (size_t m = 0; m < group->count; m++) {
        struct proto_node node = group->seats[m].node;
        bool slow = us[m] > (served(push, node) ? SLOW_OUT : SLOW_IN) * least;
        order[m] = mix64(node.id) >> 1 | (uint64_t)!slow << 63;
        most += !slow;
    }
    assert(group->count == 0 || most > 0);
    most = push->config.servers ? push->config.servers : most;
    for (size_t a = 0; a < group->count; a++) {
        size_t before = 0;
        for (size_t b = 0; b < group->count; b++)
            before += order[b] > order[a];
        group->seats[a].serves = before < most;
    }
}

/* Now and then the leader looks whether others are to own the ranges. */
bool
push_elect_due(struct push *push, const struct core *core)
{
    if (!push->leads || !push_group_stands(push) || push->work != PUSH_WORKING ||
        push->leases.hold || !awake_reached(core->awake, push->elect_at))
        return false;
    struct proto_group group = push->group;
    push_elect(push, core, &group);
    bool same = proto_group_hash(&group) == push->group_hash;
    push->elect_at = awake_after(core->awake, same ? PUSH_ELECT_US : PUSH_ELECT_AGAIN_US);
    return !same;
}

bool
push_elect_loses(const struct push *push, uint64_t stay, uint64_t there)
{
    for (unsigned k = 0; k < push->config.range_count; k++) {
        uint64_t before = push->range[k].base_before, served = push->range[k].base_served;
        if ((!(before & stay) && (before & there)) || (!(served & stay) && (served & there)))
            return true;
    }
    return false;
}

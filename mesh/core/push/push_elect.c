/* push_elect.c - which members own ranges.
 *
 * A worker reads every range and pushes to every one, so the slowest owner has all wait. Who is on a slow line, or takes much
 * longer for a ticket than the fastest member on another one, is elected last. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push/push.h"

enum {
    SLOW_IN =
        2, /* a member that owns nothing is slow if its tickets take more than twice as long, */
    SLOW_OUT = 3, /* and one that owns ranges, if three times: a small difference changes nothing */
    SLOW_LINE_US = 5000, /* a line is slow if it costs so much beside that */
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

/* Is the time of a member much above the least one? 0: nobody knows, so no. */
static bool
slow(const struct push *push, struct proto_node node, uint64_t us, uint64_t least)
{
    return us > (served(push, node) ? SLOW_OUT : SLOW_IN) * least;
}

/* Bitmap of ranks. One on a fast line is never slow: of those the fastest. */
static uint64_t
slow_ones(const struct push *push, const struct core *core, const struct proto_group *group)
{
    uint64_t line[PROTO_PEERS_MAX], ticket[PROTO_PEERS_MAX], all = 0;
    for (size_t m = 0; m < group->count; m++) {
        bool self = core_node_equal(group->seats[m].node, core->config.self);
        int i = peers_find(core, group->seats[m].node);
        line[m] = push_line_us(push, self, i);
        ticket[m] = push_ticket_us(push, self, i);
    }
    uint64_t least = fastest(line, group->count);
    for (size_t m = 0; m < group->count; m++) {
        if (line[m] <= least + SLOW_LINE_US || !slow(push, group->seats[m].node, line[m], least))
            continue;
        all |= UINT64_C(1) << m;
        ticket[m] = 0;
    }
    least = fastest(ticket, group->count);
    for (size_t m = 0; m < group->count; m++)
        all |= (uint64_t)slow(push, group->seats[m].node, ticket[m], least) << m;
    return all;
}

/* The first ones in an order by hash, so that few change when a member comes or goes; slow ones behind all others. */
void
push_elect(const struct push *push, const struct core *core, struct proto_group *group)
{
    uint64_t order[PROTO_PEERS_MAX], bad = slow_ones(push, core, group);
    size_t most = 0;
    for (size_t m = 0; m < group->count; m++) {
        bool good = !(bad >> m & 1);
        order[m] = mix64(group->seats[m].node.id) >> 1 | (uint64_t)good << 63;
        most += good;
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

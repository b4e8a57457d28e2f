/* plan_elect.c - see plan_elect.h. The rate of a line is the bytes that the plan before sent along it, over the time that its
 * chunks were under way. A member whose best line is slow has a slow line itself. */
#include "mesh/core/group/plan_elect.h"

#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/rounds/servers.h"

enum {
    LAG_US = 2000,  /* a line whose chunks take less than this in a round is fast */
    GAIN = 5,       /* quarters: other servers must be 5/4 as fast */
    GAIN_US = 5000, /* and must save this much per round */
};

/* How the bytes of a round travel under a plan. */
struct traffic {
    uint64_t ring, star; /* bytes of the buckets that go so */
    uint64_t weights;    /* of all servers */
};

static struct traffic
traffic_of(const struct core *core, const struct proto_plan *plan)
{
    struct traffic all = {0};
    for (size_t b = 0; b < core->config.bucket_count; b++) {
        uint64_t bytes = core->buckets[b].count * sizeof(int32_t);
        if (servers_take(plan, bytes))
            all.star += bytes;
        else if (bytes > core->config.direct_bytes)
            all.ring += bytes;
    }
    for (size_t m = 0; m < plan->count; m++)
        all.weights += servers_unpack(plan->members[m].duties).weight;
    return all;
}

/* Bytes from one member to another in a round. */
static uint64_t
bytes_between(const struct proto_plan *plan, const struct traffic *all, size_t from, size_t to)
{
    uint64_t n = plan->count, bytes = 0;
    if ((from + 1) % n == to)
        bytes += 2 * (n - 1) * (all->ring / n);
    if (all->weights > 0)
        bytes += all->star / all->weights *
                 (servers_unpack(plan->members[from].duties).weight +
                  servers_unpack(plan->members[to].duties).weight);
    return bytes;
}

/* Time that the chunks of member `from` take to member `to`, by their index in peers. */
static uint32_t
lag_between(const struct core *core, int from, int to)
{
    if (to < 0)
        return core->straggler.of[from].lag.us;
    return core->view.of[to].lag_us[from < 0 ? PEERS_MAX : from];
}

/* Is the member still the peer that it was when the plan began? */
static bool
still_there(const struct plan *plan, const struct core *core, size_t m)
{
    int i = plan->peer[m];
    return i < 0 || core_node_equal(core->peers.peers[i].node, plan->now.members[m].node);
}

enum line { LINE_UNKNOWN, LINE_FAST, LINE_SLOW };

/* What is known of the line between two members of the present plan; `rate` in bytes per ms, of its slower
 * direction. */
static enum line
line_between(const struct plan *plan, const struct core *core, const struct traffic *all, size_t a,
             size_t b, uint32_t *rate)
{
    const size_t ends[2][2] = {{a, b}, {b, a}};
    enum line line = LINE_UNKNOWN;
    for (int d = 0; d < 2 && still_there(plan, core, a) && still_there(plan, core, b); d++) {
        uint64_t bytes = bytes_between(&plan->now, all, ends[d][0], ends[d][1]);
        uint32_t lag_us = lag_between(core, plan->peer[ends[d][0]], plan->peer[ends[d][1]]);
        if (bytes == 0 || lag_us == 0)
            continue;
        uint64_t its = bytes * 1000 / lag_us;
        its = its > UINT32_MAX ? UINT32_MAX : its < 1 ? 1 : its;
        if (lag_us < LAG_US)
            line = line == LINE_UNKNOWN ? LINE_FAST : line;
        else if (line != LINE_SLOW || its < *rate)
            line = LINE_SLOW, *rate = (uint32_t)its;
    }
    return line;
}

/* The rate of a member of the present plan: that of its best line. */
static uint32_t
rate_of(const struct plan *plan, const struct core *core, const struct traffic *all, size_t m)
{
    uint32_t best = 0, rate = 0;
    for (size_t k = 0; k < plan->now.count; k++) {
        enum line line = k == m ? LINE_UNKNOWN : line_between(plan, core, all, m, k, &rate);
        if (line == LINE_FAST)
            return 0;
        if (line == LINE_SLOW && rate > best)
            best = rate;
    }
    return best;
}

/* The rank in the last plan of a member of the next one; plan->now.count: it was none. */
static size_t
rank_before(const struct plan *plan, struct proto_node node)
{
    size_t m = 0;
    while (m < plan->now.count && !core_node_equal(plan->now.members[m].node, node))
        m++;
    return m;
}

static void
view_of(const struct plan *plan, const struct core *core, const struct plan_draft *draft,
        struct servers_view *view)
{
    *view = (struct servers_view){.n = draft->plan.count,
                                  .wanted = core->config.servers,
                                  .chunk_elems = core->config.chunk_elems,
                                  .direct_bytes = core->config.direct_bytes};
    struct traffic all = traffic_of(core, &plan->now);
    for (size_t m = 0; m < draft->plan.count; m++) {
        int i = draft->peer[m];
        size_t before = rank_before(plan, draft->plan.members[m].node);
        view->speed[m] = i < 0 ? core->contribution.speed : core->view.of[i].beat.speed;
        if (before == plan->now.count)
            continue;
        view->rate[m] = rate_of(plan, core, &all, before);
        view->serves[m] = plan->now.members[before].duties != 0;
    }
}

void
plan_elect(const struct plan *plan, const struct core *core, struct plan_draft *draft)
{
    struct servers_view view;
    assert(draft->plan.count > 0);
    if (core->config.servers == 0 || draft->plan.count == 1)
        return;
    view_of(plan, core, draft, &view);
    servers_elect(&view, &draft->plan);
}

/* Predicted time of the sums of a round under a plan. */
static uint64_t
predict_us(const struct core *core, const struct servers_view *view, const struct proto_plan *plan)
{
    uint64_t all_us = 0;
    for (size_t b = core->first_bucket; b < core->config.bucket_count; b++) {
        uint64_t bytes = core->buckets[b].count * sizeof(int32_t);
        if (servers_take(plan, bytes))
            all_us += servers_star_us(view, plan, bytes);
        else if (bytes > core->config.direct_bytes)
            all_us += servers_ring_us(view, bytes);
    }
    return all_us;
}

bool
plan_elects_better(const struct plan *plan, const struct core *core)
{
    struct servers_view view;
    struct plan_draft draft = {.plan = plan->now, .hash = plan->hash, .rank = plan->rank};
    if (core->config.servers == 0 || plan->now.count < 2)
        return false;
    memcpy(draft.peer, plan->peer, sizeof draft.peer);
    view_of(plan, core, &draft, &view);
    servers_elect(&view, &draft.plan);
    uint64_t now_us = predict_us(core, &view, &plan->now);
    uint64_t then_us = predict_us(core, &view, &draft.plan);
    return 4 * now_us > GAIN * then_us && now_us > then_us + GAIN_US;
}

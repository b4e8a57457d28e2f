/* plan_elect.c - see plan_elect.h. */
#include "mesh/core/group/plan_elect.h"

#include <assert.h>

#include "mesh/core/group/cost.h"
#include "mesh/core/group/servers.h"
#include "mesh/core/internal.h"

/* The share of `most`, in sixteenths; what is unknown counts as the most. */
static unsigned
share_of_best(uint32_t value, uint32_t most)
{
    if (value == 0 || value >= most)
        return SERVERS_WEIGHT_MAX;
    uint64_t part = ((uint64_t)SERVERS_WEIGHT_MAX * value + most / 2) / most;
    return part < 1 ? 1 : (unsigned)part;
}

/* No line counts as faster than a usual one. */
static unsigned
weigh(const struct cost *cost, size_t m)
{
    uint32_t speed = 0, line = 0;
    for (size_t k = 0; k < cost->n; k++) {
        speed = cost->of[k].speed > speed ? cost->of[k].speed : speed;
        line = cost->of[k].line > line ? cost->of[k].line : line;
    }
    unsigned by_speed = share_of_best(cost->of[m].speed, speed);
    unsigned by_line = share_of_best(cost->of[m].line, line < COST_LAN ? line : COST_LAN);
    return by_speed < by_line ? by_speed : by_line;
}

/* The next server: of those with the highest weight one that already serves. */
static size_t
best_of(const struct plan_elect_view *view, const unsigned *weight, const bool *chosen)
{
    size_t best = view->cost.n;
    for (size_t m = 0; m < view->cost.n; m++) {
        if (chosen[m])
            continue;
        bool more = best == view->cost.n || weight[m] > weight[best];
        bool stays = best < view->cost.n && weight[m] == weight[best] && view->serves[m];
        if (more || (stays && !view->serves[best]))
            best = m;
    }
    return best;
}

static void
set_duties(struct proto_plan *plan, size_t n, const unsigned *weight, const bool *chosen,
           struct servers_duty duty)
{
    for (size_t m = 0; m < n; m++) {
        duty.weight = chosen[m] ? weight[m] : 0;
        plan->members[m].duties = servers_pack(duty);
    }
}

/* log2, rounded up. */
static unsigned
log2_of(uint64_t bytes)
{
    unsigned log2 = 0;
    while (log2 < SERVERS_SIZE_MAX && UINT64_C(1) << log2 < bytes)
        log2++;
    return log2;
}

static struct cost
cost_with_duties(const struct plan_elect_view *view, const struct proto_plan *plan)
{
    struct cost cost = view->cost;
    for (size_t m = 0; m < cost.n; m++) {
        struct servers_duty duty = servers_unpack(plan->members[m].duties);
        cost.of[m].weight = duty.weight;
        if (duty.weight > 0) {
            cost.above = UINT64_C(1) << duty.above;
            cost.upto = UINT64_C(1) << duty.upto;
        }
    }
    return cost;
}

static uint64_t
sums_us(const struct plan_elect_view *view, const struct proto_plan *plan)
{
    struct cost cost = cost_with_duties(view, plan);
    return cost_sums_us(&cost);
}

/* The largest size up to which servers take less time than the ring. */
static unsigned
auto_upto(const struct plan_elect_view *view, const struct proto_plan *plan, unsigned above)
{
    struct cost cost = cost_with_duties(view, plan);
    unsigned upto = above;
    while (upto < SERVERS_AUTO_MAX &&
           cost_star_us(&cost, UINT64_C(2) << upto) < cost_ring_us(&cost, UINT64_C(2) << upto))
        upto++;
    return upto;
}

void
plan_elect_duties(const struct plan_elect_view *view, struct proto_plan *plan)
{
    size_t n = view->cost.n;
    unsigned weight[PROTO_PEERS_MAX] = {0};
    bool chosen[PROTO_PEERS_MAX] = {false}, none[PROTO_PEERS_MAX] = {false};
    struct servers_duty duty = {.above = 0, .upto = SERVERS_SIZE_MAX};
    assert(n == plan->count);
    for (size_t m = 0; m < n; m++)
        weight[m] = weigh(&view->cost, m);
    for (size_t k = 0; k < n && k < view->wanted; k++)
        chosen[best_of(view, weight, chosen)] = true;
    set_duties(plan, n, weight, chosen, duty);
    if (view->wanted != CORE_SERVERS_AUTO)
        return;
    duty.above = log2_of(view->cost.direct_bytes);
    duty.upto = n > 2 ? auto_upto(view, plan, duty.above) : duty.above;
    set_duties(plan, n, weight, duty.upto > duty.above ? chosen : none, duty);
}

static void
elect_view(const struct plan *plan, const struct core *core, const struct plan_draft *draft,
           struct plan_elect_view *view)
{
    struct cost_view known;
    straggler_see(&core->straggler, core, draft->plan.count, draft->peer, &known);
    *view = (struct plan_elect_view){.wanted = core->config.servers, .cost = known.cost};
    view->cost.buckets += core->first_bucket;
    view->cost.bucket_count -= core->first_bucket;
    for (size_t m = 0; m < draft->plan.count; m++) {
        int before = proto_plan_rank(&plan->now, draft->plan.members[m].node);
        view->serves[m] = before >= 0 && plan->now.members[before].duties != 0;
    }
}

void
plan_elect(const struct plan *plan, const struct core *core, struct plan_draft *draft)
{
    struct plan_elect_view view;
    assert(draft->plan.count > 0);
    if (core->config.servers == 0 || draft->plan.count == 1)
        return;
    elect_view(plan, core, draft, &view);
    plan_elect_duties(&view, &draft->plan);
}

bool
plan_elects_better(const struct plan *plan, const struct core *core)
{
    struct plan_elect_view view;
    struct plan_draft draft = {.plan = plan->now, .hash = plan->hash, .rank = plan->rank};
    if (core->config.servers == 0 || plan->now.count < 2)
        return false;
    memcpy(draft.peer, plan->peer, sizeof draft.peer);
    elect_view(plan, core, &draft, &view);
    plan_elect_duties(&view, &draft.plan);
    uint64_t now_us = sums_us(&view, &plan->now);
    uint64_t then_us = sums_us(&view, &draft.plan);
    return cost_clearly_less(then_us, now_us);
}

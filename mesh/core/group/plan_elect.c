/* plan_elect.c - see plan_elect.h. */
#include "mesh/core/group/plan_elect.h"

#include <assert.h>

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
static void
weigh_servers(const struct cost *cost, unsigned *weight)
{
    uint32_t speed = 0, line = 0;
    for (size_t m = 0; m < cost->n; m++) {
        speed = cost->of[m].speed > speed ? cost->of[m].speed : speed;
        line = cost->of[m].line > line ? cost->of[m].line : line;
    }
    for (size_t m = 0; m < cost->n; m++) {
        unsigned by_speed = share_of_best(cost->of[m].speed, speed);
        unsigned by_line = share_of_best(cost->of[m].line, line < COST_LAN ? line : COST_LAN);
        weight[m] = by_speed < by_line ? by_speed : by_line;
    }
}

/* The next server: of those with the highest weight one that already serves. */
static size_t
best_of(const struct cost *cost, const unsigned *weight, const bool *chosen)
{
    size_t best = cost->n;
    for (size_t m = 0; m < cost->n; m++) {
        if (chosen[m])
            continue;
        bool more = best == cost->n || weight[m] > weight[best];
        bool stays = best < cost->n && weight[m] == weight[best] && cost->of[m].weight;
        if (more || (stays && !cost->of[best].weight))
            best = m;
    }
    return best;
}

static void
set_duties(struct proto_plan *plan, const unsigned *weight, const bool *chosen,
           struct servers_duty duty)
{
    for (size_t m = 0; m < plan->count; m++) {
        duty.weight = chosen[m] ? weight[m] : 0;
        plan->members[m].duties = servers_pack(duty);
    }
}

static struct cost
cost_with_duties(const struct cost *cost, const struct proto_plan *plan)
{
    struct cost with = *cost;
    for (size_t m = 0; m < with.n; m++) {
        struct servers_duty duty = servers_unpack(plan->members[m].duties);
        with.of[m].weight = duty.weight;
        if (duty.weight > 0) {
            with.above = UINT64_C(1) << duty.above;
            with.upto = UINT64_C(1) << duty.upto;
        }
    }
    return with;
}

/* The largest size up to which servers take less time than the ring. */
static unsigned
auto_upto(const struct cost *cost, const struct proto_plan *plan, unsigned above)
{
    struct cost with = cost_with_duties(cost, plan);
    unsigned upto = above;
    while (upto < SERVERS_AUTO_MAX &&
           cost_star_us(&with, UINT64_C(2) << upto) < cost_ring_us(&with, UINT64_C(2) << upto))
        upto++;
    return upto;
}

void
plan_elect_duties(const struct cost *cost, unsigned wanted, struct proto_plan *plan)
{
    unsigned weight[PROTO_PEERS_MAX] = {0};
    bool chosen[PROTO_PEERS_MAX] = {false};
    struct servers_duty duty = {.above = 0, .upto = SERVERS_SIZE_MAX};
    assert(cost->n == plan->count);
    weigh_servers(cost, weight);
    for (size_t k = 0; k < cost->n && k < wanted; k++)
        chosen[best_of(cost, weight, chosen)] = true;
    set_duties(plan, weight, chosen, duty);
    if (wanted != CORE_SERVERS_AUTO)
        return;
    while (UINT64_C(1) << duty.above < cost->direct_bytes)
        duty.above++;
    duty.upto = cost->n > 2 ? auto_upto(cost, plan, duty.above) : duty.above;
    if (duty.upto <= duty.above)
        memset(chosen, 0, sizeof chosen);
    set_duties(plan, weight, chosen, duty);
}

static struct cost
elect_cost(const struct plan *plan, const struct core *core, const int *peer,
           const struct proto_plan *next)
{
    struct cost_view known;
    straggler_see(&core->straggler, core, next->count, peer, &known);
    known.cost.buckets += core->first_bucket;
    known.cost.bucket_count -= core->first_bucket;
    for (size_t m = 0; m < next->count; m++) {
        int before = proto_plan_rank(&plan->now, next->members[m].node);
        known.cost.of[m].weight = before >= 0 && plan->now.members[before].duties;
    }
    return known.cost;
}

void
plan_elect(const struct plan *plan, const struct core *core, const int *peer,
           struct proto_plan *next)
{
    assert(next->count > 0);
    if (core->config.servers == 0 || next->count == 1)
        return;
    struct cost cost = elect_cost(plan, core, peer, next);
    plan_elect_duties(&cost, core->config.servers, next);
}

bool
plan_elects_better(const struct plan *plan, const struct core *core)
{
    struct proto_plan next = plan->now;
    if (core->config.servers == 0 || next.count < 2)
        return false;
    struct cost cost = elect_cost(plan, core, plan->peer, &next);
    plan_elect_duties(&cost, core->config.servers, &next);
    struct cost now = cost_with_duties(&cost, &plan->now), then = cost_with_duties(&cost, &next);
    return cost_clearly_less(cost_sums_us(&then), cost_sums_us(&now));
}

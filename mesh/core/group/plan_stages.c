/* plan_stages.c - see plan_stages.h. Segments are the layers between two legal cuts, here counted from the input on. */
#include "mesh/core/group/plan_stages.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/group/cost.h"
#include "mesh/core/mutant.h"
#include "proto/bits.h"

enum { SEARCH = 40 }; /* halvings of the limit */

struct division {
    const struct core_config *config;
    const struct plan_stages_member *member;
    struct proto_plan *plan;
    size_t groups, segments, stages;
    double speed[PROTO_PEERS_MAX];      /* of a group */
    uint64_t computes[PROTO_PEERS_MAX]; /* stages of a group */
    size_t group_of[PROTO_PEERS_MAX];   /* of a member */
    size_t taken[PROTO_STAGES_MAX];     /* segments of a stage */
};

/* --- Costs ---------------------------------------------------------------------------------------- */

static double
segment_cost(const struct core_config *config, size_t segment)
{
    return (double)config->stages.cost[config->stages.cut_count - segment];
}

static double
all_cost(const struct core_config *config)
{
    double all = 0;
    for (size_t k = 0; k <= config->stages.cut_count; k++)
        all += segment_cost(config, k);
    return all > 0 ? all : 1;
}

/* Of the stages in a bitmap. */
static double
stages_cost(const struct core_config *config, const struct proto_plan *plan, uint64_t stages)
{
    double cost = 0;
    for (size_t segment = 0, stage = 0; segment <= config->stages.cut_count; segment++) {
        cost += stages >> stage & 1 ? segment_cost(config, segment) : 0;
        size_t above =
            config->stages.cut_count - segment; /* the legal cuts below it, from the output on */
        if (stage < plan->cut_count && above > 0 &&
            plan->cuts[plan->cut_count - 1 - stage].bucket == config->stages.cuts[above - 1].bucket)
            stage++;
    }
    return cost;
}

/* --- Groups --------------------------------------------------------------------------------------- */

static double
speed_of(const struct division *d, size_t m)
{
    bool known = !d->config->even;
    for (size_t k = 0; k < d->plan->count; k++)
        known = known && d->member[k].speed > 0;
    return known ? (double)d->member[m].speed : 1;
}

static void
group_join(struct division *d, size_t m, size_t group)
{
    d->group_of[m] = group;
    d->speed[group] += speed_of(d, m);
}

/* The fastest member that is in no group yet. */
static size_t
fastest_left(const struct division *d)
{
    size_t best = d->plan->count;
    for (size_t m = 0; m < d->plan->count; m++)
        if (d->group_of[m] == SIZE_MAX &&
            (best == d->plan->count || speed_of(d, m) > speed_of(d, best)))
            best = m;
    return best;
}

static void
groups_new(struct division *d)
{
    for (size_t k = 0; k < d->plan->count; k++) {
        size_t slowest = 0;
        for (size_t g = 1; g < d->groups; g++)
            slowest = d->speed[g] < d->speed[slowest] ? g : slowest;
        group_join(d, fastest_left(d), slowest);
    }
}

/* --- Cuts ----------------------------------------------------------------------------------------- */

/* Fills a stage from `segment` on, up to a limit, but leaves one for each of `after` more. Returns how many; 0: it cannot. */
static size_t
fill_stage(const struct division *d, size_t segment, size_t after, double limit)
{
    size_t count = 0;
    while (segment + count + after < d->segments) {
        double cost = segment_cost(d->config, segment + count);
        if (cost > limit)
            break;
        limit -= cost;
        count++;
    }
    return count;
}

/* If the first stage has `first` segments. */
static bool
fill_stages(struct division *d, size_t first, double limit)
{
    double rest = limit * d->speed[0];
    size_t at = first;
    d->taken[0] = first;
    for (size_t k = 0; k < first; k++)
        rest -= segment_cost(d->config, k);
    for (size_t g = 1; g < d->groups; g++) {
        d->taken[g] = fill_stage(d, at, d->stages - 1 - g, limit * d->speed[g]);
        if (d->taken[g] == 0)
            return false;
        at += d->taken[g];
    }
    if (d->stages > d->groups) { /* the last one is the first group's */
        d->taken[d->groups] = d->segments - at;
        for (; at < d->segments; at++)
            rest -= segment_cost(d->config, at);
    }
    return at == d->segments && rest >= 0;
}

static bool
cuts_fit(struct division *d, double limit)
{
    for (size_t first = 1; first + d->stages <= d->segments + 1; first++)
        if (fill_stages(d, first, limit))
            return true;
    return false;
}

static void
choose_cuts(struct division *d)
{
    double low = 0, high = 0;
    for (size_t g = 0; g < d->groups; g++)
        if (high == 0 || d->speed[g] < high)
            high = d->speed[g];
    high = 2 * all_cost(d->config) / high;
    for (int k = 0; k < SEARCH; k++) {
        double middle = (low + high) / 2;
        if (cuts_fit(d, middle))
            high = middle;
        else
            low = middle;
    }
    bool found = cuts_fit(d, high);
    assert(found);
    (void)found;
    d->plan->cut_count = d->stages - 1;
    for (size_t stage = 0, at = 0; stage + 1 < d->stages; stage++) {
        at += d->taken[stage];
        d->plan->cuts[d->stages - 2 - stage].bucket =
            d->config->stages.cuts[d->config->stages.cut_count - at].bucket;
    }
    for (size_t g = 0; g < d->groups; g++)
        d->computes[g] = UINT64_C(1) << g;
    if (d->stages > d->groups)
        d->computes[0] |= UINT64_C(1) << d->groups;
}

/* --- Stages that are kept -------------------------------------------------------------------------- */

/* The group that needs most or least time for its stages. */
static size_t
group_by_time(const struct division *d, bool most)
{
    size_t best = 0;
    double best_us = 0;
    for (size_t g = 0; g < d->groups; g++) {
        double us = stages_cost(d->config, d->plan, d->computes[g]) / d->speed[g];
        if (g == 0 || (most ? us > best_us : us < best_us)) {
            best = g;
            best_us = us;
        }
    }
    return best;
}

/* Stages that nobody has left. The first and the last one stay together if they share a weight. */
static void
stages_give(struct division *d, uint64_t kept)
{
    uint64_t one = 1, ends = one | one << d->plan->cut_count;
    for (size_t stage = 0; stage <= d->plan->cut_count; stage++) {
        uint64_t given = one << stage;
        if (d->config->stages.tied && (given & ends))
            given = ends;
        if (!(kept >> stage & 1))
            d->computes[group_by_time(d, false)] |= given;
        kept |= given;
    }
}

/* Members with the same stages are a group. False: nobody has any. */
static bool
groups_kept(struct division *d, const struct proto_plan *before)
{
    uint64_t kept = 0;
    d->groups = 0;
    memcpy(d->plan->cuts, before->cuts, sizeof before->cuts);
    d->plan->cut_count = before->cut_count;
    for (size_t m = 0; m < d->plan->count; m++) {
        size_t g = 0;
        if (!d->member[m].computes)
            continue;
        while (g < d->groups && d->computes[g] != d->member[m].computes)
            g++;
        d->computes[g] = d->member[m].computes;
        d->groups += g == d->groups;
        kept |= d->computes[g];
        group_join(d, m, g);
    }
    if (d->groups == 0)
        return false;
    stages_give(d, kept);
    for (size_t m = 0; m < d->plan->count; m++)
        if (d->group_of[m] == SIZE_MAX)
            group_join(d, m, group_by_time(d, true));
    return true;
}

/* --- The plan -------------------------------------------------------------------------------------- */

/* The shards of a group among its members. */
static void
group_divide(struct division *d, size_t group, uint64_t all)
{
    uint64_t have[PROTO_PEERS_MAX], shards[PROTO_PEERS_MAX] = {0};
    uint32_t speed[PROTO_PEERS_MAX];
    size_t of[PROTO_PEERS_MAX], n = 0;
    for (size_t m = 0; m < d->plan->count; m++) {
        if (d->group_of[m] != group)
            continue;
        have[n] = d->member[m].have;
        speed[n] = d->config->even ? 0 : d->member[m].speed;
        of[n++] = m;
    }
    cost_divide(all, n, have, speed, shards);
    for (size_t k = 0; k < n; k++) {
        struct proto_member *member = &d->plan->members[of[k]];
        member->shards = shards[k];
        member->computes = d->computes[group];
        member->holds = d->member[of[k]].holds & core_segments(&d->config->stages);
    }
}

static size_t
groups_wanted(const struct core_config *config, size_t members)
{
    size_t groups = config->stages.count > 0 ? config->stages.count : 1,
           most = config->stages.cut_count + 1;
    groups = groups < members ? groups : members;
    if (config->stages.tied)
        most = config->stages.cut_count; /* one more stage than groups */
    groups = groups < most ? groups : most;
    return groups > 0 ? groups : 1;
}

void
plan_stages(const struct core_config *config, const struct plan_stages_member *member,
            const struct proto_plan *before, struct proto_plan *plan)
{
    struct division d = {.config = config, .member = member, .plan = plan};
    d.groups = groups_wanted(config, plan->count);
    d.segments = config->stages.cut_count + 1;
    d.stages = d.groups + (config->stages.tied && d.groups > 1);
    plan->complete = bits_below(config->shards);
    plan->cut_count = 0;
    for (size_t m = 0; m < plan->count; m++)
        d.group_of[m] = SIZE_MAX;
    if (!before || !groups_kept(&d, before)) {
        groups_new(&d);
        if (d.groups > 1)
            choose_cuts(&d);
        else
            d.computes[0] = 1;
    }
    for (size_t g = 0; g < d.groups; g++)
        group_divide(&d, g, plan->complete);
    if (core_mutant(MUTANT_TWICE) && plan->count > 1)
        plan->members[plan->members[0].shards & 1].shards |= 1; /* shard 0 */
}

uint64_t
plan_stages_us(const struct core_config *config, const struct plan_stages_member *member,
               const struct proto_plan *plan)
{
    uint64_t most = 0;
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t computes = plan->members[m].computes, work = 1000000;
        if (plan->cut_count > 0)
            work = (uint64_t)(1e6 * stages_cost(config, plan, computes) / all_cost(config));
        work *= (uint64_t)__builtin_popcountll(plan->members[m].shards);
        uint64_t us = 1000000 * work / member[m].speed;
        most = us > most ? us : most;
    }
    return most;
}

/* --- Other leaders' -------------------------------------------------------------------------------- */

static bool
cuts_legal(const struct core_config *config, const struct proto_plan *plan)
{
    size_t legal = 0, groups = config->stages.count;
    if (plan->cut_count > 0 && (groups <= 1 || plan->cut_count >= groups + config->stages.tied))
        return false;
    for (size_t k = 0; k < plan->cut_count; k++) {
        while (legal < config->stages.cut_count &&
               config->stages.cuts[legal].bucket < plan->cuts[k].bucket)
            legal++;
        if (legal == config->stages.cut_count ||
            config->stages.cuts[legal].bucket != plan->cuts[k].bucket)
            return false;
    }
    return true;
}

static bool
stage_covered(const struct proto_plan *plan, size_t stage)
{
    uint64_t seen = 0;
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t shards = proto_plan_computes(plan, m, stage);
        if ((seen & shards) && !core_mutant(MUTANT_TWICE))
            return false;
        seen |= shards;
    }
    return seen == plan->complete;
}

/* Does the member hold what it computes? */
static bool
holds_computed(const struct core_config *config, const struct proto_plan *plan,
               const struct proto_member *member)
{
    const struct core_stages *stages = &config->stages;
    uint64_t needs = 0;
    for (size_t s = 0; s <= stages->cut_count; s++) {
        size_t stage = proto_plan_stage(plan, core_segment_bucket(stages, s));
        needs |= (member->computes >> stage & 1) << s;
    }
    return !(needs & ~member->holds) && !(member->holds & ~core_segments(stages));
}

bool
plan_stages_valid(const struct core_config *config, const struct proto_plan *plan)
{
    bool valid = cuts_legal(config, plan) && plan->complete == bits_below(config->shards);
    for (size_t m = 0; m < plan->count && valid; m++) {
        const struct proto_member *member = &plan->members[m];
        uint64_t ends = member->computes & (1 | UINT64_C(1) << plan->cut_count);
        valid = holds_computed(config, plan, member) &&
                !(config->stages.tied && plan->cut_count > 0 && __builtin_popcountll(ends) == 1);
    }
    for (size_t stage = 0; stage <= plan->cut_count && valid; stage++)
        valid = stage_covered(plan, stage);
    return valid;
}

/* plan_stages.c - see plan_stages.h. Segments are the layers between two legal cuts, counted from the input on: the
 * parts of placement.h. */
#include "mesh/core/group/plan_stages.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/group/cost.h"
#include "proto/bits.h"
#include "proto/mutant.h"

struct division {
    const struct core_config *config;
    const struct plan_stages_member *member;
    struct placement_job job;
    struct placement_part parts[PROTO_STAGES_MAX];
    struct placement_peer peers[PROTO_PEERS_MAX];
    struct placement made;
    size_t groups;
    uint64_t computes[PROTO_PEERS_MAX]; /* stages of a group that keeps them */
    size_t group_of[PROTO_PEERS_MAX];   /* of a member; SIZE_MAX: none */
};

/* --- What is known -------------------------------------------------------------------------------- */

/* A third of the time is the forward pass. */
static void
set_parts(struct division *d)
{
    const struct core_stages *stages = &d->config->stages;
    size_t last = stages->cut_count, bucket = 0;
    double all = 0;
    for (size_t p = 0; p <= last; p++)
        all += stages->cost ? (double)stages->cost[p] : 1;
    for (size_t above = 0; above <= last; above++) { /* from the output on */
        struct placement_part *part = &d->parts[last - above];
        double cost = stages->cost ? (double)stages->cost[above] : 1;
        size_t end = above < last ? stages->cuts[above].bucket : d->config->bucket_count;
        part->forward_us = part->input_us = part->weight_us = 1e6 * cost / (all > 0 ? all : 1) / 3;
        for (; bucket < end && bucket + 1 < d->config->bucket_count; bucket++)
            part->param_bytes += d->config->buckets[bucket].count * sizeof(int32_t);
        if (above > 0)
            part->cut_bytes = stages->shard_rows * stages->cuts[above - 1].words * sizeof(int32_t);
    }
}

/* Who is unknown is as fast as the slowest one. */
static void
set_peers(struct division *d, size_t count)
{
    uint32_t least = 0;
    for (size_t m = 0; m < count; m++)
        if (d->member[m].speed && (least == 0 || d->member[m].speed < least))
            least = d->member[m].speed;
    if (least == 0 || d->config->even)
        least = PLACEMENT_SPEED;
    for (size_t m = 0; m < count; m++) {
        const struct plan_stages_member *member = &d->member[m];
        bool known = member->speed && !d->config->even;
        d->peers[m] = (struct placement_peer){known ? member->speed : least, member->line,
                                              member->holds, member->have};
        d->group_of[m] = SIZE_MAX;
    }
}

static void
division_init(struct division *d, const struct core_config *config,
              const struct plan_stages_member *member, size_t count)
{
    const struct core_stages *stages = &config->stages;
    assert(stages->cut_count < PROTO_STAGES_MAX && count > 0);
    *d = (struct division){.config = config, .member = member};
    d->job = (struct placement_job){.rule = stages->schedule,
                                    .tied = stages->tied,
                                    .groups = stages->count > 0 ? stages->count : 1,
                                    .shards = config->shards,
                                    .hop_us = COST_HOP_US,
                                    .part_count = stages->cut_count + 1,
                                    .peer_count = count,
                                    .parts = d->parts,
                                    .peers = d->peers};
    set_parts(d);
    set_peers(d, count);
}

/* --- Cuts ----------------------------------------------------------------------------------------- */

/* The segments with which the stages of a plan begin. */
static void
read_cuts(struct division *d, const struct proto_plan *plan)
{
    const struct core_stages *stages = &d->config->stages;
    d->made.stages = (unsigned)plan->cut_count + 1;
    d->made.first[d->made.stages] = (uint8_t)d->job.part_count;
    for (size_t k = 0, legal = 0; k < plan->cut_count; k++) {
        while (stages->cuts[legal].bucket != plan->cuts[k].bucket)
            legal++;
        d->made.first[plan->cut_count - k] = (uint8_t)(stages->cut_count - legal);
    }
}

static void
write_plan(const struct division *d, struct proto_plan *plan)
{
    const struct core_stages *stages = &d->config->stages;
    plan->complete = bits_below(d->config->shards);
    plan->cut_count = d->made.stages - 1;
    for (size_t k = 0; k < plan->cut_count; k++) {
        size_t first = d->made.first[plan->cut_count - k];
        plan->cuts[k].bucket = stages->cuts[stages->cut_count - first].bucket;
    }
    for (size_t m = 0; m < plan->count; m++) {
        struct proto_member *member = &plan->members[m];
        member->shards = d->made.shards[m];
        member->computes = d->made.computes[m];
        member->holds = d->member[m].holds & core_segments(stages);
    }
}

/* --- Stages that are kept ------------------------------------------------------------------------- */

/* Does the member hold all segments of these stages? */
static bool
holds_stages(const struct division *d, size_t m, uint64_t stages)
{
    uint64_t parts = 0;
    for (; stages; stages &= stages - 1) {
        unsigned stage = (unsigned)__builtin_ctzll(stages);
        parts |= bits_below(d->made.first[stage + 1]) & ~bits_below(d->made.first[stage]);
    }
    return (parts & ~d->peers[m].holds) == 0;
}

static bool
group_holds(const struct division *d, size_t group, uint64_t stages)
{
    for (size_t m = 0; m < d->job.peer_count; m++)
        if (d->group_of[m] == group && !holds_stages(d, m, stages))
            return false;
    return true;
}

static double
group_us(const struct division *d, size_t group)
{
    double us = 0, speed = 0;
    for (uint64_t left = d->computes[group]; left; left &= left - 1) {
        unsigned stage = (unsigned)__builtin_ctzll(left);
        for (unsigned p = d->made.first[stage]; p < d->made.first[stage + 1]; p++)
            us += d->parts[p].forward_us + d->parts[p].input_us + d->parts[p].weight_us;
    }
    for (size_t m = 0; m < d->job.peer_count; m++)
        speed += d->group_of[m] == group ? d->peers[m].speed : 0;
    return us / speed;
}

/* Who is without a group and holds these stages becomes one. */
static bool
group_new(struct division *d, uint64_t stages)
{
    bool any = false;
    for (size_t m = 0; m < d->job.peer_count; m++)
        if (d->group_of[m] == SIZE_MAX && holds_stages(d, m, stages)) {
            d->group_of[m] = d->groups;
            any = true;
        }
    d->computes[d->groups] = stages;
    d->groups += any;
    return any;
}

/* Stages that nobody has left: to newcomers, or to the group that is done first. False: nobody holds one. */
static bool
stages_give(struct division *d, uint64_t kept)
{
    uint64_t one = 1, ends = one | one << (d->made.stages - 1);
    for (unsigned stage = 0; stage < d->made.stages; stage++) {
        uint64_t given = one << stage;
        size_t best = d->groups;
        if (d->config->stages.tied && (given & ends))
            given = ends;
        if (kept >> stage & 1)
            continue;
        kept |= given;
        if (group_new(d, given))
            continue;
        for (size_t g = 0; g < d->groups; g++)
            if (group_holds(d, g, given) &&
                (best == d->groups || group_us(d, g) < group_us(d, best)))
                best = g;
        if (best == d->groups)
            return false;
        d->computes[best] |= given;
    }
    return true;
}

/* Who is without a group joins the one that is done last, of those whose stages it holds. */
static void
group_join(struct division *d, size_t m)
{
    size_t best = d->groups;
    for (size_t g = 0; g < d->groups; g++)
        if (holds_stages(d, m, d->computes[g]) &&
            (best == d->groups || group_us(d, g) > group_us(d, best)))
            best = g;
    d->group_of[m] = best < d->groups ? best : SIZE_MAX;
}

static void
group_divide(struct division *d, size_t group)
{
    uint64_t peers = 0;
    for (size_t m = 0; m < d->job.peer_count; m++)
        peers |= (uint64_t)(d->group_of[m] == group) << m;
    placement_group(&d->job, peers, d->computes[group], &d->made);
}

/* Members with the same stages are a group. False: nobody has any, or nobody holds what the others had. */
static bool
groups_kept(struct division *d, const struct proto_plan *before)
{
    uint64_t kept = 0;
    read_cuts(d, before);
    for (size_t m = 0; m < d->job.peer_count; m++) {
        uint64_t computes = d->member[m].computes;
        size_t g = 0;
        if (!computes || !holds_stages(d, m, computes))
            continue;
        while (g < d->groups && d->computes[g] != computes)
            g++;
        if (g == d->groups && (kept & computes)) /* of two plans */
            return false;
        d->computes[g] = computes;
        d->groups += g == d->groups;
        d->group_of[m] = g;
        kept |= computes;
    }
    if (d->groups == 0 || !stages_give(d, kept))
        return false;
    for (size_t m = 0; m < d->job.peer_count; m++)
        if (d->group_of[m] == SIZE_MAX)
            group_join(d, m);
    for (size_t g = 0; g < d->groups; g++)
        group_divide(d, g);
    return true;
}

/* --- The plan ------------------------------------------------------------------------------------- */

/* All who hold the whole model divide the shards. False: nobody does. */
static bool
one_group(struct division *d)
{
    d->made = (struct placement){.stages = 1, .first = {0, (uint8_t)d->job.part_count}};
    d->groups = 0;
    for (size_t m = 0; m < d->job.peer_count; m++)
        d->group_of[m] = SIZE_MAX;
    if (!group_new(d, 1))
        return false;
    for (size_t m = 0; m < d->job.peer_count; m++)
        if (!d->member[m].speed || d->config->even) /* then all are */
            for (size_t k = 0; k < d->job.peer_count; k++)
                d->peers[k].speed = PLACEMENT_SPEED;
    group_divide(d, 0);
    return true;
}

bool
plan_stages(const struct core_config *config, const struct plan_stages_member *member,
            const struct proto_plan *before, struct placement_room *room, struct proto_plan *plan)
{
    struct division d;
    division_init(&d, config, member, plan->count);
    bool found = before && groups_kept(&d, before);
    if (!found)
        found = room && config->stages.cut_count > 0 ? placement_find(&d.job, room, &d.made)
                                                     : one_group(&d);
    if (!found)
        return false;
    write_plan(&d, plan);
    if (mutant(MUTANT_TWICE) && plan->count > 1)
        plan->members[plan->members[0].shards & 1].shards |= 1; /* shard 0 */
    return true;
}

uint64_t
plan_stages_us(const struct core_config *config, const struct plan_stages_member *member,
               const struct proto_plan *plan, struct placement_room *room)
{
    struct division d;
    uint64_t most = 0;
    division_init(&d, config, member, plan->count);
    read_cuts(&d, plan);
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t count = (uint64_t)__builtin_popcountll(plan->members[m].shards);
        uint64_t us = UINT64_C(1000000) * 1000000 * count / d.peers[m].speed;
        d.made.computes[m] = plan->members[m].computes;
        d.made.shards[m] = plan->members[m].shards;
        most = us > most ? us : most;
    }
    return room ? placement_us(&d.job, &d.made, room) : most;
}

/* --- Other leaders' -------------------------------------------------------------------------------- */

static bool
cuts_legal(const struct core_config *config, const struct proto_plan *plan)
{
    size_t legal = 0;
    if (plan->cut_count > 0 && config->stages.count <= 1)
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
        if ((seen & shards) && !mutant(MUTANT_TWICE))
            return false;
        seen |= shards;
    }
    return seen == plan->complete;
}

uint64_t
plan_stages_segments(const struct core_stages *stages, const struct proto_plan *plan, size_t rank)
{
    uint64_t segments = 0;
    for (size_t s = 0; s <= stages->cut_count; s++) {
        size_t stage = proto_plan_stage(plan, core_segment_bucket(stages, s));
        segments |= (plan->members[rank].computes >> stage & 1) << s;
    }
    return segments;
}

/* Does the member hold what it computes? */
static bool
holds_computed(const struct core_config *config, const struct proto_plan *plan, size_t rank)
{
    uint64_t holds = plan->members[rank].holds;
    return !(plan_stages_segments(&config->stages, plan, rank) & ~holds) &&
           !(holds & ~core_segments(&config->stages));
}

bool
plan_stages_valid(const struct core_config *config, const struct proto_plan *plan)
{
    bool valid = cuts_legal(config, plan) && plan->complete == bits_below(config->shards);
    for (size_t m = 0; m < plan->count && valid; m++) {
        const struct proto_member *member = &plan->members[m];
        uint64_t ends = member->computes & (1 | UINT64_C(1) << plan->cut_count);
        valid = holds_computed(config, plan, m) &&
                !(config->stages.tied && plan->cut_count > 0 && __builtin_popcountll(ends) == 1);
    }
    for (size_t stage = 0; stage <= plan->cut_count && valid; stage++)
        valid = stage_covered(plan, stage);
    return valid;
}

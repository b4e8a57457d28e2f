/* kept.c - see kept.h. */
#include "mesh/core/group/kept.h"

#include <assert.h>

#include "mesh/core/group/group.h"
#include "mesh/core/internal.h"
#include "proto/bits.h"

struct keeps
kept_by(const struct core *core, const struct keeps *mine, int i)
{
    return i < 0 ? *mine
                 : (struct keeps){core->view.of[i].beat.have, core->view.of[i].beat.have_segments};
}

/* Does a stage of what they keep begin with this segment? */
static bool
begins_stage(const struct core *core, const struct keeps *mine, const struct group_choice *choice,
             size_t segment)
{
    for (size_t m = 0; m < choice->count; m++) {
        const struct keeps kept = kept_by(core, mine, choice->peer[m]);
        if (kept.shards && ((kept.segments >> segment ^ kept.segments >> (segment - 1)) & 1))
            return true;
    }
    return false;
}

/* Sets first[] = the segment with which each stage begins; returns how many there are. */
static size_t
kept_stages(const struct core *core, const struct keeps *mine, const struct group_choice *choice,
            size_t first[PROTO_STAGES_MAX])
{
    size_t found = 1;
    first[0] = 0;
    for (size_t segment = 1; segment <= core->config.stages.cut_count; segment++)
        if (begins_stage(core, mine, choice, segment))
            first[found++] = segment;
    return found;
}

/* What a member keeps, without shards of a stage that another one has, too. */
static void
keep_member(const struct keeps *kept, const size_t *first, size_t count, const uint64_t *taken,
            struct proto_member *out)
{
    out->shards = kept->shards;
    out->computes = 0;
    for (size_t s = 0; s < count; s++) {
        bool computes = kept->segments >> first[s] & 1;
        out->computes |= (uint64_t)computes << s;
        out->shards &= computes ? ~taken[s] : UINT64_MAX;
    }
    out->computes = out->shards ? out->computes : 0;
}

bool
kept_divide(const struct core *core, const struct keeps *mine, const struct group_choice *choice,
            struct proto_plan *plan)
{
    const struct core_stages *stages = &core->config.stages;
    uint64_t taken[PROTO_STAGES_MAX] = {0};
    size_t first[PROTO_STAGES_MAX], count = kept_stages(core, mine, choice, first);
    plan->complete = bits_below(core->config.shards);
    plan->cut_count = count - 1;
    for (size_t k = 1; k < count; k++)
        plan->cuts[count - 1 - k].bucket = stages->cuts[stages->cut_count - first[k]].bucket;
    for (size_t m = 0; m < choice->count; m++) {
        int i = choice->peer[m];
        const struct keeps kept = kept_by(core, mine, i);
        plan->members[m].holds = i < 0 ? core->holds : core->view.of[i].beat.holds;
        keep_member(&kept, first, count, taken, &plan->members[m]);
        for (size_t s = 0; s < count; s++)
            taken[s] |= proto_plan_computes(plan, m, s);
    }
    for (size_t s = 0; s < count; s++)
        if (taken[s] != plan->complete)
            return false;
    return true;
}

bool
kept_covers(const struct core *core, const struct keeps *mine, const struct group_choice *choice)
{
    struct proto_plan plan = {.count = choice->count};
    return !core->pinned || mutant(MUTANT_PIN) || kept_divide(core, mine, choice, &plan);
}

/* Will peers[i] be at this round soon, with the shards that it has? */
static bool
comes(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    struct awake at = core->give.of[i].served_at;
    bool served = at.us > 0 && awake_since(core->awake, at) < KEPT_SURE_US;
    return said->round + 1 == core->round && (!said->idle || said->ready || served);
}

/* Who is behind does not count. */
bool
kept_missing(const struct core *core, const struct keeps *mine)
{
    struct group_choice choice = {.count = 1, .peer = {-1}};
    struct proto_plan plan = {.count = 0};
    if (!core->pinned || mutant(MUTANT_PIN))
        return false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (!view_usable(core, i) || divergence_excludes(core, i))
            continue;
        if (said->round > core->round && holding_whole_with(core, i))
            return false;
        if (said->round == core->round || comes(core, i))
            group_add(core, &choice, i);
    }
    return !kept_divide(core, mine, &choice, &plan);
}

bool
kept_step(struct keeping *keeping, const struct core *core, const struct keeps *mine, bool idle)
{
    uint64_t us = KEPT_SURE_US << keeping->backs;
    assert(keeping->backs <= KEPT_DOUBLINGS);
    if (!awake_lasts(&keeping->missing_at, core->awake, idle && kept_missing(core, mine), us))
        return false;
    keeping->left = core->round;
    keeping->farthest = core->round > keeping->farthest ? core->round : keeping->farthest;
    keeping->backs += keeping->backs < KEPT_DOUBLINGS;
    return true;
}

void
kept_applied(struct keeping *keeping, uint64_t round, bool next)
{
    if (next && round > keeping->farthest)
        keeping->backs = 0;
    keeping->left = next && round > keeping->left ? 0 : keeping->left;
    keeping->missing_at = (struct awake){0};
}

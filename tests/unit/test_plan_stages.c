/* test_plan_stages.c - the leader divides a model over groups of members: every plan can be followed, the cuts are
 * about as good as any, and who has computed something keeps its stages. */
#include "mesh/core/group/plan_stages.h"
#include "mesh/core/rounds/holders.h"
#include "proto/bits.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { CUTS = 9, CASES = 400 };

static struct placement_room room;

struct job {
    struct core_config config;
    struct core_cut cuts[CUTS];
    uint64_t cost[CUTS + 1];
    struct plan_stages_member member[PROTO_PEERS_MAX];
    struct proto_plan plan;
};

/* Some segments one after the other; with tied weights the first and the last one, or neither. */
static uint64_t
draw_holds(struct rand *rand, const struct core_stages *stages)
{
    uint64_t all = bits_below(stages->cut_count + 1), ends = 1 | (all & ~(all >> 1));
    size_t first = rand_below(rand, stages->cut_count + 1);
    uint64_t holds = all & ~bits_below(first);
    holds &= bits_below(first + rand_range(rand, 1, stages->cut_count + 1));
    return !stages->tied ? holds : rand_bool(rand) ? holds | ends : holds & ~ends;
}

static void
draw(struct job *job, struct rand *rand, bool partly)
{
    memset(job, 0, sizeof *job);
    size_t cuts = rand_below(rand, CUTS + 1);
    for (size_t k = 0; k < cuts; k++)
        job->cuts[k] = (struct core_cut){(uint16_t)(3 * k + 1 + rand_below(rand, 3)), 5};
    for (size_t k = 0; k <= cuts; k++)
        job->cost[k] = 1 + rand_below(rand, 1000);
    job->config.shards = (unsigned)rand_range(rand, 1, 16);
    job->config.even = rand_below(rand, 4) == 0;
    job->config.stages = (struct core_stages){.count = (unsigned)rand_range(rand, 2, 7),
                                              .cuts = job->cuts,
                                              .cut_count = cuts,
                                              .cost = job->cost,
                                              .tied = rand_below(rand, 3) == 0};
    job->plan.count = rand_range(rand, 1, 12);
    for (size_t m = 0; m < job->plan.count; m++) {
        job->plan.members[m].node = (struct proto_node){m + 1, 1};
        job->member[m].holds = UINT64_MAX;
        job->member[m].speed = (uint32_t)(rand_below(rand, 10) ? rand_range(rand, 1, 100000) : 0);
        job->member[m].line =
            (uint32_t)(rand_bool(rand) ? rand_range(rand, 1000000, 125000000) : 0);
        job->member[m].holds = partly ? draw_holds(rand, &job->config.stages) : UINT64_MAX;
    }
}

/* The segments of a stage. */
static uint64_t
segments_of(const struct job *job, const struct proto_plan *plan, unsigned stage)
{
    uint64_t segments = 0;
    size_t last = job->config.stages.cut_count, at = 0;
    for (size_t segment = 0; segment <= last; segment++) {
        segments |= at == stage ? UINT64_C(1) << segment : 0;
        if (segment < last && at < plan->cut_count &&
            plan->cuts[plan->cut_count - 1 - at].bucket == job->cuts[last - 1 - segment].bucket)
            at++;
    }
    assert_int_equal(at, plan->cut_count);
    return segments;
}

/* Legal, and nobody computes what it does not hold. */
static void
can_be_followed(const struct job *job, const struct proto_plan *plan)
{
    assert_true(plan_stages_valid(&job->config, plan));
    for (unsigned stage = 0; stage <= plan->cut_count; stage++)
        for (size_t m = 0; m < plan->count; m++)
            if (plan->members[m].computes >> stage & 1)
                assert_int_equal(segments_of(job, plan, stage) & ~job->member[m].holds, 0);
}

/* The shards of a sum are each added once: to a segment's those that its stage has, to that of all those of the last
 * stage. */
static void
each_sum_has_each_shard_once(const struct job *job, const struct proto_plan *plan)
{
    struct holders sets[HOLDERS_SETS];
    uint64_t added[HOLDERS_SETS] = {0};
    size_t all = job->config.stages.cut_count + 1;
    for (unsigned rank = 0; rank < plan->count; rank++) {
        holders_plan(sets, plan, &job->config.stages, rank);
        for (size_t s = 0; s <= all; s++) {
            size_t bucket = core_segment_bucket(&job->config.stages, s < all ? s : all - 1);
            size_t stage = s < all ? proto_plan_stage(plan, bucket) : plan->cut_count;
            assert_true(sets[s].complete == plan->complete);
            assert_true(sets[s].mine ==
                        (sets[s].here ? proto_plan_computes(plan, rank, stage) : 0));
            assert_true(!(added[s] & sets[s].mine));
            added[s] |= sets[s].mine;
            for (unsigned r = 0; r < sets[s].n; r++)
                assert_true(sets[s].plan.members[r].shards ==
                            proto_plan_computes(plan, sets[s].of_plan[r], stage));
        }
    }
    for (size_t s = 0; s <= all; s++)
        assert_true(added[s] == plan->complete);
}

TEST(every_plan_can_be_followed)
{
    struct rand rand = {1};
    struct job job;
    unsigned none = 0, parts = 0;
    for (int i = 0; i < CASES; i++) {
        bool partly = i % 2;
        draw(&job, &rand, partly);
        const struct core_stages *stages = &job.config.stages;
        bool found = plan_stages(&job.config, job.member, NULL, &room, &job.plan);
        assert_true(found || partly);
        none += !found;
        if (!found)
            continue;
        can_be_followed(&job, &job.plan);
        for (size_t m = 0; m < job.plan.count; m++) /* as a leader says */
            job.plan.members[m].holds = job.member[m].holds & core_segments(&job.config.stages);
        job.plan.complete = bits_below(job.config.shards);
        each_sum_has_each_shard_once(&job, &job.plan);
        parts += partly && job.plan.cut_count > 0;
        size_t groups = stages->count < job.plan.count ? stages->count : job.plan.count;
        if (!partly && groups > 1 && groups + stages->tied <= stages->cut_count + 1)
            assert_int_equal(job.plan.cut_count + 1, groups + stages->tied);
    }
    assert_true(none > CASES / 20 && parts > CASES / 20);
}

/* A member that holds all, and one that cannot help: with one stage, and with several where nobody else holds one. */
TEST(whoever_holds_nothing_whole_computes_nothing)
{
    struct rand rand = {6};
    struct job job;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand, false);
        job.plan.count = 2;
        for (size_t m = 0; m < 2; m++)
            job.member[m].holds = m == 0 ? UINT64_MAX : 0;
        bool cuts = i % 2;
        assert_true(plan_stages(&job.config, job.member, NULL, cuts ? &room : NULL, &job.plan));
        can_be_followed(&job, &job.plan);
        assert_int_equal(job.plan.cut_count, 0);
        assert_int_equal(job.plan.members[0].shards, bits_below(job.config.shards));
        assert_int_equal(job.plan.members[1].computes | job.plan.members[1].shards, 0);
        job.member[0].holds = bits_below(job.config.stages.cut_count);
        struct proto_plan before = job.plan;
        assert_false(plan_stages(&job.config, job.member, NULL, cuts ? &room : NULL, &job.plan));
        assert_memory_equal(&before, &job.plan, sizeof before);
    }
}

/* Nobody holds two segments next to each other: each of the two members has every second one. */
TEST(a_member_has_several_stages_if_nobody_else_holds_them)
{
    struct rand rand = {5};
    struct job job;
    do
        draw(&job, &rand, false);
    while (job.config.stages.cut_count < 3 || job.config.stages.tied || job.plan.count < 2);
    job.plan.count = 2;
    job.member[0].holds = 0x5555;
    job.member[1].holds = 0xaaaa;
    assert_true(plan_stages(&job.config, job.member, NULL, &room, &job.plan));
    can_be_followed(&job, &job.plan);
    assert_int_equal(job.plan.cut_count, job.config.stages.cut_count);
    for (size_t m = 0; m < 2; m++)
        assert_int_equal(job.plan.members[m].shards, bits_below(job.config.shards));
}

/* Of those with other cuts, when each member is a group. All others: test_placement. */
TEST(the_cuts_are_about_the_best_for_their_groups)
{
    struct rand rand = {2};
    struct job job;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand, i % 2);
        job.config.stages.tied = job.config.even = false;
        if (job.plan.count < 3)
            continue;
        job.plan.count = 2 + rand_below(&rand, 2);
        job.config.stages.count = (unsigned)job.plan.count;
        if (!plan_stages(&job.config, job.member, NULL, &room, &job.plan) ||
            job.plan.cut_count + 1 < job.plan.count)
            continue;
        uint64_t best = plan_stages_us(&job.config, job.member, &job.plan, &room);
        struct proto_plan other = job.plan;
        for (size_t a = 0; a < job.config.stages.cut_count; a++)
            for (size_t b = a + 1; b <= job.config.stages.cut_count; b++) {
                bool held = true;
                other.cuts[0].bucket = job.cuts[a].bucket;
                if (other.cut_count > 1 && b == job.config.stages.cut_count)
                    continue;
                if (other.cut_count > 1)
                    other.cuts[1].bucket = job.cuts[b].bucket;
                for (unsigned stage = 0; stage <= other.cut_count; stage++)
                    for (size_t m = 0; m < other.count; m++)
                        held = held && (!(other.members[m].computes >> stage & 1) ||
                                        !(segments_of(&job, &other, stage) & ~job.member[m].holds));
                uint64_t us = plan_stages_us(&job.config, job.member, &other, &room);
                assert_true(!held || best <= us + us / 10 + 1);
            }
    }
}

/* The members without one of them, who keep what they have. */
static void
one_dies(struct job *job, const struct proto_plan *before, size_t dead)
{
    for (size_t m = 0, at = 0; m < before->count; m++) {
        if (m == dead)
            continue;
        job->plan.members[at].node = before->members[m].node;
        job->member[at] = job->member[m];
        job->member[at].have = before->members[m].shards;
        job->member[at++].computes = before->members[m].computes;
    }
    job->plan.count--;
}

TEST(who_has_something_keeps_its_stages)
{
    struct rand rand = {3};
    struct job job;
    unsigned kept = 0, anew = 0, none = 0;
    for (int i = 0; i < 4 * CASES; i++) {
        bool partly = i % 4 != 0;
        draw(&job, &rand, partly);
        if (!plan_stages(&job.config, job.member, NULL, &room, &job.plan))
            continue;
        struct proto_plan before = job.plan;
        if (before.cut_count == 0 || before.count < 2)
            continue;
        one_dies(&job, &before, rand_below(&rand, before.count));
        bool found = plan_stages(&job.config, job.member, &before, &room, &job.plan);
        assert_true(found || partly);
        none += !found;
        if (!found)
            continue;
        can_be_followed(&job, &job.plan);
        bool keeps = true;
        for (size_t m = 0; m < job.plan.count; m++)
            keeps = keeps && (job.member[m].computes & ~job.plan.members[m].computes) == 0 &&
                    (job.member[m].have & ~job.plan.members[m].shards) == 0;
        keeps = keeps && proto_plan_same_cuts(&before, &job.plan);
        assert_true(keeps || partly);
        kept += keeps && partly;
        anew += !keeps;
    }
    assert_true(kept > CASES / 20 && anew > 0 && none > 0);
}

/* One of two goes and a newcomer is there in its place: it takes the first and the last stage, once. */
TEST(a_newcomer_takes_what_nobody_has_left)
{
    struct rand rand = {7};
    struct job job;
    do
        draw(&job, &rand, false);
    while (!job.config.stages.tied || job.config.stages.cut_count < 2 || job.plan.count < 2);
    job.config.stages.count = 2;
    job.plan.count = 2;
    assert_true(plan_stages(&job.config, job.member, NULL, &room, &job.plan));
    struct proto_plan before = job.plan;
    assert_int_equal(before.cut_count, 2);
    size_t dead = before.members[0].computes == 5 ? 0 : 1;
    job.member[1 - dead].computes = 2;
    job.member[1 - dead].have = before.members[1 - dead].shards;
    assert_true(plan_stages(&job.config, job.member, &before, &room, &job.plan));
    can_be_followed(&job, &job.plan);
    assert_true(proto_plan_same_cuts(&before, &job.plan));
    assert_int_equal(job.plan.members[dead].computes, 5);
    assert_int_equal(job.plan.members[1 - dead].computes, 2);
}

TEST(others_plans_are_checked)
{
    struct rand rand = {4};
    struct job job;
    unsigned cut = 0;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand, false);
        plan_stages(&job.config, job.member, NULL, &room, &job.plan);
        struct proto_plan bad = job.plan;
        struct core_config fewer = job.config;
        if (bad.cut_count == 0)
            continue;
        cut++;
        fewer.stages.count = 1;
        assert_false(plan_stages_valid(&fewer, &bad));
        bad.cuts[bad.cut_count - 1].bucket += 3 * CUTS;
        assert_false(plan_stages_valid(&job.config, &bad));
        bad = job.plan;
        uint64_t computes = bad.members[0].computes;
        bad.members[0].holds = computes & 1 ? 2 : 1; /* not what it computes */
        assert_true(!computes || !plan_stages_valid(&job.config, &bad));
        bad = job.plan;
        size_t m = rand_below(&rand, bad.count);
        bad.members[m].shards ^= UINT64_C(1) << job.config.shards;
        assert_true(bad.members[m].computes == 0 || !plan_stages_valid(&job.config, &bad));
    }
    assert_true(cut > CASES / 10);
}

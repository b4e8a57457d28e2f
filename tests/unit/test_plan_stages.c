/* test_plan_stages.c - the leader divides a model over groups of members: every plan can be followed, the cuts are about as good as
 * any, and who has computed something keeps its stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mesh/core/group/plan_stages.h"
#include "proto/bits.h"
#include "tests/support/rand.h"

enum { CUTS = 9, CASES = 3000 };

struct job {
    struct core_config config;
    struct core_cut cuts[CUTS];
    uint64_t cost[CUTS + 1];
    struct plan_stages_member member[PROTO_PEERS_MAX];
    struct proto_plan plan;
};

static void
draw(struct job *job, struct rand *rand)
{
    memset(job, 0, sizeof *job);
    size_t cuts = rand_below(rand, CUTS + 1);
    for (size_t k = 0; k < cuts; k++)
        job->cuts[k] = (struct core_cut){(uint16_t)(3 * k + 1 + rand_below(rand, 3)), 5};
    for (size_t k = 0; k <= cuts; k++)
        job->cost[k] = 1 + rand_below(rand, 1000);
    job->config.shards = (unsigned)rand_range(rand, 1, 16);
    job->config.even = rand_below(rand, 4) == 0;
    job->config.stages = (struct core_stages){.count = (unsigned)rand_below(rand, 7),
                                              .cuts = job->cuts,
                                              .cut_count = cuts,
                                              .cost = job->cost,
                                              .tied = rand_below(rand, 3) == 0};
    job->plan.count = rand_range(rand, 1, 12);
    for (size_t m = 0; m < job->plan.count; m++) {
        job->plan.members[m].node = (struct proto_node){m + 1, 1};
        job->member[m].holds = UINT64_MAX;
        job->member[m].speed = (uint32_t)(rand_below(rand, 10) ? rand_range(rand, 1, 100000) : 0);
    }
}

static void
every_plan_can_be_followed(void **state)
{
    (void)state;
    struct rand rand = {1};
    struct job job;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand);
        const struct core_stages *stages = &job.config.stages;
        plan_stages(&job.config, job.member, NULL, &job.plan);
        assert_true(plan_stages_valid(&job.config, &job.plan));
        size_t groups = stages->count < job.plan.count ? stages->count : job.plan.count;
        if (groups > 1 && groups + stages->tied <= stages->cut_count + 1)
            assert_int_equal(job.plan.cut_count + 1, groups + stages->tied);
    }
}

/* Of those with other cuts, when each member is a group: a stage more or less here or there is not clearly better. */
static void
the_cuts_are_the_best_for_their_groups(void **state)
{
    (void)state;
    struct rand rand = {2};
    struct job job;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand);
        job.config.stages.tied = job.config.even = false;
        job.plan.count = 2 + rand_below(&rand, 2);
        job.config.stages.count = (unsigned)job.plan.count;
        for (size_t m = 0; m < job.plan.count; m++)
            job.member[m].speed |= 1;
        plan_stages(&job.config, job.member, NULL, &job.plan);
        if (job.plan.cut_count + 1 < job.plan.count)
            continue;
        uint64_t best = plan_stages_us(&job.config, job.member, &job.plan);
        struct proto_plan other = job.plan;
        for (size_t a = 0; a < job.config.stages.cut_count; a++)
            for (size_t b = a + 1; b <= job.config.stages.cut_count; b++) {
                other.cuts[0].bucket = job.cuts[a].bucket;
                if (other.cut_count > 1 && b == job.config.stages.cut_count)
                    continue;
                if (other.cut_count > 1)
                    other.cuts[1].bucket = job.cuts[b].bucket;
                uint64_t us = plan_stages_us(&job.config, job.member, &other);
                assert_true(best <= us + us / 1000 + 1);
            }
    }
}

static void
who_has_something_keeps_its_stages(void **state)
{
    (void)state;
    struct rand rand = {3};
    struct job job;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand);
        plan_stages(&job.config, job.member, NULL, &job.plan);
        struct proto_plan before = job.plan;
        if (before.cut_count == 0 || before.count < 2)
            continue;
        size_t dead = rand_below(&rand, before.count);
        for (size_t m = 0, at = 0; m < before.count; m++) {
            if (m == dead)
                continue;
            job.plan.members[at].node = before.members[m].node;
            job.member[at].speed = job.member[m].speed;
            job.member[at].have = before.members[m].shards;
            job.member[at++].computes = before.members[m].computes;
        }
        job.plan.count--;
        plan_stages(&job.config, job.member, &before, &job.plan);
        assert_true(plan_stages_valid(&job.config, &job.plan));
        assert_true(proto_plan_same_cuts(&before, &job.plan));
        for (size_t m = 0; m < job.plan.count; m++) {
            assert_true((job.member[m].computes & ~job.plan.members[m].computes) == 0);
            assert_true((job.member[m].have & ~job.plan.members[m].shards) == 0);
        }
    }
}

static void
others_plans_are_checked(void **state)
{
    (void)state;
    struct rand rand = {4};
    struct job job;
    unsigned cut = 0;
    for (int i = 0; i < CASES; i++) {
        draw(&job, &rand);
        plan_stages(&job.config, job.member, NULL, &job.plan);
        struct proto_plan bad = job.plan;
        struct core_config fewer = job.config;
        if (bad.cut_count == 0)
            continue;
        cut++;
        fewer.stages.count = (unsigned)(bad.cut_count - job.config.stages.tied);
        assert_false(plan_stages_valid(&fewer, &bad)); /* its items would find no room */
        bad.cuts[bad.cut_count - 1].bucket += 3 * CUTS;
        assert_false(plan_stages_valid(&job.config, &bad));
        bad = job.plan;
        uint64_t computes = bad.members[0].computes;
        bad.members[0].holds = computes & 1 ? 2 : 1; /* not what it computes */
        assert_true(!computes || !plan_stages_valid(&job.config, &bad));
        bad = job.plan;
        bad.members[rand_below(&rand, bad.count)].shards ^= UINT64_C(1) << job.config.shards;
        if (memcmp(&bad, &job.plan, sizeof bad) != 0 &&
            bad.members[0].shards != job.plan.members[0].shards)
            assert_false(plan_stages_valid(&job.config, &bad));
    }
    assert_true(cut > CASES / 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_can_be_followed),
        cmocka_unit_test(the_cuts_are_the_best_for_their_groups),
        cmocka_unit_test(who_has_something_keeps_its_stages),
        cmocka_unit_test(others_plans_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

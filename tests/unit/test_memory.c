/* test_memory.c - what a node does when memory is limited. */
#include <errno.h>
#include <stdio.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/mesh.h"
#include "nn/files.h"
#include "nn/files/disk.h"
#include "node/train/memory.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct why why;

static const char text[] = "data: {source: glyphs, train: 2400, test: 24}\n"
                           "model: [flatten, dense: 500, relu, dense: 500, relu, dense: 500, relu, "
                           "dense: 500, relu, dense: 10]\n"
                           "train: {batch: 2400, optimizer: {adam: 0.001}}\n";

static struct config *
config_of(const char *const *set)
{
    struct config *config;
    assert_int_equal(config_parse(&config, "test", text, strlen(text), &why), 0);
    for (; *set; set++)
        assert_int_equal(config_set(config, *set, &why), 0);
    assert_int_equal(config_check(config, &why), 0);
    return config;
}

static int
plan(const char *const *set, struct memory *memory)
{
    OWNED(config_destroy) struct config *config = config_of(set);
    OWNED(job_close) struct job job = {0};
    assert_int_equal(job_open(&job, config, &why), 0);
    return memory_plan(memory, config, &job, &why);
}

/* The plan of a job that is open, with another limit. */
static int
plan_within(uint64_t mib, const struct job *job, struct memory *memory)
{
    char limit[64];
    snprintf(limit, sizeof limit, "train.memory_max=%ju", mib);
    OWNED(config_destroy)
    struct config *config = config_of((const char *[]){limit, "node.threads=2", NULL});
    return memory_plan(memory, config, job, &why);
}

/* A MiB less each time, from no limit to what is refused: never more than allowed, and shards are computed one after
 * the other before states go to a file, though not by fewer than there are threads. */
TEST(less_and_less_is_enough_until_it_is_refused)
{
    char limit[64];
    OWNED(config_destroy) struct config *config = config_of((const char *[]){NULL});
    OWNED(job_close) struct job job = {0};
    struct memory last = {0}, memory;
    bool fewer = false, spilled = false;
    assert_int_equal(job_open(&job, config, &why), 0);
    assert_int_equal(plan_within(0, &job, &memory), 0);
    assert_int_equal(memory.lanes, 12);
    assert_false(memory.spilled);
    uint64_t all = memory_total(&memory) >> 20, least = 0;
    for (uint64_t mib = all + 1; mib > 0; mib--) {
        int rc = plan_within(mib, &job, &memory);
        if (rc) {
            assert_int_equal(rc, -ENOMEM);
            snprintf(limit, sizeof limit, "expected at least %ju MiB", mib + 1);
            if (!strstr(why.line, limit))
                fail_msg("%s: %s is missing", why.line, limit);
            least = mib + 1;
            break;
        }
        assert_true(memory_total(&memory) <= mib << 20);
        fewer = fewer || (memory.lanes < 12 && !memory.spilled);
        if (!memory.spilled)
            assert_in_range(memory.lanes, 2, 12);
        spilled = spilled || memory.spilled;
        assert_true(spilled == memory.spilled); /* and never back */
        last = memory;
    }
    assert_true(fewer && spilled && least > 0);
    assert_in_range(last.lanes, 1, 2);
}

/* A MiB less each time: whole, then whole and in a file, then in parts that fit, down to the smallest segment. */
TEST(what_does_not_fit_whole_is_held_in_parts)
{
    char limit[64];
    struct memory memory, last = {.room = UINT64_MAX};
    OWNED(config_destroy) struct config *one = config_of((const char *[]){NULL});
    OWNED(job_close) struct job job = {0};
    assert_int_equal(job_open(&job, one, &why), 0);
    uint64_t mib = 400, parts = 0;
    for (int rc = 0; rc == 0; mib--) {
        snprintf(limit, sizeof limit, "train.memory_max=%ju", mib);
        OWNED(config_destroy)
        struct config *config = config_of(
            (const char *[]){limit, "mesh.stages=5", "mesh.peers=5", "node.threads=2", NULL});
        rc = memory_plan(&memory, config, &job, &why);
        if (rc == 0)
            assert_int_equal(memory.segments, 5);
        if (rc == 0 && memory.part) {
            assert_false(memory.spilled);
            assert_true(memory.room < mib << 20);
            assert_true(memory.room >=
                        memory_segments(&memory, 1 << 4)); /* the output's is the smallest */
            assert_true(memory.room <= last.room && memory.room < memory_segments(&memory, 31));
            parts++;
        } else if (rc == 0) {
            assert_int_equal(parts, 0);
            assert_int_equal(memory.room, memory_segments(&memory, 31));
        }
        last = memory;
    }
    assert_true(parts > 10);
    assert_non_null(strstr(why.line, "the smallest part of the model that a node may hold"));
    assert_int_not_equal(plan_within(mib + 2, &job, &memory), 0);
}

TEST(without_a_mirror_a_part_is_held_from_the_beginning)
{
    struct memory memory;
    assert_int_equal(plan((const char *[]){"mesh.stages=3", "mesh.mirror=no", NULL}, &memory), 0);
    assert_true(memory.part);
    assert_int_equal(memory.room, memory_segments(&memory, 31));
    assert_int_equal(plan((const char *[]){"mesh.stages=3", NULL}, &memory), 0);
    assert_false(memory.part);
}

/* A container without train.memory_max: more than what is needed at the least, less than all. */
TEST(where_there_is_less_than_is_needed_a_part_is_held)
{
    for (int mirror = 0; mirror < 2; mirror++) {
        OWNED(config_destroy)
        struct config *config =
            config_of((const char *[]){"mesh.stages=5", "mesh.peers=5", "node.threads=1",
                                       mirror ? "mesh.mirror=yes" : "mesh.mirror=no", NULL});
        OWNED(job_close) struct job job = {0};
        struct memory planned, memory;
        assert_int_equal(job_open(&job, config, &why), 0);
        assert_int_equal(memory_plan(&planned, config, &job, &why), 0);
        assert_int_equal(planned.part, !mirror);
        memory = planned;
        assert_int_equal(memory_machine(&memory, config, &job, UINT64_MAX, 1, &why), 0);
        assert_int_equal(memory.part, !mirror);
        assert_int_equal(memory.lanes, planned.lanes);
        memory = planned;
        memory.lanes = 1;
        uint64_t has = mirror ? memory_total(&memory) : memory_part(&memory, 1 << 4);
        memory = planned;
        assert_int_equal(memory_machine(&memory, config, &job, has, 0, &why), 0);
        assert_int_equal(memory.part, !mirror);
        assert_int_equal(memory.lanes, 1);
        memory = planned;
        has -= mirror;
        assert_true(!mirror || memory_least(&planned) < has);
        assert_int_equal(memory_machine(&memory, config, &job, has, UINT32_MAX, &why), 0);
        assert_true(memory.part);
        assert_true(memory_part(&memory, 0) + memory.room <= has);
    }
}

static unsigned
stages_within(uint64_t mib, const struct job *job)
{
    char limit[64];
    snprintf(limit, sizeof limit, "train.memory_max=%ju", mib);
    OWNED(config_destroy)
    struct config *config = config_of((const char *[]){limit, "mesh.stages=auto", NULL});
    return memory_stages(config, job);
}

/* One where all fits, then never fewer with less memory, and as many as there can be where nothing fits. */
TEST(less_memory_takes_more_stages)
{
    OWNED(config_destroy) struct config *config = config_of((const char *[]){NULL});
    OWNED(job_close) struct job job = {0};
    struct memory whole;
    assert_int_equal(job_open(&job, config, &why), 0);
    assert_int_equal(plan_within(0, &job, &whole), 0);
    unsigned last = 1;
    uint64_t all = memory_total(&whole) >> 20;
    assert_int_equal(stages_within(0, &job), 1);
    assert_int_equal(stages_within(all + 1, &job), 1);
    assert_int_equal(stages_within(all - 1, &job), 2);
    for (uint64_t mib = all; mib > 0; mib--) {
        unsigned stages = stages_within(mib, &job);
        assert_true(stages >= last);
        last = stages;
    }
    assert_int_equal(last, 5); /* of five dense layers */
    struct memory staged;
    assert_int_equal(plan((const char *[]){"mesh.stages=5", "mesh.peers=5", NULL}, &staged), 0);
    uint64_t items = (uint64_t)4 * 12 * 200 * 500 * sizeof(int32_t);
    assert_true(staged.stage > items);
    assert_true(memory_total(&staged) >= memory_total(&whole) + staged.stage);
}

TEST(recomputing_takes_less)
{
    struct memory plain, again;
    assert_int_equal(plan((const char *[]){"run.seed=1", NULL}, &plain), 0);
    assert_int_equal(plan((const char *[]){"train.recompute=yes", NULL}, &again), 0);
    assert_true(again.shard < plain.shard);
    assert_true(memory_total(&plain) - memory_total(&again) == plain.pass[12] - again.pass[12]);
}

/* Weights and gradient of each shard that is computed at a time, and a velocity. */
TEST(local_steps_take_memory_for_each_lane)
{
    struct memory plain, walking, few;
    const char *const set[] = {"train.optimizer=sgd", "train.local_steps=4",
                               "train.block_momentum=0.5", NULL};
    assert_int_equal(plan((const char *[]){"train.optimizer=sgd", NULL}, &plain), 0);
    assert_int_equal(plan(set, &walking), 0);
    assert_int_equal(plain.local, 0);
    assert_int_equal(walking.local, 2 * walking.weights);
    assert_int_equal(plain.slots, 0);
    assert_int_equal(walking.slots, walking.weights);
    assert_true(memory_total(&walking) >= memory_total(&plain) + 12 * walking.local);
    few = walking;
    few.lanes = 3;
    assert_true(memory_total(&walking) - memory_total(&few) == 9 * (walking.shard + walking.local));
}

/* Two vectors of each shard, before and after a round; topk has one more. And the state to go back to. */
TEST(moments_take_memory_for_each_shard)
{
    struct memory plain, moments, both;
    const char *const set[] = {"train.optimizer=sgd", "train.local_steps=4", "mesh.peers=3", NULL},
                      *const adamw[] = {"train.optimizer=adamw", set[1], set[2], NULL},
                      *const topk[] = {adamw[0], set[1], set[2], "mesh.compress=topk", NULL};
    assert_int_equal(plan(set, &plain), 0);
    assert_int_equal(plan(adamw, &moments), 0);
    assert_int_equal(plan(topk, &both), 0);
    assert_int_equal(plain.left, 0);
    assert_true(moments.left >= (2 * 2 * 4 + 1) * moments.weights);
    assert_int_equal(both.left - moments.left, 2 * 4 * moments.weights);
}

/* A server that is late keeps what comes from the others for the part that it serves. */
TEST(a_server_keeps_a_contribution_of_each_other_node)
{
    struct memory ring, one, two, all;
    assert_int_equal(plan((const char *[]){"mesh.peers=5", NULL}, &ring), 0);
    assert_int_equal(
        plan((const char *[]){"mesh.peers=5", "mesh.topology=server", "mesh.servers=1", NULL},
             &one),
        0);
    assert_int_equal(
        plan((const char *[]){"mesh.peers=5", "mesh.topology=server", "mesh.servers=2", NULL},
             &two),
        0);
    assert_int_equal(plan((const char *[]){"mesh.peers=5", "mesh.topology=server", NULL}, &all), 0);
    uint64_t vector = ring.sums / 4;
    assert_int_equal(ring.kept, 0);
    assert_int_equal(one.kept, 4 * vector);
    assert_int_equal(two.kept, 2 * vector);
    assert_in_range(all.kept, vector * 4 / 5, vector * 4 / 5 + 1);
    assert_int_equal(memory_total(&one) - memory_total(&ring), one.kept);
}

TEST(a_file_gives_zeros_that_can_be_written)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    OWNED(spill_close) struct spill spill;
    int rc = spill_open(&spill, folder_path(&folder, "not/yet/there"), 3 << 20, &why);
    if (rc == -EINVAL) /* the folder for scratch files lies in memory */
        skip();
    assert_int_equal(rc, 0);
    uint8_t *a = spill_take(&spill, (1 << 20) + 1), *b = spill_take(&spill, 1 << 20);
    assert_int_equal((uintptr_t)b % 4096, 0);
    assert_true(b >= a + (1 << 20) + 1);
    for (size_t i = 0; i < 1 << 20; i++)
        assert_int_equal(a[i] | b[i], 0);
    memset(a, 1, (1 << 20) + 1);
    memset(b, 2, 1 << 20);
    assert_int_equal(a[1 << 20], 1);
}

TEST(a_file_without_a_place_is_refused)
{
    struct spill spill;
    assert_int_equal(spill_open(&spill, "/proc/self", 4096, &why) < 0, 1);
    assert_non_null(strstr(why.line, "/proc/self: "));
    assert_int_equal(spill_open(&spill, "/dev/shm", 4096, &why), -EINVAL);
    assert_string_equal(
        why.line,
        "/dev/shm: is in memory, expected a folder on a disk: train.memory_max needs a file there");
    assert_int_equal(spill_open(&spill, ".", UINT64_C(1) << 60, &why) < 0, 1);
    assert_non_null(strstr(why.line, "no room for a file of 1152921504606846976 bytes"));
}

/* A run needs less than what the plan allows for, and what is below that is refused in one line. */
TEST(what_cannot_fit_is_refused)
{
    const char *const set[] = {"node.threads=1", NULL};
    struct memory memory;
    struct config *config = config_of(set);
    assert_int_equal(plan(set, &memory), 0);
    uint64_t least = memory_least(&memory);
    assert_true(least < memory_total(&memory));
    assert_true(least > memory.data + memory.weights);
    assert_int_equal(memory_machine(&memory, config, NULL, least, 0, &why), 0);
    assert_int_equal(memory_machine(&memory, config, NULL, least - 5, 5, &why), 0);
    assert_int_equal(memory_machine(&memory, config, NULL, 10 << 20, 0, &why), -ENOMEM);
    config_destroy(&config);
    assert_non_null(strstr(why.line, "of memory, this machine or container has 10;"));
}

/* As many neighbours as a graph may have are counted; that they are there is not expected. */
TEST(what_neighbours_know_is_counted)
{
    const char *const plain[] = {"mesh.topology=gossip", NULL};
    const char *const coded[] = {"mesh.topology=gossip", "mesh.compress=topk", NULL};
    struct memory before, memory;
    assert_int_equal(plan(plain, &before), 0);
    assert_int_equal(plan(coded, &memory), 0);
    assert_true(memory_total(&memory) >= memory_total(&before) + 6 * memory.weights);
    assert_int_equal(memory_least(&memory), memory_least(&before));
    assert_int_equal(memory.left, 0);
}

/* And the same numbers as the whole has there: nothing is written outside of them. */
/* `from`: model.from, or NULL. */
static void
begins_with_what_it_holds(const char *from)
{
    char set[DISK_PATH_MAX + 32];
    snprintf(set, sizeof set, "model.from=%s", from ? from : "");
    OWNED(config_destroy)
    struct config *config = config_of((const char *[]){from ? set : NULL, NULL});
    OWNED(job_close) struct job job = {0};
    struct state state[2];
    assert_int_equal(job_open(&job, config, &why), 0);
    assert_int_equal(job_start(&job, config, &why), 0);
    const struct state_job rules = job_rules(&job, config);
    size_t params = nn_param_count(job.model);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(state_init(&state[i], &rules, job.exact, params), 0);
    const struct nn_tensor *first = nn_tensor(job.model, 2), *last = nn_tensor(job.model, 6);
    const struct state_range range[] = {{first->first, first->first + first->count},
                                        {last->first, last->first + last->count}};
    state_hold(&state[1], range, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(job_state(&job, config, &state[i], &why), 0);
    for (size_t k = 0; k < params; k++) {
        bool held =
            (k >= range[0].first && k < range[0].end) || (k >= range[1].first && k < range[1].end);
        assert_true(state[1].params[k] == (held ? state[0].params[k] : 0));
    }
    assert_true(state[1].params[range[1].first] != 0);
    assert_true(!from || state[0].params[7] == 7);
    for (size_t i = 0; i < 2; i++)
        state_fini(&state[i]);
}

/* Of a file no more is read than that. */
TEST(a_state_begins_with_what_it_holds)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    OWNED(config_destroy) struct config *config = config_of((const char *[]){NULL});
    OWNED(job_close) struct job job = {0};
    assert_int_equal(job_open(&job, config, &why), 0);
    size_t count = nn_param_count(job.model);
    OWNED(memory_free) float *params = malloc(count * sizeof *params);
    for (size_t i = 0; i < count; i++)
        params[i] = (float)i;
    const char *path = folder_path(&folder, "model.safetensors");
    assert_int_equal(safetensors_write(path, job.model, params, NULL, &why), 0);
    begins_with_what_it_holds(NULL);
    begins_with_what_it_holds(path);
}

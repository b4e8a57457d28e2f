/* test_stage_times.c - each part of a model is measured, by itself, and nothing else changes. */
#include <stdio.h>

#include "node/train/job.h"
#include "node/train/pool.h"
#include "node/train/stage_times.h"
#include "proto/clock.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

enum { THREADS = 2, TIMES = 3, TEXT = 600 };

struct bench {
    struct folder folder;
    struct config *config;
    struct job job;
    struct pool *pool;
    struct buckets buckets;
    struct stages stages;
    struct work *work;
    struct state state;
    int32_t *own;
};

static void
open_config(struct bench *b, const char *text)
{
    struct why why = {""};
    uint8_t bytes[TEXT];
    char dir[CONFIG_PATH_MAX + 16];
    for (size_t i = 0; i < TEXT; i++)
        bytes[i] = (uint8_t)(i * i % 16);
    b->folder = folder_new();
    folder_write(&b->folder, "text", bytes, TEXT);
    snprintf(dir, sizeof dir, "data.dir=%s", b->folder.path);
    if (config_parse(&b->config, "test", text, strlen(text), &why) ||
        config_set(b->config, dir, &why) || config_check(b->config, &why) ||
        job_open(&b->job, b->config, &why))
        fail_msg("%s", why.line);
}

static void
bench_init(struct bench *b, const char *text)
{
    struct why why;
    *b = (struct bench){0};
    open_config(b, text);
    struct work_setup setup = job_work(&b->job, b->config);
    const struct state_job rules = job_rules(&b->job, b->config);
    assert_int_equal(pool_new(&b->pool, THREADS), 0);
    setup.pool = b->pool;
    setup.threads = THREADS;
    setup.stages = true;
    assert_int_equal(buckets_init(&b->buckets, &setup), 0);
    stages_of(&b->stages, b->job.model, &b->buckets);
    assert_int_equal(work_new(&b->work, &setup), 0);
    assert_int_equal(state_init(&b->state, &rules, b->job.exact, nn_param_count(b->job.model)), 0);
    assert_int_equal(job_state(&b->job, b->config, &b->state, &why), 0);
    b->own = calloc(work_vector_count(b->work), sizeof *b->own);
    assert_non_null(b->own);
}

static void
bench_fini(struct bench *b)
{
    free(b->own);
    state_fini(&b->state);
    work_destroy(&b->work);
    buckets_fini(&b->buckets);
    pool_destroy(&b->pool);
    job_close(&b->job);
    config_destroy(&b->config);
    folder_fini(&b->folder);
}

static int32_t *
sum_of(struct bench *b)
{
    size_t size = work_vector_count(b->work) * sizeof *b->own;
    int32_t *sum = malloc(size);
    assert_non_null(sum);
    work_round(b->work, &b->state, 3, true, b->own, NULL, NULL);
    memcpy(sum, b->own, size);
    return sum;
}

/* No time is shorter than the least, so as many times the least ones as there were are within the time that it took. */
static void
measure(const char *text, size_t parts)
{
    static struct stage_times times[STAGES_CUTS_MAX + 1];
    struct stage_times piece;
    OWNED(bench_fini) struct bench b;
    double all_s = 0;
    bench_init(&b, text);
    assert_int_equal(b.stages.cut_count + 1, parts);
    int32_t *before = sum_of(&b);
    for (size_t p = 0; p < parts; p++)
        times[p] = (struct stage_times){-1, -1, -1};
    double start = clock_s();
    assert_int_equal(stage_times_measure(times, &piece, &b.stages, b.work, &b.state, b.own), 0);
    double took_s = clock_s() - start;
    for (size_t p = 0; p < parts; p++) {
        assert_true(times[p].forward_s > 0);
        assert_true(times[p].input_s >= 0);
        assert_true(times[p].weight_s >= 0);
        assert_true(piece.forward_s <= times[p].forward_s);
        assert_true(piece.input_s <= times[p].input_s);
        assert_true(piece.weight_s <= times[p].weight_s);
        all_s += times[p].forward_s + times[p].input_s + times[p].weight_s;
    }
    assert_true(TIMES * all_s <= took_s + 1e-5 * (double)parts * TIMES);
    OWNED(memory_free) int32_t *after = sum_of(&b);
    assert_memory_equal(before, after, work_vector_count(b.work) * sizeof *before);
    free(before);
}

TEST(images_are_measured_part_by_part)
{
    measure("data: {source: glyphs, train: 240, test: 24}\n"
            "model: [conv: {filters: 8, kernel: 5, pad: 2}, batchnorm, relu, maxpool: 2, "
            "conv: {filters: 16, kernel: 3}, relu, flatten, dense: 100, relu, dense: 10]\n"
            "train: {batch: 48, shards: 4}\n",
            5);
}

#define BLOCK                                                                                      \
    "residual: [layernorm, dense: 48, attention: 2, dense: 16], "                                  \
    "residual: [layernorm, dense: 64, gelu, dense: 16], "

/* The embedding reads the pass of the last part. */
TEST(tied_weights_are_measured_with_both_parts)
{
    measure("data: {source: text, file: text, context: 8}\n"
            "model: [embedding: {units: 16, tokens: 256}, positions, " BLOCK BLOCK
            "layernorm, dense: {units: 256, tied: yes, bias: no}]\n"
            "train: {batch: 8, shards: 4}\n",
            6);
}

TEST(a_model_without_cuts_is_one_part)
{
    measure("data: {source: glyphs, train: 240, test: 24}\n"
            "model: [flatten, dense: 10]\n"
            "train: {batch: 48, shards: 4}\n",
            1);
}

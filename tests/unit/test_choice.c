/* test_choice.c - mesh.compress: auto: what a step costs with each codec here, and which one the sum of these costs chooses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/job/job.h"
#include "node/train/choice.h"
#include "node/train/pool.h"
#include "tests/support/rand.h"

static struct config *config;
static struct job job;
static struct state state, next;
static struct pool *pool;
static int32_t *own;
static size_t vector;

static int
open_job(void **context)
{
    (void)context;
    struct why why;
    assert_int_equal(config_load(&config, "configs/compress-topk.yaml", &why), 0);
    assert_int_equal(config_set(config, "mesh.compress=auto", &why), 0);
    assert_int_equal(config_set(config, "mesh.compress_warmup=2", &why), 0);
    assert_int_equal(config_check(config, &why), 0);
    assert_int_equal(job_open(&job, config, &why), 0);
    const struct state_job rules = job_rules(&job, config);
    size_t params = nn_param_count(job.model), blocks = exact_blocks(job.exact);
    vector = params + state_tail(blocks) + state_behind(&rules, blocks);
    own = calloc(vector, sizeof *own);
    assert_non_null(own);
    assert_int_equal(pool_new(&pool, 1), 0);
    assert_int_equal(state_init(&state, &rules, job.exact, params), 0);
    assert_int_equal(state_init(&next, &rules, job.exact, params), 0);
    state_start(&state);
    struct rand rand = {1};
    for (size_t i = 0; i < params; i++)
        own[i] = (int32_t)(rand_normal(&rand) * 1e6f);
    return 0;
}

static int
close_job(void **context)
{
    (void)context;
    free(own);
    state_fini(&state);
    state_fini(&next);
    pool_destroy(&pool);
    job_close(&job);
    config_destroy(&config);
    return 0;
}

static const struct choice SLOW = {.members = 4, .shards = 3, .line = 1000000, .wait_s = 10};

static unsigned
cheapest(const struct choice *choice, int32_t cost[CODECS])
{
    unsigned least = 0;
    struct choice whole = *choice;
    whole.elements = whole.part.end = state.param_count;
    choice_costs(&whole, &job, &state, own, cost);
    for (unsigned kind = 1; kind < CODECS; kind++)
        least = cost[kind] > 0 && cost[kind] < cost[least] ? kind : least;
    return least;
}

/* On a slow line some codec is much cheaper than none, and on a fast one nobody waits for what it saves. */
static void
a_slow_line_pays_for_a_codec(void **context)
{
    (void)context;
    int32_t cost[CODECS];
    unsigned kind = cheapest(&SLOW, cost);
    assert_int_not_equal(kind, CODEC_none);
    assert_true(cost[kind] < cost[CODEC_none] / 4);
    for (unsigned k = 0; k < CODECS; k++)
        assert_int_equal(cost[k] > 0, k == CODEC_none || job.codec[k].coded != NULL);
    struct choice fast = SLOW;
    fast.line = 1000000000, fast.wait_s = 0;
    assert_int_equal(cheapest(&fast, cost), CODEC_none);
}

static void
without_a_line_nothing_costs_anything(void **context)
{
    (void)context;
    struct choice no_line = SLOW, no_shards = SLOW;
    int32_t cost[CODECS], zero[CODECS] = {0};
    no_line.line = 0;
    no_shards.shards = 0;
    cheapest(&no_line, cost);
    assert_memory_equal(cost, zero, sizeof cost);
    cheapest(&no_shards, cost);
    assert_memory_equal(cost, zero, sizeof cost);
    choice_costs(&SLOW, &job, &state, own, cost); /* no parameters */
    assert_memory_equal(cost, zero, sizeof cost);
}

static void
alone_a_codec_only_costs(void **context)
{
    (void)context;
    struct choice alone = SLOW;
    int32_t cost[CODECS];
    alone.members = 1;
    assert_int_equal(cheapest(&alone, cost), CODEC_none);
    assert_true(cost[CODEC_none] > 0);
}

/* The first tensor is the kernel of a convolution, of 400 elements: too few for the codecs that have one unit for a tensor. */
static void
a_part_that_is_too_small_costs_the_same(void **context)
{
    (void)context;
    struct choice small = SLOW;
    int32_t cost[CODECS];
    small.elements = small.part.end = nn_tensor(job.model, 0)->count;
    choice_costs(&small, &job, &state, own, cost);
    assert_true(cost[CODEC_none] > 0);
    assert_int_equal(cost[CODEC_sparse], cost[CODEC_none]);
    assert_int_equal(cost[CODEC_powersgd], cost[CODEC_none]);
    assert_true(cost[CODEC_int8] > 0);
}

/* The last step of the warm-up is number 1. Returns the codec of the state after it. */
static uint64_t
chosen_of(const int32_t cost[CODECS])
{
    struct state_event event;
    int32_t *total = calloc(vector, sizeof *total);
    state_start(&state);
    for (int step = 0; step < 2; step++) {
        const struct nn_result result = {.loss = 1};
        memset(total, 0, vector * sizeof *total);
        state_tail_add(total + state.param_count, state_rows(&state), &result);
        assert_int_equal(state_chooses(&state), step == 1);
        assert_int_equal(state.header->codec, 0);
        if (step == 1)
            memcpy(total + state_costs(&state), cost, CODECS * sizeof *cost);
        if (state_begin(&next, &state, total, &event)) /* the first weight ahead of the others */
            state_apply(&next, &state, total, 0, nn_tensor(job.model, 0)->count, pool);
        state_squares(&next, &state, total, pool);
        uint64_t hash = state_finish(&next, &state, total, pool);
        assert_int_equal(hash, state_hash(&next, pool));
        state_swap(&state, &next);
    }
    assert_false(state_chooses(&state));
    assert_true(state_grid(&state) ==
                (state.header->codec ? job.codec[state.header->codec].coded : job.exact));
    assert_int_equal(state_span(&state), job.codec[state.header->codec].flush ? 64 : 0);
    free(total);
    return state.header->codec;
}

static void
the_least_sum_is_chosen(void **context)
{
    (void)context;
    int32_t cost[CODECS] = {[CODEC_none] = 100, [CODEC_int8] = 60, [CODEC_onebit] = 50};
    assert_int_equal(chosen_of(cost), CODEC_onebit);
    cost[CODEC_powersgd] = 50; /* of equals the first one */
    assert_int_equal(chosen_of(cost), CODEC_onebit);
    cost[CODEC_powersgd] = 49;
    assert_int_equal(chosen_of(cost), CODEC_powersgd);
    for (size_t t = 0; t < exact_tensors(job.exact); t++) {
        size_t first = exact_block_first(job.exact, exact_tensor_first(job.exact, t));
        bool matrix = exact_matrix(job.codec[CODEC_powersgd].coded, t) != NULL;
        assert_true(state.basis[first] == (matrix ? 1 : 0));
    }
    cost[CODEC_none] = 40;
    assert_int_equal(chosen_of(cost), CODEC_none);
    memset(cost, 0, sizeof cost); /* nobody knew anything */
    assert_int_equal(chosen_of(cost), CODEC_none);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_line_pays_for_a_codec),
        cmocka_unit_test(without_a_line_nothing_costs_anything),
        cmocka_unit_test(alone_a_codec_only_costs),
        cmocka_unit_test(a_part_that_is_too_small_costs_the_same),
        cmocka_unit_test(the_least_sum_is_chosen),
    };
    return cmocka_run_group_tests(tests, open_job, close_job);
}

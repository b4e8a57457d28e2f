/* test_choice.c - mesh.compress: auto: what a step costs with each codec here, and which one the sum of these costs
 * chooses. */
#include "node/train/choice.h"
#include "node/train/job.h"
#include "node/train/pool.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

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
    assert_int_equal(config_set(config, "train.epochs=100", &why), 0);
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

TEST_ALL(open_job, close_job)

static const struct choice SLOW = {
    .members = 4, .shards = 3, .summed = 3, .line = 1000000, .wait_s = 10};

static unsigned
cheapest(const struct choice *choice, int32_t cost[CODEC_COSTS])
{
    unsigned least = 0;
    struct choice whole = *choice;
    whole.elements = whole.part.end = state.param_count;
    choice_costs(&whole, &job, &state, own, cost);
    for (unsigned kind = 1; kind < CODEC_COSTS; kind++)
        least = cost[kind] > 0 && cost[kind] < cost[least] ? kind : least;
    return least;
}

/* On a slow line some codec is much cheaper than none, and on a fast one nobody waits for what it saves. */
TEST(a_slow_line_pays_for_a_codec)
{
    int32_t cost[CODEC_COSTS];
    unsigned kind = cheapest(&SLOW, cost);
    assert_int_not_equal(kind, CODEC_none);
    assert_true(cost[kind] < cost[CODEC_none] / 4);
    for (unsigned k = 0; k < CODECS; k++)
        assert_int_equal(cost[k] > 0, k == CODEC_none || job.codec[k].coded != NULL);
    struct choice fast = SLOW;
    fast.line = 1000000000, fast.wait_s = 1e-9, fast.alone_s = 1;
    assert_int_equal(cheapest(&fast, cost), CODEC_none);
}

TEST(without_a_line_nothing_costs_anything)
{
    struct choice no_line = SLOW, no_shards = SLOW;
    int32_t cost[CODEC_COSTS], zero[CODEC_COSTS] = {0};
    no_line.line = 0;
    no_shards.shards = 0;
    cheapest(&no_line, cost);
    assert_memory_equal(cost, zero, sizeof cost);
    cheapest(&no_shards, cost);
    assert_memory_equal(cost, zero, sizeof cost);
    choice_costs(&SLOW, &job, &state, own, cost); /* no parameters */
    assert_memory_equal(cost, zero, sizeof cost);
}

TEST(of_a_node_alone_nothing_costs_anything)
{
    struct choice alone = SLOW, nothing = SLOW;
    int32_t cost[CODEC_COSTS], zero[CODEC_COSTS] = {0};
    alone.members = 1;
    cheapest(&alone, cost);
    assert_memory_equal(cost, zero, sizeof cost);
    nothing.summed = 0; /* it computed nothing of the step before */
    cheapest(&nothing, cost);
    assert_memory_equal(cost, zero, sizeof cost);
}

/* What the others would compute takes this node less than the sum of all. */
TEST(one_alone_may_be_the_fastest)
{
    struct choice quick = SLOW;
    int32_t cost[CODEC_COSTS];
    cheapest(&quick, cost);
    assert_int_equal(cost[CODEC_ALONE], 0); /* nobody knows */
    quick.alone_s = 1e-5;
    assert_int_equal(cheapest(&quick, cost), CODEC_ALONE);
    quick.alone_s = 100;
    assert_int_not_equal(cheapest(&quick, cost), CODEC_ALONE);
}

/* Nobody has waited for a sum yet: the line is all that is known. */
TEST(without_a_wait_the_line_decides)
{
    struct choice first = SLOW;
    int32_t cost[CODEC_COSTS];
    first.wait_s = 0;
    assert_int_not_equal(cheapest(&first, cost), CODEC_none);
    assert_true(cost[CODEC_none] > 1000);
}

TEST(what_is_used_is_given_up_if_one_alone_is_faster)
{
    int32_t cost[CODEC_COSTS], zero[CODEC_COSTS] = {0};
    choice_judge(CODEC_sparse, 0.02, 0.018, cost); /* less than a tenth */
    assert_true(cost[CODEC_ALONE] >= cost[CODEC_sparse] - 30);
    choice_judge(CODEC_sparse, 0.02, 0.025, cost);
    assert_true(cost[CODEC_sparse] < cost[CODEC_ALONE]);
    choice_judge(CODEC_sparse, 0.02, 0.012, cost);
    assert_true(cost[CODEC_ALONE] < cost[CODEC_sparse]);
    assert_true(cost[CODEC_sparse] < cost[CODEC_none]);
    choice_judge(CODEC_sparse, 0.02, 0, cost); /* unknown */
    assert_memory_equal(cost, zero, sizeof cost);
}

/* The first tensor is the kernel of a convolution, of 400 elements: too few for the codecs that have one unit for a
 * tensor. */
TEST(a_part_that_is_too_small_costs_the_same)
{
    struct choice small = SLOW;
    int32_t cost[CODEC_COSTS];
    small.elements = small.part.end = nn_tensor(job.model, 0)->count;
    choice_costs(&small, &job, &state, own, cost);
    assert_true(cost[CODEC_none] > 0);
    assert_int_equal(cost[CODEC_sparse], cost[CODEC_none]);
    assert_int_equal(cost[CODEC_powersgd], cost[CODEC_none]);
    assert_true(cost[CODEC_int8] > 0);
}

/* A round with this total. */
static void
apply(struct state *now, struct state *then, const int32_t *total)
{
    struct state_event event;
    if (state_begin(then, now, total, &event)) /* the first weight ahead of the others */
        state_apply(then, now, total, 0, nn_tensor(job.model, 0)->count, pool);
    state_squares(then, now, total, pool);
    uint64_t hash = state_finish(then, now, total, pool);
    assert_int_not_equal(hash, 0);
    assert_int_equal(hash, state_hash(then, pool));
    state_swap(now, then);
}

/* Of a step: gradients, and all samples counted. */
static void
sum_of(const struct state *now, int32_t *total)
{
    const struct nn_result result = {.loss = 1};
    memset(total, 0, vector * sizeof *total);
    for (size_t i = 0; i < now->param_count && now->header->phase == STATE_TRAIN; i++)
        total[i] = own[i] >> 4;
    state_tail_add(total + now->param_count, state_rows(now), &result);
}

static void
choose(const int32_t cost[CODEC_COSTS])
{
    OWNED(memory_free) int32_t *total = calloc(vector, sizeof *total);
    assert_true(state_chooses(&state));
    assert_int_equal(state_rows(&state), 0);
    memcpy(total + state_costs(&state), cost, CODEC_COSTS * sizeof *cost);
    apply(&state, &next, total);
}

static void
train(uint64_t steps)
{
    OWNED(memory_free) int32_t *total = calloc(vector, sizeof *total);
    for (uint64_t end = state.header->step + steps;
         state.header->step < end || state.header->phase == STATE_EVALUATE;) {
        assert_false(state_chooses(&state));
        sum_of(&state, total);
        apply(&state, &next, total);
    }
}

/* The warm-up has two steps. Returns the codec of the state after it. */
static uint64_t
chosen_of(const int32_t cost[CODEC_COSTS])
{
    state_start(&state);
    assert_int_equal(state_warms(&state), 2);
    train(2);
    assert_int_equal(state_warms(&state), 0);
    assert_int_equal(state.header->codec, 0);
    choose(cost);
    uint64_t kind = state.header->codec;
    assert_false(state_chooses(&state));
    assert_int_equal(state.header->step, 2);
    assert_true(state_grid(&state) == (kind && kind < CODECS ? job.codec[kind].coded : job.exact));
    assert_int_equal(state_span(&state), kind < CODECS && job.codec[kind].flush ? 64 : 0);
    return kind;
}

TEST(the_least_sum_is_chosen)
{
    int32_t cost[CODEC_COSTS] = {[CODEC_none] = 100, [CODEC_int8] = 60, [CODEC_onebit] = 50};
    assert_int_equal(chosen_of(cost), CODEC_onebit);
    cost[CODEC_powersgd] = 50; /* of equals the first one */
    assert_int_equal(chosen_of(cost), CODEC_onebit);
    cost[CODEC_powersgd] = 49;
    assert_int_equal(chosen_of(cost), CODEC_powersgd);
    cost[CODEC_ALONE] = 45;
    assert_int_equal(chosen_of(cost), CODEC_ALONE);
    cost[CODEC_none] = 40;
    assert_int_equal(chosen_of(cost), CODEC_NOT);
    memset(cost, 0, sizeof cost); /* nobody knew anything */
    assert_int_equal(chosen_of(cost), CODEC_none);
}

/* Alone nothing is chosen: it looks again after each span, as long as nothing is. What is used is judged then, too,
 * and none is final. */
TEST(it_chooses_again_after_a_span)
{
    const int32_t nothing[CODEC_COSTS] = {0},
                  sparse[CODEC_COSTS] = {[CODEC_none] = 9, [CODEC_sparse] = 5},
                  alone[CODEC_COSTS] = {[CODEC_none] = 9, [CODEC_sparse] = 5, [CODEC_ALONE] = 4};
    assert_int_equal(chosen_of(nothing), 0);
    train(64);
    choose(sparse);
    assert_int_equal(state.header->codec, CODEC_sparse);
    train(64);
    choose(nothing); /* nobody measured */
    assert_int_equal(state.header->codec, CODEC_sparse);
    train(64);
    choose(alone);
    assert_int_equal(state.header->codec, CODEC_ALONE);
    train(130);
}

/* What is chosen begins as it does where it is set: the same exponents and bases. */
TEST(it_begins_as_if_it_was_set)
{
    static const enum codec_kind kinds[] = {CODEC_int8, CODEC_sparse, CODEC_onebit, CODEC_powersgd};
    OWNED(memory_free) int32_t *total = calloc(vector, sizeof *total);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct state_job fixed = state.job;
        OWNED(state_fini) struct state set, then;
        int32_t cost[CODEC_COSTS] = {[CODEC_none] = 9};
        cost[kinds[k]] = 5;
        assert_int_equal(chosen_of(cost), kinds[k]);
        fixed.choose = false;
        fixed.codec = &job.codec[kinds[k]];
        assert_int_equal(state_init(&set, &fixed, job.exact, state.param_count), 0);
        assert_int_equal(state_init(&then, &fixed, job.exact, state.param_count), 0);
        state_start(&set);
        for (int step = 0; step < 2; step++) {
            sum_of(&set, total);
            apply(&set, &then, total);
        }
        assert_true(state_grid(&set) == state_grid(&state));
        assert_memory_equal(set.exponent, state.exponent, set.block_count * sizeof *set.exponent);
        for (size_t v = 0; v < set.slot_count; v++)
            assert_memory_equal(set.slot[v], state.slot[v], set.param_count * sizeof *set.params);
        assert_memory_equal(set.params, state.params, set.param_count * sizeof *set.params);
    }
}

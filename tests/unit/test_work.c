/* The total of a round does not depend on who computes which shard, in which order, on how many threads. */
#include <errno.h>
#include <math.h>

#include "node/train/ledger.h"
#include "node/train/work.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/total_check.h"

enum { SHARDS = 5, BATCH = 20, TRAIN = 50, TEST = 33, SPAN = 5 };
#define ALL ((UINT64_C(1) << SHARDS) - 1)

static uint64_t local_steps = 1;
static bool moments; /* each shard has those of AdamW, and spans have SPAN steps */
static struct data_set *data;
static struct nn_model *model;
static struct exact *exact;

static int
open_model(const struct nn_layer_spec *layers, size_t layer_count)
{
    struct why why;
    struct data_spec spec = {.source = DATA_GLYPHS, .seed = 3, .train = TRAIN, .test = TEST};
    size_t count[NN_LAYERS_MAX], tensors = 0;
    nn_init("portable");
    if (data_open(&data, &spec, &why) ||
        nn_model_new(&model, &data_info(data)->input, layers, layer_count, NN_CROSS_ENTROPY, &why))
        return -1;
    for (; tensors < nn_tensor_count(model); tensors++)
        count[tensors] = nn_tensor(model, tensors)->count;
    return exact_new(&exact, count, tensors, SHARDS);
}

FIXTURE(set_up)
{
    local_steps = 1;
    const struct nn_layer_spec layers[] = {
        LAYER(CONV2D, .units = 4, .kernel = 5, .pad = 2),
        LAYER(RELU),
        LAYER(MAXPOOL, .kernel = 2),
        LAYER(FLATTEN),
        LAYER(DROPOUT, .drop = 0.25f),
        DENSE(12),
        LAYER(TANH),
        DENSE(10),
    };
    return open_model(layers, sizeof layers / sizeof *layers);
}

/* Running averages, of which a shard has its own statistics, and sums around lists of layers. */
FIXTURE(averages)
{
    local_steps = 1;
    const struct nn_layer_spec layers[] = {
        LAYER(CONV2D, .units = 4, .kernel = 5, .stride = 2),
        LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f),
        LAYER(RELU),
        LAYER(RESIDUAL),
        LAYER(CONV2D, .units = 4, .kernel = 3, .pad = 1),
        LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.5f),
        LAYER(RESIDUAL_END),
        LAYER(FLATTEN),
        LAYER(LAYERNORM, .epsilon = 1e-5f),
        DENSE(10),
    };
    return open_model(layers, sizeof layers / sizeof *layers);
}

FIXTURE(tear_down)
{
    moments = false;
    exact_destroy(&exact);
    nn_model_destroy(&model);
    data_close(&data);
    return 0;
}

/* In rounds of two steps, 40 and 10 samples. */
FIXTURE(walks)
{
    int rc = set_up(test_state);
    local_steps = 2;
    return rc;
}

FIXTURE(averages_in_walks)
{
    int rc = averages(test_state);
    local_steps = 2;
    return rc;
}

FIXTURE(averages_in_walks_with_moments)
{
    moments = true;
    return averages_in_walks(test_state);
}

TEST_EACH(set_up, tear_down)

struct bench {
    struct pool *pool;
    struct work *work;
    struct state state, next;
    int32_t *own;
    size_t next_bucket;
};

/* Shards are audited, so that each has a checksum of its own in the ledger. */
static bool claims;

static void
bucket_ready(void *ctx, size_t bucket)
{
    struct bench *bench = ctx;
    assert_true(bucket >= bench->next_bucket);
    bench->next_bucket = bucket + 1;
}

static void
bench_init_lanes(struct bench *bench, unsigned threads, bool exact_mode, unsigned lanes)
{
    const struct optim_spec plain = {.kind = OPTIM_SGD, .rate = 0.1f, .clip_norm = 1},
                            adamw = {.kind = OPTIM_ADAMW,
                                     .rate = 0.01f,
                                     .beta1 = 0.9f,
                                     .beta2 = 0.99f,
                                     .epsilon = 1e-8f,
                                     .weight_decay = 0.1f};
    struct state_job job = {
        .rules.optim = {.kind = OPTIM_SGD,
                        .rate = local_steps > 1 ? 1 : 0.1f,
                        .momentum = local_steps > 1 ? 0.5f : 0.9f},
        .seed = 7,
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = local_steps,
        .train = TRAIN,
        .test = TEST,
        .rules.local = moments ? adamw : plain,
        .moments = moments,
        .span = SPAN,
        .rules.epochs = 2,
        .rules.eval_every = 1,
        .labels = 1,
        .claims = claims,
    };
    memset(bench, 0, sizeof *bench);
    assert_int_equal(pool_new(&bench->pool, threads), 0);
    struct work_setup setup = {
        .model = model,
        .data = data,
        .exact = exact,
        .pool = bench->pool,
        .threads = threads,
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = local_steps,
        .moments = moments ? optim_slots(&adamw) : 0,
        .seed = 7,
        .exact_mode = exact_mode,
        .lanes = lanes,
        .claims = claims,
        .bucket_bytes = 1000,
    };
    assert_int_equal(work_new(&bench->work, &setup), 0);
    assert_int_equal(state_init(&bench->state, &job, exact, nn_param_count(model)), 0);
    assert_int_equal(state_init(&bench->next, &job, exact, nn_param_count(model)), 0);
    state_start(&bench->state);
    nn_init_params(model, 7, bench->state.params);
    bench->own = calloc(work_vector_count(bench->work), sizeof *bench->own);
    assert_non_null(bench->own);
}

static void
bench_init(struct bench *bench, unsigned threads, bool exact_mode)
{
    bench_init_lanes(bench, threads, exact_mode, 0);
}

static void
bench_fini(struct bench *bench)
{
    free(bench->own);
    state_fini(&bench->next);
    state_fini(&bench->state);
    work_destroy(&bench->work);
    pool_destroy(&bench->pool);
}

static void
compute(struct bench *bench, uint64_t shards, bool fresh)
{
    size_t count;
    work_buckets(bench->work, &count);
    bench->next_bucket = 0;
    assert_int_equal(work_open(bench->work, &bench->state, shards), 0);
    work_round(bench->work, &bench->state, shards, fresh, bench->own, bucket_ready, bench);
    assert_int_equal(bench->next_bucket, count);
}

static struct state_event
apply(struct bench *bench)
{
    struct state_event event;
    state_advance(&bench->next, &bench->state, bench->own, &event, bench->pool);
    state_swap(&bench->state, &bench->next);
    work_applied(bench->work, &bench->state, &bench->next, &event);
    return event;
}

/* Advance to the first short batch, so that ragged shards are covered, then compare. */
static void
advance(struct bench *bench, unsigned rounds)
{
    struct why why;
    uint64_t coverage;
    while (rounds--) {
        compute(bench, ALL, true);
        if (total_check(&bench->state, bench->own, &coverage, &why))
            fail_msg("%s", why.line);
        apply(bench);
    }
}

/* Of a round of evaluation only what is behind the gradients counts. */
static void
same_total(const struct bench *a, const struct bench *b)
{
    size_t first = a->state.header->phase == STATE_TRAIN ? 0 : nn_param_count(model);
    size_t end = work_vector_count(a->work) - (claims ? 0 : ledger_words(SHARDS));
    assert_memory_equal(a->own + first, b->own + first, (end - first) * sizeof *a->own);
}

TEST(any_grouping_gives_the_same_total)
{
    for (unsigned rounds = 0; rounds < 8; rounds++) {
        OWNED(bench_fini) struct bench one, other;
        claims = rounds >= 4;
        bench_init(&one, 1, true);
        bench_init(&other, 3, true);
        advance(&one, rounds % 4);
        advance(&other, rounds % 4);
        assert_int_equal(state_hash(&one.state, one.pool), state_hash(&other.state, other.pool));
        compute(&one, ALL, true);
        compute(&other, 0x12, true);
        compute(&other, 0x08, false);
        compute(&other, 0x05, false);
        same_total(&one, &other);
    }
    claims = false;
}

/* Shards that are computed one after the other with the same memory, also those that were begun early. */
TEST(fewer_lanes_give_the_same_total)
{
    for (unsigned lanes = 1; lanes <= SHARDS; lanes++)
        for (unsigned rounds = 0; rounds < 4; rounds++) {
            OWNED(bench_fini) struct bench all, few;
            bench_init_lanes(&all, 2, true, 0);
            bench_init_lanes(&few, 2, true, lanes);
            advance(&all, rounds);
            advance(&few, rounds);
            compute(&all, ALL, true);
            work_begin(few.work, &few.state, ALL, 104);
            compute(&few, ALL, true);
            same_total(&all, &few);
        }
}

/* Once, in whole exponent blocks, and none much larger than asked for. */
TEST(buckets_cover_the_vector_once)
{
    OWNED(bench_fini) struct bench bench;
    size_t count, params = nn_param_count(model);
    bench_init(&bench, 1, true);
    const struct core_bucket *bucket = work_buckets(bench.work, &count);
    OWNED(memory_free) uint8_t *seen = calloc(params, 1);
    assert_non_null(seen);
    assert_true(count >= 5);
    for (size_t i = 0; i + 1 < count; i++) {
        assert_true(bucket[i].count * sizeof(float) <= 1000 + EXACT_BLOCK * sizeof(float));
        assert_int_equal(exact_block_first(exact, exact_block_of(exact, bucket[i].first)),
                         bucket[i].first);
        for (size_t e = bucket[i].first; e < bucket[i].first + bucket[i].count; e++)
            assert_int_equal(seen[e]++, 0);
    }
    assert_null(memchr(seen, 0, params));
    assert_int_equal(bucket[count - 2].first, 0); /* the lowest layer comes last */
    assert_int_equal(bucket[count - 1].first, params);
    assert_int_equal(bucket[count - 1].first + bucket[count - 1].count,
                     work_vector_count(bench.work));
}

/* A forward pass begun before all of the state was known makes no difference, whatever becomes of it. */
TEST(a_round_may_be_begun_early)
{
    const struct {
        size_t known[3]; /* parameters; in up to three goes */
        uint64_t begun, shards;
        bool other; /* a part of the present round is computed in between */
    } row[] = {
        {{104, 0, 0}, ALL, ALL, false},       {{103, 103, 104}, ALL, ALL, false},
        {{104, 3000, 5000}, ALL, ALL, false}, {{104, 104, 104}, 0x0b, 0x0b, false},
        {{104, 0, 0}, 0x0b, 0x13, false},     {{104, 0, 0}, ALL, ALL, true},
    };
    assert_int_equal(nn_tensor(model, 2)->first, 104); /* the first dense layer's */
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (unsigned rounds = 0; rounds < 4; rounds++) {
            OWNED(bench_fini) struct bench bench, early;
            struct state_event event;
            bench_init(&bench, 1, true);
            bench_init(&early, 2, true);
            advance(&bench, rounds + 1);
            advance(&early, rounds);
            compute(&early, ALL, true);
            for (size_t k = 0; k < 3; k++) {
                state_advance(&early.next, &early.state, early.own, &event, early.pool);
                for (size_t e = row[i].known[k]; e < nn_param_count(model); e++)
                    early.next.params[e] = NAN; /* not to be looked at yet */
                work_begin(early.work, &early.next, row[i].begun, row[i].known[k]);
            }
            if (row[i].other) {
                compute(&early, 0x10, true);
                compute(&early, ALL & ~0x10u, false);
            }
            apply(&early);
            compute(&bench, row[i].shards, true);
            compute(&early, row[i].shards, true);
            same_total(&bench, &early);
        }
}

TEST(counts_samples_and_learns)
{
    OWNED(bench_fini) struct bench bench;
    struct state_event event = {0};
    bench_init(&bench, 2, true);
    double first = 0;
    unsigned steps = 0, evaluations = 0;
    uint64_t samples = 0;
    for (unsigned round = 0; !bench.state.header->done; round++) {
        assert_true(round < 20);
        compute(&bench, ALL, true);
        event = apply(&bench);
        first = round ? first : event.loss;
        steps += (unsigned)event.steps;
        evaluations += event.evaluated;
        samples += event.stepped ? event.samples : 0;
        if (event.evaluated)
            assert_int_equal(event.samples, TEST);
    }
    assert_int_equal(steps, 6); /* 20 + 20 + 10 samples, twice */
    assert_int_equal(samples, 2 * TRAIN);
    assert_int_equal(evaluations, 2);
    assert_true(bench.state.header->train_loss < first);
}

/* Does the total pass the check that goes along with the step? */
static int
check_beside(struct bench *bench)
{
    struct why why;
    struct state_event event;
    uint64_t coverage;
    if (state_check_counts(&bench->state, NULL, bench->own, &coverage, &why))
        return -EBADMSG;
    state_advance(&bench->next, &bench->state, bench->own, &event, bench->pool);
    return state_check_gradients(&bench->next, &bench->state, NULL, bench->own, &why);
}

/* Flip some bits one by one, all of the tail and the ledger among them: each must be refused. */
TEST(a_flipped_bit_is_refused)
{
    struct why why;
    uint64_t coverage;
    for (unsigned rounds = 0; rounds < 4; rounds++) {
        OWNED(bench_fini) struct bench bench;
        bench_init(&bench, 2, rounds != 1 || local_steps > 1);
        advance(&bench, rounds);
        bool training = bench.state.header->phase == STATE_TRAIN;
        compute(&bench, ALL & 0x13, true);
        assert_int_equal(total_check(&bench.state, bench.own, &coverage, &why), -EBADMSG);
        for (size_t word = nn_param_count(model); word < nn_param_count(model) + TAIL_OVER;
             word++) {
            bench.own[word] ^= 64; /* also when more is added later */
            compute(&bench, ALL & ~0x13u, false);
            assert_int_equal(total_check(&bench.state, bench.own, &coverage, &why), -EBADMSG);
            compute(&bench, ALL & 0x13, true);
        }
        compute(&bench, ALL & ~0x13u, false);
        assert_int_equal(total_check(&bench.state, bench.own, &coverage, &why), 0);
        assert_int_equal(check_beside(&bench), 0);
        size_t tail = nn_param_count(model), end = work_vector_count(bench.work);
        for (size_t bit = training ? 0 : tail * 32; bit < end * 32;
             bit += bit < tail * 32 ? 97 : 1) {
            int32_t *word = &bench.own[bit / 32], kept = *word;
            *word = (int32_t)((uint32_t)kept ^ 1u << bit % 32);
            assert_int_equal(total_check(&bench.state, bench.own, &coverage, &why), -EBADMSG);
            if (bit % 5 == 0)
                assert_int_equal(check_beside(&bench), -EBADMSG);
            *word = kept;
        }
    }
}

TEST(a_total_of_other_samples_is_refused)
{
    OWNED(bench_fini) struct bench bench;
    struct why why;
    uint64_t coverage;
    bench_init(&bench, 1, true);
    compute(&bench, ALL, true);
    bench.state.job.seed++;
    assert_int_equal(total_check(&bench.state, bench.own, &coverage, &why), -EBADMSG);
    assert_string_equal(why.line, "shard 0 was computed from other samples than its own");
}

/* Both computed the present round. */
static void
same_but_for_rounding(const struct bench *one, const struct bench *other)
{
    size_t params = nn_param_count(model);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < params; i++) {
        double a = one->own[i], b = other->own[i];
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    assert_true(norm > 0);
    assert_true(difference < 1e-8 * norm);
    assert_int_equal(one->own[params + TAIL_CORRECT], other->own[params + TAIL_CORRECT]);
}

/* With any number of threads, which then have any number of shards each, and with few shards at a time. */
TEST(inexact_sums_agree_to_rounding)
{
    for (unsigned threads = 1; threads <= SHARDS + 1; threads++)
        for (unsigned lanes = 0; lanes < SHARDS; lanes++) {
            OWNED(bench_fini) struct bench one, other;
            struct why why;
            uint64_t coverage = 0;
            bench_init(&one, 1, true);
            bench_init_lanes(&other, threads, false, lanes);
            compute(&one, ALL, true);
            compute(&other, ALL, true);
            same_but_for_rounding(&one, &other);
            assert_int_equal(total_check(&other.state, other.own, &coverage, &why), 0);
            assert_int_equal(coverage, ALL);
        }
}

TEST_ALSO(any_grouping_gives_the_same_total, averages, tear_down)
TEST_ALSO(any_grouping_gives_the_same_total, walks, tear_down)
TEST_ALSO(any_grouping_gives_the_same_total, averages_in_walks, tear_down)
TEST_ALSO(any_grouping_gives_the_same_total, averages_in_walks_with_moments, tear_down)
TEST_ALSO(fewer_lanes_give_the_same_total, walks, tear_down)
TEST_ALSO(fewer_lanes_give_the_same_total, averages_in_walks_with_moments, tear_down)
TEST_ALSO(a_round_may_be_begun_early, averages, tear_down)
TEST_ALSO(a_round_may_be_begun_early, walks, tear_down)
TEST_ALSO(a_round_may_be_begun_early, averages_in_walks, tear_down)
TEST_ALSO(counts_samples_and_learns, averages, tear_down)
TEST_ALSO(counts_samples_and_learns, walks, tear_down)
TEST_ALSO(counts_samples_and_learns, averages_in_walks, tear_down)
TEST_ALSO(counts_samples_and_learns, averages_in_walks_with_moments, tear_down)
TEST_ALSO(a_flipped_bit_is_refused, walks, tear_down)
TEST_ALSO(a_total_of_other_samples_is_refused, walks, tear_down)

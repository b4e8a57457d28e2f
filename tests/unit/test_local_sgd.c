/* Local steps of shards, and what becomes of their mean: worked out by hand, and against the papers' own form. */
#include <math.h>
#include <stdio.h>

#include "node/train/job.h"
#include "node/train/local_sgd.h"
#include "node/train/work.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/total_check.h"

enum { TRAIN = 8, BATCH = 2, SHARDS = 2, H = 2, SEED = 5 };

/* In the order in which the epoch uses them: steps of two, the first for shard 0, the second for shard 1. */
static const double sample[TRAIN][2] = {
    {1, 3},   {1, -1}, {2, 1}, {2, 5}, /* the first round */
    {1, 3.5}, {2, 1},  {1, 0}, {1, 8.5},
};

static double x_of[TRAIN], y_of[TRAIN]; /* by row of the files */
static struct folder folder;
static struct why why;

#define JOB(model)                                                                                 \
    "run: {seed: 5, numerics: portable}\n"                                                         \
    "data: {source: npy, train_images: x, train_labels: y, test_images: x, test_labels: y, "       \
    "regression: yes}\n"                                                                           \
    "model: [" model "dense: {units: 1, bias: no}]\n"                                              \
    "train: {loss: squared_error, epochs: 1, batch: 2, shards: 2, optimizer: {sgd: 0.125}, "       \
    "local_steps: 2}\n"

static const char *text = JOB("");

FIXTURE(set_up)
{
    for (uint32_t i = 0; i < TRAIN; i++) {
        x_of[data_shuffle(SEED, 0, i, TRAIN)] = sample[i][0];
        y_of[data_shuffle(SEED, 0, i, TRAIN)] = sample[i][1];
    }
    folder = folder_new();
    npy_make_file(&folder, "x", &(struct npy_make){"<f4", 2, {TRAIN, 1}}, x_of);
    npy_make_file(&folder, "y", &(struct npy_make){"<f4", 1, {TRAIN}}, y_of);
    return 0;
}

FIXTURE(tear_down)
{
    folder_fini(&folder);
    return 0;
}

TEST_ALL(set_up, tear_down)

struct line {
    struct config *config;
    struct job job;
    struct pool *pool;
    struct work *work;
    struct state state, next;
    int32_t *own;
};

static void
nobody(void *ctx, size_t bucket)
{
    (void)ctx;
    (void)bucket;
}

/* y = w x from w = 1. */
static void
line_init(struct line *line, const char *const *set)
{
    memset(line, 0, sizeof *line);
    assert_int_equal(config_parse(&line->config, "test", text, strlen(text), &why), 0);
    snprintf(line->config->data.dir, sizeof line->config->data.dir, "%s", folder.path);
    for (; *set; set++)
        assert_int_equal(config_set(line->config, *set, &why), 0);
    assert_int_equal(config_check(line->config, &why), 0);
    if (job_open(&line->job, line->config, &why))
        fail_msg("%s", why.line);
    assert_int_equal(pool_new(&line->pool, 1), 0);
    const struct work_setup setup = {
        .model = line->job.model,
        .data = line->job.data,
        .exact = line->job.exact,
        .pool = line->pool,
        .threads = 1,
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = line->config->train.local_steps,
        .moments = line->job.moments,
        .seed = SEED,
        .exact_mode = true,
        .bucket_bytes = 4096,
    };
    struct state_job rules = job_rules(&line->job, line->config);
    assert_int_equal(work_new(&line->work, &setup), 0);
    size_t params = nn_param_count(line->job.model);
    assert_int_equal(state_init(&line->state, &rules, line->job.exact, params), 0);
    assert_int_equal(state_init(&line->next, &rules, line->job.exact, params), 0);
    state_start(&line->state);
    for (size_t i = 0; i < params; i++)
        line->state.params[i] = 1;
    line->own = calloc(work_vector_count(line->work), sizeof *line->own);
    assert_non_null(line->own);
}

static void
line_fini(struct line *line)
{
    free(line->own);
    state_fini(&line->next);
    state_fini(&line->state);
    work_destroy(&line->work);
    pool_destroy(&line->pool);
    job_close(&line->job);
    config_destroy(&line->config);
}

/* One training round; the weight after it. */
static double
line_round(struct line *line, struct state_event *event)
{
    uint64_t coverage;
    assert_int_equal(line->state.header->phase, STATE_TRAIN);
    assert_int_equal(work_open(line->work, &line->state, 3), 0);
    work_round(line->work, &line->state, 3, true, line->own, nobody, NULL);
    if (total_check(&line->state, line->own, &coverage, &why))
        fail_msg("%s", why.line);
    assert_int_equal(coverage, 3);
    state_advance(&line->next, &line->state, line->own, event, line->pool);
    state_swap(&line->state, &line->next);
    work_applied(line->work, &line->state, &line->next, event);
    return (double)line->state.params[0];
}

/* The gradient of (w x - y)^2 is 2 x (w x - y), the rate 1/8.
 *     round 1  shard 0: 1 -> 1 - -4/8 = 1.5 -> 1.5 - 8/8 = 0.5     difference 0.5
 *              shard 1: 1 -> 1 - 4/8 = 0.5 -> 0.5 - -16/8 = 2.5    -1.5          mean -0.5: 1.5
 *     round 2  shard 0: 1.5 -> 2 -> 1.5                            0
 *              shard 1: 1.5 -> 0.5 -> 2.5                          -1            mean -0.5
 * With momentum 0.5 the shards come to 0.75 and 2.25, and have velocities 6 and -14; then to 1.28125 and 3.09375, or,
 * if a span has one round alone, to 1.75 and 2. */
TEST(two_shards_and_two_steps_by_hand)
{
    const struct {
        const char *set[4];
        double first, second;
    } row[] = {
        {{NULL}, 1.5, 2},
        {{"train.block_rate=0.5"}, 1.25, 1.58984375},
        {{"train.block_momentum=0.5"}, 1.5, 2.25}, /* v = -0.5, then -0.75 */
        /* w = 1 + 0.5 + 0.25; then shard 0 walks 1.75 -> 2.1875 -> 1.640625, shard 1 1.75 -> 0.5 -> 2.5: G =
         * -0.3203125, v =
         * -0.5703125 */
        {{"train.block_momentum=0.5", "train.block_nesterov=yes"}, 1.75, 2.35546875},
        /* 1/32 of what it was comes off with each step: 1.46875, 0.4541015625; 0.46875, 2.4853515625 */
        {{"train.optimizer.sgd.weight_decay=0.25"}, 1.4697265625, (double)NAN},
        /* no step is longer than 1/8 * 4: shard 0 1.5, 1; shard 1 0.5, 1 */
        {{"train.clip_norm=4"}, 1, (double)NAN},
        {{"train.optimizer.sgd.momentum=0.5"}, 1.5, 2.1875},
        {{"train.optimizer.sgd.momentum=0.5", "mesh.compress_span=2"}, 1.5, 1.875},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        OWNED(line_fini) struct line line;
        struct state_event event;
        line_init(&line, row[i].set);
        double first = line_round(&line, &event);
        assert_true(event.stepped && event.steps == H && event.samples == H * BATCH);
        if (first != row[i].first)
            fail_msg("row %zu: the first round comes to %.12f, expected %.12f", i, first,
                     row[i].first);
        double second = line_round(&line, &event);
        if (second != row[i].second && !isnan(row[i].second))
            fail_msg("row %zu: the second round comes to %.12f, expected %.12f", i, second,
                     row[i].second);
        assert_int_equal(line.state.header->step, 4);
        assert_int_equal(line.state.header->epoch, 1);
    }
}

/* The first step of a span is one of Adam with empty moments: the rate, against the sign of the gradient. So is that of
 * the next span, and no other one: the moments know of the steps before. */
TEST(a_span_of_adam_begins_with_empty_moments)
{
    const double rate = 0.125;
    OWNED(line_fini) struct line line;
    struct state_event event;
    line_init(&line,
              (const char *const[]){"train.optimizer=adam", "train.optimizer.adam.rate=0.125",
                                    "train.local_steps=3", "mesh.compress_span=1", NULL});
    double at[5] = {1};
    for (unsigned step = 0; step < 4; step++) {
        double sides = 0;
        for (unsigned shard = 0; shard < SHARDS; shard++) {
            const double *s = sample[BATCH * step + shard];
            sides += s[0] * (at[step] * s[0] - s[1]) > 0 ? 0.5 : -0.5;
        }
        at[step + 1] = line_round(&line, &event);
        assert_int_equal(event.steps, 1);
        assert_true(fabs(at[step + 1] - (at[step] - rate * sides)) < 1e-5);
    }
}

/* With the loss summed where each shard was: ((1-3)^2 + (1+1)^2 + (3-1)^2 + (1-5)^2) / 4. */
TEST(the_loss_is_that_of_each_step_where_it_was_made)
{
    OWNED(line_fini) struct line line;
    struct state_event event;
    line_init(&line, (const char *const[]){NULL});
    line_round(&line, &event);
    assert_true(event.loss == (4 + 4 + 4 + 16) / 4.0);
}

/* The rate of a step is that of its own number, here 1/32 and then 2/32:
 * shard 0: 1.125 -> 0.8125, shard 1: 0.875 -> 1.6875. */
TEST(schedules_count_local_steps)
{
    OWNED(line_fini) struct line line;
    struct state_event event;
    line_init(&line, (const char *const[]){"train.warmup=4", NULL});
    assert_true(line_round(&line, &event) == 1.25);
}

/* An epoch of 4 steps in rounds of 3 is one of 3 and one of 1; a run of 2 steps is one of 2. */
TEST(fewer_steps_at_the_end)
{
    OWNED(line_fini) struct line line;
    struct state_event event;
    line_init(&line, (const char *const[]){"train.local_steps=3", NULL});
    assert_int_equal(state_steps(&line.state), 3);
    line_round(&line, &event);
    assert_true(event.steps == 3 && event.first == 0 && event.samples == 6);
    assert_int_equal(state_steps(&line.state), 1);
    line_round(&line, &event);
    assert_true(event.steps == 1 && event.first == 6 && event.samples == 2);
    assert_int_equal(line.state.header->phase, STATE_EVALUATE);
    line_fini(&line);
    line_init(&line, (const char *const[]){"train.local_steps=3", "train.steps=2", NULL});
    line_round(&line, &event);
    assert_true(event.steps == 2 && event.samples == 4);
    assert_int_equal(line.state.header->phase, STATE_EVALUATE);
}

static double
step_back(double w, uint32_t row)
{
    return 0.125 * 2 * x_of[row] * (w * x_of[row] - y_of[row]);
}

/* Of 3 samples the second step has one, and that is shard 1's: shard 0 stays where it is and counts for a third. */
TEST(a_difference_weighs_what_its_samples_do)
{
    OWNED(line_fini) struct line line;
    struct state_event event;
    uint32_t row[3];
    line_init(&line, (const char *const[]){NULL});
    line.state.job.train = line.next.job.train = 3;
    for (uint32_t i = 0; i < 3; i++)
        row[i] = data_shuffle(SEED, 0, i, 3);
    double zero = step_back(1, row[0]), one = step_back(1, row[1]);
    one += step_back(1 - one, row[2]);
    assert_true(fabs(zero - one) > 0.1);
    double w = line_round(&line, &event);
    assert_true(event.samples == 3 && event.steps == 2);
    assert_true(fabs(w - (1 - zero / 3 - one * 2 / 3)) < 1e-6);
}

/* Without numbers nothing moves, and all steps of the round are done. */
TEST(a_round_without_numbers_is_skipped_whole)
{
    OWNED(line_fini) struct line line;
    struct state_event event;
    line_init(&line, (const char *const[]){NULL});
    line.state.params[0] = NAN;
    assert_true(isnan(line_round(&line, &event)));
    assert_true(event.skipped && event.steps == H);
    assert_int_equal(line.state.header->skipped, H);
    assert_int_equal(line.state.header->step, H);
}

static void
keep_gradient(void *ctx, size_t first, const float *g, size_t n)
{
    assert_int_equal(first, 0);
    assert_int_equal(n, 1);
    *(float *)ctx = g[0];
}

/* How far a shard comes from w in the round that begins with `step`: by the network itself. */
static float
local_sgd_alone(const struct nn_model *model, float w, unsigned shard, uint64_t step)
{
    OWNED(nn_pass_destroy) struct nn_pass *pass;
    struct nn_result result;
    assert_int_equal(nn_pass_new(&pass, model, 1, true), 0);
    for (uint64_t end = step + H; step < end; step++) {
        const struct nn_context context = {SEED, 0, step, shard, true};
        struct nn_batch *batch = nn_pass_batch(pass);
        float g = 0;
        struct nn_sink sink = {.add = keep_gradient, .ctx = &g};
        batch->rows = 1;
        batch->x[0] = (float)sample[BATCH * step + shard][0];
        batch->target[0] = (float)sample[BATCH * step + shard][1];
        nn_forward(model, 0, pass, &w, &context);
        nn_forward(model, 1, pass, &w, &context);
        nn_loss(model, pass, 1, &result);
        nn_gradient(model, 1, pass, &w, &context, &sink);
        w -= 0.125f * g;
    }
    return w;
}

/* What is dropped hangs on the number of the local step and the row in it. */
TEST(random_numbers_are_those_of_the_local_step)
{
    struct line line;
    struct state_event event;
    text = JOB("dropout: 0.5, ");
    line_init(&line, (const char *const[]){NULL});
    for (uint64_t step = 0; step < 2 * H; step += H) {
        float w = line.state.params[0], mean = 0;
        for (unsigned shard = 0; shard < SHARDS; shard++)
            mean += local_sgd_alone(line.job.model, w, shard, step) / SHARDS;
        assert_true(fabs(line_round(&line, &event) - (double)mean) < 1e-6);
    }
    line_fini(&line);
    text = JOB("");
}

/* Both shards see 1 and then 2: the running mean goes from 1 to 1 and 1.5 in each, and so does theirs, with all
 * momenta. */
TEST(running_averages_follow_the_shards)
{
    struct line line;
    struct state_event event;
    text = JOB("batchnorm: {momentum: 0.5}, ");
    line_init(&line,
              (const char *const[]){"train.block_momentum=0.5", "train.block_rate=0.5", NULL});
    assert_true(nn_tensor(line.job.model, 2)->average > 0);
    line_round(&line, &event);
    assert_true(line.state.params[nn_tensor(line.job.model, 2)->first] == 1.5f);
    line_fini(&line);
    text = JOB("");
}

/* Chen and Huo's own form: the blocks begin at Wg, W is the model, and G = mean - Wg. */
TEST(the_filter_is_that_of_the_paper)
{
    const double eta = 0.75, zeta = 0.5;
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        float p = 2, v = 0, *slot[OPTIM_SLOTS_MAX] = {&v};
        double W = 2, Wg = 2, delta = 0;
        OWNED(config_destroy) struct config *config;
        assert_int_equal(config_parse(&config, "test", text, strlen(text), &why), 0);
        const char *const set[] = {"train.block_momentum=0.75", "train.block_rate=0.5",
                                   nesterov ? "train.block_nesterov=yes"
                                            : "train.block_nesterov=no"};
        for (int i = 0; i < 3; i++)
            assert_int_equal(config_set(config, set[i], &why), 0);
        struct optim_spec outer = config_outer(config);
        assert_int_equal(optim_slots(&outer), 1);
        for (uint64_t t = 0; t < 20; t++) {
            double mean = Wg + 0.25 * cos((double)t);
            float back = (float)(Wg - mean);
            double G = mean - Wg;
            delta = eta * delta + zeta * G;
            W += delta;
            Wg = nesterov ? W + eta * delta : W;
            optim_apply(&outer, optim_rate(&outer, 2 * t, 100, 0, 384), t, &p, slot, &back, 1);
            if (fabs((double)p - Wg) > 1e-5)
                fail_msg("block %d: %.9f, expected %.9f", (int)t, (double)p, Wg);
        }
    }
}

/* Running averages move by their own share within a shard, and are no part of the norm that is clipped. */
TEST(running_averages_walk_along)
{
    const struct nn_layer_spec layers[] = {
        LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.25f),
    };
    const struct nn_shape input = {1, {1}};
    const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .clip_norm = 5};
    OWNED(nn_model_destroy) struct nn_model *model;
    OWNED(local_sgd_fini) struct local_sgd walk;
    /* weight, bias, mean, variance */
    const float from[] = {1, 0, 8, 16}, g[] = {6, 8, 4, 100};
    const float to[] = {1 - 0.5f * 3, -0.5f * 4, 8 - 1, 16 - 25};
    assert_int_equal(nn_model_new(&model, &input, layers, 1, NN_SQUARED_ERROR, &why), 0);
    assert_int_equal(nn_param_count(model), 4);
    assert_int_equal(local_sgd_init(&walk, model), 0);
    local_sgd_begin(&walk, &optim, NULL, from);
    struct nn_sink sink = local_sgd_sink(&walk);
    sink.add(sink.ctx, 2, g + 2, 2);
    sink.add(sink.ctx, 0, g, 2);
    local_sgd_step(&walk, 0.5, 0);
    assert_memory_equal(walk.params, to, sizeof to);
    local_sgd_end(&walk, from, 0.5f);
    for (int i = 0; i < 4; i++)
        assert_true(walk.gradient[i] == 0.5f * (from[i] - to[i]));
}

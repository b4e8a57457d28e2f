/* A team computes the bits that one thread computes, whatever the number of parts and their order. Shards that share a
 * pass get the bits of passes of their own. */
#include "compress/check.h"
#include "compress/exact.h"
#include "nn/arithmetic/rng.h"
#include "nn/nn.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { ROWS = 7, PARTS_MAX = 9 };

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct nn_layer_spec image[] = {
    LAYER(CONV2D, .units = 40, .kernel = 3, .pad = 1),
    LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f),
    LAYER(RELU),
    LAYER(MAXPOOL, .kernel = 2),
    LAYER(RESIDUAL),
    LAYER(CONV2D, .units = 40, .kernel = 3, .pad = 1, .no_bias = true),
    LAYER(TANH),
    LAYER(DROPOUT, .drop = 0.3f),
    LAYER(RESIDUAL_END),
    LAYER(AVGPOOL, .kernel = 2),
    LAYER(CONV2D, .units = 20, .kernel = 3, .stride = 2, .pad = 1),
    LAYER(FLATTEN),
    DENSE(70),
    LAYER(SIGMOID),
    DENSE(10),
};
static const struct nn_layer_spec text[] = {
    LAYER(EMBEDDING, .units = 24, .tokens = 60),
    LAYER(POSITIONS),
    LAYER(POSITIONS, .sinusoidal = true),
    LAYER(RESIDUAL),
    LAYER(LAYERNORM, .epsilon = 1e-5f),
    DENSE(72),
    LAYER(ATTENTION, .units = 3),
    DENSE(24),
    LAYER(RESIDUAL_END),
    LAYER(RESIDUAL),
    LAYER(RMSNORM, .epsilon = 1e-5f),
    DENSE(120),
    LAYER(GELU, .approximate = true),
    LAYER(GELU),
    LAYER(SILU),
    DENSE(24),
    LAYER(RESIDUAL_END),
    LAYER(LSTM, .units = 30),
    LAYER(GRU, .units = 20),
    LAYER(RNN, .units = 24),
    LAYER(DENSE, .units = 60, .tied = true, .no_bias = true),
};
static const struct nn_layer_spec mean[] = {
    LAYER(CONV2D, .units = 20, .kernel = 3),
    LAYER(GLOBALPOOL),
    DENSE(4),
};

/* What a step gives. */
struct step {
    size_t count, outputs;
    float *grad, *out;
    struct nn_result result;
};

static void
sink_once(void *ctx, size_t first, const float *g, size_t n)
{
    struct step *step = ctx;
    assert_true(first <= step->count && n <= step->count - first);
    for (size_t i = 0; i < n; i++)
        if (step->grad[first + i] != 0)
            fail_msg("element %zu is given twice", first + i);
    memcpy(step->grad + first, g, n * sizeof *g);
}

/* Then what crosses cuts is rounded. */
#define ROUNDS "rounds"

static struct nn_model *
model_of(const struct nn_shape *input, const struct nn_layer_spec *layers, size_t count,
         const char *rounds)
{
    struct nn_model *model;
    struct why why;
    if (nn_model_new(&model, input, layers, count, NN_CROSS_ENTROPY, &why) != 0)
        fail_msg("%s", why.line);
    if (rounds != NULL)
        nn_model_round_cuts(model);
    return model;
}

static size_t scratch, called;

/* The last part first, each on memory full of NaN. */
static void
run_backwards(void *ctx, void (*part)(void *arg, size_t i), void *arg, size_t count)
{
    called++;
    memset(((struct nn_team *)ctx)->scratch, 0xff, count * scratch * sizeof(float));
    while (count-- > 0)
        part(arg, count);
}

/* Rows [first, first + rows) of all that there are. */
static void
fill_rows(const struct nn_model *model, struct nn_batch *batch, bool tokens, size_t first,
          size_t rows)
{
    size_t x = first * nn_input_size(model), label = first * nn_label_count(model);
    batch->rows = rows;
    for (size_t i = 0; i < rows * nn_input_size(model); i++, x++)
        batch->x[i] = tokens ? (float)(mix64(x) % 60) : (float)(mix64(x) % 2001) / 1000 - 1;
    for (size_t i = 0; i < rows * nn_label_count(model); i++)
        batch->label[i] = (int32_t)(mix64(label + i) % 4);
}

static void
fill(const struct nn_model *model, struct nn_batch *batch, bool tokens)
{
    fill_rows(model, batch, tokens, 0, ROWS);
}

static void
compute(struct step *step, const struct nn_model *model, const float *params, bool tokens,
        bool split, const struct nn_team *team)
{
    const struct nn_context context = {.seed = 3, .first_row = 11, .training = true};
    const struct nn_sink sink = {.add = sink_once, .ctx = step};
    OWNED(nn_pass_destroy) struct nn_pass *pass;
    size_t l, layers = nn_layer_count(model);
    step->count = nn_param_count(model);
    step->outputs = ROWS * nn_output_size(model);
    step->grad = calloc(step->count, sizeof *step->grad);
    step->out = calloc(step->outputs, sizeof *step->out);
    assert_int_equal(nn_pass_new(&pass, model, ROWS, true), 0);
    nn_pass_team(pass, team);
    fill(model, nn_pass_batch(pass), tokens);
    for (l = 0; l < layers; l++)
        nn_forward(model, l, pass, params, &context);
    memcpy(step->out, nn_pass_output(pass), step->outputs * sizeof *step->out);
    nn_loss(model, pass, 0.25f, &step->result);
    while (l-- > 0) {
        if (split)
            nn_gradient(model, l, pass, params, &context, &sink);
        nn_backward(model, l, pass, params, &context, split ? NULL : &sink);
    }
}

static void
compare(const struct nn_shape *input, const struct nn_layer_spec *layers, size_t count,
        const char *rounds)
{
    OWNED(nn_model_destroy) struct nn_model *model = model_of(input, layers, count, rounds);
    struct step alone, together;
    bool tokens = layers[0].kind == NN_EMBEDDING;
    OWNED(memory_free) float *params = malloc(nn_param_count(model) * sizeof *params);
    nn_init_params(model, 5, params);
    compute(&alone, model, params, tokens, false, NULL);
    assert_false(alone.result.bad);
    scratch = nn_team_scratch(model, &(struct nn_room){.rows_max = ROWS});
    for (unsigned parts = 1; parts <= PARTS_MAX; parts++) {
        struct nn_team team = {parts, run_backwards, &team,
                               malloc(parts * scratch * sizeof(float))};
        called = 0;
        compute(&together, model, params, tokens, parts % 2, &team);
        assert_true(called > count);
        assert_memory_equal(alone.out, together.out, alone.outputs * sizeof(float));
        assert_memory_equal(alone.grad, together.grad, alone.count * sizeof(float));
        free(together.grad);
        free(together.out);
        free(team.scratch);
    }
    free(alone.grad);
    free(alone.out);
}

/* --- shards --- */

enum { SHARDS = 4, SHARD_ROWS = 3 };
static const struct nn_room room = {.rows_max = SHARD_ROWS, .shards = SHARDS, .training = true};
static const size_t ends[SHARDS] = {3, 3, 5, ROWS}; /* one is empty */

static void
propagate(const struct nn_model *model, struct nn_pass *pass, const float *params, bool split,
          const struct nn_context *context, const struct nn_sink *sink, struct nn_result *result)
{
    size_t l, layers = nn_layer_count(model);
    for (l = 0; l < layers; l++)
        nn_forward(model, l, pass, params, context);
    nn_loss(model, pass, 0.25f, result);
    while (l-- > 0) {
        if (split)
            nn_gradient(model, l, pass, params, context, sink);
        nn_backward(model, l, pass, params, context, split ? NULL : sink);
    }
}

static void
shards_apart(const struct nn_model *model, const float *params, bool tokens, struct step *step)
{
    for (size_t s = 0, first = 0; s < SHARDS; first = ends[s++]) {
        const struct nn_context context = {.seed = 3, .first_row = 100 * s, .training = true};
        const struct nn_sink sink = {.add = sink_once, .ctx = &step[s]};
        OWNED(nn_pass_destroy) struct nn_pass *pass;
        assert_int_equal(nn_pass_new(&pass, model, SHARD_ROWS, true), 0);
        fill_rows(model, nn_pass_batch(pass), tokens, first, ends[s] - first);
        propagate(model, pass, params, false, &context, &sink, &step[s].result);
    }
}

static void
shards_together(const struct nn_model *model, const float *params, bool tokens, bool split,
                const struct nn_team *team, struct step *step)
{
    struct nn_context context[SHARDS];
    struct nn_sink sink[SHARDS];
    struct nn_result result[SHARDS];
    OWNED(nn_pass_destroy) struct nn_pass *pass;
    for (size_t s = 0; s < SHARDS; s++) {
        context[s] = (struct nn_context){.seed = 3, .first_row = 100 * s, .training = true};
        sink[s] = (struct nn_sink){.add = sink_once, .ctx = &step[s]};
    }
    assert_int_equal(nn_pass_new_room(&pass, model, &room), 0);
    nn_pass_team(pass, team);
    fill(model, nn_pass_batch(pass), tokens);
    nn_pass_shards(pass, SHARDS, ends);
    propagate(model, pass, params, split, context, sink, result);
    for (size_t s = 0; s < SHARDS; s++)
        step[s].result = result[s];
}

static void
compare_shards(const struct nn_shape *input, const struct nn_layer_spec *layers, size_t count,
               const char *rounds)
{
    OWNED(nn_model_destroy) struct nn_model *model = model_of(input, layers, count, rounds);
    bool tokens = layers[0].kind == NN_EMBEDDING;
    OWNED(memory_free) float *params = malloc(nn_param_count(model) * sizeof *params);
    nn_init_params(model, 5, params);
    scratch = nn_team_scratch(model, &room);
    for (unsigned parts = 0; parts < 4; parts++) { /* 0: no team */
        struct step apart[SHARDS] = {{0}}, together[SHARDS] = {{0}};
        struct nn_team team = {parts, run_backwards, &team,
                               malloc(PARTS_MAX * scratch * sizeof(float))};
        for (size_t s = 0; s < SHARDS; s++) {
            apart[s].count = together[s].count = nn_param_count(model);
            apart[s].grad = calloc(apart[s].count, sizeof(float));
            together[s].grad = calloc(apart[s].count, sizeof(float));
        }
        shards_apart(model, params, tokens, apart);
        memset(apart[1].grad, 0, apart[1].count * sizeof(float)); /* no rows: zeros of any sign */
        shards_together(model, params, tokens, parts % 2, parts > 0 ? &team : NULL, together);
        for (size_t s = 0; s < SHARDS; s++) {
            for (size_t t = 0; t < nn_tensor_count(model); t++) {
                const struct nn_tensor *tensor = nn_tensor(model, t);
                if (memcmp(apart[s].grad + tensor->first, together[s].grad + tensor->first,
                           tensor->count * sizeof(float)) != 0)
                    fail_msg("shard %zu, %u parts: %s", s, parts, tensor->name);
            }
            assert_true(apart[s].result.loss == together[s].result.loss);
            assert_int_equal(apart[s].result.correct, together[s].result.correct);
            free(apart[s].grad);
            free(together[s].grad);
        }
        free(team.scratch);
    }
}

TEST(shards_of_one_pass_give_the_bits_of_their_own)
{
    compare_shards(&(struct nn_shape){3, {3, 12, 12}}, image, COUNT(image), *test_state);
    compare_shards(&(struct nn_shape){3, {1, 9, 8}}, mean, COUNT(mean), *test_state);
    compare_shards(&(struct nn_shape){1, {50}}, text, COUNT(text), *test_state);
}
TEST_OF(shards_of_one_pass_give_the_bits_of_their_own, ROUNDS)

/* --- integers --- */

/* What a node has: the sum of all shards, whose weights' part the layers add themselves. */
struct integers {
    struct exact *exact;
    int16_t *exponent;
    float *scale;
    int32_t *own, *over, bad;
    uint64_t check;
    struct integers_shard {
        struct integers *to;
        uint32_t key;
    } shard[SHARDS];
};

static void
integers_new(struct integers *to, const struct nn_model *model)
{
    size_t count[64], tensors = nn_tensor_count(model), total = nn_param_count(model);
    assert_in_range(tensors, 1, 64);
    for (size_t t = 0; t < tensors; t++)
        count[t] = nn_tensor(model, t)->count;
    assert_int_equal(exact_new(&to->exact, count, tensors, SHARDS), 0);
    size_t blocks = exact_blocks(to->exact);
    to->exponent = calloc(blocks, sizeof *to->exponent);
    to->scale = calloc(blocks, sizeof *to->scale);
    to->over = calloc(blocks, sizeof *to->over);
    to->own = calloc(total, sizeof *to->own);
    to->bad = 0;
    to->check = 0;
    for (size_t b = 0; b < blocks; b++)
        to->exponent[b] = (int16_t)(b % 3 == 0 ? -6 : 2); /* some do not fit */
    for (size_t t = 0; t < tensors; t += 2)
        exact_code(to->exact, t, codec_of(CODEC_sparse), 1, false);
    exact_scales(to->exact, to->exponent, to->scale);
    for (uint32_t s = 0; s < SHARDS; s++)
        to->shard[s] = (struct integers_shard){to, 1000 + 77 * s};
}

static void
integers_destroy(struct integers *to)
{
    exact_destroy(&to->exact);
    free(to->exponent), free(to->scale), free(to->over), free(to->own);
}

static void
integers_add(void *ctx, size_t first, const float *g, size_t n)
{
    const struct integers_shard *shard = ctx;
    struct integers *to = shard->to;
    exact_add(to->exact, to->exponent, first, g, n, 1, shard->key, to->own, to->over, &to->bad,
              &to->check);
}

static struct nn_integers
integers_rule(void *ctx, size_t first)
{
    const struct integers_shard *shard = ctx;
    const struct integers *to = shard->to;
    size_t block = exact_block_of(to->exact, first);
    struct nn_integers rule = {to->own + first, to->scale + block,           EXACT_BLOCK, 0,
                               false,           shard->key + (uint32_t)first};
    rule.limit = exact_limit(to->exact, block, &rule.drawn);
    return rule;
}

static void
integers_added(void *ctx, size_t first, uint32_t plain, uint32_t weighted)
{
    struct integers *to = ((struct integers_shard *)ctx)->to;
    to->check = check_add(to->check, check_from((struct check_sums){plain, weighted}, first));
}

static void
integers_of_pass(const struct nn_model *model, const float *params, bool tokens,
                 const struct nn_team *team, struct integers *to)
{
    struct nn_context context[SHARDS];
    struct nn_sink sink[SHARDS];
    struct nn_result result[SHARDS];
    OWNED(nn_pass_destroy) struct nn_pass *pass;
    for (size_t s = 0; s < SHARDS; s++) {
        context[s] = (struct nn_context){.seed = 3, .first_row = 100 * s, .training = true};
        sink[s] =
            (struct nn_sink){integers_add, &to->shard[s], integers_rule, integers_added, true};
    }
    assert_int_equal(nn_pass_new_room(&pass, model, &room), 0);
    nn_pass_team(pass, team);
    fill(model, nn_pass_batch(pass), tokens);
    nn_pass_shards(pass, SHARDS, ends);
    propagate(model, pass, params, true, context, sink, result);
}

static void
compare_integers(const struct nn_shape *input, const struct nn_layer_spec *layers, size_t count,
                 const char *rounds)
{
    OWNED(nn_model_destroy) struct nn_model *model = model_of(input, layers, count, rounds);
    struct integers one, all;
    struct step apart[SHARDS] = {{0}};
    bool tokens = layers[0].kind == NN_EMBEDDING;
    size_t total = nn_param_count(model);
    OWNED(memory_free) float *params = malloc(total * sizeof *params);
    nn_init_params(model, 5, params);
    integers_new(&one, model);
    for (size_t s = 0; s < SHARDS; s++) {
        apart[s].count = total;
        apart[s].grad = calloc(total, sizeof(float));
    }
    shards_apart(model, params, tokens, apart);
    for (size_t s = 0; s < SHARDS; s++) {
        integers_add(&one.shard[s], 0, apart[s].grad, total);
        free(apart[s].grad);
    }
    scratch = nn_team_scratch(model, &room);
    for (unsigned parts = 0; parts < 4; parts++) { /* 0: no team */
        struct nn_team team = {parts, run_backwards, &team,
                               malloc(PARTS_MAX * scratch * sizeof(float))};
        integers_new(&all, model);
        integers_of_pass(model, params, tokens, parts > 0 ? &team : NULL, &all);
        assert_memory_equal(one.own, all.own, total * sizeof *one.own);
        assert_memory_equal(one.over, all.over, exact_blocks(one.exact) * sizeof *one.over);
        assert_true(one.check == all.check);
        integers_destroy(&all);
        free(team.scratch);
    }
    integers_destroy(&one);
}

TEST(integers_of_all_shards_are_the_sum_of_theirs)
{
    compare_integers(&(struct nn_shape){3, {3, 12, 12}}, image, COUNT(image), *test_state);
    compare_integers(&(struct nn_shape){1, {50}}, text, COUNT(text), *test_state);
}
TEST_OF(integers_of_all_shards_are_the_sum_of_theirs, ROUNDS)

TEST(images_give_the_same_bits)
{
    compare(&(struct nn_shape){3, {3, 12, 12}}, image, COUNT(image), *test_state);
    compare(&(struct nn_shape){3, {1, 9, 8}}, mean, COUNT(mean), *test_state);
}
TEST_OF(images_give_the_same_bits, ROUNDS)

TEST(sequences_give_the_same_bits)
{
    compare(&(struct nn_shape){1, {50}}, text, COUNT(text), *test_state);
}
TEST_OF(sequences_give_the_same_bits, ROUNDS)

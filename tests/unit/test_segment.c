/* test_segment.c - activations that are computed again: the same bits in less memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/layers/layer.h"
#include "nn/nn.h"
#include "tests/support/rand.h"

enum { ROWS = 6, LAYERS = 48, PARAMS_MAX = 20000 };

struct net {
    const char *name;
    struct nn_shape input;
    unsigned tokens; /* above 0: the input is that many, and each position has a label */
    struct nn_layer_spec layer[LAYERS];
    bool smaller; /* it has something to compute again */
};

#define CONV(n, s)                                                                                 \
    {                                                                                              \
        .kind = NN_CONV2D, .units = n, .kernel = 3, .pad = 1, .stride = s                          \
    }
#define DENSE(n)                                                                                   \
    {                                                                                              \
        .kind = NN_DENSE, .units = n                                                               \
    }
#define ONE(k)                                                                                     \
    {                                                                                              \
        .kind = k                                                                                  \
    }
#define NORM(k)                                                                                    \
    {                                                                                              \
        .kind = k, .epsilon = 1e-5F, .momentum = 0.1F                                              \
    }
#define DROP                                                                                       \
    {                                                                                              \
        .kind = NN_DROPOUT, .drop = 0.3F                                                           \
    }
#define BLOCK                                                                                      \
    ONE(NN_RESIDUAL), CONV(4, 1), NORM(NN_BATCHNORM), ONE(NN_RELU), CONV(4, 1),                    \
        NORM(NN_BATCHNORM), ONE(NN_RESIDUAL_END), ONE(NN_RELU)
#define GPT                                                                                        \
    ONE(NN_RESIDUAL), NORM(NN_LAYERNORM), DENSE(24), {.kind = NN_ATTENTION, .units = 2}, DENSE(8), \
        DROP, ONE(NN_RESIDUAL_END), ONE(NN_RESIDUAL), NORM(NN_LAYERNORM), DENSE(32), ONE(NN_GELU), \
        DENSE(8), ONE(NN_RESIDUAL_END)

static const struct net nets[] = {
    {.name = "one layer", .input = {1, {5}}, .layer = {DENSE(4)}},
    {.name = "in place",
     .input = {1, {12}},
     .layer = {DENSE(20), ONE(NN_RELU), DROP, DENSE(20), ONE(NN_GELU), DENSE(20), ONE(NN_TANH),
               DROP, DENSE(20), ONE(NN_SILU), DENSE(20), ONE(NN_SIGMOID), DENSE(4)},
     .smaller = true},
    {.name = "images",
     .input = {3, {2, 8, 8}},
     .layer = {CONV(4, 1),
               ONE(NN_RELU),
               {.kind = NN_MAXPOOL, .kernel = 2},
               CONV(4, 1),
               NORM(NN_BATCHNORM),
               ONE(NN_RELU),
               {.kind = NN_AVGPOOL, .kernel = 2},
               ONE(NN_FLATTEN),
               ONE(NN_RELU),
               DENSE(9),
               NORM(NN_RMSNORM),
               DENSE(4)},
     .smaller = true},
    {.name = "view first",
     .input = {3, {1, 4, 4}},
     .layer = {ONE(NN_FLATTEN), ONE(NN_TANH), DENSE(9), ONE(NN_TANH), DENSE(4)}},
    {.name = "residual",
     .input = {3, {2, 8, 8}},
     .layer = {CONV(4, 1), NORM(NN_BATCHNORM), ONE(NN_RELU), BLOCK, BLOCK, BLOCK, CONV(4, 2), BLOCK,
               ONE(NN_GLOBALPOOL), DENSE(4)},
     .smaller = true},
    {.name = "gpt",
     .input = {1, {7}},
     .tokens = 11,
     .layer = {{.kind = NN_EMBEDDING, .units = 8, .tokens = 11},
               ONE(NN_POSITIONS),
               GPT,
               GPT,
               NORM(NN_LAYERNORM),
               {.kind = NN_DENSE, .units = 11, .tied = true, .no_bias = true}},
     .smaller = true},
    {.name = "tied in a residual",
     .input = {1, {7}},
     .tokens = 8,
     .layer = {{.kind = NN_EMBEDDING, .units = 8, .tokens = 8},
               GPT,
               ONE(NN_RESIDUAL),
               DENSE(8),
               {.kind = NN_DENSE, .units = 8, .tied = true, .no_bias = true},
               ONE(NN_RESIDUAL_END)}},
    {.name = "recurrent",
     .input = {1, {7}},
     .tokens = 11,
     .layer = {{.kind = NN_EMBEDDING, .units = 8, .tokens = 11},
               {.kind = NN_LSTM, .units = 8},
               {.kind = NN_GRU, .units = 8},
               {.kind = NN_RNN, .units = 8},
               DENSE(11)},
     .smaller = true},
};

struct gradient {
    float g[PARAMS_MAX];
    struct nn_result result;
    size_t bytes;
};

static void
take(void *ctx, size_t first, const float *g, size_t n)
{
    struct gradient *out = ctx;
    for (size_t i = 0; i < n; i++)
        out->g[first + i] += g[i];
}

static void
batch_make(const struct net *net, const struct nn_model *model, struct nn_batch *batch)
{
    struct rand rand = {7};
    batch->rows = ROWS;
    for (size_t i = 0; i < ROWS * nn_input_size(model); i++)
        batch->x[i] = net->tokens ? (float)(rand_u64(&rand) % net->tokens)
                                  : (float)(rand_u64(&rand) % 2000) / 1000 - 1;
    for (size_t i = 0; i < ROWS * nn_label_count(model); i++)
        batch->label[i] = (int32_t)(rand_u64(&rand) % (net->tokens ? net->tokens : 4));
}

/* As work.c does: the gradient of a layer, then that of its input. Twice, so that one step follows another. */
static void
gradient_of(const struct net *net, bool again, struct gradient *out)
{
    static float params[PARAMS_MAX];
    struct why why = {""};
    struct nn_model *model;
    struct nn_pass *pass;
    size_t count = 0;
    while (count < LAYERS &&
           (count == 0 || net->layer[count].kind != NN_DENSE || net->layer[count].units > 0))
        count++;
    if (nn_model_new(&model, &net->input, net->layer, count, NN_CROSS_ENTROPY, &why))
        fail_msg("%s: %s", net->name, why.line);
    if (again)
        nn_model_recompute(model);
    assert_true(nn_param_count(model) <= PARAMS_MAX);
    nn_init_params(model, 3, params);
    assert_int_equal(nn_pass_new(&pass, model, ROWS, true), 0);
    memset(out, 0, sizeof *out);
    out->bytes = nn_pass_bytes(model, ROWS, true);
    struct nn_sink sink = {.add = take, .ctx = out};
    for (uint64_t step = 0; step < 2; step++) {
        const struct nn_context context = {.seed = 1, .step = step, .training = true};
        batch_make(net, model, nn_pass_batch(pass));
        for (size_t l = 0; l < count; l++)
            nn_forward(model, l, pass, params, &context);
        nn_loss(model, pass, 1.0F / ROWS, &out->result);
        for (size_t l = count; l-- > 0;) {
            nn_gradient(model, l, pass, params, &context, &sink);
            nn_backward(model, l, pass, params, &context, NULL);
        }
    }
    nn_pass_destroy(&pass);
    nn_model_destroy(&model);
}

static void
the_gradient_is_the_same_in_less_memory(void **state)
{
    (void)state;
    static struct gradient plain, again;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        gradient_of(&nets[i], false, &plain);
        gradient_of(&nets[i], true, &again);
        if (memcmp(plain.g, again.g, sizeof plain.g) != 0 || plain.result.loss != again.result.loss)
            fail_msg("%s: another gradient", nets[i].name);
        if (nets[i].smaller ? again.bytes >= plain.bytes : again.bytes > plain.bytes)
            fail_msg("%s: %zu bytes, before %zu", nets[i].name, again.bytes, plain.bytes);
    }
}

/* A chain of n equal layers needs about 2 sqrt(n) of their buffers. */
static void
memory_grows_with_the_root_of_the_depth(void **state)
{
    (void)state;
    enum { DEPTH = 100, WIDTH = 1000 };
    static struct nn_layer_spec layer[DEPTH];
    struct why why = {""};
    const struct nn_shape input = {1, {WIDTH}};
    struct nn_model *model;
    for (size_t l = 0; l < DEPTH; l++)
        layer[l] = (struct nn_layer_spec){.kind = NN_DENSE, .units = WIDTH};
    assert_int_equal(nn_model_new(&model, &input, layer, DEPTH, NN_CROSS_ENTROPY, &why), 0);
    double row = WIDTH * sizeof(float);
    size_t scratch = nn_team_scratch(model, 64, 1) * sizeof(float);
    double before = (double)(nn_pass_bytes(model, 64, true) - scratch) / 64 / row;
    nn_model_recompute(model);
    double after = (double)(nn_pass_bytes(model, 64, true) - scratch) / 64 / row;
    assert_true(before > 100 && before < 110);
    assert_true(after > 18 && after < 26);
    nn_model_destroy(&model);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_is_the_same_in_less_memory),
        cmocka_unit_test(memory_grows_with_the_root_of_the_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_golden.c - loss, every gradient and three optimizer steps against PyTorch, every kind of layer, with
 * both ways to compute products.
 *
 * The files in tests/golden were written by make_golden.py there, which also says what is in them. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "nn/files.h"
#include "nn/files/disk.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { STEPS = 3, LAYERS_MAX = 20, FILE_MAX = 1 << 16 };

static const struct network {
    const char *name;
    struct nn_shape input;
    enum nn_loss loss;
    float smoothing;
    size_t count;
    struct nn_layer_spec layer[LAYERS_MAX];
} networks[] = {
#define NETWORK(name, input, loss, smoothing, ...)                                                 \
    {                                                                                              \
        name, input, loss, smoothing, LAYERS(__VA_ARGS__)                                          \
    }
    NETWORK("mlp", FLAT(12), NN_CROSS_ENTROPY, 0, DENSE(16), LAYER(RELU), DENSE(12), LAYER(TANH),
            LAYER(DROPOUT), DENSE(8), LAYER(SIGMOID), DENSE(5)),
    NETWORK("cnn", IMAGE(2, 9, 9), NN_CROSS_ENTROPY, 0,
            LAYER(CONV2D, .units = 4, .kernel = 3, .pad = 1), LAYER(RELU),
            LAYER(MAXPOOL, .kernel = 2), LAYER(CONV2D, .units = 6, .kernel = 3, .no_bias = true),
            LAYER(TANH), LAYER(AVGPOOL, .kernel = 2), LAYER(FLATTEN), DENSE(5), LAYER(SIGMOID),
            DENSE(4)),
    NETWORK("strides", IMAGE(3, 11, 8), NN_CROSS_ENTROPY, 0,
            LAYER(CONV2D, .units = 5, .kernel = 3, .stride = 2, .pad = 2), LAYER(RELU),
            LAYER(MAXPOOL, .kernel = 3, .stride = 2, .pad = 1),
            LAYER(CONV2D, .units = 4, .kernel = 2, .pad = 1), LAYER(RELU),
            LAYER(AVGPOOL, .kernel = 3, .stride = 2, .pad = 1), LAYER(FLATTEN), DENSE(3)),
    NETWORK("regression", FLAT(6), NN_SQUARED_ERROR, 0, DENSE(9), LAYER(TANH), DENSE(3)),
    NETWORK("logistic", FLAT(4), NN_LOGISTIC, 0, DENSE(1)),
    NETWORK("norms", FLAT(12), NN_CROSS_ENTROPY, 0.1f, DENSE(16),
            LAYER(LAYERNORM, .epsilon = 1e-5f), LAYER(GELU), DENSE(12),
            LAYER(RMSNORM, .epsilon = 1e-5f), LAYER(GELU, .approximate = true), DENSE(10),
            LAYER(LAYERNORM, .epsilon = 1e-3f), LAYER(SILU), DENSE(5)),
    NETWORK("tokens", FLAT(6), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 8, .tokens = 9),
            LAYER(POSITIONS), DENSE(10), LAYER(GELU), LAYER(LAYERNORM, .epsilon = 1e-5f), DENSE(9)),
    NETWORK("sines", FLAT(7), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 6, .tokens = 5),
            LAYER(POSITIONS, .sinusoidal = true), LAYER(DENSE, .units = 8, .no_bias = true),
            LAYER(SILU), DENSE(5)),
    NETWORK("residual", FLAT(7), NN_CROSS_ENTROPY, 0, DENSE(6), LAYER(RESIDUAL), LAYER(TANH),
            DENSE(6), LAYER(RESIDUAL_END), LAYER(RELU), LAYER(RESIDUAL), LAYER(RESIDUAL), DENSE(8),
            LAYER(RELU), LAYER(RESIDUAL), DENSE(8), LAYER(RESIDUAL_END), DENSE(6),
            LAYER(RESIDUAL_END), LAYER(SIGMOID), LAYER(RESIDUAL_END), DENSE(4)),
    NETWORK("gpt", FLAT(9), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 12, .tokens = 11),
            LAYER(POSITIONS), LAYER(RESIDUAL), LAYER(LAYERNORM, .epsilon = 1e-5f), DENSE(36),
            LAYER(ATTENTION, .units = 3), DENSE(12), LAYER(RESIDUAL_END), LAYER(RESIDUAL),
            LAYER(LAYERNORM, .epsilon = 1e-5f), DENSE(24), LAYER(GELU), DENSE(12),
            LAYER(RESIDUAL_END), LAYER(LAYERNORM, .epsilon = 1e-5f),
            LAYER(DENSE, .units = 11, .no_bias = true)),
    NETWORK("batchnorm", IMAGE(2, 5, 4), NN_CROSS_ENTROPY, 0,
            LAYER(CONV2D, .units = 4, .kernel = 3, .pad = 1, .no_bias = true),
            LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f), LAYER(RELU), LAYER(GLOBALPOOL),
            LAYER(DENSE, .units = 7, .no_bias = true),
            LAYER(BATCHNORM, .epsilon = 1e-3f, .momentum = 0.3f), LAYER(TANH), DENSE(3)),
    NETWORK("tied", FLAT(5), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 6, .tokens = 9),
            DENSE(8), LAYER(TANH), DENSE(6), LAYER(DENSE, .units = 9, .tied = true)),
    NETWORK("recurrent", FLAT(7), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 5, .tokens = 9),
            LAYER(RNN, .units = 6), LAYER(LSTM, .units = 7), LAYER(GRU, .units = 6), DENSE(9)),
    NETWORK("last", FLAT(6), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 5, .tokens = 8),
            LAYER(LAYERNORM, .epsilon = 1e-5f, .no_bias = true),
            LAYER(LSTM, .units = 8, .last = true), DENSE(4)),
    NETWORK("pooled", FLAT(6), NN_CROSS_ENTROPY, 0, LAYER(EMBEDDING, .units = 5, .tokens = 8),
            LAYER(POSITIONS, .sinusoidal = true), DENSE(7), LAYER(SILU), LAYER(GLOBALPOOL),
            DENSE(4)),
    NETWORK("upsampled", IMAGE(2, 3, 4), NN_CROSS_ENTROPY, 0,
            LAYER(CONV2D, .units = 3, .kernel = 2, .pad = 1), LAYER(UPSAMPLE, .kernel = 2),
            LAYER(TANH), LAYER(AVGPOOL, .kernel = 4, .stride = 2), LAYER(FLATTEN), DENSE(3)),
};

static const struct {
    const char *name;
    struct optim_spec spec;
} rules[] = {
    {"momentum", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f}},
    {"nesterov", {.kind = OPTIM_SGD, .rate = 0.1f, .momentum = 0.9f, .nesterov = true}},
    {"adam", {.kind = OPTIM_ADAM, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-4f}},
    {"adamw",
     {.kind = OPTIM_ADAMW,
      .rate = 0.01f,
      .beta1 = 0.9f,
      .beta2 = 0.999f,
      .epsilon = 1e-4f,
      .weight_decay = 0.1f}},
    /* from here on, of some networks only */
    {"rmsprop",
     {.kind = OPTIM_RMSPROP,
      .rate = 0.01f,
      .beta2 = 0.9f,
      .epsilon = 1e-4f,
      .momentum = 0.5f,
      .weight_decay = 0.01f}},
    {"lion",
     {.kind = OPTIM_LION, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .weight_decay = 0.1f}},
    {"lars",
     {.kind = OPTIM_LARS, .rate = 1, .momentum = 0.9f, .trust = 0.01f, .weight_decay = 0.01f}},
    {"lamb",
     {.kind = OPTIM_LAMB,
      .rate = 0.01f,
      .beta1 = 0.9f,
      .beta2 = 0.999f,
      .epsilon = 1e-4f,
      .weight_decay = 0.1f}},
};

enum { RULES = sizeof rules / sizeof rules[0], RULES_OF_ALL = 4 };

/* As in make_golden.py. */
static size_t
rules_of(const struct network *network)
{
    static const char *const all[] = {"mlp", "norms", "recurrent"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(network->name, all[i]) == 0)
            return RULES;
    return RULES_OF_ALL;
}

/* A network with its golden batch and room for what is computed. */
struct bench {
    const struct network *network;
    struct nn_model *model;
    struct nn_pass *pass;
    size_t count;      /* parameters */
    double loss;       /* PyTorch's */
    float *params, *g; /* [count] */
    float *golden;     /* [count] what is compared with */
    float *slot[OPTIM_SLOTS_MAX];
};

static void
load(const struct bench *b, const char *what, float *to)
{
    char path[128];
    struct why why;
    snprintf(path, sizeof path, "tests/golden/%s%s.safetensors", b->network->name, what);
    if (safetensors_read(path, b->model, to, &why))
        fail_msg("%s", why.line);
}

static float *
vector(size_t count)
{
    float *x = calloc(count, sizeof *x);
    assert_non_null(x);
    return x;
}

static void
load_batch(struct bench *b)
{
    char path[128];
    struct why why;
    OWNED(memory_free) uint8_t *data;
    size_t size;
    uint32_t head[3]; /* rows, inputs, outputs */
    snprintf(path, sizeof path, "tests/golden/%s.batch", b->network->name);
    if (disk_read(path, FILE_MAX, &data, &size, &why))
        fail_msg("%s", why.line);
    memcpy(head, data, sizeof head);
    memcpy(&b->loss, data + 12, sizeof b->loss);
    assert_int_equal(head[1], nn_input_size(b->model));
    size_t labels = nn_label_count(b->model);
    assert_int_equal(head[2] * labels, nn_output_size(b->model));
    assert_int_equal(nn_pass_new(&b->pass, b->model, head[0], true), 0);
    struct nn_batch *batch = nn_pass_batch(b->pass);
    size_t x_size = 4 * (size_t)head[0] * head[1];
    bool targets = b->network->loss == NN_SQUARED_ERROR;
    size_t rest = 4 * (size_t)head[0] * (targets ? head[2] : labels);
    assert_int_equal(size, 20 + x_size + rest);
    batch->rows = head[0];
    memcpy(batch->x, data + 20, x_size);
    memcpy(targets ? (void *)batch->target : (void *)batch->label, data + 20 + x_size, rest);
}

static void
begin(struct bench *b, const struct network *network)
{
    struct why why;
    memset(b, 0, sizeof *b);
    b->network = network;
    if (nn_model_new(&b->model, &network->input, network->layer, network->count, network->loss,
                     &why))
        fail_msg("%s", why.line);
    nn_model_smooth(b->model, network->smoothing);
    b->count = nn_param_count(b->model);
    b->params = vector(b->count);
    b->g = vector(b->count);
    b->golden = vector(b->count);
    for (int i = 0; i < OPTIM_SLOTS_MAX; i++)
        b->slot[i] = vector(b->count);
    load_batch(b);
}

static void
end(struct bench *b)
{
    free(b->params);
    free(b->g);
    free(b->golden);
    for (int i = 0; i < OPTIM_SLOTS_MAX; i++)
        free(b->slot[i]);
    nn_pass_destroy(&b->pass);
    nn_model_destroy(&b->model);
}

static void
add(void *ctx, size_t first, const float *g, size_t n)
{
    float *to = (float *)ctx + first;
    for (size_t i = 0; i < n; i++)
        to[i] += g[i];
}

/* Mean loss; leaves its gradient in b->g. */
static double
loss_and_gradient(struct bench *b)
{
    const struct nn_context context = {.training = true};
    const struct nn_sink sink = {.add = add, .ctx = b->g};
    struct nn_batch *batch = nn_pass_batch(b->pass);
    struct nn_result result;
    size_t layers = nn_layer_count(b->model);
    memset(b->g, 0, b->count * sizeof *b->g);
    for (size_t l = 0; l < layers; l++)
        nn_forward(b->model, l, b->pass, b->params, &context);
    nn_loss(b->model, b->pass, 1.0f / (float)batch->rows, &result);
    for (size_t l = layers; l-- > 0;)
        nn_backward(b->model, l, b->pass, b->params, &context, &sink);
    assert_false(result.bad);
    return result.loss / (double)batch->rows;
}

/* Every element to 1e-5 of itself and of its tensor's root mean square. */
static void
compare(const struct bench *b, const char *what, const float *got)
{
    for (size_t t = 0; t < nn_tensor_count(b->model); t++) {
        const struct nn_tensor *tensor = nn_tensor(b->model, t);
        const float *expected = b->golden + tensor->first;
        double square = 0;
        for (size_t i = 0; i < tensor->count; i++)
            square += (double)expected[i] * (double)expected[i];
        double mean = sqrt(square / (double)tensor->count);
        assert_true(mean > 0);
        for (size_t i = 0; i < tensor->count; i++) {
            double error = fabs((double)got[tensor->first + i] - (double)expected[i]);
            if (!(error <= 1e-5 * (fabs((double)expected[i]) + mean)))
                fail_msg("%s %s %s[%zu] = %.9g, PyTorch has %.9g", b->network->name, what,
                         tensor->name, i, (double)got[tensor->first + i], (double)expected[i]);
        }
    }
}

static void
loss_and_gradients_agree_with_pytorch(void **state)
{
    nn_init(*state);
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
        struct bench b;
        begin(&b, &networks[n]);
        load(&b, "", b.params);
        double loss = loss_and_gradient(&b);
        if (!(fabs(loss - b.loss) <= 1e-6 * b.loss))
            fail_msg("%s: loss %.9g, PyTorch has %.9g", networks[n].name, loss, b.loss);
        load(&b, ".grad", b.golden);
        compare(&b, "gradient", b.g);
        end(&b);
    }
}
TEST_OF(loss_and_gradients_agree_with_pytorch, "portable")
TEST_OF(loss_and_gradients_agree_with_pytorch, "openblas")

/* As node/train/state.c does: running averages by their own rule, the others by the optimizer. */
static void
step_apply(struct bench *b, const struct optim_spec *spec, uint64_t step)
{
    for (size_t t = 0; t < nn_tensor_count(b->model); t++) {
        const struct nn_tensor *tensor = nn_tensor(b->model, t);
        size_t first = tensor->first;
        float *slot[OPTIM_SLOTS_MAX];
        for (int i = 0; i < OPTIM_SLOTS_MAX; i++)
            slot[i] = b->slot[i] + first;
        for (size_t i = 0; tensor->average > 0 && i < tensor->count; i++)
            b->params[first + i] -= tensor->average * b->g[first + i];
        double rate = (double)spec->rate, sum[2] = {0};
        if (optim_layerwise(spec)) {
            optim_squares(spec, step, b->params + first, (const float *const *)slot, b->g + first,
                          tensor->count, sum);
            rate *= (double)optim_ratio(spec, sum);
        }
        if (!(tensor->average > 0))
            optim_apply(spec, rate, step, b->params + first, slot, b->g + first, tensor->count);
    }
}

static void
three_steps_of_every_optimizer_agree_with_pytorch(void **state)
{
    nn_init(*state);
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
        for (size_t r = 0; r < rules_of(&networks[n]); r++) {
            struct bench b;
            char what[32];
            begin(&b, &networks[n]);
            load(&b, "", b.params);
            for (uint64_t step = 0; step < STEPS; step++) {
                loss_and_gradient(&b);
                step_apply(&b, &rules[r].spec, step);
            }
            snprintf(what, sizeof what, ".%s", rules[r].name);
            load(&b, what, b.golden);
            compare(&b, rules[r].name, b.params);
            end(&b);
        }
}
TEST_OF(three_steps_of_every_optimizer_agree_with_pytorch, "portable")
TEST_OF(three_steps_of_every_optimizer_agree_with_pytorch, "openblas")

/* bench_nn - samples per second of one thread of training, for comparison with another framework on the
 * same model.
 *
 *     bench_nn mlp|cnn|gpt|resnet|lstm [rows per shard = 256] [shards = 1] [seconds = 3] [sink] [numerics] [bf16]
 *
 * gpt and lstm may be followed by the context, as in gpt:1024 (128).
 * sink: drop (gradients are only read; default), add (summed as floats and applied by SGD with momentum,
 * one step per batch of rows * shards) or exact (quantised and summed as the product does, then applied).
 * Prints model, rows, shards, sink, median, lowest and highest samples/s of blocks in processor time,
 * since others may share the machine, and the share of time per layer, forward and backward. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compress/exact.h"
#include "nn/arithmetic/rng.h"
#include "nn/arithmetic/vmath.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "tests/support/spec.h"

enum { SHARDS_MAX = 64, BLOCKS_MAX = 1000 };

struct bench {
    const struct network *network;
    struct nn_shape input;
    struct nn_model *model;
    struct nn_pass *pass[SHARDS_MAX];
    size_t rows, shards, count;
    float *params, *grad, *momentum;
    struct exact *exact;
    int16_t *exponent;
    int32_t *sum, *over, bad;
    double forward[NN_LAYERS_MAX], backward[NN_LAYERS_MAX], loss, update;
};

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float dropped;

static void
sink_drop(void *ctx, size_t first, const float *g, size_t n)
{
    (void)ctx;
    (void)first;
    dropped = g[n - 1];
}

static void
sink_add(void *ctx, size_t first, const float *g, size_t n)
{
    vmath_sum_rows(g, n, 1, ((struct bench *)ctx)->grad + first, n);
}

static void
sink_exact(void *ctx, size_t first, const float *g, size_t n)
{
    struct bench *b = ctx;
    exact_add(b->exact, b->exponent, first, g, n, 1, 0, b->sum, b->over, &b->bad, NULL);
}

static void
update(struct bench *b, bool exact)
{
    const struct optim_spec spec = {.kind = OPTIM_SGD, .rate = 0.01f, .momentum = 0.9f};
    float *const slot[OPTIM_SLOTS_MAX] = {b->momentum};
    if (exact) {
        exact_read(b->exact, b->exponent, b->sum, 0, b->grad, b->count);
        memset(b->sum, 0, b->count * sizeof *b->sum);
    }
    optim_apply(&spec, 0.01, 1, b->params, slot, b->grad, b->count);
    memset(b->grad, 0, b->count * sizeof *b->grad);
}

static void
step(struct bench *b, void (*add)(void *, size_t, const float *, size_t))
{
    const struct nn_context context = {.seed = 1, .training = true};
    const struct nn_sink sink = {.add = add, .ctx = b};
    struct nn_result result;
    size_t layers = nn_layer_count(b->model), l;
    double t = now(), next;
    for (l = 0; l < layers; l++, t = next) {
        for (size_t s = 0; s < b->shards; s++)
            nn_forward(b->model, l, b->pass[s], b->params, &context);
        b->forward[l] += (next = now()) - t;
    }
    for (size_t s = 0; s < b->shards; s++)
        nn_loss(b->model, b->pass[s], 1.0f / (float)(b->rows * b->shards), &result);
    b->loss += (next = now()) - t;
    for (t = next; l-- > 0; t = next) {
        for (size_t s = 0; s < b->shards; s++)
            nn_backward(b->model, l, b->pass[s], b->params, &context, &sink);
        b->backward[l] += (next = now()) - t;
    }
    if (add != sink_drop)
        update(b, add == sink_exact);
    b->update += now() - t;
}

static const struct nn_layer_spec mlp[] = {DENSE(512), LAYER(RELU), DENSE(256), LAYER(RELU),
                                           DENSE(10)};

static const struct nn_layer_spec cnn[] = {LAYER(CONV2D, .units = 32, .kernel = 5, .pad = 2),
                                           LAYER(RELU),
                                           LAYER(MAXPOOL, .kernel = 2),
                                           LAYER(CONV2D, .units = 64, .kernel = 5, .pad = 2),
                                           LAYER(RELU),
                                           LAYER(MAXPOOL, .kernel = 2),
                                           LAYER(FLATTEN),
                                           DENSE(512),
                                           LAYER(RELU),
                                           DENSE(10)};

#define LAYERNORM                                                                                  \
    {                                                                                              \
        .kind = NN_LAYERNORM, .epsilon = 1e-5f                                                     \
    }
#define HEADS                                                                                      \
    LAYER(RESIDUAL), LAYERNORM, DENSE(384), LAYER(ATTENTION, .units = 4), DENSE(128),              \
    {                                                                                              \
        .kind = NN_RESIDUAL_END                                                                    \
    }
#define FEED                                                                                       \
    LAYER(RESIDUAL), LAYERNORM, DENSE(512), LAYER(GELU, .approximate = true), DENSE(128),          \
    {                                                                                              \
        .kind = NN_RESIDUAL_END                                                                    \
    }

static const struct nn_layer_spec gpt[] = {
    LAYER(EMBEDDING, .units = 128, .tokens = 256),
    LAYER(POSITIONS),
    HEADS,
    FEED,
    HEADS,
    FEED,
    HEADS,
    FEED,
    HEADS,
    FEED,
    LAYERNORM,
    LAYER(DENSE, .units = 256, .no_bias = true, .tied = true)};

#define CONV(filters, by)                                                                          \
    LAYER(CONV2D, .units = filters, .kernel = 3, .pad = 1, .stride = by, .no_bias = true),         \
    {                                                                                              \
        .kind = NN_BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f                                   \
    }
#define RELU                                                                                       \
    {                                                                                              \
        .kind = NN_RELU                                                                            \
    }
#define BLOCK(filters)                                                                             \
    LAYER(RESIDUAL), CONV(filters, 1), RELU, CONV(filters, 1), LAYER(RESIDUAL_END), RELU

static const struct nn_layer_spec resnet[] = {
    CONV(16, 1), RELU,      CONV(32, 2),       RELU,     BLOCK(32), CONV(64, 2),
    RELU,        BLOCK(64), LAYER(GLOBALPOOL), DENSE(10)};

static const struct nn_layer_spec lstm[] = {LAYER(EMBEDDING, .units = 64, .tokens = 256),
                                            LAYER(LSTM, .units = 256), DENSE(256)};

#define LIST(layers) layers, sizeof layers / sizeof *layers

static const struct network {
    const char *name;
    const struct nn_layer_spec *layer;
    size_t layers;
    struct nn_shape input;
    unsigned tokens; /* inputs are tokens rather than pixels */
    size_t classes;
} networks[] = {
    {"mlp", LIST(mlp), {1, {784}}, 0, 10},
    {"cnn", LIST(cnn), {3, {1, 28, 28}}, 0, 10},
    {"gpt", LIST(gpt), {1, {128}}, 256, 256},
    {"lstm", LIST(lstm), {1, {128}}, 256, 256},
    {"resnet", LIST(resnet), {3, {3, 32, 32}}, 0, 10},
};

static void
open_model(struct bench *b, const char *name)
{
    struct why why;
    size_t i = 0, length = strcspn(name, ":");
    while (strncmp(name, networks[i].name, length) != 0 || networks[i].name[length] != 0)
        if (++i == sizeof networks / sizeof *networks)
            exit(2);
    b->network = &networks[i];
    b->input = b->network->input;
    if (name[length] == ':')
        b->input.dim[0] = strtoul(name + length + 1, NULL, 10);
    if (nn_model_new(&b->model, &b->input, b->network->layer, b->network->layers, NN_CROSS_ENTROPY,
                     &why) != 0) {
        fprintf(stderr, "%s\n", why.line);
        exit(1);
    }
}

static void *
zeros(size_t count)
{
    void *p = aligned_alloc(64, (count * 4 + 63) / 64 * 64);
    if (p == NULL)
        exit(1);
    return memset(p, 0, count * 4);
}

static void
open_exact(struct bench *b)
{
    size_t count[2 * NN_LAYERS_MAX], tensors = nn_tensor_count(b->model);
    for (size_t t = 0; t < tensors; t++)
        count[t] = nn_tensor(b->model, t)->count;
    if (exact_new(&b->exact, count, tensors, (unsigned)b->shards) != 0)
        exit(1);
    b->exponent = zeros(exact_blocks(b->exact));
    b->over = zeros(exact_blocks(b->exact));
    for (size_t i = 0; i < exact_blocks(b->exact); i++)
        b->exponent[i] = EXACT_EXPONENT_FIRST;
}

static void
open_passes(struct bench *b)
{
    b->count = nn_param_count(b->model);
    b->params = zeros(b->count);
    b->grad = zeros(b->count);
    b->momentum = zeros(b->count);
    b->sum = zeros(b->count);
    nn_init_params(b->model, 1, b->params);
    open_exact(b);
    for (size_t s = 0; s < b->shards; s++) {
        if (nn_pass_new(&b->pass[s], b->model, b->rows, true) != 0)
            exit(1);
        struct nn_batch *batch = nn_pass_batch(b->pass[s]);
        batch->rows = b->rows;
        for (size_t i = 0; i < b->rows * nn_input_size(b->model); i++)
            batch->x[i] = b->network->tokens > 0
                              ? (float)(mix64(i + s) % b->network->tokens)
                              : (float)(2 * rng_uniform((uint32_t)mix64(i + s)) - 1);
        for (size_t i = 0; i < b->rows * nn_label_count(b->model); i++)
            batch->label[i] = (int32_t)(mix64(i) % b->network->classes);
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void
print_shares(const struct bench *b)
{
    size_t layers = nn_layer_count(b->model);
    double total = b->loss + b->update;
    for (size_t l = 0; l < layers; l++)
        total += b->forward[l] + b->backward[l];
    for (size_t l = 0; l < layers; l++)
        printf("  %-10s forward %5.1f %%  backward %5.1f %%\n", nn_layer_name(b->model, l),
               100 * b->forward[l] / total, 100 * b->backward[l] / total);
    printf("  loss %.1f %%  update %.1f %%\n", 100 * b->loss / total, 100 * b->update / total);
}

int
main(int argc, char **argv)
{
    struct bench b = {.rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 256,
                      .shards = argc > 3 ? strtoul(argv[3], NULL, 10) : 1};
    double seconds = argc > 4 ? strtod(argv[4], NULL) : 3, rate[BLOCKS_MAX];
    const char *name = argc > 1 ? argv[1] : "mlp", *sink = argc > 5 ? argv[5] : "drop";
    void (*add)(void *, size_t, const float *, size_t) = strcmp(sink, "exact") == 0 ? sink_exact
                                                         : strcmp(sink, "add") == 0 ? sink_add
                                                                                    : sink_drop;
    if (b.shards < 1 || b.shards > SHARDS_MAX || b.rows < 1)
        return 2;
    nn_precision(argc > 7);
    const char *kernel = nn_init(argc > 6 ? argv[6] : "portable");
    open_model(&b, name);
    open_passes(&b);
    step(&b, add);
    memset(b.forward, 0, sizeof b.forward);
    memset(b.backward, 0, sizeof b.backward);
    b.loss = b.update = 0;
    size_t blocks = 0;
    for (double start = now(); blocks < 3 || (now() - start < seconds && blocks < BLOCKS_MAX);) {
        double from = now();
        size_t steps = 0;
        do
            step(&b, add), steps++;
        while (now() - from < 0.1);
        rate[blocks++] = (double)(steps * b.rows * b.shards) / (now() - from);
    }
    qsort(rate, blocks, sizeof rate[0], compare);
    printf("NN,%s,%s,%zu,%zu,%s,%.0f,%.0f,%.0f\n", name, kernel, b.rows, b.shards, sink,
           rate[blocks / 2], rate[0], rate[blocks - 1]);
    print_shares(&b);
    return 0;
}

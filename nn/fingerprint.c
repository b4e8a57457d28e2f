/* fingerprint.c - a hash of what this machine computes.
 *
 * The micro-workload is one training step of small networks that between them use every kind of
 * layer, every loss and products with full and ragged blocks in each dimension, forward and backward. OpenBLAS has
 * no part in it: what it computes is not expected to be the same on two machines. */
#include "nn/nn.h"

#include <stdlib.h>
#include <string.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/rng.h"

static void
hash_add(void *ctx, size_t first, const float *g, size_t n)
{
    uint64_t hash = mix64_pair(*(uint64_t *)ctx, first);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, g + i, sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    *(uint64_t *)ctx = mix64(hash);
}

static void
batch_draw(struct nn_batch *batch, size_t rows, size_t in, size_t out, size_t labels)
{
    struct rng_key key = rng_key(1, RNG_INIT, rows, in);
    uint32_t word[4];
    batch->rows = rows;
    for (size_t i = 0; i < rows * in; i++) {
        rng_block(key, 0, i, word);
        batch->x[i] = labels > 1 ? (float)(word[0] % 11) : (float)(2 * rng_uniform(word[0]) - 1);
    }
    for (size_t i = 0; batch->target && i < rows * out; i++) {
        rng_block(key, 1, i, word);
        batch->target[i] = (float)rng_uniform(word[0]);
    }
    for (size_t i = 0; i < rows * labels; i++)
        batch->label[i] = (int32_t)(i % 2);
}

static void
step_hash(const struct nn_model *model, struct nn_pass *pass, float *params, size_t rows,
          uint64_t *hash)
{
    const struct nn_context context = {.seed = 1, .training = true};
    const struct nn_sink sink = {.add = hash_add, .ctx = hash};
    size_t l, count = nn_layer_count(model);
    struct nn_result result;
    uint64_t loss;
    batch_draw(nn_pass_batch(pass), rows, nn_input_size(model), nn_output_size(model),
               nn_label_count(model));
    for (l = 0; l < count; l++)
        nn_forward(model, l, pass, params, &context);
    hash_add(hash, 0, nn_pass_output(pass), rows * nn_output_size(model));
    nn_loss(model, pass, 1.0f, &result);
    memcpy(&loss, &result.loss, sizeof loss);
    *hash = mix64_pair(*hash, loss);
    while (l-- > 0)
        nn_backward(model, l, pass, params, &context, &sink);
}

/* 0, or -1 without memory. */
static int
model_hash(const struct nn_shape *input, const struct nn_layer_spec *layers, size_t count,
           enum nn_loss loss, size_t rows, uint64_t *hash)
{
    struct why why;
    struct nn_model *model = NULL;
    struct nn_pass *pass = NULL;
    float *params = NULL;
    int rc = nn_model_new(&model, input, layers, count, loss, &why);
    if (rc == 0)
        rc = nn_pass_new(&pass, model, rows, true);
    if (rc == 0)
        params = malloc(nn_param_count(model) * sizeof *params);
    if (rc == 0 && loss == NN_SQUARED_ERROR) /* one of them rounds */
        nn_model_round_cuts(model);
    if (params != NULL) {
        nn_init_params(model, 1, params);
        hash_add(hash, 0, params, nn_param_count(model));
        step_hash(model, pass, params, rows, hash);
    }
    rc = params == NULL ? -1 : 0;
    free(params);
    nn_pass_destroy(&pass);
    nn_model_destroy(&model);
    return rc;
}

uint64_t
nn_fingerprint(void)
{
    static const struct nn_shape image = {3, {3, 14, 15}}, flat = {1, {521}};
    static const struct nn_layer_spec convolutional[] = {
        {.kind = NN_CONV2D, .units = 8, .kernel = 5, .pad = 2},
        {.kind = NN_BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f},
        {.kind = NN_RELU},
        {.kind = NN_MAXPOOL, .kernel = 2},
        {.kind = NN_CONV2D, .units = 13, .kernel = 3, .stride = 2, .pad = 1},
        {.kind = NN_SIGMOID},
        {.kind = NN_AVGPOOL, .kernel = 2, .stride = 1, .pad = 1},
        {.kind = NN_GLOBALPOOL},
        {.kind = NN_FLATTEN},
        {.kind = NN_DENSE, .units = 3},
    };
    static const struct nn_layer_spec dense[] = {
        {.kind = NN_DENSE, .units = 200},
        {.kind = NN_TANH},
        {.kind = NN_DROPOUT, .drop = 0.25f},
        {.kind = NN_DENSE, .units = 37},
        {.kind = NN_RELU},
        {.kind = NN_DENSE, .units = 53},
        {.kind = NN_LAYERNORM, .epsilon = 1e-5f},
        {.kind = NN_GELU},
        {.kind = NN_DENSE, .units = 41},
        {.kind = NN_RMSNORM, .epsilon = 1e-5f},
        {.kind = NN_GELU, .approximate = true},
        {.kind = NN_SILU},
        {.kind = NN_DENSE, .units = 2},
        {.kind = NN_SIGMOID},
        {.kind = NN_DENSE, .units = 1},
    };
    static const struct nn_shape text = {1, {19}};
    static const struct nn_layer_spec sequential[] = {
        {.kind = NN_EMBEDDING, .units = 24, .tokens = 11},
        {.kind = NN_POSITIONS},
        {.kind = NN_POSITIONS, .sinusoidal = true},
        {.kind = NN_RESIDUAL},
        {.kind = NN_DENSE, .units = 72},
        {.kind = NN_ATTENTION, .units = 2},
        {.kind = NN_RESIDUAL_END},
        {.kind = NN_RNN, .units = 9},
        {.kind = NN_LSTM, .units = 13},
        {.kind = NN_GRU, .units = 11},
        {.kind = NN_DENSE, .units = 7},
    };
    const bool blas = blas_used;
    uint64_t hash = 0;
    blas_used = false;
    int rc = model_hash(&image, convolutional, sizeof convolutional / sizeof convolutional[0],
                        NN_CROSS_ENTROPY, 5, &hash);
    rc |= model_hash(&flat, dense, sizeof dense / sizeof dense[0], NN_LOGISTIC, 67, &hash);
    rc |= model_hash(&flat, dense, 5, NN_SQUARED_ERROR, 12, &hash);
    rc |= model_hash(&text, sequential, sizeof sequential / sizeof sequential[0], NN_CROSS_ENTROPY,
                     6, &hash);
    blas_used = blas;
    return rc == 0 ? hash : 0;
}

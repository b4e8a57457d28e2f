/* prop_gradients.c - gradient = central difference, for random small networks of every layer kind and
 * loss, over all parameters and all inputs; fast kernels = naive ones; results independent of who
 * computes in which order. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "nn/arithmetic/rng.h"
#include "nn/layers/layer.h"
#include "tests/support/cases.h"
#include "tests/support/naive.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

static uint64_t draws;

static unsigned
below(unsigned n)
{
    return (unsigned)(mix64(++draws) % n);
}

static float
uniform(void)
{
    return (float)(2 * rng_uniform((uint32_t)mix64(++draws)) - 1);
}

static void
fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = uniform();
}

struct grads {
    float *g;
    size_t elements, count;
};

static void
grads_add(void *ctx, size_t first, const float *g, size_t n)
{
    struct grads *grads = ctx;
    assert_true(first + n <= grads->count);
    for (size_t i = 0; i < n; i++)
        grads->g[first + i] += g[i];
    grads->elements += n;
}

struct net {
    struct nn_model *model;
    struct nn_pass *pass;
    float *params, *grad;
    struct nn_context context;
    enum nn_loss loss;
};

static void
net_close(struct net *net)
{
    nn_pass_destroy(&net->pass);
    nn_model_destroy(&net->model);
    free(net->params);
    free(net->grad);
}

static double
net_forward(struct net *net, struct nn_result *result)
{
    for (size_t l = 0; l < nn_layer_count(net->model); l++)
        nn_forward(net->model, l, net->pass, net->params, &net->context);
    nn_loss(net->model, net->pass, 1.0f, result);
    return result->loss;
}

static void
net_backward(struct net *net)
{
    struct grads grads = {net->grad, 0, nn_param_count(net->model)};
    struct nn_sink sink = {.add = grads_add, .ctx = &grads};
    struct nn_result result;
    memset(net->grad, 0, grads.count * sizeof *grads.g);
    net_forward(net, &result);
    for (size_t l = nn_layer_count(net->model); l-- > 0;)
        nn_backward(net->model, l, net->pass, net->params, &net->context, &sink);
    assert_int_equal(grads.elements, grads.count);
}

/* Central difference over +-h, and the change of slope between its two halves: h times the curvature
 * for a smooth loss, and at least twice the error of the central difference at a kink. */
struct slope {
    double central, bend;
};

static struct slope
slope_at(struct net *net, float *x, float h)
{
    struct nn_result result;
    float keep = *x;
    double loss = net_forward(net, &result);
    *x = keep + h;
    double up = (double)*x - (double)keep, loss_up = net_forward(net, &result);
    *x = keep - h;
    double down = (double)keep - (double)*x, loss_down = net_forward(net, &result);
    *x = keep;
    return (struct slope){(loss_up - loss_down) / (up + down),
                          (loss_up - loss) / up - (loss - loss_down) / down};
}

static size_t checked, kinks;

/* Relu and maxpool have kinks, where a difference means nothing; they show as a bend. */
static void
check_one(struct net *net, float *x, double gradient, size_t index)
{
    struct slope slope = slope_at(net, x, 2e-3f);
    double size = fabs(gradient) + fabs(slope.central) + 0.05;
    checked++;
    if (fabs(slope.bend) > 1e-2 * size)
        kinks++;
    else if (fabs(slope.central - gradient) > 1.5e-2 * size)
        fail_msg("parameter %zu of %zu: gradient %g, difference %g", index,
                 nn_param_count(net->model), gradient, slope.central);
}

static void
net_check(struct net *net)
{
    net_backward(net);
    for (size_t t = 0; t < nn_tensor_count(net->model); t++) {
        const struct nn_tensor *tensor = nn_tensor(net->model, t);
        for (size_t i = tensor->first; i < tensor->first + tensor->count; i++)
            if (!(tensor->average > 0)) /* the loss does not know of them */
                check_one(net, &net->params[i], (double)net->grad[i], i);
    }
}

/* Every network below begins with a layer with a bias, so the gradients of the inputs of all later layers
 * show in those of its parameters. */
static void
net_open(struct net *net, const struct nn_shape *input, const struct nn_layer_spec *layers,
         size_t count, enum nn_loss loss, size_t rows)
{
    struct why why;
    *net = (struct net){.loss = loss};
    net->context =
        (struct nn_context){.seed = 5, .epoch = 2, .step = 77, .first_row = 30, .training = true};
    if (nn_model_new(&net->model, input, layers, count, loss, &why) != 0)
        fail_msg("%s", why.line);
    assert_int_equal(nn_pass_new(&net->pass, net->model, rows, true), 0);
    net->params = calloc(nn_param_count(net->model), sizeof(float));
    net->grad = calloc(nn_param_count(net->model), sizeof(float));
    nn_init_params(net->model, 3, net->params);
    for (size_t i = 0; i < nn_param_count(net->model); i++)
        net->params[i] += 0.1f * uniform();
    struct nn_batch *batch = nn_pass_batch(net->pass);
    batch->rows = rows;
    fill(batch->x, rows * nn_input_size(net->model));
    if (batch->target != NULL)
        fill(batch->target, rows * nn_output_size(net->model));
    size_t labels = nn_label_count(net->model);
    for (size_t i = 0; i < rows * labels; i++)
        batch->label[i] = (int32_t)below(
            loss == NN_LOGISTIC ? 2 : (unsigned)(nn_output_size(net->model) / labels));
    if (layers[0].kind == NN_EMBEDDING)
        for (size_t i = 0; i < rows * nn_input_size(net->model); i++)
            batch->x[i] = (float)below(layers[0].tokens);
}

static size_t
image_layers(struct nn_layer_spec *s, enum nn_kind kind)
{
    size_t n = 0;
    unsigned kernel = 1 + below(3);
    s[n++] =
        (struct nn_layer_spec){.kind = NN_CONV2D, .units = 1 + below(3), .kernel = 1 + below(3)};
    s[n - 1].pad = s[n - 1].kernel - 1; /* the image does not shrink */
    s[n++] = (struct nn_layer_spec){.kind = kind,
                                    .units = 1 + below(5),
                                    .kernel = kernel,
                                    .stride = below(4),
                                    .pad = below(kernel),
                                    .drop = 0.3f,
                                    .epsilon = 0.1f,
                                    .momentum = 0.1f,
                                    .approximate = below(2),
                                    .no_bias = below(2)};
    s[n++] = (struct nn_layer_spec){.kind = NN_TANH};
    s[n++] = (struct nn_layer_spec){.kind = NN_FLATTEN};
    return n;
}

static size_t
flat_layers(struct nn_layer_spec *s, enum nn_kind kind)
{
    size_t n = 0;
    s[n++] = (struct nn_layer_spec){.kind = NN_DENSE, .units = 1 + below(5), .no_bias = below(2)};
    s[n++] = (struct nn_layer_spec){.kind = kind,
                                    .units = 1 + below(5),
                                    .drop = 0.3f,
                                    .epsilon = 0.1f,
                                    .momentum = 0.1f,
                                    .approximate = below(2)};
    s[n++] = (struct nn_layer_spec){.kind = NN_SIGMOID};
    return n;
}

static bool
recurrent(enum nn_kind kind)
{
    return kind == NN_RNN || kind == NN_LSTM || kind == NN_GRU;
}

/* Sequences of tokens: the kind between positions and the last layer. */
static size_t
token_layers(struct nn_layer_spec *s, enum nn_kind kind)
{
    size_t n = 0;
    s[n++] =
        (struct nn_layer_spec){.kind = NN_EMBEDDING, .units = 1 + below(6), .tokens = 1 + below(5)};
    s[n++] = (struct nn_layer_spec){.kind = NN_POSITIONS, .sinusoidal = below(2)};
    if (kind == NN_RESIDUAL || kind == NN_RESIDUAL_END) {
        unsigned depth = 1 + below(3);
        for (unsigned i = 0; i < depth; i++)
            s[n++] = (struct nn_layer_spec){.kind = NN_RESIDUAL};
        s[n++] = (struct nn_layer_spec){.kind = below(2) ? NN_TANH : NN_SILU};
        for (unsigned i = 0; i < depth; i++) {
            s[n++] = (struct nn_layer_spec){.kind = NN_DENSE, .units = s[0].units};
            s[n++] = (struct nn_layer_spec){.kind = NN_RESIDUAL_END};
        }
        return n;
    }
    if (kind == NN_ATTENTION)
        s[n++] = (struct nn_layer_spec){.kind = NN_DENSE, .units = 12 * (1 + below(2))};
    if (kind != NN_EMBEDDING)
        s[n++] = (struct nn_layer_spec){
            .kind = kind, .units = 1 + below(5), .drop = 0.3f, .epsilon = 0.1f, .momentum = 0.1f};
    if (recurrent(kind))
        s[n - 1].last = below(2);
    if (kind == NN_ATTENTION)
        s[n - 1].units = 1u << below(3);
    return n;
}

static void
random_tokens_check(enum nn_kind kind, enum nn_loss loss)
{
    struct nn_layer_spec s[16];
    struct nn_shape text = {1, {1 + below(5)}};
    size_t n = token_layers(s, kind);
    bool whole = s[n - 1].last || loss != NN_CROSS_ENTROPY || kind == NN_GLOBALPOOL || below(2);
    if (whole)
        s[n++] = (struct nn_layer_spec){.kind = NN_FLATTEN};
    s[n++] =
        (struct nn_layer_spec){.kind = NN_DENSE, .units = loss == NN_LOGISTIC ? 1 : 2 + below(3)};
    OWNED(net_close) struct net net;
    net_open(&net, &text, s, n, loss, below(4));
    net_check(&net);
}

static void
random_tied_check(void)
{
    unsigned units = 1 + below(6), tokens = 2 + below(60);
    const struct nn_layer_spec s[] = {
        LAYER(EMBEDDING, .units = units, .tokens = tokens), DENSE(units), LAYER(SILU),
        LAYER(DENSE, .units = tokens, .tied = true, .no_bias = below(2))};
    struct nn_shape text = {1, {1 + below(5)}};
    OWNED(net_close) struct net net;
    net_open(&net, &text, s, 4, NN_CROSS_ENTROPY, below(4));
    net_check(&net);
}

static bool
takes_any_shape(enum nn_kind kind)
{
    return kind != NN_CONV2D && kind != NN_MAXPOOL && kind != NN_AVGPOOL && kind != NN_UPSAMPLE &&
           kind != NN_FLATTEN;
}

static bool
takes_images(enum nn_kind kind)
{
    return kind != NN_EMBEDDING && kind != NN_POSITIONS && kind != NN_RESIDUAL &&
           kind != NN_RESIDUAL_END && kind != NN_ATTENTION && kind != NN_GLOBALPOOL &&
           !recurrent(kind);
}

static void
random_net_check(enum nn_kind kind, enum nn_loss loss)
{
    struct nn_layer_spec s[8];
    struct nn_shape image = {3, {1 + below(3), 3 + below(4), 3 + below(4)}},
                    flat = {1, {1 + below(6)}};
    bool needs_image =
        kind == NN_CONV2D || kind == NN_MAXPOOL || kind == NN_AVGPOOL || kind == NN_UPSAMPLE;
    bool is_image = needs_image || (kind != NN_DENSE && below(2));
    size_t n = is_image ? image_layers(s, kind) : flat_layers(s, kind);
    s[n++] =
        (struct nn_layer_spec){.kind = NN_DENSE, .units = loss == NN_LOGISTIC ? 1 : 2 + below(3)};
    OWNED(net_close) struct net net;
    net_open(&net, is_image ? &image : &flat, s, n, loss, below(4));
    net_check(&net);
}

static void
gradients_are_central_differences(void **state)
{
    size_t each = cases(12);
    nn_init(*state);
    for (int kind = 0; kind < NN_KINDS; kind++)
        for (int loss = 0; loss <= NN_LOGISTIC; loss++)
            for (size_t i = 0; i < each; i++) {
                if (takes_images((enum nn_kind)kind))
                    random_net_check((enum nn_kind)kind, (enum nn_loss)loss);
                if (takes_any_shape((enum nn_kind)kind))
                    random_tokens_check((enum nn_kind)kind, (enum nn_loss)loss);
            }
    for (size_t i = 0; i < each; i++)
        random_tied_check();
    assert_true(kinks < checked / 20);
}
TEST_OF(gradients_are_central_differences, "portable")
TEST_OF(gradients_are_central_differences, "openblas")

/* One layer on its own memory, so that the gradient of its input can be asked for. */
struct bench {
    struct layer layer;
    struct layer_io io;
    struct grads grads;
    struct nn_sink sink;
    struct nn_context context;
};

static void
bench_open(struct bench *b, const struct nn_model *model, size_t rows, const float *params)
{
    *b = (struct bench){.layer = *nn_model_layer(model, 0)};
    struct layer *layer = &b->layer;
    size_t in = rows * layer->in_size, out = rows * layer->out_size;
    size_t scratch = layer->kind->scratch == NULL ? 0 : layer->kind->scratch(layer, rows);
    if (scratch < layer->weight_count + layer->out_size)
        scratch = layer->weight_count + layer->out_size;
    b->context = (struct nn_context){.seed = 9, .training = true};
    b->grads =
        (struct grads){calloc(nn_param_count(model) + 1, sizeof(float)), 0, nn_param_count(model)};
    b->sink = (struct nn_sink){.add = grads_add, .ctx = &b->grads};
    float *x = calloc(in + 1, sizeof(float));
    for (size_t i = 0; i < in; i++)
        x[i] = (float)((mix64(i) >> 40) % 2001) / 1000 - 1;
    b->io = (struct layer_io){
        .rows = rows,
        .x = x,
        .y = calloc(out + 1, sizeof(float)),
        .dy = calloc(out + 1, sizeof(float)),
        .dx = calloc(in + 1, sizeof(float)),
        .params = params,
        .context = &b->context,
        .scratch = calloc(scratch + 1, sizeof(float)),
        .sink = &b->sink,
        .saved = calloc(rows + 1, layer->kind->saved == NULL ? 1 : layer->kind->saved(layer)),
    };
    for (size_t i = 0; i < out; i++)
        b->io.dy[i] = (float)((mix64(i + 7) >> 40) % 2001) / 1000 - 1;
}

static void
bench_close(struct bench *b)
{
    free((void *)(uintptr_t)b->io.x);
    free(b->io.y);
    free(b->io.dy);
    free(b->io.dx);
    free(b->io.scratch);
    free(b->io.saved);
    free(b->grads.g);
}

static void
check_near(const float *a, const float *b, size_t n, double terms, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 3e-7 * (terms + 4)))
            fail_msg("%s element %zu of %zu: fast %.9g, naive %.9g", what, i, n, (double)a[i],
                     (double)b[i]);
}

static void
fast_and_naive(const struct nn_shape *input, const struct nn_layer_spec *spec, size_t rows)
{
    struct why why;
    struct nn_layer_spec layers[] = {*spec, LAYER(FLATTEN), DENSE(2)};
    struct nn_model *model;
    struct bench fast, naive;
    if (nn_model_new(&model, input, layers, 3, NN_CROSS_ENTROPY, &why) != 0)
        fail_msg("%s", why.line);
    OWNED(memory_free) float *params = calloc(nn_param_count(model), sizeof(float));
    fill(params, nn_param_count(model));
    bench_open(&fast, model, rows, params);
    bench_open(&naive, model, rows, params);
    const struct layer *layer = &fast.layer;
    layer->kind->forward(layer, &fast.io);
    naive_forward(layer, &naive.io);
    layer->kind->backward(layer, &fast.io);
    naive_backward(layer, &naive.io);
    double fan_in =
        (double)(layer->weight.dims == 0 ? 25 : layer->weight_count / layer->weight.dim[0]);
    check_near(fast.io.y, naive.io.y, rows * layer->out_size, fan_in, "output");
    check_near(fast.io.dx, naive.io.dx, rows * layer->in_size, fan_in * (double)layer->spec.units,
               "input gradient");
    check_near(fast.grads.g, naive.grads.g, fast.grads.count, (double)(rows * layer->out_size),
               "parameter gradient");
    assert_int_equal(fast.grads.elements, naive.grads.elements);
    bench_close(&fast);
    bench_close(&naive);
    nn_model_destroy(&model);
}

static void
fast_layers_equal_naive_ones(void **state)
{
    nn_init(*state);
    for (size_t i = cases(150); i > 0; i--) {
        unsigned kernel = 1 + below(5);
        struct nn_shape flat = {1, {1 + below(90)}},
                        image = {3, {1 + below(5), kernel + below(12), kernel + below(20)}},
                        sequence = {2, {1 + below(40), 1 + below(50)}};
        struct nn_layer_spec dense = {
            .kind = NN_DENSE, .units = 1 + below(70), .no_bias = below(2)};
        struct nn_layer_spec conv = {.kind = NN_CONV2D,
                                     .units = 1 + below(20),
                                     .kernel = kernel,
                                     .stride = 1 + below(3),
                                     .pad = below(kernel),
                                     .no_bias = below(2)};
        struct nn_layer_spec pool = conv;
        pool.kind = NN_MAXPOOL;
        fast_and_naive(&image, &pool, below(4));
        struct nn_layer_spec larger = LAYER(UPSAMPLE, .kernel = 1 + below(4));
        fast_and_naive(&image, &larger, below(4));
        fast_and_naive(&flat, &dense, below(20));
        fast_and_naive(&sequence, &dense, below(5));
        struct nn_layer_spec attention = LAYER(ATTENTION, .units = 1 + below(3));
        sequence.dim[0] = 1 + below(120);
        sequence.dim[1] = 3 * attention.units * (1 + below(40));
        fast_and_naive(&sequence, &attention, below(3));
        fast_and_naive(&image, &conv, below(4));
        conv.stride = 1;
        fast_and_naive(&image, &conv, below(4));
    }
}
TEST_OF(fast_layers_equal_naive_ones, "portable")
TEST_OF(fast_layers_equal_naive_ones, "openblas")

/* The same shard on another pass, after other work, on another thread. */
struct job {
    const struct net *net;
    float *grad;
    struct nn_result result;
};

static void *
job_run(void *arg)
{
    struct job *job = arg;
    struct net own = *job->net;
    const struct nn_batch *from = nn_pass_batch(job->net->pass);
    if (nn_pass_new(&own.pass, own.model, from->rows + 3, true) != 0)
        return NULL;
    struct nn_batch *to = nn_pass_batch(own.pass);
    own.grad = job->grad;
    for (to->rows = from->rows + 3; to->rows >= from->rows; to->rows--) {
        memset(to->x, 0, to->rows * nn_input_size(own.model) * sizeof(float));
        memset(to->label, 0, to->rows * sizeof *to->label);
        memcpy(to->x, from->x, from->rows * nn_input_size(own.model) * sizeof(float));
        memcpy(to->label, from->label, from->rows * sizeof *to->label);
        net_backward(&own);
        if (to->rows == 0)
            break;
    }
    to->rows = from->rows;
    net_forward(&own, &job->result);
    nn_pass_destroy(&own.pass);
    return job;
}

static void
a_shard_has_the_same_bits_on_any_thread(void **state)
{
    nn_init(*state);
    const struct nn_layer_spec s[] = {LAYER(CONV2D, .units = 6, .kernel = 5, .pad = 2),
                                      LAYER(RELU),
                                      LAYER(MAXPOOL, .kernel = 2),
                                      LAYER(CONV2D, .units = 7, .kernel = 3),
                                      LAYER(TANH),
                                      LAYER(FLATTEN),
                                      LAYER(DROPOUT, .drop = 0.5f),
                                      DENSE(33),
                                      LAYER(RELU),
                                      DENSE(5)};
    OWNED(net_close) struct net net;
    enum { JOBS = 4 };
    struct job job[JOBS];
    pthread_t thread[JOBS];
    struct nn_result result;
    net_open(&net, &(struct nn_shape){3, {2, 13, 12}}, s, 10, NN_CROSS_ENTROPY, 9);
    net_backward(&net);
    size_t bytes = nn_param_count(net.model) * sizeof(float);
    for (int i = 0; i < JOBS; i++) {
        job[i] = (struct job){.net = &net, .grad = calloc(1, bytes)};
        assert_int_equal(pthread_create(&thread[i], NULL, job_run, &job[i]), 0);
    }
    net_forward(&net, &result);
    for (int i = 0; i < JOBS; i++) {
        void *done = NULL;
        pthread_join(thread[i], &done);
        assert_non_null(done);
        assert_memory_equal(job[i].grad, net.grad, bytes);
        assert_true(job[i].result.loss == result.loss);
        free(job[i].grad);
    }
}
TEST_OF(a_shard_has_the_same_bits_on_any_thread, "portable")
TEST_OF(a_shard_has_the_same_bits_on_any_thread, "openblas")

/* Dropout and everything else see rows of the global batch: a batch cut in two drops the same elements. */
TEST(dropout_does_not_depend_on_the_cut)
{
    enum { N = 37, ROWS = 11 };
    const struct nn_layer_spec s[] = {LAYER(DROPOUT, .drop = 0.4f), DENSE(2)};
    OWNED(net_close) struct net net;
    float whole[N * ROWS];
    net_open(&net, &(struct nn_shape){1, {N}}, s, 2, NN_CROSS_ENTROPY, ROWS);
    struct layer_io io = {
        .rows = ROWS, .x = nn_pass_batch(net.pass)->x, .y = whole, .context = &net.context};
    const struct layer *layer = nn_model_layer(net.model, 0);
    layer->kind->forward(layer, &io);
    for (size_t cut = 0; cut <= ROWS; cut++) {
        float part[N * ROWS];
        struct nn_context second = net.context;
        second.first_row += cut;
        layer->kind->forward(
            layer, &(struct layer_io){.rows = cut, .x = io.x, .y = part, .context = &net.context});
        layer->kind->forward(layer, &(struct layer_io){.rows = ROWS - cut,
                                                       .x = io.x + cut * N,
                                                       .y = part + cut * N,
                                                       .context = &second});
        assert_memory_equal(part, whole, sizeof part);
    }
}

TEST(nan_or_infinity_in_an_input_is_bad)
{
    for (int i = 0; i < 40; i++) {
        struct nn_layer_spec s[8];
        bool image = below(2);
        size_t n =
            image ? image_layers(s, below(2) ? NN_MAXPOOL : NN_RELU) : flat_layers(s, NN_RELU);
        s[n++] = (struct nn_layer_spec){.kind = NN_DENSE, .units = 3};
        if (image) /* a window that skips no input */
            s[0].stride = 1, s[1].stride = 1;
        OWNED(net_close) struct net net;
        struct nn_result result;
        net_open(&net, image ? &(struct nn_shape){3, {2, 6, 6}} : &(struct nn_shape){1, {6}}, s, n,
                 NN_CROSS_ENTROPY, 3);
        net_forward(&net, &result);
        assert_false(result.bad);
        nn_pass_batch(net.pass)->x[below((unsigned)(3 * nn_input_size(net.model)))] = NAN;
        net_forward(&net, &result);
        assert_true(result.bad);
    }
}

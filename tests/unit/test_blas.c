/* Dense layers through OpenBLAS give what they give through our own products, but for rounding, alone and in a team. */
#include <math.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/rng.h"
#include "nn/nn.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { ROWS = 300, IN = 1030, MIDDLE = 2200, OUT = 1200, PARTS = 2 };

struct step {
    float *out, *grad;
};

static void
run_parts(void *ctx, void (*part)(void *arg, size_t i), void *arg, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++)
        part(arg, i);
}

static void
take(void *ctx, size_t first, const float *g, size_t n)
{
    memcpy((float *)ctx + first, g, n * sizeof *g);
}

static void
compute(const struct nn_model *model, const float *params, bool together, struct step *step)
{
    struct nn_pass *pass;
    struct nn_result result;
    const struct nn_context context = {.training = true};
    const struct nn_sink sink = {.add = take, .ctx = step->grad};
    size_t layers = nn_layer_count(model),
           scratch = nn_team_scratch(model, &(struct nn_room){.rows_max = ROWS});
    OWNED(memory_free) float *side = aligned_alloc(64, PARTS * scratch * sizeof *side);
    const struct nn_team team = {PARTS, run_parts, NULL, side};
    assert_non_null(side);
    assert_int_equal(nn_pass_new(&pass, model, ROWS, true), 0);
    struct nn_batch *batch = nn_pass_batch(pass);
    batch->rows = ROWS;
    for (size_t i = 0; i < ROWS * IN; i++)
        batch->x[i] = (float)(mix64(i) % 2001) / 1000 - 1;
    for (size_t i = 0; i < ROWS; i++)
        batch->label[i] = (int32_t)(mix64(i) % OUT);
    nn_pass_team(pass, together ? &team : NULL);
    for (size_t l = 0; l < layers; l++)
        nn_forward(model, l, pass, params, &context);
    nn_loss(model, pass, 1.0f / ROWS, &result);
    for (size_t l = layers; l-- > 0;)
        nn_backward(model, l, pass, params, &context, &sink);
    memcpy(step->out, nn_pass_output(pass), ROWS * OUT * sizeof *step->out);
    nn_pass_destroy(&pass);
}

static void
close_to(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double off = (double)a[i] - (double)b[i];
        difference += off * off;
        norm += (double)a[i] * (double)a[i];
    }
    assert_true(norm > 0);
    assert_true(sqrt(difference) < 1e-5 * sqrt(norm));
}

static struct step
step_new(size_t params)
{
    struct step step = {calloc(ROWS * OUT, sizeof(float)), calloc(params, sizeof(float))};
    assert_non_null(step.out);
    assert_non_null(step.grad);
    return step;
}

static void
compare(const struct nn_layer_spec *layers, size_t count)
{
    OWNED(nn_model_destroy) struct nn_model *model;
    struct why why;
    const struct nn_shape input = {1, {IN}};
    assert_int_equal(nn_model_new(&model, &input, layers, count, NN_CROSS_ENTROPY, &why), 0);
    size_t n = nn_param_count(model);
    OWNED(memory_free) float *params = calloc(n, sizeof *params);
    assert_non_null(params);
    nn_init_params(model, 3, params);
    struct step own = step_new(n), library = step_new(n);
    blas_used = false;
    compute(model, params, false, &own);
    for (int together = 0; together < 2; together++) {
        blas_used = true;
        assert_true(blas_gains(ROWS, MIDDLE / PARTS, IN)); /* which share out the columns */
        compute(model, params, together > 0, &library);
        close_to(own.out, library.out, ROWS * OUT);
        close_to(own.grad, library.grad, n);
    }
    free(library.out);
    free(library.grad);
    free(own.out);
    free(own.grad);
}

TEST(large_layers_are_the_same_but_for_rounding)
{
    const struct nn_layer_spec relu[] = {DENSE(MIDDLE), LAYER(RELU), DENSE(OUT)};
    const struct nn_layer_spec gelu[] = {LAYER(DENSE, .units = MIDDLE, .no_bias = true),
                                         LAYER(GELU, .approximate = true), DENSE(OUT)};
    nn_init("openblas");
    if (!blas_used)
        skip(); /* there is no such library here */
    compare(relu, sizeof relu / sizeof *relu);
    compare(gelu, sizeof gelu / sizeof *gelu);
}

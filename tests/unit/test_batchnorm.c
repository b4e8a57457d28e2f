/* Batch normalisation: names, what evaluation uses, what averages are told. Values are PyTorch's (test_golden.c). */
#include <math.h>

#include "nn/arithmetic/simd.h"
#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

/* weight, bias, running mean and variance of two channels */
static const float params[] = {2, 3, 10, 20, 1, -1, 4, 0.25f};
static const struct nn_layer_spec spec = LAYER(BATCHNORM, .epsilon = 1e-6f, .momentum = 0.5f);
static const struct nn_shape features = {1, {2}}, image = {3, {2, 1, 2}};

static void
near(float got, double expected)
{
    if (!(fabs((double)got - expected) <= 5e-5))
        fail_msg("%.9g, expected %.9g", (double)got, expected);
}

TEST(evaluation_uses_the_running_averages)
{
    OWNED(one_layer_close) struct one_layer one;
    const float x[] = {1, 0, 5, 1};
    float y[4];
    one_layer_open(&one, &features, &spec, 2, params);
    one.context.training = false;
    one_layer_forward(&one, x, y);
    near(y[0], 10);
    near(y[1], 20 + 3 * 2);
    near(y[2], 10 + 2 * 2);
    near(y[3], 20 + 3 * 4);
}

/* Two rows of [2, 1, 2]: channel 0 has 1 3 5 7, channel 1 has 2 2 2 2. */
TEST(averages_are_told_their_distance_to_the_shard)
{
    OWNED(one_layer_close) struct one_layer one;
    const float x[] = {1, 3, 2, 2, 5, 7, 2, 2}, dy[] = {1, 0, 0, 0, 0, 0, 0, 1};
    float y[8], dx[8];
    one_layer_open(&one, &image, &spec, 2, params);
    one.io.scale = 0.25f; /* two of eight rows */
    one_layer_forward(&one, x, y);
    near(y[0], 10 - 3 * 2 / sqrt(5));
    near(y[3], 20);
    one_layer_backward(&one, dy, dx);
    near(one.grad[0], -3 / sqrt(5));
    near(one.grad[2], 1);
    near(one.grad[4], (1.0 - 4) / 2);
    near(one.grad[5], (-1.0 - 2) / 2);
    near(one.grad[6], (4 - 5.0 * 4 / 3) / 2);
    near(one.grad[7], 0.25 / 2);
}

TEST(a_shard_without_rows_says_nothing)
{
    OWNED(one_layer_close) struct one_layer one;
    float none[1] = {0};
    one_layer_open(&one, &features, &spec, 0, params);
    one.io.saved = realloc(one.io.saved, one.layer->kind->saved(one.layer));
    one.io.scale = 1;
    one_layer_forward(&one, none, none);
    one_layer_backward(&one, none, none);
    for (size_t i = 0; i < 8; i++)
        assert_true(one.grad[i] == 0);
}

TEST(averages_are_no_weights)
{
    static const char *const names[] = {"0.batchnorm.weight", "0.batchnorm.bias",
                                        "0.batchnorm.running_mean", "0.batchnorm.running_var"};
    OWNED(one_layer_close) struct one_layer one;
    float first[8 + 6];
    one_layer_open(&one, &features, &spec, 1, params);
    for (size_t t = 0; t < 4; t++) {
        assert_string_equal(nn_tensor(one.model, t)->name, names[t]);
        assert_true(nn_tensor(one.model, t)->average == (t < 2 ? 0 : 0.5f));
    }
    nn_init_params(one.model, 1, first);
    const float expected[] = {1, 1, 0, 0, 0, 0, 1, 1};
    assert_memory_equal(first, expected, sizeof expected);
}

/* The sums by their definition: 16 lanes over 4096 values at a time, then in double. */
static double
sum_naive(const struct batchnorm_channel *c, const float *x, const float *dy, float mean, int kind)
{
    double sum = 0;
    for (size_t p = 0; p < c->planes; p++)
        for (size_t first = 0; first < c->plane; first += 4096) {
            double piece = 0;
            for (size_t lane = 0; lane < 16; lane++) {
                float part = 0;
                for (size_t i = first + lane; i < c->plane && i < first + 4096; i += 16) {
                    float d = x[p * c->stride + i] - mean;
                    part += kind == 0   ? x[p * c->stride + i]
                            : kind == 1 ? d * d
                                        : dy[p * c->stride + i] * d;
                }
                piece += (double)part;
            }
            sum += piece;
        }
    return sum;
}

TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    enum { N = 9000 };
    static float x[N], dy[N], a[N], b[N];
    const struct batchnorm_slope slope = {0.3f, 1.7f, 0.9f, 0.01f, -0.02f};
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)((int)(i * 7919 % 2003) - 900) / 977.0f;
        dy[i] = (float)((int)(i * 6007 % 1999) - 1000) / 991.0f;
    }
    for (size_t plane = 1; plane <= 8200; plane = plane < 70 ? plane + 1 : plane * 9 / 8) {
        const struct batchnorm_channel c = {plane < 1000 ? 3 : 1, plane, plane + 5};
        double sum[4], wide[4];
        batchnorm_sum_base(&c, x, &sum[0]);
        batchnorm_squares_base(&c, x, 0.3f, &sum[1]);
        batchnorm_gradient_base(&c, x, NULL, dy, 0.3f, &sum[2]);
        for (int kind = 0; kind < 2; kind++)
            assert_true(sum[kind] == sum_naive(&c, x, dy, 0.3f, kind));
        assert_true(sum[2] == sum_naive(&c, dy, dy, 0, 0));
        assert_true(sum[3] == sum_naive(&c, x, dy, 0.3f, 2));
        if (!simd_avx2())
            continue;
        SIMD_PICK(batchnorm_sum)(&c, x, &wide[0]);
        SIMD_PICK(batchnorm_squares)(&c, x, 0.3f, &wide[1]);
        SIMD_PICK(batchnorm_gradient)(&c, x, NULL, dy, 0.3f, &wide[2]);
        assert_memory_equal(sum, wide, sizeof sum);
        batchnorm_forward_base(&c, x, 0.3f, 1.1f, 0.2f, plane % 2, a);
        SIMD_PICK(batchnorm_forward)(&c, x, 0.3f, 1.1f, 0.2f, plane % 2, b);
        assert_memory_equal(a, b, sizeof a);
        batchnorm_backward_base(&c, x, dy, &slope, a);
        SIMD_PICK(batchnorm_backward)(&c, x, dy, &slope, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* Losses of known rows, their gradients, and what makes a result bad. */
#include <math.h>

#include "nn/arithmetic/simd.h"
#include "nn/loss.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

static void
near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.12g, expected %.12g", a, b);
}

/* Loss of one row z[n]; p gets its gradient times `scale`. */
static double
cross_entropy(const float *z, size_t n, int32_t label, float smoothing, float scale, float *p,
              bool *correct)
{
    struct nn_batch batch = {.rows = 1, .label = &label};
    struct nn_result result;
    loss_rows(&(struct loss_spec){NN_CROSS_ENTROPY, 1, n, smoothing}, &batch, z, scale, p, &result);
    assert_false(result.bad);
    *correct = result.correct == 1;
    return result.loss;
}

TEST(cross_entropy_of_a_known_row)
{
    const float z[] = {1, 2, 3};
    float p[3];
    bool correct;
    double sum = exp(1) + exp(2) + exp(3);
    near(cross_entropy(z, 3, 1, 0, 0.5f, p, &correct), log(sum) - 2, 1e-6);
    assert_false(correct);
    for (size_t i = 0; i < 3; i++)
        near((double)p[i], 0.5 * (exp((double)z[i]) / sum - (i == 1)), 1e-6);
    cross_entropy(z, 3, 2, 0, 1, p, &correct);
    assert_true(correct);
}

TEST(cross_entropy_of_huge_outputs_stays_finite)
{
    const float z[] = {-3e38f, 3e30f, 0};
    float p[3];
    bool correct;
    near(cross_entropy(z, 3, 1, 0, 1, p, &correct), 0, 0);
    assert_true(correct);
    assert_true(p[0] == 0 && p[1] == 0 && p[2] == 0);
    near(cross_entropy(z, 3, 2, 0, 1, p, &correct), 3e30, 1e24);
    assert_true(p[1] == 1 && p[2] == -1);
}

TEST(the_first_of_equal_outputs_is_the_answer)
{
    const float z[] = {0, 5, 5};
    float p[3];
    bool correct;
    cross_entropy(z, 3, 1, 0, 1, p, &correct);
    assert_true(correct);
    cross_entropy(z, 3, 2, 0, 1, p, &correct);
    assert_false(correct);
}

TEST(squared_error_is_a_mean_over_outputs)
{
    const float z[] = {1, 2, 4, 8}, t[] = {0, 2, 6, 5};
    float dz[4];
    near(loss_squared_error(z, t, 4, 2, dz), (1 + 0 + 4 + 9) / 4.0, 0);
    const float expected[] = {1, 0, -2, 3};
    assert_memory_equal(dz, expected, sizeof dz);
}

TEST(a_count_has_the_same_gradient_everywhere)
{
    const int32_t label[] = {0, 0};
    const float z[] = {1, 3, -4, -8};
    float dz[4];
    struct nn_batch batch = {.rows = 2, .label = (int32_t *)(uintptr_t)label};
    struct nn_result result;
    loss_rows(&(struct loss_spec){NN_COUNT, 1, 2, 0}, &batch, z, 0.25f, dz, &result);
    assert_true(!result.bad && result.loss == 8 && result.correct == 0);
    for (size_t i = 0; i < 4; i++)
        assert_true(dz[i] == -1);
}

TEST(logistic_loss_at_both_ends)
{
    const float z[] = {0, 3, -3, 90, -90};
    for (size_t i = 0; i < 5; i++)
        for (int label = 0; label < 2; label++) {
            float dz;
            bool correct;
            double sign = label ? -1 : 1, x = (double)z[i];
            double loss = loss_logistic(z[i], label, 1, &dz, &correct);
            near(loss, log1p(exp(-fabs(x))) + fmax(sign * x, 0), 1e-6);
            near((double)dz, 1 / (1 + exp(-x)) - label, 1e-6);
            assert_int_equal(correct, (x > 0) == (label == 1));
        }
}

TEST(sums_run_over_rows)
{
    float z[] = {1, 0, 0, 2, 3, 3}, dz[6];
    int32_t label[] = {0, 1, 1};
    struct nn_batch batch = {.rows = 3, .label = label};
    struct nn_result result;
    loss_rows(&(struct loss_spec){NN_CROSS_ENTROPY, 1, 2, 0}, &batch, z, 1, dz, &result);
    assert_int_equal(result.correct, 2);
    assert_false(result.bad);
    near(result.loss, log1p(exp(-1)) + log1p(exp(-2)) + log(2), 1e-6);
}

TEST(bad_rows_are_reported_and_add_nothing)
{
    const float poison[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        float z[] = {1, 0, 0, poison[i]}, dz[4];
        int32_t label[] = {0, 0};
        struct nn_batch batch = {.rows = 2, .label = label};
        struct nn_result result;
        loss_rows(&(struct loss_spec){NN_CROSS_ENTROPY, 1, 2, 0}, &batch, z, 1, dz, &result);
        assert_true(result.bad);
        near(result.loss, log1p(exp(-1)), 1e-6);
        assert_true(dz[2] == 0 && dz[3] == 0);
    }
}

TEST(a_label_outside_the_outputs_is_bad)
{
    const int32_t wrong[] = {-2, 2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        float z[] = {1, 0}, dz[2];
        int32_t label[] = {wrong[i]};
        struct nn_batch batch = {.rows = 1, .label = label};
        struct nn_result result;
        loss_rows(&(struct loss_spec){NN_CROSS_ENTROPY, 1, 2, 0}, &batch, z, 1, dz, &result);
        assert_true(result.bad);
        loss_rows(&(struct loss_spec){NN_LOGISTIC, 1, 1, 0}, &batch, z, 1, dz, &result);
        assert_true(result.bad);
    }
}

/* A label missing is not a wrong one: the row is the mean over the others. */
TEST(a_sequence_counts_its_positions_that_have_a_label)
{
    float z[] = {1, 0, 9, 9, 0, 2, 5, 5, 3, 1, 7, 7}, dz[12];
    int32_t label[] = {0, NN_LABEL_NONE, 0, NN_LABEL_NONE, NN_LABEL_NONE, NN_LABEL_NONE};
    struct nn_batch batch = {.rows = 2, .label = label};
    struct nn_result result;
    const struct loss_spec spec = {NN_CROSS_ENTROPY, 3, 2, 0};
    loss_rows(&spec, &batch, z, 3, dz, &result);
    assert_false(result.bad);
    near(result.loss, (log1p(exp(-1)) + log1p(exp(2))) / 2, 1e-6);
    assert_int_equal(result.correct, 2); /* one of two: 1.5 of three */
    near((double)dz[0], 1.5 * (1 / (1 + exp(-1)) - 1), 1e-6);
    near((double)dz[5], 1.5 / (1 + exp(-2)), 1e-6);
    assert_true(dz[2] == 0 && dz[3] == 0);
    for (size_t i = 6; i < 12; i++)
        assert_true(dz[i] == 0);
    label[4] = 2;
    loss_rows(&spec, &batch, z, 3, dz, &result);
    assert_true(result.bad);
    label[4] = 0;
    z[11] = NAN; /* nobody asks, but it will spread */
    loss_rows(&spec, &batch, z, 3, dz, &result);
    assert_true(result.bad);
}

TEST(smoothing_spreads_a_share_of_the_target)
{
    const float z[] = {1, 2, 3};
    float p[3];
    bool correct;
    double sum = exp(1) + exp(2) + exp(3), target[] = {0.1, 0.8, 0.1};
    near(cross_entropy(z, 3, 1, 0.3f, 0.5f, p, &correct), log(sum) - 2, 1e-6);
    for (size_t i = 0; i < 3; i++)
        near((double)p[i], 0.5 * (exp((double)z[i]) / sum - target[i]), 1e-6);
    const float apart[] = {0, 10};
    near(cross_entropy(apart, 2, 1, 0.2f, 1, p, &correct), log1p(exp(-10)) + 0.1 * 10, 1e-6);
}

TEST(a_target_that_is_not_finite_is_bad)
{
    float z[] = {1, 0}, target[] = {0, NAN}, dz[2];
    struct nn_batch batch = {.rows = 1, .target = target};
    struct nn_result result;
    loss_rows(&(struct loss_spec){NN_SQUARED_ERROR, 1, 2, 0}, &batch, z, 1, dz, &result);
    assert_true(result.bad);
}

/* Sums in order, the first of the largest, and no number that is none. */
TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    enum { N = 300 };
    static float z[N], p[2][N];
    double sum[2][LOSS_ROWS + 3];
    for (size_t n = 1; n < 70; n++) {
        size_t top[2], rows = n % (LOSS_ROWS + 3) + 1, each = N / rows;
        float zero[2];
        for (size_t i = 0; i < N; i++)
            z[i] = (float)(i * 7919 % 23) / 3 - 4; /* equal ones, too */
        loss_largest_base(z, n, &top[0]);
        SIMD_PICK(loss_largest)(z, n, &top[1]);
        assert_int_equal(top[0], top[1]);
        for (size_t i = 0; i < n; i++)
            assert_true(z[i] < z[top[0]] || (z[i] == z[top[0]] && i >= top[0]));
        loss_exp_base(z, z[top[0]], p[0], N);
        SIMD_PICK(loss_exp)(z, z[top[0]], p[1], N);
        assert_memory_equal(p[0], p[1], sizeof p[0]);
        loss_sums_base(p[0], rows, each, sum[0]);
        SIMD_PICK(loss_sums)(p[0], rows, each, sum[1]);
        assert_memory_equal(sum[0], sum[1], rows * sizeof sum[0][0]);
        for (size_t r = 0; r < rows; r++) {
            double plain = 0;
            for (size_t i = 0; i < each; i++)
                plain += (double)p[0][r * each + i];
            assert_true(plain == sum[0][r]);
        }
        loss_slope_base(p[0], 0.3f, 0.01f, 1.7f, n);
        SIMD_PICK(loss_slope)(p[1], 0.3f, 0.01f, 1.7f, n);
        assert_memory_equal(p[0], p[1], sizeof p[0]);
        z[n * 5 % n] = n % 3 == 0 ? NAN : n % 3 == 1 ? INFINITY : 1e38f;
        loss_finite_base(z, n, &zero[0]);
        SIMD_PICK(loss_finite)(z, n, &zero[1]);
        assert_int_equal(zero[0] == 0, n % 3 == 2);
        assert_int_equal(zero[1] == 0, n % 3 == 2);
    }
}

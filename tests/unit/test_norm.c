/* Norms by their definition in double; every variant of their loops gives the same bits. */
#include <errno.h>
#include <math.h>

#include "nn/arithmetic/rng.h"
#include "tests/support/one_layer.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { ROWS = 2, T = 3, C = 37, COUNT = ROWS * T * C };

static float x[COUNT], dy[COUNT], params[2 * C];

static void
draw(float *to, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(4 * rng_uniform((uint32_t)mix64(seed + i)) - 1);
}

static void
near(float got, double expected)
{
    if (!(fabs((double)got - expected) <= 2e-6 * (1 + fabs(expected))))
        fail_msg("%.9g, expected %.9g", (double)got, expected);
}

/* y, dx, dw and db of one vector. */
static void
by_definition(const float *v, const float *d, bool centred, double *y, double *dx, double *dw,
              double *db)
{
    double mean = 0, square = 0, g = 0, gz = 0, z[C];
    for (size_t i = 0; centred && i < C; i++)
        mean += (double)v[i] / C;
    for (size_t i = 0; i < C; i++)
        square += ((double)v[i] - mean) * ((double)v[i] - mean) / C;
    double r = 1 / sqrt(square + 1e-3);
    for (size_t i = 0; i < C; i++) {
        z[i] = ((double)v[i] - mean) * r;
        y[i] = z[i] * (double)params[i] + (centred ? (double)params[C + i] : 0);
        g += centred ? (double)d[i] * (double)params[i] / C : 0;
        gz += (double)d[i] * (double)params[i] * z[i] / C;
        dw[i] += (double)d[i] * z[i];
        db[i] += (double)d[i];
    }
    for (size_t i = 0; i < C; i++)
        dx[i] = r * ((double)d[i] * (double)params[i] - g - z[i] * gz);
}

TEST(every_vector_is_normalised)
{
    for (int centred = 0; centred < 2; centred++) {
        OWNED(one_layer_close) struct one_layer one;
        const struct nn_layer_spec spec = {.kind = centred ? NN_LAYERNORM : NN_RMSNORM,
                                           .epsilon = 1e-3f};
        float y[COUNT], dx[COUNT];
        double ey[C], edx[C], edw[C] = {0}, edb[C] = {0};
        draw(x, COUNT, 1), draw(dy, COUNT, 1000), draw(params, 2 * C, 2000);
        one_layer_open(&one, &(struct nn_shape){2, {T, C}}, &spec, ROWS, params);
        assert_int_equal(one.layer->weight_count, C);
        one_layer_forward(&one, x, y);
        one_layer_backward(&one, dy, dx);
        for (size_t v = 0; v < COUNT; v += C) {
            by_definition(x + v, dy + v, centred, ey, edx, edw, edb);
            for (size_t i = 0; i < C; i++) {
                near(y[v + i], ey[i]);
                near(dx[v + i], edx[i]);
            }
        }
        for (size_t i = 0; i < C; i++) {
            near(one.grad[i], edw[i]);
            if (centred)
                near(one.grad[C + i], edb[i]);
        }
    }
}

TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    if (!simd_avx2())
        skip();
    draw(x, COUNT, 7), draw(dy, COUNT, 70), draw(params, 2 * C, 700);
    for (size_t n = 1; n <= C; n++) {
        float a[4 * C] = {0}, b[4 * C] = {0}, stats[2][2];
        bool centred = n % 2;
        norm_forward_base(x, params, centred ? params + C : NULL, 1e-5f, centred, a, stats[0], n);
        SIMD_PICK(norm_forward)
        (x, params, centred ? params + C : NULL, 1e-5f, centred, b, stats[1], n);
        norm_gradient_base(x, dy, stats[0], a + C, a + 2 * C, n);
        SIMD_PICK(norm_gradient)(x, dy, stats[1], b + C, b + 2 * C, n);
        norm_backward_base(x, dy, params, stats[0], centred, a + 3 * C, n);
        SIMD_PICK(norm_backward)(x, dy, params, stats[1], centred, b + 3 * C, n);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(stats[0], stats[1], sizeof stats[0]);
    }
}

TEST(weights_begin_as_ones)
{
    OWNED(nn_model_destroy) struct nn_model *model;
    struct why why;
    const struct nn_layer_spec layers[] = {LAYER(LAYERNORM, .epsilon = 1e-5f), DENSE(2)};
    float at[16];
    assert_int_equal(
        nn_model_new(&model, &(struct nn_shape){1, {3}}, layers, 2, NN_CROSS_ENTROPY, &why), 0);
    assert_int_equal(nn_param_count(model), 14);
    assert_string_equal(nn_tensor(model, 0)->name, "0.layernorm.weight");
    assert_string_equal(nn_tensor(model, 1)->name, "0.layernorm.bias");
    nn_init_params(model, 1, at);
    for (size_t i = 0; i < 6; i++)
        assert_true(at[i] == (i < 3 ? 1 : 0));
}

TEST(an_epsilon_that_is_none_is_refused)
{
    const float wrong[] = {0, -1, 2, NAN};
    for (size_t i = 0; i < 4; i++) {
        struct nn_model *model;
        struct why why;
        const struct nn_layer_spec layer = LAYER(RMSNORM, .epsilon = wrong[i]);
        assert_int_equal(
            nn_model_new(&model, &(struct nn_shape){1, {3}}, &layer, 1, NN_CROSS_ENTROPY, &why),
            -EINVAL);
        assert_non_null(strstr(why.line, "layer 0 (rmsnorm): epsilon = "));
    }
}

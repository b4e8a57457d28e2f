/* Errors in units in the last place against libm's double, over floats of every exponent; special values;
 * equal bits of every variant. */
#include <math.h>
#include <stdio.h>

#include "nn/arithmetic/simd.h"
#include "nn/arithmetic/vmath.h"
#include "proto/float_bits.h"
#include "proto/mix.h"
#include "tests/support/bf16.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { N = 4096 };

/* Every 1021st float from a start, all signs and exponents, NaN and infinity included. */
static void
fill(float *x, uint32_t *at)
{
    for (size_t i = 0; i < N; i++, *at += 1021)
        x[i] = float_of(*at);
}

/* |y - exact| in units of the last place of a float near `exact`. */
static double
ulps(float y, double exact)
{
    int e;
    if (isnan(exact) || isinf((float)exact))
        return isnan(exact) ? (isnan(y) ? 0 : 1e9)
                            : ((double)y == exact || y == (float)exact ? 0 : 1);
    frexp(exact, &e);
    if (e < -125)
        e = -125;
    return fabs((double)y - exact) / ldexp(1, e - 24);
}

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
largest_error(void (*f)(const float *, float *, size_t), double (*exact)(double))
{
    float x[N], y[N];
    double worst = 0;
    uint32_t at = 0;
    for (size_t block = 0; block < (1ull << 32) / 1021 / N + 1; block++) {
        fill(x, &at);
        f(x, y, N);
        for (size_t i = 0; i < N; i++) {
            double error = ulps(y[i], exact((double)x[i]));
            if (error > worst)
                worst = error;
        }
    }
    return worst;
}

TEST(errors_stay_within_the_documented_bounds)
{
    static const struct {
        const char *name;
        void (*f)(const float *, float *, size_t);
        double (*exact)(double);
        double bound;
    } function[] = {
        {"exp", vmath_exp, exp, 1.05},
        {"tanh", vmath_tanh, tanh, 1.34},
        {"sigmoid", vmath_sigmoid, sigmoid, 2.41},
    };
    for (size_t i = 0; i < sizeof function / sizeof function[0]; i++) {
        double worst = largest_error(function[i].f, function[i].exact);
        print_message("%-8s %.3f ulp\n", function[i].name, worst);
        assert_true(worst <= function[i].bound);
    }
}

static double
gelu(double x)
{
    return x * erfc(-x / sqrt(2)) / 2;
}

static double
gelu_slope(double x)
{
    return erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double
gelu_tanh(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double
silu(double x)
{
    return x * sigmoid(x);
}

static double
difference(double (*f)(double), double x)
{
    return (f(x + 1e-4) - f(x - 1e-4)) / 2e-4;
}

static double
silu_slope(double x)
{
    return difference(silu, x);
}

static double
gelu_tanh_slope(double x)
{
    return difference(gelu_tanh, x);
}

/* Relative error of the value down to -4, beyond which it is next to nothing, and absolute of the slope. */
TEST(activations_are_close_everywhere)
{
    static const struct {
        void (*f)(const float *, float *, size_t);
        void (*grad)(const float *, const float *, float *, size_t);
        double (*exact)(double), (*slope)(double);
    } function[] = {
        {vmath_gelu, vmath_gelu_grad, gelu, gelu_slope},
        {vmath_gelu_tanh, vmath_gelu_tanh_grad, gelu_tanh, gelu_tanh_slope},
        {vmath_silu, vmath_silu_grad, silu, silu_slope},
    };
    const float one = 1;
    for (size_t i = 0; i < sizeof function / sizeof function[0]; i++)
        for (float x = -20; x < 20; x += 0x1p-10f) {
            float y, slope;
            double exact = function[i].exact((double)x);
            function[i].f(&x, &y, 1);
            function[i].grad(&x, &one, &slope, 1);
            if (fabs((double)y - exact) > (x > -4 ? 1.5e-6 : 2e-4) * fabs(exact) + 1e-30 ||
                fabs((double)slope - function[i].slope((double)x)) > 6e-7)
                fail_msg("function %zu of %g = %.9g, slope %.9g", i, (double)x, (double)y,
                         (double)slope);
        }
    const float far[] = {-3e38f, 3e38f};
    for (size_t i = 0; i < sizeof function / sizeof function[0]; i++)
        for (size_t k = 0; k < 2; k++) {
            float y, slope;
            function[i].f(far + k, &y, 1);
            function[i].grad(far + k, &one, &slope, 1);
            assert_true(y == (k ? far[k] : 0) && slope == (float)k);
        }
}

TEST(special_values)
{
    const float x[] = {0.0f, -0.0f, INFINITY, -INFINITY, 200, -200, 1, -1};
    float y[8];
    vmath_exp(x, y, 8);
    assert_true(y[0] == 1 && y[1] == 1 && y[2] == INFINITY && y[3] == 0 && y[4] == INFINITY &&
                y[5] == 0);
    vmath_tanh(x, y, 8);
    assert_true(y[0] == 0 && signbit(y[1]) && y[2] == 1 && y[3] == -1 && y[4] == 1 && y[5] == -1);
    vmath_sigmoid(x, y, 8);
    assert_true(y[0] == 0.5f && y[1] == 0.5f && y[2] == 1 && y[3] == 0);
    vmath_relu(x, y, 8);
    assert_true(y[0] == 0 && y[2] == INFINITY && y[3] == 0 && y[5] == 0 && y[6] == 1 && y[7] == 0);
}

TEST(nan_stays_nan)
{
    void (*const f[])(const float *, float *, size_t) = {
        vmath_exp, vmath_tanh, vmath_sigmoid, vmath_relu, vmath_gelu, vmath_gelu_tanh, vmath_silu};
    float x[17], y[17];
    for (size_t i = 0; i < 17; i++)
        x[i] = NAN;
    for (size_t i = 0; i < sizeof f / sizeof f[0]; i++) {
        f[i](x, y, 17);
        for (size_t j = 0; j < 17; j++)
            assert_true(isnan(y[j]));
    }
}

TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    if (!simd_avx2())
        skip();
    static float x[N], y[N], z[N];
    uint32_t at = 12345;
    void (*const f[][2])(const float *, float *, size_t) = {
        {vmath_exp_base, SIMD_PICK(vmath_exp)},
        {vmath_tanh_base, SIMD_PICK(vmath_tanh)},
        {vmath_sigmoid_base, SIMD_PICK(vmath_sigmoid)},
        {vmath_relu_base, SIMD_PICK(vmath_relu)},
        {vmath_gelu_base, SIMD_PICK(vmath_gelu)},
        {vmath_gelu_tanh_base, SIMD_PICK(vmath_gelu_tanh)},
        {vmath_silu_base, SIMD_PICK(vmath_silu)},
        {vmath_relu_grad_base, SIMD_PICK(vmath_relu_grad)},
        {vmath_tanh_grad_base, SIMD_PICK(vmath_tanh_grad)},
        {vmath_sigmoid_grad_base, SIMD_PICK(vmath_sigmoid_grad)},
    };
    for (size_t block = 0; block < 200; block++, at += 7919 * 1021)
        for (size_t i = 0; i < sizeof f / sizeof f[0]; i++) {
            fill(x, &at);
            for (size_t j = 0; j < N; j++) /* equal NaN bits are not promised */
                x[j] = isnan(x[j]) ? 1 : x[j], y[j] = z[j] = (float)j;
            f[i][0](x, y, N - block % 9);
            f[i][1](x, z, N - block % 9);
            for (size_t j = 0; j < N; j++)
                assert_true(memcmp(&y[j], &z[j], 4) == 0 || (isnan(y[j]) && isnan(z[j])));
        }
    void (*const slope[][2])(const float *, const float *, float *, size_t) = {
        {vmath_gelu_grad_base, SIMD_PICK(vmath_gelu_grad)},
        {vmath_gelu_tanh_grad_base, SIMD_PICK(vmath_gelu_tanh_grad)},
        {vmath_silu_grad_base, SIMD_PICK(vmath_silu_grad)},
        {vmath_add_base, SIMD_PICK(vmath_add)},
    };
    static float dy[N];
    for (size_t block = 0; block < 200; block++, at += 7919 * 1021)
        for (size_t i = 0; i < sizeof slope / sizeof slope[0]; i++) {
            fill(x, &at);
            for (size_t j = 0; j < N; j++)
                dy[j] = (float)j - 7.3f, y[j] = z[j] = 0;
            slope[i][0](x, dy, y, N - block % 9);
            slope[i][1](x, dy, z, N - block % 9);
            for (size_t j = 0; j < N; j++)
                assert_true(memcmp(&y[j], &z[j], 4) == 0 || (isnan(y[j]) && isnan(z[j])));
        }
    for (size_t n = 0; n < 70; n++) {
        double a, b;
        for (size_t j = 0; j < N; j++)
            x[j] = (float)(mix64(j + n) >> 40) * 1e-6f, y[j] = z[j] = x[j] * 3;
        vmath_sum_base(x, n, &a);
        SIMD_PICK(vmath_sum)(x, n, &b);
        assert_true(a == b);
        vmath_sum_rows_base(x, 53, n, y, 41);
        SIMD_PICK(vmath_sum_rows)(x, 53, n, z, 41);
        assert_memory_equal(y, z, sizeof y);
    }
}

/* Around each bfloat16, and infinities and NaN of both signs. */
TEST_OF_VARIANTS(bf16_rounds_to_the_nearest)
{
    static const uint32_t lower[] = {0, 1, 0x1234, 0x7fff, 0x8000, 0x8001, 0xedcb, 0xffff};
    enum { LOWER = sizeof lower / sizeof lower[0] };
    float x[LOWER + 1] = {0}, y[LOWER + 1] = {0}, z[LOWER + 1] = {0};
    for (uint32_t upper = 0; upper < 1 << 16; upper++) {
        size_t n = upper % LOWER + 2; /* with tails of every length */
        for (size_t i = 0; i < n; i++)
            x[i] = y[i] = z[i] = float_of(upper << 16 | lower[i % LOWER]);
        vmath_bf16_base(y, n - 1);
        SIMD_PICK(vmath_bf16)(z, n - 1);
        assert_memory_equal(y, z, sizeof y);
        for (size_t i = 0; i + 1 < n; i++)
            if (isnan(x[i]) ? !isnan(y[i]) || float_bits(y[i]) % 65536
                            : float_bits(y[i]) != float_bits(bf16_nearest(x[i])))
                fail_msg("%a becomes %a, expected %a", (double)x[i], (double)y[i],
                         (double)bf16_nearest(x[i]));
        assert_memory_equal(&x[n - 1], &y[n - 1], sizeof *x);
    }
}

TEST(sums_are_sums)
{
    float x[300], sum[10] = {100};
    for (size_t i = 0; i < 300; i++)
        x[i] = (float)i;
    for (size_t n = 0; n <= 300; n++) {
        double total;
        vmath_sum(x, n, &total);
        assert_true(total == (double)n * ((double)n - 1) / 2);
    }
    vmath_sum_rows(x, 30, 7, sum, 10);
    for (size_t j = 0; j < 10; j++)
        assert_true((double)sum[j] == 7.0 * (double)j + 30 * 21 + (j == 0 ? 100 : 0));
}

TEST(ln_is_good_to_two_ulp)
{
    for (uint64_t i = 0; i < 200000; i++) {
        uint64_t bits = mix64(i) % 0x7fe0000000000000 + 0x0010000000000000;
        double x = 0.0;
        if (i % 2)
            bits = 0x3ff0000000000000 + (int64_t)(mix64(i) >> 12) - (1ll << 51);
        if (bits >= 0x7ff0000000000000)
            continue;
        memcpy(&x, &bits, sizeof x);
        double exact = log(x), unit = ldexp(1, ilogb(exact == 0 ? 1 : exact) - 52);
        assert_true(fabs(vmath_ln(x) - exact) <= 2 * unit);
    }
    assert_true(vmath_ln(1) == 0);
}

TEST(sines_and_powers_are_good_to_a_float_and_beyond)
{
    for (double x = -1000; x < 1000; x += 0.0137)
        assert_true(fabs(vmath_sin(x) - sin(x)) <= 1e-15 * (1 + fabs(x)));
    assert_true(fabs(vmath_sin(1000000) - sin(1000000)) <= 1e-9);
    assert_true(vmath_sin(0) == 0 && vmath_power(10000, 0) == 1);
    for (double e = -70; e < 70; e += 0.0137) {
        double exact = pow(10000, e);
        assert_true(fabs(vmath_power(10000, e) - exact) <= 1e-15 * (1 + fabs(log(exact))) * exact);
    }
}

TEST(normal_inverts_the_normal_distribution)
{
    for (double x = -6; x <= 6; x += 0.01) {
        double p = 0.5 * erfc(-x / sqrt(2));
        if (fabs(vmath_normal(p) - x) > 1e-6)
            fail_msg("normal(%g) = %.9g, expected %.9g", p, vmath_normal(p), x);
    }
}

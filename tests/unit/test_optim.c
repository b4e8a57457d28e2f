/* test_optim.c - update rules against PyTorch and by hand, rate schedules, equal bits on every path. */
#include "nn/optim.h"

#include <math.h>

#include "nn/arithmetic/optim_simd.h"
#include "proto/float_bits.h"
#include "proto/mix.h"
#include "proto/simd.h"
#include "tests/golden/optim_torch.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

static void
assert_close(double got, double expected, double relative)
{
    if (!(fabs(got - expected) <= relative * fabs(expected)))
        fail_msg("%.12g, expected %.12g", got, expected);
}

/* The formula of make_optim.py. */
static void
torch_gradient(int t, float g[TORCH_COUNT])
{
    for (int i = 0; i < TORCH_COUNT; i++)
        g[i] = (float)((7 * i + 3 * t * t + 5) % 11 - 5) / 8;
}

TEST(every_rule_agrees_with_pytorch)
{
    for (size_t c = 0; c < sizeof torch_optim / sizeof torch_optim[0]; c++) {
        const struct optim_spec *spec = &torch_optim[c].spec;
        float p[TORCH_COUNT], m[TORCH_COUNT] = {0}, v[TORCH_COUNT] = {0}, g[TORCH_COUNT];
        float *const slot[OPTIM_SLOTS_MAX] = {m, v};
        for (int i = 0; i < TORCH_COUNT; i++)
            p[i] = ((float)i - 3.5f) / 4;
        for (int t = 0; t < TORCH_STEPS; t++) {
            torch_gradient(t, g);
            optim_apply(spec, (double)spec->rate, (uint64_t)t, p, slot, g, TORCH_COUNT);
        }
        for (int i = 0; i < TORCH_COUNT; i++)
            if (fabsf(p[i] - torch_optim[c].params[i]) > 1e-6f * fabsf(p[i]) + 1e-7f)
                fail_msg("%s, element %d: %.9g, PyTorch has %.9g", torch_optim[c].name, i,
                         (double)p[i], (double)torch_optim[c].params[i]);
    }
}

TEST(worked_examples_come_out)
{
    float p = 1, m = 0, v = 0, g = 0.5f;
    float *const slot[OPTIM_SLOTS_MAX] = {&m, &v};
    struct optim_spec spec = {.kind = OPTIM_SGD, .weight_decay = 0.25f};
    optim_apply(&spec, 0.5, 0, &p, slot, &g, 1); /* 1 - 0.5 * (0.5 + 0.25) */
    assert_true(p == 0.625f);

    spec = (struct optim_spec){.kind = OPTIM_SGD, .momentum = 0.5f};
    p = 1;
    optim_apply(&spec, 0.5, 0, &p, slot, &g, 1); /* m = 0.5 */
    assert_true(p == 0.75f);
    optim_apply(&spec, 0.5, 1, &p, slot, &g, 1); /* m = 0.75 */
    assert_true(p == 0.375f);

    spec.nesterov = true;
    p = 1, m = 0;
    optim_apply(&spec, 0.5, 0, &p, slot, &g, 1); /* m = 0.5, 1 - 0.5 * (0.5 + 0.25) */
    assert_true(p == 0.625f && m == 0.5f);

    /* Adam's first step is rate * sign(g) whatever the gradient's size. */
    spec = (struct optim_spec){.kind = OPTIM_ADAM, .beta1 = 0.9f, .beta2 = 0.999f};
    p = 1, m = 0, v = 0, g = -1e-6f;
    optim_apply(&spec, 0.125, 0, &p, slot, &g, 1);
    assert_close((double)p, 1.125, 1e-6);

    /* AdamW shrinks the parameter even where the gradient is zero. */
    spec.kind = OPTIM_ADAMW, spec.weight_decay = 0.5f, spec.epsilon = 1e-8f;
    p = 1, m = 0, v = 0, g = 0;
    optim_apply(&spec, 0.5, 0, &p, slot, &g, 1);
    assert_true(p == 0.75f);
}

/* Lion, LARS and LAMB as their papers write them, in double precision; PyTorch has none of them. Two tensors of
 * different size, one of which begins at 0. */
enum { SIZE = 300, HALF = 100 };

struct naive {
    double p[SIZE], m[SIZE], v[SIZE];
};

static double
norm(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void
naive_lion(const struct optim_spec *s, struct naive *a, const double *g, int first, int n)
{
    const double b1 = (double)s->beta1, b2 = (double)s->beta2;
    for (int i = first; i < first + n; i++) {
        double c = b1 * a->m[i] + (1 - b1) * g[i];
        double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
        a->p[i] -= (double)s->rate * (sign + (double)s->weight_decay * a->p[i]);
        a->m[i] = b2 * a->m[i] + (1 - b2) * g[i];
    }
}

static void
naive_lars(const struct optim_spec *s, struct naive *a, const double *g, int first, int n)
{
    double size = norm(a->p + first, n), change = norm(g + first, n),
           decay = (double)s->weight_decay;
    double ratio = size > 0 && change > 0 ? (double)s->trust * size / (change + decay * size) : 1;
    for (int i = first; i < first + n; i++) {
        a->m[i] =
            (double)s->momentum * a->m[i] + (double)s->rate * ratio * (g[i] + decay * a->p[i]);
        a->p[i] -= a->m[i];
    }
}

static void
naive_lamb(const struct optim_spec *s, int t, struct naive *a, const double *g, int first, int n)
{
    const double b1 = (double)s->beta1, b2 = (double)s->beta2;
    double r[SIZE];
    for (int i = first; i < first + n; i++) {
        a->m[i] = b1 * a->m[i] + (1 - b1) * g[i];
        a->v[i] = b2 * a->v[i] + (1 - b2) * g[i] * g[i];
        double mean = a->m[i] / (1 - pow(b1, t + 1)), square = a->v[i] / (1 - pow(b2, t + 1));
        r[i] = mean / (sqrt(square) + (double)s->epsilon) + (double)s->weight_decay * a->p[i];
    }
    double size = norm(a->p + first, n), change = norm(r + first, n);
    for (int i = first; i < first + n; i++)
        a->p[i] -= (double)s->rate * (size > 0 && change > 0 ? size / change : 1) * r[i];
}

static void
naive_step(const struct optim_spec *s, int t, struct naive *a, const double *g, int first, int n)
{
    if (s->kind == OPTIM_LION)
        naive_lion(s, a, g, first, n);
    else if (s->kind == OPTIM_LARS)
        naive_lars(s, a, g, first, n);
    else
        naive_lamb(s, t, a, g, first, n);
}

/* One tensor, the squares in two ranges. */
static void
tensor_step(const struct optim_spec *spec, int t, float *p, float *m, float *v, const float *g,
            int n)
{
    float *const slot[OPTIM_SLOTS_MAX] = {m, v};
    double sum[2] = {0}, rate = (double)spec->rate;
    for (int at = 0, k = n / 3; optim_layerwise(spec) && at < n; at += k, k = n - at) {
        const float *const from[OPTIM_SLOTS_MAX] = {m + at, v + at};
        optim_squares(spec, (uint64_t)t, p + at, from, g + at, (size_t)k, sum);
    }
    if (optim_layerwise(spec))
        rate *= (double)optim_ratio(spec, sum);
    optim_apply(spec, rate, (uint64_t)t, p, slot, g, (size_t)n);
}

static const struct optim_spec by_hand[] = {
    {.kind = OPTIM_LION, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f},
    {.kind = OPTIM_LION, .rate = 0.125f, .beta1 = 0.5f, .beta2 = 0.75f, .weight_decay = 0.5f},
    {.kind = OPTIM_LARS, .rate = 1, .momentum = 0.9f, .trust = 0.001f},
    {.kind = OPTIM_LARS, .rate = 5, .momentum = 0, .trust = 0.02f, .weight_decay = 0.1f},
    {.kind = OPTIM_LAMB, .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f},
    {.kind = OPTIM_LAMB,
     .rate = 0.1f,
     .beta1 = 0.5f,
     .beta2 = 0.9f,
     .epsilon = 0.01f,
     .weight_decay = 0.3f},
};

TEST(rules_of_papers_agree_with_their_formulas)
{
    for (size_t c = 0; c < sizeof by_hand / sizeof by_hand[0]; c++) {
        const struct optim_spec *spec = &by_hand[c];
        static struct naive naive;
        float p[SIZE], m[SIZE] = {0}, v[SIZE] = {0}, g[SIZE];
        double wide[SIZE];
        memset(&naive, 0, sizeof naive);
        for (int i = 0; i < SIZE; i++)
            naive.p[i] = (double)(p[i] = i < HALF ? 0 : (float)(i % 17 - 8) / 8);
        for (int t = 0; t < 10; t++) {
            for (int i = 0; i < SIZE; i++)
                wide[i] = (double)(g[i] = (float)((13 * i + 5 * t) % 29 - 14) / 64);
            for (int k = 0; k < 2; k++) {
                int first = k ? HALF : 0, n = k ? SIZE - HALF : HALF;
                naive_step(spec, t, &naive, wide, first, n);
                tensor_step(spec, t, p + first, m + first, v + first, g + first, n);
            }
        }
        for (int i = 0; i < SIZE; i++)
            if (!(fabs((double)p[i] - naive.p[i]) <= 2e-6 * (1 + fabs(naive.p[i]))))
                fail_msg("rule %zu, element %d: %.9g, expected %.9g", c, i, (double)p[i],
                         naive.p[i]);
    }
}

TEST(a_ratio_is_finite_whatever_the_numbers)
{
    const struct optim_spec lars = {.kind = OPTIM_LARS, .trust = 1000, .weight_decay = 0},
                            lamb = {.kind = OPTIM_LAMB};
    static const double edge[] = {0, 1e-90, 1, 1e77, 1e300, (double)INFINITY, (double)NAN};
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < 7; k++) {
            const double sum[2] = {edge[i], edge[k]};
            assert_true(isfinite(optim_ratio(&lars, sum)) && isfinite(optim_ratio(&lamb, sum)));
        }
    assert_true(optim_ratio(&lamb, (const double[2]){16, 4}) == 2);
    assert_true(optim_ratio(&lars, (const double[2]){16, 4}) == 2000);
    assert_true(optim_ratio(&lamb, (const double[2]){0, 4}) == 1);
    assert_true(optim_ratio(&lamb, (const double[2]){4, 0}) == 1);
}

TEST(every_rule_keeps_the_state_it_needs)
{
    struct optim_spec spec = {.kind = OPTIM_SGD};
    assert_int_equal(optim_slots(&spec), 0);
    spec.momentum = 0.9f;
    assert_int_equal(optim_slots(&spec), 1);
    spec.kind = OPTIM_ADAM;
    assert_int_equal(optim_slots(&spec), 2);
    spec.kind = OPTIM_ADAMW;
    assert_int_equal(optim_slots(&spec), 2);
    spec = (struct optim_spec){.kind = OPTIM_RMSPROP};
    assert_int_equal(optim_slots(&spec), 1);
    spec.momentum = 0.9f;
    assert_int_equal(optim_slots(&spec), 2);
    spec.kind = OPTIM_LION;
    assert_int_equal(optim_slots(&spec), 1);
    spec.kind = OPTIM_LARS;
    assert_int_equal(optim_slots(&spec), 1);
    spec.kind = OPTIM_LAMB;
    assert_int_equal(optim_slots(&spec), 2);
    spec.ema = 0.9f;
    assert_int_equal(optim_slots(&spec), 3);
    spec = (struct optim_spec){.kind = OPTIM_SGD, .ema = 0.9f};
    assert_int_equal(optim_slots(&spec), 1);
}

/* By the definition: the sum over the steps of ema^age times the value, over the sum of ema^age. */
TEST(the_average_counts_each_step_less_than_the_next)
{
    enum { STEPS = 400 };
    static const float emas[] = {0.0001f, 0.5f, 0.9f, 0.999f, 0.999999f};
    for (size_t e = 0; e < sizeof emas / sizeof emas[0]; e++) {
        const struct optim_spec spec = {.kind = OPTIM_SGD, .ema = emas[e]};
        double sum[2] = {0}, weight = 0, ema = (double)emas[e];
        float p[2], average[2] = {0};
        for (uint64_t t = 1; t <= STEPS; t++) {
            p[0] = (float)t;
            p[1] = t % 3 ? 1 : -2;
            optim_average(&spec, t, 1, p, average, 2);
            for (int i = 0; i < 2; i++)
                sum[i] = sum[i] * ema + (double)p[i];
            weight = weight * ema + 1;
            for (int i = 0; i < 2; i++)
                assert_true(fabs((double)average[i] - sum[i] / weight) <
                            1e-4 * (1 + (double)t / 10));
        }
    }
}

TEST(any_split_into_ranges_gives_the_same_bits)
{
    enum { N = 3000 };
    static float whole[3][N], parts[3][N], g[N];
    const size_t torch = sizeof torch_optim / sizeof torch_optim[0];
    for (size_t c = 0; c < torch + sizeof by_hand / sizeof by_hand[0]; c++) {
        const struct optim_spec *spec = c < torch ? &torch_optim[c].spec : &by_hand[c - torch];
        for (size_t i = 0; i < N; i++) {
            g[i] = (float)(int64_t)mix64(i) / 1e19f;
            whole[0][i] = (float)(int64_t)mix64(i + N) / 1e20f;
            whole[1][i] = whole[2][i] = fabsf(whole[0][i]);
        }
        memcpy(parts, whole, sizeof parts);
        float *const slot[OPTIM_SLOTS_MAX] = {whole[1], whole[2]};
        optim_apply(spec, 0.01, 7, whole[0], slot, g, N);
        for (size_t i = 0, n, calls = c; i < N; i += n) {
            n = mix64(calls++) % 50;
            n = n < N - i ? n : N - i;
            float *const at[OPTIM_SLOTS_MAX] = {parts[1] + i, parts[2] + i};
            optim_apply(spec, 0.01, 7, parts[0] + i, at, g + i, n);
        }
        assert_memory_equal(whole, parts, sizeof whole);
    }
}

static float
any_float(uint64_t i)
{
    float x = float_of((uint32_t)mix64(i));
    return isfinite(x) ? x : 1.0f;
}

/* Finite numbers of every size; what the loops make of them may be infinite or NaN on both paths. */
TEST_OF_VARIANTS(both_instruction_sets_give_the_same_bits)
{
    enum { N = 20000 };
    static float a[4][N], b[4][N], g[N];
    const struct optim_factors f = {.rate = 0.01f,
                                    .momentum = 0.9f,
                                    .decay = 0.001f,
                                    .keep = 0.99f,
                                    .beta1 = 0.9f,
                                    .rest1 = 0.1f,
                                    .beta2 = 0.999f,
                                    .rest2 = 0.001f,
                                    .lift = 2.5f,
                                    .root = 1.7f,
                                    .epsilon = 1e-8f};
    if (!simd_avx2())
        skip();
    for (int rule = 0; rule < 9; rule++) {
        for (size_t i = 0; i < N; i++) {
            g[i] = any_float(i * 4);
            a[0][i] = any_float(i * 4 + 1);
            a[1][i] = any_float(i * 4 + 2);
            a[2][i] = fabsf(any_float(i * 4 + 3));
            a[1][i] = rule == 4 ? fabsf(a[1][i]) : a[1][i]; /* a mean of squares */
        }
        memcpy(b, a, sizeof b);
        if (rule == 0)
            optim_sgd_base(&f, a[0], g, N), SIMD_PICK(optim_sgd)(&f, b[0], g, N);
        else if (rule == 1)
            optim_momentum_base(&f, a[0], a[1], g, N),
                SIMD_PICK(optim_momentum)(&f, b[0], b[1], g, N);
        else if (rule == 2)
            optim_nesterov_base(&f, a[0], a[1], g, N),
                SIMD_PICK(optim_nesterov)(&f, b[0], b[1], g, N);
        else if (rule == 3)
            optim_adam_base(&f, a[0], a[1], a[2], g, N),
                SIMD_PICK(optim_adam)(&f, b[0], b[1], b[2], g, N);
        else if (rule == 4)
            optim_rmsprop_base(&f, a[0], a[1], g, N),
                SIMD_PICK(optim_rmsprop)(&f, b[0], b[1], g, N);
        else if (rule == 5)
            optim_rmsprop_momentum_base(&f, a[0], a[1], a[2], g, N),
                SIMD_PICK(optim_rmsprop_momentum)(&f, b[0], b[1], b[2], g, N);
        else if (rule == 6)
            optim_lion_base(&f, a[0], a[1], g, N), SIMD_PICK(optim_lion)(&f, b[0], b[1], g, N);
        else if (rule == 7)
            optim_lars_base(&f, a[0], a[1], g, N), SIMD_PICK(optim_lars)(&f, b[0], b[1], g, N);
        else
            optim_lamb_base(&f, a[0], a[1], a[2], g, a[3], N),
                SIMD_PICK(optim_lamb)(&f, b[0], b[1], b[2], g, b[3], N);
        size_t same = 0;
        for (int v = 0; v < 4; v++)
            for (size_t i = 0; i < N; i++)
                same += float_bits(a[v][i]) == float_bits(b[v][i]) ||
                        (isnan(a[v][i]) && isnan(b[v][i]));
        assert_int_equal(same, 4 * N);
    }
}

TEST(schedules_agree_with_pytorch)
{
    struct optim_spec spec = {.rate = 0.5f, .schedule = OPTIM_COSINE, .schedule_floor = 0.1f};
    for (uint64_t t = 0; t < 12; t++)
        assert_close(optim_rate(&spec, t, 12, 0, 64), torch_cosine[t], 2e-8);
    spec = (struct optim_spec){
        .rate = 0.5f, .schedule = OPTIM_STEP, .schedule_gamma = 0.25f, .schedule_every = 5};
    for (uint64_t epoch = 0; epoch < 12; epoch++)
        assert_close(optim_rate(&spec, 999, 9999, epoch, 64), torch_step[epoch], 1e-15);
}

TEST(the_cosine_is_exact_to_the_last_bits)
{
    const double pi = acos(-1);
    struct optim_spec spec = {.rate = 1, .schedule = OPTIM_COSINE};
    for (uint64_t t = 0; t <= 10000; t++) {
        double got = optim_rate(&spec, t, 10000, 0, 1);
        double expected = 0.5 * (1 + cos(pi * (double)t / 10000));
        assert_true(fabs(got - expected) <= 3e-16);
    }
    assert_true(optim_rate(&spec, 0, 10000, 0, 1) == 1);
    assert_true(optim_rate(&spec, 10000, 10000, 0, 1) == 0);
    assert_true(optim_rate(&spec, 20000, 10000, 0, 1) == 0);
}

TEST(warm_up_rises_in_equal_steps_and_then_follows_the_schedule)
{
    struct optim_spec spec = {.rate = 0.5f, .warmup = 4};
    assert_true(optim_rate(&spec, 0, 100, 0, 1) == 0.125);
    assert_true(optim_rate(&spec, 1, 100, 0, 1) == 0.25);
    assert_true(optim_rate(&spec, 3, 100, 0, 1) == 0.5);
    assert_true(optim_rate(&spec, 4, 100, 0, 1) == 0.5);
    spec.schedule = OPTIM_INV_SQRT;
    assert_true(optim_rate(&spec, 0, 100, 0, 1) == 0.125);
    assert_true(optim_rate(&spec, 4, 100, 0, 1) == 0.5);
    assert_true(optim_rate(&spec, 16, 100, 0, 1) == 0.25);
    assert_true(optim_rate(&spec, 64, 100, 0, 1) == 0.125);
    spec.warmup = 0;
    assert_true(optim_rate(&spec, 0, 100, 0, 1) == 0.5);
    assert_true(optim_rate(&spec, 3, 100, 0, 1) == 0.25);
    spec = (struct optim_spec){.rate = 0.5f, .warmup = 4, .schedule = OPTIM_COSINE};
    assert_true(optim_rate(&spec, 1, 8, 0, 1) == 0.25);
    assert_true(optim_rate(&spec, 4, 8, 0, 1) == 0.5);
    assert_close(optim_rate(&spec, 6, 8, 0, 1), 0.25, 1e-15);
    assert_close(optim_rate(&spec, 5, 4, 0, 1), 0, 0);
    spec.warmup = 8; /* as long as the run */
    assert_true(optim_rate(&spec, 7, 8, 0, 1) == 0.5);
}

TEST(the_rate_grows_with_the_batch)
{
    struct optim_spec spec = {.rate = 0.125f, .rate_batch = 256};
    assert_true(optim_rate(&spec, 0, 10, 0, 256) == 0.125);
    assert_true(optim_rate(&spec, 0, 10, 0, 8192) == 4);
    assert_true(optim_rate(&spec, 0, 10, 0, 64) == 0.03125);
}

TEST(a_gradient_is_clipped_to_the_norm_and_no_further)
{
    struct optim_spec spec = {.clip_norm = 2};
    assert_true(optim_clip(&spec, 64) == 0.25f);
    assert_true(optim_clip(&spec, 4) == 1);
    assert_true(optim_clip(&spec, 0) == 1);
    assert_true(optim_clip(&spec, (double)INFINITY) == 0);
    assert_true(optim_clip(&spec, (double)NAN) == 1);
    spec.clip_norm = 0;
    assert_true(optim_clip(&spec, 64) == 1);
}

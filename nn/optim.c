/* optim.c - factors of a step from the spec, rate schedules, dispatch to the loops of optim_simd.c. */
#include "nn/optim.h"

#include <assert.h>
#include <math.h>

#include "nn/optim_simd.h"
#include "proto/simd.h"

size_t
optim_slots(const struct optim_spec *spec)
{
    if (spec->kind == OPTIM_SGD)
        return spec->momentum > 0 ? 1 : 0;
    return 2;
}

/* x^n by squaring: a fixed sequence of multiplications. */
static double
power(double x, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
}

/* cos(pi x), 0 <= x <= 1, as sin(z) with z = pi (1/2 - x): Taylor's polynomial of degree 21, whose first
 * neglected term is z^23 / 23! < 2e-18. */
static double
cosine_of_pi(double x)
{
    double z = 3.14159265358979323846 * (0.5 - x), square = z * z, sum = 1;
    for (int k = 20; k > 0; k -= 2)
        sum = 1 - square / (k * (k + 1)) * sum;
    return z * sum;
}

static double
cosine(const struct optim_spec *spec, uint64_t step, uint64_t steps_total)
{
    double floor = (double)spec->schedule_floor;
    if (step < spec->warmup)
        return 1;
    if (step >= steps_total)
        return floor;
    double part = (double)(step - spec->warmup) / (double)(steps_total - spec->warmup);
    return floor + (1 - floor) * 0.5 * (1 + cosine_of_pi(part));
}

static double
inverse_root(const struct optim_spec *spec, uint64_t step)
{
    if (!spec->warmup)
        return 1 / sqrt((double)step + 1);
    return step < spec->warmup ? 1 : sqrt((double)spec->warmup) / sqrt((double)step);
}

static double
schedule(const struct optim_spec *spec, uint64_t step, uint64_t steps_total, uint64_t epoch)
{
    switch (spec->schedule) {
    case OPTIM_STEP:
        return power((double)spec->schedule_gamma,
                     spec->schedule_every ? epoch / spec->schedule_every : 0);
    case OPTIM_COSINE:
        return cosine(spec, step, steps_total);
    case OPTIM_INV_SQRT:
        return inverse_root(spec, step);
    case OPTIM_CONSTANT:
        break;
    }
    return 1;
}

double
optim_rate(const struct optim_spec *spec, uint64_t step, uint64_t steps_total, uint64_t epoch,
           size_t batch)
{
    double rate = (double)spec->rate;
    if (spec->rate_batch)
        rate = rate * (double)batch / (double)spec->rate_batch;
    rate *= schedule(spec, step, steps_total, epoch);
    if (step < spec->warmup)
        rate = rate * (double)(step + 1) / (double)spec->warmup;
    return rate;
}

static void
apply_sgd(const struct optim_spec *spec, const struct optim_factors *f, float *params, float *slot,
          const float *g, size_t n)
{
    const bool avx2 = simd_avx2();
    if (!optim_slots(spec))
        (avx2 ? optim_sgd_avx2 : optim_sgd_base)(f, params, g, n);
    else if (spec->nesterov)
        (avx2 ? optim_nesterov_avx2 : optim_nesterov_base)(f, params, slot, g, n);
    else
        (avx2 ? optim_momentum_avx2 : optim_momentum_base)(f, params, slot, g, n);
}

static void
apply_adam(const struct optim_spec *spec, double rate, uint64_t step, float *params,
           float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n)
{
    const double beta1 = (double)spec->beta1, beta2 = (double)spec->beta2;
    const bool decoupled = spec->kind == OPTIM_ADAMW;
    const struct optim_factors f = {
        .rate = (float)(rate / (1 - power(beta1, step + 1))),
        .decay = decoupled ? 0 : spec->weight_decay,
        .keep = decoupled ? (float)(1 - rate * (double)spec->weight_decay) : 1,
        .beta1 = spec->beta1,
        .rest1 = (float)(1 - beta1),
        .beta2 = spec->beta2,
        .rest2 = (float)(1 - beta2),
        .root = (float)(1 / sqrt(1 - power(beta2, step + 1))),
        .epsilon = spec->epsilon,
    };
    (simd_avx2() ? optim_adam_avx2 : optim_adam_base)(&f, params, slot[0], slot[1], g, n);
}

void
optim_apply(const struct optim_spec *spec, double rate, uint64_t step, float *params,
            float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n)
{
    for (size_t s = 0; s < optim_slots(spec); s++)
        assert(slot[s]);
    if (spec->kind != OPTIM_SGD) {
        apply_adam(spec, rate, step, params, slot, g, n);
        return;
    }
    const struct optim_factors f = {
        .rate = (float)rate, .momentum = spec->momentum, .decay = spec->weight_decay};
    apply_sgd(spec, &f, params, slot[0], g, n);
}

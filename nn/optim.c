/* optim.c - factors of a step from the spec, rate schedules, dispatch to the loops of optim_simd.c. */
#include "nn/optim.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "nn/arithmetic/optim_simd.h"
#include "proto/simd.h"

enum { PIECE = 1024 };                /* of a range, on the stack */
static const double RATIO_MAX = 1e24; /* times any rate it is finite */

/* Of the rule itself. */
static size_t
rule_slots(const struct optim_spec *spec)
{
    switch (spec->kind) {
    case OPTIM_SGD:
        return spec->momentum > 0 ? 1 : 0;
    case OPTIM_RMSPROP:
        return spec->momentum > 0 ? 2 : 1;
    case OPTIM_LION:
    case OPTIM_LARS:
        return 1;
    case OPTIM_ADAM:
    case OPTIM_ADAMW:
    case OPTIM_LAMB:
        break;
    }
    return 2;
}

size_t
optim_slots(const struct optim_spec *spec)
{
    return rule_slots(spec) + (spec->ema > 0);
}

float
optim_clip(const struct optim_spec *spec, double squares)
{
    double most = (double)spec->clip_norm, norm = sqrt(squares);
    return most > 0 && norm > most ? (float)(most / norm) : 1.0f;
}

bool
optim_layerwise(const struct optim_spec *spec)
{
    return spec->kind == OPTIM_LARS || spec->kind == OPTIM_LAMB;
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

/* The factors of all rules. */
static struct optim_factors
factors_of(const struct optim_spec *spec, double rate, uint64_t step)
{
    const double beta1 = (double)spec->beta1, beta2 = (double)spec->beta2;
    const bool decoupled = spec->kind == OPTIM_ADAMW;
    const bool adam = decoupled || spec->kind == OPTIM_ADAM;
    const bool lifts = adam || spec->kind == OPTIM_LAMB;
    const double lift = lifts ? 1 - power(beta1, step + 1) : 1;
    return (struct optim_factors){
        .rate = (float)(adam ? rate / lift : rate),
        .momentum = spec->momentum,
        .decay = decoupled ? 0 : spec->weight_decay,
        .keep = spec->kind == OPTIM_ADAM ? 1 : (float)(1 - rate * (double)spec->weight_decay),
        .beta1 = spec->beta1,
        .rest1 = (float)(1 - beta1),
        .beta2 = spec->beta2,
        .rest2 = (float)(1 - beta2),
        .lift = (float)(1 / lift),
        .root = lifts ? (float)(1 / sqrt(1 - power(beta2, step + 1))) : 1,
        .epsilon = spec->epsilon,
    };
}

static void
apply_sgd(const struct optim_spec *spec, const struct optim_factors *f, float *params, float *slot,
          const float *g, size_t n)
{
    if (!rule_slots(spec))
        SIMD_PICK(optim_sgd)(f, params, g, n);
    else if (spec->nesterov)
        SIMD_PICK(optim_nesterov)(f, params, slot, g, n);
    else
        SIMD_PICK(optim_momentum)(f, params, slot, g, n);
}

static void
apply_lamb(const struct optim_factors *f, float *params, float *const slot[OPTIM_SLOTS_MAX],
           const float *g, size_t n)
{
    const struct optim_factors plain = {.rate = f->rate};
    float direction[PIECE];
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < PIECE ? n - at : PIECE;
        SIMD_PICK(optim_lamb)(f, params + at, slot[0] + at, slot[1] + at, g + at, direction, k);
        SIMD_PICK(optim_sgd)(&plain, params + at, direction, k);
    }
}

static double
squares(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

void
optim_squares(const struct optim_spec *spec, uint64_t step, const float *params,
              const float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n, double sum[2])
{
    const struct optim_factors f = factors_of(spec, 0, step);
    float m[PIECE], v[PIECE], direction[PIECE];
    assert(optim_layerwise(spec));
    sum[0] += squares(params, n);
    if (spec->kind == OPTIM_LARS) {
        sum[1] += squares(g, n);
        return;
    }
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < PIECE ? n - at : PIECE;
        memcpy(m, slot[0] + at, k * sizeof *m);
        memcpy(v, slot[1] + at, k * sizeof *v);
        SIMD_PICK(optim_lamb)(&f, params + at, m, v, g + at, direction, k);
        sum[1] += squares(direction, k);
    }
}

float
optim_ratio(const struct optim_spec *spec, const double sum[2])
{
    double size = sqrt(sum[0]), change = sqrt(sum[1]);
    if (!(size > 0 && change > 0 && isfinite(size) && isfinite(change)))
        return 1;
    double ratio = spec->kind == OPTIM_LARS
                       ? (double)spec->trust * size / (change + (double)spec->weight_decay * size)
                       : size / change;
    return (float)(ratio < RATIO_MAX ? ratio : RATIO_MAX);
}

void
optim_apply(const struct optim_spec *spec, double rate, uint64_t step, float *params,
            float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n)
{
    const struct optim_factors f = factors_of(spec, rate, step);
    for (size_t s = 0; s < rule_slots(spec); s++)
        assert(slot[s]);
    switch (spec->kind) {
    case OPTIM_SGD:
        apply_sgd(spec, &f, params, slot[0], g, n);
        break;
    case OPTIM_ADAM:
    case OPTIM_ADAMW:
        SIMD_PICK(optim_adam)(&f, params, slot[0], slot[1], g, n);
        break;
    case OPTIM_RMSPROP:
        if (spec->momentum > 0)
            SIMD_PICK(optim_rmsprop_momentum)(&f, params, slot[1], slot[0], g, n);
        else
            SIMD_PICK(optim_rmsprop)(&f, params, slot[0], g, n);
        break;
    case OPTIM_LION:
        SIMD_PICK(optim_lion)(&f, params, slot[0], g, n);
        break;
    case OPTIM_LARS:
        SIMD_PICK(optim_lars)(&f, params, slot[0], g, n);
        break;
    case OPTIM_LAMB:
        apply_lamb(&f, params, slot, g, n);
        break;
    }
}

void
optim_average(const struct optim_spec *spec, uint64_t count, uint64_t steps, const float *params,
              float *average, size_t n)
{
    double ema = (double)spec->ema;
    const float share = (float)((1 - power(ema, steps)) / (1 - power(ema, count)));
    assert(steps > 0 && steps <= count);
    for (size_t i = 0; i < n; i++)
        average[i] += share * (params[i] - average[i]);
}

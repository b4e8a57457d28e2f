/* optim_simd.c - plain loops that the compiler turns into vectors.
 *
 * Nothing is reduced and every operation is rounded by itself, so the width of the vectors does not show
 * in the bits. */
#include "nn/arithmetic/optim_simd.h"

#include <math.h>

#include "proto/simd.h"

void
SIMD_NAME(optim_sgd)(const struct optim_factors *f, float *p, const float *g, size_t n)
{
    const float rate = f->rate, decay = f->decay;
    for (size_t i = 0; i < n; i++)
        p[i] -= rate * (g[i] + decay * p[i]);
}

void
SIMD_NAME(optim_momentum)(const struct optim_factors *f, float *p, float *m, const float *g,
                          size_t n)
{
    const float rate = f->rate, decay = f->decay, momentum = f->momentum;
    for (size_t i = 0; i < n; i++) {
        float moved = momentum * m[i] + (g[i] + decay * p[i]);
        m[i] = moved;
        p[i] -= rate * moved;
    }
}

void
SIMD_NAME(optim_nesterov)(const struct optim_factors *f, float *p, float *m, const float *g,
                          size_t n)
{
    const float rate = f->rate, decay = f->decay, momentum = f->momentum;
    for (size_t i = 0; i < n; i++) {
        float slope = g[i] + decay * p[i];
        float moved = momentum * m[i] + slope;
        m[i] = moved;
        p[i] -= rate * (slope + momentum * moved);
    }
}

void
SIMD_NAME(optim_adam)(const struct optim_factors *f, float *p, float *m, float *v, const float *g,
                      size_t n)
{
    const struct optim_factors c = *f;
    for (size_t i = 0; i < n; i++) {
        float slope = g[i] + c.decay * p[i];
        float mean = c.beta1 * m[i] + c.rest1 * slope;
        float square = c.beta2 * v[i] + c.rest2 * slope * slope;
        m[i] = mean;
        v[i] = square;
        p[i] = p[i] * c.keep - c.rate * mean / (sqrtf(square) * c.root + c.epsilon);
    }
}

void
SIMD_NAME(optim_rmsprop)(const struct optim_factors *f, float *p, float *m, const float *g,
                         size_t n)
{
    const struct optim_factors c = *f;
    for (size_t i = 0; i < n; i++) {
        float slope = g[i] + c.decay * p[i];
        float square = c.beta2 * m[i] + c.rest2 * slope * slope;
        m[i] = square;
        p[i] -= c.rate * (slope / (sqrtf(square) + c.epsilon));
    }
}

void
SIMD_NAME(optim_rmsprop_momentum)(const struct optim_factors *f, float *p, float *m, float *v,
                                  const float *g, size_t n)
{
    const struct optim_factors c = *f;
    for (size_t i = 0; i < n; i++) {
        float slope = g[i] + c.decay * p[i];
        float square = c.beta2 * v[i] + c.rest2 * slope * slope;
        float moved = c.momentum * m[i] + slope / (sqrtf(square) + c.epsilon);
        v[i] = square;
        m[i] = moved;
        p[i] -= c.rate * moved;
    }
}

void
SIMD_NAME(optim_lion)(const struct optim_factors *f, float *p, float *m, const float *g, size_t n)
{
    const struct optim_factors c = *f;
    for (size_t i = 0; i < n; i++) {
        float mixed = c.beta1 * m[i] + c.rest1 * g[i];
        float sign = (mixed > 0 ? 1.0f : 0.0f) - (mixed < 0 ? 1.0f : 0.0f);
        m[i] = c.beta2 * m[i] + c.rest2 * g[i];
        p[i] = p[i] * c.keep - c.rate * sign;
    }
}

void
SIMD_NAME(optim_lars)(const struct optim_factors *f, float *p, float *m, const float *g, size_t n)
{
    const float rate = f->rate, decay = f->decay, momentum = f->momentum;
    for (size_t i = 0; i < n; i++) {
        float moved = momentum * m[i] + rate * (g[i] + decay * p[i]);
        m[i] = moved;
        p[i] -= moved;
    }
}

void
SIMD_NAME(optim_lamb)(const struct optim_factors *f, const float *p, float *m, float *v,
                      const float *g, float *r, size_t n)
{
    const struct optim_factors c = *f;
    for (size_t i = 0; i < n; i++) {
        float mean = c.beta1 * m[i] + c.rest1 * g[i];
        float square = c.beta2 * v[i] + c.rest2 * g[i] * g[i];
        m[i] = mean;
        v[i] = square;
        r[i] = mean * c.lift / (sqrtf(square) * c.root + c.epsilon) + c.decay * p[i];
    }
}

/* optim_simd.h - the update rules of optim.c on a range, one variant per instruction set.
 *
 * All variants compute the same bits. Vectors do not overlap and need no alignment. */
#ifndef NN_OPTIM_SIMD_H
#define NN_OPTIM_SIMD_H

#include <stddef.h>

#include "proto/simd.h"

/* The factors of an update, each rounded to float once per step. */
struct optim_factors {
    float rate;
    float momentum;
    float decay;        /* added to the gradient, times the parameter */
    float keep;         /* AdamW, Lion: the parameter is first multiplied by this; else 1 */
    float beta1, rest1; /* and 1 - beta1 */
    float beta2, rest2;
    float lift; /* LAMB: 1 / (1 - beta1^t) */
    float root; /* 1 / sqrt(1 - beta2^t) */
    float epsilon;
};

#define OPTIM_SLOTS_1 (const struct optim_factors *f, float *p, float *m, const float *g, size_t n)
#define OPTIM_SLOTS_2                                                                              \
    (const struct optim_factors *f, float *p, float *m, float *v, const float *g, size_t n)

SIMD_DECLARE(void, optim_sgd, (const struct optim_factors *f, float *p, const float *g, size_t n));
SIMD_DECLARE(void, optim_momentum, OPTIM_SLOTS_1);
SIMD_DECLARE(void, optim_nesterov, OPTIM_SLOTS_1);
SIMD_DECLARE(void, optim_adam, OPTIM_SLOTS_2);
SIMD_DECLARE(void, optim_rmsprop, OPTIM_SLOTS_1); /* m is v here */
SIMD_DECLARE(void, optim_rmsprop_momentum, OPTIM_SLOTS_2);
SIMD_DECLARE(void, optim_lion, OPTIM_SLOTS_1);
SIMD_DECLARE(void, optim_lars, OPTIM_SLOTS_1);
/* Writes the direction to r[n] and does not change the parameters. */
SIMD_DECLARE(void, optim_lamb,
             (const struct optim_factors *f, const float *p, float *m, float *v, const float *g,
              float *r, size_t n));

#endif

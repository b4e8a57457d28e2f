/* optim_simd.h - the update rules of optim.c on a range, one variant per instruction set.
 *
 * All variants compute the same bits. Vectors do not overlap and need no alignment. */
#ifndef NN_OPTIM_SIMD_H
#define NN_OPTIM_SIMD_H

#include <stddef.h>

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

#define OPTIM_SGD_DECLARE(name)                                                                    \
    void name(const struct optim_factors *f, float *p, const float *g, size_t n)
#define OPTIM_MOMENTUM_DECLARE(name)                                                               \
    void name(const struct optim_factors *f, float *p, float *m, const float *g, size_t n)
#define OPTIM_ADAM_DECLARE(name)                                                                   \
    void name(const struct optim_factors *f, float *p, float *m, float *v, const float *g, size_t n)
/* Writes the direction to r[n] and does not change the parameters. */
#define OPTIM_LAMB_DECLARE(name)                                                                   \
    void name(const struct optim_factors *f, const float *p, float *m, float *v, const float *g,   \
              float *r, size_t n)

OPTIM_SGD_DECLARE(optim_sgd_base);
OPTIM_SGD_DECLARE(optim_sgd_avx2);
OPTIM_MOMENTUM_DECLARE(optim_momentum_base);
OPTIM_MOMENTUM_DECLARE(optim_momentum_avx2);
OPTIM_MOMENTUM_DECLARE(optim_nesterov_base);
OPTIM_MOMENTUM_DECLARE(optim_nesterov_avx2);
OPTIM_ADAM_DECLARE(optim_adam_base);
OPTIM_ADAM_DECLARE(optim_adam_avx2);
OPTIM_MOMENTUM_DECLARE(optim_rmsprop_base); /* m is v here */
OPTIM_MOMENTUM_DECLARE(optim_rmsprop_avx2);
OPTIM_ADAM_DECLARE(optim_rmsprop_momentum_base);
OPTIM_ADAM_DECLARE(optim_rmsprop_momentum_avx2);
OPTIM_MOMENTUM_DECLARE(optim_lion_base);
OPTIM_MOMENTUM_DECLARE(optim_lion_avx2);
OPTIM_MOMENTUM_DECLARE(optim_lars_base);
OPTIM_MOMENTUM_DECLARE(optim_lars_avx2);
OPTIM_LAMB_DECLARE(optim_lamb_base);
OPTIM_LAMB_DECLARE(optim_lamb_avx2);

#endif

/* optim.h - update rules and rate schedules, element by element.
 *
 * An optimiser is a pure function (params, slots, gradient, step) -> (params, slots), in fixed element
 * order, so it may be applied to any range in any order. PyTorch's conventions (momentum without
 * dampening; L2 decay added to the gradient except AdamW, Loshchilov and Hutter, ICLR 2019). */
#ifndef NN_OPTIM_H
#define NN_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optim_kind { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAMW };

enum optim_schedule {
    OPTIM_CONSTANT,
    OPTIM_STEP, /* rate * gamma ^ floor(epoch / every) */
    OPTIM_COSINE, /* half a cosine from rate to floor over the run; Loshchilov and Hutter, ICLR 2017 */
    OPTIM_INV_SQRT, /* rate * sqrt(warmup) / sqrt(max(step, warmup)); rate / sqrt(step + 1) without warm-up */
};

struct optim_spec {
    enum optim_kind kind;
    float rate;
    float momentum;              /* SGD: 0..1 */
    bool nesterov;               /* Sutskever et al., ICML 2013 */
    float beta1, beta2, epsilon; /* Adam: Kingma and Ba, ICLR 2015 */
    float weight_decay;
    float clip_norm; /* global L2 norm; 0 = off. Pascanu et al., ICML 2013 */
    enum optim_schedule schedule;
    float schedule_gamma;
    unsigned schedule_every; /* epochs */
    float schedule_floor;    /* share of rate */
    uint64_t warmup;         /* steps of linear warm-up; Goyal et al., 2017 */
    unsigned rate_batch;     /* linear scaling rule: rate is for this batch size; 0 = off */
};

enum { OPTIM_SLOTS_MAX = 2 };

/* Vectors of state per parameter: 0..OPTIM_SLOTS_MAX. */
size_t optim_slots(const struct optim_spec *spec);

/* Rate of a step, all rules applied. */
double optim_rate(const struct optim_spec *spec, uint64_t step, uint64_t steps_total,
                  uint64_t epoch, size_t batch);

/* Update elements [0, n) of params and slots (slot[i] may be NULL when unused) with gradient g[n], already
 * multiplied by the clipping factor. `step` counts from 0 (bias correction). */
void optim_apply(const struct optim_spec *spec, double rate, uint64_t step, float *params,
                 float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n);

#endif

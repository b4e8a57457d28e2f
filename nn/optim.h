/* optim.h - update rules and rate schedules, element by element.
 *
 * An optimizer is a pure function (params, slots, gradient, step) -> (params, slots) that treats each element
 * separately. So it may be applied to any range in any order. With g the gradient and p a parameter, and with
 * PyTorch's conventions where PyTorch has the rule:
 *
 *     SGD    g += weight_decay * p;  without momentum: p -= rate * g
 *            m = momentum * m + g;   p -= rate * m,  Nesterov: p -= rate * (g + momentum * m)
 *     Adam   g += weight_decay * p
 *     AdamW  p -= rate * weight_decay * p    (Loshchilov and Hutter, ICLR 2019)
 *     both   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;  t = step + 1
 *            p -= rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 *     RMSprop  g += weight_decay * p;  v = beta2 * v + (1 - beta2) * g^2;  d = g / (sqrt(v) + epsilon)
 *            without momentum: p -= rate * d;  else m = momentum * m + d;  p -= rate * m
 *     Lion   c = beta1 * m + (1 - beta1) * g;  m = beta2 * m + (1 - beta2) * g
 *            p -= rate * (sign(c) + weight_decay * p)
 *     LARS   m = momentum * m + ratio * rate * (g + weight_decay * p);  p -= m
 *     LAMB   m, v as Adam;  r = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 *            p -= ratio * rate * (r + weight_decay * p)
 *
 * The last two have a ratio for each tensor, which makes its change proportional to its size. With |.| the L2 norm
 * over the tensor, LARS has trust * |p| / (|g| + weight_decay * |p|) and LAMB has |p| / |r + weight_decay * p|. The
 * ratio is 1 if the number above or below the bar is 0, as for biases that begin at 0. The caller sums the squares
 * over the tensor, always in the same order, before it applies any part of it, and passes ratio * rate as the rate:
 *
 *     for (each range of the tensor)  optim_squares(&spec, step, p, slot, g, n, sum);
 *     rate * optim_ratio(&spec, sum)
 *
 * It uses only + - * / and sqrt, which IEEE 754 rounds exactly, and no libm: the bits are the same on every
 * machine. */
#ifndef NN_OPTIM_H
#define NN_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optim_kind {
    OPTIM_SGD,
    OPTIM_ADAM,
    OPTIM_ADAMW,
    OPTIM_RMSPROP, /* Tieleman and Hinton, lecture 6.5, 2012 */
    OPTIM_LION,    /* Chen et al., NeurIPS 2023 */
    OPTIM_LARS,    /* You, Gitman and Ginsburg, 2017 */
    OPTIM_LAMB,    /* You et al., ICLR 2020 */
};

enum optim_schedule {
    OPTIM_CONSTANT,
    OPTIM_STEP, /* rate * gamma ^ floor(epoch / every) */
    /* half a cosine from rate to floor over the steps after warm-up; Loshchilov and Hutter, ICLR 2017 */
    OPTIM_COSINE,
    /* rate * sqrt(warmup) / sqrt(max(step, warmup)); rate / sqrt(step + 1) without warm-up */
    OPTIM_INV_SQRT,
};

struct optim_spec {
    enum optim_kind kind;
    float rate;
    float momentum;              /* SGD, RMSprop, LARS: 0..1 */
    bool nesterov;               /* Sutskever et al., ICML 2013 */
    float beta1, beta2, epsilon; /* Adam: Kingma and Ba, ICLR 2015; RMSprop, Lion, LAMB */
    float trust;                 /* LARS */
    float weight_decay;
    float clip_norm; /* global L2 norm; 0 = off. Pascanu et al., ICML 2013 */
    enum optim_schedule schedule;
    float schedule_gamma;
    unsigned schedule_every; /* epochs */
    float schedule_floor;    /* share of rate */
    uint64_t warmup; /* steps of linear warm-up: times (step + 1) / warmup; Goyal et al., 2017 */
    unsigned rate_batch; /* linear scaling rule: rate is for this batch size; 0 = off */
    float ema;           /* optim_average: 0 <= ema < 1; 0 = off */
};

enum { OPTIM_SLOTS_MAX = 3 };

/* Vectors of state per parameter: 0..OPTIM_SLOTS_MAX. They start as zeros. If the spec has ema, the last one is
 * that of optim_average. */
size_t optim_slots(const struct optim_spec *spec);

/* Rate of a step (counted from 0) by all rules: scaling rule, schedule, warm-up. */
double optim_rate(const struct optim_spec *spec, uint64_t step, uint64_t steps_total,
                  uint64_t epoch, size_t batch);

/* Factor that brings a gradient down to clip_norm if its squares add up to `squares`. 1 if it is within the limit,
 * or clipping is off. */
float optim_clip(const struct optim_spec *spec, double squares);

/* Does the rule have a ratio for each tensor? */
bool optim_layerwise(const struct optim_spec *spec);

/* For a range of a tensor: adds the squares of the parameters to sum[0], and those of the gradient (LARS) or of the
 * direction (LAMB) of this step to sum[1]. Changes nothing else. */
void optim_squares(const struct optim_spec *spec, uint64_t step, const float *params,
                   const float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n,
                   double sum[2]);
float optim_ratio(const struct optim_spec *spec, const double sum[2]);

/* Updates elements [0, n) of params and slots (slot[i] may be NULL when unused) with gradient g[n], which is
 * already multiplied by the clipping factor. `step` counts from 0 (bias correction). */
void optim_apply(const struct optim_spec *spec, double rate, uint64_t step, float *params,
                 float *const slot[OPTIM_SLOTS_MAX], const float *g, size_t n);

/* The average of a parameter's values so far. Each value counts ema times as much as the one after it. (Polyak and
 * Juditsky, SIAM J. Control Optim. 1992, gave all values the same weight.) After an update that stands for `steps`
 * values, 1.., the last of which is number `count`, from 1,
 *
 *     average += (1 - ema^steps) / (1 - ema^count) * (p - average)
 *
 * so the weights add up to 1 from the first value on. */
void optim_average(const struct optim_spec *spec, uint64_t count, uint64_t steps,
                   const float *params, float *average, size_t n);

#endif

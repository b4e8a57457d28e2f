/* local_sgd.h - local steps: a shard takes several steps by itself before its result is exchanged.
 *
 * With train.local_steps = H, a round takes each shard from the parameters of the state through H steps of the
 * optimizer. Each step uses the shard's rows of one step's batch. What is summed over the shards is the way back (local
 * SGD: Stich, ICLR 2019; federated averaging: McMahan et al., AISTATS 2017; with AdamW: Douillard et al., DiLoCo,
 * 2023):
 *
 *     p = state;  H times  p = optimizer(p, factor * g(p));  share * (state - p)
 *
 * with g the mean gradient over the shard's rows, factor what clips it to clip_norm, and share the shard's part of
 * the round's samples. Running averages of normalisation (nn_tensor.average) move by their own share of g and are
 * not clipped. The unit is the shard and not the node, so the way depends only on the state and the shard, and on the
 * moments of the optimizer, which a shard keeps within a span (feedback.h): a span begins with zeros.
 *
 * Sums run in fixed order on one thread. Only local_sgd_init allocates. */
#ifndef NODE_LOCAL_SGD_H
#define NODE_LOCAL_SGD_H

#include "nn/nn.h"
#include "nn/optim.h"

struct local_sgd {
    const struct nn_model *model;   /* borrowed */
    const struct optim_spec *optim; /* of these steps; borrowed */
    float *moments;                 /* [slots of optim][nn_param_count] of the shard; borrowed */
    float *params;                  /* [nn_param_count] the shard's present parameters */
    float *gradient;                /* [nn_param_count] */
};

/* Bytes that local_sgd_init allocates. */
size_t local_sgd_bytes(const struct nn_model *model);
/* Returns 0 or -ENOMEM. */
int local_sgd_init(struct local_sgd *local, const struct nn_model *model);
void local_sgd_fini(struct local_sgd *local);

/* Borrows `optim` and `moments` until the next local_sgd_begin. */
void local_sgd_begin(struct local_sgd *local, const struct optim_spec *optim, float *moments,
                     const float *params);
/* Receives the gradient of a step, each element once. */
struct nn_sink local_sgd_sink(struct local_sgd *local);
/* Takes the step, when the gradient is complete. The moments were zeros `step` steps ago. */
void local_sgd_step(struct local_sgd *local, double rate, uint64_t step);
/* gradient = share * (from - params) */
void local_sgd_end(struct local_sgd *local, const float *from, float share);

#endif

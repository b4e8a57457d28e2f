/* loss.h - losses of one row and of a block of rows; see loss.c. Internal to nn/. */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include "nn/nn.h"

/* What the outputs of a row are: [positions, outputs] numbers, with a label or target for each. */
struct loss_spec {
    enum nn_loss kind;
    size_t positions, outputs; /* 1.. */
    float smoothing;           /* cross entropy: nn_model_smooth */
};

/* Each returns the loss of finite outputs z[n] and writes its gradient times `scale` to the last array. */
double loss_squared_error(const float *z, const float *t, size_t n, float scale, float *dz);
double loss_logistic(float z, int32_t label, float scale, float *dz, bool *correct);

/* All rows of the batch: z [rows, positions, outputs] gives dz of the same shape. A row with NaN, infinity or a
 * label outside of the outputs makes the result bad and adds nothing else. */
void loss_rows(const struct loss_spec *spec, const struct nn_batch *batch, const float *z,
               float scale, float *dz, struct nn_result *out);

#endif

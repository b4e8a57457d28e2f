/* pass.h - the inside of a pass, for what lays it out and what computes in it. Inside nn/ only. */
#ifndef NN_PASS_H
#define NN_PASS_H

#include "nn/model.h"

struct nn_pass {
    const struct nn_model *model; /* borrowed */
    size_t rows_max;
    bool training;
    struct nn_batch batch;
    float *out[NN_LAYERS_MAX]; /* [rows, out] of each layer */
    void *saved[NN_LAYERS_MAX];
    float *grad[2];
    float scale;      /* that nn_loss was given */
    unsigned grad_at; /* which of the two holds the gradient of the layer to come */
    unsigned live;    /* segment whose insides are there */
    float *scratch;
    const struct nn_team *team; /* NULL: none */
};

/* Do one call of a layer, with the same bits shared out over the pass's team where there is one and the layer can be
 * divided: by rows, or, when `units`, by units of its gradient. */
void team_call(const struct nn_pass *pass, const struct layer *layer,
               void (*call)(const struct layer *layer, const struct layer_io *io),
               const struct layer_io *io, bool units);

#endif

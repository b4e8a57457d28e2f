/* pass.h - the inside of a pass, for the files that lay it out and compute in it. For nn/ only. */
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
    float scale;      /* the scale that nn_loss got */
    unsigned grad_at; /* which of the two has the gradient of the next layer */
    unsigned live;    /* the segment whose activations are in memory */
    float *scratch;
    const struct nn_team *team; /* NULL: none */
};

/* Does one call of a layer. If the pass has a team and the layer can be divided, the team shares the work, with the
 * same bits: by rows, or, if `units`, by units of its gradient. */
void team_call(const struct nn_pass *pass, const struct layer *layer,
               void (*call)(const struct layer *layer, const struct layer_io *io),
               const struct layer_io *io, bool units);

#endif

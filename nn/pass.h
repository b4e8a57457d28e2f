/* pass.h - internals of a pass, for the files that lay it out and compute in it. Internal to nn/. */
#ifndef NN_PASS_H
#define NN_PASS_H

#include "nn/model.h"

struct nn_pass {
    const struct nn_model *model; /* borrowed */
    struct nn_room room;          /* without zeros that mean something */
    struct nn_batch batch;        /* x: the input of the first layer */
    float *out[NN_LAYERS_MAX];    /* [rows, out] of each layer */
    void *saved[NN_LAYERS_MAX];
    float *grad[NN_LAYERS_MAX];  /* the gradient of each output, where one is computed */
    float *input_grad;           /* that of the input of the first layer */
    const struct nn_pass *other; /* the one that has the other layer of a shared weight */
    float scale;                 /* the scale that nn_loss got */
    unsigned live;               /* the segment whose activations are in memory */
    float *scratch;
    const struct nn_team *team; /* NULL: none */
    unsigned shards;
    const size_t *end; /* [shards] rows before which they end; NULL: one shard of all rows */
};

enum team_share {
    TEAM_ROWS,
    TEAM_COLUMNS, /* of y or dx */
    TEAM_UNITS,   /* of the gradient */
    TEAM_SHARDS   /* always divided, as each shard has its own call */
};

/* Does one call of a layer. If the pass has a team and the layer can be divided, the team shares the work, with the
 * same bits. */
void team_call(const struct nn_pass *pass, const struct layer *layer,
               void (*call)(const struct layer *layer, const struct layer_io *io),
               const struct layer_io *io, enum team_share by);
/* The part of a call that belongs to a shard. */
struct layer_io team_shard(const struct nn_pass *pass, const struct layer *layer,
                           const struct layer_io *all, size_t shard);
/* Rounds x[rows, width] of the pass to bfloat16, in pieces if there is a team. */
void team_round(const struct nn_pass *pass, float *x, size_t width);
/* Calls part(arg, s) for each shard s, by the team if there is one. */
void team_shards(const struct nn_pass *pass, void (*part)(void *arg, size_t s), void *arg);

static inline float *
pass_input(const struct nn_pass *pass, size_t l)
{
    return l == pass->room.first ? pass->batch.x : pass->out[l - 1];
}

/* NULL: there is none */
static inline float *
pass_gradient_below(const struct nn_pass *pass, size_t l)
{
    return l == pass->room.first ? pass->input_grad : pass->grad[l - 1];
}

/* First row of a shard; for shard == shards: the number of rows. */
static inline size_t
pass_shard_first(const struct nn_pass *pass, size_t shard)
{
    if (pass->end == NULL)
        return shard == 0 ? 0 : pass->batch.rows;
    return shard == 0 ? 0 : pass->end[shard - 1];
}

#endif

/* residual.c - a list of layers f that is added to its input: y = x + f(x) (He et al., CVPR 2016).
 *
 * It is two layers around those of the list. The first, a view, only holds its buffer until the second adds it
 * to what the list made of it. Back-propagation meets the second first, which keeps dy for the first to add to what
 * comes out of the list: dx = dy + f'(x)^T dy. */
#include <string.h>

#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

static void
hold(const struct layer *layer, const struct layer_io *io)
{
    (void)layer;
    (void)io;
}

static void
hold_backward(const struct layer *layer, const struct layer_io *io)
{
    vmath_add(io->dy, io->held, io->dy, io->rows * layer->out_size);
}

static size_t
add_saved(const struct layer *layer)
{
    return layer->out_size * sizeof(float);
}

static void
residual_add(const struct layer *layer, const struct layer_io *io)
{
    vmath_add(io->x, io->held, io->y, io->rows * layer->out_size);
}

static void
add_backward(const struct layer *layer, const struct layer_io *io)
{
    memcpy(io->saved, io->dy, io->rows * layer->out_size * sizeof *io->dy);
}

const struct layer_kind residual_kind = {
    .word = "residual",
    .by_rows = true,
    .element_wise = true,
    .is_view = true,
    .shape = layer_same_shape,
    .forward = hold,
    .backward = hold_backward,
};

const struct layer_kind residual_end_kind = {
    .word = "add",
    .by_rows = true,
    .element_wise = true,
    .shape = layer_same_shape,
    .saves_gradient = true,
    .saved = add_saved,
    .forward = residual_add,
    .backward = add_backward,
};

/* act.c - activations, element by element, and flatten, which only renames the shape.
 *
 * relu: max(0, x), gradient dy where y > 0. sigmoid: 1 / (1 + exp -x), gradient dy y (1 - y). tanh:
 * gradient dy (1 - y^2). These gradients need the output only; those of gelu (Hendrycks and Gimpel, 2016) and
 * silu, x sigmoid(x), need the input, so they never work in place. After a dense layer, which computes the gelu
 * (dense.c), the input already is the slope. */
#include <string.h>

#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

/* Those whose gradient needs their output only. */
#define BY_OUTPUT(name)                                                                            \
    static void name##_forward(const struct layer *layer, const struct layer_io *io)               \
    {                                                                                              \
        vmath_##name(io->x, io->y, io->rows * layer->out_size);                                    \
    }                                                                                              \
    static void name##_backward(const struct layer *layer, const struct layer_io *io)              \
    {                                                                                              \
        vmath_##name##_grad(io->y, io->dy, io->rows * layer->out_size);                            \
    }                                                                                              \
    const struct layer_kind name##_kind = {                                                        \
        .word = #name,                                                                             \
        .by_rows = true,                                                                           \
        .element_wise = true,                                                                      \
        .reads_output = true,                                                                      \
        .shape = layer_same_shape,                                                                 \
        .forward = name##_forward,                                                                 \
        .backward = name##_backward,                                                               \
    };
BY_OUTPUT(relu)
BY_OUTPUT(sigmoid)
BY_OUTPUT(tanh)

static void
gelu_forward(const struct layer *layer, const struct layer_io *io)
{
    (layer->spec.approximate ? vmath_gelu_tanh : vmath_gelu)(io->x, io->y,
                                                             io->rows * layer->out_size);
}

static void
gelu_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t n = io->rows * layer->out_size;
    if (io->dx != NULL && layer->fused.forward_done) {
        memcpy(io->dx, io->dy, n * sizeof *io->dx);
        vmath_multiply(io->x, io->dx, n);
    } else if (io->dx != NULL) {
        (layer->spec.approximate ? vmath_gelu_tanh_grad : vmath_gelu_grad)(io->x, io->dy, io->dx,
                                                                           n);
    }
}

static void
silu_forward(const struct layer *layer, const struct layer_io *io)
{
    vmath_silu(io->x, io->y, io->rows * layer->out_size);
}

static void
silu_backward(const struct layer *layer, const struct layer_io *io)
{
    if (io->dx != NULL)
        vmath_silu_grad(io->x, io->dy, io->dx, io->rows * layer->out_size);
}

static int
flatten_shape(struct layer *layer, struct why *why)
{
    (void)why;
    layer->out = (struct nn_shape){1, {layer->in_size}};
    return 0;
}

static void
flatten_nothing(const struct layer *layer, const struct layer_io *io)
{
    (void)layer;
    (void)io;
}

const struct layer_kind gelu_kind = {
    .word = "gelu",
    .by_rows = true,
    .shape = layer_same_shape,
    .forward = gelu_forward,
    .backward = gelu_backward,
};

const struct layer_kind silu_kind = {
    .word = "silu",
    .by_rows = true,
    .shape = layer_same_shape,
    .forward = silu_forward,
    .backward = silu_backward,
};

const struct layer_kind flatten_kind = {
    .word = "flatten",
    .element_wise = true,
    .is_view = true,
    .shape = flatten_shape,
    .forward = flatten_nothing,
    .backward = flatten_nothing,
};

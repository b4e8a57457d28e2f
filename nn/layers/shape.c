/* shape.c - how many elements a shape has, and what a window that slides over an image makes of one. */
#include <errno.h>

#include "nn/layers/layer.h"

size_t
layer_shape_size(const struct nn_shape *shape)
{
    size_t size = 1;
    for (size_t i = 0; i < shape->dims; i++) {
        if (shape->dim[i] == 0 || shape->dim[i] > (size_t)NN_PARAMS_MAX / size)
            return 0;
        size *= shape->dim[i];
    }
    return size;
}

bool
nn_shape_equal(const struct nn_shape *a, const struct nn_shape *b)
{
    bool equal = a->dims == b->dims;
    for (size_t i = 0; equal && i < a->dims; i++)
        equal = a->dim[i] == b->dim[i];
    return equal;
}

int
layer_same_shape(struct layer *layer, struct why *why)
{
    (void)why;
    layer->out = layer->in;
    return 0;
}

/* Outputs along one axis of a sliding window: floor((in + 2 pad - kernel) / stride) + 1. */
static size_t
window_count(size_t in, const struct nn_layer_spec *spec)
{
    return (in + 2 * (size_t)spec->pad - spec->kernel) / spec->stride + 1;
}

int
layer_check_image(const struct layer *layer, struct why *why)
{
    if (layer->in.dims == 3)
        return 0;
    return why_error(why, -EINVAL, "input has %zu dimension%s, expected 3: channels, height, width",
                     layer->in.dims, layer->in.dims == 1 ? "" : "s");
}

int
layer_window_shape(struct layer *layer, struct why *why)
{
    const struct nn_layer_spec *spec = &layer->spec;
    const size_t *dim = layer->in.dim;
    int rc = layer_check_image(layer, why);
    if (rc)
        return rc;
    if (spec->kernel == 0)
        why_set(why, "kernel = 0, expected at least 1");
    else if (spec->pad >= spec->kernel)
        why_set(why, "pad = %u, expected less than kernel = %u", spec->pad, spec->kernel);
    else if (spec->kernel > dim[1] + 2 * (size_t)spec->pad ||
             spec->kernel > dim[2] + 2 * (size_t)spec->pad)
        why_set(why, "kernel = %u is larger than the padded input %zu x %zu", spec->kernel,
                dim[1] + 2 * (size_t)spec->pad, dim[2] + 2 * (size_t)spec->pad);
    else {
        layer->out.dims = 3;
        layer->out.dim[1] = window_count(dim[1], spec);
        layer->out.dim[2] = window_count(dim[2], spec);
        return 0;
    }
    return -EINVAL;
}

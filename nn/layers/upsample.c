/* upsample.c - make images larger: each pixel becomes a square of kernel x kernel equal ones (nearest neighbour).
 *
 *     y[c][i][j] = x[c][i / kernel][j / kernel],  dx[c][i][j] = sum of dy over the square, row by row
 *
 * Behind it a convolution smooths the squares: with fewer artefacts than a transposed convolution (Odena, Dumoulin
 * and Olah: Deconvolution and Checkerboard Artifacts, Distill 2016). */
#include <errno.h>
#include <string.h>

#include "nn/layers/layer.h"

static int
upsample_shape(struct layer *layer, struct why *why)
{
    const size_t *dim = layer->in.dim, factor = layer->spec.kernel;
    int rc = layer_check_image(layer, why);
    if (rc)
        return rc;
    if (factor == 0 || dim[1] > NN_PARAMS_MAX / factor || dim[2] > NN_PARAMS_MAX / factor)
        return why_error(why, -EINVAL, "factor = %zu, expected at least 1 and sides of at most %d",
                         factor, NN_PARAMS_MAX);
    layer->out = (struct nn_shape){3, {dim[0], dim[1] * factor, dim[2] * factor}};
    return 0;
}

/* A row of the input, each element `factor` times. */
static void
widen(const float *x, size_t width, size_t factor, float *y)
{
    for (size_t j = 0; j < width; j++)
        for (size_t b = 0; b < factor; b++)
            *y++ = x[j];
}

static void
upsample_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t factor = layer->spec.kernel, in = layer->in.dim[2], out = layer->out.dim[2];
    float *y = io->y;
    for (size_t row = 0; row < io->rows * layer->in.dim[0] * layer->in.dim[1]; row++) {
        widen(io->x + row * in, in, factor, y);
        for (size_t a = 1; a < factor; a++)
            memcpy(y + a * out, y, out * sizeof *y);
        y += factor * out;
    }
}

static void
upsample_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t factor = layer->spec.kernel, in = layer->in.dim[2];
    const float *dy = io->dy;
    if (io->dx == NULL)
        return;
    memset(io->dx, 0, io->rows * layer->in_size * sizeof *io->dx);
    for (size_t row = 0; row < io->rows * layer->in.dim[0] * layer->in.dim[1]; row++)
        for (size_t a = 0; a < factor; a++)
            for (size_t j = 0; j < in; j++)
                for (size_t b = 0; b < factor; b++)
                    io->dx[row * in + j] += *dy++;
}

const struct layer_kind upsample_kind = {
    .word = "upsample",
    .shape = upsample_shape,
    .forward = upsample_forward,
    .backward = upsample_backward,
};

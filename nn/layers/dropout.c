/* dropout.c - dropout with inverted scaling (Srivastava et al., JMLR 2014): in training an element
 * survives with probability 1 - p and is divided by it; in evaluation nothing happens.
 *
 * Whether an element survives is a function of (seed, epoch, step, layer, row of the global batch,
 * element) alone, so it does not depend on how the batch is divided into shards, and back-propagation draws
 * the same mask again. */
#include <errno.h>
#include <string.h>

#include "nn/arithmetic/rng.h"
#include "nn/layers/layer.h"

static int
dropout_shape(struct layer *layer, struct why *why)
{
    float p = layer->spec.drop;
    if (!(p >= 0) || !(p < 1))
        return why_error(why, -EINVAL, "drop = %g, expected 0 or more and less than 1", (double)p);
    return layer_same_shape(layer, why);
}

/* y[n] = mask * x[n] / (1 - p) for one row. */
static void
mask_row(struct rng_key key, uint64_t row, float p, const float *x, float *y, size_t n)
{
    uint64_t threshold = (uint64_t)((double)p * 0x1p32); /* a word below it drops */
    float scale = 1.0f / (1.0f - p);
    for (size_t block = 0; 4 * block < n; block++) {
        uint32_t word[4];
        rng_block(key, row, block, word);
        for (size_t j = 0; j < 4 && 4 * block + j < n; j++)
            y[4 * block + j] = word[j] < threshold ? 0 : x[4 * block + j] * scale;
    }
}

static void
mask(const struct layer *layer, const struct layer_io *io, const float *x, float *y)
{
    size_t n = layer->out_size;
    const struct nn_context *context = io->context;
    if (!context->training || layer->spec.drop == 0) {
        if (x != y)
            memcpy(y, x, io->rows * n * sizeof *y);
        return;
    }
    struct rng_key key = rng_key(mix64_pair(context->seed, context->epoch), RNG_DROPOUT,
                                 context->step, layer->index);
    for (size_t r = 0; r < io->rows; r++)
        mask_row(key, context->first_row + r, layer->spec.drop, x + r * n, y + r * n, n);
}

static void
dropout_forward(const struct layer *layer, const struct layer_io *io)
{
    mask(layer, io, io->x, io->y);
}

static void
dropout_backward(const struct layer *layer, const struct layer_io *io)
{
    mask(layer, io, io->dy, io->dy);
}

const struct layer_kind dropout_kind = {
    .word = "dropout",
    .by_rows = true,
    .element_wise = true,
    .draws = true,
    .shape = dropout_shape,
    .forward = dropout_forward,
    .backward = dropout_backward,
};

/* embedding.c - sequences of tokens become sequences of vectors.
 *
 * embedding: input [T] whole numbers 0..tokens-1, output [T, units]: row x[t] of W [tokens, units]. Its gradient is
 *     the sum over rows and positions in order of dy, added to the row of the token. A number that is no token
 *     gives NaN, so that the step is refused as bad (loss.c). A dense layer may be tied to it and use W, too (Press and
 *     Wolf, EACL 2017): then the embedding, which comes last in back-propagation, adds both gradients before they
 *     go to the sink, so that each element goes there once.
 * positions: y[t] = x[t] + p[t] for x [T, C], so that later layers can tell positions apart. p is learned, W [T, C],
 *     or sinusoidal (Vaswani et al., NeurIPS 2017): p[t][2i] = sin(t / 10000^(2i/C)), p[t][2i+1] the cosine. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

static int
embedding_shape(struct layer *layer, struct why *why)
{
    const struct nn_layer_spec *spec = &layer->spec;
    if (layer->index != 0)
        why_set(why, "expected as the first layer: its inputs are numbers of tokens");
    else if (layer->in.dims != 1)
        why_set(why, "input has %zu dimensions, expected 1: tokens", layer->in.dims);
    else if (spec->units == 0)
        why_set(why, "units = 0, expected at least 1");
    else if (spec->tokens == 0 || spec->tokens > 1 << 24)
        why_set(why, "tokens = %u, expected 1..16777216", spec->tokens);
    else {
        layer->out = (struct nn_shape){2, {layer->in.dim[0], spec->units}};
        layer->weight = (struct nn_shape){2, {spec->tokens, spec->units}};
        layer->spec.no_bias = true;
        layer->spec.init = NN_INIT_SMALL;
        return 0;
    }
    return -EINVAL;
}

static size_t
embedding_scratch(const struct layer *layer, size_t rows)
{
    const struct layer *tied = layer->tied;
    return layer->weight_count + (tied != NULL ? tied->kind->scratch(tied, rows) : 0);
}

/* The token that x stands for, or `tokens` when there is none. */
static size_t
token_of(const struct layer *layer, float x)
{
    size_t tokens = layer->spec.tokens;
    if (!(x >= 0) || !(x < (float)tokens))
        return tokens;
    size_t token = (size_t)x;
    return (float)token == x ? token : tokens;
}

static void
embedding_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t n = layer->spec.units;
    const float *w = io->params + layer->weight_first;
    for (size_t i = 0; i < io->rows * layer->in_size; i++) {
        size_t token = token_of(layer, io->x[i]);
        if (token < layer->spec.tokens)
            memcpy(io->y + i * n, w + token * n, n * sizeof *w);
        else
            for (size_t k = 0; k < n; k++)
                io->y[i * n + k] = NAN;
    }
}

struct collector {
    float *g;
    size_t first;
};

static void
collect(void *ctx, size_t first, const float *g, size_t n)
{
    const struct collector *to = ctx;
    vmath_sum_rows(g, n, 1, to->g + (first - to->first), n);
}

/* Add the gradient of the tied layer to that in scratch. */
static void
tied_backward(const struct layer *layer, const struct layer_io *io)
{
    struct collector to = {io->scratch, layer->weight_first};
    const struct nn_sink sink = {.add = collect, .ctx = &to};
    struct layer_io other = *io;
    other.x = io->tied_x;
    other.dy = io->held;
    other.scratch = io->scratch + layer->weight_count;
    other.sink = &sink;
    dense_weights_backward(layer->tied, &other);
}

static void
embedding_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t n = layer->spec.units;
    if (io->sink == NULL)
        return;
    memset(io->scratch, 0, layer->weight_count * sizeof *io->scratch);
    for (size_t i = 0; i < io->rows * layer->in_size; i++) {
        size_t token = token_of(layer, io->x[i]);
        if (token < layer->spec.tokens)
            vmath_sum_rows(io->dy + i * n, n, 1, io->scratch + token * n, n);
    }
    if (layer->tied != NULL)
        tied_backward(layer, io);
    layer_sink(io, layer->weight_first, io->scratch, layer->weight_count);
}

static double
lookup_flops(const struct layer *layer)
{
    (void)layer;
    return 0;
}

static int
positions_shape(struct layer *layer, struct why *why)
{
    if (layer->in.dims != 2)
        return why_error(why, -EINVAL, "input has %zu dimension%s, expected 2: positions, features",
                         layer->in.dims, layer->in.dims == 1 ? "" : "s");
    if (!layer->spec.sinusoidal)
        layer->weight = layer->in;
    layer->spec.no_bias = true;
    layer->spec.init = NN_INIT_SMALL;
    return layer_same_shape(layer, why);
}

static size_t
positions_scratch(const struct layer *layer, size_t rows)
{
    (void)rows;
    return layer->in_size;
}

static void
sines(float *p, size_t positions, size_t n)
{
    static const double quarter = 0x1.921fb54442d18p0; /* pi / 2 */
    for (size_t k = 0; k < n; k++) {
        double rate = vmath_power(10000, -(double)(k - k % 2) / (double)n);
        for (size_t t = 0; t < positions; t++)
            p[t * n + k] = (float)vmath_sin((double)t * rate + (k % 2 ? quarter : 0));
    }
}

static void
positions_forward(const struct layer *layer, const struct layer_io *io)
{
    size_t n = layer->in_size;
    const float *p = layer->spec.sinusoidal ? io->scratch : io->params + layer->weight_first;
    if (layer->spec.sinusoidal)
        sines(io->scratch, layer->in.dim[0], layer->in.dim[1]);
    for (size_t r = 0; r < io->rows; r++)
        vmath_add(io->x + r * n, p, io->y + r * n, n);
}

static void
positions_backward(const struct layer *layer, const struct layer_io *io)
{
    size_t n = layer->in_size;
    if (io->sink == NULL || layer->weight_count == 0)
        return;
    memset(io->scratch, 0, n * sizeof *io->scratch);
    vmath_sum_rows(io->dy, n, io->rows, io->scratch, n);
    layer_sink(io, layer->weight_first, io->scratch, n);
}

const struct layer_kind embedding_kind = {
    .word = "embedding",
    .by_rows = true,
    .shape = embedding_shape,
    .scratch = embedding_scratch,
    .flops = lookup_flops,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

const struct layer_kind positions_kind = {
    .word = "positions",
    .by_rows = true,
    .element_wise = true,
    .shape = positions_shape,
    .scratch = positions_scratch,
    .forward = positions_forward,
    .backward = positions_backward,
};

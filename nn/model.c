/* model.c - a list of layers becomes shapes, tensors and offsets; a pass is the memory of one block of
 * rows on its way through them.
 *
 * A pass is one block: the struct, the batch, one buffer per layer that neither is a view nor works in
 * place (fewer when some are computed again: segment.c; in evaluation two that alternate, and one more for each residual that holds one), what kinds save, two gradient buffers that alternate, scratch.
 * An element-wise layer works in place unless its input is the batch or a layer needs that buffer again
 * in back-propagation. */
#include "nn/nn.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/blas.h"
#include "nn/layer.h"
#include "nn/loss.h"
#include "nn/rng.h"
#include "nn/vmath.h"

enum { ALIGN = 64 };

struct nn_model {
    struct nn_shape input;
    size_t input_size;
    size_t layer_count, tensor_count, param_count;
    struct loss_spec loss;
    struct layer layer[NN_LAYERS_MAX];
    struct nn_tensor tensor[4 * NN_LAYERS_MAX];
};

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

static const struct layer_kind *const kinds[NN_KINDS] = {
    [NN_DENSE] = &dense_kind,
    [NN_CONV2D] = &conv2d_kind,
    [NN_MAXPOOL] = &maxpool_kind,
    [NN_AVGPOOL] = &avgpool_kind,
    [NN_FLATTEN] = &flatten_kind,
    [NN_RELU] = &relu_kind,
    [NN_SIGMOID] = &sigmoid_kind,
    [NN_TANH] = &tanh_kind,
    [NN_DROPOUT] = &dropout_kind,
    [NN_LAYERNORM] = &layernorm_kind,
    [NN_RMSNORM] = &rmsnorm_kind,
    [NN_GELU] = &gelu_kind,
    [NN_SILU] = &silu_kind,
    [NN_EMBEDDING] = &embedding_kind,
    [NN_POSITIONS] = &positions_kind,
    [NN_RESIDUAL] = &residual_kind,
    [NN_RESIDUAL_END] = &residual_end_kind,
    [NN_ATTENTION] = &attention_kind,
    [NN_GLOBALPOOL] = &globalpool_kind,
    [NN_BATCHNORM] = &batchnorm_kind,
    [NN_RNN] = &rnn_kind,
    [NN_LSTM] = &lstm_kind,
    [NN_GRU] = &gru_kind,
    [NN_UPSAMPLE] = &upsample_kind,
};

/* Product of the dimensions, or 0 when one is 0 or the product exceeds NN_PARAMS_MAX. */
static size_t
shape_size(const struct nn_shape *shape)
{
    size_t size = 1;
    for (size_t i = 0; i < shape->dims; i++) {
        if (shape->dim[i] == 0 || shape->dim[i] > (size_t)NN_PARAMS_MAX / size)
            return 0;
        size *= shape->dim[i];
    }
    return size;
}

static bool
shape_equal(const struct nn_shape *a, const struct nn_shape *b)
{
    bool equal = a->dims == b->dims;
    for (size_t i = 0; equal && i < a->dims; i++)
        equal = a->dim[i] == b->dim[i];
    return equal;
}

int
layer_same_shape(struct layer *layer, char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    layer->out = layer->in;
    return 0;
}

size_t
layer_window_count(size_t in, const struct nn_layer_spec *spec)
{
    return (in + 2 * (size_t)spec->pad - spec->kernel) / spec->stride + 1;
}

int
layer_window_shape(struct layer *layer, char *why, size_t why_size)
{
    const struct nn_layer_spec *spec = &layer->spec;
    const size_t *dim = layer->in.dim;
    if (layer->in.dims != 3)
        snprintf(why, why_size, "input has %zu dimension%s, expected 3: channels, height, width",
                 layer->in.dims, layer->in.dims == 1 ? "" : "s");
    else if (spec->kernel == 0)
        snprintf(why, why_size, "kernel = 0, expected at least 1");
    else if (spec->pad >= spec->kernel)
        snprintf(why, why_size, "pad = %u, expected less than kernel = %u", spec->pad,
                 spec->kernel);
    else if (spec->kernel > dim[1] + 2 * (size_t)spec->pad ||
             spec->kernel > dim[2] + 2 * (size_t)spec->pad)
        snprintf(why, why_size, "kernel = %u is larger than the padded input %zu x %zu",
                 spec->kernel, dim[1] + 2 * (size_t)spec->pad, dim[2] + 2 * (size_t)spec->pad);
    else {
        layer->out.dims = 3;
        layer->out.dim[1] = layer_window_count(dim[1], spec);
        layer->out.dim[2] = layer_window_count(dim[2], spec);
        return 0;
    }
    return -EINVAL;
}

/* "line 12: layer 3 (dense): ..." */
__attribute__((format(printf, 4, 5))) static int
refuse(const struct layer *layer, char *why, size_t why_size, const char *format, ...)
{
    char text[224];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *word = layer->kind == NULL ? "?" : layer->kind->word;
    if (layer->spec.line != 0)
        snprintf(why, why_size, "line %u: layer %s (%s): %s", layer->spec.line, layer->path, word,
                 text);
    else
        snprintf(why, why_size, "layer %s (%s): %s", layer->path, word, text);
    return -EINVAL;
}

/* Where in the lists within lists the next layer stands. */
struct nest {
    unsigned depth, at[NN_NEST_MAX + 1]; /* at[0..depth]: position in each list */
    unsigned open[NN_NEST_MAX];          /* index of each residual that is open */
};

static void
path_write(const struct nest *nest, char path[NN_PATH_MAX])
{
    int used = 0;
    for (unsigned i = 0; i <= nest->depth; i++)
        used += snprintf(path + used, NN_PATH_MAX - (size_t)used, "%s%u", i > 0 ? "." : "",
                         nest->at[i]);
}

static int
residual_open(struct nest *nest, struct layer *layer, char *why, size_t why_size)
{
    if (nest->depth == NN_NEST_MAX)
        return refuse(layer, why, why_size, "nested more than %d deep", NN_NEST_MAX);
    nest->open[nest->depth++] = layer->index;
    nest->at[nest->depth] = 0;
    return 0;
}

static int
residual_close(struct nest *nest, struct nn_model *model, struct layer *end, char *why,
               size_t why_size)
{
    struct layer *begin = &model->layer[nest->open[nest->depth]];
    begin->partner = end->index;
    end->partner = begin->index;
    if (end->index == begin->index + 1)
        return refuse(begin, why, why_size, "no layers, expected at least one");
    if (!shape_equal(&begin->in, &end->in))
        return refuse(
            begin, why, why_size,
            "its layers make another shape of their input, so they cannot be added to it");
    return 0;
}

/* Path and position of a layer before it is looked at, and of the next one. */
static int
layer_place(struct nest *nest, struct layer *layer, enum nn_kind kind, char *why, size_t why_size)
{
    if (kind == NN_RESIDUAL_END && nest->depth == 0) {
        path_write(nest, layer->path);
        return refuse(layer, why, why_size, "the end of no residual");
    }
    nest->depth -= kind == NN_RESIDUAL_END;
    path_write(nest, layer->path);
    nest->at[nest->depth] += kind != NN_RESIDUAL;
    return 0;
}

static void
name_write(struct layer *layer)
{
    char path[NN_PATH_MAX];
    memcpy(path, layer->path, sizeof path);
    snprintf(layer->name, sizeof layer->name, "%s.%s", path, layer->kind->word);
}

static int
layer_init(struct layer *layer, const struct nn_layer_spec *spec, const struct nn_shape *in,
           char *why, size_t why_size)
{
    char text[192];
    layer->spec = *spec;
    layer->in = *in;
    layer->in_size = shape_size(in);
    if ((unsigned)spec->kind >= NN_KINDS)
        return refuse(layer, why, why_size, "kind = %d, expected 0..%d", (int)spec->kind,
                      NN_KINDS - 1);
    layer->kind = kinds[spec->kind];
    name_write(layer);
    if (spec->stride == 0)
        layer->spec.stride = spec->kind == NN_CONV2D || spec->kernel == 0 ? 1 : spec->kernel;
    if (layer->kind->shape(layer, text, sizeof text) != 0)
        return refuse(layer, why, why_size, "%s", text);
    layer->out_size = shape_size(&layer->out);
    layer->weight_count = layer->weight.dims == 0 ? 0 : shape_size(&layer->weight);
    if (layer->out_size == 0 || (layer->weight.dims != 0 && layer->weight_count == 0))
        return refuse(layer, why, why_size, "too large, expected at most %d elements",
                      NN_PARAMS_MAX);
    return 0;
}

static void
tensor_add(struct nn_model *model, struct layer *layer, const char *role,
           const struct nn_shape *shape)
{
    struct nn_tensor *tensor = &model->tensor[model->tensor_count++];
    bool matrix = layer->weight.dims > 1; /* a norm's is a vector, each element from one to one */
    size_t fan_in = matrix ? layer->weight_count / layer->weight.dim[0] : 1;
    size_t fan_out = matrix ? layer->weight_count / layer->weight.dim[1] : 1;
    *tensor = (struct nn_tensor){
        .dims = shape->dims,
        .first = model->param_count,
        .count = shape_size(shape),
        .fan_in = fan_in,
        .fan_out = fan_out,
        .layer = layer->index,
    };
    memcpy(tensor->dim, shape->dim, sizeof tensor->dim);
    snprintf(tensor->name, sizeof tensor->name, "%s.%s.%s", layer->path, layer->kind->word, role);
    model->param_count += tensor->count;
}

/* As torch.nn.LSTM has them with one layer. */
static void
recurrent_tensors_add(struct nn_model *model, struct layer *layer)
{
    size_t gates = layer->weight.dim[0], units = layer->spec.units;
    const struct nn_shape hidden = {2, {gates, units}}, bias = {1, {gates}};
    tensor_add(model, layer, "weight_ih_l0", &layer->weight);
    tensor_add(model, layer, "weight_hh_l0", &hidden);
    layer->bias_first = model->param_count;
    tensor_add(model, layer, "bias_ih_l0", &bias);
    tensor_add(model, layer, "bias_hh_l0", &bias);
    for (size_t t = model->tensor_count - 4; t < model->tensor_count; t++)
        model->tensor[t].fan_in = units;
}

static int
tie(struct layer *table, struct layer *dense, char *why, size_t why_size)
{
    if (table->kind != &embedding_kind || !shape_equal(&table->weight, &dense->weight))
        return refuse(
            dense, why, why_size,
            "tied to no embedding of %zu tokens and %zu units, expected as the first layer",
            dense->weight.dim[0], dense->weight.dim[1]);
    if (table->tied != NULL)
        return refuse(dense, why, why_size, "another layer is tied to the embedding");
    dense->weight_first = table->weight_first;
    dense->tied = table;
    table->tied = dense;
    table->partner = dense->index;
    return 0;
}

static int
params_place(struct nn_model *model, struct layer *layer, char *why, size_t why_size)
{
    layer->wants_dx = model->param_count > 0;
    if (layer->weight_count == 0)
        return 0;
    layer->weight_first = model->param_count;
    if (layer->kind == &dense_kind && layer->spec.tied) {
        int rc = tie(&model->layer[0], layer, why, why_size);
        if (rc != 0)
            return rc;
    } else if (layer->kind->recurrent) {
        recurrent_tensors_add(model, layer);
    } else {
        tensor_add(model, layer, "weight", &layer->weight);
    }
    if (!layer->kind->recurrent)
        layer->bias_first = model->param_count;
    if (!layer->spec.no_bias && !layer->kind->recurrent)
        tensor_add(model, layer, "bias", &(struct nn_shape){1, {layer->weight.dim[0]}});
    for (int i = 0; layer->kind->running && i < 2; i++) {
        tensor_add(model, layer, i == 0 ? "running_mean" : "running_var", &layer->weight);
        model->tensor[model->tensor_count - 1].average = layer->spec.momentum;
    }
    if (model->param_count > NN_PARAMS_MAX)
        return refuse(layer, why, why_size, "more than %d parameters", NN_PARAMS_MAX);
    return 0;
}

/* Which layers write over their input: see the top of the file. */
static void
places_choose(struct nn_model *model)
{
    bool needed = true; /* the buffer we stand on, beginning with the batch */
    for (size_t l = 0; l < model->layer_count; l++) {
        struct layer *layer = &model->layer[l];
        layer->in_place = layer->kind->is_view || (layer->kind->element_wise && !needed);
        if (layer->kind == &residual_kind)
            needed = true; /* at its end */
        else if (!layer->kind->is_view)
            needed = layer->kind->reads_output;
    }
}

static int
loss_check(const struct nn_model *model, char *why, size_t why_size)
{
    const struct layer *last = &model->layer[model->layer_count - 1];
    enum nn_loss loss = model->loss.kind;
    if ((unsigned)loss > NN_COUNT) {
        snprintf(why, why_size, "loss = %d, expected 0..%d", (int)loss, NN_COUNT);
        return -EINVAL;
    }
    bool sequence = loss == NN_CROSS_ENTROPY && last->out.dims == 2;
    if (last->out.dims != 1 && !sequence)
        return refuse(last, why, why_size,
                      "the last output has %zu dimensions, expected 1; add flatten",
                      last->out.dims);
    if (loss == NN_LOGISTIC && last->out_size != 1)
        return refuse(last, why, why_size, "%zu outputs, the logistic loss expects 1",
                      last->out_size);
    if (loss == NN_CROSS_ENTROPY && last->out.dim[last->out.dims - 1] < 2)
        return refuse(last, why, why_size, "1 output, the cross-entropy loss expects at least 2");
    if (model->param_count == 0)
        return refuse(last, why, why_size, "the model has no parameters to train");
    return 0;
}

static int
model_init(struct nn_model *model, const struct nn_layer_spec *layers, char *why, size_t why_size)
{
    const struct nn_shape *in = &model->input;
    struct nest nest = {0};
    for (unsigned l = 0; l < model->layer_count; l++) {
        struct layer *layer = &model->layer[l];
        layer->index = l;
        int rc = layer_place(&nest, layer, layers[l].kind, why, why_size);
        if (rc == 0)
            rc = layer_init(layer, &layers[l], in, why, why_size);
        if (rc == 0 && layer->kind == &residual_kind)
            rc = residual_open(&nest, layer, why, why_size);
        if (rc == 0 && layer->kind == &residual_end_kind)
            rc = residual_close(&nest, model, layer, why, why_size);
        if (rc == 0)
            rc = params_place(model, layer, why, why_size);
        if (rc != 0)
            return rc;
        in = &layer->out;
    }
    if (nest.depth > 0)
        return refuse(&model->layer[nest.open[nest.depth - 1]], why, why_size, "has no end");
    places_choose(model);
    int rc = loss_check(model, why, why_size);
    model->loss.outputs = in->dim[in->dims - 1];
    model->loss.positions = in->dims == 2 ? in->dim[0] : 1;
    return rc;
}

int
nn_model_new(struct nn_model **out, const struct nn_shape *input,
             const struct nn_layer_spec *layers, size_t layer_count, enum nn_loss loss, char *why,
             size_t why_size)
{
    *out = NULL;
    if (input->dims < 1 || input->dims >= NN_DIMS_MAX || shape_size(input) == 0) {
        snprintf(why, why_size, "input: expected 1..%d dimensions of 1.., at most %d elements",
                 NN_DIMS_MAX - 1, NN_PARAMS_MAX);
        return -EINVAL;
    }
    if (layer_count < 1 || layer_count > NN_LAYERS_MAX) {
        snprintf(why, why_size, "%zu layers, expected 1..%d", layer_count, NN_LAYERS_MAX);
        return -EINVAL;
    }
    struct nn_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        snprintf(why, why_size, "out of memory");
        return -ENOMEM;
    }
    model->input = *input;
    model->input_size = shape_size(input);
    model->layer_count = layer_count;
    model->loss.kind = loss;
    int rc = model_init(model, layers, why, why_size);
    if (rc != 0)
        nn_model_destroy(&model);
    *out = model;
    return rc;
}

void
nn_model_destroy(struct nn_model **model)
{
    free(*model);
    *model = NULL;
}

size_t
nn_layer_count(const struct nn_model *model)
{
    return model->layer_count;
}

const struct layer *
nn_model_layer(const struct nn_model *model, size_t index)
{
    assert(index < model->layer_count);
    return &model->layer[index];
}

const char *
nn_layer_name(const struct nn_model *model, size_t layer)
{
    return nn_model_layer(model, layer)->name;
}

const struct nn_shape *
nn_layer_output(const struct nn_model *model, size_t layer)
{
    return &nn_model_layer(model, layer)->out;
}

double
nn_layer_flops(const struct nn_model *model, size_t index)
{
    const struct layer *layer = nn_model_layer(model, index);
    if (layer->kind->is_view)
        return 0;
    return layer->kind->flops == NULL ? (double)layer->out_size : layer->kind->flops(layer);
}

size_t
nn_param_count(const struct nn_model *model)
{
    return model->param_count;
}

size_t
nn_tensor_count(const struct nn_model *model)
{
    return model->tensor_count;
}

const struct nn_tensor *
nn_tensor(const struct nn_model *model, size_t index)
{
    assert(index < model->tensor_count);
    return &model->tensor[index];
}

size_t
nn_input_size(const struct nn_model *model)
{
    return model->input_size;
}

size_t
nn_output_size(const struct nn_model *model)
{
    return model->layer[model->layer_count - 1].out_size;
}

size_t
nn_label_count(const struct nn_model *model)
{
    return model->loss.positions;
}

void
nn_model_smooth(struct nn_model *model, float share)
{
    assert(share >= 0);
    assert(share < 1);
    model->loss.smoothing = share;
}

void
nn_model_recompute(struct nn_model *model)
{
    segment_plan(model->layer, model->layer_count);
}

/* He when the first activation after the layer, and before the next parameters, is relu. */
static enum nn_init
init_choose(const struct nn_model *model, const struct layer *layer)
{
    if (layer->spec.init != NN_INIT_AUTO)
        return layer->spec.init;
    for (size_t l = layer->index + 1u; l < model->layer_count; l++) {
        const struct layer *next = &model->layer[l];
        if (next->kind == &relu_kind)
            return NN_INIT_HE;
        if (next->weight_count > 0 || next->kind == &sigmoid_kind || next->kind == &tanh_kind)
            break;
    }
    return NN_INIT_GLOROT;
}

/* An initial weight from a uniform number in (0, 1). */
static double
element_draw(const struct nn_tensor *tensor, enum nn_init init, double u)
{
    double in = (double)tensor->fan_in, out = (double)tensor->fan_out;
    if (init == NN_INIT_ONE)
        return 1;
    if (init == NN_INIT_SMALL)
        return 0.02 * vmath_normal(u);
    if (init == NN_INIT_UNITS)
        return (2 * u - 1) / sqrt(in);
    return init == NN_INIT_HE ? sqrt(2.0 / in) * vmath_normal(u)
                              : sqrt(6.0 / (in + out)) * (2 * u - 1);
}

static void
tensor_fill(const struct nn_tensor *tensor, enum nn_init init, struct rng_key key, float *w)
{
    for (size_t i = 0; i < tensor->count; i += 4) {
        uint32_t word[4];
        rng_block(key, 0, i / 4, word);
        for (size_t j = 0; j < 4 && i + j < tensor->count; j++) {
            double u = rng_uniform(word[j]);
            w[i + j] = (float)element_draw(tensor, init, u);
        }
    }
}

void
nn_init_params(const struct nn_model *model, uint64_t seed, float *params)
{
    memset(params, 0, model->param_count * sizeof *params);
    for (size_t t = 0; t < model->tensor_count; t++) {
        const struct nn_tensor *tensor = &model->tensor[t];
        const struct layer *layer = &model->layer[tensor->layer];
        enum nn_init init = init_choose(model, layer);
        bool variance = tensor->average > 0 && t > 0 && model->tensor[t - 1].average > 0 &&
                        model->tensor[t - 1].layer == tensor->layer;
        bool drawn = layer->kind->recurrent || tensor->first == layer->weight_first;
        if ((variance || drawn) && init != NN_INIT_ZERO)
            tensor_fill(tensor, init, rng_key(seed, RNG_INIT, t, 0), params + tensor->first);
    }
}

/* Hands out aligned pieces of a block; with no block yet it only counts. */
struct carver {
    char *base;
    size_t used;
    bool overflow;
};

static void *
carve(struct carver *carver, size_t rows, size_t row_bytes)
{
    size_t at = carver->used, bytes;
    if (__builtin_mul_overflow(rows, row_bytes, &bytes) || bytes > SIZE_MAX / 2 - at - ALIGN) {
        carver->overflow = true;
        return NULL;
    }
    carver->used = (at + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return carver->base == NULL ? NULL : carver->base + at;
}

/* Buffers of an evaluation: one for each residual that is open, what a layer reads and what it writes. */
enum { SPARES = NN_NEST_MAX + 2 };

static size_t
nest_depth(const struct nn_model *model)
{
    size_t depth = 0, deepest = 0;
    for (size_t l = 0; l < model->layer_count; l++) {
        depth += model->layer[l].kind == &residual_kind;
        depth -= model->layer[l].kind == &residual_end_kind;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

/* The first spare that is neither `at` nor held. */
static float *
spare_choose(float *const *spare, const float *at, float *const *held, size_t depth)
{
    for (;; spare++) {
        bool used = *spare == at;
        for (size_t i = 0; i < depth; i++)
            used |= *spare == held[i];
        if (!used)
            return *spare;
    }
}

/* Of an evaluation. */
static void
spares_lay(struct nn_pass *pass, struct carver *carver, size_t largest)
{
    const struct nn_model *model = pass->model;
    float *at = pass->batch.x, *spare[SPARES] = {0}, *held[NN_NEST_MAX] = {0};
    size_t depth = 0, spares = nest_depth(model) + 2;
    for (size_t i = 0; i < spares; i++)
        spare[i] = carve(carver, pass->rows_max, largest * sizeof(float));
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layer[l];
        if (!layer->in_place && carver->base != NULL)
            at = spare_choose(spare, at, held, depth);
        if (layer->kind == &residual_kind)
            held[depth++] = at;
        depth -= layer->kind == &residual_end_kind;
        pass->out[l] = at;
    }
}

static void
output_lay(struct nn_pass *pass, struct carver *carver, size_t l)
{
    const struct layer *layer = &pass->model->layer[l];
    if (layer->in_place)
        pass->out[l] = l == 0 ? pass->batch.x : pass->out[l - 1];
    else
        pass->out[l] = carve(carver, pass->rows_max, layer->out_size * sizeof(float));
}

static void
saved_lay(struct nn_pass *pass, struct carver *carver, size_t l)
{
    size_t bytes = segment_saved(&pass->model->layer[l]);
    if (bytes > 0)
        pass->saved[l] = carve(carver, pass->rows_max, bytes);
}

/* What is kept, then the insides of all segments, each from the same place on. */
static void
outputs_lay(struct nn_pass *pass, struct carver *carver)
{
    const struct nn_model *model = pass->model;
    for (size_t l = 0; l < model->layer_count; l++) {
        if (model->layer[l].kept && !model->layer[l].in_place)
            output_lay(pass, carver, l);
        if (segment_pins(&model->layer[l]))
            saved_lay(pass, carver, l);
    }
    size_t first = carver->used, end = first;
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layer[l];
        if (l > 0 && layer->segment != model->layer[l - 1].segment)
            carver->used = first;
        if (!layer->kept || layer->in_place)
            output_lay(pass, carver, l);
        if (!segment_pins(layer))
            saved_lay(pass, carver, l);
        end = carver->used > end ? carver->used : end;
    }
    carver->used = end;
}

/* A multiple of a cache line. */
size_t
nn_team_scratch(const struct nn_model *model, size_t rows_max)
{
    size_t most = 0;
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layer[l];
        size_t need = layer->kind->scratch == NULL ? 0 : layer->kind->scratch(layer, rows_max);
        most = need > most ? need : most;
    }
    return (most + ALIGN - 1) / ALIGN * ALIGN;
}

void
nn_pass_team(struct nn_pass *pass, const struct nn_team *team)
{
    pass->team = team;
}

/* Set every pointer of the pass; the bytes used, or SIZE_MAX. */
static size_t
pass_lay(struct nn_pass *pass, struct carver *carver)
{
    const struct nn_model *model = pass->model;
    size_t out = nn_output_size(model), largest = 0;
    for (size_t l = 0; l < model->layer_count; l++)
        largest = model->layer[l].out_size > largest ? model->layer[l].out_size : largest;
    carve(carver, 1, sizeof *pass);
    pass->batch.x = carve(carver, pass->rows_max, model->input_size * sizeof(float));
    pass->batch.label = carve(carver, pass->rows_max, model->loss.positions * sizeof(int32_t));
    if (model->loss.positions == 1)
        pass->batch.target = carve(carver, pass->rows_max, out * sizeof(float));
    if (pass->training)
        outputs_lay(pass, carver);
    else
        spares_lay(pass, carver, largest);
    pass->grad[0] = carve(carver, pass->rows_max, (pass->training ? largest : out) * sizeof(float));
    pass->grad[1] = carve(carver, pass->training ? pass->rows_max : 0, largest * sizeof(float));
    pass->scratch = carve(carver, 1, nn_team_scratch(model, pass->rows_max) * sizeof(float));
    return carver->overflow ? SIZE_MAX : carver->used;
}

size_t
nn_pass_bytes(const struct nn_model *model, size_t rows_max, bool training)
{
    struct nn_pass pass = {.model = model, .rows_max = rows_max, .training = training};
    return pass_lay(&pass, &(struct carver){0});
}

int
nn_pass_new(struct nn_pass **out, const struct nn_model *model, size_t rows_max, bool training)
{
    size_t bytes = nn_pass_bytes(model, rows_max, training);
    char *block = bytes == SIZE_MAX ? NULL : aligned_alloc(ALIGN, bytes);
    *out = NULL;
    if (block == NULL)
        return -ENOMEM;
    struct nn_pass *pass = (void *)block;
    *pass = (struct nn_pass){.model = model, .rows_max = rows_max, .training = training};
    pass_lay(pass, &(struct carver){.base = block});
    *out = pass;
    return 0;
}

void
nn_pass_destroy(struct nn_pass **pass)
{
    free(*pass);
    *pass = NULL;
}

struct nn_batch *
nn_pass_batch(struct nn_pass *pass)
{
    return &pass->batch;
}

const float *
nn_pass_output(const struct nn_pass *pass)
{
    return pass->out[pass->model->layer_count - 1];
}

/* A call of a layer that a team shares out. */
struct share {
    const struct layer *layer;
    void (*call)(const struct layer *layer, const struct layer_io *io);
    struct layer_io io;
    const struct nn_team *team;
    size_t scratch;
    bool units; /* rather than rows */
};

static void
share_part(void *arg, size_t i)
{
    const struct share *share = arg;
    const struct layer *layer = share->layer;
    struct layer_io io = share->io;
    struct nn_context context = *io.context;
    size_t parts = share->team->parts, first = io.rows * i / parts;
    io.scratch = share->team->scratch + i * share->scratch;
    if (share->units) {
        io.part = (unsigned)i;
        io.parts = (unsigned)parts;
    } else {
        size_t saved = layer->kind->saved == NULL ? 0 : layer->kind->saved(layer);
        io.rows = io.rows * (i + 1) / parts - first;
        io.x += first * layer->in_size;
        io.y += first * layer->out_size;
        io.dy = io.dy == NULL ? NULL : io.dy + first * layer->out_size;
        io.dx = io.dx == NULL ? NULL : io.dx + first * layer->in_size;
        io.saved = io.saved == NULL ? NULL : (char *)io.saved + first * saved;
        io.held = io.held == NULL ? NULL : io.held + first * layer->out_size;
        context.first_row += first;
        io.context = &context;
    }
    if (share->units || io.rows > 0)
        share->call(layer, &io);
}

/* Rows of a product of OpenBLAS may depend on one another. */
static bool
divisible(const struct layer *layer, bool units)
{
    return (units ? layer->kind->by_units : layer->kind->by_rows) &&
           !(blas_used && layer->kind == &dense_kind);
}

static void
call(struct nn_pass *pass, const struct layer *layer,
     void (*function)(const struct layer *layer, const struct layer_io *io),
     const struct layer_io *io, bool units)
{
    struct share share = {layer, function, *io, pass->team, 0, units};
    if (pass->team == NULL || !divisible(layer, units)) {
        function(layer, io);
        return;
    }
    share.scratch = nn_team_scratch(pass->model, pass->rows_max);
    pass->team->run(pass->team->ctx, share_part, &share, pass->team->parts);
}

static void
forward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
        const struct nn_context *context)
{
    const struct layer *layer = &model->layer[l];
    pass->live = layer->segment;
    const struct layer_io io = {
        .rows = pass->batch.rows,
        .x = l == 0 ? pass->batch.x : pass->out[l - 1],
        .y = pass->out[l],
        .params = params,
        .context = context,
        .saved = pass->saved[l],
        .held = pass->out[layer->partner],
        .scratch = pass->scratch,
    };
    call(pass, layer, layer->kind->forward, &io, false);
}

void
nn_forward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
           const struct nn_context *context)
{
    assert(model == pass->model);
    assert(l < model->layer_count);
    assert(pass->batch.rows <= pass->rows_max);
    forward(model, l, pass, params, context);
}

/* Compute the insides of the segment of layer `l` again, unless they are there. */
static void
revive(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
       const struct nn_context *context)
{
    size_t first = l, end = l + 1;
    if (pass->live == model->layer[l].segment)
        return;
    while (first > 0 && model->layer[first - 1].segment == model->layer[l].segment)
        first--;
    while (end < model->layer_count && model->layer[end].segment == model->layer[l].segment)
        end++;
    const struct layer *last = &model->layer[end - 1];
    end -= last->kept && !last->in_place && segment_saved(last) == 0; /* what it gave is there */
    pass->live = last->segment;
    for (; first < end; first++)
        forward(model, first, pass, params, context);
}

void
nn_loss(const struct nn_model *model, struct nn_pass *pass, float scale, struct nn_result *out)
{
    assert(model == pass->model);
    pass->grad_at = 0;
    pass->scale = scale;
    loss_rows(&model->loss, &pass->batch, nn_pass_output(pass), scale, pass->grad[0], out);
}

static void
backward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
         const struct nn_context *context, const struct nn_sink *sink, float *dx)
{
    const struct layer *layer = &model->layer[l];
    struct layer_io io = {
        .rows = pass->batch.rows,
        .x = l == 0 ? pass->batch.x : pass->out[l - 1],
        .y = pass->out[l],
        .dy = pass->grad[pass->grad_at],
        .params = params,
        .context = context,
        .saved = pass->saved[l],
        .scale = pass->scale,
        .held = pass->saved[layer->partner],
        .tied_x = layer->tied != NULL && layer->partner > 0 ? pass->out[layer->partner - 1] : NULL,
        .scratch = pass->scratch,
        .sink = sink,
    };
    if (pass->team == NULL || !layer->kind->by_rows) {
        io.dx = dx;
        layer->kind->backward(layer, &io);
        return;
    }
    if (sink != NULL && layer->weight_count > 0)
        call(pass, layer, layer->kind->backward, &io, true);
    io.sink = NULL;
    io.dx = dx;
    if (dx != NULL)
        call(pass, layer, layer->kind->backward, &io, false);
}

void
nn_backward(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
            const struct nn_context *context, const struct nn_sink *sink)
{
    assert(model == pass->model);
    assert(pass->training);
    assert(l < model->layer_count);
    const struct layer *layer = &model->layer[l];
    revive(model, l, pass, params, context);
    unsigned next = layer->kind->element_wise ? pass->grad_at : pass->grad_at ^ 1;
    if (layer->wants_dx || (sink && layer->weight_count > 0))
        backward(model, l, pass, params, context, sink, layer->wants_dx ? pass->grad[next] : NULL);
    pass->grad_at = next;
}

void
nn_gradient(const struct nn_model *model, size_t l, struct nn_pass *pass, const float *params,
            const struct nn_context *context, const struct nn_sink *sink)
{
    assert(model == pass->model);
    assert(pass->training);
    assert(l < model->layer_count);
    if (model->layer[l].weight_count == 0)
        return;
    revive(model, l, pass, params, context);
    backward(model, l, pass, params, context, sink, NULL);
}

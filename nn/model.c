/* model.c - a list of layers becomes a model: checked, each layer with its shapes, its place in the lists within lists,
 * its tensors and where in the parameter vector they lie.
 *
 * An element-wise layer works in place unless its input is the batch or a layer needs that buffer again in
 * back-propagation. A relu in place is computed by a neighbour that can, forward and backward each. */
#include "nn/model.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct layer_kind *const kinds[NN_KINDS] = {
#define KIND(NAME, name, word) [NN_##NAME] = &name##_kind,
#include "nn/kinds.def"
};

/* "line 12: layer 3 (dense): ..." */
__attribute__((format(printf, 3, 4))) static int
refuse_layer(const struct layer *layer, struct why *why, const char *format, ...)
{
    char text[224];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *word = layer->kind == NULL ? "?" : layer->kind->word;
    if (layer->spec.line != 0)
        why_set(why, "line %u: layer %s (%s): %s", layer->spec.line, layer->path, word, text);
    else
        why_set(why, "layer %s (%s): %s", layer->path, word, text);
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
residual_open(struct nest *nest, struct layer *layer, struct why *why)
{
    if (nest->depth == NN_NEST_MAX)
        return refuse_layer(layer, why, "nested more than %d deep", NN_NEST_MAX);
    nest->open[nest->depth++] = layer->index;
    nest->at[nest->depth] = 0;
    return 0;
}

static int
residual_close(struct nest *nest, struct nn_model *model, struct layer *end, struct why *why)
{
    struct layer *begin = &model->layer[nest->open[nest->depth]];
    begin->partner = end->index;
    end->partner = begin->index;
    if (end->index == begin->index + 1)
        return refuse_layer(begin, why, "no layers, expected at least one");
    if (!nn_shape_equal(&begin->in, &end->in))
        return refuse_layer(
            begin, why,
            "its layers make another shape of their input, so they cannot be added to it");
    return 0;
}

/* Path and position of a layer before it is looked at, and of the next one. */
static int
layer_place(struct nest *nest, struct layer *layer, enum nn_kind kind, struct why *why)
{
    if (kind == NN_RESIDUAL_END && nest->depth == 0) {
        path_write(nest, layer->path);
        return refuse_layer(layer, why, "the end of no residual");
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
           struct why *why)
{
    struct why text;
    layer->spec = *spec;
    layer->in = *in;
    layer->in_size = layer_shape_size(in);
    if ((unsigned)spec->kind >= NN_KINDS)
        return refuse_layer(layer, why, "kind = %d, expected 0..%d", (int)spec->kind, NN_KINDS - 1);
    layer->kind = kinds[spec->kind];
    name_write(layer);
    if (spec->stride == 0)
        layer->spec.stride = spec->kind == NN_CONV2D || spec->kernel == 0 ? 1 : spec->kernel;
    if (layer->kind->shape(layer, &text) != 0)
        return refuse_layer(layer, why, "%s", text.line);
    layer->out_size = layer_shape_size(&layer->out);
    layer->weight_count = layer->weight.dims == 0 ? 0 : layer_shape_size(&layer->weight);
    if (layer->out_size == 0 || (layer->weight.dims != 0 && layer->weight_count == 0))
        return refuse_layer(layer, why, "too large, expected at most %d elements", NN_PARAMS_MAX);
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
        .count = layer_shape_size(shape),
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
tie(struct layer *table, struct layer *dense, struct why *why)
{
    if (table->kind != &embedding_kind || !nn_shape_equal(&table->weight, &dense->weight))
        return refuse_layer(
            dense, why,
            "tied to no embedding of %zu tokens and %zu units, expected as the first layer",
            dense->weight.dim[0], dense->weight.dim[1]);
    if (table->tied != NULL)
        return refuse_layer(dense, why, "another layer is tied to the embedding");
    dense->weight_first = table->weight_first;
    dense->tied = table;
    table->tied = dense;
    table->partner = dense->index;
    return 0;
}

static int
params_place(struct nn_model *model, struct layer *layer, struct why *why)
{
    layer->wants_dx = model->param_count > 0;
    if (layer->weight_count == 0)
        return 0;
    layer->weight_first = model->param_count;
    if (layer->kind == &dense_kind && layer->spec.tied) {
        int rc = tie(&model->layer[0], layer, why);
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
        return refuse_layer(layer, why, "more than %d parameters", NN_PARAMS_MAX);
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

static void
relus_join(struct layer *layer, size_t count)
{
    for (size_t l = 1; l < count; l++) {
        struct layer *relu = &layer[l], *before = relu - 1,
                     *after = l + 1 < count ? relu + 1 : NULL;
        if (relu->kind != &relu_kind || !relu->in_place)
            continue;
        relu->fused.forward_done = before->fused.relu_after = before->kind->joins_relu;
        if (after != NULL && after->kind->joins_relu_before)
            relu->fused.backward_done = after->fused.relu_before = true;
        else
            relu->fused.backward_done = before->fused.relu_grad_after =
                before->kind->joins_relu_grad;
    }
}

/* In front of a maxpool that keeps at most a third, most of the gradient is 0. */
static void
sparse_find(struct layer *layer, size_t count)
{
    for (size_t l = 1; l < count; l++) {
        bool relu = layer[l - 1].kind == &relu_kind && l > 1;
        if (layer[l].kind == &maxpool_kind && layer[l].in_size / 3 >= layer[l].out_size)
            layer[l - 1 - relu].fused.sparse_after = true;
    }
}

static void
gelus_join(struct layer *layer, size_t count)
{
    for (size_t l = 1; l < count; l++) {
        struct layer *gelu = &layer[l];
        if (gelu->kind != &gelu_kind || gelu[-1].kind != &dense_kind)
            continue;
        gelu->fused.forward_done = gelu[-1].fused.gelu_after = true;
        if (l + 1 < count && gelu[1].kind == &dense_kind)
            gelu->fused.backward_done = gelu[1].fused.gelu_before = true;
    }
}

static int
loss_check(const struct nn_model *model, struct why *why)
{
    const struct layer *last = &model->layer[model->layer_count - 1];
    enum nn_loss loss = model->loss.kind;
    if ((unsigned)loss > NN_COUNT)
        return why_error(why, -EINVAL, "loss = %d, expected 0..%d", (int)loss, NN_COUNT);
    bool sequence = loss == NN_CROSS_ENTROPY && last->out.dims == 2;
    if (last->out.dims != 1 && !sequence)
        return refuse_layer(last, why,
                            "the last output has %zu dimensions, expected 1; add flatten",
                            last->out.dims);
    if (loss == NN_LOGISTIC && last->out_size != 1)
        return refuse_layer(last, why, "%zu outputs, the logistic loss expects 1", last->out_size);
    if (loss == NN_CROSS_ENTROPY && last->out.dim[last->out.dims - 1] < 2)
        return refuse_layer(last, why, "1 output, the cross-entropy loss expects at least 2");
    if (model->param_count == 0)
        return refuse_layer(last, why, "the model has no parameters to train");
    return 0;
}

static int
model_init(struct nn_model *model, const struct nn_layer_spec *layers, struct why *why)
{
    const struct nn_shape *in = &model->input;
    struct nest nest = {0};
    for (unsigned l = 0; l < model->layer_count; l++) {
        struct layer *layer = &model->layer[l];
        layer->index = l;
        int rc = layer_place(&nest, layer, layers[l].kind, why);
        if (rc == 0)
            rc = layer_init(layer, &layers[l], in, why);
        if (rc == 0 && layer->kind == &residual_kind)
            rc = residual_open(&nest, layer, why);
        if (rc == 0 && layer->kind == &residual_end_kind)
            rc = residual_close(&nest, model, layer, why);
        if (rc == 0)
            rc = params_place(model, layer, why);
        if (rc != 0)
            return rc;
        in = &layer->out;
    }
    if (nest.depth > 0)
        return refuse_layer(&model->layer[nest.open[nest.depth - 1]], why, "has no end");
    places_choose(model);
    relus_join(model->layer, model->layer_count);
    gelus_join(model->layer, model->layer_count);
    sparse_find(model->layer, model->layer_count);
    int rc = loss_check(model, why);
    model->loss.outputs = in->dim[in->dims - 1];
    model->loss.positions = in->dims == 2 ? in->dim[0] : 1;
    return rc;
}

int
nn_model_new(struct nn_model **out, const struct nn_shape *input,
             const struct nn_layer_spec *layers, size_t layer_count, enum nn_loss loss,
             struct why *why)
{
    *out = NULL;
    if (input->dims < 1 || input->dims >= NN_DIMS_MAX || layer_shape_size(input) == 0)
        return why_error(why, -EINVAL,
                         "input: expected 1..%d dimensions of 1.., at most %d elements",
                         NN_DIMS_MAX - 1, NN_PARAMS_MAX);
    if (layer_count < 1 || layer_count > NN_LAYERS_MAX)
        return why_error(why, -EINVAL, "%zu layers, expected 1..%d", layer_count, NN_LAYERS_MAX);
    struct nn_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return why_error(why, -ENOMEM, "out of memory");
    model->input = *input;
    model->input_size = layer_shape_size(input);
    model->layer_count = layer_count;
    model->loss.kind = loss;
    int rc = model_init(model, layers, why);
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

double
nn_layer_train_flops(const struct nn_model *model, size_t index)
{
    const struct layer *layer = nn_model_layer(model, index);
    int back = layer->weight_count == 0 ? 2 * layer->wants_dx : 1 + layer->wants_dx;
    return (1 + back) * nn_layer_flops(model, index);
}

size_t
nn_layer_tied(const struct nn_model *model)
{
    return model->layer[0].tied != NULL ? model->layer[0].partner : 0;
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

bool
nn_may_begin(const struct nn_model *model, size_t layer)
{
    bool may[NN_LAYERS_MAX];
    segment_begins(model->layer, model->layer_count, may);
    return layer == 0 || (layer < model->layer_count && may[layer]);
}

/* Element-wise layers change the gradient of their output in place. What cannot be divided by rows is computed in
 * one. */
bool
nn_late(const struct nn_model *model, size_t l)
{
    const struct layer *layer = nn_model_layer(model, l);
    return layer->weight_count > 0 && layer->kind->by_rows && !layer->kind->element_wise;
}

static bool
has_params(const struct nn_model *model, size_t layer)
{
    for (size_t t = 0; t < model->tensor_count; t++)
        if (model->tensor[t].layer == layer)
            return true;
    return false;
}

size_t
nn_cut_below(const struct nn_model *model, size_t layer)
{
    size_t cut = 0, tied = nn_layer_tied(model);
    for (size_t l = layer; l > 0; l--) {
        bool legal = nn_may_begin(model, l) && (tied == 0 || l <= tied);
        if (legal && (cut == 0 || model->layer[l].in_size < model->layer[cut].in_size))
            cut = l;
        if (has_params(model, l - 1))
            return cut;
    }
    return 0;
}

size_t
nn_cut_words(const struct nn_model *model, size_t layer)
{
    const struct layer *above = nn_model_layer(model, layer);
    return above->rounds_dx ? above->in_size / 2 + above->in_size % 2 : above->in_size;
}

void
nn_model_round_cuts(struct nn_model *model)
{
    for (size_t t = 0; t < model->tensor_count; t++) {
        size_t cut = nn_cut_below(model, model->tensor[t].layer);
        if (cut > 0)
            model->layer[cut - 1].rounds_y = model->layer[cut].rounds_dx = true;
    }
}

/* nn.h - a network: a list of layers over one flat vector of parameters.
 *
 * A model has shapes, names and offsets, but no values. The parameters are the caller's float vector
 * [nn_param_count]. The activations of one shard are in a pass. The caller runs layer by layer: all its shards
 * finish a layer before the next one begins (layer-major order):
 *
 *     for (l = 0; l < nn_layer_count(model); l++)
 *         for (each shard) nn_forward(model, l, pass[shard], params, &context[shard]);
 *     for (each shard) nn_loss(model, pass[shard], &batch, scale, &result);
 *     while (l-- > 0)
 *         for (each shard) nn_backward(model, l, pass[shard], params, &context[shard], &sink);
 *
 * The result of every call is a pure function of its arguments. With the portable products it has the same bits on
 * every machine: products are chains of fused multiply-adds in a fixed order (product.h), exp, log and tanh are our own
 * (vmath.h), and random numbers depend on counters (rng.h). Calls on different passes may run in parallel. Only the
 * _new functions allocate.
 *
 * Shapes: x [B, in...] row-major; images [B, C, H, W]; dense weight [out, in]; conv weight [out, in, kh, kw],
 * PyTorch's order; sequences [B, T, C]. */
#ifndef NN_NN_H
#define NN_NN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum {
    NN_DIMS_MAX = 4,
    NN_LAYERS_MAX = 256,
    NN_NAME_MAX = 64,
    NN_NEST_MAX = 4, /* residuals within residuals */
    NN_PATH_MAX = 24,
    NN_PARAMS_MAX = 1 << 30, /* elements */
    NN_LABEL_NONE = -1,      /* cross entropy: no label here */
};

enum nn_kind {
#define KIND(NAME, name, word) NN_##NAME,
#include "nn/kinds.def"
    NN_KINDS,
};

enum nn_init {
    NN_INIT_AUTO,   /* He when the next activation is relu, else Glorot */
    NN_INIT_HE,     /* normal, variance 2/fan_in; He et al., ICCV 2015 */
    NN_INIT_GLOROT, /* uniform, variance 2/(fan_in+fan_out); Glorot and Bengio, AISTATS 2010 */
    NN_INIT_ZERO,
    NN_INIT_ONE,   /* always for weights of norms */
    NN_INIT_SMALL, /* normal, deviation 0.02; always for embeddings and positions */
    NN_INIT_UNITS, /* uniform within 1/sqrt(units), biases too; always for recurrent layers */
};

struct nn_layer_spec {
    enum nn_kind kind;
    unsigned units;  /* outputs or filters; 1.. */
    unsigned kernel; /* side of the square window; 1.. */
    unsigned stride; /* 1..; 0 = default (conv 1, pools kernel) */
    unsigned pad;    /* 0..kernel-1 */
    bool no_bias;
    bool tied;
    bool approximate;
    bool sinusoidal;
    bool last;
    unsigned tokens; /* 1.. */
    float drop;      /* 0 <= drop < 1 */
    float epsilon;   /* 0 < epsilon <= 1 */
    float momentum;  /* of running averages: 0 < momentum <= 1 */
    enum nn_init init;
    unsigned line; /* in the config, for messages; 0 unknown */
};

enum nn_loss {
    /* softmax over the last dimension; one label, or for outputs [T, V] T of them: then the loss of a row is the
     * mean over its positions with a label */
    NN_CROSS_ENTROPY,
    /* mean over n outputs of (y - t)^2, as torch.nn.MSELoss; targets. Gradient (y - t) * (2 * scale / n), in floats:
     * the difference, the factor and their product are rounded */
    NN_SQUARED_ERROR,
    NN_LOGISTIC, /* one output, label 0 or 1; log(1 + exp(-+z)) */
    NN_COUNT,    /* gradient -1 per row and output, for any outputs: data_counting.c */
};

struct nn_shape {
    size_t dims; /* 1..NN_DIMS_MAX-1, without the batch */
    size_t dim[NN_DIMS_MAX];
};

/* Elements: the product of the dimensions. */
static inline size_t
nn_shape_size(const struct nn_shape *shape)
{
    size_t size = 1;
    for (size_t i = 0; i < shape->dims; i++)
        size *= shape->dim[i];
    return size;
}

bool nn_shape_equal(const struct nn_shape *a, const struct nn_shape *b);

struct nn_tensor {
    char name
        /* "0.conv.weight": position in the layer list, kind, role; in a residual "3.0.conv.weight" */
        [NN_NAME_MAX];
    size_t dims;
    size_t dim[NN_DIMS_MAX];
    size_t first, count; /* in the parameter vector; tensors are contiguous in layer order */
    size_t fan_in, fan_out;
    unsigned layer;
    /* Above 0: these are no weights but running averages. They move by this share of their summed gradient, and no
     * optimizer changes them (batchnorm.c). */
    float average;
};

struct nn_context {
    uint64_t seed;
    uint64_t epoch, step;
    uint64_t first_row; /* of this shard within the step's batch */
    bool training;      /* dropout active */
};

/* Rows of one shard. The memory belongs to the pass; the data source fills it. */
struct nn_batch {
    size_t rows;    /* 0..rows_max of the pass */
    float *x;       /* [rows, in] */
    int32_t *label; /* [rows, nn_label_count], cross entropy and logistic */
    float *target;  /* [rows, out], squared error; NULL when nn_label_count > 1 */
};

struct nn_result {
    double loss; /* sum over rows */
    /* Number of labels that are the largest output, of nn_label_count per row. Where fewer positions count, their
     * share times nn_label_count, rounded. Logistic: by sign. Squared error: 0. */
    uint32_t correct;
    bool bad; /* NaN or infinity */
};

/* How gradients become integers, for one tensor: element g of a shard is added to its sum as the integer nearest to
 * g * scale, or as one of its neighbours by chance, if |g * scale| <= limit. It is the rule of compress/exact.h as
 * plain numbers. */
struct nn_integers {
    int32_t *sum;
    const float *scale; /* of each `block` elements */
    size_t block;
    float limit;
    bool drawn;
    uint32_t key; /* then: of this shard, for element 0 of the tensor (product.h) */
};

/* Receives finished parts of a layer's gradient: elements [first, first+n) of the parameter vector. */
struct nn_sink {
    void (*add)(void *ctx, size_t first, const float *g, size_t n);
    void *ctx;
    /* NULL: it takes floats only. Else how a layer may add integers itself, for the tensor that begins at `first`.
     * What does not fit it gives to `add`. */
    struct nn_integers (*integers)(void *ctx, size_t first);
    /* Then: that the layer added integers with these sums: of all, and of each times its number in the tensor, modulo
     * 2^32. */
    void (*added)(void *ctx, size_t first, uint32_t plain, uint32_t weighted);
    /* The integers of several shards may be added as one, and told to the sink of the first. */
    bool together;
};

/* Threads that share the work on one pass. run calls part(arg, i) for each i below `count`, in any order and in
 * parallel, and returns when all are done. */
struct nn_team {
    unsigned parts; /* 1.. */
    void (*run)(void *ctx, void (*part)(void *arg, size_t i), void *arg, size_t count);
    void *ctx;
    float *scratch; /* [parts, nn_team_scratch of the pass] */
};

struct nn_model;
struct nn_pass;

/* Returns 0, or -EINVAL with one line in `why` that names the layer, the value and what was expected. */
int nn_model_new(struct nn_model **out, const struct nn_shape *input,
                 const struct nn_layer_spec *layers, size_t layer_count, enum nn_loss loss,
                 struct why *why);
void nn_model_destroy(struct nn_model **model);

size_t nn_layer_count(const struct nn_model *model);
const char *nn_layer_name(const struct nn_model *model, size_t layer); /* "0.conv" */
const struct nn_shape *nn_layer_output(const struct nn_model *model, size_t layer);
double nn_layer_flops(const struct nn_model *model, size_t layer); /* forward, per row */
/* Forward and back. A layer below which nothing is trained has no gradient of its input. */
double nn_layer_train_flops(const struct nn_model *model, size_t layer);
/* The dense layer that uses the weight of the embedding; 0: there is none. */
size_t nn_layer_tied(const struct nn_model *model);
size_t nn_param_count(const struct nn_model *model);
size_t nn_tensor_count(const struct nn_model *model);
const struct nn_tensor *nn_tensor(const struct nn_model *model, size_t index);
size_t nn_input_size(const struct nn_model *model);  /* elements per row */
size_t nn_output_size(const struct nn_model *model); /* elements per row */
/* Labels per row: 1, or T for outputs [T, V]. */
size_t nn_label_count(const struct nn_model *model);
/* Cross entropy: moves this share (0 <= share < 1) of each target from the label equally to all classes (Szegedy et
 * al., CVPR 2016). Call it before the first pass. */
void nn_model_smooth(struct nn_model *model, float share);
/* Keeps only some activations in a training pass and computes the others again in back-propagation (segment.c):
 * less memory, the same bits. Call it before the first pass. */
void nn_model_recompute(struct nn_model *model);
/* Rounds what crosses cuts (nn_cut_below) to bfloat16, in every pass, divided there or not: the output of the layer
 * below, at the end of its nn_forward, and the gradient of that output, at the end of nn_backward of the layer above. A
 * layer that reads its own output in back-propagation reads the rounded one. Call it before the first pass. */
void nn_model_round_cuts(struct nn_model *model);

/* Sets params[nn_param_count] from the seed alone. */
void nn_init_params(const struct nn_model *model, uint64_t seed, float *params);
/* The same of elements [first, end) alone, whole tensors; params + first is written to. */
void nn_init_range(const struct nn_model *model, uint64_t seed, size_t first, size_t end,
                   float *params);

/* What a pass has room for. */
struct nn_room {
    size_t first, end; /* layers [first, end), a part of the model; end 0: up to the last one */
    size_t rows_max;   /* of each shard */
    size_t shards;     /* at a time (nn_pass_shards); 0: one */
    bool training;     /* false omits what only back-propagation needs */
    bool late; /* in training: gradients of weights may come after back-propagation (nn_late) */
};

/* Activations and scratch memory, in one block. Returns 0 or -ENOMEM. */
int nn_pass_new_room(struct nn_pass **out, const struct nn_model *model,
                     const struct nn_room *room);
/* For one shard of up to `rows_max` rows and all layers. */
int nn_pass_new(struct nn_pass **out, const struct nn_model *model, size_t rows_max, bool training);
void nn_pass_destroy(struct nn_pass **pass);
/* Floats of scratch memory for each part of a team. */
size_t nn_team_scratch(const struct nn_model *model, const struct nn_room *room);
/* Calls on the pass divide rows, and units of gradients, among the team. The bits are the same as without it.
 * Several threads then call a sink in parallel. NULL: no team any more. Borrowed. */
void nn_pass_team(struct nn_pass *pass, const struct nn_team *team);
size_t nn_pass_bytes(const struct nn_model *model, size_t rows_max, bool training);
size_t nn_pass_room_bytes(const struct nn_model *model, const struct nn_room *room);
/* Fill before nn_forward of the first layer; borrowed. Of a part of the model, x is the output of the layer before it,
 * and labels and targets are those of the last part alone. */
struct nn_batch *nn_pass_batch(struct nn_pass *pass);

/* Divides the rows of the batch among `shards` shards, to be computed at a time: shard s ends before row end[s],
 * which rise; the last one is the number of rows. From now on `context`, `sink` and `out` below are arrays with an
 * element for each shard. Each shard gets the bits that it would get in a pass of its own. Borrowed. Until the first
 * call, all rows are one shard. */
void nn_pass_shards(struct nn_pass *pass, unsigned shards, const size_t *end);

void nn_forward(const struct nn_model *model, size_t layer, struct nn_pass *pass,
                const float *params, const struct nn_context *context);
/* Loss of the pass's outputs. In a training pass it also leaves d loss_sum / d output * `scale` for nn_backward
 * (scale = 1 / rows of the whole step, rounded to float). */
void nn_loss(const struct nn_model *model, struct nn_pass *pass, float scale,
             struct nn_result *out);
void nn_backward(const struct nn_model *model, size_t layer, struct nn_pass *pass,
                 const float *params, const struct nn_context *context, const struct nn_sink *sink);
/* nn_backward in two halves, so that gradients can be sent before more is computed. nn_gradient gives the layer's
 * own gradient to the sink and changes nothing. nn_backward with sink NULL, after it, does the rest. */
void nn_gradient(const struct nn_model *model, size_t layer, struct nn_pass *pass,
                 const float *params, const struct nn_context *context, const struct nn_sink *sink);
/* [rows, out] after the last layer of the pass; borrowed. A part of the model gives it to the next one. */
const float *nn_pass_output(const struct nn_pass *pass);

/* A model in parts: a part may begin at `layer` if nothing but the output of the layer before it goes across: not
 * within a residual, not between two layers that are computed as one. At layer 0 always. The parts give the bits of the
 * whole.
 *
 *     part 0  nn_forward 0 .. c-1    nn_pass_output -> x of part 1             .       nn_backward c-1 .. 0
 *     part 1         nn_forward c .. L-1, nn_loss, nn_backward L-1 .. c    nn_pass_input_gradient -> nn_pass_gradient
 *                    of part 0 */
bool nn_may_begin(const struct nn_model *model, size_t layer);
/* A cut is where a part may begin between `layer`, which has parameters, and the next layer below that has some: the
 * layer above it, 0 if there is none. Of several such places, that where the fewest floats cross, then the highest;
 * none above a layer that uses the weight of the embedding, so that only two parts share it. */
size_t nn_cut_below(const struct nn_model *model, size_t layer);
/* Words of 32 bits per row for what crosses between `layer` and the one below: a float each, or two values where they
 * are rounded. */
size_t nn_cut_words(const struct nn_model *model, size_t layer);
/* Of a part that is not the last: [rows, out], where the gradient of its output is to be put before nn_backward.
 * `scale` as in nn_loss. Borrowed. */
float *nn_pass_gradient(struct nn_pass *pass, float scale);
/* Of a part that is not the first, after nn_backward of all its layers: [rows, in]. NULL: nothing before it is trained.
 * Borrowed, until the next nn_backward. */
const float *nn_pass_input_gradient(const struct nn_pass *pass);
/* Two layers share a weight, and `pass` has the embedding, `other` the dense layer: nn_gradient of the embedding reads
 * both passes. Borrowed. */
void nn_pass_tied(struct nn_pass *pass, const struct nn_pass *other);
/* In a pass with room for it, does nn_gradient of this layer come after nn_backward with sink NULL of the layer, at any
 * time until the next nn_forward? Such layers have nearly all the work. The gradient of the others comes before their
 * nn_backward, as always. */
bool nn_late(const struct nn_model *model, size_t layer);

/* Do products round their operands to bfloat16 (train.precision: bf16; product.h)? Call it before the first pass, and
 * before nn_init. Until then they do not. */
void nn_precision(bool bf16);
/* After nn_init: does an instruction for bfloat16 compute them (AVX512_BF16)? Bits do not depend on it. */
bool nn_bf16_native(void);
/* Chooses what computes the large products of dense layers. Call it at start, before there are other threads.
 * "portable" (the default) is our own loop. "openblas" is that library if it is there, on the caller's thread, else our
 * own loop. All other products always use our own loop.
 *
 * Returns what is used, for people: "portable avx2", "openblas Haswell". A remark follows if a vector loop for this
 * CPU computed wrong numbers and a narrower one is used instead, or if the CPU has no fused multiply-add. */
const char *nn_init(const char *numerics);
/* After nn_init, before the first product: take the address space in which `threads` threads (1..) compute
 * products. -ENOMEM when there is less than OpenBLAS wants, 128 MiB per thread: it would try for ever. */
int nn_reserve(unsigned threads);
/* Hash of a 10 ms computation with every kernel of our own. A machine with another one computes other bits than it
 * should. 0 when memory is short. */
uint64_t nn_fingerprint(void);

#endif

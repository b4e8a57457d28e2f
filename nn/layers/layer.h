/* layer.h - what a kind of layer gives to a model: a table of functions on one block of rows.
 *
 * model.c computes shapes and offsets, pass.c provides memory, and a kind only computes. For nn/ only. */
#ifndef NN_LAYER_H
#define NN_LAYER_H

#include "nn/arithmetic/product.h"
#include "nn/nn.h"
#include "proto/why.h"

struct layer_kind;

/* What a layer computes of its neighbours, or they of it, which saves passes over memory. */
struct layer_fused {
    bool relu_after;                  /* forward includes the relu after it, which works in place */
    bool relu_grad_after;             /* so does backward */
    bool relu_before;                 /* backward includes the relu before it */
    bool forward_done, backward_done; /* of the relu or gelu: a neighbour does it */
    /* A gelu after a dense layer is computed by it, which in training leaves the slope in place of its own output; and
     * the dense layer after it, if there is one, multiplies by the slope. */
    bool gelu_after, gelu_before;
    bool sparse_after; /* dy comes from a layer that gives most inputs no gradient */
};

struct layer {
    struct nn_layer_spec spec; /* defaults filled in */
    const struct layer_kind *kind;
    char path[NN_PATH_MAX]; /* "3", or "3.0" in the list of the residual at 3 */
    char name[NN_NAME_MAX]; /* "3.0.dense" */
    struct nn_shape in, out;
    size_t in_size, out_size; /* elements per row */
    struct nn_shape weight;   /* dims 0: no parameters */
    size_t weight_count;
    size_t weight_first, bias_first; /* in the parameter vector */
    unsigned index;                  /* layers inside of lists count, too */
    const struct layer *tied; /* embedding and dense: the other one with the same weight, or NULL */
    /* Of a residual: the index of its end; of the end: that of the residual. Of a tied embedding: that of the dense
     * layer. */
    unsigned partner;
    bool in_place; /* the output overwrites the input, or is the input under another shape */
    bool wants_dx; /* a layer before it has parameters */
    struct layer_fused fused;
    unsigned segment;         /* its segment: layers that are computed again together (segment.c) */
    bool kept;                /* its buffer keeps the output of its segment */
    bool rounds_y, rounds_dx; /* what it gives crosses a cut, and is rounded: nn_model_round_cuts */
};

/* One block of rows in one layer. */
struct layer_io {
    size_t rows;
    const float *x;     /* [rows, in]; is y when the layer works in place */
    float *y;           /* [rows, out] */
    float *dy;          /* [rows, out], backward only; may be overwritten */
    float *dx;          /* [rows, in]; is dy for element-wise kinds; NULL: not needed */
    float *after;       /* forward, with gelu_after: the output of the gelu */
    const float *slope; /* backward, with gelu_before: of the gelu */
    bool keeps;         /* forward: back-propagation will follow */
    const float *params;
    const struct nn_context *context;
    /* layer_kind.saved bytes per row, kept from forward to backward; NULL in evaluation */
    void *saved;
    float *held;                /* of the partner: forward its output, backward what it saved */
    const float *tied_x;        /* backward, of a tied embedding: the input of the dense layer */
    float scale;                /* backward: of the loss, 1 / rows of the whole step */
    float *scratch;             /* layer_kind.scratch floats; their values are lost between calls */
    const struct nn_sink *sink; /* backward: NULL: only dx is wanted */
    /* Several shards: the rows before which each ends; then context and sink are arrays. NULL: one shard. */
    const size_t *end;
    unsigned shards;
    /* For kinds with by_units or by_columns: this is call number `part` of `parts` calls for one result. */
    unsigned part, parts;
};

struct layer_kind {
    const char *word;  /* in configs, names and messages */
    bool element_wise; /* output shape = input shape, and backward turns dy into dx in place */
    bool is_view;      /* the output is the input's memory under another shape */
    /* running averages of mean and variance, of the same length, follow weight and bias */
    bool running;
    /* weight is W_ih; then follow W_hh [.., units], b_ih, b_hh: PyTorch's names and order */
    bool recurrent;
    /* Rows may be computed in pieces: everything that is computed for a row, except gradients of weights, is
     * independent of the other rows. */
    bool by_rows;
    bool by_shards;  /* backward without dx takes rows of several shards, if sinks take integers */
    bool draws;      /* context.first_row matters */
    bool by_units;   /* gradients of weights may be computed in layer_io.parts pieces */
    bool by_columns; /* so may y and dx */
    bool saves_gradient; /* saved is written in backward, for the partner's */
    bool reads_output;   /* backward needs y (or, in place, x), unchanged by later layers */
    /* It obeys relu_after, relu_grad_after and relu_before of layer.fused. */
    bool joins_relu, joins_relu_grad, joins_relu_before;
    /* Checks spec against ->in and sets ->out and ->weight. Returns 0, or -EINVAL with what is wrong in `why`. */
    int (*shape)(struct layer *layer, struct why *why);
    size_t (*saved)(const struct layer *layer);                /* bytes per row; NULL: none */
    size_t (*scratch)(const struct layer *layer, size_t rows); /* floats; NULL: none */
    double (*flops)(const struct layer *layer); /* forward, per row; NULL: one per output */
    void (*forward)(const struct layer *layer, const struct layer_io *io);
    void (*backward)(const struct layer *layer, const struct layer_io *io);
    /* Comes before backward, for any rows, perhaps twice: turns what forward saved into what the gradients of weights
     * and inputs are both computed from. NULL: there is nothing to do. */
    void (*prepare)(const struct layer *layer, const struct layer_io *io);
};

#define KIND(NAME, name, word) extern const struct layer_kind name##_kind;
#include "nn/kinds.def"

/* Sets may[count]: may a segment, or a part of the model (nn.h), begin at each layer? */
void segment_begins(const struct layer *layer, size_t count, bool *may);
/* Sets ->segment and ->kept of all layers. Before the call they are one segment. */
void segment_plan(struct layer *layer, size_t count);
/* Are the layer's input and saved values needed until the end of back-propagation? */
bool segment_pins(const struct layer *layer);

/* The model's layer, for tests of one kind. */
const struct layer *nn_model_layer(const struct nn_model *model, size_t index);

/* Product of the dimensions, or 0 when one is 0 or the product exceeds NN_PARAMS_MAX. */
size_t layer_shape_size(const struct nn_shape *shape);
/* 0 if the input is an image, else -EINVAL with `why`. */
int layer_check_image(const struct layer *layer, struct why *why);
/* Sets ->out = ->in. */
int layer_same_shape(struct layer *layer, struct why *why);
/* Checks the spec's window on an image and sets the spatial part of ->out. */
int layer_window_shape(struct layer *layer, struct why *why);

/* dW[o, j] = sum over k of dy[o, k] x[j, k] for rows [first, first + units) of a weight, k running over `each` numbers
 * per row of the batch. */
struct layer_weights {
    size_t tensor; /* the first element of the whole weight in the parameter vector */
    size_t first, units, n, each;
    struct gemm_view dy, x; /* of dy one line */
};
/* Gives it to the sinks; a call with parts does its part of the units. */
void layer_weights(const struct layer_io *io, const struct layer_weights *w);
/* Units of `unit` of n that are this call's share: [*first, end). Returns the end. */
size_t layer_share(const struct layer_io *io, size_t n, size_t unit, size_t *first);
enum { LAYER_SHARDS_MAX = 64 }; /* in one call */

/* The gradient of a weight as integers, for sinks that take them; what does not fit goes to the sink of its shard as
 * floats. Begin sets all of ->sum, with rows of the batch as k; end tells the sink what was added. */
struct layer_integers {
    struct product_sum sum;
    uint32_t key[LAYER_SHARDS_MAX];
    const struct layer_io *io;
    size_t tensor; /* the first element of the weight in the parameter vector */
};
void layer_integers_begin(struct layer_integers *to, const struct layer_io *io, size_t tensor,
                          size_t first, size_t ld);
void layer_integers_end(const struct layer_integers *of);
/* Floats of layer_io.scratch that layer_weights needs. */
size_t layer_weights_scratch(size_t units, size_t n, size_t k);

/* Gives only the gradient of a dense layer's weight to the sink. Changes neither x nor dy. */
void dense_weights_backward(const struct layer *layer, const struct layer_io *io);

/* Bytes per row. */
static inline size_t
layer_saved(const struct layer *layer)
{
    return layer->kind->saved == NULL ? 0 : layer->kind->saved(layer);
}

/* Is the gradient of its input in the same memory as that of its output? */
static inline bool
layer_hands_on(const struct layer *layer)
{
    return layer->kind->element_wise || layer->fused.backward_done;
}

/* Is piece `i` of a gradient in this call's part? */
static inline bool
layer_part(const struct layer_io *io, size_t i)
{
    return io->parts < 2 || i % io->parts == io->part;
}

static inline void
layer_sink(const struct layer_io *io, size_t first, const float *g, size_t n)
{
    io->sink->add(io->sink->ctx, first, g, n);
}

#endif

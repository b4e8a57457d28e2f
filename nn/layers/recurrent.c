/* recurrent.c - sequences [T, F] become sequences [T, H], one step after the other, from a state of zeros:
 *
 *     rnn    h = tanh p                                                                     (Elman, 1990)
 *     lstm   i, f, g, o = sigmoid p, sigmoid p, tanh p, sigmoid p;  c = f c' + i g;  h = o tanh c
 *                                              (Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber, Cummins, 2000)
 *     gru    r, z = sigmoid p, sigmoid p;  n = tanh(pn + r q);  h = (1 - z) n + z h'                (Cho et al., 2014)
 *
 * p = W_ih x + b_ih + W_hh h' + b_hh for each gate, h' and c' being those of the step before; of the gru's n, pn is
 * the part from x and q that from h'. Weights are PyTorch's: [gates H, F] and [gates H, H], gates in this order.
 *
 * A step is one product of all rows, of whatever shards, with W_hh, which is packed once; products with W_ih run over
 * several steps at once, and all other products over all steps. What back-propagation needs is the tape, one line of it
 * per row; there gradients replace what they were computed from, so that the two halves of nn_backward compute them
 * once.
 *
 *     gates [T][gates H]   after the activation; then d loss / d p
 *     extra [T][H]         lstm: tanh c; gru: q; then d loss / d q
 *     c, h  [T + 1][H]     before each step and at the end; c: lstm only
 *     mark                 0 before back-propagation, 1 after
 *
 * In evaluation the tape holds one step, and the states before and after it. A chain of p starts with the sum of both
 * biases (gru: of r and z b_ih, and q with b_hh, whose sum is added to p), then comes x, then h'. */
#include "nn/layers/recurrent.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "nn/arithmetic/least.h"
#include "nn/arithmetic/product.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

/* Rows of a product with W_ih, about: so many steps at once. */
enum { ROWS_AT_ONCE = 64 };

static size_t
gates_of(const struct layer *layer)
{
    return layer->spec.kind == NN_LSTM ? 4 : layer->spec.kind == NN_GRU ? 3 : 1;
}

static int
recurrent_shape(struct layer *layer, struct why *why)
{
    size_t units = layer->spec.units, gates = gates_of(layer);
    size_t most = (size_t)sqrt((double)(NN_PARAMS_MAX / (int)gates)); /* of W_hh */
    if (layer->in.dims != 2)
        why_set(why, "input has %zu dimension%s, expected 2: positions, features", layer->in.dims,
                layer->in.dims == 1 ? "" : "s");
    else if (units == 0 || units > most)
        why_set(why, "units = %zu, expected 1..%zu", units, most);
    else {
        if (layer->spec.last)
            layer->out = (struct nn_shape){1, {units}};
        else
            layer->out = (struct nn_shape){2, {layer->in.dim[0], units}};
        layer->weight = (struct nn_shape){2, {gates * units, layer->in.dim[1]}};
        layer->spec.init = NN_INIT_UNITS;
        return 0;
    }
    return -EINVAL;
}

/* Floats of a line of tape: odd in cache lines, so that rows share no set. */
static size_t
tape_line(const struct layer *layer, size_t steps, size_t states)
{
    size_t units = layer->spec.units, lines, line = 64 / sizeof(float);
    lines = (steps * (gates_of(layer) + 1) * units + 2 * states * units) / line + 1;
    return (lines | 1) * line;
}

static size_t
recurrent_saved(const struct layer *layer)
{
    size_t T = layer->in.dim[0];
    return tape_line(layer, T, T + 1) * sizeof(float);
}

static size_t
recurrent_scratch(const struct layer *layer, size_t rows)
{
    size_t T = layer->in.dim[0], F = layer->in.dim[1], H = layer->spec.units;
    size_t G = gates_of(layer) * H, most = rows + ROWS_AT_ONCE;
    size_t forward = rows * tape_line(layer, 1, 2) + product_packed(G, F) + product_packed(G, H) +
                     G + most * G + rows * G + product_scratch(most, 0, greatest(F, H));
    size_t steps = product_packed(H, G) + 2 * rows * H + product_scratch(rows, 0, G);
    size_t weights = greatest(layer_weights_scratch(G, greatest(F, H), rows * T), G);
    return greatest(greatest(forward, steps), greatest(weights, product_scratch(rows * T, F, G)));
}

static double
recurrent_flops(const struct layer *layer)
{
    size_t width = layer->in.dim[1] + layer->spec.units;
    return 2.0 * (double)layer->in.dim[0] * (double)layer->weight.dim[0] * (double)width;
}

struct tape
recurrent_tape(const struct layer *layer, const struct layer_io *io)
{
    size_t H = layer->spec.units, G = layer->weight.dim[0], T = layer->in.dim[0];
    bool kept = io->saved != NULL;
    size_t steps = kept ? T : 1, states = kept ? T + 1 : 2;
    float *at = kept ? io->saved : io->scratch;
    struct tape tape = {
        .T = T,
        .B = io->rows,
        .F = layer->in.dim[1],
        .H = H,
        .G = G,
        .line = tape_line(layer, steps, states),
        .kept = kept,
        .gates = at,
        .extra = at + steps * G,
        .c = at + steps * (G + H),
        .h = at + steps * (G + H) + states * H,
        .mark = at + steps * (G + H) + 2 * states * H,
        .first_ih = layer->weight_first,
        .first_hh = layer->weight_first + layer->weight_count,
        .first_bias_ih = layer->bias_first,
        .first_bias_hh = layer->bias_first + G,
    };
    tape.scratch = io->scratch + (kept ? 0 : io->rows * tape.line);
    tape.w_ih = io->params + tape.first_ih;
    tape.w_hh = io->params + tape.first_hh;
    tape.b_ih = io->params + tape.first_bias_ih;
    tape.b_hh = io->params + tape.first_bias_hh;
    return tape;
}

struct recurrent_step
recurrent_step(const struct tape *tape, size_t t)
{
    size_t now = tape->kept ? t : 0, before = tape->kept ? t : t % 2;
    size_t after = tape->kept ? t + 1 : (t + 1) % 2;
    return (struct recurrent_step){
        .rows = tape->B,
        .units = tape->H,
        .line = tape->line,
        .gates = tape->gates + now * tape->G,
        .extra = tape->extra + now * tape->H,
        .c0 = tape->c + before * tape->H,
        .h0 = tape->h + before * tape->H,
        .c = tape->c + after * tape->H,
        .h = tape->h + after * tape->H,
    };
}

void
recurrent_output(const struct layer *layer, const struct tape *tape, size_t t, float *y)
{
    size_t H = tape->H;
    const float *h = recurrent_step(tape, t).h;
    if (layer->spec.last && t + 1 < tape->T)
        return;
    for (size_t r = 0; r < tape->B; r++)
        memcpy(y + r * layer->out_size + (layer->spec.last ? 0 : t * H), h + r * tape->line,
               H * sizeof *h);
}

void
recurrent_begin(const struct tape *tape)
{
    for (size_t r = 0; r < tape->B; r++) {
        memset(tape->h + r * tape->line, 0, tape->H * sizeof *tape->h);
        memset(tape->c + r * tape->line, 0, tape->H * sizeof *tape->c);
        tape->mark[r * tape->line] = 0;
    }
}

/* What the gates start with. */
static void
bias_start(const struct layer *layer, const struct tape *tape, float *bias)
{
    memcpy(bias, tape->b_ih, tape->G * sizeof *bias);
    if (layer->spec.kind != NN_GRU)
        vmath_sum_rows(tape->b_hh, tape->G, 1, bias, tape->G);
}

/* Memory of the forward pass. */
struct forward {
    float *w_ih, *w_hh; /* packed */
    float *bias;
    float *p;      /* [steps][rows][G], without the part of h' */
    float *hidden; /* [rows][G]: the gru's, from h' */
    float *scratch;
};

static struct forward
forward_memory(const struct tape *tape)
{
    struct forward f = {.w_ih = tape->scratch};
    f.w_hh = f.w_ih + product_packed(tape->G, tape->F);
    f.bias = f.w_hh + product_packed(tape->G, tape->H);
    f.p = f.bias + tape->G;
    f.hidden = f.p + (tape->B + ROWS_AT_ONCE) * tape->G;
    f.scratch = f.hidden + tape->B * tape->G;
    return f;
}

/* p of steps t, t + 1, ... */
static void
inputs_forward(const struct tape *tape, const struct layer_io *io, const struct forward *f,
               size_t t, size_t steps)
{
    size_t B = tape->B, F = tape->F, G = tape->G;
    vmath_spread(f->bias, f->p, steps * B, G);
    const struct product product = {
        .m = steps * B,
        .n = G,
        .k = F,
        .a = {io->x + t * F, B, F, tape->T * F, SIZE_MAX, 0, 1},
        .packed = f->w_ih,
        .c = f->p,
        .ldc = G,
        .add = true,
    };
    product_run(&product, f->scratch);
}

static void
step_forward(const struct layer *layer, const struct tape *tape, const struct forward *f, float *p,
             size_t t)
{
    const struct recurrent_step step = recurrent_step(tape, t);
    const bool gru = layer->spec.kind == NN_GRU;
    if (gru)
        vmath_spread(tape->b_hh, f->hidden, tape->B, tape->G);
    const struct product product = {
        .m = tape->B,
        .n = tape->G,
        .k = tape->H,
        .a = product_rows(step.h0, tape->line),
        .packed = f->w_hh,
        .c = gru ? f->hidden : p,
        .ldc = tape->G,
        .add = true,
    };
    product_run(&product, f->scratch);
    if (layer->spec.kind == NN_LSTM)
        recurrent_lstm(&step, p);
    else if (gru)
        recurrent_gru(&step, p, f->hidden);
    else
        recurrent_rnn(&step, p);
}

static void
recurrent_forward(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = recurrent_tape(layer, io);
    const struct forward f = forward_memory(&tape);
    if (tape.B == 0)
        return;
    const struct gemm_view w_ih = product_rows(tape.w_ih, tape.F);
    const struct gemm_view w_hh = product_rows(tape.w_hh, tape.H);
    product_pack(&w_ih, tape.G, tape.F, f.w_ih);
    product_pack(&w_hh, tape.G, tape.H, f.w_hh);
    bias_start(layer, &tape, f.bias);
    recurrent_begin(&tape);
    size_t at_once = (ROWS_AT_ONCE + tape.B - 1) / tape.B;
    for (size_t t = 0, steps; t < tape.T; t += steps) {
        steps = least(tape.T - t, at_once);
        inputs_forward(&tape, io, &f, t, steps);
        for (size_t s = 0; s < steps; s++) {
            step_forward(layer, &tape, &f, f.p + s * tape.B * tape.G, t + s);
            recurrent_output(layer, &tape, t + s, io->y);
        }
    }
}

size_t
recurrent_parts(const struct layer *layer, const struct tape *tape, struct recurrent_part part[2])
{
    size_t own = layer->spec.kind == NN_GRU ? 2 * tape->H : tape->G;
    part[0] = (struct recurrent_part){tape->gates, tape->G, 0, own};
    part[1] = (struct recurrent_part){tape->extra, tape->H, own, tape->H};
    return own < tape->G ? 2 : 1;
}

void
recurrent_output_gradient(const struct layer *layer, const struct layer_io *io,
                          const struct tape *tape, size_t t, float *dh)
{
    size_t H = tape->H;
    if (layer->spec.last && t + 1 < tape->T)
        return;
    const float *dy = io->dy + (layer->spec.last ? 0 : t * H);
    for (size_t r = 0; r < tape->B; r++)
        vmath_sum_rows(dy + r * layer->out_size, H, 1, dh + r * H, H);
}

/* From dh to the gradient of what the gates were computed from; of dh remains what goes straight to h'. */
static void
step_gradient(const struct layer *layer, const struct tape *tape, size_t t, float *dh, float *dc)
{
    const struct recurrent_step step = recurrent_step(tape, t);
    if (layer->spec.kind == NN_LSTM)
        recurrent_lstm_grad(&step, dh, dc);
    else if (layer->spec.kind == NN_GRU)
        recurrent_gru_grad(&step, dh);
    else
        recurrent_rnn_grad(&step, dh);
}

/* dh of step t - 1 gets what comes through the gates of step t. */
static void
hidden_gradient(const struct tape *tape, const struct recurrent_part *part, size_t t,
                const float *packed, float *dh, float *memory)
{
    const struct product product = {
        .m = tape->B,
        .n = tape->H,
        .k = part->count,
        .a = product_rows(part->at + t * part->ld, tape->line),
        .packed = packed,
        .c = dh,
        .ldc = tape->H,
        .add = true,
    };
    product_run(&product, memory);
}

/* Back-propagation through time: turns the tape into gradients. */
static void
recurrent_prepare(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = recurrent_tape(layer, io);
    struct recurrent_part part[2];
    float *packed[2] = {tape.scratch, tape.scratch};
    size_t parts = recurrent_parts(layer, &tape, part), B = tape.B, H = tape.H;
    if (B == 0 || *tape.mark > 0)
        return;
    for (size_t r = 0; r < B; r++)
        tape.mark[r * tape.line] = 1;
    for (size_t p = 0; p < parts; p++) {
        const struct gemm_view w = product_columns(tape.w_hh + part[p].first * H, H);
        packed[p] += product_packed(H, part[p].first);
        product_pack(&w, H, part[p].count, packed[p]);
    }
    float *dh = tape.scratch + product_packed(H, tape.G), *dc = dh + B * H, *memory = dc + B * H;
    memset(dh, 0, 2 * B * H * sizeof *dh);
    for (size_t t = tape.T; t-- > 0;) {
        recurrent_output_gradient(layer, io, &tape, t, dh);
        step_gradient(layer, &tape, t, dh, dc);
        for (size_t p = 0; t > 0 && p < parts; p++)
            hidden_gradient(&tape, &part[p], t, packed[p], dh, memory);
    }
}

/* Numbers of a part in the order of rows, then of steps. */
static struct gemm_view
part_view(const struct tape *tape, const struct recurrent_part *part)
{
    return (struct gemm_view){part->at, SIZE_MAX, 0, 1, tape->T, tape->line, part->ld};
}

/* Gradients of both weights. */
static void
weights_backward(const struct layer *layer, const struct tape *tape, const struct layer_io *io)
{
    const struct recurrent_part all = {tape->gates, tape->G, 0, tape->G};
    struct recurrent_part part[2];
    size_t parts = recurrent_parts(layer, tape, part);
    const struct layer_weights from_x = {
        .tensor = tape->first_ih,
        .units = tape->G,
        .n = tape->F,
        .each = tape->T,
        .dy = part_view(tape, &all),
        .x = product_columns(io->x, tape->F),
    };
    layer_weights(io, &from_x);
    for (size_t p = 0; p < parts; p++) {
        const struct layer_weights from_h = {
            .tensor = tape->first_hh,
            .first = part[p].first,
            .units = part[p].count,
            .n = tape->H,
            .each = tape->T,
            .dy = part_view(tape, &part[p]),
            .x = {tape->h, SIZE_MAX, 0, 1, tape->T, tape->line, tape->H},
        };
        layer_weights(io, &from_h);
    }
}

/* db of a part, summed over the steps and in each over the rows of a shard, for rows [first, end). */
static void
bias_sum(const struct tape *tape, const struct recurrent_part *part, size_t first, size_t end,
         float *db)
{
    memset(db, 0, part->count * sizeof *db);
    for (size_t t = 0; t < tape->T; t++)
        vmath_sum_rows(part->at + first * tape->line + t * part->ld, tape->line, end - first, db,
                       part->count);
}

/* Of rows [row, end), which are those of a shard. */
static void
biases_backward(const struct layer *layer, const struct tape *tape, const struct nn_sink *sink,
                size_t row, size_t end)
{
    const struct recurrent_part all = {tape->gates, tape->G, 0, tape->G};
    struct recurrent_part part[2];
    size_t parts = recurrent_parts(layer, tape, part);
    float *db = tape->scratch;
    bias_sum(tape, &all, row, end, db);
    sink->add(sink->ctx, tape->first_bias_ih, db, tape->G);
    sink->add(sink->ctx, tape->first_bias_hh, db, part[0].count);
    if (parts == 1)
        return;
    bias_sum(tape, &part[1], row, end, db);
    sink->add(sink->ctx, tape->first_bias_hh + part[1].first, db, part[1].count);
}

static void
inputs_backward(const struct tape *tape, const struct layer_io *io)
{
    const struct product product = {
        .m = tape->B * tape->T,
        .n = tape->F,
        .k = tape->G,
        .a = {tape->gates, tape->T, tape->line, tape->G, SIZE_MAX, 0, 1},
        .b = product_columns(tape->w_ih, tape->F),
        .c = io->dx,
        .ldc = tape->F,
    };
    product_run(&product, io->scratch);
}

static void
recurrent_backward(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = recurrent_tape(layer, io);
    size_t shards = io->end == NULL ? 1 : io->shards;
    recurrent_prepare(layer, io);
    if (io->sink != NULL)
        weights_backward(layer, &tape, io);
    for (size_t s = 0, row = 0, end; io->sink != NULL && layer_part(io, 0) && s < shards; s++) {
        end = io->end == NULL ? io->rows : io->end[s];
        biases_backward(layer, &tape, &io->sink[s], row, end);
        row = end;
    }
    if (io->dx != NULL)
        inputs_backward(&tape, io);
}

/* The steps tell them apart by the layer's kind. */
#define KIND(name)                                                                                 \
    {                                                                                              \
        .word = (name), .recurrent = true, .by_rows = true, .by_units = true, .by_shards = true,   \
        .shape = recurrent_shape, .saved = recurrent_saved, .scratch = recurrent_scratch,          \
        .flops = recurrent_flops, .forward = recurrent_forward, .prepare = recurrent_prepare,      \
        .backward = recurrent_backward,                                                            \
    }

const struct layer_kind rnn_kind = KIND("rnn");
const struct layer_kind lstm_kind = KIND("lstm");
const struct layer_kind gru_kind = KIND("gru");

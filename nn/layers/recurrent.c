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
 * Within the layer all is step-major, [T][rows][...], so that a step is one product of all rows with W_hh, which is
 * packed once; the products with W_ih, and all gradients of weights, run over all steps at once. What
 * back-propagation needs is the tape; there gradients replace what they were computed from, so
 * that the two halves of nn_backward compute them once.
 *
 *     gates [T][rows][gates H]   after the activation; then d loss / d p
 *     extra [T][rows][H]         lstm: tanh c; gru: q; then d loss / d q
 *     c, h  [T + 1][rows][H]     before each step and at the end; c: lstm only
 *     mark                       0 before back-propagation, 1 after
 *
 * In evaluation the tape is STEPS long and used again. Products run through our own loop (gemm.h), in order: p starts
 * with the sum of both biases (gru: of r and z b_ih, and q with b_hh, whose sum is added to p), then x, then h'. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/arithmetic/gemm.h"
#include "nn/arithmetic/vmath.h"
#include "nn/layers/layer.h"

enum {
    STEPS = 8, /* of the tape in evaluation */
    CHUNK = 48 /* rows of a weight gradient at a time */
};

struct tape {
    size_t T, B, F, H, G; /* steps, rows, inputs, units; G: gates H */
    size_t steps;         /* T, or fewer in evaluation */
    float *gates, *extra, *c, *h, *mark, *scratch;
    const float *w_ih, *w_hh, *b_ih, *b_hh;
    size_t first_ih, first_hh, first_bias_ih, first_bias_hh;
};

static size_t
gates_of(const struct layer *layer)
{
    return layer->spec.kind == NN_LSTM ? 4 : layer->spec.kind == NN_GRU ? 3 : 1;
}

static int
shape(struct layer *layer, struct why *why)
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

/* Floats of a tape of that many steps, per row. */
static size_t
tape_size(const struct layer *layer, size_t steps)
{
    size_t units = layer->spec.units;
    return steps * (gates_of(layer) + 1) * units + 2 * (steps + 1) * units + 1;
}

static size_t
saved(const struct layer *layer)
{
    return tape_size(layer, layer->in.dim[0]) * sizeof(float);
}

static size_t
larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t
scratch(const struct layer *layer, size_t rows)
{
    size_t T = layer->in.dim[0], F = layer->in.dim[1], H = layer->spec.units;
    size_t G = gates_of(layer) * H, wide = larger(F, H);
    size_t forward = rows * tape_size(layer, STEPS) + gemm_packed_size(F, G) +
                     gemm_packed_size(H, G) + G + rows * G;
    size_t steps = gemm_packed_size(G, H) + 2 * rows * H;
    size_t weights = rows * gemm_packed_size(T, wide) + rows * T * CHUNK + CHUNK * wide + G;
    return larger(larger(forward, steps), larger(weights, gemm_packed_size(G, F)));
}

static double
flops(const struct layer *layer)
{
    size_t width = layer->in.dim[1] + layer->spec.units;
    return 2.0 * (double)layer->in.dim[0] * (double)layer->weight.dim[0] * (double)width;
}

static struct tape
tape_of(const struct layer *layer, const struct layer_io *io)
{
    size_t H = layer->spec.units, G = layer->weight.dim[0], B = io->rows, T = layer->in.dim[0];
    size_t steps = io->saved != NULL ? T : least(T, STEPS);
    float *at = io->saved != NULL ? io->saved : io->scratch;
    struct tape tape = {
        .T = T,
        .B = B,
        .F = layer->in.dim[1],
        .H = H,
        .G = G,
        .steps = steps,
        .gates = at,
        .extra = at + steps * B * G,
        .c = at + steps * B * (G + H),
        .h = at + steps * B * (G + H) + (steps + 1) * B * H,
        .mark = at + B * (tape_size(layer, steps) - 1),
        .scratch = io->scratch + (io->saved != NULL ? 0 : B * tape_size(layer, STEPS)),
        .first_ih = layer->weight_first,
        .first_hh = layer->weight_first + layer->weight_count,
        .first_bias_ih = layer->bias_first,
        .first_bias_hh = layer->bias_first + G,
    };
    tape.w_ih = io->params + tape.first_ih;
    tape.w_hh = io->params + tape.first_hh;
    tape.b_ih = io->params + tape.first_bias_ih;
    tape.b_hh = io->params + tape.first_bias_hh;
    return tape;
}

/* C[m, n] += A B; A as in `view` without its depth, B packed [k, n]. */
static void
product_add(struct gemm_view view, size_t m, size_t n, size_t k, const float *b, float *c,
            size_t ldc)
{
    const float *at = view.at;
    size_t share = gemm_depth(k);
    for (size_t d = 0; d < k; d += view.run) {
        view.at = at + d * view.step;
        view.run = least(k - d, share);
        for (size_t j = 0; j < n; j += GEMM_COLUMNS)
            gemm_panel(&view, m, least(n - j, GEMM_COLUMNS), view.run, b + j * k + d * GEMM_COLUMNS,
                       true, c + j, ldc);
    }
}

/* gates of steps t.. get what does not depend on h'. */
static void
inputs_forward(const struct tape *tape, const struct layer_io *io, const float *packed,
               const float *bias, size_t t, size_t steps)
{
    size_t B = tape->B, F = tape->F, G = tape->G;
    vmath_spread(bias, tape->gates, steps * B, G);
    struct gemm_view x = {io->x + t * F, B, F, tape->T * F, 0, 0, 1};
    product_add(x, steps * B, G, F, packed, tape->gates, G);
}

static void
step_forward(const struct layer *layer, const struct tape *tape, const float *packed, float *q,
             size_t s)
{
    size_t B = tape->B, H = tape->H, G = tape->G, n = B * H;
    float *gates = tape->gates + s * B * G, *h = tape->h + s * n, *c = tape->c + s * n;
    struct gemm_view view = {h, B, 0, H, 0, 0, 1};
    if (layer->spec.kind == NN_GRU)
        vmath_spread(tape->b_hh, q, B, G);
    else
        q = gates;
    product_add(view, B, G, H, packed, q, G);
    if (layer->spec.kind == NN_LSTM)
        recurrent_lstm(gates, c, c + n, tape->extra + s * n, h + n, B, H);
    else if (layer->spec.kind == NN_GRU)
        recurrent_gru(gates, q, h, tape->extra + s * n, h + n, B, H);
    else
        vmath_tanh(gates, h + n, n);
}

/* h of each row to where the layer's output has it. */
static void
step_output(const struct layer *layer, const struct tape *tape, const float *h, size_t t, float *y)
{
    size_t H = tape->H;
    if (layer->spec.last && t + 1 < tape->T)
        return;
    for (size_t r = 0; r < tape->B; r++)
        memcpy(y + r * layer->out_size + (layer->spec.last ? 0 : t * H), h + r * H, H * sizeof *h);
}

/* The state at the end of a tape in evaluation is that at its beginning. */
static void
tape_begin(const struct tape *tape, bool again)
{
    size_t n = tape->B * tape->H;
    if (again) {
        memcpy(tape->h, tape->h + tape->steps * n, n * sizeof *tape->h);
        memcpy(tape->c, tape->c + tape->steps * n, n * sizeof *tape->c);
    } else {
        memset(tape->h, 0, n * sizeof *tape->h);
        memset(tape->c, 0, n * sizeof *tape->c);
        *tape->mark = 0;
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

static void
forward(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = tape_of(layer, io);
    float *w_ih = tape.scratch, *w_hh = w_ih + gemm_packed_size(tape.F, tape.G);
    float *bias = w_hh + gemm_packed_size(tape.H, tape.G), *q = bias + tape.G;
    if (tape.B == 0)
        return;
    gemm_pack_transposed(tape.w_ih, tape.F, tape.F, tape.G, w_ih);
    gemm_pack_transposed(tape.w_hh, tape.H, tape.H, tape.G, w_hh);
    bias_start(layer, &tape, bias);
    for (size_t t = 0; t < tape.T; t += tape.steps) {
        size_t steps = least(tape.T - t, tape.steps);
        tape_begin(&tape, t > 0);
        inputs_forward(&tape, io, w_ih, bias, t, steps);
        for (size_t s = 0; s < steps; s++) {
            step_forward(layer, &tape, w_hh, q, s);
            step_output(layer, &tape, tape.h + (s + 1) * tape.B * tape.H, t + s, io->y);
        }
    }
}

/* What the products with h' are made of, as columns of the tape: all gates, but the gru's n is apart. */
struct part {
    const float *at;
    size_t ld, first, count;
};

static size_t
hidden_parts(const struct layer *layer, const struct tape *tape, struct part part[2])
{
    size_t own = layer->spec.kind == NN_GRU ? 2 * tape->H : tape->G;
    part[0] = (struct part){tape->gates, tape->G, 0, own};
    part[1] = (struct part){tape->extra, tape->H, own, tape->H};
    return own < tape->G ? 2 : 1;
}

/* dh gets the gradient from outside. */
static void
output_gradient(const struct layer *layer, const struct layer_io *io, const struct tape *tape,
                size_t t, float *dh)
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
    size_t n = tape->B * tape->H;
    float *gates = tape->gates + t * tape->B * tape->G, *extra = tape->extra + t * n;
    if (layer->spec.kind == NN_LSTM)
        recurrent_lstm_grad(gates, tape->c + t * n, extra, dh, dc, tape->B, tape->H);
    else if (layer->spec.kind == NN_GRU)
        recurrent_gru_grad(gates, tape->h + t * n, extra, dh, tape->B, tape->H);
    else
        recurrent_rnn_grad(gates, tape->h + (t + 1) * n, dh, n);
}

/* Back-propagation through time: turns the tape into gradients. */
static void
steps_backward(const struct layer *layer, const struct layer_io *io, const struct tape *tape)
{
    size_t B = tape->B, H = tape->H, n = B * H;
    float *packed = tape->scratch, *dh = packed + gemm_packed_size(tape->G, H), *dc = dh + n;
    struct part part[2];
    size_t parts = hidden_parts(layer, tape, part);
    if (*tape->mark > 0)
        return;
    *tape->mark = 1;
    float *to = packed;
    for (size_t p = 0; p < parts; p++) {
        gemm_pack(tape->w_hh + part[p].first * H, H, part[p].count, H, to);
        to += gemm_packed_size(part[p].count, H);
    }
    memset(dh, 0, 2 * n * sizeof *dh);
    for (size_t t = tape->T; t-- > 0;) {
        output_gradient(layer, io, tape, t, dh);
        step_gradient(layer, tape, t, dh, dc);
        const float *w = packed;
        for (size_t p = 0; t > 0 && p < parts; p++) {
            struct gemm_view view = {part[p].at + t * B * part[p].ld, B, 0, part[p].ld, 0, 0, 1};
            product_add(view, B, H, part[p].count, w, dh, H);
            w += gemm_packed_size(part[p].count, H);
        }
    }
}

/* Gradient of the rows of a weight that belong to the part: each element sums over rows, then over steps. v of
 * row r: [T, n] at v + r * apart, steps `ld` apart. */
static void
weight_gradient(const struct tape *tape, const struct layer_io *io, const struct part *part,
                const float *v, size_t apart, size_t ld, size_t n, size_t first)
{
    size_t T = tape->T, B = tape->B, panels = gemm_packed_size(T, n);
    float *packed = tape->scratch, *across = packed + B * panels, *dw = across + B * T * CHUNK;
    for (size_t r = 0; r < B; r++)
        gemm_pack(v + r * apart, ld, T, n, packed + r * panels);
    for (size_t o = 0; o < part->count; o += CHUNK) {
        size_t units = least(part->count - o, CHUNK);
        for (size_t r = 0; r < B; r++)
            gemm_transpose(part->at + r * part->ld + o, B * part->ld, T, units,
                           across + r * T * units, T);
        memset(dw, 0, units * n * sizeof *dw);
        for (size_t j = 0; j < n; j += GEMM_COLUMNS)
            for (size_t r = 0; r < B; r++) {
                struct gemm_view view = {across + r * T * units, units, 0, T, T, 0, 1};
                gemm_panel(&view, units, least(n - j, GEMM_COLUMNS), T, packed + r * panels + j * T,
                           true, dw + j, n);
            }
        layer_sink(io, first + (part->first + o) * n, dw, units * n);
    }
}

static void
bias_gradient(const struct tape *tape, const struct layer_io *io, const struct part *part,
              size_t first)
{
    float *db = tape->scratch;
    memset(db, 0, part->count * sizeof *db);
    vmath_sum_rows(part->at, part->ld, tape->T * tape->B, db, part->count);
    layer_sink(io, first + part->first, db, part->count);
}

static void
inputs_backward(const struct tape *tape, const struct layer_io *io)
{
    size_t T = tape->T, F = tape->F, G = tape->G, B = tape->B;
    gemm_pack(tape->w_ih, F, G, F, tape->scratch);
    memset(io->dx, 0, B * T * F * sizeof *io->dx);
    for (size_t r = 0; r < B; r++) {
        struct gemm_view view = {tape->gates + r * G, T, 0, B * G, 0, 0, 1};
        product_add(view, T, F, G, tape->scratch, io->dx + r * T * F, F);
    }
}

static void
backward(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = tape_of(layer, io);
    const struct part all = {tape.gates, tape.G, 0, tape.G};
    struct part part[2];
    size_t parts = hidden_parts(layer, &tape, part), T = tape.T, F = tape.F, H = tape.H;
    if (tape.B > 0)
        steps_backward(layer, io, &tape);
    if (io->sink != NULL) {
        weight_gradient(&tape, io, &all, io->x, T * F, F, F, tape.first_ih);
        for (size_t p = 0; p < parts; p++)
            weight_gradient(&tape, io, &part[p], tape.h, H, tape.B * H, H, tape.first_hh);
        bias_gradient(&tape, io, &all, tape.first_bias_ih);
        for (size_t p = 0; p < parts; p++)
            bias_gradient(&tape, io, &part[p], tape.first_bias_hh);
    }
    if (io->dx != NULL)
        inputs_backward(&tape, io);
}

static float
sigmoid(float x)
{
    vmath_sigmoid(&x, &x, 1);
    return x;
}

static float
hyperbolic(float x)
{
    vmath_tanh(&x, &x, 1);
    return x;
}

static float
dot_add(float sum, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

/* p of gate element g, without (x only) or with h'. */
static float
gate_naive(const struct tape *tape, const float *x, const float *h, size_t g, bool both)
{
    float p = both ? tape->b_ih[g] + tape->b_hh[g] : tape->b_ih[g];
    p = dot_add(p, x, tape->w_ih + g * tape->F, tape->F);
    return both ? dot_add(p, h, tape->w_hh + g * tape->H, tape->H) : p;
}

static void
unit_naive(const struct layer *layer, const struct tape *tape, const float *x, size_t t, size_t r,
           size_t j)
{
    size_t H = tape->H, n = tape->B * H, at = t * n + r * H + j;
    float *gate = tape->gates + (t * tape->B + r) * tape->G + j;
    const float *h = tape->h + t * n + r * H;
    if (layer->spec.kind == NN_GRU) {
        float q[3];
        for (size_t g = 0; g < 3; g++)
            q[g] = dot_add(tape->b_hh[g * H + j], h, tape->w_hh + (g * H + j) * H, H);
        gate[0] = sigmoid(gate_naive(tape, x, h, j, false) + q[0]);
        gate[H] = sigmoid(gate_naive(tape, x, h, H + j, false) + q[1]);
        gate[2 * H] = hyperbolic(gate_naive(tape, x, h, 2 * H + j, false) + gate[0] * q[2]);
        tape->extra[at] = q[2];
        tape->h[at + n] = (1 - gate[H]) * gate[2 * H] + gate[H] * h[j];
    } else if (layer->spec.kind == NN_LSTM) {
        for (size_t g = 0; g < 4; g++) {
            float p = gate_naive(tape, x, h, g * H + j, true);
            gate[g * H] = g == 2 ? hyperbolic(p) : sigmoid(p);
        }
        tape->c[at + n] = gate[H] * tape->c[at] + gate[0] * gate[2 * H];
        tape->extra[at] = hyperbolic(tape->c[at + n]);
        tape->h[at + n] = gate[3 * H] * tape->extra[at];
    } else {
        tape->h[at + n] = hyperbolic(gate_naive(tape, x, h, j, true));
    }
}

static void
forward_naive(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = tape_of(layer, io);
    if (tape.B == 0)
        return;
    tape_begin(&tape, false);
    for (size_t t = 0; t < tape.T; t++) {
        for (size_t r = 0; r < tape.B; r++)
            for (size_t j = 0; j < tape.H; j++)
                unit_naive(layer, &tape, io->x + (r * tape.T + t) * tape.F, t, r, j);
        step_output(layer, &tape, tape.h + (t + 1) * tape.B * tape.H, t, io->y);
    }
}

/* d loss / d p (and q) of one unit of one step, in place; what goes straight to h' replaces dh. */
static void
unit_gradient_naive(const struct layer *layer, const struct tape *tape, size_t t, size_t r,
                    size_t j, float *dh, float *dc)
{
    size_t H = tape->H, n = tape->B * H, at = t * n + r * H + j;
    float *gate = tape->gates + (t * tape->B + r) * tape->G + j, h = tape->h[at + n], d = *dh;
    *dh = 0;
    if (layer->spec.kind == NN_RNN) {
        gate[0] = d * (1 - h * h);
        return;
    }
    if (layer->spec.kind == NN_GRU) {
        float reset = gate[0], z = gate[H], new = gate[2 * H], dp = (d * (1 - z)) * (1 - new *new);
        gate[H] = (d * (tape->h[at] - new)) * (z * (1 - z));
        gate[0] = (dp * tape->extra[at]) * (reset * (1 - reset));
        gate[2 * H] = dp;
        tape->extra[at] = dp * reset;
        *dh = d * z;
        return;
    }
    float i = gate[0], f = gate[H], g = gate[2 * H], o = gate[3 * H], bent = tape->extra[at];
    float all = *dc + (d * o) * (1 - bent * bent);
    gate[3 * H] = (d * bent) * (o * (1 - o));
    gate[0] = (all * g) * (i * (1 - i));
    gate[2 * H] = (all * i) * (1 - g * g);
    gate[H] = (all * tape->c[at]) * (f * (1 - f));
    *dc = all * f;
}

static void
step_backward_naive(const struct layer *layer, const struct layer_io *io, const struct tape *tape,
                    size_t t, float *dh, float *dc)
{
    size_t H = tape->H;
    struct part part[2];
    size_t parts = hidden_parts(layer, tape, part);
    output_gradient(layer, io, tape, t, dh);
    for (size_t r = 0; r < tape->B; r++)
        for (size_t j = 0; j < H; j++)
            unit_gradient_naive(layer, tape, t, r, j, dh + r * H + j, dc + r * H + j);
    for (size_t r = 0; r < tape->B; r++)
        for (size_t j = 0; j < H; j++)
            for (size_t p = 0; p < parts; p++)
                for (size_t g = 0; g < part[p].count; g++)
                    dh[r * H + j] = fmaf(part[p].at[(t * tape->B + r) * part[p].ld + g],
                                         tape->w_hh[(part[p].first + g) * H + j], dh[r * H + j]);
}

/* Gradients of one part of a weight and its bias; v as in weight_gradient. */
static void
part_gradient_naive(const struct tape *tape, const struct layer_io *io, const struct part *part,
                    const float *v, size_t apart, size_t ld, size_t n, size_t first, size_t bias)
{
    for (size_t g = 0; g < part->count; g++) {
        float db = 0;
        for (size_t i = 0; i < tape->T * tape->B; i++)
            db += part->at[i * part->ld + g];
        layer_sink(io, bias + part->first + g, &db, 1);
        for (size_t k = 0; k < n; k++) {
            float dw = 0;
            for (size_t r = 0; r < tape->B; r++)
                for (size_t t = 0; t < tape->T; t++)
                    dw = fmaf(part->at[(t * tape->B + r) * part->ld + g], v[r * apart + t * ld + k],
                              dw);
            layer_sink(io, first + (part->first + g) * n + k, &dw, 1);
        }
    }
}

static void
backward_naive(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = tape_of(layer, io);
    const struct part all = {tape.gates, tape.G, 0, tape.G};
    struct part part[2];
    size_t parts = hidden_parts(layer, &tape, part), T = tape.T, F = tape.F, H = tape.H;
    float *dh = tape.scratch, *dc = dh + tape.B * H;
    memset(dh, 0, 2 * tape.B * H * sizeof *dh);
    for (size_t t = T; tape.B > 0 && t-- > 0;)
        step_backward_naive(layer, io, &tape, t, dh, dc);
    part_gradient_naive(&tape, io, &all, io->x, T * F, F, F, tape.first_ih, tape.first_bias_ih);
    for (size_t p = 0; p < parts; p++)
        part_gradient_naive(&tape, io, &part[p], tape.h, H, tape.B * H, H, tape.first_hh,
                            tape.first_bias_hh);
    for (size_t i = 0; io->dx != NULL && i < tape.B * T * F; i++) {
        const float *d = tape.gates + (i / F % T * tape.B + i / (T * F)) * tape.G;
        io->dx[i] = 0;
        for (size_t g = 0; g < tape.G; g++)
            io->dx[i] = fmaf(d[g], tape.w_ih[g * F + i % F], io->dx[i]);
    }
}

/* The steps tell them apart by the layer's kind. */
#define KIND(name)                                                                                 \
    {                                                                                              \
        .word = (name), .recurrent = true, .shape = shape, .saved = saved, .scratch = scratch,     \
        .flops = flops, .forward = forward, .backward = backward, .forward_naive = forward_naive,  \
        .backward_naive = backward_naive,                                                          \
    }

const struct layer_kind rnn_kind = KIND("rnn");
const struct layer_kind lstm_kind = KIND("lstm");
const struct layer_kind gru_kind = KIND("gru");

/* naive_recurrent.c - nn/layers/recurrent.c by the definition, one number after the other. */
#include <math.h>
#include <string.h>

#include "nn/arithmetic/vmath.h"
#include "nn/layers/recurrent.h"
#include "tests/support/naive.h"

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
gate(const struct tape *tape, const float *x, const float *h, size_t g, bool both)
{
    float p = both ? tape->b_ih[g] + tape->b_hh[g] : tape->b_ih[g];
    p = dot_add(p, x, tape->w_ih + g * tape->F, tape->F);
    return both ? dot_add(p, h, tape->w_hh + g * tape->H, tape->H) : p;
}

static void
unit_forward(const struct layer *layer, const struct tape *tape, const float *x, size_t t, size_t r,
             size_t j)
{
    const struct recurrent_step step = recurrent_step(tape, t);
    size_t H = tape->H, row = r * tape->line, at = row + j;
    float *to = step.gates + at;
    const float *h = step.h0 + row;
    if (layer->spec.kind == NN_GRU) {
        float q[3];
        for (size_t g = 0; g < 3; g++)
            q[g] = dot_add(tape->b_hh[g * H + j], h, tape->w_hh + (g * H + j) * H, H);
        to[0] = sigmoid(gate(tape, x, h, j, false) + q[0]);
        to[H] = sigmoid(gate(tape, x, h, H + j, false) + q[1]);
        to[2 * H] = hyperbolic(gate(tape, x, h, 2 * H + j, false) + to[0] * q[2]);
        step.extra[at] = q[2];
        step.h[at] = (1 - to[H]) * to[2 * H] + to[H] * h[j];
    } else if (layer->spec.kind == NN_LSTM) {
        for (size_t g = 0; g < 4; g++) {
            float p = gate(tape, x, h, g * H + j, true);
            to[g * H] = g == 2 ? hyperbolic(p) : sigmoid(p);
        }
        step.c[at] = to[H] * step.c0[at] + to[0] * to[2 * H];
        step.extra[at] = hyperbolic(step.c[at]);
        step.h[at] = to[3 * H] * step.extra[at];
    } else {
        step.h[at] = hyperbolic(gate(tape, x, h, j, true));
    }
}

void
naive_recurrent_forward(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = recurrent_tape(layer, io);
    recurrent_begin(&tape);
    for (size_t t = 0; t < tape.T; t++) {
        for (size_t r = 0; r < tape.B; r++)
            for (size_t j = 0; j < tape.H; j++)
                unit_forward(layer, &tape, io->x + (r * tape.T + t) * tape.F, t, r, j);
        recurrent_output(layer, &tape, t, io->y);
    }
}

/* d loss / d p (and q) of one unit of one step, in place; what goes straight to h' replaces dh. */
static void
unit_gradient(const struct layer *layer, const struct tape *tape, size_t t, size_t r, size_t j,
              float *dh, float *dc)
{
    const struct recurrent_step step = recurrent_step(tape, t);
    size_t H = tape->H, at = r * tape->line + j;
    float *to = step.gates + at, h = step.h[at], d = *dh;
    *dh = 0;
    if (layer->spec.kind == NN_RNN) {
        to[0] = d * (1 - h * h);
        return;
    }
    if (layer->spec.kind == NN_GRU) {
        float reset = to[0], z = to[H], new = to[2 * H], dp = (d * (1 - z)) * (1 - new *new);
        to[H] = (d * (step.h0[at] - new)) * (z * (1 - z));
        to[0] = (dp * step.extra[at]) * (reset * (1 - reset));
        to[2 * H] = dp;
        step.extra[at] = dp * reset;
        *dh = d * z;
        return;
    }
    float i = to[0], f = to[H], g = to[2 * H], o = to[3 * H], bent = step.extra[at];
    float all = *dc + (d * o) * (1 - bent * bent);
    to[3 * H] = (d * bent) * (o * (1 - o));
    to[0] = (all * g) * (i * (1 - i));
    to[2 * H] = (all * i) * (1 - g * g);
    to[H] = (all * step.c0[at]) * (f * (1 - f));
    *dc = all * f;
}

/* Element g of a part in row r, step t. */
static float
part_at(const struct tape *tape, const struct recurrent_part *part, size_t r, size_t t, size_t g)
{
    return part->at[r * tape->line + t * part->ld + g];
}

static void
step_gradient(const struct layer *layer, const struct layer_io *io, const struct tape *tape,
              size_t t, float *dh, float *dc)
{
    size_t H = tape->H;
    struct recurrent_part part[2];
    size_t parts = recurrent_parts(layer, tape, part);
    recurrent_output_gradient(layer, io, tape, t, dh);
    for (size_t i = 0; i < tape->B * H; i++)
        unit_gradient(layer, tape, t, i / H, i % H, dh + i, dc + i);
    for (size_t i = 0; i < tape->B * H; i++)
        for (size_t p = 0; p < parts; p++)
            for (size_t g = 0; g < part[p].count; g++)
                dh[i] = fmaf(part_at(tape, &part[p], i / H, t, g),
                             tape->w_hh[(part[p].first + g) * H + i % H], dh[i]);
}

/* Gradients of one part of a weight and its bias; v of row r, step t: v + r * apart + t * ld. */
static void
part_gradient(const struct tape *tape, const struct layer_io *io, const struct recurrent_part *part,
              const float *v, size_t apart, size_t ld, size_t n, size_t first, size_t bias)
{
    for (size_t g = 0; g < part->count; g++) {
        float db = 0;
        for (size_t i = 0; i < tape->T * tape->B; i++)
            db += part_at(tape, part, i % tape->B, i / tape->B, g);
        layer_sink(io, bias + part->first + g, &db, 1);
        for (size_t k = 0; k < n; k++) {
            float dw = 0;
            for (size_t r = 0; r < tape->B; r++)
                for (size_t t = 0; t < tape->T; t++)
                    dw = fmaf(part_at(tape, part, r, t, g), v[r * apart + t * ld + k], dw);
            layer_sink(io, first + (part->first + g) * n + k, &dw, 1);
        }
    }
}

void
naive_recurrent_backward(const struct layer *layer, const struct layer_io *io)
{
    const struct tape tape = recurrent_tape(layer, io);
    const struct recurrent_part all = {tape.gates, tape.G, 0, tape.G};
    struct recurrent_part part[2];
    size_t parts = recurrent_parts(layer, &tape, part), T = tape.T, F = tape.F, H = tape.H;
    float *dh = tape.scratch, *dc = dh + tape.B * H;
    memset(dh, 0, 2 * tape.B * H * sizeof *dh);
    for (size_t t = T; t-- > 0;)
        step_gradient(layer, io, &tape, t, dh, dc);
    part_gradient(&tape, io, &all, io->x, T * F, F, F, tape.first_ih, tape.first_bias_ih);
    for (size_t p = 0; p < parts; p++)
        part_gradient(&tape, io, &part[p], tape.h, tape.line, H, H, tape.first_hh,
                      tape.first_bias_hh);
    for (size_t i = 0; io->dx != NULL && i < tape.B * T * F; i++) {
        io->dx[i] = 0;
        for (size_t g = 0; g < tape.G; g++)
            io->dx[i] = fmaf(part_at(&tape, &all, i / (T * F), i / F % T, g),
                             tape.w_ih[g * F + i % F], io->dx[i]);
    }
}

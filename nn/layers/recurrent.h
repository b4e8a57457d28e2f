/* recurrent.h - the tape of recurrent.c; tests compute on it by the definition. */
#ifndef NN_RECURRENT_H
#define NN_RECURRENT_H

#include "nn/arithmetic/simd.h"
#include "nn/layers/layer.h"

struct tape {
    size_t T, B, F, H, G;                /* steps, rows, inputs, units; G: gates H */
    size_t line;                         /* floats from row to row */
    bool kept;                           /* all steps; else one of them, and two states */
    float *gates, *extra, *c, *h, *mark; /* of the first row */
    float *scratch;
    const float *w_ih, *w_hh, *b_ih, *b_hh;
    size_t first_ih, first_hh, first_bias_ih, first_bias_hh;
};

struct tape recurrent_tape(const struct layer *layer, const struct layer_io *io);
/* Where step t of all rows is. */
struct recurrent_step recurrent_step(const struct tape *tape, size_t t);
/* The state before the first step. */
void recurrent_begin(const struct tape *tape);
/* h after step t to where the layer's output has it. */
void recurrent_output(const struct layer *layer, const struct tape *tape, size_t t, float *y);
/* dh[rows, H] of step t gets the gradient from outside. */
void recurrent_output_gradient(const struct layer *layer, const struct layer_io *io,
                               const struct tape *tape, size_t t, float *dh);

/* What the products with h' are made of, as columns of the tape: all gates, but the gru's n is apart. */
struct recurrent_part {
    const float *at; /* of the first row and step; steps ld apart */
    size_t ld, first, count;
};
/* Returns how many. */
size_t recurrent_parts(const struct layer *layer, const struct tape *tape,
                       struct recurrent_part part[2]);

#endif

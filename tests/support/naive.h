/* naive.h - layers by their definition, one number after the other, for comparison with the fast ones.
 *
 * For dense, conv, maxpool, upsample, attention, rnn, lstm and gru. The layer and what it works on are those of
 * layer.h; recurrent layers have the same bits as the fast ones, the others come near. */
#ifndef SUPPORT_NAIVE_H
#define SUPPORT_NAIVE_H

#include "nn/layers/layer.h"

void naive_forward(const struct layer *layer, const struct layer_io *io);
void naive_backward(const struct layer *layer, const struct layer_io *io);

/* naive_recurrent.c. */
void naive_recurrent_forward(const struct layer *layer, const struct layer_io *io);
void naive_recurrent_backward(const struct layer *layer, const struct layer_io *io);

#endif

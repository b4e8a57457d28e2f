/* sample.h - let a trained model of bytes write a text.
 *
 * The model's outputs at the last byte are the odds of the next one. It is drawn, printed at once, and becomes the
 * last byte. Only the last data.context bytes are looked at: when the text is longer, the window slides.
 *
 *     z = outputs / temperature, of the top_k largest; P(byte) = exp z / sum of exp z
 *     temperature 0: the byte with the largest output
 *
 * Byte i of a text is drawn with number i of the seed, so the text is a pure function of model, prompt and options.
 * The data of the job are not needed. */
#ifndef NODE_SAMPLE_H
#define NODE_SAMPLE_H

#include "node/config.h"
#include "node/options.h"

/* Prompt and text to standard output. Returns the exit status; says itself what is wrong. */
int sample_run(struct config *config, const char *model_path, const struct options *options);

/* The byte that z[256] gives with u in (0, 1); -1 when z holds NaN or infinity. */
int sample_draw(const float *z, double temperature, uint64_t top_k, double u);

#endif

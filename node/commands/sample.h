/* sample.h - lets a trained model of bytes write a text.
 *
 * The model's outputs at the last byte are the probabilities of the next byte. The next byte is drawn, printed at
 * once, and becomes the last byte. The model sees only the last data.context bytes; for a longer text the window
 * moves on.
 *
 *     z = outputs / temperature, of the top_k largest; P(byte) = exp z / sum of exp z
 *     temperature 0: the byte with the largest output
 *
 * Byte i of a text is drawn with number i of the seed. So the text is a pure function of model, prompt and options.
 * It does not need the job's data. */
#ifndef NODE_SAMPLE_H
#define NODE_SAMPLE_H

#include "node/cli/options.h"
#include "node/job/config.h"

/* Prints the prompt and the text on standard output. Returns the exit status and prints its own errors. */
int sample_run(struct config *config, const char *model_path, const struct options *options);

/* The byte that z[256] gives for u in (0, 1); -1 if z has NaN or infinity. */
int sample_draw(const float *z, double temperature, uint64_t top_k, double u);

#endif

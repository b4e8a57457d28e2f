/* python.h - prints a Python program that rebuilds a job's model in PyTorch and loads a model.safetensors into it.
 *
 * It needs PyTorch alone: the file is read with json and struct. Its `net` gives what `predict` makes of a sample before
 * probabilities are made of it. */
#ifndef NODE_PYTHON_H
#define NODE_PYTHON_H

#include "node/job/config.h"

/* Returns the exit status; prints its own errors. */
int python_print(struct config *config, const char *model_path);

#endif

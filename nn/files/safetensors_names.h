/* safetensors_names.h - which tensor of a file is which of a model, when their names differ. */
#ifndef NN_SAFETENSORS_NAMES_H
#define NN_SAFETENSORS_NAMES_H

#include <stdbool.h>

#include "nn/nn.h"
#include "proto/why.h"

struct json_t;

/* A counter of PyTorch's batch norm, which no computation needs. */
bool safetensors_counter(const char *name);
/* Sets names[tensor] to what the tensor is called in the header of a file: its own name, or that of PyTorch's
 * state_dict, "0.weight" for "0.dense.weight". The latter go by order: by number, layer after layer, with the same
 * weights in each. Then `said` says which layer is which, else it is empty. False: the names are others. */
bool safetensors_names(const struct nn_model *model, struct json_t *header, const char **names,
                       struct why *said);

#endif

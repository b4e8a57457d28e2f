/* config_hint.h - names that other programs give to what a job calls otherwise, for messages. */
#ifndef NODE_CONFIG_HINT_H
#define NODE_CONFIG_HINT_H

#include <stdbool.h>
#include <stddef.h>

/* What to say of a word that is no layer: "did you mean dense?". NULL: nothing special. */
const char *config_hint_layer(const char *word);
/* The key for a name that is none: "train.optimizer.*.rate" for learning_rate. NULL: none. */
const char *config_hint_key(const char *name);
/* The setting that an unknown option, without its dashes, must mean: "train.epochs=VALUE" for "epochs",
 * "mesh.topology=gossip" for "gossip". False: none, or several. */
bool config_hint_option(const char *name, char *path, size_t size);

#endif

/* gather.h - the whole of the last state in a file, on a node that holds only a part of it: for model.safetensors and
 * the hashes of result.json. No more than one buffer of it is ever in memory.
 *
 *     gather_open(&gather, dir, &state, why)      // with what this node holds
 *     gather_add(gather, block, &range, why)      // what others hold, from a block like that of the state
 *     gather_sha256(gather, params, state, why)  // when all is there
 *     gather_write_model(gather, path, ..)
 *
 * The file has no name, and its space is reserved when it is opened. */
#ifndef NODE_GATHER_H
#define NODE_GATHER_H

#include "node/train/model_file.h"

struct gather;

/* Borrows the state. Returns 0 or -errno with `why`: the disk has no room. */
int gather_open(struct gather **out, const char *dir, const struct state *state, struct why *why);
void gather_close(struct gather **gather);
/* What a block like that of the state has of this range of the parameters: these, slots and exponents. */
int gather_add(struct gather *gather, const uint8_t *block, const struct state_range *range,
               struct why *why);

/* Of the whole state, and of its weights: state_weights. */
int gather_sha256(struct gather *gather, char params[65], char state[65], struct why *why);
/* Like model_file_write, of the weights. `file` needs no hash. */
int gather_write_model(struct gather *gather, const char *path, const struct config *config,
                       const struct job *job, const struct model_file *file, struct why *why);

#endif

/* parts.h - of a node that holds only some segments of the model (stages.h): what it begins with.
 *
 * Where a checkpoint has parts, the node holds these. Else, if there is not room for all (memory.h), the mesh says what
 * it is to hold, and may do so again later. Memory outside is never touched: states and vectors are address space of
 * the whole. */
#ifndef NODE_PARTS_H
#define NODE_PARTS_H

#include "node/train/stages_mesh.h"
#include "node/train/train_internal.h"

/* Before a checkpoint is read. False: the mesh is to say what this node holds. */
bool parts_known(struct run *run, const struct stages_mesh *mesh);
/* Holds these segments, and nothing else: a checkpoint of them the first time, if there is one, else the state before
 * round 0. Returns 0, -ENOMEM, or the error of reading what the job starts from, with `why`. */
int parts_hold(struct run *run, const struct stages_mesh *mesh, uint64_t segments, struct why *why);
/* Nothing on the disk has all that is held since it became more: holds what the newest checkpoint has, and reads one of
 * a state before a round below `round`. False: there is none. */
bool parts_back(struct run *run, const struct stages_mesh *mesh, uint64_t round);
/* Holds these segments too, of the present state. `block` is like that of the state; `parts` are hashes, as of
 * state_parts. Returns 0; -EBADMSG if they are others; or -ENOMEM with `why`. Then all is as it was. */
int parts_hold_more(struct run *run, const struct stages_mesh *mesh, uint64_t segments,
                    const uint8_t *block, const uint64_t *parts, struct why *why);

#endif

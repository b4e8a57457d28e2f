/* repair.h - at the start, restores a damaged checkpoint with pages from the copies of other nodes.
 *
 * All nodes that hold the same of the model have the same file; a page of another one does not fit (nn/files.h). Before
 * this node tells the mesh its first state, it asks for page after page and checks each, and at the end the hash of the
 * whole. Then the result replaces the damaged file. So four copies with damage in different places restore one another.
 * The newest damaged checkpoint comes first. If nobody has the missing pages, twice in turn, the state is taken from a
 * node that has it or a later one, before that node's run ends; if there is none, the pages are asked for again for
 * REPAIR_PATIENCE_MS, then the checkpoint before is tried. */
#ifndef NODE_REPAIR_H
#define NODE_REPAIR_H

#include "node/train/train_internal.h"

enum repair_end {
    REPAIR_DONE,        /* the file's sections hold the checkpoint, and it is on the disk again */
    REPAIR_AHEAD,       /* nobody has its pages, but a node is as far or further: take its state */
    REPAIR_FAILED,      /* nobody has the missing pages, nor the state; `why` names the pages */
    REPAIR_INTERRUPTED, /* mesh_interrupt was called */
};

/* Without a page for so long, although all expected nodes are there. */
enum { REPAIR_PATIENCE_MS = 5000 };

/* `met`: there was another node to ask. */
enum repair_end repair_run(struct run *run, bool *met, struct why *why);

#endif

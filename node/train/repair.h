/* repair.h - at the start, restores a damaged checkpoint with pages from the copies of other nodes.
 *
 * All nodes have the same file. Before this node tells the mesh its first state, it asks for page after page and
 * checks each, and at the end the hash of the whole. Then the result replaces the damaged file. So four copies with
 * damage in different places restore one another. The newest damaged checkpoint comes first. A page that does not come
 * is asked for again for REPAIR_PATIENCE_MS, even if the others train already. If nobody has the missing pages, the
 * state is taken from a node that has it or a later one; else the checkpoint before is tried. */
#ifndef NODE_REPAIR_H
#define NODE_REPAIR_H

#include "mesh/mesh.h"
#include "nn/files.h"
#include "proto/why.h"

enum repair_end {
    REPAIR_DONE,        /* the file's sections hold the checkpoint, and it is on the disk again */
    REPAIR_AHEAD,       /* nobody has its pages, but a node is as far or further: take its state */
    REPAIR_FAILED,      /* nobody has the missing pages, nor the state; `why` names the pages */
    REPAIR_INTERRUPTED, /* mesh_interrupt was called */
};

struct repair {
    const char *dir;
    struct mesh *mesh;
    struct checkpoint file; /* which file, and where its data goes; step and round are not used */
    struct checkpoint_found found;
    unsigned peers_min; /* nodes to wait for, this one included */
    uint64_t gather_ms; /* if that is 1: how long to wait for others */
    void (*say)(void *ctx, int level, const char *line);
    void *ctx;
    bool met; /* set by repair_run: there was another node to ask */
};

enum {
    REPAIR_PATIENCE_MS = 5000
}; /* without a page for this long, although all expected nodes are there */

enum repair_end repair_run(struct repair *repair, struct why *why);

#endif

/* repair.h - at the start: make a damaged checkpoint whole again with pages of the other nodes' copies.
 *
 * All nodes hold the same file. While this node has not told the mesh its first state it asks for page after
 * page, checks each, and at last the hash of the whole, which then replaces the damaged file. So four copies
 * damaged in different places restore one another. The newest damaged checkpoint comes first; when nobody has
 * its missing pages, the one before. */
#ifndef NODE_REPAIR_H
#define NODE_REPAIR_H

#include "mesh/mesh.h"
#include "nn/files.h"

enum repair_end {
    REPAIR_DONE,        /* the file's sections hold the checkpoint, and it is on the disk again */
    REPAIR_AHEAD,       /* somebody is as far or further: take the state from there */
    REPAIR_FAILED,      /* nobody has what is missing; `why` says what */
    REPAIR_INTERRUPTED, /* mesh_interrupt was called */
};

struct repair {
    const char *dir;
    struct mesh *mesh;
    struct checkpoint file; /* which one, and where it goes; step and round do not matter */
    struct checkpoint_found found;
    unsigned peers_min; /* nodes to wait for, this one included */
    uint64_t gather_ms; /* when that is 1: how long somebody may come */
    void (*say)(void *ctx, int level, const char *line);
    void *ctx;
    bool met; /* set by repair_run: another node was there to be asked */
};

enum { REPAIR_PATIENCE_MS = 5000 }; /* without a page, with everybody there who is waited for */

enum repair_end repair_run(struct repair *repair, char *why, size_t why_size);

#endif

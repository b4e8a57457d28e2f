/* polite.h - a thread that leaves this machine to its people: it measures who uses it (host_use.h, pause_when.h),
 * decides (idle.h), and sees to it that fewer threads compute, that the mesh does not count on this node, and that the
 * live line says so.
 *
 * With --idle only the threads that compute are idle (pool.h). The others, which answer the mesh, have little to do,
 * and nobody waits for them: a node whose threads find no CPU has left before it is missed, unless it alone holds a
 * part of the model. */
#ifndef NODE_POLITE_H
#define NODE_POLITE_H

#include "mesh/mesh.h"
#include "node/job/config.h"
#include "node/results/metrics.h"
#include "node/train/pool.h"
#include "proto/why.h"

struct polite;

struct polite_setup {
    const struct config *config;
    struct pool *pool; /* idle, if config->idle */
    struct mesh *mesh;
    struct metrics *metrics;
};

/* Before any thread is started: nice, and the class of disks. 0, or -errno with `why`. */
int polite_begin(const struct config *config, struct why *why);
/* NULL is written if there is nothing to do. 0, or -errno with `why`. */
int polite_new(struct polite **out, const struct polite_setup *setup, struct why *why);
void polite_destroy(struct polite **polite); /* before what is in the setup */

#endif

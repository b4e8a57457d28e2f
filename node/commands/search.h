/* search.h - a node without a job looks for a mesh that has one, and says so on the terminal. */
#ifndef NODE_SEARCH_H
#define NODE_SEARCH_H

#include "mesh/mesh.h"
#include "node/job/config.h"
#include "proto/why.h"

/* Waits for a mesh that has a job, and takes it. Returns 0, -EINTR after mesh_job_interrupt, or another negative errno
 * with a line in `why`. */
int search_job(const struct config *config, struct mesh_job *job, struct why *why);

#endif

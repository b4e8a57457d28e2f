/* local.h - several nodes on this machine, in one terminal. */
#ifndef NODE_LOCAL_H
#define NODE_LOCAL_H

#include "node/cli/options.h"
#include "node/job/config.h"

/* Runs options->nodes (0: four) real processes of this program on `job`, in their own mesh on the loopback
 * interface, and compares their results. `config` is the checked job, for names and folders.
 *
 * Exit status: 0 when at least one node finished, all that finished hold the same bits, and the others were killed
 * from outside; 1, 2 and 130 as usual. */
int local_run(struct config *config, const char *job, const struct options *options);

#endif

/* local.h - several nodes on this machine, in one terminal. */
#ifndef NODE_LOCAL_H
#define NODE_LOCAL_H

#include "node/config.h"
#include "node/options.h"

/* Run options->nodes (0: four) real processes of this program on `job`, an own mesh on the loopback
 * interface, and compare what they end with. `config` is the job as checked, for names and folders.
 *
 * Exit status: 0 when at least one node finished, all that finished hold the same bits, and the others
 * were killed from outside; 1, 2 and 130 as ever. */
int local_run(const struct config *config, const char *job, const struct options *options);

#endif

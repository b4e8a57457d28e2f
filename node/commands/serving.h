/* serving.h - for `meshnode check`: who would serve how many bytes of a sum (mesh.topology: server), and what a step
 * sends with gossip and with servers that do not wait. */
#ifndef NODE_SERVING_H
#define NODE_SERVING_H

#include "node/job/job.h"

/* Prints a table for people; nothing for a ring. Returns 0 or -ENOMEM. */
int serving_print(const struct config *config, const struct job *job);

#endif

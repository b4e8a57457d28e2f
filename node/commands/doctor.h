/* doctor.h - asks of this machine, and of each node that it hears, what is wrong, and says what to do. */
#ifndef NODE_DOCTOR_H
#define NODE_DOCTOR_H

#include <stdbool.h>

#include "node/job/config.h"

/* Prints one line per finding, or an object of JSON. `job`: config is one, else it only says where to look. `broken`:
 * why the job cannot be read; NULL: it can, or there is none. After the job's data are read it takes less than 5 s.
 * Exit status 0: nothing is wrong; 1. */
int doctor_run(struct config *config, bool job, const char *broken, bool json);

#endif

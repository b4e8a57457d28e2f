/* replay.h - computes a run of a free mode again, from its job and the journals of its nodes.
 *
 * Every folder has job.json, whose "text" is the job, and a journal; those of nodes that died belong to the run as well.
 * A folder with result.json is of a node that had the final model: its journal has the history of each range. From there
 * the records lead back to the first parameters, and forwards again: each gradient that the model took is computed from
 * what its worker had read, and applied in the order in which its range took it. Then the SHA-256 of the parameters must
 * be the one in result.json. It also says whether each ticket is in each range once, and how
 * old the values were that gradients came from (replay_staleness.h). One machine, one node, the memory of
 * a run and one model for each node that trained. */
#ifndef NODE_REPLAY_H
#define NODE_REPLAY_H

#include <stdio.h>

#include "node/commands/verify.h"
#include "node/job/config.h"

/* The config of the run in `dir`, as its job.json has it. Returns 0 or a negative errno with `why`. */
int replay_config(struct config **out, const char *dir, struct why *why);
/* Replays the run of folders dir[count], 1..VERIFY_DIRS_MAX. Prints findings and a verdict to `out`. Returns 0 when the
 * result is proved, 1 when not, 2 when something needed is not there. */
int replay_run(FILE *out, const struct config *config, const char *const *dir, size_t count);

#endif

/* from.h - train.from: a run that begins with what another run came to, whichever way that was trained.
 *
 * Of a checkpoint it takes the weights, the optimizer's memory, averages, the exponents of the gradients, and how many
 * steps were done. So rates and epochs go on where they were, and everything else is the new job's own: how nodes
 * synchronise, exact or not, data, batch, shards. The state is part of the job, as the weights of model.from are; its
 * name is not. A checkpoint of a free way to train has more sections, which are not needed; the one after its last step
 * has an optimizer that has seen nothing. What the checkpoint is of, job.json beside it says: the model and the
 * optimizer must be the same. */
#ifndef NODE_FROM_H
#define NODE_FROM_H

#include "nn/files/checkpoint.h"
#include "node/train/job.h"
#include "node/train/left.h"
#include "proto/why.h"

/* Opens the checkpoint, if the job has one, as job->start, checks it, and sets job->begun and job->from_hash. Returns 0
 * or a negative errno with one line in `why`. job_close closes it. */
int from_read(struct job *job, const struct config *config, struct why *why);
/* What the state holds is read from it. Returns as from_read. */
int from_state(const struct job *job, struct state *state, struct why *why);

/* Says in which layer, class and column the model that the job starts from differs from the job, one line each: the
 * first of each kind. Of a checkpoint, the model.safetensors beside it knows the classes and columns. What is not known
 * is not said. */
typedef void from_say(void *ctx, const char *line);
void from_tell(const struct job *job, const struct config *config, from_say *say, void *ctx);

/* checkpoint_probe, whose line says so if the path is a folder, a model or another file of a run. */
int from_probe(const char *path, struct checkpoint_head *head, struct why *why);
/* Reads job.json beside a checkpoint, and returns the job with this hash: that of the folder or an earlier part of it.
 * NULL: unknown. The caller destroys it, and calls left_fini. */
struct config *from_writer(const char *path, uint64_t job_hash, struct left *left);

#endif

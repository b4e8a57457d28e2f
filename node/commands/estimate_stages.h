/* estimate_stages.h - for `meshnode check --peers N`, if the job has stages: how nodes like this machine divide the
 * model, and how long a step takes then.
 *
 * The division is that of the mesh (mesh/core/group/plan_stages.h). The parts of the model are measured here
 * (stage_times.h), and mesh/core/pipeline/steptime.h computes the step. */
#ifndef NODE_ESTIMATE_STAGES_H
#define NODE_ESTIMATE_STAGES_H

#include "node/train/job.h"
#include "node/train/work.h"
#include "proto/why.h"

struct estimate_stages;

/* Computes a few shards; the values of `own` are lost. `packed`: of the bytes of sums, those that travel. Returns 0 or
 * -ENOMEM. */
int estimate_stages_new(struct estimate_stages **out, const struct config *config,
                        const struct job *job, struct work *work, const struct state *state,
                        int32_t *own, double packed);
void estimate_stages_destroy(struct estimate_stages **estimate);

/* Microseconds of a step of so many nodes with lines of so many bytes per second, without applying the sum. 0: one
 * stage. */
uint64_t estimate_stages_us(struct estimate_stages *estimate, unsigned nodes, uint32_t line);
/* Prints what the last question was about, for people. False: one stage, nothing is printed. */
bool estimate_stages_print(struct estimate_stages *estimate);
/* Draws it. Returns 0, or a negative errno with one line in `why`. */
int estimate_stages_draw(struct estimate_stages *estimate, const char *path, struct why *why);

#endif

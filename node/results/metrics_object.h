/* metrics_object.h - the objects in metrics.jsonl, job.json and result.json. The caller must release each object. */
#ifndef NODE_METRICS_OBJECT_H
#define NODE_METRICS_OBJECT_H

#include <jansson.h>

#include "node/results/metrics.h"

/* `alarm`: the present problem; "": none. */
json_t *metrics_step_object(const struct metrics_step *step, double time_s, const char *alarm);
/* Adds the figures of an evaluation to the object of its step. */
void metrics_test_set(json_t *object, const struct metrics_step *step);
json_t *metrics_job_object(const struct metrics_job *job);
json_t *metrics_result_object(const struct metrics_result *result, uint64_t warnings);

#endif

/* metrics_object.h - what metrics.jsonl, job.json and result.json hold. Each object is the caller's to release. */
#ifndef NODE_METRICS_OBJECT_H
#define NODE_METRICS_OBJECT_H

#include <jansson.h>

#include "node/metrics.h"

/* `alarm`: what is wrong at present, "" nothing. */
json_t *metrics_step_object(const struct metrics_step *step, double time_s, const char *alarm);
/* The figures of an evaluation, added to the object of its step. */
void metrics_test_set(json_t *object, const struct metrics_step *step);
json_t *metrics_job_object(const struct metrics_job *job);
json_t *metrics_result_object(const struct metrics_result *result, uint64_t warnings);

#endif

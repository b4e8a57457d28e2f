/* recorded.h - for `meshnode check --timeline FILE.svg DIR...`: a step as the nodes of these results folders recorded
 * it (node/results/recording.h), drawn with a row for each (timeline.h) and told in words.
 *
 * It is the newest step that all of them recorded under one plan. Their clocks may differ: align.h. */
#ifndef NODE_RECORDED_H
#define NODE_RECORDED_H

#include <stddef.h>

#include "proto/why.h"

/* Draws the step into `path` and prints what it shows. dir[count], 1 or more. Returns 0, or a negative errno with one
 * line in `why` that names the folder or file: there are more than PROTO_PEERS_MAX; one is of another job; the same
 * node twice; no step in common; a line is damaged. A last line that is cut off is none: a killed node leaves one. */
int recorded_draw(const char *path, const char *const *dir, size_t count, struct why *why);

#endif

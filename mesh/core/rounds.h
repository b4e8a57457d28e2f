/* rounds.h - what the files of the engine "rounds" share: rounds.c drives, rounds_start.c begins and ends,
 * rounds_look.c answers questions. engine.h says what each function is for. */
#ifndef MESH_ROUNDS_H
#define MESH_ROUNDS_H

#include "mesh/core/core.h"

int rounds_start(struct core *core);
void rounds_end(struct core *core);
bool rounds_may_end(const struct core *core);
void rounds_stats(const struct core *core, struct core_stats *out);
const char *rounds_wrong(const struct core *core);

/* Drops the plan, if there is one and a reason. */
void rounds_abort(struct core *core, const char *why);

#endif

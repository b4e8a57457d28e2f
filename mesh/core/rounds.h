/* rounds.h - what the files of the engine "rounds" share: rounds.c drives, rounds_act.c acts, rounds_start.c begins and ends,
 * rounds_look.c answers questions. engine.h says what each function is for. */
#ifndef MESH_ROUNDS_H
#define MESH_ROUNDS_H

#include "mesh/core/audit.h"
#include "mesh/core/divergence.h"
#include "mesh/core/fetch.h"
#include "mesh/core/straggler.h"

int rounds_start(struct core *core);
void rounds_end(struct core *core);
bool rounds_may_end(const struct core *core);
void rounds_stats(const struct core *core, struct core_stats *out);
const char *rounds_wrong(const struct core *core);

/* --- rounds_act.c ---------------------------------------------------------------------------------- */

void rounds_adopt(struct core *core); /* core->plan.draft is the plan from now on */
void rounds_begin(struct core *core); /* a round of it begins */
void rounds_rest(struct core *core);  /* it is over, and the next one may begin */
/* Drops the plan, if there is one and a reason; because its members hold different states. */
void rounds_abort(struct core *core, const char *why);
void rounds_differ(struct core *core);
/* The state is not what it was said to be: nothing of it may get to the others. */
void rounds_void_state(struct core *core, const char *why);
/* Carries out what a part returned. */
void rounds_on_divergence(struct core *core, struct divergence_verdict verdict);
void rounds_on_fetch(struct core *core, struct fetch_verdict verdict);
void rounds_on_straggler(struct core *core, enum straggler_verdict verdict);
void rounds_on_audit(struct core *core, struct audit_verdict verdict);

#endif

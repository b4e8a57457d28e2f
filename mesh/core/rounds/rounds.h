/* rounds.h - what the files of the engine "rounds" share: rounds.c drives, rounds_act.c does what it says. engine.h
 * says what each function is for. */
#ifndef MESH_ROUNDS_H
#define MESH_ROUNDS_H

#include "mesh/core/group/audit.h"
#include "mesh/core/group/divergence.h"
#include "mesh/core/group/holding.h"
#include "mesh/core/group/straggler.h"
#include "mesh/core/transfer/fetch.h"

int rounds_start(struct core *core);
void rounds_end(struct core *core);
bool rounds_may_end(const struct core *core);
size_t rounds_members(const struct core *core);
void rounds_stats(const struct core *core, struct core_stats *out);

void rounds_heartbeat(struct core *core); /* sends one now */
void rounds_end_plan(struct core *core);  /* the plan is over, and the next one may begin */
/* Drops the plan, if there is one and a reason; because its members hold different states. */
void rounds_abort(struct core *core, const char *why);
void rounds_differ(struct core *core);
/* The state is not what it was said to be: nothing of it may get to the others. */
void rounds_void_state(struct core *core, const char *why);
/* Ends the plan if its collective cannot go on. */
void rounds_on_broken(struct core *core);
/* Ends sessions with peers that do not take what we send. */
void rounds_drop_blockers(struct core *core);
/* Carries out what a part returned. */
void rounds_on_divergence(struct core *core, struct divergence_verdict verdict);
void rounds_on_holding(struct core *core, struct holding_verdict verdict);
void rounds_on_fetch(struct core *core, struct fetch_verdict verdict);
void rounds_on_straggler(struct core *core, enum straggler_verdict verdict);
void rounds_on_audit(struct core *core, struct audit_verdict verdict);

#endif

/* rounds_act.c - what the engine "rounds" does when a part says so: plans begin and end, the state is void, verdicts are
 * carried out. */
#include <assert.h>

#include "mesh/core/engine.h"
#include "mesh/core/rounds.h"

/* --- Plans begin and end -------------------------------------------------------------------------- */

void
rounds_begin(struct core *core)
{
    plan_round(&core->plan, core);
    collective_round(core->collective, core->round, core->first_bucket, core->state_hash);
    audit_round(&core->audit, core);
}

void
rounds_adopt(struct core *core)
{
    assert(contribution_settled(&core->contribution));
    if (core->plan.active) /* the same leader's newer plan replaces it */
        collective_stop(core->collective);
    fetch_planned(&core->fetch, core);
    plan_adopt(&core->plan, core);
    collective_plan(core->collective, &core->plan.now, core->plan.hash, core->plan.rank);
    straggler_plan(&core->straggler, core);
    rounds_begin(core);
}

static void
stop(struct core *core)
{
    collective_stop(core->collective);
    core_tell(core);
}

/* The plan is over and the next one may begin. */
void
rounds_rest(struct core *core)
{
    plan_rest(&core->plan, core);
    stop(core);
}

void
rounds_abort(struct core *core, const char *why)
{
    if (!why || !core->plan.active)
        return;
    plan_drop(&core->plan, core, why, false);
    stop(core);
}

void
rounds_differ(struct core *core)
{
    if (!core->plan.active)
        return;
    divergence_warn(&core->divergence, core);
    plan_drop(&core->plan, core, "its members hold different states", true);
    stop(core);
}

/* The state is not what it was said to be: nothing of it may get to the others. */
void
rounds_void_state(struct core *core, const char *why)
{
    contribution_damaged(&core->contribution);
    core->state_hash = 0;
    core->done = false;
    core->damages++;
    serve_reset(&core->serve, core);
    fetch_reset(&core->fetch, core);
    rounds_abort(core, why);
    core_tell(core);
}

/* --- What the parts return ------------------------------------------------------------------------ */

void
rounds_on_divergence(struct core *core, struct divergence_verdict verdict)
{
    if (verdict.differ)
        rounds_differ(core);
    if (!verdict.back)
        return;
    rounds_void_state(core, verdict.why);
    if (verdict.copy)
        fetch_needs_copy(&core->fetch);
    core->config.trainer->back(core->config.trainer_ctx, verdict.round);
}

/* What catching up came to. */
void
rounds_on_fetch(struct core *core, struct fetch_verdict verdict)
{
    if (verdict.told)
        rounds_on_divergence(
            core, divergence_followed(&core->divergence, core, verdict.from, verdict.hash));
    if (verdict.commit) {
        contribution_ask(&core->contribution, core, TRAINER_COMMITTING);
        serve_finish(&core->serve, core);
        core->shared++;
        core->config.trainer->commit(core->config.trainer_ctx, core->round);
    }
    if (verdict.adopt) {
        serve_reset(&core->serve, core);
        contribution_ask(&core->contribution, core, TRAINER_ADOPTING);
        core->shared++;
        core->config.trainer->adopt(core->config.trainer_ctx, verdict.round, verdict.hash);
    }
}

void
rounds_on_straggler(struct core *core, enum straggler_verdict verdict)
{
    if (verdict == STRAGGLER_ABORT)
        rounds_abort(core, "a member that has come back is too slow");
    if (verdict == STRAGGLER_BACK)
        core->plan.idle_at = core->awake;
    if (verdict == STRAGGLER_BACK || verdict == STRAGGLER_BENCHED)
        core_tell(core);
}

void
rounds_on_audit(struct core *core, struct audit_verdict verdict)
{
    if (verdict.expel.id)
        sessions_expel(&core->peers, core, verdict.expel);
    if (verdict.abort)
        rounds_abort(core, "a member was expelled");
}

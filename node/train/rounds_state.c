/* rounds_state.c - see rounds_state.h. */
#include "node/train/rounds_state.h"

#include "node/train/gather.h"
#include "node/train/parts.h"
#include "proto/clock.h"

enum { SPANS_AGAIN = 4 };

void
rounds_count_skips(struct run *run)
{
    const struct state_header *h = run->state.header;
    run->skips = (struct train_skips){.count = h->skipped, .row = h->skipped_row, .at = h->step};
}

static void
gather_next(struct run *run)
{
    const struct rounds_run *rounds = run->record;
    mesh_part(run->mesh, rounds->missing & -rounds->missing);
}

/* No model here, and why. */
static void
gather_fail(struct run *run)
{
    struct rounds_run *rounds = run->record;
    train_say(run, 4, "no model.safetensors here: %s", run->no_model.line);
    gather_close(&run->gather);
    rounds->missing = 0;
}

/* The run is done; of the last state, others have what this node does not hold. */
static void
gather_begin(struct run *run)
{
    struct rounds_run *rounds = run->record;
    const struct state_stages *segments = &rounds->stages.segments;
    if (!run->state.header->done || state_whole(&run->state))
        return;
    gather_close(&run->gather);
    run->no_model.line[0] = '\0';
    rounds->missing = 0;
    for (size_t s = 0; s < segments->count; s++)
        if (!state_holds(&run->state, &segments->stage[s]))
            rounds->missing |= UINT64_C(1) << s;
    if (gather_open(&run->gather, run->config->out, &run->state, &run->no_model))
        gather_fail(run);
    gather_next(run);
}

void
rounds_take_part(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    unsigned s = task->holds ? (unsigned)__builtin_ctzll(task->holds) : 0;
    const struct state_range *range = &rounds->stages.segments.stage[s];
    const uint8_t *block = mesh_state_in(run->mesh);
    if (task->holds && !state_segment_sound(&run->state, range, block, task->parts[s])) {
        mesh_damaged(run->mesh, CORE_COPY_DAMAGED);
        return;
    }
    if (!task->holds)
        why_set(&run->no_model, "no other node has the rest of the last state any more");
    if (!task->holds || gather_add(run->gather, block, range, &run->no_model))
        gather_fail(run);
    rounds->missing &= ~task->holds;
    gather_next(run);
}

/* The present state is one to go back to if the next one is not. */
static void
keep_span(struct run *run)
{
    struct rounds_run *rounds = run->record;
    const struct state_header *h = run->state.header;
    if (!rounds->span_start.block || state_carries(&run->state) ||
        h->step < run->state.job.warmup || state_span(&run->state) == 0)
        return;
    state_copy(&rounds->span_start, &run->state);
    rounds->span_start_hash = state_hash_whole(&run->state, run->state.part);
}

void
rounds_announce(struct run *run, uint64_t hash)
{
    struct rounds_run *rounds = run->record;
    rounds->round = run->state.header->round;
    struct core_state state = {
        .round = rounds->round,
        .hash = hash,
        .pinned = state_carries(&run->state),
        .pins_next = state_carries_on(&run->state),
        .alone = run->state.header->codec == CODEC_ALONE,
        .coded = state_grid(&run->state) != run->state.exact,
        .warms = (state_warms(&run->state) + run->state.job.local_steps - 1) /
                 run->state.job.local_steps,
    };
    keep_span(run);
    rounds->span_steps = state_carries(&run->state) ? rounds->span_steps : 0;
    rounds_count_skips(run);
    if (rounds_in_parts(run)) {
        state_parts(&run->state, &rounds->stages.segments, rounds->parts);
        state.hash = state_name(&run->state);
        state.holds = stages_mesh_held(&rounds->stages, &run->state);
        state.parts = rounds->parts;
        state.late = state_needs_squares(&run->state);
    }
    train_tell_mesh(run, &state);
    gather_begin(run);
    if (rounds->recording)
        recording_begin(rounds->recording, clock_us());
}

/* Is the state still the one that was told to the mesh? */
static bool
sound(struct run *run)
{
    struct rounds_run *rounds = run->record;
    rounds->damaged = rounds->damaged || !state_sound(&run->state, run->pool);
    return !rounds->damaged;
}

bool
rounds_computed_soundly(struct run *run)
{
    struct rounds_run *rounds = run->record;
    if (run->state.header->phase != STATE_TRAIN)
        return sound(run);
    rounds->damaged = rounds->damaged || !state_params_sound(&run->state, run->pool);
    return !rounds->damaged;
}

/* The state that the present one was made of, if it is still there. */
static bool
state_before(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->record;
    if (!rounds->before || run->next.header->round >= round || state_carries(&run->next) ||
        !state_sound(&run->next, run->pool))
        return false;
    state_swap(&run->state, &run->next);
    return true;
}

/* That in which the span began. */
static bool
state_of_span(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->record;
    if (!rounds->span_start_hash || rounds->span_start.header->round >= round ||
        !state_holds_same(&rounds->span_start, &run->state) ||
        state_hash(&rounds->span_start, run->pool) != rounds->span_start_hash)
        return false;
    state_copy(&run->state, &rounds->span_start);
    return true;
}

void
rounds_stop(struct run *run, const char *why)
{
    struct rounds_run *rounds = run->record;
    train_say(run, 3, "%s; leaving the mesh", why);
    rounds->no_room = true;
    mesh_interrupt(run->mesh);
}

/* To the newest state before a round below `round` that can be trusted: the one before, a checkpoint, the one before
 * the first step. */
static void
go_back(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->record;
    work_drop(run->work);
    save_withdraw(run->save, &run->state);
    struct why why;
    bool found = state_before(run, round) || state_of_span(run, round) ||
                 (!run->folder.fresh && save_find_below(run->save, &run->state, round)) ||
                 (rounds_in_parts(run) && parts_back(run, &rounds->stages, round));
    rounds->before = rounds->damaged = false;
    rounds->unsaved = 0;
    work_forget(run->work);
    if (!found && job_state(&run->job, run->config, &run->state, &why)) {
        rounds_stop(run, why.line);
        return;
    }
    rounds_announce(run, state_rehash(&run->state, run->pool));
}

bool
rounds_give_up(struct run *run)
{
    struct rounds_run *rounds = run->record;
    const char *why = data_failed(run->job.data);
    if (!why)
        return false;
    if (!rounds->no_data)
        train_say(run, 3, "%s; leaving the mesh", why);
    rounds->no_data = true;
    mesh_interrupt(run->mesh);
    return true;
}

void
rounds_recover(struct run *run)
{
    struct rounds_run *rounds = run->record;
    train_say(run, 3, "the weights changed in memory: going back to older ones");
    train_say(run, 7, "the state before round %ju changed in memory", rounds->round);
    mesh_damaged(run->mesh, CORE_STATE_DAMAGED);
    go_back(run, rounds->round);
}

/* Somebody is gone who had shards of this span. */
static void
span_again(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->record;
    uint64_t again = rounds->span_steps;
    go_back(run, round);
    rounds->replayed += again;
    metrics_withdraw_from(run->metrics, run->state.header->step + 1);
    unsigned long long step = run->state.header->step;
    if (again > 0)
        train_say(run, 5, "a node that had shards since step %llu is gone: computing %llu %s again",
                  step, (unsigned long long)again, again == 1 ? "step" : "steps");
    else
        train_say(run, 5, "a node that had shards of this span is gone: going back to step %llu",
                  step);
    if (++rounds->spans_again == SPANS_AGAIN)
        train_say(
            run, 5,
            "%d times steps were computed again: with a smaller mesh.compress_span (%u) there "
            "would be fewer; it is a part of the job",
            SPANS_AGAIN, (unsigned)run->config->mesh.compress_span);
}

/* Nobody has a part of the model so late. */
static void
wait_for_part(struct run *run, uint64_t round)
{
    go_back(run, round);
    uint64_t step = run->state.header->step;
    if (step > 0)
        train_say(run, 5,
                  "the part of the model that was missing is here as of an earlier step: going "
                  "back to step %ju",
                  step);
    else
        train_say(run, 5, "a part of the model is lost: beginning again from step 0");
}

void
rounds_retreat(struct run *run, uint64_t round, bool wrong)
{
    struct rounds_run *rounds = run->record;
    bool past = round < rounds->round;
    if (state_carries(&run->state) && !past) {
        span_again(run, round);
        return;
    }
    if (wrong && run->config->train.exact) /* inexact ones are others: the mesh has said so */
        train_say(run, 3, "the weights may be wrong: going back to older ones");
    train_say(run, 7, "the state before round %ju %s", round,
              wrong ? "may be wrong" : "is given up");
    if (!past && rounds->reported == rounds->round)
        metrics_withdraw(run->metrics);
    if (wrong)
        go_back(run, round);
    else
        wait_for_part(run, round);
    if (past)
        metrics_withdraw_from(run->metrics, run->state.header->step + 1);
}

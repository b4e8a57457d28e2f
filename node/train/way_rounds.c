/* way_rounds.c - exact sums, one round after the other: a step, an evaluation, or a repeat with larger exponents. The state
 * is a pure function of the job (../README.md), so a state that has changed in memory, or that others contradict, is given up
 * for an older one, and a damaged checkpoint is repaired from those of others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/commands/host.h"
#include "node/train/choice.h"
#include "node/train/gather.h"
#include "node/train/parts.h"
#include "node/train/repair.h"
#include "node/train/stages_mesh.h"
#include "node/train/train_internal.h"
#include "proto/clock.h"
#include "proto/fail.h"

enum { CAUGHT_S = 60 };

struct rounds_run {
    uint64_t round;           /* of the state that the mesh was told */
    bool damaged;             /* the state has changed in memory */
    uint64_t reported;        /* the last round in metrics.jsonl */
    bool before;              /* run->next is the state that the present one was made from */
    int32_t *scratch;         /* [vector] for audits, else NULL */
    struct state_event event; /* of the round that leads to run->next */
    bool early;               /* run->next may be built bucket by bucket */
    uint64_t shards;          /* shards computed here for the present round, as a whole */
    double caught_at;         /* when it was said that this node caught up; 0: never */
    bool blind;               /* the data cannot be read any more */
    bool narrow;              /* it leaves: there is no memory, or the first state cannot be read */
    struct stages_mesh stages;        /* with mesh.stages */
    uint64_t parts[PROTO_STAGES_MAX]; /* of the present state, as the mesh was told */
    uint64_t computes;                /* shards of the running task */
    bool known;                       /* what this node holds */
    uint64_t missing;                 /* segments that run->gather has not got */
    /* of the steps in stages; NULL: there are none */
    struct recording *recording;
    /* With a codec that has a memory: the state in which the present span began, to go back to, and its hash; 0: this node did not
     * have it; and steps since the last state that may be written as a checkpoint */
    struct state span;
    uint64_t span_hash;
    uint64_t unsaved;
    double residual_norm; /* of the last step of a span: what had waited until it */
    double wait_s;        /* the least in a step with others */
    int32_t cost[CODECS]; /* of the step in which a codec is chosen */
    uint64_t replayed;    /* steps computed again so far, as shards of a span were gone */
};

/* Returns 0, or the exit status. */
static int
repair_damaged(struct run *run)
{
    struct why why = {""};
    bool met;
    enum repair_end end = repair_run(run, &met, &why);
    run->folder.found.whole = run->folder.found.whole || end == REPAIR_DONE;
    if (end == REPAIR_INTERRUPTED)
        return 130;
    if (end == REPAIR_FAILED && !run->folder.found.whole) {
        train_say(run, 3,
                  "%s: no whole checkpoint%s. Training does not start from step 0 by itself: "
                  "use --fresh for that",
                  run->config->out,
                  met ? " here or on other nodes" : " here, and no other node was met");
        return 1;
    }
    if (run->folder.found.whole)
        train_say(run, 6, "resumed at step %llu", (unsigned long long)run->state.header->step);
    return 0;
}

/* As the state counts them. */
static void
count_skips(struct run *run)
{
    const struct state_header *h = run->state.header;
    run->skips = (struct train_skips){h->skipped, h->skipped_row, h->step};
}

/* May nodes hold parts of the model? Then states go by their names, and the last bucket says what each part is. */
static bool
in_parts(const struct run *run)
{
    return run->job.ledgers > 1;
}

static void
gather_next(struct run *run)
{
    const struct rounds_run *rounds = run->own;
    mesh_part(run->mesh, rounds->missing & -rounds->missing);
}

/* No model here, and why. */
static void
gather_fail(struct run *run)
{
    struct rounds_run *rounds = run->own;
    train_say(run, 4, "no model.safetensors here: %s", run->no_model.line);
    gather_close(&run->gather);
    rounds->missing = 0;
}

/* The run is done; of the last state, others have what this node does not hold. */
static void
gather_begin(struct run *run)
{
    struct rounds_run *rounds = run->own;
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

/* This node is done, and needs the rest for its files. */
static void
take_part(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
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
    struct rounds_run *rounds = run->own;
    const struct state_header *h = run->state.header;
    if (!rounds->span.block || state_carries(&run->state) || h->step < run->state.job.warmup ||
        state_span(&run->state) == 0)
        return;
    state_copy(&rounds->span, &run->state);
    rounds->span_hash = state_hash_whole(&run->state, run->state.part);
}

/* `hash`: what is remembered. */
static void
announce(struct run *run, uint64_t hash)
{
    struct rounds_run *rounds = run->own;
    rounds->round = run->state.header->round;
    struct core_state state = {
        .round = rounds->round,
        .hash = hash,
        .pinned = state_carries(&run->state),
        .pins_next = state_carries_on(&run->state),
    };
    keep_span(run);
    count_skips(run);
    if (in_parts(run)) {
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

/* It is to hold more of the present state from here on. */
static void
grow(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    struct why why;
    work_drop(run->work);
    if (parts_hold_more(run, &rounds->stages, task->holds, mesh_state_in(run->mesh), task->parts,
                        &why)) {
        if (why.line[0])
            train_say(run, 4, "%s: this node holds no more of the model", why.line);
        mesh_damaged(run->mesh, CORE_COPY_DAMAGED);
        return;
    }
    rounds->before = false;
    announce(run, state_hash_rest(&run->state, run->pool));
    if (run->state.header->round > 0) /* an earlier one does not have it */
        save_begin(run->save, &run->state, false);
}

/* Where it is not known yet what this node holds, the mesh says it. */
static void
start_rounds(struct run *run)
{
    const struct rounds_run *rounds = run->own;
    if (rounds->known)
        announce(run, state_rehash(&run->state, run->pool));
}

/* Is the state still the one that was told to the mesh? */
static bool
sound(struct run *run)
{
    struct rounds_run *rounds = run->own;
    rounds->damaged = rounds->damaged || !state_sound(&run->state, run->pool);
    return !rounds->damaged;
}

/* What was computed from the state counts only if that has not changed since: nothing is final before the last bucket.
 * Gradients do not depend on the slots of the optimizer. Each step looks at these when it uses them. */
static bool
computed_soundly(struct run *run)
{
    struct rounds_run *rounds = run->own;
    if (run->state.header->phase != STATE_TRAIN)
        return sound(run);
    rounds->damaged = rounds->damaged || !state_params_sound(&run->state, run->pool);
    return !rounds->damaged;
}

/* The state that the present one was made of, if it is still there. */
static bool
state_before(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->own;
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
    struct rounds_run *rounds = run->own;
    if (!rounds->span_hash || rounds->span.header->round >= round ||
        !state_holds_same(&rounds->span, &run->state) ||
        state_hash(&rounds->span, run->pool) != rounds->span_hash)
        return false;
    state_copy(&run->state, &rounds->span);
    return true;
}

/* This node cannot go on. */
static void
leave(struct run *run, const char *why)
{
    struct rounds_run *rounds = run->own;
    train_say(run, 3, "%s; leaving the mesh", why);
    rounds->narrow = true;
    mesh_interrupt(run->mesh);
}

/* To the newest state before a round below `round` that can be trusted: the one before, a checkpoint, the one before
 * the first step. */
static void
go_back(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->own;
    work_drop(run->work);
    save_withdraw(run->save, &run->state);
    struct why why;
    bool found = state_before(run, round) || state_of_span(run, round) ||
                 (!run->folder.fresh && save_find_below(run->save, &run->state, round)) ||
                 (in_parts(run) && parts_back(run, &rounds->stages, round));
    rounds->before = rounds->damaged = false;
    rounds->unsaved = 0;
    work_forget(run->work);
    if (!found && job_state(&run->job, run->config, &run->state, &why)) {
        leave(run, why.line);
        return;
    }
    announce(run, state_rehash(&run->state, run->pool));
}

/* What was computed from data that could not be read is not handed over, as nothing is final before the last
 * bucket; the others go on without this node. */
static bool
give_up(struct run *run)
{
    struct rounds_run *rounds = run->own;
    const char *why = data_failed(run->job.data);
    if (!why)
        return false;
    if (!rounds->blind)
        train_say(run, 3, "%s; leaving the mesh", why);
    rounds->blind = true;
    mesh_interrupt(run->mesh);
    return true;
}

/* What is told of it counts no more; the others go on without it, and have what is needed to catch up. */
static void
recover(struct run *run)
{
    struct rounds_run *rounds = run->own;
    train_say(run, 3, "the weights changed in memory: going back to older ones");
    train_say(run, 7, "the state before round %llu changed in memory",
              (unsigned long long)rounds->round);
    mesh_damaged(run->mesh, CORE_STATE_DAMAGED);
    go_back(run, rounds->round);
}

/* Somebody is gone who had shards of this span. */
static void
span_again(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->own;
    uint64_t step = run->state.header->step;
    go_back(run, round);
    uint64_t again = step - run->state.header->step;
    rounds->replayed += again;
    metrics_withdraw_from(run->metrics, run->state.header->step + 1);
    train_say(run, 5, "a node that had shards since step %llu is gone: computing %llu steps again",
              (unsigned long long)run->state.header->step, (unsigned long long)again);
}

/* Other nodes hold another one, or held another one before a round long ago. */
static void
retreat(struct run *run, uint64_t round)
{
    struct rounds_run *rounds = run->own;
    bool past = round < rounds->round;
    if (state_carries(&run->state) && !past) {
        span_again(run, round);
        return;
    }
    if (run->config->train.exact) /* inexact ones are others, and not wrong: the mesh has said so */
        train_say(run, 3, "the weights may be wrong: going back to older ones");
    train_say(run, 7, "the state before round %llu may be wrong", (unsigned long long)round);
    if (!past && rounds->reported == rounds->round)
        metrics_withdraw(run->metrics);
    go_back(run, round);
    if (past)
        metrics_withdraw_from(run->metrics, run->state.header->step + 1);
}

/* Who computes the first shard speaks of the whole model, which is one stage. Squares are not known yet, and nobody needs them:
 * all hold the whole. */
static void
add_summary(struct run *run)
{
    const struct rounds_run *rounds = run->own;
    const struct state_stages whole = {1, {{0, run->state.param_count}}};
    if (in_parts(run) && (rounds->computes & 1))
        state_summary_write(&run->next, &run->state, &whole, 1, false, mesh_own(run->mesh));
}

/* What the next step would cost here with each codec, if that decides which one is taken. */
static void
measure_costs(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    struct mesh_stats stats;
    if (!state_chooses(&run->state))
        return;
    mesh_stats(run->mesh, &stats);
    const struct choice choice = {.members = task->members,
                                  .shards = (unsigned)__builtin_popcountll(task->mine),
                                  .line = stats.core.line,
                                  .wait_s = rounds->wait_s};
    choice_costs(&choice, &run->job, &run->state, mesh_own(run->mesh), rounds->cost);
    for (unsigned kind = 0; kind < CODECS; kind++)
        if (rounds->cost[kind] > 0)
            train_say(run, 7,
                      "with codec %s a step costs %d units, on a line of %u bytes per second",
                      codec_name(kind), (int)rounds->cost[kind], (unsigned)stats.core.line);
}

static void
add_costs(struct run *run)
{
    const struct rounds_run *rounds = run->own;
    if (state_chooses(&run->state))
        memcpy(mesh_own(run->mesh) + state_costs(&run->state), rounds->cost, sizeof rounds->cost);
}

/* The present state was made of the next one. */
static void
tell_chosen(struct run *run)
{
    if (state_chooses(&run->next) && run->state.header->step > run->next.header->step)
        train_say(run, 6,
                  "mesh.compress auto: %s from here on; mesh.compress = %s gives the same weights",
                  codec_name((unsigned)run->state.header->codec),
                  codec_name((unsigned)run->state.header->codec));
}

static void
bucket_ready(void *ctx, size_t bucket)
{
    struct run *run = ctx;
    size_t count;
    work_buckets(run->work, &count);
    if (bucket == count - 1 && (!computed_soundly(run) || data_failed(run->job.data)))
        return;
    if (bucket == count - 1) {
        add_summary(run);
        add_costs(run);
    }
    mesh_bucket(run->mesh, bucket);
    metrics_alive(run->metrics);
}

static void
compute_shards(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    double start = clock_s();
    rounds->shards = task->fresh ? task->shards : rounds->shards | task->shards;
    rounds->computes = task->shards;
    fail_hit(FAIL_COMPUTE, run->state.block, run->state.size);
    rounds->damaged = !state_head_sound(&run->state);
    int rc = rounds->damaged ? 0 : work_open(run->work, &run->state, task->shards);
    if (rc == -ENOMEM) {
        leave(run, "not enough memory for what its codec leaves out of gradients");
        return;
    }
    rounds->damaged = rounds->damaged || rc;
    if (!rounds->damaged)
        work_round(run->work, &run->state, task->shards, task->fresh, mesh_own(run->mesh),
                   bucket_ready, run);
    run->meter.compute_s += clock_s() - start;
    if (!give_up(run) && rounds->damaged)
        recover(run);
    fail_hit(FAIL_COMPUTED, run->state.block, run->state.size);
}

/* With the last piece of a round its gradients count: see computed_soundly. */
static int
write_tail(struct run *run, const struct core_piece *piece, const struct work_stages *stages)
{
    const struct rounds_run *rounds = run->own;
    struct state_stages params;
    uint64_t speaks = stages_mesh_speaks(piece->plan, piece->rank);
    int32_t *own = mesh_own(run->mesh);
    bool squares =
        state_needs_squares(&run->state) && !stages_mesh_whole(&rounds->stages, piece->plan);
    int rc = computed_soundly(run) ? work_pieces_tail(run->work, &run->state, stages, own) : 0;
    if (rc || rounds->damaged)
        return rc;
    stages_mesh_params(&rounds->stages, piece->plan, &params);
    for (size_t s = 0; s < params.count && squares; s++)
        if (speaks >> s & 1)
            state_squares_of(&run->next, &run->state, mesh_sum(run->mesh), &params.stage[s],
                             run->pool);
    state_summary_write(&run->next, &run->state, &params, speaks, squares, own);
    return 0;
}

static int
work_on_piece(struct run *run, const struct core_piece *piece)
{
    struct rounds_run *rounds = run->own;
    struct work_stages stages;
    stages_mesh_plan(&rounds->stages, piece, run->mesh, &stages);
    if (piece->kind == SCHEDULE_TAIL)
        return write_tail(run, piece, &stages);
    const struct work_piece now = {
        piece->kind, piece->stage, piece->shard, piece->fresh, piece->held,
    };
    return work_piece(run->work, &run->state, &stages, &now, mesh_own(run->mesh));
}

static void
record_piece(const struct rounds_run *rounds, const struct core_piece *piece, uint64_t begin_us)
{
    const struct schedule_piece was = {piece->kind, piece->stage, piece->shard};
    recording_piece(rounds->recording, &was, proto_plan_hash(piece->plan), begin_us, clock_us());
}

static void
compute_piece(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    uint64_t start = clock_us();
    int rc = 0;
    rounds->shards = 0; /* nothing is computed ahead */
    work_piece_point(&run->state, task->piece.kind);
    rounds->damaged = !state_head_sound(&run->state);
    if (!rounds->damaged)
        rc = work_on_piece(run, &task->piece);
    rounds->damaged = rounds->damaged || rc == -EBADMSG || rc == -ENODATA;
    record_piece(rounds, &task->piece, start);
    run->meter.compute_s += 1e-6 * (double)(clock_us() - start);
    metrics_alive(run->metrics);
    if (give_up(run) || rounds->narrow)
        return;
    if (rounds->damaged) {
        recover(run);
    } else if (rc) {
        leave(run, "not enough memory for the activations of its stages, or what they leave out");
    } else {
        mesh_piece(run->mesh);
    }
}

/* The next state is begun again when the sum is that of another plan: what was made of it before is void. */
static void
begin_next(struct run *run)
{
    struct rounds_run *rounds = run->own;
    work_drop(run->work);
    rounds->before = false;
    rounds->early = state_head_sound(&run->state) &&
                    state_begin(&run->next, &run->state, mesh_sum(run->mesh), &rounds->event);
}

/* A bucket is final: apply it and compute ahead of the commit. The plan may last and give us the same shards. */
static void
work_ahead(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    size_t count;
    const struct core_bucket *bucket = &work_buckets(run->work, &count)[task->bucket];
    double start = clock_s();
    const struct state_range range = {bucket->first, bucket->first + bucket->count};
    if (task->fresh)
        begin_next(run);
    else if (rounds->early && state_holds(&run->state, &range)) /* not the ledger */
        state_apply(&run->next, &run->state, mesh_sum(run->mesh), bucket->first, bucket->count,
                    run->pool);
    if (rounds->early && rounds->shards)
        work_begin(run->work, &run->next, rounds->shards, state_known(&run->next));
    run->meter.compute_s += clock_s() - start;
}

/* Makes the next state; it is there in part if work_ahead has begun it. Returns 0, or -EBADMSG with `why` if the total is
 * damaged. *hash: of what is held of it; 0: the present one is damaged. */
static int
advance_state(struct run *run, bool fresh, uint64_t *hash, struct why *why)
{
    struct rounds_run *rounds = run->own;
    const int32_t *total = mesh_sum(run->mesh);
    struct state_stages divided, *stages = in_parts(run) ? &divided : NULL;
    uint64_t coverage;
    int rc = stages ? state_summary_stages(&run->state, total, stages, why) : 0;
    rc = rc ? rc : state_check_counts(&run->state, stages, total, &coverage, why);
    if (rc)
        return rc;
    if (fresh) {
        work_drop(run->work);
        rounds->before = false;
        state_begin(&run->next, &run->state, total, &rounds->event);
    }
    rounds->event.coverage = coverage;
    state_squares(&run->next, &run->state, total, run->pool);
    rc = stages ? state_summary_take(&run->next, &run->state, stages, total, why) : 0;
    if (rc)
        return rc;
    *hash = state_finish(&run->next, &run->state, total, run->pool);
    return state_check_gradients(&run->next, &run->state, stages, total, why);
}

static void
report(struct run *run, const struct mesh_task *task, uint64_t end_us)
{
    struct rounds_run *rounds = run->own;
    if (task->members > 1 && (rounds->wait_s == 0 || run->meter.wait_s < rounds->wait_s))
        rounds->wait_s = run->meter.wait_s;
    struct train_step step = {.event = &rounds->event,
                              .task = task,
                              .hash = state_name(&run->state),
                              .residual_norm = rounds->residual_norm,
                              .replayed_steps = rounds->replayed};
    if (task->pipeline.stages)
        step.times = recording_times(rounds->recording, end_us);
    train_report(run, &step);
    rounds->reported = run->state.header->round;
}

/* A step of a model in stages, which had its sum at `end_us`. */
static void
record_step(struct run *run, const struct mesh_task *task, uint64_t end_us)
{
    struct rounds_run *rounds = run->own;
    struct mesh_stats stats;
    if (!rounds->event.stepped || task->pipeline.stages == 0)
        return;
    mesh_stats(run->mesh, &stats);
    struct recorded step = {.step = run->state.header->step,
                            .job = run->job_hash,
                            .plan = task->plan,
                            .node = stats.node.id,
                            .members = task->members,
                            .stages = task->pipeline.stages,
                            .end_us = end_us};
    size_t size;
    host_name(run->config->name, step.name, sizeof step.name);
    const char *line = recording_end(rounds->recording, &step, &size);
    if (line)
        metrics_pieces(run->metrics, line, size);
}

static void
commit(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    const struct state_event *event = &rounds->event;
    struct why why;
    uint64_t hash = 0, start = clock_us();
    fail_hit(FAIL_COMMIT, NULL, 0);
    if (!state_head_sound(&run->state)) {
        recover(run);
        return;
    }
    if (advance_state(run, task->fresh, &hash, &why)) {
        train_say(run, 4, "a sum of gradients is damaged: %s; computing it again", why.line);
        train_say(run, 7, "the total of round %llu is damaged",
                  (unsigned long long)run->state.header->round);
        work_drop(run->work);
        mesh_damaged(run->mesh, CORE_TOTAL_DAMAGED);
        return;
    }
    if (!hash) {
        recover(run);
        return;
    }
    rounds->residual_norm =
        event->stepped && state_flushes(&run->state) ? work_left_out(run->work) : 0;
    state_swap(&run->state, &run->next);
    rounds->before = true;
    work_applied(run->work, &run->state, &run->next, event);
    run->meter.compute_s += 1e-6 * (double)(clock_us() - start);
    if (event->skipped)
        train_tell_skipped(run, run->state.header->step);
    count_skips(run);
    if (event->stepped || event->evaluated)
        report(run, task, start);
    record_step(run, task, start);
    fail_hit(FAIL_REPORTED, NULL, 0);
    tell_chosen(run);
    measure_costs(run, task);
    announce(run, hash);
    fail_hit(FAIL_ANNOUNCED, NULL, 0);
    train_begin_fresh(run);
    if (event->evaluated && !run->state.header->done && state_whole(&run->state))
        save_model(run->save, run->state.header, state_weights(&run->state));
    rounds->unsaved += event->stepped ? event->steps : 0;
    if (rounds->unsaved > 0 && !state_carries(&run->state)) {
        save_step(run->save, &run->state, rounds->unsaved, run->config->train.checkpoint_every);
        rounds->unsaved = 0;
    }
}

/* At most once in CAUGHT_S: a slow node may do so again and again. */
static void
tell_caught_up(struct run *run)
{
    struct rounds_run *rounds = run->own;
    double now = clock_s();
    if (rounds->caught_at > 0 && now - rounds->caught_at < CAUGHT_S)
        return;
    rounds->caught_at = now;
    train_say(run, 6, "caught up: at step %llu of %llu",
              (unsigned long long)run->state.header->step,
              (unsigned long long)state_steps_total(&run->state));
}

static int
take_state(struct run *run, const struct mesh_task *task)
{
    const struct rounds_run *rounds = run->own;
    const uint8_t *block = mesh_state_in(run->mesh);
    return in_parts(run) ? state_take_segments(&run->state, &rounds->stages.segments, block,
                                               task->state_hash, task->parts, run->pool)
                         : state_take(&run->state, block, task->state_hash, run->pool);
}

static void
adopt(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    fail_hit(FAIL_ADOPT, NULL, 0);
    work_drop(run->work);
    if (take_state(run, task)) {
        train_say(run, 4, "the weights that were received are damaged: asking again");
        train_say(run, 7, "the state before round %llu is damaged",
                  (unsigned long long)task->round);
        mesh_damaged(run->mesh, CORE_COPY_DAMAGED);
        return;
    }
    rounds->before = false;
    tell_caught_up(run);
    fail_hit(FAIL_ADOPTED, NULL, 0);
    announce(run, task->state_hash);
}

/* What was held before is gone. */
static void
hold_segments(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    struct why why;
    work_drop(run->work);
    rounds->before = rounds->damaged = false;
    rounds->known = true;
    if (parts_hold(run, &rounds->stages, task->holds, &why)) {
        leave(run, why.line);
        return;
    }
    announce(run, state_rehash(&run->state, run->pool));
}

/* Somebody else's shard, computed here: is it what was claimed? */
static void
audit(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->own;
    double start = clock_s();
    unsigned shard = (unsigned)__builtin_ctzll(task->shards);
    bool equal = work_probe(run->work, &run->state, shard, rounds->scratch, task->claim);
    run->meter.compute_s += clock_s() - start;
    if (!give_up(run))
        mesh_audited(run->mesh, equal);
}

static bool
follow_rounds(struct run *run, const struct mesh_task *task)
{
    if (task->kind == MESH_COMPUTE)
        compute_shards(run, task);
    else if (task->kind == MESH_PIECE)
        compute_piece(run, task);
    else if (task->kind == MESH_PART && !run->state.header->done)
        grow(run, task);
    else if (task->kind == MESH_PART)
        take_part(run, task);
    else if (task->kind == MESH_SUMMED)
        work_ahead(run, task);
    else if (task->kind == MESH_COMMIT)
        commit(run, task);
    else if (task->kind == MESH_ADOPT)
        adopt(run, task);
    else if (task->kind == MESH_HOLD)
        hold_segments(run, task);
    else if (task->kind == MESH_AUDIT)
        audit(run, task);
    else if (task->kind == MESH_BACK)
        retreat(run, task->round);
    return false;
}

/* --- Life ------------------------------------------------------------------------------------------ */

/* Contributions that come while the trainer of a server still reads the sum of the step before: one of each other node, to
 * the part that it serves. */
static uint64_t
kept_bytes(const struct config *config, uint64_t vector)
{
    uint64_t nodes = memory_nodes(config), servers = config_servers(config);
    if (servers == 0)
        return 0;
    return (nodes - 1) * vector / (servers < nodes ? servers : nodes);
}

static void
measure_rounds(struct memory *m, const struct config *config, size_t params, uint64_t vector)
{
    (void)params;
    m->kept = kept_bytes(config, vector);
    m->log = mesh_log_size(vector);
}

static int
open_rounds(struct run *run, struct why *why)
{
    struct rounds_run *rounds = run->own = calloc(1, sizeof *rounds);
    bool audits = run->config->mesh.audit > 0;
    if (rounds && audits)
        rounds->scratch = calloc(work_vector_count(run->work), sizeof *rounds->scratch);
    if (!rounds || (audits && !rounds->scratch))
        return why_error(why, -ENOMEM, "not enough memory for mesh.audit");
    rounds->known = true;
    const struct state_job rules = job_rules(&run->job, run->config);
    if (run->job.memory &&
        state_init(&rounds->span, &rules, run->job.exact, run->state.param_count))
        return why_error(why, -ENOMEM, "not enough memory for the state to go back to");
    if (run->config->mesh.stages == 1)
        return 0;
    const struct config *config = run->config;
    if (stages_mesh_init(&rounds->stages, &run->job, config) ||
        recording_new(&rounds->recording, run->job.ledgers, config->train.shards))
        return why_error(why, -ENOMEM, "not enough memory for the stages of the model");
    stages_mesh_spans(&rounds->stages, &run->state);
    rounds->stages.core.room = run->memory.room;
    rounds->stages.core.mirror = run->config->mesh.mirror;
    return 0;
}

static bool
hold_rounds(struct run *run)
{
    struct rounds_run *rounds = run->own;
    rounds->known = !in_parts(run) || parts_known(run, &rounds->stages);
    return rounds->known;
}

static void
close_rounds(struct run *run)
{
    struct rounds_run *rounds = run->own;
    if (rounds) {
        recording_destroy(&rounds->recording);
        if (rounds->span.block)
            state_fini(&rounds->span);
        free(rounds->scratch);
    }
    free(rounds);
}

static bool
serve_page(void *ctx, uint64_t step, uint64_t round, uint64_t page)
{
    save_serve(((struct run *)ctx)->save, step, round, page);
    return true;
}

static void
configure_rounds(struct run *run, struct mesh_setup *setup)
{
    const struct config *config = run->config;
    setup->servers = config_servers(config);
    setup->audit = config->mesh.audit;
    setup->audit_bucket = setup->audit > 0 ? setup->bucket_count - 2 : 0;
    setup->inexact = !config->train.exact;
    const struct rounds_run *rounds = run->own;
    if (config->mesh.stages > 1)
        setup->stages = rounds->stages.core;
    if (!rounds->known || !state_whole(&run->state)) /* else nobody has to choose what it holds */
        setup->stages.bytes = run->memory.segment;
    setup->stages.choose = !rounds->known;
    if (run->memory.part)
        setup->log_size = memory_part_log(&run->memory);
    setup->program.want = serve_page;
}

const struct way way_rounds = {
    .remedy = ", train.warmup or train.clip_norm",
    .memory = measure_rounds,
    .check = way_check_rounds,
    .open = open_rounds,
    .close = close_rounds,
    .holding = hold_rounds,
    .config = configure_rounds,
    .repair = repair_damaged,
    .start = start_rounds,
    .follow = follow_rounds,
};

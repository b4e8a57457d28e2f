/* way_rounds.c - exact sums, one round after the other: a step, an evaluation, or a repeat with larger exponents. The
 * state is a pure function of the job (../README.md), so a state that has changed in memory, or that others
 * contradict, is given up for an older one (rounds_state.h), and a damaged checkpoint is repaired from those of
 * others. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/host.h"
#include "node/train/parts.h"
#include "node/train/repair.h"
#include "node/train/rounds_state.h"
#include "proto/clock.h"
#include "proto/fail.h"

enum { CAUGHT_S = 60 };

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
        train_tell_resumed(run, "");
    return 0;
}

/* It is to hold more of the present state from here on. */
static void
grow(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
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
    rounds_announce(run, state_hash_rest(&run->state, run->pool));
    if (run->state.header->round > 0) /* an earlier one does not have it */
        save_begin(run->save, &run->state, false);
}

/* Where it is not known yet what this node holds, the mesh says it. */
static void
start_rounds(struct run *run)
{
    const struct rounds_run *rounds = run->record;
    if (rounds->known)
        rounds_announce(run, state_rehash(&run->state, run->pool));
}

/* Who computes the first shard speaks of the whole model, which is one stage. Squares are not known yet, and nobody
 * needs them: all hold the whole. */
static void
add_summary(struct run *run)
{
    const struct rounds_run *rounds = run->record;
    const struct state_stages whole = {1, {{0, run->state.param_count}}};
    if (rounds_in_parts(run) && (rounds->computes & 1))
        state_summary_write(&run->next, &run->state, &whole, 1, false, mesh_own(run->mesh));
}

/* Who takes part, in this plan or, of a node alone, if all came that are here. */
static struct choice
company(struct run *run, const struct mesh_task *task, const struct mesh_stats *stats)
{
    const struct rounds_run *rounds = run->record;
    unsigned all = run->config->train.shards, here = stats->core.peers + 1;
    struct choice choice = {.members = task->members,
                            .shards = (unsigned)__builtin_popcountll(task->mine),
                            .elements = run->state.param_count,
                            .part = {0, run->state.param_count}};
    if (choice.members == 1 && here > 1) {
        choice.members = here < all ? here : all;
        choice.shards = (all + choice.members - 1) / choice.members;
    }
    choice.alone_s = rounds->shard_s * (all - choice.shards);
    return choice;
}

/* What steps took since the codec was chosen or judged last, and what one of this node alone would take without it. */
static void
judge_codec(struct run *run)
{
    struct rounds_run *rounds = run->record;
    const struct state_header *h = run->state.header;
    double steps = (double)(h->step - rounds->span_step),
           took_s = rounds->span_at > 0 && steps > 0 ? (clock_s() - rounds->span_at) / steps : 0,
           sum_s = rounds->shard_s * run->config->train.shards + rounds->apply_s,
           alone_s = rounds->alone_s > 0 ? rounds->alone_s : sum_s;
    choice_judge((unsigned)h->codec, took_s, rounds->shard_s > 0 ? alone_s : 0, rounds->cost);
    train_say(run, 7, "a step took %.4f s, and takes one node alone %.4f s without a codec", took_s,
              alone_s);
}

/* What a step costs here with each codec, if one is to be chosen: what was computed for the step before is still in
 * own. `task`: NULL of a model in stages. */
static void
measure_costs(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    struct mesh_stats stats;
    const struct state_header *h = run->state.header;
    if (!state_chooses(&run->state))
        return;
    if (h->codec != 0) {
        judge_codec(run);
        return;
    }
    mesh_stats(run->mesh, &stats);
    struct choice choice = task ? company(run, task, &stats) : rounds->part;
    choice.summed = rounds->summed;
    choice.line = stats.core.line;
    choice.wait_s = rounds->wait_s;
    choice_costs(&choice, &run->job, &run->state, mesh_own(run->mesh), rounds->cost);
    for (unsigned kind = 0; kind < CODEC_COSTS; kind++)
        if (rounds->cost[kind] > 0)
            train_say(run, 7,
                      "with codec %s a step costs %d units, on a line of %u bytes per second",
                      kind == CODEC_ALONE ? "none, alone," : codec_name(kind),
                      (int)rounds->cost[kind], (unsigned)stats.core.line);
}

static void
add_costs(struct run *run)
{
    const struct rounds_run *rounds = run->record;
    if (state_chooses(&run->state))
        memcpy(mesh_own(run->mesh) + state_costs(&run->state), rounds->cost, sizeof rounds->cost);
}

/* It was chosen just now. */
static void
tell_codec(struct run *run)
{
    const struct state_header *h = run->state.header;
    unsigned long long step = h->step, warmup = run->state.job.warmup;
    const char *name = h->codec < CODECS ? codec_name((unsigned)h->codec) : "none";
    char with[64] = "";
    if (step > warmup)
        snprintf(with, sizeof with, " with mesh.compress_warmup = %llu", step);
    if (h->codec == 0)
        train_say(run, 6,
                  "mesh.compress auto: no codec so far, as no other node was measured; it looks "
                  "again every %ju steps",
                  run->state.job.span);
    else if (h->codec == CODEC_NOT)
        train_say(run, 6, "mesh.compress auto: no codec would make steps shorter: none is used");
    else if (h->codec == CODEC_ALONE)
        train_say(run, 6,
                  "mesh.compress auto: steps of one node alone are shorter than with any codec: "
                  "none is used");
    else
        train_say(run, 6,
                  "mesh.compress auto: %s is used from step %llu on; mesh.compress = %s%s gives "
                  "the same weights",
                  name, step + 1, name, with);
}

/* The present state was made of the next one. What was chosen was measured, so it cannot be computed again: it is on
 * the disk before anybody goes on from it. */
static void
keep_chosen(struct run *run)
{
    struct rounds_run *rounds = run->record;
    struct why why;
    if (!state_chooses(&run->next))
        return;
    rounds->span_at = clock_s();
    rounds->span_step = run->state.header->step;
    bool same = run->state.header->codec == run->next.header->codec;
    if (!same || !rounds->told)
        tell_codec(run);
    rounds->told = true;
    if (!same)
        save_last(run->save, &run->state, &why);
}

static void
bucket_ready(void *ctx, size_t bucket)
{
    struct run *run = ctx;
    size_t count;
    work_buckets(run->work, &count);
    if (bucket == count - 1 && (!rounds_computed_soundly(run) || data_failed(run->job.data)))
        return;
    if (bucket == count - 1) {
        add_summary(run);
        add_costs(run);
    }
    mesh_bucket(run->mesh, bucket);
    metrics_alive(run->metrics);
}

static double
average(double before, double now)
{
    return before > 0 ? (3 * before + now) / 4 : now;
}

/* What a shard takes without a codec. */
static void
note_shards(struct run *run, const struct mesh_task *task, double took_s)
{
    struct rounds_run *rounds = run->record;
    double shard_s = took_s / (double)__builtin_popcountll(task->shards);
    if (run->state.header->phase == STATE_TRAIN && state_grid(&run->state) == run->state.exact)
        rounds->shard_s = average(rounds->shard_s, shard_s);
}

static void
compute_shards(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    double start = clock_s();
    rounds->shards = task->fresh ? task->shards : rounds->shards | task->shards;
    rounds->computes = task->shards;
    fail_hit(FAIL_COMPUTE, run->state.block, run->state.size);
    rounds->damaged = !state_head_sound(&run->state);
    int rc = rounds->damaged ? 0 : work_open(run->work, &run->state, task->shards);
    if (rc == -ENOMEM) {
        rounds_stop(run, "not enough memory for what is kept of each shard within a span");
        return;
    }
    rounds->damaged = rounds->damaged || rc;
    measure_costs(run, task);
    if (!rounds->damaged)
        work_round(run->work, &run->state, task->shards, task->fresh, mesh_own(run->mesh),
                   bucket_ready, run);
    note_shards(run, task, clock_s() - start);
    run->meter.compute_s += clock_s() - start;
    if (!rounds_give_up(run) && rounds->damaged)
        rounds_recover(run);
    fail_hit(FAIL_COMPUTED, run->state.block, run->state.size);
}

static unsigned
members_that_add(const struct proto_plan *plan, unsigned stage)
{
    unsigned count = 0;
    for (unsigned rank = 0; rank < plan->count; rank++)
        count += proto_plan_computes(plan, rank, stage) != 0;
    return count;
}

/* What a codec would be for here; of several stages the largest one is tried. */
static void
note_part(struct choice *part, const struct core_piece *piece, const struct state_stages *params)
{
    const struct proto_plan *plan = piece->plan;
    *part = (struct choice){.shards =
                                (unsigned)__builtin_popcountll(plan->members[piece->rank].shards)};
    for (unsigned s = 0; s < params->count; s++) {
        const struct state_range *stage = &params->stage[s];
        if (!proto_plan_computes(plan, piece->rank, s))
            continue;
        part->elements += stage->end - stage->first;
        if (stage->end - stage->first <= part->part.end - part->part.first)
            continue;
        part->part = *stage;
        part->members = members_that_add(plan, s);
    }
}

/* With the last piece of a round its gradients count: see computed_soundly. */
static int
write_tail(struct run *run, const struct core_piece *piece, const struct work_stages *stages)
{
    struct rounds_run *rounds = run->record;
    struct state_stages params;
    uint64_t speaks = stages_mesh_speaks(piece->plan, piece->rank);
    int32_t *own = mesh_own(run->mesh);
    bool squares =
        state_needs_squares(&run->state) && !stages_mesh_whole(&rounds->stages, piece->plan);
    int rc =
        rounds_computed_soundly(run) ? work_pieces_tail(run->work, &run->state, stages, own) : 0;
    if (rc || rounds->damaged)
        return rc;
    stages_mesh_params(&rounds->stages, piece->plan, &params);
    note_part(&rounds->part, piece, &params);
    measure_costs(run, NULL);
    add_costs(run);
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
    struct rounds_run *rounds = run->record;
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
    struct rounds_run *rounds = run->record;
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
    if (rounds_give_up(run) || rounds->no_room)
        return;
    if (rounds->damaged) {
        rounds_recover(run);
    } else if (rc) {
        rounds_stop(run,
                    "not enough memory for the activations of its stages, or what they leave out");
    } else {
        mesh_piece(run->mesh);
    }
}

/* The next state is begun again when the sum is that of another plan: what was made of it before is void. */
static void
begin_next(struct run *run)
{
    struct rounds_run *rounds = run->record;
    work_drop(run->work);
    rounds->before = false;
    rounds->early = state_head_sound(&run->state) &&
                    state_begin(&run->next, &run->state, mesh_sum(run->mesh), &rounds->event);
}

/* A bucket is final: apply it and compute ahead of the commit. The plan may last and give us the same shards. */
static void
work_ahead(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
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

/* Makes the next state; it is there in part if work_ahead has begun it. Returns 0, or -EBADMSG with `why` if the total
 * is damaged. *hash: of what is held of it; 0: the present one is damaged. */
static int
advance_state(struct run *run, bool fresh, uint64_t *hash, struct why *why)
{
    struct rounds_run *rounds = run->record;
    const int32_t *total = mesh_sum(run->mesh);
    struct state_stages divided, *stages = rounds_in_parts(run) ? &divided : NULL;
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
    struct rounds_run *rounds = run->record;
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
    struct rounds_run *rounds = run->record;
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

/* From the end of a step to the end of the next one. */
static void
note_alone(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    bool alone = task->members == 1 && run->state.header->phase == STATE_TRAIN &&
                 state_grid(&run->state) == run->state.exact;
    double now = clock_s();
    if (alone && rounds->alone_at > 0)
        rounds->alone_s = average(rounds->alone_s, now - rounds->alone_at);
    rounds->alone_at = alone ? now : 0;
}

static void
commit(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    const struct state_event *event = &rounds->event;
    struct why why;
    uint64_t hash = 0, start = clock_us();
    fail_hit(FAIL_COMMIT, NULL, 0);
    if (!state_head_sound(&run->state)) {
        rounds_recover(run);
        return;
    }
    if (advance_state(run, task->fresh, &hash, &why)) {
        train_say(run, 4, "a sum of gradients is damaged: %s; computing it again", why.line);
        train_say(run, 7, "the total of round %ju is damaged", run->state.header->round);
        work_drop(run->work);
        mesh_damaged(run->mesh, CORE_TOTAL_DAMAGED);
        return;
    }
    if (!hash) {
        rounds_recover(run);
        return;
    }
    rounds->residual_norm =
        event->stepped && state_flushes(&run->state) ? work_left_out(run->work) : 0;
    state_swap(&run->state, &run->next);
    rounds->before = true;
    work_applied(run->work, &run->state, &run->next, event);
    run->meter.compute_s += 1e-6 * (double)(clock_us() - start);
    rounds->apply_s = average(rounds->apply_s, 1e-6 * (double)(clock_us() - start));
    note_alone(run, task);
    if (event->skipped)
        train_tell_skipped(run, run->state.header->step);
    rounds_count_skips(run);
    if (event->stepped || event->evaluated)
        report(run, task, start);
    record_step(run, task, start);
    fail_hit(FAIL_REPORTED, NULL, 0);
    keep_chosen(run);
    rounds->summed =
        rounds->shards ? (unsigned)__builtin_popcountll(rounds->shards) : rounds->part.shards;
    rounds->span_steps += event->stepped && task->mine ? event->steps : 0;
    rounds_announce(run, hash);
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
    struct rounds_run *rounds = run->record;
    const struct state_header *h = run->state.header;
    double now = clock_s();
    if (rounds->caught_at > 0 && now - rounds->caught_at < CAUGHT_S && !h->done)
        return;
    rounds->caught_at = now;
    train_say(run, 6, "caught up: at step %ju of %ju%s", h->step, state_steps_total(&run->state),
              h->done ? ": this run is over" : "");
}

/* Who comes later did not see it chosen. */
static void
tell_codec_in_use(struct run *run)
{
    struct rounds_run *rounds = run->record;
    uint64_t kind = run->state.header->codec;
    if (!run->state.job.choose || kind == 0 || rounds->told)
        return;
    rounds->told = true;
    train_say(run, 6, "mesh.compress auto: the mesh uses %s",
              kind < CODECS ? codec_name((unsigned)kind) : "no codec");
}

static int
take_state(struct run *run, const struct mesh_task *task)
{
    const struct rounds_run *rounds = run->record;
    const uint8_t *block = mesh_state_in(run->mesh);
    return rounds_in_parts(run) ? state_take_segments(&run->state, &rounds->stages.segments, block,
                                                      task->state_hash, task->parts, run->pool)
                                : state_take(&run->state, block, task->state_hash, run->pool);
}

static void
adopt(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    fail_hit(FAIL_ADOPT, NULL, 0);
    work_drop(run->work);
    if (take_state(run, task)) {
        train_say(run, 4, "the weights that were received are damaged: asking again");
        train_say(run, 7, "the state before round %ju is damaged", task->round);
        mesh_damaged(run->mesh, CORE_COPY_DAMAGED);
        return;
    }
    rounds->before = false;
    rounds->span_steps = 0;
    tell_caught_up(run);
    tell_codec_in_use(run);
    fail_hit(FAIL_ADOPTED, NULL, 0);
    rounds_announce(run, task->state_hash);
}

/* What was held before is gone. */
static void
hold_segments(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    struct why why;
    work_drop(run->work);
    rounds->before = rounds->damaged = false;
    rounds->known = true;
    if (parts_hold(run, &rounds->stages, task->holds, &why)) {
        rounds_stop(run, why.line);
        return;
    }
    rounds_announce(run, state_rehash(&run->state, run->pool));
}

/* Somebody else's shard, computed here: is it what was claimed? */
static void
audit(struct run *run, const struct mesh_task *task)
{
    struct rounds_run *rounds = run->record;
    double start = clock_s();
    unsigned shard = (unsigned)__builtin_ctzll(task->shards);
    bool equal = work_probe(run->work, &run->state, shard, rounds->scratch, task->claim);
    run->meter.compute_s += clock_s() - start;
    if (!rounds_give_up(run))
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
        rounds_take_part(run, task);
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
        rounds_retreat(run, task->round, task->wrong);
    return false;
}

/* --- Life ------------------------------------------------------------------------------------------ */

/* Contributions that come while the trainer of a server still reads the sum of the step before: one of each other
 * node, to the part that it serves. */
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
    struct rounds_run *rounds = run->record = calloc(1, sizeof *rounds);
    bool audits = run->config->mesh.audit > 0;
    if (rounds && audits)
        rounds->scratch = calloc(work_vector_count(run->work), sizeof *rounds->scratch);
    if (!rounds || (audits && !rounds->scratch))
        return why_error(why, -ENOMEM, "not enough memory for mesh.audit");
    rounds->known = true;
    const struct state_job rules = job_rules(&run->job, run->config);
    if (job_keeps(&run->job) &&
        state_init(&rounds->span_start, &rules, run->job.exact, run->state.param_count))
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
    struct rounds_run *rounds = run->record;
    rounds->known = !rounds_in_parts(run) || parts_known(run, &rounds->stages);
    return rounds->known;
}

static void
close_rounds(struct run *run)
{
    struct rounds_run *rounds = run->record;
    if (rounds) {
        recording_destroy(&rounds->recording);
        if (rounds->span_start.block)
            state_fini(&rounds->span_start);
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
    const struct rounds_run *rounds = run->record;
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

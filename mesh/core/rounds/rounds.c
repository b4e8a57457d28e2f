/* rounds.c - the engine "rounds": one exact all-reduce after the other, by plans. It drives the parts in their order,
 * and carries out what they return. No part calls another one that changes something. */
#include "mesh/core/rounds/rounds.h"

#include <assert.h>

#include "mesh/core/engine.h"
#include "mesh/core/group/join.h"
#include "mesh/core/internal.h"

/* --- Plans begin --------------------------------------------------------------------------------- */

/* A round of it begins. */
static void
round_begin(struct core *core)
{
    bool quick;
    plan_round(&core->plan, core);
    unsigned quarters = straggler_packs(core, &quick);
    collective_packs(core->collective, quarters, quick);
    collective_round(core->collective, core->round, core->first_bucket, core->state_hash,
                     core->parts);
    audit_round(&core->audit, core);
}

/* Who made the plan did not know yet what this node has of the shards that must not change hands. */
static bool
gives_unkept(const struct core *core)
{
    const struct keeps kept = contribution_keeps(&core->contribution, core);
    uint64_t mine = plan_mine(&core->plan);
    return core->pinned &&
           ((mine & ~kept.shards) || (mine && (core->plan.segments & ~kept.segments)));
}

/* This is the plan from now on. */
static void
plan_begin(struct core *core, const struct plan_draft *draft)
{
    assert(trainer_settled(&core->trainer));
    if (core->plan.active) /* the same leader's newer plan replaces it */
        collective_stop(core->collective);
    if (core->fetch.part) /* the others did not wait */
        holding_fails(&core->holding, core);
    fetch_planned(&core->fetch, core);
    plan_adopt(&core->plan, core, draft);
    collective_plan(core->collective, &core->plan.now, core->plan.hash, core->plan.rank);
    straggler_plan(&core->straggler, core);
    round_begin(core);
    if (gives_unkept(core))
        rounds_abort(core, "it gives this node shards of another one");
}

/* --- Steps ---------------------------------------------------------------------------------------- */

/* More segments are fetched, or are not any more. */
static void
fetch_more(struct core *core, uint64_t segments)
{
    struct fetch *fetch = &core->fetch;
    bool grows = fetch->part && !core->done;
    if (grows && (!segments || fetch_copy_lost(core))) {
        fetch_reset(fetch, core);
        holding_fails(&core->holding, core);
        rounds_heartbeat(core);
    } else if (grows && fetch->part != segments) {
        fetch_reset(fetch, core);
    } else if (segments && !grows) {
        fetch_part(fetch, core, segments);
    }
}

/* Is somebody missing, or is there room for more? */
static void
hold_step(struct core *core)
{
    const struct keeps mine = contribution_keeps(&core->contribution, core);
    bool idle = plan_idle(core) && core->trainer.state == TRAINER_FREE;
    struct holding_verdict verdict = {.back = true, .round = core->round - 1};
    if (!kept_step(&core->keeping, core, &mine, idle))
        verdict = holding_step(&core->holding, core, idle);
    rounds_on_holding(core, verdict);
    if (core->trainer.state == TRAINER_FREE)
        fetch_more(core, verdict.part);
}

/* A state that is fetched and the copy for others take turns in one memory. */
static void
catch_up(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    bool goes_on = fetch_step(fetch, core);
    if (goes_on && fetch->state == FETCH_FOLLOWING)
        rounds_on_fetch(core, fetch_follow_step(fetch, core));
    if (goes_on && fetch_copies(fetch)) {
        if (fetch_uses_state_in(fetch))
            give_yield(&core->give);
        rounds_on_fetch(core, fetch_copy_step(fetch, core));
    }
    rounds_on_divergence(core, divergence_step(&core->divergence, core));
    hold_step(core);
    give_step(&core->give, core, !fetch_uses_state_in(fetch));
    if (give_uses_state_in(&core->give))
        fetch_yield(fetch);
}

static void
rounds_lead(struct core *core)
{
    const struct keeps mine = contribution_keeps(&core->contribution, core);
    struct plan_draft draft;
    enum lead_verdict verdict = core->away ? LEAD_MISSING
                                           : lead_make(&core->lead, core, &mine,
                                                       fetch_moving(core, CORE_STARVED_US), &draft);
    if (verdict == LEAD_MISSING)
        plan_waits_from(&core->plan, core->awake);
    if (verdict != LEAD_MADE)
        return;
    for (uint64_t left = core->lead.not_joined; left; left &= left - 1)
        straggler_not_joined(&core->straggler, core, __builtin_ctzll(left));
    plan_begin(core, &draft);
}

/* Which buckets of own[] are complete when the trainer computes all of its shards at once. */
static size_t
round_fill(struct core *core)
{
    pieces_void(&core->pieces);
    return contribution_fill(&core->contribution, &core->trainer, core, plan_mine(&core->plan));
}

/* May the last bucket be made? With core->late it needs the sums of all others, as far as they are this node's. */
static bool
may_end_round(const struct core *core)
{
    size_t last = core->config.bucket_count - 1;
    for (size_t b = core->first_bucket; core->late && b < last; b++)
        if (!collective_done(core->collective, b))
            return false;
    return true;
}

/* The same when it computes piece by piece. */
static size_t
round_pieces(struct core *core)
{
    struct contribution *own = &core->contribution;
    struct pieces *pieces = &core->pieces;
    if (!pieces_begun(pieces, core)) {
        const struct keeps mine = {plan_mine(&core->plan), core->plan.segments};
        if (core->trainer.state != TRAINER_FREE || !contribution_writable(own, core))
            return 0;
        contribution_by_pieces(own, core, &mine);
        pieces_begin(pieces, core);
    }
    contribution_rests(own);
    if (core->trainer.state == TRAINER_FREE && pieces_next(pieces, core, may_end_round(core))) {
        trainer_ask(&core->trainer, core, TRAINER_COMPUTING);
        contribution_piece(own);
        core->config.trainer->piece(core->config.trainer_ctx, &pieces->now);
    }
    return core->trainer.lent ? 0 : pieces_ready(pieces, core);
}

/* What this node adds to the running round. */
static void
round_contribute(struct core *core)
{
    struct contribution *own = &core->contribution;
    size_t all = core->config.bucket_count;
    if (!core->plan.active || !trainer_settled(&core->trainer) ||
        collective_status(core->collective) != COLLECTIVE_RUNNING) {
        contribution_rests(own);
        return;
    }
    if (!core->trainer.lent || mutant(MUTANT_LENT))
        collective_open(core->collective);
    size_t end = pieces_run(core) ? round_pieces(core) : round_fill(core);
    bool withheld = end == all && audit_withholds(&core->audit, &core->plan, core->round);
    if (end > 0)
        collective_ready(core->collective, withheld ? all - 1 : end);
}

static void
round_commit(struct core *core)
{
    if (!core->plan.active || !trainer_settled(&core->trainer) ||
        collective_status(core->collective) != COLLECTIVE_FINAL)
        return;
    give_finish(&core->give, core);
    core->shared += core->plan.now.count > 1;
    trainer_ask_commit(&core->trainer, core);
    contribution_applies(&core->contribution, core);
    core->config.trainer->commit(core->config.trainer_ctx, core->round);
}

/* A claim that is final is computed again when the trainer has nothing else to do. */
static void
round_audit(struct core *core)
{
    if (!audit_wants(&core->audit, &core->plan, core->round) ||
        core->trainer.state != TRAINER_FREE || !core->contribution.filled ||
        !collective_complete(core->collective, core->config.audit_bucket))
        return;
    struct audit_task task = audit_begin(&core->audit, core);
    trainer_ask(&core->trainer, core, TRAINER_AUDITING);
    plan_progress(&core->plan, core->awake);
    core->config.trainer->audit(core->config.trainer_ctx, core->round, task.shard, task.claim,
                                task.words);
}

static void
rounds_step(struct core *core)
{
    rounds_on_broken(core);
    catch_up(core);
    rounds_lead(core);
    round_contribute(core);
    round_commit(core);
    round_audit(core);
    rounds_on_broken(core);
}

static void
on_consent(struct core *core, struct lead_consent consent)
{
    if (consent.hold)
        plan_hold(&core->plan, core);
    rounds_abort(core, consent.drop);
}

static void
rounds_tick(struct core *core)
{
    rounds_abort(core, plan_tick(&core->plan, core));
    on_consent(core, lead_consider_all(core));
    rounds_drop_blockers(core);
    if (holding_tick(&core->holding, core))
        rounds_heartbeat(core);
    if (core->holding.wants && plan_leads(core) && core->plan.hold == UINT64_MAX &&
        !core->pins_next)
        plan_hold(&core->plan, core);
    rounds_on_audit(core, audit_tick(&core->audit, core));
    rounds_on_straggler(core, straggler_tick(&core->straggler, core, plan_recent_max(core)));
    if (awake_before(core->awake, core->sweep_at))
        return;
    core->sweep_at = awake_after(core->awake, CORE_SWEEP_US);
    collective_tick(core->collective);
}

/* --- Messages ------------------------------------------------------------------------------------- */

static void
on_plan(struct core *core, int i, const struct proto_plan *msg)
{
    struct plan_draft draft;
    enum plan_offer offer = plan_on_plan(&core->plan, core, i, msg, &draft);
    if (offer == PLAN_OFFERED && join_plan(core, &draft))
        plan_begin(core, &draft);
    else if (offer != PLAN_IGNORED)
        plan_refuse(core, i, draft.hash);
}

static void
rounds_message(struct core *core, int i, const struct proto_msg *msg)
{
    enum plan_abort end = PLAN_GOES_ON;
    switch (msg->type) {
    case PROTO_PLAN:
        on_plan(core, i, &msg->plan);
        break;
    case PROTO_HOLD:
        if (plan_on_hold(&core->plan, core, i, &msg->hold))
            rounds_end_plan(core);
        break;
    case PROTO_ABORT:
        end = plan_on_abort(&core->plan, i, &msg->abort);
        if (end == PLAN_ABORTED)
            rounds_abort(core, "a member dropped it");
        if (end == PLAN_DIFFERS)
            rounds_differ(core);
        break;
    case PROTO_ACCUSE:
        audit_on_accuse(&core->audit, core, i, &msg->accuse);
        break;
    case PROTO_BENCH:
        rounds_on_straggler(core, straggler_on_bench(&core->straggler, core, &msg->bench));
        break;
    case PROTO_NEED:
        pieces_on_need(&core->pieces, core, i, &msg->need);
        break;
    case PROTO_FETCH:
        give_on_fetch(&core->give, core, i, &msg->fetch);
        break;
    default:
        break;
    }
}

static void
rounds_chunk(struct core *core, int i, const struct proto_msg *msg, struct core_frame *frame)
{
    if (core->warms > 0 || msg->chunk.round == core->round || msg->chunk.round == core->round + 1) {
        uint64_t us = lines_chunk(&core->lines, core, i, msg->chunk.sent_us, frame->size);
        straggler_chunk(&core->straggler, &msg->chunk, frame->size, us);
    }
    uint64_t before = collective_progress(core->collective);
    collective_chunk(core->collective, core->peers.peers[i].node, msg, frame, core->round);
    if (collective_progress(core->collective) != before)
        plan_progress(&core->plan, core->awake);
}

static void
rounds_give(struct core *core, int i, const struct proto_give *give, struct core_frame *frame)
{
    switch (give->object) {
    case PROTO_OBJECT_LIST:
        fetch_on_list(&core->fetch, core, i, give, frame->data, frame->size);
        break;
    case PROTO_OBJECT_STATE:
        fetch_on_block(&core->fetch, core, i, give, frame->data, frame->size);
        break;
    case PROTO_OBJECT_TOTAL:
        rounds_on_fetch(core, fetch_on_total(&core->fetch, core, i, give, frame));
        break;
    default:
        break;
    }
}

static void
rounds_bulk(struct core *core, int i, const struct proto_msg *msg, struct core_frame *frame)
{
    switch (msg->type) {
    case PROTO_REDUCE:
    case PROTO_GATHER:
        rounds_chunk(core, i, msg, frame);
        break;
    case PROTO_ITEM:
        if (pieces_on_item(&core->pieces, core, i, &msg->item, frame))
            plan_progress(&core->plan, core->awake);
        break;
    case PROTO_GIVE:
        rounds_give(core, i, &msg->give, frame);
        break;
    default:
        break;
    }
}

static bool
rounds_sent(struct core *core)
{
    return contribution_sent(&core->contribution, core->awake);
}

static void
rounds_leave(struct core *core)
{
    rounds_abort(core, "this node leaves");
}

/* --- The trainer ---------------------------------------------------------------------------------- */

static void
on_bucket(struct core *core, size_t bucket)
{
    if (contribution_bucket(&core->contribution, &core->trainer, core, bucket))
        plan_progress(&core->plan, core->awake);
}

static void
on_piece_done(struct core *core)
{
    struct pieces *pieces = &core->pieces;
    trainer_answered(&core->trainer, TRAINER_COMPUTING);
    trainer_moves(&core->trainer, core->awake);
    contribution_piece_done(&core->contribution);
    if (pieces_done(pieces, core)) {
        trainer_measured(&core->trainer, pieces->busy_us, pieces_work(pieces, core));
        contribution_pieces_done(&core->contribution);
    }
    plan_progress(&core->plan, core->awake);
}

static bool
on_lend(struct core *core, size_t *bucket)
{
    if (core->trainer.lent || core->trainer.state != TRAINER_FREE || !core->plan.active ||
        !collective_final(core->collective, bucket))
        return false;
    trainer_lend(&core->trainer, core);
    return true;
}

static void
on_returned(struct core *core)
{
    trainer_returned(&core->trainer, core);
}

/* What the task that has just ended says about the state before it. */
static void
note_agreement(struct core *core, enum trainer_state was, uint64_t round)
{
    if (was == TRAINER_COMMITTING && (!core->plan.active || core->plan.now.count > 1))
        divergence_agreed(&core->divergence, core->round);
    else if (was == TRAINER_ADOPTING || was == TRAINER_START)
        divergence_agreed(&core->divergence, round);
}

static void
round_next(struct core *core)
{
    uint64_t us = 0;
    bool active = core->plan.active, last = plan_applied(&core->plan, core, &us);
    if (!active) {
        rounds_heartbeat(core);
        return;
    }
    if (!last) {
        round_begin(core);
        rounds_on_broken(core); /* chunks that came early say which state their senders have */
    }
    if (!core->plan.active)
        return;
    lines_round(&core->lines, core, core->straggler.full);
    enum straggler_verdict verdict = straggler_round(&core->straggler, core, us);
    if (verdict == STRAGGLER_BENCHED)
        rounds_heartbeat(core);
    if (last) {
        rounds_end_plan(core);
        return;
    }
    if (verdict == STRAGGLER_ABORT)
        rounds_on_straggler(core, verdict);
    else if (verdict != STRAGGLER_GO_ON)
        plan_hold(&core->plan, core);
    else if (lead_divides_again(&core->lead, core))
        plan_hold(&core->plan, core);
}

/* What this node holds of the state. */
static void
hold_parts(struct core *core, const struct core_state *now)
{
    size_t segments = core->config.stages.cut_count + 1;
    core->holds = now->parts ? now->holds : core_segments(&core->config.stages);
    core->late = now->late;
    memset(core->parts, 0, sizeof core->parts);
    if (now->parts)
        memcpy(core->parts, now->parts, segments * sizeof *now->parts);
}

static void
on_applied(struct core *core, const struct core_state *now)
{
    if (core->trainer.state == TRAINER_START)
        core->started_at = core->awake;
    if (core->trainer.state == TRAINER_COMMITTING)
        give_committed(&core->give, core);
    if (core->trainer.commit_at.us > 0)
        straggler_applied(&core->straggler, core);
    enum trainer_state was = core->trainer.state;
    note_agreement(core, was, now->round);
    trainer_begins(&core->trainer);
    contribution_applied(&core->contribution);
    fetch_applied(&core->fetch, core, now->round);
    core->round = now->round;
    core->round_us = awake_since(core->awake, core->applied_at);
    core->applied_at = core->awake;
    core->state_hash = now->hash;
    core->first_bucket = now->first_bucket;
    core->done = now->done;
    core->pinned = now->pinned;
    core->pins_next = now->pins_next;
    bool changes = now->coded != core->coded;
    core->meets = core->warms > 0 && now->warms == 0;
    core->warms = now->warms;
    core->coded = now->coded;
    core->alone = now->alone;
    if (changes || core->meets)
        rounds_on_straggler(core, straggler_changes(&core->straggler, core));
    core->rows = now->rows;
    pieces_applied(&core->pieces, now->round);
    hold_parts(core, now);
    holding_applied(&core->holding);
    kept_applied(&core->keeping, core->round, was == TRAINER_COMMITTING);
    holding_tick(&core->holding, core);
    if (core->done && holding_stays(core))
        core_log(core, 6, "done; waiting up to %d s for a node that had a part of the model",
                 HOLDING_STAY_US / 1000000);
    divergence_applied(&core->divergence, core, was == TRAINER_ADOPTING || was == TRAINER_START);
    round_next(core);
}

static void
on_damaged(struct core *core, enum core_damage what)
{
    if (what == CORE_STATE_DAMAGED) {
        rounds_void_state(core, "this node's state is damaged");
    } else if (what == CORE_COPY_DAMAGED) {
        if (core->trainer.state == TRAINER_ADOPTING)
            trainer_answered(&core->trainer, TRAINER_ADOPTING);
        else if (!core->fetch.given)
            return; /* a part of a state that is void by now */
        fetch_copy_bad(&core->fetch, core);
    } else {
        assert(core->trainer.state == TRAINER_COMMITTING);
        trainer_begins(&core->trainer);
        contribution_refused(&core->contribution);
        pieces_void(&core->pieces); /* it may be what this node computed */
        fetch_total_bad(&core->fetch);
        rounds_abort(core, "its total is damaged");
    }
}

/* A node that has gone back meanwhile will be done again. */
static void
rounds_part(struct core *core, uint64_t segments)
{
    if (!core->done)
        return;
    fetch_part(&core->fetch, core, segments);
    rounds_heartbeat(core);
}

static void
on_audited(struct core *core, bool equal)
{
    trainer_answered(&core->trainer, TRAINER_AUDITING);
    plan_progress(&core->plan, core->awake);
    rounds_on_audit(core, audit_answer(&core->audit, core, equal));
}

static void
on_starved(struct core *core, uint64_t us)
{
    trainer_starved(&core->trainer, core, us);
    straggler_starved(&core->straggler, us);
}

/* --- Peers ---------------------------------------------------------------------------------------- */

static void
on_beat_out(struct core *core, struct proto_heartbeat *beat)
{
    beat->round = core->round;
    beat->idle = plan_idle(core);
    beat->ready = fetch_ready(core);
    beat->done = core->done;
    const struct keeps kept = contribution_keeps(&core->contribution, core);
    beat->have = kept.shards;
    beat->have_segments = kept.segments;
    beat->state_hash = core->state_hash;
    beat->holds = core->holds;
    beat->since = core->divergence.own_since;
    beat->speed = core->trainer.speed;
    beat->needs = fetch_needs(core) || core->holding.wants;
    beat->busy_us =
        fetch_needs(core) ? fetch_waits_us(core) + 1 : trainer_busy_us(&core->trainer, core->awake);
    beat->benched = core->straggler.benched;
    beat->apply_us = core->straggler.apply_us;
}

static void
on_beat(struct core *core, int i, const struct heartbeat_news *news)
{
    lines_heard(&core->lines, core, i);
    if (news->back)
        straggler_back(&core->straggler, i);
    if (news->moves && plan_trainer_moves(&core->plan, i))
        lead_readmit(&core->lead, i);
    if (news->moves)
        give_moves(&core->give, core, i);
    if (news->moves && pieces_run(core) && plan_member(&core->plan, i) &&
        !core->view.of[i].beat.idle) /* others may wait long for what it hands over */
        plan_progress(&core->plan, core->awake);
    for (uint64_t left = news->healed; left; left &= left - 1)
        lead_readmit(&core->lead, __builtin_ctzll(left));
    divergence_said(&core->divergence, core, i);
    core->others_train |= core->view.of[i].beat.speed > 0; /* it has computed since its start */
    rounds_abort(core, plan_on_beat(&core->plan, core, i));
    if (plan_leads(core) && !plan_member(&core->plan, i))
        on_consent(core, lead_consider(core, i));
    plan_heard(&core->plan, i);
}

static void
on_peer_back(struct core *core, int i)
{
    lead_readmit(&core->lead, i);
}

static void
on_peer_lost(struct core *core, int i, const char *why)
{
    rounds_abort(core, plan_lost(&core->plan, core, i, why));
}

static void
on_peer_gone(struct core *core, int i)
{
    fetch_gone(&core->fetch, core, i);
    give_gone(&core->give, i);
    holding_gone(&core->holding, core, i);
    divergence_gone(&core->divergence, core, i);
}

static void
on_peer_up(struct core *core, int i)
{
    plan_up(&core->plan, i);
    lead_readmit(&core->lead, i);
    lines_up(&core->lines, i);
    straggler_up(&core->straggler, i);
    holding_came(&core->holding, core, i);
}

static void
on_peer_forget(struct core *core, int i)
{
    plan_up(&core->plan, i);
    lead_readmit(&core->lead, i);
    give_forget(&core->give, i);
    fetch_forget(&core->fetch, i);
    divergence_forget(&core->divergence, i);
}

const struct engine engine_rounds = {
    .sums = true,
    .led = true,
    .start = rounds_start,
    .end = rounds_end,
    .step = rounds_step,
    .tick = rounds_tick,
    .message = rounds_message,
    .bulk = rounds_bulk,
    .sent = rounds_sent,
    .leave = rounds_leave,
    .needed = holding_alone,
    .bucket = on_bucket,
    .piece = on_piece_done,
    .lend = on_lend,
    .returned = on_returned,
    .applied = on_applied,
    .damaged = on_damaged,
    .audited = on_audited,
    .part = rounds_part,
    .starved = on_starved,
    .beat_out = on_beat_out,
    .beat = on_beat,
    .peer_back = on_peer_back,
    .peer_lost = on_peer_lost,
    .peer_gone = on_peer_gone,
    .peer_up = on_peer_up,
    .peer_forget = on_peer_forget,
    .may_end = rounds_may_end,
    .waits = lead_waits_for_peers,
    .members = rounds_members,
    .stats = rounds_stats,
};

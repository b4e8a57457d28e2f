/* rounds_act.c - what the engine "rounds" does when rounds.c says so: plans end, the state is void, verdicts are
 * carried out, chunks get to the sessions; and how it begins, ends, and answers questions. */
#include <assert.h>

#include "mesh/core/engine.h"
#include "mesh/core/rounds/rounds.h"

/* --- Plans end ------------------------------------------------------------------------------------ */

void
rounds_heartbeat(struct core *core)
{
    core_tell(core);
}

static void
end_collective(struct core *core)
{
    collective_stop(core->collective);
    core_tell(core);
}

void
rounds_end_plan(struct core *core)
{
    plan_end(&core->plan, core);
    end_collective(core);
}

void
rounds_abort(struct core *core, const char *why)
{
    if (!why || !core->plan.active)
        return;
    plan_drop(&core->plan, core, why, false);
    if (contribution_dropped(&core->contribution, core))
        pieces_void(&core->pieces);
    end_collective(core);
}

void
rounds_differ(struct core *core)
{
    if (!core->plan.active)
        return;
    divergence_warn(&core->divergence, core);
    plan_drop(&core->plan, core, "its members hold different states", true);
    end_collective(core);
}

void
rounds_void_state(struct core *core, const char *why)
{
    trainer_damaged(&core->trainer);
    contribution_damaged(&core->contribution);
    pieces_void(&core->pieces);
    core->state_hash = 0;
    core->done = false;
    core->damages++;
    give_reset(&core->give, core);
    fetch_reset(&core->fetch, core);
    rounds_abort(core, why);
    core_tell(core);
}

/* A member sent what does not fit: by the state that it was computed from, or else. */
void
rounds_on_broken(struct core *core)
{
    struct collective_other other;
    if (collective_status(core->collective) != COLLECTIVE_BROKEN)
        return;
    if (!collective_diverged(core->collective, &other)) {
        rounds_abort(core, collective_why(core->collective));
        return;
    }
    int i = core->plan.peer[other.rank];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    if (other.part && said->round == core->round && said->state_hash == core->state_hash) {
        holding_differs(&core->holding);
        rounds_abort(core, "its members hold different states");
        return;
    }
    if (!other.part)
        heartbeat_state(&core->view, core, i, other.state);
    divergence_said(&core->divergence, core, i);
    rounds_differ(core);
}

/* --- What the parts return ------------------------------------------------------------------------ */

void
rounds_on_divergence(struct core *core, struct divergence_verdict verdict)
{
    if (verdict.differ)
        rounds_differ(core);
    for (uint64_t left = verdict.refuse; left; left &= left - 1)
        sessions_expel(&core->peers, core, core->peers.peers[__builtin_ctzll(left)].node);
    if (!verdict.back)
        return;
    rounds_void_state(core, verdict.why);
    if (verdict.copy)
        fetch_needs_copy(&core->fetch, verdict.round);
    core->config.trainer->back(core->config.trainer_ctx, verdict.round, true);
}

void
rounds_on_holding(struct core *core, struct holding_verdict verdict)
{
    const struct keeps mine = contribution_keeps(&core->contribution, core);
    /* Nobody can make a plan now, so this time does not count as waiting for one. */
    if (plan_idle(core) &&
        (holding_short(core) || kept_missing(core, &mine) || holding_grows(core)))
        plan_waits_from(&core->plan, core->awake);
    if (verdict.hold && core->trainer.state != TRAINER_START)
        rounds_void_state(core, NULL);
    if (verdict.hold) {
        core->holds = 0;
        core->config.trainer->hold(core->config.trainer_ctx, verdict.hold);
    } else if (verdict.back) {
        rounds_void_state(core, NULL);
        core->config.trainer->back(core->config.trainer_ctx, verdict.round + 1, verdict.wrong);
    }
}

/* What catching up came to. */
void
rounds_on_fetch(struct core *core, struct fetch_verdict verdict)
{
    if (verdict.told)
        rounds_on_divergence(
            core, divergence_followed(&core->divergence, core, verdict.from, verdict.hash));
    if (verdict.commit) {
        trainer_ask(&core->trainer, core, TRAINER_COMMITTING);
        contribution_applies(&core->contribution, core);
        give_finish(&core->give, core);
        core->shared++;
        core->config.trainer->commit(core->config.trainer_ctx, core->round);
    }
    if (verdict.adopt) {
        give_reset(&core->give, core);
        trainer_ask(&core->trainer, core, TRAINER_ADOPTING);
        core->shared++;
        core->config.trainer->adopt(core->config.trainer_ctx, verdict.round, verdict.hash,
                                    verdict.parts);
    }
    if (verdict.part && !core->done) {
        give_reset(&core->give, core);
        pieces_void(&core->pieces); /* own[] of these segments is not 0 */
        trainer_ask(&core->trainer, core, TRAINER_ADOPTING);
    }
    if (verdict.part)
        core->config.trainer->part(core->config.trainer_ctx, verdict.round, verdict.segments,
                                   verdict.parts);
}

void
rounds_on_straggler(struct core *core, enum straggler_verdict verdict)
{
    if (verdict == STRAGGLER_ABORT)
        rounds_abort(core, "fewer members are faster");
    if (verdict == STRAGGLER_BACK)
        plan_waits_from(&core->plan, core->awake);
    if (verdict != STRAGGLER_GO_ON && verdict != STRAGGLER_HOLD)
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

/* A peer that does not read keeps our memory busy. */
void
rounds_drop_blockers(struct core *core)
{
    for (uint64_t left = contribution_blockers(&core->contribution, core); left; left &= left - 1)
        sessions_silent(&core->peers, core, __builtin_ctzll(left), "does not take what we send");
}

/* --- The collective sends to ranks; sessions are peers -------------------------------------------- */

/* A chunk as it leaves. */
static struct proto_msg
chunk_stamped(const struct core *core, const struct proto_msg *msg)
{
    struct proto_msg stamped = {.type = msg->type, .chunk = msg->chunk};
    stamped.chunk.sent_us = core->now.us;
    return stamped;
}

static void
on_send(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body, size_t body_size)
{
    struct core *core = ctx;
    const struct peer *peer = &core->peers.peers[core->plan.peer[rank]];
    assert(core->plan.active && rank != core->plan.rank);
    if (peer->state != PEER_UP || !peer->announced)
        return;
    contribution_sends(&core->contribution);
    struct proto_msg stamped = chunk_stamped(core, msg);
    core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)peer->link, &stamped, body,
                                 body_size, true);
}

static void
on_pass_on(void *ctx, uint64_t ranks, const struct proto_msg *msg, struct core_frame *frame)
{
    struct core *core = ctx;
    unsigned links[PROTO_PEERS_MAX];
    size_t count = 0;
    assert(core->plan.active && !(ranks >> core->plan.rank & 1));
    for (unsigned d = 1; d < core->plan.now.count; d++) {
        unsigned rank = (core->plan.rank + d) % core->plan.now.count;
        const struct peer *peer = &core->peers.peers[core->plan.peer[rank]];
        if ((ranks >> rank & 1) && peer->state == PEER_UP && peer->announced)
            links[count++] = (unsigned)peer->link;
    }
    struct proto_msg stamped = chunk_stamped(core, msg);
    if (count > 0)
        core->config.wire->pass_on(core->config.wire_ctx, links, count, &stamped, frame);
}

/* --- So does the handover -------------------------------------------------------------------------- */

static int32_t *
on_item_words(void *ctx, struct handover_item item, bool made, uint64_t *count)
{
    const struct core *core = ctx;
    const struct core_config *config = &core->config;
    size_t at = core_item_at(config->shards, item.stage, item.shard, item.gradient);
    (void)made; /* who made it and who gets it: the same words */
    *count = pieces_item_words(&core->pieces, core, item);
    assert(*count <= config->stages.item_words);
    return config->items + at * config->stages.item_words;
}

static void
on_item_send(void *ctx, unsigned rank, const struct handover_chunk *chunk, const void *body)
{
    struct core *core = ctx;
    if (!pieces_of_plan(&core->pieces, core))
        return;
    const struct peer *peer = &core->peers.peers[core->plan.peer[rank]];
    struct proto_msg msg = {.type = PROTO_ITEM,
                            .item = {.round = chunk->round,
                                     .state_hash = chunk->state,
                                     .bucket = pieces_bucket(&core->pieces, chunk->item),
                                     .gradient = chunk->item.gradient,
                                     .shard = (uint16_t)chunk->item.shard,
                                     .first = chunk->first,
                                     .size = chunk->size,
                                     .count = (uint32_t)chunk->count}};
    msg.item.check = chunk->check ^ pieces_item_mix(&msg.item);
    if (peer->state != PEER_UP || !peer->announced)
        return;
    contribution_sends(&core->contribution);
    pieces_sends(&core->pieces, chunk->count * sizeof(int32_t));
    core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)peer->link, &msg, body,
                                 chunk->count * sizeof(int32_t), true);
}

static void
on_item_ask(void *ctx, unsigned rank, struct handover_item first, uint64_t shards)
{
    const struct core *core = ctx;
    struct proto_msg msg = {.type = PROTO_NEED,
                            .need = {.round = core->round,
                                     .bucket = pieces_bucket(&core->pieces, first),
                                     .gradient = first.gradient,
                                     .shards = shards}};
    if (pieces_of_plan(&core->pieces, core))
        peers_send(core, core->plan.peer[rank], &msg);
}

/* --- The engine begins and ends -------------------------------------------------------------------- */

int
rounds_start(struct core *core)
{
    const struct collective_setup setup = {
        .bucket_count = core->config.bucket_count,
        .buckets = core->buckets,
        .stages = &core->config.stages,
        .own = core->config.own,
        .sum = core->config.sum,
        .chunk_elems = core->config.chunk_elems,
        .direct_bytes = core->config.direct_bytes,
        .pack_all = core->config.pack_all,
        .wire = core->config.wire,
        .wire_ctx = core->config.wire_ctx,
    };
    assert(core->config.trainer || core->config.hello.wants_job);
    static const struct collective_ops ops = {on_send, on_pass_on};
    static const struct handover_ops items = {on_item_words, on_item_send, on_item_ask};
    plan_init(&core->plan);
    divergence_init(&core->divergence);
    int error = transfer_init(&core->transfer, &core->config, core->buckets);
    error = error ? error : pieces_init(&core->pieces, core, &items, core);
    error = error ? error : collective_new(&core->collective, &setup, &ops, core);
    return error ? error : fetch_init(&core->fetch, core);
}

void
rounds_end(struct core *core)
{
    collective_destroy(&core->collective);
    pieces_fini(&core->pieces);
    fetch_fini(&core->fetch, core);
    transfer_fini(&core->transfer);
}

/* --- What it says of itself ------------------------------------------------------------------------ */

/* Whom a node that is done still has to serve. */
static bool
must_serve(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct give_peer *served = &core->give.of[i];
    bool has = said->done && !said->needs && !divergence_excludes(core, i);
    assert(core->done);
    return !has &&
           view_lags(core, i, awake_later(served->served_at, served->moved_at), core->round_us);
}

bool
rounds_may_end(const struct core *core)
{
    if (!core->done || fetch_needs(core) || divergence_open(core) || holding_stays(core))
        return false;
    for (int i = 0; i < core->peers.high; i++)
        if (must_serve(core, i))
            return false;
    return true;
}

/* Nobody does much less than an equal share of shards but for its speed. In stages who has none may hold a part for
 * others. Where shards may not change hands it waits for a round in which they may: the trainer knows (core.h). */
static void
find_slow(const struct core *core, struct core_stats *out)
{
    const struct plan *plan = &core->plan;
    uint64_t work[PROTO_PEERS_MAX];
    int peer[PROTO_PEERS_MAX];
    size_t n = 0;
    for (size_t m = 0; m < plan->now.count; m++) {
        peer[n] = plan->peer[m];
        work[n] = (uint64_t)__builtin_popcountll(plan->now.members[m].shards);
        n += work[n] > 0 || core->pinned || plan->now.cut_count == 0;
    }
    core_stats_slow(out, n, peer, work);
}

size_t
rounds_members(const struct core *core)
{
    return core->plan.active ? core->plan.now.count : 0;
}

void
rounds_stats(const struct core *core, struct core_stats *out)
{
    const struct keeps mine = contribution_keeps(&core->contribution, core);
    out->round = core->round;
    out->plans = core->plan.plans;
    out->aborts = core->plan.aborts;
    out->waits_us = lead_waits_us(core, &mine);
    out->step_us = plan_recent_max(core);
    out->damages = core->damages;
    out->audits = core->audit.audits;
    out->expulsions = core->peers.admit.expulsions;
    out->catching_up = core->fetch.state != FETCH_NONE && !core->done;
    out->benched = core->straggler.benched;
    out->shared = core->shared;
    out->missing = core->plan.active || core->done ? 0 : holding_missing(core);
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        out->equal += said->round == core->round && said->state_hash != 0 &&
                      said->state_hash == core->state_hash;
        if (view_usable(core, i) && said->round > out->ahead)
            out->ahead = said->round;
    }
    if (!core->plan.active)
        return;
    out->plan = core->plan.hash;
    out->mine = plan_mine(&core->plan);
    out->line = lines_slowest(core);
    for (size_t m = 0; m < core->plan.now.count && core->plan.now.count > 1; m++)
        out->servers += core->plan.now.members[m].duties != 0;
    out->served = collective_served(core->collective);
    if (pieces_run(core) && pieces_begun(&core->pieces, core))
        out->pipeline = pieces_look(&core->pieces);
    find_slow(core, out);
}

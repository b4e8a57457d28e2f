/* core.c - every event of a node: set the clocks, tell the part it concerns, settle. */
#include "mesh/core/core.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/text.h"

void
core_log(const struct core *core, int level, const char *format, ...)
{
    char line[CORE_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    core->ops.log(core->ctx, level, line);
}

/* --- Glue between the ring, which knows ranks, and the peers, which have links -------------------- */

/* A chunk as it leaves. */
static struct proto_msg
stamp(const struct core *core, const struct proto_msg *msg)
{
    struct proto_msg stamped = {.type = msg->type, .chunk = msg->chunk};
    stamped.chunk.sent_us = core->now;
    return stamped;
}

static void
on_ring_send(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body,
             size_t body_size)
{
    struct core *core = ctx;
    const struct peer *peer = &core->peers.peers[core->plan.peer[rank]];
    if (peer->state != PEER_UP || !peer->announced)
        return;
    core->contribution.in_flight++;
    struct proto_msg stamped = stamp(core, msg);
    core->ops.send_bulk(core->ctx, (unsigned)peer->link, &stamped, body, body_size, true);
}

static void
on_ring_pass(void *ctx, unsigned rank, const struct proto_msg *msg, struct core_frame *frame)
{
    struct core *core = ctx;
    const struct peer *peer = &core->peers.peers[core->plan.peer[rank]];
    if (peer->state != PEER_UP || !peer->announced)
        return;
    struct proto_msg stamped = stamp(core, msg);
    core->ops.pass_on(core->ctx, (unsigned)peer->link, &stamped, frame);
}

static void
on_ring_keep(void *ctx, struct core_frame *frame)
{
    struct core *core = ctx;
    core->ops.keep(core->ctx, frame);
}

static void
on_ring_release(void *ctx, void *handle)
{
    struct core *core = ctx;
    core->ops.release(core->ctx, handle);
}

/* --- Life -------------------------------------------------------------------------------------- */

static int
core_ring(struct core *core)
{
    const struct ring_setup setup = {
        .bucket_count = core->config.bucket_count,
        .buckets = core->buckets,
        .own = core->config.own,
        .sum = core->config.sum,
        .chunk_elems = core->config.chunk_elems,
        .direct_bytes = core->config.direct_bytes,
        .all = core->all,
    };
    static const struct ring_ops ops = {on_ring_send, on_ring_pass, on_ring_keep, on_ring_release};
    return ring_new(&core->ring, &setup, &ops, core);
}

int
core_new(struct core **out, const struct core_config *config, const struct core_ops *ops, void *ctx,
         uint64_t now)
{
    assert(config->self.id != 0);
    assert(config->shards >= 1 || config->hello.wants_job);
    assert(config->shards <= PROTO_SHARDS_MAX);
    assert(config->state_size <= PROTO_STATE_MAX);
    assert(config->bucket_count == 0 || config->buckets[config->bucket_count - 1].count > 0);
    struct core *core = calloc(1, sizeof *core);
    if (!core)
        return -ENOMEM;
    core->config = *config;
    core->ops = *ops;
    core->ctx = ctx;
    core->now = core->tick_at = now;
    core->awake = core->tick_awake = 1; /* 0 in a stamp says never */
    if (core->config.chunk_elems == 0)
        core->config.chunk_elems = PROTO_CHUNK_MAX;
    core->all = config->shards == 64 ? UINT64_MAX : (1ull << config->shards) - 1;
    core->buckets = calloc(config->bucket_count + 1, sizeof *core->buckets);
    if (core->buckets && config->bucket_count > 0)
        memcpy(core->buckets, config->buckets, config->bucket_count * sizeof *core->buckets);
    if (core->config.block_size == 0)
        core->config.block_size = PROTO_BLOCK_MAX;
    if (!core->buckets || transfer_init(&core->transfer, &core->config) != 0 ||
        core_ring(core) != 0 || fetch_init(&core->fetch, core) != 0) {
        core_destroy(&core);
        return -ENOMEM;
    }
    link_init(core);
    rendezvous_init(core);
    admit_init(core);
    peers_init(core);
    plan_init(core);
    contribution_init(core);
    audit_init(&core->audit);
    divergence_init(&core->divergence);
    straggler_init(&core->straggler);
    serve_init(&core->serve);
    page_repair_init(&core->repair);
    *out = core;
    return 0;
}

void
core_destroy(struct core **core)
{
    if (!*core)
        return;
    ring_destroy(&(*core)->ring);
    fetch_fini(&(*core)->fetch, *core);
    transfer_fini(&(*core)->transfer);
    free((*core)->buckets);
    free(*core);
    *core = NULL;
}

/* --- Events ------------------------------------------------------------------------------------ */

/* How much of the time since the last tick this node was able to hear the others. Ticks are due every CORE_TICK_US;
 * where they come late, since our threads wait for a processor or have much to add, what others send waits, too. So a
 * late one counts as if it had been in time, which stretches each deadline by as much as we are late. */
static uint64_t
core_heed(uint64_t passed)
{
    uint64_t least = passed / CORE_LATE_MAX, us = passed < CORE_DUE_US ? passed : CORE_DUE_US;
    us = us > least ? us : least;
    if (core_mutant(MUTANT_LATE))
        us = passed;
    return us < CORE_NAP_US ? us : CORE_NAP_US;
}

static void
core_clock(struct core *core, uint64_t now)
{
    if (now > core->now)
        core->now = now;
    core->awake = core->tick_awake + core_heed(core->now - core->tick_at);
}

static void
core_clock_tick(struct core *core, uint64_t now)
{
    core_clock(core, now);
    core->tick_at = core->now;
    core->tick_awake = core->awake;
}

/* Whom a node that is done still has to serve. One that has not moved for so long hangs, though its
 * heartbeats come. */
static bool
core_lags(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct heard *heard = &core->view.of[i];
    const struct serve_peer *served = &core->serve.of[i];
    uint64_t seen =
        heard->moved_at_us > served->served_at_us ? heard->moved_at_us : served->served_at_us;
    if (peer->state != PEER_UP || peer->hello.wants_job || divergence_parted(&core->divergence, i))
        return false;
    if (said->done && !divergence_excludes(core, i))
        return false;
    if (seen < core->applied_at_us)
        seen = core->applied_at_us;
    return core->awake - seen < CORE_LINGER_US + 4 * core->round_us;
}

/* The node may end when everybody it knows has what it has. */
static void
core_finish(struct core *core)
{
    if (!core->done || core->finished || divergence_open(&core->divergence))
        return;
    for (int i = 0; i < core->peers.high; i++)
        if (core_lags(core, i))
            return;
    core->finished = true;
    core->ops.finished(core->ctx);
}

static void
core_broken(struct core *core)
{
    unsigned rank;
    uint64_t state;
    if (ring_status(core->ring) != RING_BROKEN)
        return;
    if (ring_diverged(core->ring, &rank, &state)) {
        int i = core->plan.peer[rank];
        heartbeat_state(core, i, state);
        divergence_beat(&core->divergence, core, i);
        divergence_warn(&core->divergence, core);
        plan_differ(core);
    } else {
        plan_abort(core, ring_why(core->ring));
    }
}

static void
core_diverged(struct core *core, struct divergence_verdict verdict)
{
    if (verdict.differ)
        plan_differ(core);
    if (!verdict.back)
        return;
    contribution_damaged(core, verdict.why);
    if (verdict.copy)
        fetch_needs_copy(&core->fetch);
    core->ops.back(core->ctx, verdict.round);
}

/* What catching up came to. */
static void
core_fetched(struct core *core, struct fetch_verdict verdict)
{
    if (verdict.conflict)
        core_diverged(core,
                      divergence_differs(&core->divergence, core, verdict.from, verdict.hash));
    if (verdict.commit) {
        contribution_ask(core, TRAINER_COMMITTING);
        serve_finish(&core->serve, core);
        core->shared++;
        core->ops.commit(core->ctx, core->round);
    }
    if (verdict.adopt) {
        serve_reset(&core->serve, core);
        contribution_ask(core, TRAINER_ADOPTING);
        core->shared++;
        core->ops.adopt(core->ctx, verdict.round, verdict.hash);
    }
}

/* A state that is fetched and the copy for others take turns in one memory. */
static void
core_catch_up(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    bool goes_on = fetch_step(fetch, core);
    if (goes_on && fetch->stage == FETCH_FOLLOWING)
        core_fetched(core, fetch_follow_step(fetch, core));
    if (goes_on && fetch_uses_state_in(fetch)) {
        serve_yield(&core->serve);
        core_fetched(core, fetch_copy_step(fetch, core));
    }
    serve_step(&core->serve, core);
    if (serve_uses_state_in(&core->serve))
        fetch_yield(fetch);
}

/* A claim that is final is computed again when the trainer has nothing else to do. */
static void
core_audit(struct core *core)
{
    const struct contribution *own = &core->contribution;
    if (!audit_wants(&core->audit, &core->plan, core->round) || own->state != TRAINER_FREE ||
        !own->filled || !ring_complete(core->ring, core->config.audit_bucket))
        return;
    struct audit_task task = audit_begin(&core->audit, core);
    contribution_ask(core, TRAINER_AUDITING);
    plan_progress(core);
    core->ops.audit(core->ctx, core->round, task.shard, task.claim, task.words);
}

static void
core_expel(struct core *core, struct audit_verdict verdict)
{
    int i = verdict.expel.id ? peers_find(core, verdict.expel) : -1;
    if (i >= 0)
        admit_expel(core, i);
    if (verdict.abort)
        plan_abort(core, "a member was expelled");
}

/* Let every part do what has become possible. */
static void
core_settle(struct core *core)
{
    if (core->leaving || core->config.hello.wants_job)
        return;
    core_broken(core);
    core_diverged(core, divergence_step(&core->divergence, core));
    page_repair_step(&core->repair, core);
    core_catch_up(core);
    plan_step(core);
    contribution_step(core);
    core_audit(core);
    core_broken(core);
    core_finish(core);
}

static void
on_straggler(struct core *core, enum straggler_verdict verdict)
{
    if (verdict == STRAGGLER_ABORT)
        plan_abort(core, "a member that has come back is too slow");
    if (verdict == STRAGGLER_BACK)
        core->plan.idle_at_us = core->awake;
    if (verdict == STRAGGLER_BACK || verdict == STRAGGLER_BENCHED)
        heartbeat_send(core);
}

void
core_on_tick(struct core *core, uint64_t now)
{
    core_clock_tick(core, now);
    if (core->leaving)
        return;
    peers_tick(core);
    rendezvous_tick(core);
    admit_tick(core);
    heartbeat_tick(core);
    rendezvous_tell_tick(core);
    plan_tick(core);
    contribution_tick(core);
    core_expel(core, audit_tick(&core->audit, core));
    on_straggler(core, straggler_tick(&core->straggler, core, plan_recent_max(core)));
    contact_tick(core);
    if (core->awake >= core->sweep_at_us) {
        core->sweep_at_us = core->awake + CORE_SWEEP_US;
        ring_tick(core->ring);
    }
    core_settle(core);
}

void
core_on_starved(struct core *core, uint64_t now, uint64_t us)
{
    core_clock(core, now);
    contribution_starved(core, us);
}

void
core_on_found(struct core *core, uint64_t now, const struct proto_endpoint *at,
              struct proto_node node)
{
    core_clock(core, now);
    if (core->leaving)
        return;
    peers_found(core, at, node, true);
    core_settle(core);
}

void
core_on_link_up(struct core *core, uint64_t now, unsigned link)
{
    core_clock(core, now);
    if (core->leaving || link >= LINK_MAX)
        return;
    link_up(core, link);
    core_settle(core);
}

void
core_on_link_down(struct core *core, uint64_t now, unsigned link)
{
    core_clock(core, now);
    if (core->leaving || link >= LINK_MAX)
        return;
    link_down(core, link);
    core_settle(core);
}

static void
on_job(struct core *core, int from, const void *body, size_t body_size)
{
    if (body_size > 0) {
        char who[PROTO_WHO_MAX];
        if (core->config.hello.wants_job)
            core->ops.job_offered(core->ctx, report_who(core, from, who), body, body_size);
        return;
    }
    const char *text = core->ops.job(core->ctx);
    struct proto_msg msg = {.type = PROTO_JOB};
    const struct peer *peer = &core->peers.peers[from];
    if (text && peer->state == PEER_UP)
        core->ops.send(core->ctx, (unsigned)peer->link, &msg, text, strlen(text));
}

static void
on_peers(struct core *core, const struct proto_peers *peers)
{
    for (size_t k = 0; k < peers->count; k++)
        peers_found(core, &peers->endpoints[k], (struct proto_node){0, 0}, false);
}

/* A message of a peer with a session; it is only a helper when it wants a job. */
static void
on_session(struct core *core, int i, const struct proto_msg *msg, const void *body,
           size_t body_size)
{
    heartbeat_heard(core, i);
    if (msg->type == PROTO_JOB) {
        on_job(core, i, body, body_size);
        return;
    }
    if (msg->type == PROTO_BYE) {
        peers_bye(core, i);
        return;
    }
    if (!core->peers.peers[i].announced)
        return;
    switch (msg->type) {
    case PROTO_PEERS:
        on_peers(core, &msg->peers);
        break;
    case PROTO_HEARTBEAT:
        straggler_beat(&core->straggler, core, i, &msg->heartbeat);
        heartbeat_take(core, i, &msg->heartbeat);
        divergence_beat(&core->divergence, core, i);
        plan_on_beat(core, i);
        break;
    case PROTO_PLAN:
        plan_on_plan(core, i, &msg->plan);
        break;
    case PROTO_HOLD:
        plan_on_hold(core, i, &msg->hold);
        break;
    case PROTO_ABORT:
        plan_on_abort(core, i, &msg->abort);
        break;
    case PROTO_ACCUSE:
        audit_on_accuse(&core->audit, core, i, &msg->accuse);
        break;
    case PROTO_BENCH:
        on_straggler(core, straggler_on_bench(&core->straggler, core, &msg->bench));
        break;
    case PROTO_FETCH:
        serve_on_fetch(&core->serve, core, i, &msg->fetch);
        break;
    case PROTO_FOLLOW:
        serve_on_follow(&core->serve, core, i, &msg->follow);
        break;
    case PROTO_WANT:
        page_repair_on_want(&core->repair, i, &msg->page);
        break;
    default:
        break;
    }
}

void
core_on_message(struct core *core, uint64_t now, struct proto_node from, const char *from_host,
                const struct proto_msg *msg, const void *body, size_t body_size)
{
    core_clock(core, now);
    if (core->leaving || from.id == 0)
        return;
    if (msg->type == PROTO_HELLO) {
        size_t length = strlen(from_host);
        if (length < PROTO_HOST_MAX && text_host(from_host, length)) /* it goes into peer lists */
            peers_hello(core, from, from_host, &msg->hello);
    } else if (msg->type == PROTO_REFUSE) {
        admit_refused(core, from, from_host, &msg->refuse, body,
                      body_size < PROTO_JOB_MAX ? body_size : 0);
    } else {
        int i = peers_find(core, from);
        if (i >= 0)
            on_session(core, i, msg, body, body_size);
    }
    core_settle(core);
}

void
core_on_bulk(struct core *core, uint64_t now, struct proto_node from, const struct proto_msg *msg,
             struct core_frame *frame)
{
    core_clock(core, now);
    int i = core->leaving ? -1 : peers_find(core, from);
    if (i < 0 || !core->peers.peers[i].announced)
        return;
    heartbeat_heard(core, i);
    if (msg->type == PROTO_STATE) {
        fetch_on_block(&core->fetch, core, i, &msg->state, frame->data, frame->size);
    } else if (msg->type == PROTO_OFFER) {
        fetch_on_offer(&core->fetch, core, i, &msg->offer, frame->data, frame->size);
    } else if (msg->type == PROTO_TOTAL) {
        core_fetched(core, fetch_on_total(&core->fetch, core, i, &msg->total, frame));
    } else if (msg->type == PROTO_PAGE) {
        page_repair_on_page(&core->repair, core, i, &msg->page, frame->data, frame->size);
    } else if (msg->type == PROTO_REDUCE || msg->type == PROTO_GATHER) {
        if (msg->chunk.round == core->round || msg->chunk.round == core->round + 1)
            straggler_chunk(&core->straggler, core, i, &msg->chunk);
        uint64_t before = ring_progress(core->ring);
        ring_chunk(core->ring, from, msg, frame, core->round);
        if (ring_progress(core->ring) != before)
            plan_progress(core);
    }
    core_settle(core);
}

void
core_on_sent(struct core *core, uint64_t now)
{
    core_clock(core, now);
    assert(core->contribution.in_flight > 0);
    core->contribution.in_flight--;
    if (core->contribution.blocked)
        core_settle(core);
}

void
core_on_bucket(struct core *core, uint64_t now, size_t bucket)
{
    core_clock(core, now);
    contribution_bucket(core, bucket);
    core_settle(core);
}

bool
core_lend(struct core *core, uint64_t now, size_t *bucket)
{
    core_clock(core, now);
    return contribution_lend(core, bucket);
}

void
core_on_returned(struct core *core, uint64_t now)
{
    core_clock(core, now);
    contribution_returned(core);
    core_settle(core);
}

void
core_on_applied(struct core *core, uint64_t now, uint64_t round, uint64_t state_hash,
                size_t first_bucket, bool done)
{
    core_clock(core, now);
    assert(first_bucket < core->config.bucket_count);
    if (core->contribution.state == TRAINER_START)
        core->started_at_us = core->awake;
    if (core->contribution.state == TRAINER_COMMITTING)
        serve_committed(&core->serve, core);
    if (core->contribution.commit_at_us > 0)
        straggler_applied(&core->straggler, core);
    core->contribution.commit_at_us = 0;
    if (core->contribution.state == TRAINER_COMMITTING &&
        (!core->plan.active || core->plan.now.count > 1))
        divergence_agreed(&core->divergence, core->round);
    else if (core->contribution.state == TRAINER_ADOPTING ||
             core->contribution.state == TRAINER_START)
        divergence_agreed(&core->divergence, round);
    contribution_applied(core);
    fetch_applied(&core->fetch, core, round);
    core->round = round;
    core->round_us = core->awake - core->applied_at_us;
    core->applied_at_us = core->awake;
    core->state_hash = state_hash;
    core->first_bucket = first_bucket;
    core->done = done;
    divergence_applied(&core->divergence, core);
    plan_applied(core);
    core_settle(core);
}

void
core_on_state_bad(struct core *core, uint64_t now)
{
    core_clock(core, now);
    assert(core->contribution.state == TRAINER_ADOPTING);
    core->contribution.state = TRAINER_FREE;
    fetch_bad(&core->fetch, core);
    core_settle(core);
}

void
core_on_total_bad(struct core *core, uint64_t now)
{
    core_clock(core, now);
    assert(core->contribution.state == TRAINER_COMMITTING);
    contribution_applied(core);
    fetch_total_bad(&core->fetch, core);
    plan_abort(core, "its total is damaged");
    core_settle(core);
}

void
core_want(struct core *core, uint64_t now, uint64_t step, uint64_t round, uint64_t page)
{
    core_clock(core, now);
    assert(step <= PROTO_ROUND_MAX);
    assert(round <= PROTO_ROUND_MAX);
    assert(page < PROTO_FILE_MAX / PROTO_PAGE_MAX);
    page_repair_want(&core->repair, core,
                     &(struct proto_page){.step = step, .round = round, .page_number = page});
    core_settle(core);
}

void
core_on_page(struct core *core, uint64_t now, uint64_t round, const void *data, size_t size)
{
    core_clock(core, now);
    if (core->leaving)
        return;
    page_repair_read(&core->repair, core, round, data, size);
    core_settle(core);
}

void
core_on_damaged(struct core *core, uint64_t now)
{
    core_clock(core, now);
    contribution_damaged(core, "this node's state is damaged");
    core_settle(core);
}

void
core_on_audited(struct core *core, uint64_t now, bool equal)
{
    core_clock(core, now);
    assert(core->contribution.state == TRAINER_AUDITING);
    core->contribution.state = TRAINER_FREE;
    plan_progress(core);
    core_expel(core, audit_answer(&core->audit, core, equal));
    core_settle(core);
}

void
core_leave(struct core *core, uint64_t now)
{
    core_clock(core, now);
    if (core->leaving)
        return;
    plan_abort(core, "this node leaves");
    struct proto_msg msg = {.type = PROTO_BYE};
    for (int i = 0; i < core->peers.high; i++)
        peers_send(core, i, &msg);
    core->leaving = true;
}

const char *
core_wrong(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        bool up = peer->state == PEER_UP;
        uint64_t silent_us = core->awake - heard->at_us;
        if (up && silent_us > CORE_FORGET_US + 2 * CORE_NAP_US)
            return "a peer that is silent still has a session";
        if (plan_member(core, i) && (!up || heard->suspected))
            return "a member of the plan has no session, or is suspected";
        if (!up && (core->serve.followers[i].on || (core->serve.due >> i & 1)))
            return "a peer without a session is served";
    }
    if (core->plan.active && core->plan.now.round > core->round)
        return "a plan is of a later round";
    if (fetch_uses_state_in(&core->fetch) && serve_uses_state_in(&core->serve))
        return "a fetched state and the copy for others are in one memory";
    if (core->plan.active && ring_status(core->ring) == RING_OFF)
        return "a plan without its ring";
    return NULL;
}

void
core_stats(const struct core *core, struct core_stats *out)
{
    *out = (struct core_stats){
        .round = core->round,
        .plans = core->plan.plans,
        .aborts = core->plan.aborts,
        .waits_us = plan_waits_us(core),
        .step_us = plan_recent_max(core),
        .damages = core->damages,
        .audits = core->audit.audits,
        .expulsions = core->audit.expulsions,
        .catching_up = core->fetch.stage != FETCH_NONE,
        .benched = core->straggler.benched,
        .unreached = core->contacts.unreached,
        .shared = core->shared,
    };
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        const struct heard *heard = &core->view.of[i];
        out->peers += peer->state == PEER_UP && !heard->suspected && peer->announced;
        if (peers_usable(core, i) && said->round > out->ahead)
            out->ahead = said->round;
    }
    if (!core->plan.active)
        return;
    out->members = (unsigned)core->plan.now.count;
    out->plan = core->plan.hash;
    out->plan_round = core->plan.now.round;
    out->mine = plan_mine(core);
    out->leader = plan_leader(core);
}

void
core_status(const struct core *core, struct core_status *out)
{
    *out = (struct core_status){.here = 1, .wanted = (unsigned)core->config.peers_min};
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        out->here += peer->state == PEER_UP && !heard->suspected && peer->announced;
    }
    out->waiting = plan_waits_for_peers(core) && out->here < out->wanted;
    out->waiting_us = out->waiting ? core->awake - core->started_at_us : 0;
    contact_list(core, out);
}

/* push.c - the engine "push": it drives the group, the ranges and the worker in this order. See push.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mesh/core/engine.h"
#include "mesh/core/internal.h"
#include "mesh/core/push/push_lease.h"

/* --- Life ----------------------------------------------------------------------------------------- */

static size_t
body_max(const struct push_config *config)
{
    size_t most = 16 * (size_t)config->range_count; /* the holdings */
    for (unsigned k = 0; k < config->range_count; k++) {
        const struct push_size *size = &config->size[k];
        size_t copy = PUSH_SET_SIZE + (size->copy > size->model ? size->copy : size->model);
        assert(size->value <= size->model && copy <= PROTO_BLOCK_MAX &&
               size->gradient <= PROTO_BLOCK_MAX);
        most = copy > most ? copy : most;
    }
    return most;
}

static int
push_start(struct core *core)
{
    const struct push_config *config = core->config.push;
    struct push *push = &core->push;
    assert(config->range_count >= 1 && config->range_count <= PUSH_RANGES_MAX);
    assert(config->tickets >= 1 && config->per_step >= 1 && config->group >= 1);
    assert(config->first % config->per_step == 0 && config->first < config->tickets);
    push->config = *config;
    push->work.source = -1;
    push->leases.tickets = config->tickets;
    push->leases.per_step = config->per_step;
    push->leases.bound = config->bound;
    push->leases.done.floor = push->leases.end = push->snapshot.saved = config->first;
    push->ranges.of = calloc(config->range_count, sizeof *push->ranges.of);
    push->work.history = calloc(config->range_count, sizeof *push->work.history);
    push->body = calloc(1, body_max(config));
    if (!push->ranges.of || !push->work.history || !push->body)
        return -ENOMEM;
    push_range_init(push);
    return 0;
}

static void
push_end(struct core *core)
{
    struct push *push = &core->push;
    if (push->ranges.of && push->body) {
        push_group_forget(&push->group);
        push_range_forget(push, core);
    }
    free(push->ranges.of);
    free(push->work.history);
    free(push->body);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

static uint32_t
shown_us(uint64_t us)
{
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void
carry_out(struct core *core, enum push_verdict verdict)
{
    struct push *push = &core->push;
    if (verdict == PUSH_AS_BEFORE)
        return;
    if (verdict == PUSH_FORGET) {
        core->done = core->finished = false;
        push->final_hash = 0;
        push_group_forget(&push->group);
        push_work_forget(push);
        push_snapshot_forget(push);
        push_range_forget(push, core);
    } else {
        /* Who holds nothing knows of no ticket of these nodes. */
        if (push->group.now.base == 0 || push->group.base == 0)
            push->leases.done = (struct push_set){.floor = push->config.first};
        push_range_group(push, core);
        push_work_group(push, core);
        push_snapshot_group(push);
    }
    core_tell(core);
}

static void
push_on_step(struct core *core)
{
    struct push *push = &core->push;
    uint64_t base = push->group.base, final = push->final_hash, snapshot = push_snapshot_told(core),
             saved = push->snapshot.saved;
    if (!push->started)
        return;
    carry_out(core, push_group_step(&push->group, core));
    push_range_step(push, core);
    push_snapshot_step(push, core);
    push_work_step(push, core);
    core->round = push->leases.done.floor;
    if (push->group.base != base || push->final_hash != final ||
        push_snapshot_told(core) != snapshot || push->snapshot.saved != saved)
        core_tell(core);
}

/* --- Messages ------------------------------------------------------------------------------------- */

static void
on_message(struct core *core, int i, const struct proto_msg *msg)
{
    struct push *push = &core->push;
    switch (msg->type) {
    case PROTO_GROUP:
        carry_out(core, push_group_on_group(&push->group, core, i, &msg->group));
        break;
    case PROTO_PULL:
        push_copy_on_pull(push, core, i, &msg->pull);
        break;
    case PROTO_APPLIED:
        if (msg->applied.group_hash != push->group.hash ||
            msg->applied.range >= push->config.range_count)
            break;
        push_range_on_applied(push, core, i, &msg->applied);
        push_work_on_applied(push, core, i, &msg->applied);
        break;
    case PROTO_TAKE:
        push_lease_on_take(push, core, i, &msg->take);
        break;
    case PROTO_LEASE:
        push_work_on_lease(push, core, i, &msg->lease);
        break;
    default:
        break;
    }
}

static void
on_bulk(struct core *core, int i, const struct proto_msg *msg, struct core_frame *frame)
{
    struct push *push = &core->push;
    switch (msg->type) {
    case PROTO_HOLDINGS:
        push_copy_on_holdings(push, core, i, &msg->holdings, frame->data, frame->size);
        break;
    case PROTO_VALUE:
        if (msg->value.whole && msg->value.number)
            push_snapshot_on_copy(push, core, i, &msg->value, frame);
        else if (msg->value.whole)
            push_copy_on_copy(push, core, i, &msg->value, frame);
        else
            push_work_on_value(push, core, i, &msg->value, frame);
        break;
    case PROTO_PUSH:
        push_range_on_push(push, core, i, &msg->push, frame);
        break;
    default:
        break;
    }
}

/* --- The trainer ---------------------------------------------------------------------------------- */

static void
push_on_bucket(struct core *core, size_t bucket)
{
    assert(bucket == 0);
    push_work_computed(&core->push, core);
}

/* Does a peer have the model of this node? */
static void
hear_final(struct push *push, int i)
{
    const struct push_claim *of = &push->group.of[i];
    push->together |= push->final_hash && of->known && of->said.final_hash == push->final_hash;
}

/* The trainer begins, or it has the final model. */
static void
push_on_applied(struct core *core, const struct core_state *now)
{
    struct push *push = &core->push;
    core->applied_at = core->awake;
    if (!now->done) {
        assert(!push->started);
        push->started = true;
        push->work.again_us = PUSH_AGAIN_US;
        core->started_at = core->awake;
        push_snapshot_begin(push, core);
        core_tell(core);
        return;
    }
    push->started = core->done = true;
    push->together = push->work.source >= 0;
    push_copy_keep(push);
    push_work_finished(push, now->hash);
    for (int i = 0; i < core->peers.high; i++)
        hear_final(push, i);
    core_tell(core);
}

static bool
push_on_interrupt(struct core *core)
{
    return push_snapshot_end(&core->push, core);
}

/* --- Peers ---------------------------------------------------------------------------------------- */

static void
push_on_beat_out(struct core *core, struct proto_heartbeat *beat)
{
    struct push *push = &core->push;
    beat->round = core->round;
    beat->done = core->done;
    beat->idle = true;
    if (!push->started)
        return;
    beat->claim_count = 1;
    beat->claims[0] =
        (struct proto_claim){.group_hash = push->group.hash,
                             .base = push->group.base,
                             .base_counter = push->group.base_group.counter,
                             .counter = push->group.counter,
                             .number = ++push->group.claim_number,
                             .tickets = push_set_count(&push->leases.done),
                             .final_hash = push->final_hash,
                             .leads = push->group.leads,
                             .snapshot = push_snapshot_told(core),
                             .saved = push->snapshot.saved,
                             .compute_us = shown_us(push_group_ticket_us(core, true, -1)),
                             .line_us = shown_us(push_group_line_us(core, true, -1))};
}

static void
push_on_beat(struct core *core, int i, const struct heartbeat_news *news)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    (void)news;
    if (!said->claim_count)
        return;
    enum push_verdict verdict = push_group_on_claim(&core->push.group, core, i, &said->claims[0]);
    hear_final(&core->push, i);
    if (push_group_all_done(core, i))
        push_set_raise(&core->push.leases.done, core->push.config.tickets);
    carry_out(core, verdict);
    core->others_train |= core->push.group.of[i].said.group_hash != 0;
}

static void
push_on_peer_forget(struct core *core, int i)
{
    core->push.group.of[i].known = false;
}

/* --- Looking -------------------------------------------------------------------------------------- */

static bool
push_may_end(const struct core *core)
{
    if (!core->done)
        return false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct push_claim *of = &core->push.group.of[i];
        bool has = of->known && of->said.final_hash == core->push.final_hash;
        if (!has && view_lags(core, i, core->applied_at, 0))
            return false;
    }
    return true;
}

static bool
waits(const struct core *core)
{
    const struct push *push = &core->push;
    return core->config.peers_min > 1 && push->started && push->group.groups == 0 && !core->done;
}

/* Who takes twice as long for a ticket gets half as many. */
static void
slow_of(const struct core *core, struct core_stats *out)
{
    const struct proto_group *group = &core->push.group.now;
    uint64_t work[PROTO_PEERS_MAX];
    int peer[PROTO_PEERS_MAX];
    for (size_t m = 0; m < group->count; m++) {
        peer[m] = peers_find(core, group->seats[m].node);
        bool self = proto_node_equal(group->seats[m].node, core->config.self);
        uint64_t us = push_group_ticket_us(core, self, peer[m]);
        if (us == 0)
            return;
        work[m] = UINT64_C(1000000000000) / us;
    }
    core_stats_slow(out, group->count, peer, work);
}

static void
push_stats(const struct core *core, struct core_stats *out)
{
    const struct push *push = &core->push;
    out->round = core->round;
    out->plans = push->group.groups;
    out->plan = push->group.hash;
    out->members = (unsigned)push->group.now.count;
    out->catching_up = push->started && push->group.base == 0 && push->group.groups > 0;
    out->lost = push->final_hash ? push->ranges.missing : push->ranges.lost;
    out->shared = push->group.shared;
    out->equal = push->together;
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && core->view.of[i].beat.round > out->ahead)
            out->ahead = core->view.of[i].beat.round;
    slow_of(core, out);
}

const struct engine engine_push = {
    .start = push_start,
    .end = push_end,
    .step = push_on_step,
    .message = on_message,
    .bulk = on_bulk,
    .bucket = push_on_bucket,
    .applied = push_on_applied,
    .interrupt = push_on_interrupt,
    .beat_out = push_on_beat_out,
    .beat = push_on_beat,
    .peer_gone = push_on_peer_forget,
    .peer_up = push_on_peer_forget,
    .peer_forget = push_on_peer_forget,
    .may_end = push_may_end,
    .waits = waits,
    .stats = push_stats,
};

/* push_copy.c - copies of ranges: what this node tells of what it holds, takes over, and gives. See push.h. */
#include "mesh/core/push/push_range.h"

#include <assert.h>

#include "mesh/core/internal.h"

#define HELD                                                                                       \
    (UINT64_C(1) << 62) /* a holding: HELD + taken, or taken + 1 of what was only read, or 0 */

enum { HOLDING_SIZE = 16, /* with the history */ RESTORED = 1 };

/* --- What is held ---------------------------------------------------------------------------------- */

uint64_t
push_copy_holding(const struct push_range *r)
{
    return r->held ? HELD + r->taken : r->read ? r->read_taken + 1 : 0;
}

/* A ticket that is in hand is in no set yet. */
void
push_copy_end(struct push *push)
{
    uint64_t end = push->leases.end;
    for (enum push_place p = PUSH_READS; p <= PUSH_PUSHES; p++)
        end = push->work.job[p].in_hand > end ? push->work.job[p].in_hand : end;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        const struct push_range *r = &push->ranges.of[k];
        uint64_t own = r->held ? push_set_end(&r->set) : r->read ? push_set_end(&r->read_set) : 0;
        end = own > end ? own : end;
    }
    push->leases.end = end < push->config.tickets ? end : push->config.tickets;
}

/* Is one holding newer than another? A copy is as new as all that was read of the range if it is the newest one; values
 * that are newer show that it is an old one. */
static bool
holding_newer(uint64_t a, uint64_t b)
{
    uint64_t taken_a = a >= HELD ? a - HELD : a - 1, taken_b = b >= HELD ? b - HELD : b - 1;
    if (a == 0 || b == 0 || taken_a == taken_b || (mutant(MUTANT_PUSH_STALE) && a + b > HELD))
        return a > b;
    return taken_a > taken_b;
}

void
push_copy_tell(struct push *push, const struct core *core, unsigned rank, bool question)
{
    struct proto_msg msg = {
        .type = PROTO_HOLDINGS,
        .holdings = {.group_hash = push->group.hash,
                     .answer = question,
                     .in_hand = push->work.forget ? 0 : push->work.job[PUSH_COMPUTES].in_hand,
                     .finished = push->work.to_push ? push->work.job[PUSH_PUSHES].in_hand : 0,
                     .tickets = push->leases.done.floor,
                     .leased = push->leases.end}};

    for (unsigned k = 0; k < push->config.range_count; k++) {
        const struct push_range *r = &push->ranges.of[k];
        const uint64_t said[2] = {push_copy_holding(r), r->held ? r->history : r->read_history};
        for (size_t b = 0; b < HOLDING_SIZE; b++)
            push->body[HOLDING_SIZE * k + b] = (uint8_t)(said[b / 8] >> 8 * (b % 8));
    }
    msg.holdings.check = push_body_check(push->group.hash, 0, msg.holdings.in_hand, push->body,
                                         HOLDING_SIZE * (size_t)push->config.range_count);
    push_group_bulk(core, rank, &msg, push->body, HOLDING_SIZE * (size_t)push->config.range_count);
}

/* Of what a member says, no more than can be. */
static void
raise_end(struct push *push, uint64_t leased)
{
    uint64_t most = push->leases.done.floor + PUSH_WINDOW;
    most = most < push->config.tickets ? most : push->config.tickets;
    leased = leased < most ? leased : most;
    push->leases.end = leased > push->leases.end ? leased : push->leases.end;
}

void
push_copy_on_holdings(struct push *push, const struct core *core, int from,
                      const struct proto_holdings *holdings, const uint8_t *body, size_t size)
{
    int rank = push_group_rank(core, from);
    if (holdings->group_hash != push->group.hash || rank < 0 ||
        size != HOLDING_SIZE * (size_t)push->config.range_count ||
        holdings->check != push_body_check(holdings->group_hash, 0, holdings->in_hand, body, size))
        return;
    if (holdings->answer)
        push_copy_tell(push, core, (unsigned)rank, false);
    if (push->group.told >> rank & 1)
        return;
    push->group.told |= UINT64_C(1) << rank;
    push_set_raise(&push->leases.done, holdings->tickets < push->config.tickets
                                           ? holdings->tickets
                                           : push->config.tickets);
    raise_end(push, holdings->leased);
    if (holdings->finished)
        push_leases_give(&push->leases, (unsigned)rank, holdings->finished - 1, core->awake);
    if (holdings->in_hand)
        push_leases_give(&push->leases, (unsigned)rank, holdings->in_hand - 1, core->awake);
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        uint64_t said[2] = {0, 0};
        for (size_t b = 0; b < HOLDING_SIZE; b++)
            said[b / 8] |= (uint64_t)body[HOLDING_SIZE * k + b] << 8 * (b % 8);
        if (r->backup == (unsigned)rank)
            r->backup_history = said[0] >= HELD ? said[1] : 0;
        if (holding_newer(said[0], r->best_holding)) {
            r->best = (unsigned)rank;
            r->best_holding = said[0];
        }
    }
}

void
push_copy_hold(struct push *push)
{
    struct push_group *group = &push->group;
    if (group->base == group->hash)
        return;
    group->base = group->hash;
    group->base_group = group->now;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        r->base_served = UINT64_C(1) << r->owner | UINT64_C(1) << r->backup;
        r->base_before = r->best_holding ? UINT64_C(1) << r->best : r->base_served;
    }
}

/* --- Giving ----------------------------------------------------------------------------------------- */

/* `model`: it is for the final model; unless the value is whole. */
static void
send_value(struct push *push, const struct core *core, int to, unsigned range, bool model,
           struct proto_value *value)
{
    struct push_range *r = &push->ranges.of[range];
    struct proto_msg msg = {.type = PROTO_VALUE};
    const struct push_size *of = &push->config.size[range];
    const struct push_keeper *keeper = push->config.keeper;
    size_t size = PUSH_SET_SIZE + (value->whole ? of->copy : model ? of->model : of->value);
    assert(r->held);
    push_set_write(&r->set, push->body);
    if (value->whole)
        keeper->copy(push->config.keeper_ctx, range, push->body + PUSH_SET_SIZE);
    else
        keeper->value(push->config.keeper_ctx, range, model, push->body + PUSH_SET_SIZE);
    value->range = (uint16_t)range;
    value->taken = r->taken;
    value->history = r->history;
    value->check = push_body_check(value->group_hash, range, value->number, push->body, size);
    msg.value = *value;
    const struct peer *peer = &core->peers.peers[to];
    if (peer->state == PEER_UP && peer->announced)
        core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)peer->link, &msg, push->body,
                                     size, false);
}

void
push_copy_give(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    struct proto_value value = {.group_hash = push->group.hash, .whole = true};
    r->service = PUSH_COPYING;
    r->asked_at = core->awake;
    int i = peers_find(core, push->group.now.seats[r->backup].node);
    if (i >= 0)
        send_value(push, core, i, range, false, &value);
}

/* Nobody holds the range: it begins with what this node read last, if it has. */
static void
restore_range(struct push *push, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    assert(!r->held);
    r->held = true;
    if (r->read) {
        r->taken = r->read_taken;
        r->history = mix64_pair(r->read_history, RESTORED);
        r->set = r->read_set;
        push->config.keeper->restore(push->config.keeper_ctx, range, r->read_history, r->history);
    } else {
        r->taken = push->config.first;
        r->history = push_first_history(range);
        r->set = (struct push_set){.floor = push->config.first};
        push->config.keeper->initial(push->config.keeper_ctx, range);
    }
    r->hash = push->config.keeper->hash(push->config.keeper_ctx, range);
}

void
push_copy_on_pull(struct push *push, const struct core *core, int from,
                  const struct proto_pull *pull)
{
    int rank = push_group_rank(core, from);
    if (pull->range >= push->config.range_count)
        return;
    struct push_range *r = &push->ranges.of[pull->range];
    struct proto_value value = {
        .group_hash = pull->group_hash, .number = pull->number, .whole = pull->whole};
    if (push->final_hash && pull->group_hash == push->final_hash) {
        value.whole = false;
        if (r->held)
            send_value(push, core, from, pull->range, true, &value);
        return;
    }
    if (pull->group_hash != push->group.hash || rank < 0)
        return;
    if (pull->whole && r->owner == (unsigned)rank && (r->held || r->read)) {
        if (!r->held)
            restore_range(push, pull->range);
        send_value(push, core, from, pull->range, !pull->in_hand, &value);
    } else if (pull->whole && pull->number && r->owner == push->group.rank &&
               r->service == PUSH_SERVING && push_snapshot_exact(&r->set, pull->in_hand)) {
        send_value(push, core, from, pull->range, !pull->in_hand, &value);
    } else if (!pull->whole && r->owner == push->group.rank && r->service == PUSH_SERVING) {
        value.has = pull->in_hand && push_set_has(&r->set, pull->in_hand - 1);
        send_value(push, core, from, pull->range, !pull->in_hand, &value);
    }
}

/* --- Taking over ------------------------------------------------------------------------------------ */

void
push_copy_ask(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    struct proto_msg msg = {
        .type = PROTO_PULL,
        .pull = {.group_hash = push->group.hash, .range = (uint16_t)range, .whole = true}};
    r->service = PUSH_FETCHING;
    r->asked_at = core->awake;
    push_group_send(core, r->best, &msg);
}

/* What was done and is not in the range is lost. False: nothing is. */
static bool
lose(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    uint64_t lost = 0;
    for (uint64_t t = r->set.floor; t < push->leases.done.floor; t++)
        lost += !push_set_has(&r->set, t);
    push_set_raise(&r->set, push->leases.done.floor);
    push->ranges.lost += lost;
    if (lost)
        core_log(core, 3,
                 "push: range %u was only on nodes that are gone: %llu tickets of it are lost",
                 range, (unsigned long long)lost);
    return lost > 0;
}

/* The owner has the newest copy. Has its backup, too? */
static void
have_newest(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    bool lost = lose(push, core, range);
    if (r->backup == r->owner || (r->backup_history == r->history && !lost))
        r->service = PUSH_SERVING;
    else
        push_copy_give(push, core, range);
}

void
push_copy_begin(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    bool here = r->best == push->group.rank || (mutant(MUTANT_PUSH_BACK) && r->held);
    if (!here) {
        push_copy_ask(push, core, range);
        return;
    }
    if (!r->held)
        restore_range(push, range);
    have_newest(push, core, range);
}

static void
adopt_copy(struct push *push, const struct proto_value *value, const uint8_t *body)
{
    struct push_range *r = &push->ranges.of[value->range];
    push_set_read(&r->set, body);
    push->config.keeper->adopt(push->config.keeper_ctx, value->range, body + PUSH_SET_SIZE);
    r->held = true;
    r->taken = value->taken;
    r->history = value->history;
    r->hash = push->config.keeper->hash(push->config.keeper_ctx, value->range);
    push_copy_hold(push);
}

void
push_copy_on_copy(struct push *push, const struct core *core, int from,
                  const struct proto_value *value, const struct core_frame *frame)
{
    int rank = push_group_rank(core, from);
    if (value->group_hash != push->group.hash || rank < 0 || push->work.state >= PUSH_FINISHING ||
        value->range >= push->config.range_count)
        return;
    struct push_range *r = &push->ranges.of[value->range];
    if (value->taken > push->config.tickets ||
        frame->size != PUSH_SET_SIZE + push->config.size[value->range].copy ||
        value->check != push_body_check(value->group_hash, value->range, value->number, frame->data,
                                        frame->size))
        return;
    if (r->owner == push->group.rank && r->service == PUSH_FETCHING && r->best == (unsigned)rank) {
        adopt_copy(push, value, frame->data);
        have_newest(push, core, value->range);
    } else if (r->backup == push->group.rank && r->owner == (unsigned)rank) {
        if (!r->held || value->taken >= r->taken)
            adopt_copy(push, value, frame->data);
        struct proto_msg msg = {.type = PROTO_APPLIED,
                                .applied = {.group_hash = push->group.hash,
                                            .range = value->range,
                                            .taken = r->taken,
                                            .hash = r->hash}};
        push_group_send(core, r->owner, &msg);
    }
}

void
push_copy_keep(struct push *push)
{
    push->ranges.missing = 0;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        r->held = true;
        r->taken = r->read_taken;
        r->history = r->read_history;
        r->set = r->read_set;
        push->ranges.missing += push->config.tickets - r->taken;
        push->config.keeper->restore(push->config.keeper_ctx, k, r->history, r->history);
    }
}

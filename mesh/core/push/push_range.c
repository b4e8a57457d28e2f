/* push_range.c - what an owner does with pushes, and its backup with what the owner sends. See push.h. */
#include "mesh/core/push/push_range.h"

#include <assert.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"

/* --- Pushes that wait ----------------------------------------------------------------------------- */

void
push_range_init(struct push *push)
{
    for (int k = 0; k < PUSH_QUEUE_MAX; k++)
        push->ranges.waiting[k].next = k + 1 < PUSH_QUEUE_MAX ? k + 1 : -1;
    push->ranges.spare = 0;
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->ranges.of[k].first = push->ranges.of[k].last = -1;
}

static void
pop(struct push *push, const struct core *core, struct push_range *r)
{
    int k = r->first;
    assert(k >= 0);
    if (push->ranges.waiting[k].handle)
        core->config.wire->release(core->config.wire_ctx, push->ranges.waiting[k].handle);
    r->first = push->ranges.waiting[k].next;
    if (r->first < 0)
        r->last = -1;
    r->offered = false;
    push->ranges.waiting[k].next = push->ranges.spare;
    push->ranges.spare = k;
}

static bool
already_waits(const struct push *push, const struct push_range *r, unsigned rank, uint64_t ticket)
{
    for (int k = r->first; k >= 0; k = push->ranges.waiting[k].next)
        if (push->ranges.waiting[k].rank == rank && push->ranges.waiting[k].ticket == ticket)
            return true;
    return false;
}

/* --- Taking gradients ----------------------------------------------------------------------------- */

static void
take_gradient(struct push *push, unsigned range, const struct push_waiting *from)
{
    struct push_range *r = &push->ranges.of[range];
    unsigned group = push->config.group;
    bool last = push_set_count(&r->set) + 1 == push->config.tickets;
    struct push_taken taken = {
        .range = range,
        .ticket = from->ticket,
        .number = from->number,
        .who = from->who,
        .count = r->taken,
        .tau = r->taken / group - (from->read < r->taken ? from->read : r->taken) / group,
        .updates = (r->taken + 1) % group == 0 || last,
        .before = r->history,
    };
    taken.after = push_taken_after(&taken);
    push->config.keeper->take(push->config.keeper_ctx, &taken, from->gradient, from->size);
    push_set_add(&r->set, from->ticket);
    r->taken++;
    r->history = taken.after;
    r->hash = push->config.keeper->hash(push->config.keeper_ctx, range);
}

static bool
range_has(const struct push_range *r, uint64_t ticket)
{
    return push_set_has(&r->set, ticket) && !mutant(MUTANT_PUSH_TAKEN);
}

/* The range has what member `rank` pushed. */
static void
answer_push(struct push *push, const struct core *core, unsigned range, unsigned rank,
            uint64_t ticket)
{
    struct push_range *r = &push->ranges.of[range];
    struct proto_msg msg = {.type = PROTO_APPLIED,
                            .applied = {.group_hash = push->group.hash,
                                        .range = (uint16_t)range,
                                        .in_hand = ticket + 1,
                                        .taken = r->taken,
                                        .hash = r->hash}};
    if (rank != push->group.rank) {
        push_group_send(core, rank, &msg);
    } else if (push->work.job[PUSH_PUSHES].in_hand == ticket + 1) {
        push_work_pushed(&push->work, r);
    }
}

/* To the backup, which applies it first. */
static void
offer(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    const struct push_waiting *w = &push->ranges.waiting[r->first];
    struct proto_msg msg = {.type = PROTO_PUSH,
                            .push = {.group_hash = push->group.hash,
                                     .range = (uint16_t)range,
                                     .ticket = w->ticket,
                                     .read = w->read,
                                     .taken = r->taken + 1,
                                     .number = w->number,
                                     .who = w->who}};
    msg.push.check = push_body_check(push->group.hash, range, w->ticket, w->gradient, w->size);
    r->offered = true;
    r->asked_at = core->awake;
    push_group_bulk(core, r->backup, &msg, w->gradient, w->size);
}

static void
take_first(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    const struct push_waiting first = push->ranges.waiting[r->first];
    take_gradient(push, range, &first);
    pop(push, core, r);
    answer_push(push, core, range, first.rank, first.ticket);
}

/* Goes on with what waits, until the backup is waited for. */
static void
serve_waiting(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    while (r->service == PUSH_SERVING && r->first >= 0 && !r->offered) {
        const struct push_waiting first = push->ranges.waiting[r->first];
        if (range_has(r, first.ticket)) {
            pop(push, core, r);
            answer_push(push, core, range, first.rank, first.ticket);
        } else if (r->backup == r->owner || mutant(MUTANT_PUSH_BACKUP)) {
            take_first(push, core, range);
        } else {
            offer(push, core, range);
        }
    }
}

/* A push of a member. Returns the slot where it waits, or -1. */
static int
enter_push(struct push *push, const struct core *core, unsigned range,
           const struct push_waiting *in)
{
    struct push_range *r = &push->ranges.of[range];
    if (r->owner != push->group.rank || r->service != PUSH_SERVING)
        return -1;
    bool newer = in->read > r->taken + mutant(MUTANT_PUSH_NEWER);
    if (newer) { /* it was lost since, and begun from older values; or somebody lies */
        push->work.again |= in->rank == push->group.rank;
        answer_push(push, core, range, in->rank, in->ticket);
    }
    if (newer || in->ticket >= push->config.tickets ||
        (in->ticket >= r->set.floor && in->ticket - r->set.floor >= PUSH_WINDOW)) {
        if (push->ranges.refused++ == 0)
            core_log(core, 4,
                     "push: a gradient for ticket %llu from parameters %llu is refused: "
                     "range %u is at %llu",
                     (unsigned long long)in->ticket, (unsigned long long)in->read, range,
                     (unsigned long long)r->taken);
        return -1;
    }
    if (range_has(r, in->ticket)) {
        answer_push(push, core, range, in->rank, in->ticket);
        return -1;
    }
    if (already_waits(push, r, in->rank, in->ticket) || push->ranges.spare < 0)
        return -1;
    int k = push->ranges.spare;
    push->ranges.spare = push->ranges.waiting[k].next;
    push->ranges.waiting[k] = *in;
    push->ranges.waiting[k].next = -1;
    if (r->last >= 0)
        push->ranges.waiting[r->last].next = k;
    else
        r->first = k;
    r->last = k;
    return k;
}

void
push_range_own(struct push *push, const struct core *core, unsigned range)
{
    struct push_waiting in = {
        .rank = push->group.rank,
        .ticket = push->work.job[PUSH_PUSHES].in_hand - 1,
        .read = push->ranges.of[range].behind_read,
        .number = push->work.job[PUSH_PUSHES].number,
        .who = core->config.self,
    };
    in.gradient = push->config.keeper->gradient(push->config.keeper_ctx, range, &in.size);
    if (enter_push(push, core, range, &in) >= 0)
        serve_waiting(push, core, range);
}

/* From the owner: this node is the backup. */
static void
apply_as_backup(struct push *push, const struct core *core, unsigned rank,
                const struct proto_push *msg, const struct core_frame *frame)
{
    struct push_range *r = &push->ranges.of[msg->range];
    const struct push_waiting in = {.ticket = msg->ticket,
                                    .read = msg->read,
                                    .number = msg->number,
                                    .who = msg->who,
                                    .gradient = frame->data,
                                    .size = frame->size};
    if (r->backup != push->group.rank || r->owner != rank || !r->held)
        return;
    push_copy_hold(push);
    if (msg->taken == r->taken + 1 && !range_has(r, msg->ticket))
        take_gradient(push, msg->range, &in);
    if (msg->taken == r->taken)
        answer_push(push, core, msg->range, rank, msg->ticket);
}

void
push_range_on_push(struct push *push, const struct core *core, int from,
                   const struct proto_push *msg, struct core_frame *frame)
{
    int rank = push_group_rank(core, from);
    if (msg->group_hash != push->group.hash || rank < 0 || push->work.state >= PUSH_FINISHING ||
        msg->ticket >= push->config.tickets || msg->range >= push->config.range_count ||
        frame->size > push->config.size[msg->range].gradient ||
        msg->check !=
            push_body_check(msg->group_hash, msg->range, msg->ticket, frame->data, frame->size))
        return;
    if (msg->taken > 0) {
        apply_as_backup(push, core, (unsigned)rank, msg, frame);
        return;
    }
    const struct push_waiting in = {.rank = (unsigned)rank,
                                    .ticket = msg->ticket,
                                    .read = msg->read,
                                    .number = msg->number,
                                    .who = core->peers.peers[from].node,
                                    .gradient = frame->data,
                                    .size = frame->size,
                                    .handle = frame->handle};
    int k = enter_push(push, core, msg->range, &in);
    if (k < 0)
        return;
    core->config.wire->keep(core->config.wire_ctx, frame);
    push->ranges.waiting[k].handle = frame->handle;
    serve_waiting(push, core, msg->range);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

/* What was not answered: was there something? */
static bool
ask_again(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    if (!awake_reached(core->awake, awake_after(r->asked_at, push->work.again_us)))
        return false;
    if (r->service == PUSH_FETCHING)
        push_copy_ask(push, core, range);
    else if (r->service == PUSH_COPYING)
        push_copy_give(push, core, range);
    else if (r->service == PUSH_SERVING && r->offered)
        offer(push, core, range);
    return r->service != PUSH_SERVING || r->offered;
}

void
push_range_step(struct push *push, const struct core *core)
{
    if (push->group.hash == 0 || push->work.state >= PUSH_FINISHING)
        return;
    if (!push_group_stands(&push->group)) {
        if (!awake_reached(core->awake, awake_after(push->group.told_at, PUSH_AGAIN_US)))
            return;
        push->group.told_at = core->awake;
        for (unsigned r = 0; r < push->group.now.count; r++)
            if (!(push->group.told >> r & 1))
                push_copy_tell(push, core, r, true);
        return;
    }
    push_copy_hold(push);
    bool late = false;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        if (r->owner != push->group.rank)
            continue;
        if (r->service == PUSH_ELSEWHERE)
            push_copy_begin(push, core, k);
        else
            late |= ask_again(push, core, k);
        serve_waiting(push, core, k);
    }
    if (late)
        push_work_slower(&push->work);
}

/* --- Messages ------------------------------------------------------------------------------------- */

/* The backup's bits at the same count are others: it gets a copy of the owner's. */
static void
compare_bits(struct push *push, const struct core *core, const struct proto_applied *applied)
{
    struct push_range *r = &push->ranges.of[applied->range];
    if (r->hash == applied->hash || mutant(MUTANT_PUSH_DIFFER))
        return;
    if (push->ranges.differ++ == 0)
        core_log(core, 3,
                 "push: owner and backup of range %u differ after %llu gradients: memory "
                 "or processor of one of them is broken",
                 applied->range, (unsigned long long)r->taken);
    push_copy_give(push, core, applied->range);
}

void
push_range_on_applied(struct push *push, const struct core *core, int from,
                      const struct proto_applied *applied)
{
    int rank = push_group_rank(core, from);
    struct push_range *r = &push->ranges.of[applied->range];
    if (r->owner != push->group.rank || rank < 0 || r->backup != (unsigned)rank ||
        push->work.state >= PUSH_FINISHING)
        return;
    if (applied->in_hand == 0 && r->service == PUSH_COPYING && applied->taken == r->taken) {
        r->service = PUSH_SERVING;
        compare_bits(push, core, applied);
    } else if (applied->in_hand != 0 && r->offered && applied->taken == r->taken + 1 &&
               push->ranges.waiting[r->first].ticket + 1 == applied->in_hand) {
        take_first(push, core, applied->range);
        compare_bits(push, core, applied);
    }
    serve_waiting(push, core, applied->range);
}

/* --- Groups --------------------------------------------------------------------------------------- */

/* How many ranges each member has, as owner or as backup, and how many it is to have at most. */
struct loads {
    unsigned of[PROTO_PEERS_MAX], most;
};

static unsigned
even_load(const struct push *push)
{
    unsigned serve = 0;
    for (unsigned m = 0; m < push->group.now.count; m++)
        serve += push->group.now.seats[m].serves;
    return serve ? (push->config.range_count + serve - 1) / serve : push->config.range_count;
}

/* The member with the highest weight for a range that is not `but`: one that serves, if there is one, and of these one
 * that has room for it (rendezvous hashing: Thaler and Ravishankar, 1998; with bounded loads: Mirrokni, Thorup and
 * Zadimoghaddam, SODA
 * 2018). */
static unsigned
highest(const struct push *push, unsigned range, unsigned but, struct loads *loads)
{
    unsigned best = but;
    uint64_t most = 0;
    for (unsigned m = 0; m < push->group.now.count; m++) {
        const struct proto_seat *seat = &push->group.now.seats[m];
        bool room = loads->of[m] < loads->most;
        uint64_t weight = mix64_pair(seat->node.id, range) >> 2 | (uint64_t)room << 62 |
                          (uint64_t)seat->serves << 63;
        if (m != but && (best == but || weight > most)) {
            best = m;
            most = weight;
        }
    }
    if (best < PROTO_PEERS_MAX)
        loads->of[best]++;
    return best;
}

void
push_range_assign(struct push *push)
{
    struct loads owners = {.most = even_load(push)}, backups = owners;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        r->owner = r->backup = PROTO_PEERS_MAX;
        if (push->group.hash == 0)
            continue;
        r->owner = highest(push, k, PROTO_PEERS_MAX, &owners);
        r->backup = highest(push, k, r->owner, &backups);
    }
}

void
push_range_group(struct push *push, const struct core *core)
{
    push_leases_clear(&push->leases);
    push_copy_end(push);
    /* Of a ticket above the floor nobody else may know that it is done: who gets it asks the ranges. */
    push->leases.done = (struct push_set){.floor = push->leases.done.floor};
    push_range_assign(push);
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        while (r->first >= 0)
            pop(push, core, r);
        r->service = PUSH_ELSEWHERE;
        /* A copy from before another one owned it: what was read is newer. */
        if (r->held && r->read && r->read_taken > r->taken)
            r->held = mutant(MUTANT_PUSH_STALE);
        if (push->group.hash == 0)
            continue;
        r->best = push->group.rank;
        r->best_holding = push_copy_holding(r);
        r->backup_history = 0;
        r->asked_at = core->awake;
    }
    for (unsigned m = 0; m < push->group.now.count; m++)
        if (m != push->group.rank)
            push_copy_tell(push, core, m, true);
}

void
push_range_forget(struct push *push, const struct core *core)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->ranges.of[k].held = push->ranges.of[k].read = false;
    push->leases.done = (struct push_set){.floor = push->config.first};
    push->leases.end = push->config.first;
    push_range_group(push, core);
}

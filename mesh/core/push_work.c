/* push_work.c - the worker: takes a ticket, pulls, has it computed, pushes; and, at the leader, who gets which ticket. See
 * push.h. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push.h"

static bool
due(const struct push *push, const struct core *core)
{
    return push->asked_at.us == 0 ||
           awake_reached(core->awake, awake_after(push->asked_at, PUSH_AGAIN_US));
}

static void
ask_all(struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->range[k].answered = push->range[k].known = false;
    push->missing = push->config.range_count;
    push->asked_at.us = 0;
}

static void
answered(struct push *push, struct push_range *r)
{
    assert(!r->answered && push->missing > 0);
    r->answered = true;
    push->missing--;
}

/* --- Pulling -------------------------------------------------------------------------------------- */

static void
begin(struct push *push, uint64_t ticket)
{
    push->ticket = ticket;
    push->leased_in = push->group_hash;
    push->finished_ticket = 0;
    push->number++;
    push->again = false;
    push->work = PUSH_PULLING;
    ask_all(push);
}

/* What this node owns. */
static void
read_own(struct push *push, unsigned range)
{
    struct push_range *r = &push->range[range];
    const struct push_trainer *trainer = push->config.trainer;
    trainer->value(push->config.trainer_ctx, range, push->body);
    trainer->read(push->config.trainer_ctx, range, push->body);
    r->read = true;
    r->read_taken = r->taken;
    r->read_history = r->history;
    r->read_set = r->set;
    r->known = push->work == PUSH_PULLING && push_set_has(&r->set, push->ticket);
    answered(push, r);
}

static void
pull(struct push *push, const struct core *core)
{
    bool now = due(push, core);
    struct proto_msg msg = {.type = PROTO_PULL,
                            .pull = {.group_hash = push->source >= 0 ? 0 : push->group_hash,
                                     .number = push->number,
                                     .in_hand = push->work == PUSH_PULLING ? push->ticket + 1 : 0}};
    if (now)
        push->asked_at = core->awake;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        msg.pull.range = (uint16_t)k;
        if (r->answered)
            continue;
        if (push->source >= 0) {
            if (now)
                peers_send(core, push->source, &msg);
        } else if (r->owner != push->rank) {
            if (now)
                push_group_send(push, core, r->owner, &msg);
        } else if (r->stage == PUSH_SERVING) {
            read_own(push, k);
        }
    }
}

void
push_work_on_value(struct push *push, const struct core *core, int from,
                   const struct proto_value *value, const struct core_frame *frame)
{
    bool gathers = push->work == PUSH_GATHERING && push->source == from && value->group_hash == 0;
    bool pulls = (push->work == PUSH_PULLING || push->work == PUSH_GATHERING) && push->source < 0 &&
                 push->group_hash != 0 && value->group_hash == push->group_hash;
    if (!(gathers || pulls) || value->range >= push->config.range_count ||
        value->number != push->number || value->taken > push->config.tickets)
        return;
    struct push_range *r = &push->range[value->range];
    if (r->answered || (pulls && push_group_rank(push, core, from) != (int)r->owner) ||
        frame->size != PUSH_SET_SIZE + push->config.size[value->range].value ||
        value->check != XXH3_64bits_withSeed(
                            frame->data, frame->size,
                            mix64_pair(mix64_pair(value->group_hash, value->range), value->number)))
        return;
    const uint8_t *body = frame->data;
    push_set_read(&r->read_set, body);
    push->config.trainer->read(push->config.trainer_ctx, value->range, body + PUSH_SET_SIZE);
    r->read = true;
    r->read_taken = value->taken;
    r->read_history = value->history;
    r->known = value->has;
    answered(push, r);
}

/* --- Computing ------------------------------------------------------------------------------------ */

static bool
all_known(const struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        if (!push->range[k].known)
            return false;
    return true;
}

static const uint64_t *
histories(struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->history[k] = push->range[k].read_history;
    return push->history;
}

static void
ticket_done(struct push *push)
{
    push->finished_ticket = push->again ? 0 : push->ticket + 1;
    push->work = PUSH_RESTING;
    push->asked_at.us = 0;
}

static void
compute(struct push *push)
{
    if (all_known(push)) {
        ticket_done(push);
        return;
    }
    push->work = PUSH_COMPUTING;
    push->config.trainer->compute(push->config.trainer_ctx, push->ticket, push->number,
                                  histories(push));
}

void
push_work_computed(struct push *push, const struct core *core)
{
    assert(push->work == PUSH_COMPUTING);
    push->computed++;
    push->work = PUSH_PUSHING;
    push->asked_at.us = 0;
    push->missing = 0;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        push->range[k].answered = push->range[k].known;
        push->missing += !push->range[k].known;
    }
    if (push->forget)
        push_work_forget(push);
    (void)core;
}

/* --- Pushing -------------------------------------------------------------------------------------- */

static void
push_to(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->range[range];
    const void *gradient = push->config.trainer->gradient(push->config.trainer_ctx, range);
    size_t size = push->config.size[range].gradient;
    struct proto_msg msg = {.type = PROTO_PUSH,
                            .push = {.group_hash = push->group_hash,
                                     .range = (uint16_t)range,
                                     .ticket = push->ticket,
                                     .read = r->read_taken,
                                     .number = push->number,
                                     .who = core->config.self}};
    msg.push.check = push_body_check(push->group_hash, range, push->ticket, gradient, size);
    push_group_bulk(push, core, r->owner, &msg, gradient, size);
}

static void
push_all(struct push *push, const struct core *core)
{
    bool now = due(push, core);
    if (now)
        push->asked_at = core->awake;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        if (r->answered)
            continue;
        if (r->owner == push->rank)
            push_range_own(push, core, k);
        else if (now)
            push_to(push, core, k);
    }
}

void
push_work_on_applied(struct push *push, const struct core *core, int from,
                     const struct proto_applied *applied)
{
    struct push_range *r = &push->range[applied->range];
    if (push->work != PUSH_PUSHING || applied->in_hand != push->ticket + 1 || r->answered ||
        push_group_rank(push, core, from) != (int)r->owner)
        return;
    push->again |= applied->taken < r->read_taken; /* it was lost and begun from older values */
    answered(push, r);
}

/* --- Leases --------------------------------------------------------------------------------------- */

static void
lease(struct push *push, const struct core *core, unsigned rank)
{
    uint64_t in_hand = push_leases_take(&push->leases, rank);
    struct proto_msg msg = {.type = PROTO_LEASE,
                            .lease = {.group_hash = push->group_hash,
                                      .in_hand = in_hand,
                                      .tickets = push->leases.done.floor}};
    if (rank != push->rank)
        push_group_send(push, core, rank, &msg);
    else if (in_hand && push->work == PUSH_RESTING)
        begin(push, in_hand - 1);
}

/* A member wants a ticket; `in_hand`: it has done this one. */
static void
on_take(struct push *push, const struct core *core, unsigned rank, uint64_t in_hand)
{
    bool more = in_hand && push_leases_done(&push->leases, rank, in_hand - 1);
    lease(push, core, rank);
    for (uint64_t left = more ? push->leases.waiting : 0; left; left &= left - 1)
        lease(push, core, (unsigned)__builtin_ctzll(left));
}

void
push_work_on_take(struct push *push, const struct core *core, int from,
                  const struct proto_take *take)
{
    int rank = push_group_rank(push, core, from);
    if (take->group_hash == push->group_hash && push->leads && push_group_stands(push) && rank >= 0)
        on_take(push, core, (unsigned)rank, take->in_hand);
}

void
push_work_on_lease(struct push *push, const struct core *core, int from,
                   const struct proto_lease *lease)
{
    if (lease->group_hash != push->group_hash ||
        !core_node_equal(push->group.leader, core->peers.peers[from].node))
        return;
    push_set_raise(&push->leases.done,
                   lease->tickets < push->config.tickets ? lease->tickets : push->config.tickets);
    if (push->work == PUSH_RESTING && lease->in_hand && lease->in_hand != push->finished_ticket &&
        lease->in_hand <= push->config.tickets)
        begin(push, lease->in_hand - 1);
}

static unsigned
leader_rank(const struct push *push)
{
    unsigned r = 0;
    while (!core_node_equal(push->group.seats[r].node, push->group.leader))
        r++;
    return r;
}

static void
rest(struct push *push, const struct core *core)
{
    struct proto_msg msg = {
        .type = PROTO_TAKE,
        .take = {.group_hash = push->group_hash, .in_hand = push->finished_ticket}};
    if (!push_group_stands(push) || !due(push, core))
        return;
    push->asked_at = core->awake;
    if (push->leads)
        on_take(push, core, push->rank, push->finished_ticket);
    else
        push_group_send(push, core, leader_rank(push), &msg);
}

/* --- The end -------------------------------------------------------------------------------------- */

/* Whom to take the final model from: a peer that has it, or the owners, as all tickets are done. */
static bool
ends(const struct push *push, const struct core *core, int *source)
{
    *source = -1;
    for (int i = 0; i < core->peers.high; i++)
        if (push_group_finished(push, core, i) &&
            (*source < 0 || push->of[i].said.final_hash > push->of[*source].said.final_hash))
            *source = i;
    if (*source >= 0)
        return true;
    return push->leases.done.floor >= push->config.tickets && push_group_stands(push);
}

static void
gather(struct push *push, const struct core *core)
{
    int source;
    if (!ends(push, core, &source)) {
        push->work = PUSH_RESTING;
        push->source = -1;
        return;
    }
    if (push->work != PUSH_GATHERING || (source != push->source && push->missing > 0)) {
        push->work = PUSH_GATHERING;
        push->source = source;
        push->number++;
        ask_all(push);
    }
    pull(push, core);
    if (push->missing > 0)
        return;
    core_log(core, 7, "push: all %llu tickets are done; the model came from %s",
             (unsigned long long)push->config.tickets,
             push->source < 0 ? "the owners" : "a node that has it");
    push->work = PUSH_FINISHING;
    push->config.trainer->finish(push->config.trainer_ctx, histories(push));
}

void
push_work_finished(struct push *push, uint64_t hash)
{
    push->work = PUSH_FINISHED;
    push->final_hash = hash ? hash : 1;
    if (push->source >=
        0) { /* another part of the mesh was first: what our group does counts no more */
        uint64_t final = push->final_hash;
        push_group_forget(push);
        push->final_hash = final;
    }
    push->source = -1;
    push_set_raise(&push->leases.done, push->config.tickets);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

void
push_work_step(struct push *push, const struct core *core)
{
    int source;
    if (!push->started || push->work == PUSH_COMPUTING || push->work >= PUSH_FINISHING)
        return;
    if (push->work == PUSH_GATHERING ||
        ((push->work == PUSH_RESTING || push->group_hash == 0) && ends(push, core, &source)) ||
        (ends(push, core, &source) && source >= 0)) {
        gather(push, core);
        return;
    }
    if (push->group_hash == 0)
        return;
    if (push->work == PUSH_RESTING)
        rest(push, core);
    if (push->work == PUSH_PULLING) {
        pull(push, core);
        if (push->missing == 0)
            compute(push);
    } else if (push->work == PUSH_PUSHING) {
        push_all(push, core);
        if (push->missing == 0) {
            ticket_done(push);
            rest(push, core);
        }
    }
}

void
push_work_group(struct push *push)
{
    /* What a range of the former group had may be lost with it: all are asked again, and recognise it. */
    ask_all(push);
    push->finished_ticket = 0;
    if (push->work == PUSH_GATHERING)
        push->work = PUSH_RESTING;
    push->source = -1;
}

void
push_work_forget(struct push *push)
{
    push->forget = push->work == PUSH_COMPUTING;
    push->finished_ticket = 0;
    push->source = -1;
    push->asked_at.us = 0;
    if (push->work != PUSH_COMPUTING && push->work != PUSH_FINISHING)
        push->work = PUSH_RESTING;
}

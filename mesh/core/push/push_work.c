/* push_work.c - the worker: takes tickets, reads, has them computed, pushes. See push.h. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push/push.h"

/* Is it time to ask, for the first time or again? Then it is as if it was asked. */
static bool
due(const struct core *core, struct awake *asked_at, uint64_t again_us)
{
    bool now = asked_at->us == 0 || awake_reached(core->awake, awake_after(*asked_at, again_us));
    if (now)
        *asked_at = core->awake;
    return now;
}

bool
push_work_due(struct push *push, const struct core *core, struct awake *asked_at)
{
    bool first = asked_at->us == 0, now = due(core, asked_at, push->again_us);
    if (now && !first)
        push_slower(push);
    return now;
}

static void
drop(struct push_job *job)
{
    job->in_hand = 0;
}

void
push_work_drop_read(struct push *push)
{
    drop(&push->job[PUSH_READS]);
    push->wanted = false;
}

/* --- Reading -------------------------------------------------------------------------------------- */

static void
pull_all(struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->range[k].pulled = push->range[k].known = false;
    push->to_pull = push->config.range_count;
    push->pull_at.us = 0;
}

static void
pulled(struct push *push, struct push_range *r)
{
    assert(!r->pulled && push->to_pull > 0);
    r->pulled = true;
    push->to_pull--;
    push_group_served(push, r);
}

static void
begin(struct push *push, const struct core *core, uint64_t in_hand)
{
    push->job[PUSH_READS] = (struct push_job){in_hand, ++push->number, push->group_hash};
    push->reading = true;
    push_trip_begin(&push->reads, core->now);
    push->wanted = false;
    pull_all(push);
    if (core_mutant(MUTANT_PUSH_EARLY) && push->range[0].read) /* what was read for another one */
        for (unsigned k = 0; k < push->config.range_count; k++)
            pulled(push, &push->range[k]);
}

/* What this node owns. */
static void
read_own(struct push *push, unsigned range)
{
    struct push_range *r = &push->range[range];
    uint64_t in_hand = push->work == PUSH_WORKING ? push->job[PUSH_READS].in_hand : 0;
    push->config.keeper->value(push->config.keeper_ctx, range, push->body);
    push->config.keeper->read(push->config.keeper_ctx, range, push->body);
    r->read = true;
    r->read_taken = r->taken;
    r->read_history = r->history;
    r->read_set = r->set;
    r->known = in_hand && push_set_has(&r->set, in_hand - 1);
    pulled(push, r);
}

static void
pull(struct push *push, const struct core *core)
{
    bool now = push_work_due(push, core, &push->pull_at), works = push->work == PUSH_WORKING;
    struct proto_msg msg = {.type = PROTO_PULL,
                            .pull = {.group_hash = works ? push->group_hash : push->model,
                                     .number = works ? push->job[PUSH_READS].number : push->number,
                                     .in_hand = works ? push->job[PUSH_READS].in_hand : 0}};
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        msg.pull.range = (uint16_t)k;
        if (r->pulled)
            continue;
        if (push->source < 0 && r->owner == push->rank) {
            if (r->stage == PUSH_SERVING)
                read_own(push, k);
        } else if (now && push->source >= 0) {
            peers_send(core, push->source, &msg);
        } else if (now) {
            push_group_send(push, core, r->owner, &msg);
        }
    }
}

/* Is a VALUE from peers[from] what this node asked for? */
static bool
asked(const struct push *push, const struct core *core, int from, const struct proto_value *value)
{
    bool gathers = push->work == PUSH_GATHERING, reads = push->job[PUSH_READS].in_hand != 0;
    if (value->range >= push->config.range_count || push->range[value->range].pulled ||
        value->taken > push->config.tickets)
        return false;
    if (gathers && push->source >= 0)
        return push->source == from && value->group_hash == push->model &&
               value->number == push->number;
    uint64_t number = gathers ? push->number : push->job[PUSH_READS].number;
    return (gathers || (push->work == PUSH_WORKING && reads)) && push->group_hash != 0 &&
           value->group_hash == push->group_hash && value->number == number &&
           push_group_rank(push, core, from) == (int)push->range[value->range].owner;
}

void
push_work_on_value(struct push *push, const struct core *core, int from,
                   const struct proto_value *value, const struct core_frame *frame)
{
    if (!asked(push, core, from, value) ||
        frame->size != PUSH_SET_SIZE + push->config.size[value->range].value ||
        value->check != push_body_check(value->group_hash, value->range, value->number, frame->data,
                                        frame->size))
        return;
    struct push_range *r = &push->range[value->range];
    const uint8_t *body = frame->data;
    push_set_read(&r->read_set, body);
    push->config.keeper->read(push->config.keeper_ctx, value->range, body + PUSH_SET_SIZE);
    r->read = push->source < 0; /* else it is of another history, and nothing to go on from here */
    r->read_taken = value->taken;
    r->read_history = value->history;
    r->known = value->has;
    pulled(push, r);
    push_trip_end(&push->reads, core->now);
    push->pull_at = core->awake;
}

/* --- Computing ------------------------------------------------------------------------------------ */

static const uint64_t *
histories(struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->history[k] = push->range[k].read_history;
    return push->history;
}

/* How many ranges do not have the ticket that it has read for? */
static unsigned
unknown(const struct push *push)
{
    unsigned count = 0;
    for (unsigned k = 0; k < push->config.range_count; k++)
        count += !push->range[k].known;
    return count;
}

static void
move(struct push *push, enum push_place from, enum push_place to)
{
    assert(push->job[from].in_hand && !push->job[to].in_hand);
    push->job[to] = push->job[from];
    drop(&push->job[from]);
    push->take_at.us = 0;
}

static void
compute(struct push *push, const struct core *core)
{
    for (unsigned k = 0; k < push->config.range_count; k++) {
        push->range[k].now_read = push->range[k].read_taken;
        push->range[k].now_known = push->range[k].known;
    }
    move(push, PUSH_READS, PUSH_COMPUTES);
    push->computed = false;
    push->ticket_at = core->now;
    uint64_t ticket = push->job[PUSH_COMPUTES].in_hand - 1;
    push->config.keeper->begin(push->config.keeper_ctx, ticket, push->job[PUSH_COMPUTES].number,
                               histories(push));
    core->config.trainer->compute(core->config.trainer_ctx, &(struct core_task){.round = ticket});
}

void
push_work_computed(struct push *push, const struct core *core)
{
    assert(push->job[PUSH_COMPUTES].in_hand && !push->computed);
    push->computed = true;
    push_mean_learn(&push->ticket, wall_since(core->now, push->ticket_at));
    if (push->forget)
        drop(&push->job[PUSH_COMPUTES]);
    push->forget = false;
}

/* What is read is computed, and what is computed is pushed, when the place is free. */
static void
advance(struct push *push, const struct core *core)
{
    const struct push_job *job = push->job;
    if (job[PUSH_COMPUTES].in_hand && push->computed && !job[PUSH_PUSHES].in_hand) {
        move(push, PUSH_COMPUTES, PUSH_PUSHES);
        push->config.keeper->collect(push->config.keeper_ctx);
        push->again = false;
        push->to_push = 0;
        push->push_at.us = 0;
        push_trip_begin(&push->pushes, core->now);
        for (unsigned k = 0; k < push->config.range_count; k++) {
            struct push_range *r = &push->range[k];
            r->behind_read = r->now_read;
            r->pushed = r->now_known;
            push->to_push += !r->pushed;
        }
    }
    if (!job[PUSH_READS].in_hand || push->to_pull > 0)
        return;
    if (push->reading)
        push->again_us -= (push->again_us - PUSH_AGAIN_US) / 4;
    push->reading = false;
    if (job[PUSH_COMPUTES].in_hand)
        return;
    if (unknown(push) > 0) {
        compute(push, core);
    } else if (!job[PUSH_PUSHES].in_hand) { /* all ranges have it: it is done */
        move(push, PUSH_READS, PUSH_PUSHES);
        push->again = false;
        push->to_push = 0;
        for (unsigned k = 0; k < push->config.range_count; k++)
            push->range[k].pushed = true;
    }
}

/* --- Pushing -------------------------------------------------------------------------------------- */

static void
push_to(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->range[range];
    const struct push_job *job = &push->job[PUSH_PUSHES];
    const void *gradient = push->config.keeper->gradient(push->config.keeper_ctx, range);
    size_t size = push->config.size[range].gradient;
    struct proto_msg msg = {.type = PROTO_PUSH,
                            .push = {.group_hash = push->group_hash,
                                     .range = (uint16_t)range,
                                     .ticket = job->in_hand - 1,
                                     .read = r->behind_read,
                                     .number = job->number,
                                     .who = core->config.self}};
    msg.push.check = push_body_check(push->group_hash, range, job->in_hand - 1, gradient, size);
    push_group_bulk(push, core, r->owner, &msg, gradient, size);
}

static void
push_all(struct push *push, const struct core *core)
{
    bool now = push_work_due(push, core, &push->push_at);
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        if (r->pushed)
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
    uint64_t in_hand = push->job[PUSH_PUSHES].in_hand;
    if (push->work != PUSH_WORKING || in_hand == 0 || applied->in_hand != in_hand || r->pushed ||
        push_group_rank(push, core, from) != (int)r->owner)
        return;
    bool lost = applied->taken < r->behind_read; /* and begun from older values */
    push->again |= lost && !core_mutant(MUTANT_PUSH_KEEP);
    push_work_pushed(push, r);
    push_trip_end(&push->pushes, core->now);
    if (push->to_push > 0)
        push->push_at = core->awake;
}

/* --- Leases ------------------------------------------------------------------------- */

static void
leased(struct push *push, const struct core *core, const struct proto_lease *lease)
{
    if (lease->finished && lease->finished == push->job[PUSH_PUSHES].in_hand && push->to_push == 0)
        drop(&push->job[PUSH_PUSHES]);
    push_set_raise(&push->leases.done,
                   lease->tickets < push->config.tickets ? lease->tickets : push->config.tickets);
    if (lease->got != push->got + 1 || lease->in_hand == 0 || lease->in_hand > push->config.tickets)
        return;
    push->got = lease->got;
    bool reads = push->work == PUSH_WORKING && push->ends != PUSH_ENDS_SAVED;
    if (reads && !push->job[PUSH_READS].in_hand && !push->cut)
        begin(push, core, lease->in_hand);
}

void
push_work_on_lease(struct push *push, const struct core *core, int from,
                   const struct proto_lease *lease)
{
    if (lease->group_hash == push->group_hash && push_group_stands(push) &&
        core_node_equal(push->group.leader, core->peers.peers[from].node))
        leased(push, core, lease);
}

static unsigned
leader_rank(const struct push *push)
{
    unsigned r = 0;
    while (!core_node_equal(push->group.seats[r].node, push->group.leader))
        r++;
    return r;
}

/* Is it time for the next ticket? When all ranges have the last one. */
static bool
wants(struct push *push)
{
    if (push->job[PUSH_READS].in_hand || push->job[PUSH_COMPUTES].in_hand || push->to_push > 0)
        return false;
    if (!push->wanted)
        push->take_at.us = 0;
    return push->wanted = true;
}

/* Tells the leader what is done, and asks for more. */
static void
tell(struct push *push, const struct core *core)
{
    const struct push_job *behind = &push->job[PUSH_PUSHES];
    struct proto_msg msg = {.type = PROTO_TAKE,
                            .take = {.group_hash = push->group_hash,
                                     .finished = push->to_push == 0 ? behind->in_hand : 0,
                                     .again = push->again,
                                     .wants = wants(push),
                                     .leaves = push->ends == PUSH_ENDS,
                                     .got = push->got}};
    const struct proto_take *take = &msg.take;
    if (!(take->finished || take->wants || take->leaves) ||
        !due(core, &push->take_at, PUSH_AGAIN_US))
        return;
    if (!push->leads) {
        push_group_send(push, core, leader_rank(push), &msg);
        return;
    }
    struct proto_lease answer = push_lease_own(push, core, &msg.take);
    leased(push, core, &answer);
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
gather(struct push *push, const struct core *core, int source)
{
    if (push->job[PUSH_COMPUTES].in_hand && !push->computed) /* the trainer is busy */
        return;
    uint64_t model = source < 0 ? push->group_hash : push->of[source].said.final_hash;
    if (push->work != PUSH_GATHERING || source != push->source || model != push->model) {
        push->work = PUSH_GATHERING;
        push->model = model;
        push->cut = 0; /* a copy that comes late would be read over the final model */
        push->source = source;
        push->number++;
        pull_all(push);
    }
    pull(push, core);
    if (push->to_pull > 0)
        return;
    core_log(core, 7, "push: all %llu tickets are done; the model came from %s",
             (unsigned long long)push->config.tickets,
             push->source < 0 ? "the owners" : "a node that has it");
    push->work = PUSH_FINISHING;
    push->config.keeper->end(push->config.keeper_ctx, histories(push));
    core->config.trainer->commit(core->config.trainer_ctx, 0);
}

void
push_work_finished(struct push *push, uint64_t hash)
{
    push->work = PUSH_FINISHED;
    if (push->source >= 0) /* another part of the mesh was first: our group counts no more */
        push_group_forget(push);
    push->final_hash = hash ? hash : 1;
    push->source = -1;
    push_set_raise(&push->leases.done, push->config.tickets);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

void
push_work_step(struct push *push, const struct core *core)
{
    int source;
    if (!push->started || push->work >= PUSH_FINISHING || push->ends == PUSH_ENDS_SAVED)
        return;
    if (ends(push, core, &source)) {
        gather(push, core, source);
        return;
    }
    if (push->work == PUSH_GATHERING) { /* whoever had the model is gone */
        push->work = PUSH_WORKING;
        pull_all(push);
    }
    push->source = -1;
    if (push->group_hash == 0)
        return;
    advance(push, core);
    if (push_group_stands(push))
        tell(push, core);
    if (push->job[PUSH_READS].in_hand)
        pull(push, core);
    if (push->job[PUSH_PUSHES].in_hand)
        push_all(push, core);
    /* what this node owns was answered at once */
    advance(push, core);
    if (push->job[PUSH_PUSHES].in_hand && push->to_push == 0 && push_group_stands(push))
        tell(push, core);
}

void
push_work_group(struct push *push, const struct core *core)
{
    /* What a range of the former group had may be lost with it: all are asked again, and recognise it. */
    drop(&push->job[PUSH_READS]);
    if (push->to_push == 0)
        drop(&push->job[PUSH_PUSHES]);
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->range[k].now_known = push->range[k].pushed &= core_mutant(MUTANT_PUSH_LOST);
    if (push->job[PUSH_PUSHES].in_hand && !core_mutant(MUTANT_PUSH_LOST))
        push->to_push = push->config.range_count;
    for (enum push_place p = PUSH_COMPUTES; push->leads && p <= PUSH_PUSHES; p++)
        if (push->job[p].in_hand && !(p == PUSH_COMPUTES && push->forget))
            push_leases_give(&push->leases, push->rank, push->job[p].in_hand - 1, core->awake);
    push->again = push->wanted = false;
    push->got = 0;
    push->take_at.us = push->push_at.us = 0;
    push->again_us = PUSH_AGAIN_US;
    if (push->work == PUSH_GATHERING)
        push->work = PUSH_WORKING;
    push->source = -1;
}

void
push_work_forget(struct push *push)
{
    push->forget = push->job[PUSH_COMPUTES].in_hand && !push->computed;
    if (!push->forget)
        drop(&push->job[PUSH_COMPUTES]);
    drop(&push->job[PUSH_READS]);
    drop(&push->job[PUSH_PUSHES]);
    push->to_push = 0;
    push->again = push->wanted = false;
    push->got = 0;
    push->source = -1;
    push->take_at.us = 0;
    if (push->work != PUSH_FINISHING)
        push->work = PUSH_WORKING;
}

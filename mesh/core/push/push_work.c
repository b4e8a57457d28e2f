/* push_work.c - the worker: takes tickets, reads, has them computed, pushes. See push.h. */
#include "mesh/core/push/push_work.h"

#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push/push_lease.h"

/* Is it time to ask, for the first time or again? Then it is as if it was asked. */
static bool
ask_due(const struct core *core, struct awake *asked_at, uint64_t again_us)
{
    bool now = asked_at->us == 0 || awake_reached(core->awake, awake_after(*asked_at, again_us));
    if (now)
        *asked_at = core->awake;
    return now;
}

bool
push_work_due(struct push *push, const struct core *core, struct awake *asked_at)
{
    bool first = asked_at->us == 0, now = ask_due(core, asked_at, push->work.again_us);
    if (now && !first)
        push_work_slower(&push->work);
    return now;
}

static void
drop_job(struct push_job *job)
{
    job->in_hand = 0;
}

void
push_work_drop_read(struct push *push)
{
    drop_job(&push->work.job[PUSH_READS]);
    push->work.wanted = false;
}

/* --- Reading -------------------------------------------------------------------------------------- */

static void
pull_all(struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->ranges.of[k].pulled = push->ranges.of[k].known = false;
    push->work.to_pull = push->config.range_count;
    push->work.pull_at.us = 0;
}

/* A range of the present group is served: its owner has the newest copy, and its backup, too. */
static void
mark_served(const struct push_group *group, struct push_range *range)
{
    if (group->base == group->hash)
        range->base_before = range->base_served;
}

static void
pulled(struct push *push, struct push_range *r)
{
    assert(!r->pulled && push->work.to_pull > 0);
    r->pulled = true;
    push->work.to_pull--;
    mark_served(&push->group, r);
}

static void
begin_reading(struct push *push, const struct core *core, uint64_t in_hand)
{
    push->work.job[PUSH_READS] = (struct push_job){in_hand, ++push->work.number, push->group.hash};
    push->work.reading = true;
    push_trip_begin(&push->work.reads, core->now);
    push->work.wanted = false;
    pull_all(push);
    if (mutant(MUTANT_PUSH_EARLY) && push->ranges.of[0].read) /* what was read for another one */
        for (unsigned k = 0; k < push->config.range_count; k++)
            pulled(push, &push->ranges.of[k]);
}

/* What this node owns. */
static void
read_own(struct push *push, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    uint64_t in_hand = push->work.state == PUSH_WORKING ? push->work.job[PUSH_READS].in_hand : 0;
    push->config.keeper->value(push->config.keeper_ctx, range, !in_hand, push->body);
    push->config.keeper->read(push->config.keeper_ctx, range, !in_hand, push->body);
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
    bool now = push_work_due(push, core, &push->work.pull_at),
         works = push->work.state == PUSH_WORKING;
    struct proto_msg msg = {
        .type = PROTO_PULL,
        .pull = {.group_hash = works ? push->group.hash : push->work.model,
                 .number = works ? push->work.job[PUSH_READS].number : push->work.number,
                 .in_hand = works ? push->work.job[PUSH_READS].in_hand : 0}};
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        msg.pull.range = (uint16_t)k;
        if (r->pulled)
            continue;
        if (push->work.source < 0 && r->owner == push->group.rank) {
            if (r->service == PUSH_SERVING)
                read_own(push, k);
        } else if (now && push->work.source >= 0) {
            peers_send(core, push->work.source, &msg);
        } else if (now) {
            push_group_send(core, r->owner, &msg);
        }
    }
}

/* Is a VALUE from peers[from] what this node asked for? */
static bool
asked(const struct push *push, const struct core *core, int from, const struct proto_value *value)
{
    bool gathers = push->work.state == PUSH_GATHERING,
         reads = push->work.job[PUSH_READS].in_hand != 0;
    if (value->range >= push->config.range_count || push->ranges.of[value->range].pulled ||
        value->taken > push->config.tickets)
        return false;
    if (gathers && push->work.source >= 0)
        return push->work.source == from && value->group_hash == push->work.model &&
               value->number == push->work.number;
    uint64_t number = gathers ? push->work.number : push->work.job[PUSH_READS].number;
    return (gathers || (push->work.state == PUSH_WORKING && reads)) && push->group.hash != 0 &&
           value->group_hash == push->group.hash && value->number == number &&
           push_group_rank(core, from) == (int)push->ranges.of[value->range].owner;
}

void
push_work_on_value(struct push *push, const struct core *core, int from,
                   const struct proto_value *value, const struct core_frame *frame)
{
    bool model = push->work.state == PUSH_GATHERING;
    if (!asked(push, core, from, value))
        return;
    const struct push_size *of = &push->config.size[value->range];
    if (frame->size != PUSH_SET_SIZE + (model ? of->model : of->value) ||
        value->check != push_body_check(value->group_hash, value->range, value->number, frame->data,
                                        frame->size))
        return;
    struct push_range *r = &push->ranges.of[value->range];
    const uint8_t *body = frame->data;
    push_set_read(&r->read_set, body);
    push->config.keeper->read(push->config.keeper_ctx, value->range, model, body + PUSH_SET_SIZE);
    r->read = push->work.source < 0; /* else it is of another history: nothing to go on from */
    r->read_taken = value->taken;
    r->read_history = value->history;
    r->known = value->has;
    pulled(push, r);
    push_trip_end(&push->work.reads, core->now);
    push->work.pull_at = core->awake;
}

/* --- Computing ------------------------------------------------------------------------------------ */

static const uint64_t *
histories(struct push *push)
{
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->work.history[k] = push->ranges.of[k].read_history;
    return push->work.history;
}

/* How many ranges do not have the ticket that it has read for? */
static unsigned
ranges_without(const struct push *push)
{
    unsigned count = 0;
    for (unsigned k = 0; k < push->config.range_count; k++)
        count += !push->ranges.of[k].known;
    return count;
}

static void
move_job(struct push *push, enum push_place from, enum push_place to)
{
    assert(push->work.job[from].in_hand && !push->work.job[to].in_hand);
    push->work.job[to] = push->work.job[from];
    drop_job(&push->work.job[from]);
    push->work.take_at.us = 0;
}

static void
compute_ticket(struct push *push, const struct core *core)
{
    for (unsigned k = 0; k < push->config.range_count; k++) {
        push->ranges.of[k].now_read = push->ranges.of[k].read_taken;
        push->ranges.of[k].now_known = push->ranges.of[k].known;
    }
    move_job(push, PUSH_READS, PUSH_COMPUTES);
    push->work.computed = false;
    push->work.ticket_at = core->now;
    uint64_t ticket = push->work.job[PUSH_COMPUTES].in_hand - 1;
    push->config.keeper->begin(push->config.keeper_ctx, ticket,
                               push->work.job[PUSH_COMPUTES].number, histories(push));
    core->config.trainer->compute(core->config.trainer_ctx, &(struct core_task){.round = ticket});
}

void
push_work_computed(struct push *push, const struct core *core)
{
    assert(push->work.job[PUSH_COMPUTES].in_hand && !push->work.computed);
    push->work.computed = true;
    push_mean_learn(&push->work.ticket, wall_since(core->now, push->work.ticket_at));
    if (push->work.forget)
        drop_job(&push->work.job[PUSH_COMPUTES]);
    push->work.forget = false;
}

/* Advances each ticket to the next free place: from read to computed, and from there to pushed. */
static void
advance_jobs(struct push *push, const struct core *core)
{
    const struct push_job *job = push->work.job;
    if (job[PUSH_COMPUTES].in_hand && push->work.computed && !job[PUSH_PUSHES].in_hand) {
        move_job(push, PUSH_COMPUTES, PUSH_PUSHES);
        push->config.keeper->collect(push->config.keeper_ctx);
        push->work.again = false;
        push->work.to_push = 0;
        push->work.push_at.us = 0;
        push_trip_begin(&push->work.pushes, core->now);
        for (unsigned k = 0; k < push->config.range_count; k++) {
            struct push_range *r = &push->ranges.of[k];
            r->behind_read = r->now_read;
            r->pushed = r->now_known;
            push->work.to_push += !r->pushed;
        }
    }
    if (!job[PUSH_READS].in_hand || push->work.to_pull > 0)
        return;
    if (push->work.reading)
        push->work.again_us -= (push->work.again_us - PUSH_AGAIN_US) / 4;
    push->work.reading = false;
    if (job[PUSH_COMPUTES].in_hand)
        return;
    if (ranges_without(push) > 0) {
        compute_ticket(push, core);
    } else if (!job[PUSH_PUSHES].in_hand) { /* all ranges have it: it is done */
        move_job(push, PUSH_READS, PUSH_PUSHES);
        push->work.again = false;
        push->work.to_push = 0;
        for (unsigned k = 0; k < push->config.range_count; k++)
            push->ranges.of[k].pushed = true;
    }
}

/* --- Pushing -------------------------------------------------------------------------------------- */

static void
push_to(struct push *push, const struct core *core, unsigned range)
{
    struct push_range *r = &push->ranges.of[range];
    const struct push_job *job = &push->work.job[PUSH_PUSHES];
    size_t size;
    const void *gradient = push->config.keeper->gradient(push->config.keeper_ctx, range, &size);
    struct proto_msg msg = {.type = PROTO_PUSH,
                            .push = {.group_hash = push->group.hash,
                                     .range = (uint16_t)range,
                                     .ticket = job->in_hand - 1,
                                     .read = r->behind_read,
                                     .number = job->number,
                                     .who = core->config.self}};
    msg.push.check = push_body_check(push->group.hash, range, job->in_hand - 1, gradient, size);
    push_group_bulk(core, r->owner, &msg, gradient, size);
}

static void
push_all(struct push *push, const struct core *core)
{
    bool now = push_work_due(push, core, &push->work.push_at);
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        if (r->pushed)
            continue;
        if (r->owner == push->group.rank)
            push_range_own(push, core, k);
        else if (now)
            push_to(push, core, k);
    }
}

void
push_work_on_applied(struct push *push, const struct core *core, int from,
                     const struct proto_applied *applied)
{
    struct push_range *r = &push->ranges.of[applied->range];
    uint64_t in_hand = push->work.job[PUSH_PUSHES].in_hand;
    if (push->work.state != PUSH_WORKING || in_hand == 0 || applied->in_hand != in_hand ||
        r->pushed || push_group_rank(core, from) != (int)r->owner)
        return;
    bool lost = applied->taken < r->behind_read; /* and begun from older values */
    push->work.again |= lost && !mutant(MUTANT_PUSH_KEEP);
    push_work_pushed(&push->work, r);
    push_trip_end(&push->work.pushes, core->now);
    if (push->work.to_push > 0)
        push->work.push_at = core->awake;
}

/* --- Leases ------------------------------------------------------------------------- */

static void
leased(struct push *push, const struct core *core, const struct proto_lease *lease)
{
    if (lease->finished && lease->finished == push->work.job[PUSH_PUSHES].in_hand &&
        push->work.to_push == 0)
        drop_job(&push->work.job[PUSH_PUSHES]);
    push_set_raise(&push->leases.done,
                   lease->tickets < push->config.tickets ? lease->tickets : push->config.tickets);
    if (lease->got != push->work.got + 1 || lease->in_hand == 0 ||
        lease->in_hand > push->config.tickets)
        return;
    push->work.got = lease->got;
    bool reads = push->work.state == PUSH_WORKING && push->snapshot.ends != PUSH_ENDS_SAVED;
    if (reads && !push->work.job[PUSH_READS].in_hand && !push->snapshot.tickets)
        begin_reading(push, core, lease->in_hand);
}

void
push_work_on_lease(struct push *push, const struct core *core, int from,
                   const struct proto_lease *lease)
{
    if (lease->group_hash == push->group.hash && push_group_stands(&push->group) &&
        proto_node_equal(push->group.now.leader, core->peers.peers[from].node))
        leased(push, core, lease);
}

static unsigned
leader_rank(const struct push *push)
{
    unsigned r = 0;
    while (!proto_node_equal(push->group.now.seats[r].node, push->group.now.leader))
        r++;
    return r;
}

/* Is it time for the next ticket? When all ranges have the last one. */
static bool
wants(struct push *push)
{
    if (push->work.job[PUSH_READS].in_hand || push->work.job[PUSH_COMPUTES].in_hand ||
        push->work.to_push > 0)
        return false;
    if (!push->work.wanted)
        push->work.take_at.us = 0;
    return push->work.wanted = true;
}

/* Tells the leader what is done, and asks for more. */
static void
tell_leader(struct push *push, const struct core *core)
{
    const struct push_job *behind = &push->work.job[PUSH_PUSHES];
    struct proto_msg msg = {.type = PROTO_TAKE,
                            .take = {.group_hash = push->group.hash,
                                     .finished = push->work.to_push == 0 ? behind->in_hand : 0,
                                     .again = push->work.again,
                                     .wants = wants(push),
                                     .leaves = push->snapshot.ends == PUSH_ENDS,
                                     .got = push->work.got}};
    const struct proto_take *take = &msg.take;
    if (!(take->finished || take->wants || take->leaves) ||
        !ask_due(core, &push->work.take_at, PUSH_AGAIN_US))
        return;
    if (!push->group.leads) {
        push_group_send(core, leader_rank(push), &msg);
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
        if (push_group_finished(core, i) &&
            (*source < 0 ||
             push->group.of[i].said.final_hash > push->group.of[*source].said.final_hash))
            *source = i;
    if (*source >= 0)
        return true;
    return push->leases.done.floor >= push->config.tickets && push_group_stands(&push->group);
}

static void
gather_model(struct push *push, const struct core *core, int source)
{
    if (push->work.job[PUSH_COMPUTES].in_hand && !push->work.computed) /* the trainer is busy */
        return;
    uint64_t model = source < 0 ? push->group.hash : push->group.of[source].said.final_hash;
    if (push->work.state != PUSH_GATHERING || source != push->work.source ||
        model != push->work.model) {
        push->work.state = PUSH_GATHERING;
        push->work.model = model;
        push->snapshot.tickets = 0; /* a copy that comes late would be read over the final model */
        push->work.source = source;
        push->work.number++;
        pull_all(push);
    }
    pull(push, core);
    if (push->work.to_pull > 0)
        return;
    core_log(core, 7, "push: all %llu tickets are done; the model came from %s",
             (unsigned long long)push->config.tickets,
             push->work.source < 0 ? "the owners" : "a node that has it");
    push->work.state = PUSH_FINISHING;
    push->config.keeper->end(push->config.keeper_ctx, histories(push));
    core->config.trainer->commit(core->config.trainer_ctx, 0);
}

void
push_work_finished(struct push *push, uint64_t hash)
{
    push->work.state = PUSH_FINISHED;
    if (push->work.source >= 0) /* another part of the mesh was first: our group counts no more */
        push_group_forget(&push->group);
    push->final_hash = hash ? hash : 1;
    push->work.source = -1;
    push_set_raise(&push->leases.done, push->config.tickets);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

void
push_work_step(struct push *push, const struct core *core)
{
    int source;
    if (!push->started || push->work.state >= PUSH_FINISHING ||
        push->snapshot.ends == PUSH_ENDS_SAVED)
        return;
    if (ends(push, core, &source)) {
        gather_model(push, core, source);
        return;
    }
    if (push->work.state == PUSH_GATHERING) { /* whoever had the model is gone */
        push->work.state = PUSH_WORKING;
        pull_all(push);
    }
    push->work.source = -1;
    if (push->group.hash == 0)
        return;
    advance_jobs(push, core);
    if (push_group_stands(&push->group))
        tell_leader(push, core);
    if (push->work.job[PUSH_READS].in_hand)
        pull(push, core);
    if (push->work.job[PUSH_PUSHES].in_hand)
        push_all(push, core);
    /* what this node owns was answered at once */
    advance_jobs(push, core);
    if (push->work.job[PUSH_PUSHES].in_hand && push->work.to_push == 0 &&
        push_group_stands(&push->group))
        tell_leader(push, core);
}

void
push_work_group(struct push *push, const struct core *core)
{
    /* What a range of the former group had may be lost with it: all are asked again, and recognise it. */
    drop_job(&push->work.job[PUSH_READS]);
    if (push->work.to_push == 0)
        drop_job(&push->work.job[PUSH_PUSHES]);
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->ranges.of[k].now_known = push->ranges.of[k].pushed &= mutant(MUTANT_PUSH_LOST);
    if (push->work.job[PUSH_PUSHES].in_hand && !mutant(MUTANT_PUSH_LOST))
        push->work.to_push = push->config.range_count;
    for (enum push_place p = PUSH_COMPUTES; push->group.leads && p <= PUSH_PUSHES; p++)
        if (push->work.job[p].in_hand && !(p == PUSH_COMPUTES && push->work.forget))
            push_leases_give(&push->leases, push->group.rank, push->work.job[p].in_hand - 1,
                             core->awake);
    push->work.again = push->work.wanted = false;
    push->work.got = 0;
    push->work.take_at.us = push->work.push_at.us = 0;
    push->work.again_us = PUSH_AGAIN_US;
    if (push->work.state == PUSH_GATHERING)
        push->work.state = PUSH_WORKING;
    push->work.source = -1;
}

void
push_work_forget(struct push *push)
{
    push->work.forget = push->work.job[PUSH_COMPUTES].in_hand && !push->work.computed;
    if (!push->work.forget)
        drop_job(&push->work.job[PUSH_COMPUTES]);
    drop_job(&push->work.job[PUSH_READS]);
    drop_job(&push->work.job[PUSH_PUSHES]);
    push->work.to_push = 0;
    push->work.again = push->work.wanted = false;
    push->work.got = 0;
    push->work.source = -1;
    push->work.take_at.us = 0;
    if (push->work.state != PUSH_FINISHING)
        push->work.state = PUSH_WORKING;
}

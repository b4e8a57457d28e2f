/* push_cut.c - checkpoints: when all tickets of some steps are done, and nothing else is under way, every member copies all
 * ranges. See push.h. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push/push.h"
#include "proto/mix.h"

/* --- The leader ----------------------------------------------------------------------------------- */

/* Does a member that is told to end wait for a cut? */
static bool
leaves(const struct push *push)
{
    return (push->leave || push->ends == PUSH_ENDS) && !core_mutant(MUTANT_PUSH_DEAF);
}

/* The first ticket of the step before which the next cut is; 0: it is not time for one yet, or the run ends before. No
 * ticket beyond it was leased. */
static uint64_t
next_cut(const struct push *push, const struct core *core)
{
    const struct push_config *config = &push->config;
    uint64_t each = config->save_every * config->per_step, at = push->leases.end;
    bool now = leaves(push);
    if (each == 0 && !now && !awake_save_due(core->awake, push->saved_at, push->cut_us))
        return 0;
    if (each > 0 && !now && (push->saved / each + 1) * each > at)
        at = (push->saved / each + 1) * each;
    at = (at + config->per_step - 1) / config->per_step * config->per_step;
    return at > push->saved && at < config->tickets ? at : 0;
}

/* Does every member have all ranges of the cut? */
static bool
all_saved(const struct push *push, const struct core *core, uint64_t cut)
{
    for (unsigned r = 0; r < push->group.count; r++) {
        int i = r == push->rank ? -1 : peers_find(core, push->group.seats[r].node);
        const struct proto_claim *said = i < 0 ? NULL : &push->of[i].said;
        if (r != push->rank && (!said || !push->of[i].known ||
                                said->group_hash != push->group_hash || said->saved < cut))
            return false;
    }
    return push->saved >= cut;
}

/* The cut is made, or somebody cannot get it. */
static void
release(struct push *push, const struct core *core)
{
    push->cut_us = awake_since(core->awake, push->held_at);
    core_log(core, 7, "push: a cut after %llu tickets, the others waited for %llu us",
             (unsigned long long)push->leases.hold, (unsigned long long)push->cut_us);
    push->saved = push->leases.hold > push->saved ? push->leases.hold : push->saved;
    push->saved_at = push->held_at = core->awake;
    push->cut = 0;
    push->leave = 0; /* who has it all the same asks again */
    push->leases.hold = next_cut(push, core);
    push_lease_more(push, core);
}

static void
lead(struct push *push, const struct core *core)
{
    struct push_leases *leases = &push->leases;
    uint64_t next = !leases->hold || leaves(push) ? next_cut(push, core) : 0;
    if (next && (!leases->hold || next < leases->hold))
        leases->hold = next;
    if (leases->waiting == 0 || leases->hold > leases->end)
        push->held_at = core->awake; /* nobody waits for it yet */
    bool late = awake_reached(core->awake, awake_after(push->held_at, PUSH_CUT_MAX_US));
    if (push_cut_told(push) && (late || all_saved(push, core, leases->hold)))
        release(push, core);
}

/* --- A member ------------------------------------------------------------------------------------- */

/* What the leader wants to be saved; 0: nothing. */
static uint64_t
wanted(const struct push *push, const struct core *core)
{
    if (push->leads)
        return push_cut_told(push);
    int i = peers_find(core, push->group.leader);
    bool says = i >= 0 && push->of[i].known && push->of[i].said.group_hash == push->group_hash;
    return says ? push->of[i].said.cut : 0;
}

/* A range is there. What was read last is as old as it is from now on. */
static void
have(struct push *push, unsigned range, const uint8_t *body, uint64_t taken, uint64_t history)
{
    struct push_range *r = &push->range[range];
    push_set_read(&r->read_set, body);
    r->read = r->cut_here = true;
    r->read_taken = taken;
    r->read_history = history;
    push->config.keeper->save_range(push->config.keeper_ctx, range, body + PUSH_SET_SIZE, taken,
                                    history);
}

static void
have_own(struct push *push, unsigned range)
{
    const struct push_range *r = &push->range[range];
    if (r->stage != PUSH_SERVING || !push_cut_exact(&r->set, push->cut))
        return;
    push_set_write(&r->set, push->body);
    push->config.keeper->copy(push->config.keeper_ctx, range, push->body + PUSH_SET_SIZE);
    have(push, range, push->body, r->taken, r->history);
}

/* Returns how many ranges are missing. */
static unsigned
gather(struct push *push, const struct core *core)
{
    bool now = push_work_due(push, core, &push->pull_at);
    unsigned missing = 0;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        struct proto_msg msg = {.type = PROTO_PULL,
                                .pull = {.group_hash = push->group_hash,
                                         .range = (uint16_t)k,
                                         .number = push->cut_number,
                                         .in_hand = push->cut,
                                         .whole = true}};
        if (!r->cut_here && r->owner == push->rank)
            have_own(push, k);
        else if (!r->cut_here && now)
            push_group_send(push, core, r->owner, &msg);
        missing += !r->cut_here;
    }
    return missing;
}

static void
begin(struct push *push, uint64_t cut)
{
    push->cut = cut;
    push->cut_number = ++push->number;
    push->pull_at.us = 0;
    push_work_drop_read(push); /* it is done: another member was faster */
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->range[k].cut_here = false;
}

/* --- A member that is told to end --------------------------------------------------------------------- */

bool
push_cut_end(struct push *push, const struct core *core)
{
    const struct push_leases *leases = &push->leases;
    bool nothing = push->group_hash == 0 || (push->leads && leases->end <= push->saved);
    if (!push->config.keeper->save || !push->started || push->work >= PUSH_FINISHING || nothing)
        return false;
    push->ends = push->ends ? push->ends : PUSH_ENDS;
    push->ends_at = core->awake;
    push->take_at.us = 0;
    return true;
}

/* Those who have not copied all yet may need this node: it waits until the leader has let the others go on. */
static void
end_in_time(struct push *push, const struct core *core)
{
    bool late = awake_reached(core->awake, awake_after(push->ends_at, PUSH_END_US));
    bool saved = push->ends == PUSH_ENDS_SAVED;
    if (push->ended || !(late || (saved && wanted(push, core) != push->saved)))
        return;
    push->ended = true;
    core->config.trainer->ended(core->config.trainer_ctx, saved);
}

/* Is what this node did on the disk? A checkpoint counts on the journals of all. */
static bool
synced(const struct push *push)
{
    const struct push_keeper *keeper = push->config.keeper;
    return !keeper->synced || keeper->synced(push->config.keeper_ctx);
}

/* --- Steps -------------------------------------------------------------------------------------------- */

void
push_cut_step(struct push *push, const struct core *core)
{
    if (push->ends)
        end_in_time(push, core);
    if (!push->config.keeper->save || push->work != PUSH_WORKING || !push_group_stands(push))
        return;
    if (push->leads)
        lead(push, core);
    uint64_t cut = wanted(push, core);
    if (cut <= push->saved || cut >= push->config.tickets || push->ends == PUSH_ENDS_SAVED) {
        push->cut = 0;
        return;
    }
    bool hangs =
        push->job[PUSH_COMPUTES].in_hand != 0; /* its ticket was leased again: it goes without */
    if (push->cut != cut)
        begin(push, cut);
    if (!hangs && (gather(push, core) > 0 || !synced(push)))
        return;
    if (!hangs)
        push->config.keeper->save(push->config.keeper_ctx, cut);
    if (!hangs && push->ends && !core_mutant(MUTANT_PUSH_BUSY))
        push->ends = PUSH_ENDS_SAVED;
    push->saved = cut;
    push->saved_at = core->awake;
    push->cut = 0;
}

void
push_cut_on_copy(struct push *push, const struct core *core, int from,
                 const struct proto_value *value, const struct core_frame *frame)
{
    if (!push->cut || value->group_hash != push->group_hash ||
        value->range >= push->config.range_count)
        return;
    struct push_range *r = &push->range[value->range];
    struct push_set set;
    if (value->number != push->cut_number || r->cut_here || push->job[PUSH_COMPUTES].in_hand ||
        push_group_rank(push, core, from) != (int)r->owner ||
        frame->size != PUSH_SET_SIZE + push->config.size[value->range].copy ||
        value->check != push_body_check(value->group_hash, value->range, value->number, frame->data,
                                        frame->size))
        return;
    push_set_read(&set, frame->data);
    if (!push_cut_exact(&set, push->cut) || value->taken > push->config.tickets)
        return;
    have(push, value->range, frame->data, value->taken, value->history);
    push->pull_at = core->awake;
}

/* --- Groups, and beginning with a checkpoint -------------------------------------------------------- */

void
push_cut_group(struct push *push)
{
    push->leave = 0;
    push->cut = 0;
}

void
push_cut_forget(struct push *push)
{
    push->cut = 0;
    push->saved = push->config.first;
}

void
push_cut_begin(struct push *push, const struct core *core)
{
    const struct push_saved *saved = push->config.saved;
    const struct push_keeper *keeper = push->config.keeper;
    push->saved_at = core->awake;
    if (!saved)
        return;
    assert(saved->tickets <= push->config.tickets);
    uint64_t base = saved->tickets;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        r->held = true;
        r->taken = saved->taken[k];
        r->history = saved->history[k];
        r->set = (struct push_set){.floor = saved->tickets};
        r->hash = keeper->hash(push->config.keeper_ctx, k);
        base = mix64_pair(base, r->history);
    }
    push->base = push->begun = base ? base : 1;
    push->saved = push->leases.end = saved->tickets;
    push_set_raise(&push->leases.done, saved->tickets);
    push->config.saved = NULL;
}

/* push_snapshot.c - checkpoints: when all tickets of some steps are done, and nothing else is under way, every member
 * copies all ranges. See push.h. */
#include "mesh/core/push/push_snapshot.h"

#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/push/push_lease.h"
#include "proto/mix.h"

/* --- The leader ----------------------------------------------------------------------------------- */

uint64_t
push_snapshot_told(const struct core *core)
{
    const struct push_leases *leases = &core->push.leases;
    bool done = leases->done.floor >= leases->hold || mutant(MUTANT_PUSH_SNAPSHOT);
    return core->push.group.leads && leases->hold && done ? leases->hold : 0;
}

/* Does a member that is told to end wait for a snapshot? */
static bool
leaves(const struct push *push)
{
    return (push->snapshot.leave || push->snapshot.ends == PUSH_ENDS) && !mutant(MUTANT_PUSH_DEAF);
}

/* The first ticket of the step before which the next snapshot is; 0: it is not time for one yet, or the run ends
 * before. No ticket beyond it was leased. */
static uint64_t
next_snapshot(const struct push *push, const struct core *core)
{
    const struct push_config *config = &push->config;
    uint64_t each = config->save_every * config->per_step, at = push->leases.end;
    bool now = leaves(push);
    if (each == 0 && !now &&
        !awake_save_due(core->awake, push->snapshot.saved_at, push->snapshot.us))
        return 0;
    if (each > 0 && !now && (push->snapshot.saved / each + 1) * each > at)
        at = (push->snapshot.saved / each + 1) * each;
    at = (at + config->per_step - 1) / config->per_step * config->per_step;
    return at > push->snapshot.saved && at < config->tickets ? at : 0;
}

/* Does every member have all ranges of the snapshot? */
static bool
all_have_saved(const struct push *push, const struct core *core, uint64_t snapshot)
{
    for (unsigned r = 0; r < push->group.now.count; r++) {
        int i = r == push->group.rank ? -1 : peers_find(core, push->group.now.seats[r].node);
        const struct proto_claim *said = i < 0 ? NULL : &push->group.of[i].said;
        if (r != push->group.rank &&
            (!said || !push->group.of[i].known || said->group_hash != push->group.hash ||
             said->saved < snapshot))
            return false;
    }
    return push->snapshot.saved >= snapshot;
}

/* The snapshot is made, or somebody cannot get it. */
static void
release_tickets(struct push *push, const struct core *core)
{
    push->snapshot.us = awake_since(core->awake, push->snapshot.held_at);
    core_log(core, 7, "push: a snapshot after %llu tickets, the others waited for %llu us",
             (unsigned long long)push->leases.hold, (unsigned long long)push->snapshot.us);
    push->snapshot.saved =
        push->leases.hold > push->snapshot.saved ? push->leases.hold : push->snapshot.saved;
    push->snapshot.saved_at = push->snapshot.held_at = core->awake;
    push->snapshot.tickets = 0;
    push->snapshot.leave = 0; /* who has it all the same asks again */
    push->leases.hold = next_snapshot(push, core);
    push_lease_more(push, core);
}

static void
lead_snapshot(struct push *push, const struct core *core)
{
    struct push_leases *leases = &push->leases;
    uint64_t next = !leases->hold || leaves(push) ? next_snapshot(push, core) : 0;
    if (next && (!leases->hold || next < leases->hold))
        leases->hold = next;
    if (leases->waiting == 0 || leases->hold > leases->end)
        push->snapshot.held_at = core->awake; /* nobody waits for it yet */
    bool late =
        awake_reached(core->awake, awake_after(push->snapshot.held_at, PUSH_SNAPSHOT_MAX_US));
    if (push_snapshot_told(core) && (late || all_have_saved(push, core, leases->hold)))
        release_tickets(push, core);
}

/* --- A member ------------------------------------------------------------------------------------- */

/* What the leader wants to be saved; 0: nothing. */
static uint64_t
snapshot_wanted(const struct push *push, const struct core *core)
{
    if (push->group.leads)
        return push_snapshot_told(core);
    int i = peers_find(core, push->group.now.leader);
    bool says =
        i >= 0 && push->group.of[i].known && push->group.of[i].said.group_hash == push->group.hash;
    return says ? push->group.of[i].said.snapshot : 0;
}

/* The copy of a range has come. It also becomes what was read last. */
static void
have_copy(struct push *push, unsigned range, const uint8_t *body, uint64_t taken, uint64_t history)
{
    struct push_range *r = &push->ranges.of[range];
    push_set_read(&r->read_set, body);
    r->read = r->copied = true;
    r->read_taken = taken;
    r->read_history = history;
    push->config.keeper->save_range(push->config.keeper_ctx, range, body + PUSH_SET_SIZE, taken,
                                    history);
}

static void
have_own(struct push *push, unsigned range)
{
    const struct push_range *r = &push->ranges.of[range];
    if (r->service != PUSH_SERVING || !push_snapshot_exact(&r->set, push->snapshot.tickets))
        return;
    push_set_write(&r->set, push->body);
    push->config.keeper->copy(push->config.keeper_ctx, range, push->body + PUSH_SET_SIZE);
    have_copy(push, range, push->body, r->taken, r->history);
}

/* Returns how many ranges are missing. */
static unsigned
gather_copies(struct push *push, const struct core *core)
{
    bool now = push_work_due(push, core, &push->work.pull_at);
    unsigned missing = 0;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        struct proto_msg msg = {.type = PROTO_PULL,
                                .pull = {.group_hash = push->group.hash,
                                         .range = (uint16_t)k,
                                         .number = push->snapshot.number,
                                         .in_hand = push->snapshot.tickets,
                                         .whole = true}};
        if (!r->copied && r->owner == push->group.rank)
            have_own(push, k);
        else if (!r->copied && now)
            push_group_send(core, r->owner, &msg);
        missing += !r->copied;
    }
    return missing;
}

static void
begin_snapshot(struct push *push, uint64_t snapshot)
{
    push->snapshot.tickets = snapshot;
    push->snapshot.number = ++push->work.number;
    push->work.pull_at.us = 0;
    push_work_drop_read(push); /* it is done: another member was faster */
    for (unsigned k = 0; k < push->config.range_count; k++)
        push->ranges.of[k].copied = false;
}

/* --- A member that is told to end --------------------------------------------------------------------- */

bool
push_snapshot_end(struct push *push, const struct core *core)
{
    const struct push_leases *leases = &push->leases;
    uint64_t wanted = snapshot_wanted(push, core);
    /* the others still copy it */
    bool has_it = wanted > 0 && wanted == push->snapshot.saved && !mutant(MUTANT_PUSH_LEAVES);
    bool nothing = push->group.leads && leases->end <= push->snapshot.saved && !has_it;
    if (!push->config.keeper->save || !push->started || push->work.state >= PUSH_FINISHING ||
        push->group.hash == 0 || nothing)
        return false;
    if (!push->snapshot.ends)
        push->snapshot.ends = has_it ? PUSH_ENDS_SAVED : PUSH_ENDS;
    push->snapshot.ends_at = core->awake;
    push->work.take_at.us = 0;
    return true;
}

/* Those who have not copied all yet may need this node: it waits until the leader has let the others go on. Who has
 * forgotten what it held has nothing to save, and nobody needs it. */
static void
end_in_time(struct push *push, const struct core *core)
{
    bool late = awake_reached(core->awake, awake_after(push->snapshot.ends_at, PUSH_END_US));
    bool saved = push->snapshot.ends == PUSH_ENDS_SAVED;
    bool over = snapshot_wanted(push, core) != push->snapshot.saved;
    bool released = saved && (over || mutant(MUTANT_PUSH_ENDS));
    if (push->snapshot.ended || !(late || released || push->group.hash == 0))
        return;
    push->snapshot.ended = true;
    core->config.trainer->ended(core->config.trainer_ctx, saved);
}

/* Is what this node did on the disk? A checkpoint counts on the journals of all. */
static bool
journal_synced(const struct push *push)
{
    const struct push_keeper *keeper = push->config.keeper;
    return !keeper->synced || keeper->synced(push->config.keeper_ctx);
}

/* --- Steps -------------------------------------------------------------------------------------------- */

void
push_snapshot_step(struct push *push, const struct core *core)
{
    if (push->snapshot.ends)
        end_in_time(push, core);
    if (!push->config.keeper->save || push->work.state != PUSH_WORKING ||
        !push_group_stands(&push->group))
        return;
    if (push->group.leads)
        lead_snapshot(push, core);
    uint64_t snapshot = snapshot_wanted(push, core);
    if (snapshot <= push->snapshot.saved || snapshot >= push->config.tickets ||
        push->snapshot.ends == PUSH_ENDS_SAVED) {
        push->snapshot.tickets = 0;
        return;
    }
    bool hangs = push->work.job[PUSH_COMPUTES].in_hand; /* its ticket was leased again: without */
    if (push->snapshot.tickets != snapshot)
        begin_snapshot(push, snapshot);
    if (!hangs && (gather_copies(push, core) > 0 || !journal_synced(push)))
        return;
    if (!hangs)
        push->config.keeper->save(push->config.keeper_ctx, snapshot);
    if (!hangs && push->snapshot.ends && !mutant(MUTANT_PUSH_BUSY))
        push->snapshot.ends = PUSH_ENDS_SAVED;
    push->snapshot.saved = snapshot;
    push->snapshot.saved_at = core->awake;
    push->snapshot.tickets = 0;
}

void
push_snapshot_on_copy(struct push *push, const struct core *core, int from,
                      const struct proto_value *value, const struct core_frame *frame)
{
    if (!push->snapshot.tickets || value->group_hash != push->group.hash ||
        value->range >= push->config.range_count)
        return;
    struct push_range *r = &push->ranges.of[value->range];
    struct push_set set;
    if (value->number != push->snapshot.number || r->copied ||
        push->work.job[PUSH_COMPUTES].in_hand || push_group_rank(core, from) != (int)r->owner ||
        frame->size != PUSH_SET_SIZE + push->config.size[value->range].copy ||
        value->check != push_body_check(value->group_hash, value->range, value->number, frame->data,
                                        frame->size))
        return;
    push_set_read(&set, frame->data);
    if (!push_snapshot_exact(&set, push->snapshot.tickets) || value->taken > push->config.tickets)
        return;
    have_copy(push, value->range, frame->data, value->taken, value->history);
    push->work.pull_at = core->awake;
}

/* --- Groups, and beginning with a checkpoint -------------------------------------------------------- */

void
push_snapshot_group(struct push *push)
{
    push->snapshot.leave = 0;
    push->snapshot.tickets = 0;
}

void
push_snapshot_forget(struct push *push)
{
    push->snapshot.tickets = 0;
    push->snapshot.saved = push->config.first;
}

void
push_snapshot_begin(struct push *push, const struct core *core)
{
    const struct push_saved *saved = push->config.saved;
    const struct push_keeper *keeper = push->config.keeper;
    push->snapshot.saved_at = core->awake;
    if (!saved)
        return;
    assert(saved->tickets <= push->config.tickets);
    uint64_t base = saved->tickets;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->ranges.of[k];
        r->held = true;
        r->taken = saved->taken[k];
        r->history = saved->history[k];
        r->set = (struct push_set){.floor = saved->tickets};
        r->hash = keeper->hash(push->config.keeper_ctx, k);
        base = mix64_pair(base, r->history);
    }
    push->group.base = push->group.begun = base ? base : 1;
    push->snapshot.saved = push->leases.end = saved->tickets;
    push_set_raise(&push->leases.done, saved->tickets);
    push->config.saved = NULL;
}

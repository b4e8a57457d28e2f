/* push_group.c - who belongs together: claims, the leader's choice, and which of two histories stays. See push.h.
 *
 * A node's *standing* is the group that it took up last, and its base: the group whose ranges it holds. Base is set when
 * everybody in a group has told what it holds, for nothing is served before. So two nodes have one history if they took
 * up the same group, or hold ranges of the same one, or one holds those of the group that the other took up. A node
 * without a base holds nothing and goes with everybody. */
#include <assert.h>

#include "mesh/core/group/group.h"
#include "mesh/core/internal.h"
#include "mesh/core/push/push.h"
#include "proto/mix.h"

struct standing {
    uint64_t group, base;
};

/* --- Questions ------------------------------------------------------------------------------------ */

static int
seat_of(const struct proto_group *group, struct proto_node node)
{
    for (size_t r = 0; r < group->count; r++)
        if (core_node_equal(group->seats[r].node, node))
            return (int)r;
    return -1;
}

int
push_group_rank(const struct push *push, const struct core *core, int i)
{
    return seat_of(&push->group, group_node(core, i));
}

/* What a member told us of what it holds may come before the claim that it is in our group. */
static struct standing
standing_of(const struct push *push, const struct core *core, int i)
{
    if (i < 0)
        return (struct standing){push->group_hash, push->base};
    struct standing its = {push->of[i].said.group_hash, push->of[i].said.base};
    int rank = push_group_rank(push, core, i);
    if (rank >= 0 && (push->told >> rank & 1) && push->of[i].said.counter < push->group.counter)
        its.group = push->group_hash;
    return its;
}

static bool
one_history(struct standing a, struct standing b)
{
    if (a.base == 0 || b.base == 0)
        return true;
    bool same_group = a.group == b.group && a.group != 0;
    return a.base == b.base || same_group || a.base == b.group || a.group == b.base;
}

static bool
counts(const struct push *push, const struct core *core, int i)
{
    return view_usable(core, i) && push->of[i].known;
}

bool
push_group_finished(const struct push *push, const struct core *core, int i)
{
    return counts(push, core, i) && push->of[i].said.final_hash != 0;
}

/* Was peers[i] with this node when it got what it holds? */
static bool
was_with(const struct push *push, const struct core *core, int i)
{
    return seat_of(&push->base_group, group_node(core, i)) >= 0;
}

/* Did peers[i], of this node's group, say that it took up a later one? Perhaps GROUP, with a seat for this node, comes. */
static bool
went_on(const struct push *push, const struct core *core, int i)
{
    return push->of[i].known && push_group_rank(push, core, i) >= 0 &&
           push->of[i].said.counter > push->group.counter;
}

/* Does somebody who was with this node hold what was served in a group without it, and leads peers[i] them? */
static bool
went_on_with(const struct push *push, const struct core *core, int i)
{
    uint64_t base = push->of[i].said.base;
    if (push->base == 0 || base == 0 || push_group_was_in(push, base))
        return false;
    for (int j = 0; j < core->peers.high; j++)
        if (counts(push, core, j) && push->of[j].said.base == base && was_with(push, core, j))
            return true;
    return false;
}

/* --- Sending -------------------------------------------------------------------------------------- */

void
push_group_send(const struct push *push, const struct core *core, unsigned rank,
                const struct proto_msg *msg)
{
    assert(rank < push->group.count && rank != push->rank);
    int i = peers_find(core, push->group.seats[rank].node);
    if (i >= 0)
        peers_send(core, i, msg);
}

void
push_group_bulk(const struct push *push, const struct core *core, unsigned rank,
                const struct proto_msg *msg, const void *body, size_t size)
{
    assert(rank < push->group.count && rank != push->rank);
    int i = peers_find(core, push->group.seats[rank].node);
    if (i >= 0 && core->peers.peers[i].announced)
        core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)core->peers.peers[i].link,
                                     msg, body, size, false);
}

/* --- Choosing ------------------------------------------------------------------------------------- */

/* Has peers[i] another history than a chosen one? */
static bool
parts(const struct push *push, const struct core *core, const struct group_choice *choice, int i)
{
    for (size_t k = 0; k < choice->count; k++)
        if (!one_history(standing_of(push, core, choice->peer[k]), standing_of(push, core, i)))
            return true;
    return false;
}

/* Bitmap of the peers that may be chosen: members of the present group, or others. */
static uint64_t
wanted(const struct push *push, const struct core *core, bool members)
{
    uint64_t all = 0;
    for (int i = 0; i < core->peers.high; i++) {
        bool may = counts(push, core, i) && push->of[i].said.final_hash == 0;
        all |= (uint64_t)(may && (push_group_rank(push, core, i) >= 0) == members) << i;
    }
    return all;
}

/* Members first: a node that has just come, and whom not all hear yet, puts nobody out. */
static void
choose_members(const struct push *push, const struct core *core, struct group_choice *choice)
{
    *choice = (struct group_choice){.count = 1, .peer = {-1}};
    for (int pass = 0; pass < 2; pass++) {
        uint64_t id = 0, of = wanted(push, core, pass == 0);
        for (int i; (i = group_next(core, of, id)) >= 0; id = group_node(core, i).id)
            if (group_hears(core, choice->peer, choice->count, i) && !parts(push, core, choice, i))
                group_add(core, choice, i);
    }
}

/* The lowest id of those that hold something; if nobody does, the lowest id. */
static bool
leads(const struct push *push, const struct core *core, const struct group_choice *choice)
{
    for (size_t k = 0; k < choice->count; k++)
        if (standing_of(push, core, choice->peer[k]).base != 0)
            return choice->peer[k] < 0;
    return choice->peer[0] < 0;
}

/* Somebody who holds something will let this node in, which holds nothing. */
static bool
invited(const struct push *push, const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (counts(push, core, i) && push->of[i].said.base != 0)
            return push->base == 0;
    return false;
}

static bool
gathered(const struct push *push, const struct core *core, const struct group_choice *choice)
{
    size_t here =
        choice->count; /* who hear one another, and those whom no group can have with them */
    for (int i = 0; i < core->peers.high; i++)
        here += counts(push, core, i) && parts(push, core, choice, i);
    if (push->base == 0 && push->forgot_at.us &&
        !awake_reached(core->awake, awake_after(push->forgot_at, PUSH_LEAVE_US)))
        return false; /* those whose history stays will let it in */
    return push->groups > 0 || group_gathered(core, here);
}

/* --- Making a group ------------------------------------------------------------------------------- */

static void
take_up(struct push *push, const struct core *core, const struct proto_group *group)
{
    push->group = *group;
    push->group_hash = proto_group_hash(group);
    push->counter = group->counter;
    push->leads = core_node_equal(group->leader, core->config.self);
    push->rank = (unsigned)seat_of(group, core->config.self);
    push->told = UINT64_C(1) << push->rank;
    /* Who holds nothing knows of no ticket of these nodes. */
    if (group->base == 0 || push->base == 0)
        push->leases.done = (struct push_set){.floor = push->config.first};
    push->grouped_at = push->told_at = push->tell_at = core->awake;
    push->left_out_at.us = 0;
    push->past[push->groups % PUSH_PAST] = push->group_hash;
    if (awake_reached(core->awake, push->elect_at))
        push->elect_at = awake_after(core->awake, PUSH_ELECT_US);
    push->groups++;
    push->shared += group->count > 1;
    core_log(core, 7, "push: group %llu of %zu", (unsigned long long)group->counter, group->count);
}

static uint64_t
next_counter(const struct push *push, const struct core *core)
{
    uint64_t counter = push->counter;
    for (int i = 0; i < core->peers.high; i++)
        if (counts(push, core, i) && push->of[i].said.counter > counter)
            counter = push->of[i].said.counter;
    return counter + 1;
}

static void
propose(struct push *push, const struct core *core, const struct group_choice *choice)
{
    struct proto_msg msg = {.type = PROTO_GROUP,
                            .group = {.counter = next_counter(push, core),
                                      .leader = core->config.self,
                                      .parent = push->group_hash,
                                      .base = push->base,
                                      .count = choice->count}};
    for (size_t k = 0; k < choice->count; k++)
        msg.group.seats[k].node = group_node(core, choice->peer[k]);
    push_elect(push, core, &msg.group);
    take_up(push, core, &msg.group);
    for (unsigned r = 0; r < push->group.count; r++)
        if (r != push->rank)
            push_group_send(push, core, r, &msg);
}

/* Those who have not told anything yet may not have had the message. */
static void
propose_again(struct push *push, const struct core *core)
{
    struct proto_msg msg = {.type = PROTO_GROUP, .group = push->group};
    if (!push->leads || push_group_stands(push) ||
        !awake_reached(core->awake, awake_after(push->tell_at, PUSH_AGAIN_US)))
        return;
    push->tell_at = core->awake;
    for (unsigned r = 0; r < push->group.count; r++)
        if (!(push->told >> r & 1))
            push_group_send(push, core, r, &msg);
}

/* What is different from the present group: nothing; somebody came, or a member is in another group; a member is gone; or
 * one is left out that still has a session, since it does not hear another one, or has another history. */
enum change { NONE, CAME, GONE, LEFT_OUT };

static enum change
change_of(const struct push *push, const struct core *core, const struct group_choice *choice)
{
    size_t same = 0;
    bool moved = false, gone = push->group_hash == 0;
    for (size_t k = 0; k < choice->count; k++) {
        int i = choice->peer[k], rank = push_group_rank(push, core, i);
        same += rank >= 0;
        moved |= i >= 0 && rank >= 0 && push->of[i].said.counter >= push->group.counter &&
                 push->of[i].said.group_hash != push->group_hash;
    }
    for (size_t r = 0; r < push->group.count; r++) {
        int i = r == push->rank ? -1 : peers_find(core, push->group.seats[r].node);
        if (r == push->rank || (i >= 0 && group_has(choice->peer, choice->count, i)))
            continue;
        if (i >= 0 && !core->view.of[i].suspected)
            return LEFT_OUT;
        gone = true;
    }
    return gone ? GONE : same < choice->count || moved ? CAME : NONE;
}

/* Would a range be lost with those who are not chosen, which may still come back? Who forgot what it held is lost, too. */
static bool
loses(const struct push *push, const struct core *core, const struct group_choice *choice)
{
    uint64_t stay = 0, there = 0;
    for (unsigned r = 0; r < push->base_group.count; r++) {
        struct proto_node node = push->base_group.seats[r].node;
        int i = peers_find(core, node);
        bool self = core_node_equal(node, core->config.self);
        there |= (uint64_t)(i >= 0) << r;
        bool holds = i >= 0 && group_has(choice->peer, choice->count, i) &&
                     standing_of(push, core, i).base != 0;
        stay |= (uint64_t)(self || holds) << r;
    }
    return push->base && push_elect_loses(push, stay, there) && !core_mutant(MUTANT_PUSH_HASTY);
}

/* Have those whom this node is about to leave out gone on without it? If it is alone, and sees a node of another history,
 * it is the one who is late. */
static bool
left_behind(const struct push *push, const struct core *core, const struct group_choice *choice)
{
    bool alone = choice->count == 1 && push->groups > 0;
    for (int i = 0; i < core->peers.high; i++)
        if (!group_has(choice->peer, choice->count, i) &&
            (went_on(push, core, i) ||
             (alone && counts(push, core, i) && parts(push, core, choice, i))))
            return true;
    return false;
}

/* A change that may pass by itself waits: what nodes say of one another is some time old, and who is silent may only be
 * starved. The longer, the more it costs. */
static bool
waits(struct push *push, const struct core *core, const struct group_choice *choice,
      enum change change)
{
    bool fewer = change == GONE || change == LEFT_OUT;
    bool late = fewer && left_behind(push, core, choice);
    bool costly = fewer && loses(push, core, choice);
    uint64_t most = late ? PUSH_BEHIND_US : costly ? PUSH_LOSE_US : PUSH_LEAVE_US;
    if (change != LEFT_OUT && !late && !costly)
        push->left_out_at.us = 0;
    else if (push->left_out_at.us == 0 || most > push->left_out_us)
        push->left_out_at = core->awake;
    push->left_out_us = most;
    if (push->left_out_at.us)
        return !awake_reached(core->awake, awake_after(push->left_out_at, most));
    return change == CAME &&
           !awake_reached(core->awake, awake_after(push->grouped_at, PUSH_JOIN_US));
}

static enum push_verdict
lead(struct push *push, const struct core *core)
{
    struct group_choice choice;
    choose_members(push, core, &choice);
    if (!leads(push, core, &choice) || invited(push, core) || !gathered(push, core, &choice)) {
        push->left_out_at.us = 0;
        return PUSH_AS_BEFORE;
    }
    enum change change = change_of(push, core, &choice);
    if (waits(push, core, &choice, change) || (change == NONE && !push_elect_due(push, core))) {
        propose_again(push, core);
        return PUSH_AS_BEFORE;
    }
    propose(push, core, &choice);
    return PUSH_REGROUPED;
}

/* --- Which history stays -------------------------------------------------------------------------- */

/* Is the history of the group that peers[i] leads to stay rather than that of this node? Of two that have gone on from
 * one group, one without the other, the one that has; else the one with more tickets done. That is judged when it has been
 * so for a while: a leader that was stopped claims to lead until it has read what its members said meanwhile. */
enum yields { STAYS, MAY_YIELD, YIELDS };

static enum yields
yields_to(const struct push *push, const struct core *core, int i)
{
    const struct proto_claim *said = &push->of[i].said;
    uint64_t ours = push_set_count(&push->leases.done);
    if (!counts(push, core, i) || !said->leads || said->base == 0 || said->final_hash != 0 ||
        one_history(standing_of(push, core, -1), standing_of(push, core, i)) ||
        push_group_was_in(push, said->base))
        return STAYS;
    if (went_on_with(push, core, i))
        return YIELDS;
    bool lower = core->peers.peers[i].node.id < core->config.self.id;
    return said->tickets + lower > ours ? MAY_YIELD : STAYS;
}

static enum yields
yields(const struct push *push, const struct core *core)
{
    bool decides = push->leads || (push->group_hash == 0 && push->base != 0);
    enum yields most = STAYS;
    for (int i = 0; i < core->peers.high; i++)
        decides |= went_on(push, core, i);
    for (int i = 0; i < core->peers.high; i++) {
        bool finished = push->final_hash && push_group_finished(push, core, i);
        if (finished && push->of[i].said.final_hash > push->final_hash)
            return YIELDS;
        enum yields one = decides && !push->final_hash ? yields_to(push, core, i) : STAYS;
        most = one > most ? one : most;
    }
    return most;
}

static bool
yields_now(struct push *push, const struct core *core)
{
    enum yields now = yields(push, core);
    if (now != MAY_YIELD)
        push->yields_at.us = 0;
    else if (push->yields_at.us == 0)
        push->yields_at = core->awake;
    return now == YIELDS ||
           (now == MAY_YIELD && awake_since(core->awake, push->yields_at) >= PUSH_SETTLE_US);
}

enum push_verdict
push_group_step(struct push *push, const struct core *core)
{
    if (yields_now(push, core)) {
        core_log(core, 4,
                 "the nodes were separated; the other group got further, so this node "
                 "continues from its model: what it did meanwhile does not count");
        push->forgot_at = core->awake;
        return PUSH_FORGET;
    }
    for (int i = 0; i < core->peers.high; i++)
        if (push_group_finished(push, core, i))
            return PUSH_AS_BEFORE; /* all that is left to do is to take its model */
    return push->final_hash || push->work >= PUSH_FINISHING ? PUSH_AS_BEFORE : lead(push, core);
}

void
push_group_forget(struct push *push)
{
    push->group = (struct proto_group){.count = 0};
    push->group_hash = push->base = push->told = push->final_hash = 0;
    push->leads = false;
}

/* --- Messages ------------------------------------------------------------------------------------- */

enum push_verdict
push_group_on_group(struct push *push, const struct core *core, int from,
                    const struct proto_group *group)
{
    const struct standing its = {group->parent, group->base};
    if (seat_of(group, core->config.self) < 0 || !push->started || push->final_hash ||
        push->work >= PUSH_FINISHING ||
        !core_node_equal(group->leader, core->peers.peers[from].node) ||
        group->counter <= push->counter || group->counter > PUSH_COUNTER_MAX)
        return PUSH_AS_BEFORE;
    if (push->base != 0 && (its.base == 0 || !one_history(standing_of(push, core, -1), its)))
        return PUSH_AS_BEFORE;
    take_up(push, core, group);
    return PUSH_REGROUPED;
}

enum push_verdict
push_group_on_claim(struct push *push, const struct core *core, int from,
                    const struct proto_claim *claim)
{
    struct push_claim *of = &push->of[from];
    if ((of->known && claim->number <= of->said.number) || claim->counter > PUSH_COUNTER_MAX)
        return PUSH_AS_BEFORE;
    *of = (struct push_claim){true, *claim};
    bool leader = push->group_hash && core_node_equal(push->group.leader, group_node(core, from));
    if (leader && claim->group_hash == push->group_hash && claim->tickets == push->config.tickets)
        push_set_raise(&push->leases.done, claim->tickets);
    bool forgot = claim->group_hash == 0 && claim->base == 0 && claim->counter >= push->counter;
    forgot = forgot && !core_mutant(MUTANT_PUSH_FORGOT);
    return leader && forgot && !push->final_hash ? PUSH_FORGET : PUSH_AS_BEFORE;
}

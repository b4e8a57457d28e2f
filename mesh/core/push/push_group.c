/* push_group.c - see push_group.h. */
#include "mesh/core/push/push_group.h"

#include <assert.h>

#include "mesh/core/group/group.h"
#include "mesh/core/internal.h"
#include "proto/mix.h"

struct standing {
    uint64_t group, base;
};

/* --- Questions ------------------------------------------------------------------------------------ */

static int
seat_of(const struct proto_group *group, struct proto_node node)
{
    for (size_t r = 0; r < group->count; r++)
        if (proto_node_equal(group->seats[r].node, node))
            return (int)r;
    return -1;
}

int
push_group_rank(const struct core *core, int i)
{
    return seat_of(&core->push.group.now, group_node(core, i));
}

/* Was peers[i] with this node when it got what it holds? */
static bool
was_with(const struct core *core, int i)
{
    return seat_of(&core->push.group.base_group, group_node(core, i)) >= 0;
}

/* Was this node in that group after it got what it holds? Then it told there what that is. */
static bool
told_in(const struct push_group *group, uint64_t hash)
{
    for (uint64_t k = 1; group->base && k <= group->groups && k <= PUSH_PAST; k++) {
        uint64_t past = group->past[(group->groups - k) % PUSH_PAST];
        if (past == group->base)
            return false;
        if (past == hash)
            return true;
    }
    return false;
}

/* The group whose ranges peers[i] holds, as this node sees it. Nothing is served before all have told: who told in the
 * group whose ranges this node holds, and holds what it did then, counts as one who holds them, too. So does who holds
 * what a group served in which this node told. */
static uint64_t
base_of(const struct core *core, int i, uint64_t base)
{
    const struct push_group *group = &core->push.group;
    const struct proto_claim *said = &group->of[i].said;
    bool told_us =
        was_with(core, i) && said->base == base && said->base_counter < group->base_group.counter;
    return base && (told_us || told_in(group, base)) ? group->base : base;
}

/* What a member told us of what it holds may come before the claim that it is in our group. */
static struct standing
standing_of(const struct core *core, int i)
{
    const struct push_group *group = &core->push.group;
    if (i < 0)
        return (struct standing){group->hash, group->base};
    struct standing its = {group->of[i].said.group_hash, base_of(core, i, group->of[i].said.base)};
    int rank = push_group_rank(core, i);
    if (rank >= 0 && (group->told >> rank & 1) && group->of[i].said.counter < group->now.counter)
        its.group = group->hash;
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
counts(const struct core *core, int i)
{
    return view_usable(core, i) && core->push.group.of[i].known;
}

bool
push_group_finished(const struct core *core, int i)
{
    return counts(core, i) && core->push.group.of[i].said.final_hash != 0;
}

/* Did peers[i], of this node's group, say that it took up a later one? Perhaps GROUP, with a seat for this node,
 * comes. */
static bool
went_on(const struct core *core, int i)
{
    const struct push_group *group = &core->push.group;
    return group->of[i].known && push_group_rank(core, i) >= 0 &&
           group->of[i].said.counter > group->now.counter;
}

/* Does somebody who was with this node hold what a later group served, without it, and leads peers[i] them? */
static bool
went_on_with(const struct core *core, int i)
{
    const struct push *push = &core->push;
    uint64_t base = push->group.of[i].said.base;
    if (push->group.of[i].said.base_counter <= push->group.base_group.counter)
        return false;
    for (int j = 0; j < core->peers.high; j++)
        if (counts(core, j) && push->group.of[j].said.base == base && was_with(core, j))
            return true;
    return false;
}

/* --- Sending -------------------------------------------------------------------------------------- */

void
push_group_send(const struct core *core, unsigned rank, const struct proto_msg *msg)
{
    const struct push_group *group = &core->push.group;
    assert(rank < group->now.count && rank != group->rank);
    int i = peers_find(core, group->now.seats[rank].node);
    if (i >= 0)
        peers_send(core, i, msg);
}

void
push_group_bulk(const struct core *core, unsigned rank, const struct proto_msg *msg,
                const void *body, size_t size)
{
    const struct push_group *group = &core->push.group;
    assert(rank < group->now.count && rank != group->rank);
    int i = peers_find(core, group->now.seats[rank].node);
    if (i >= 0 && core->peers.peers[i].announced)
        peers_send_bulk(core, i, msg, body, size);
}

/* --- How long tickets take -------------------------------------------------------------------------- */

uint64_t
push_group_ticket_us(const struct core *core, bool self, int i)
{
    const struct push *push = &core->push;
    if (self)
        return push->work.ticket.us;
    return i >= 0 && push->group.of[i].known ? push->group.of[i].said.compute_us : 0;
}

uint64_t
push_group_line_us(const struct core *core, bool self, int i)
{
    const struct push *push = &core->push;
    if (self)
        return push->work.reads.mean.us + push->work.pushes.mean.us;
    return i >= 0 && push->group.of[i].known ? push->group.of[i].said.line_us : 0;
}

/* --- Who serves -----------------------------------------------------------------------------------
 *
 * A worker reads every range and pushes to every one, so the slowest owner has all wait. Who is on a slow line, or
 * takes much longer for a ticket than the fastest member on another one, is elected last. */

enum {
    SLOW_IN =
        2, /* a member that owns nothing is slow if its tickets take more than twice as long, */
    SLOW_OUT = 3, /* and one that owns ranges, if three times: a small difference changes nothing */
    SLOW_LINE_US = 5000, /* a line is slow if it costs so much beside that */
};

/* Does it own ranges, or may it in its first group? */
static bool
has_served(const struct push *push, struct proto_node node)
{
    for (unsigned r = 0; r < push->group.now.count; r++)
        if (proto_node_equal(push->group.now.seats[r].node, node))
            return push->group.now.seats[r].serves;
    return true;
}

static uint64_t
fastest(const uint64_t *us, size_t count)
{
    uint64_t least = 0;
    for (size_t m = 0; m < count; m++)
        if (us[m] && (least == 0 || us[m] < least))
            least = us[m];
    return least;
}

/* Is the time of a member much above the least one? 0: nobody knows, so no. */
static bool
slow(const struct push *push, struct proto_node node, uint64_t us, uint64_t least)
{
    return us > (has_served(push, node) ? SLOW_OUT : SLOW_IN) * least;
}

/* Bitmap of ranks. One on a fast line is never slow: of those the fastest. */
static uint64_t
slow_ones(const struct core *core, const struct proto_group *group)
{
    const struct push *push = &core->push;
    uint64_t line[PROTO_PEERS_MAX], ticket[PROTO_PEERS_MAX], all = 0;
    for (size_t m = 0; m < group->count; m++) {
        bool self = proto_node_equal(group->seats[m].node, core->config.self);
        int i = peers_find(core, group->seats[m].node);
        line[m] = push_group_line_us(core, self, i);
        ticket[m] = push_group_ticket_us(core, self, i);
    }
    uint64_t least = fastest(line, group->count);
    for (size_t m = 0; m < group->count; m++) {
        if (line[m] <= least + SLOW_LINE_US || !slow(push, group->seats[m].node, line[m], least))
            continue;
        all |= UINT64_C(1) << m;
        ticket[m] = 0;
    }
    least = fastest(ticket, group->count);
    for (size_t m = 0; m < group->count; m++)
        all |= (uint64_t)slow(push, group->seats[m].node, ticket[m], least) << m;
    return all;
}

/* The first ones in an order by hash, so that few change when a member comes or goes; slow ones behind all others. */
void
push_group_elect(const struct core *core, struct proto_group *group)
{
    uint64_t order[PROTO_PEERS_MAX], bad = slow_ones(core, group);
    size_t most = 0;
    for (size_t m = 0; m < group->count; m++) {
        bool good = !(bad >> m & 1);
        order[m] = mix64(group->seats[m].node.id) >> 1 | (uint64_t)good << 63;
        most += good;
    }
    assert(group->count == 0 || most > 0);
    most = core->push.config.servers ? core->push.config.servers : most;
    for (size_t a = 0; a < group->count; a++) {
        size_t before = 0;
        for (size_t b = 0; b < group->count; b++)
            before += order[b] > order[a];
        group->seats[a].serves = before < most;
    }
}

/* Now and then the leader looks whether others are to own the ranges. */
static bool
elect_due(struct push_group *group, const struct core *core)
{
    const struct push *push = &core->push;
    if (!group->leads || !push_group_stands(group) || push->work.state != PUSH_WORKING ||
        push->leases.hold || !awake_reached(core->awake, group->elect_at))
        return false;
    struct proto_group other = group->now;
    push_group_elect(core, &other);
    bool same = proto_group_hash(&other) == group->hash;
    group->elect_at = awake_after(core->awake, same ? PUSH_ELECT_US : PUSH_ELECT_AGAIN_US);
    return !same;
}

/* Does a range lose all who have its newest copy, while one of them may still come back? `stay` and `there` are bitmaps
 * of ranks of the base group: who stays, and who has a session. Newest: of the group that served it last. */
static bool
last_copies_go(const struct push *push, uint64_t stay, uint64_t there)
{
    for (unsigned k = 0; k < push->config.range_count; k++) {
        uint64_t before = push->ranges.of[k].base_before, served = push->ranges.of[k].base_served;
        if ((!(before & stay) && (before & there)) || (!(served & stay) && (served & there)))
            return true;
    }
    return false;
}

/* --- Choosing ------------------------------------------------------------------------------------- */

/* Has peers[i] another history than a chosen one? */
static bool
other_history(const struct core *core, const struct group_choice *choice, int i)
{
    for (size_t k = 0; k < choice->count; k++)
        if (!one_history(standing_of(core, choice->peer[k]), standing_of(core, i)))
            return true;
    return false;
}

/* Bitmap of the peers that may be chosen: members of the present group, or others. */
static uint64_t
may_be_chosen(const struct core *core, bool members)
{
    uint64_t all = 0;
    for (int i = 0; i < core->peers.high; i++) {
        bool may = counts(core, i) && core->push.group.of[i].said.final_hash == 0;
        all |= (uint64_t)(may && (push_group_rank(core, i) >= 0) == members) << i;
    }
    return all;
}

/* Members first: a node that has just come, and whom not all hear yet, puts nobody out. */
static void
choose_members(const struct core *core, struct group_choice *choice)
{
    *choice = (struct group_choice){.count = 1, .peer = {-1}};
    for (int pass = 0; pass < 2; pass++) {
        uint64_t id = 0, of = may_be_chosen(core, pass == 0);
        for (int i; (i = group_next(core, choice, of, id)) >= 0; id = group_node(core, i).id)
            if (!other_history(core, choice, i))
                group_add(core, choice, i);
    }
}

/* The lowest id of those that hold something; if nobody does, the lowest id. */
static bool
leads(const struct core *core, const struct group_choice *choice)
{
    for (size_t k = 0; k < choice->count; k++)
        if (standing_of(core, choice->peer[k]).base != 0)
            return choice->peer[k] < 0;
    return choice->peer[0] < 0;
}

/* Somebody who holds something will let this node in, which holds nothing. */
static bool
invited(const struct core *core)
{
    const struct push_group *group = &core->push.group;
    for (int i = 0; i < core->peers.high; i++)
        if (counts(core, i) && group->of[i].said.base != 0)
            return group->base == 0;
    return false;
}

static bool
just_forgot(const struct push_group *group, const struct core *core)
{
    return group->base == 0 && group->forgot_at.us &&
           !awake_reached(core->awake, awake_after(group->forgot_at, PUSH_LEAVE_US));
}

static bool
all_gathered(const struct core *core, const struct group_choice *choice)
{
    const struct push_group *group = &core->push.group;
    size_t here = choice->count; /* and those whom no group can have with them */
    for (int i = 0; i < core->peers.high; i++)
        here += counts(core, i) && other_history(core, choice, i);
    if (just_forgot(group, core))
        return false; /* those whose history stays will let it in */
    return group->groups > 0 || group_gathered(core, here);
}

/* --- Making a group ------------------------------------------------------------------------------- */

/* Was somebody in the group before who is not in this one? */
static bool
lacks_one(const struct proto_group *now, const struct proto_group *before)
{
    for (size_t k = 0; k < before->count; k++)
        if (seat_of(now, before->seats[k].node) < 0)
            return true;
    return false;
}

static void
take_up(struct push_group *group, const struct core *core, const struct proto_group *now)
{
    if (group->base == 0 && now->base != 0)
        group->apart = UINT64_MAX;
    else if (group->groups == 0 || lacks_one(now, &group->now))
        group->apart = push_set_count(&core->push.leases.done);
    group->now = *now;
    group->hash = proto_group_hash(now);
    group->counter = now->counter;
    group->leads = proto_node_equal(now->leader, core->config.self);
    group->rank = (unsigned)seat_of(now, core->config.self);
    group->told = UINT64_C(1) << group->rank;
    group->grouped_at = group->told_at = group->tell_at = core->awake;
    group->left_out_at.us = 0;
    group->past[group->groups % PUSH_PAST] = group->hash;
    if (awake_reached(core->awake, group->elect_at))
        group->elect_at = awake_after(core->awake, PUSH_ELECT_US);
    group->groups++;
    group->shared += now->count > 1;
    core_log(core, 7, "push: group %llu of %zu", (unsigned long long)now->counter, now->count);
}

static uint64_t
next_counter(const struct core *core)
{
    const struct push_group *group = &core->push.group;
    uint64_t counter = group->counter;
    for (int i = 0; i < core->peers.high; i++)
        if (counts(core, i) && group->of[i].said.counter > counter)
            counter = group->of[i].said.counter;
    return counter + 1;
}

static void
propose_group(struct push_group *group, const struct core *core, const struct group_choice *choice)
{
    struct proto_msg msg = {.type = PROTO_GROUP,
                            .group = {.counter = next_counter(core),
                                      .leader = core->config.self,
                                      .parent = group->hash,
                                      .base = group->base,
                                      .count = choice->count}};
    for (size_t k = 0; k < choice->count; k++)
        msg.group.seats[k].node = group_node(core, choice->peer[k]);
    push_group_elect(core, &msg.group);
    take_up(group, core, &msg.group);
    for (unsigned r = 0; r < group->now.count; r++)
        if (r != group->rank)
            push_group_send(core, r, &msg);
}

/* Those who have not told anything yet may not have had the message. Only the leader of the group can send it again,
 * though another node may be the one to make the next group. */
static void
propose_again(struct push_group *group, const struct core *core)
{
    struct proto_msg msg = {.type = PROTO_GROUP, .group = group->now};
    if (!group->leads || push_group_stands(group) ||
        !awake_reached(core->awake, awake_after(group->tell_at, PUSH_AGAIN_US)))
        return;
    group->tell_at = core->awake;
    for (unsigned r = 0; r < group->now.count; r++)
        if (!(group->told >> r & 1))
            push_group_send(core, r, &msg);
}

/* What is different from the present group: nothing; somebody came, or a member is in another group; a member is gone;
 * or one is left out that still has a session, since it does not hear another one, or has another history. */
enum change { NONE, CAME, GONE, LEFT_OUT };

static enum change
change_of(const struct core *core, const struct group_choice *choice)
{
    const struct push_group *group = &core->push.group;
    size_t same = 0;
    bool moved = false, gone = group->hash == 0;
    for (size_t k = 0; k < choice->count; k++) {
        int i = choice->peer[k], rank = push_group_rank(core, i);
        same += rank >= 0;
        moved |= i >= 0 && rank >= 0 && group->of[i].said.counter >= group->now.counter &&
                 group->of[i].said.group_hash != group->hash;
    }
    for (size_t r = 0; r < group->now.count; r++) {
        int i = r == group->rank ? -1 : peers_find(core, group->now.seats[r].node);
        if (r == group->rank || (i >= 0 && group_has(choice->peer, choice->count, i)))
            continue;
        if (i >= 0 && !core->view.of[i].suspected)
            return LEFT_OUT;
        gone = true;
    }
    return gone ? GONE : same < choice->count || moved ? CAME : NONE;
}

/* Would a range be lost with those who are not chosen, which may still come back? Who forgot what it held is lost,
 * too. */
static bool
loses(const struct core *core, const struct group_choice *choice)
{
    const struct push *push = &core->push;
    uint64_t stay = 0, there = 0;
    for (unsigned r = 0; r < push->group.base_group.count; r++) {
        struct proto_node node = push->group.base_group.seats[r].node;
        int i = peers_find(core, node);
        bool self = proto_node_equal(node, core->config.self);
        there |= (uint64_t)(i >= 0) << r;
        bool holds =
            i >= 0 && group_has(choice->peer, choice->count, i) && standing_of(core, i).base != 0;
        stay |= (uint64_t)(self || holds) << r;
    }
    return push->group.base && last_copies_go(push, stay, there) && !mutant(MUTANT_PUSH_HASTY);
}

/* Have those whom this node is about to leave out gone on without it? If it is alone, and sees a node of another
 * history, it is the one who is late. */
static bool
left_behind(const struct core *core, const struct group_choice *choice)
{
    bool alone = choice->count == 1 && core->push.group.groups > 0;
    for (int i = 0; i < core->peers.high; i++)
        if (!group_has(choice->peer, choice->count, i) &&
            (went_on(core, i) || (alone && counts(core, i) && other_history(core, choice, i))))
            return true;
    return false;
}

/* A change that may pass by itself waits: what nodes say of one another is some time old, and who is silent may only be
 * starved. The longer, the more it costs. */
static bool
change_waits(struct push_group *group, const struct core *core, const struct group_choice *choice,
             enum change change)
{
    bool fewer = change == GONE || change == LEFT_OUT;
    bool late = fewer && left_behind(core, choice);
    bool costly = fewer && loses(core, choice);
    uint64_t most = late ? PUSH_BEHIND_US : costly ? PUSH_LOSE_US : PUSH_LEAVE_US;
    if (change != LEFT_OUT && !late && !costly)
        group->left_out_at.us = 0;
    else if (group->left_out_at.us == 0 || most > group->left_out_us)
        group->left_out_at = core->awake;
    group->left_out_us = most;
    if (group->left_out_at.us)
        return !awake_reached(core->awake, awake_after(group->left_out_at, most));
    /* Who came would begin with tickets that this node alone has, and takes with it when it ends. */
    return change == CAME &&
           (core->push.snapshot.ends == PUSH_ENDS_SAVED ||
            !awake_reached(core->awake, awake_after(group->grouped_at, PUSH_JOIN_US)));
}

/* Is this node to make a group of these now? */
static bool
group_due(struct push_group *group, const struct core *core, const struct group_choice *choice)
{
    if (!leads(core, choice) || invited(core) || !all_gathered(core, choice)) {
        group->left_out_at.us = 0;
        return false;
    }
    enum change change = change_of(core, choice);
    return !change_waits(group, core, choice, change) &&
           (change != NONE || elect_due(group, core)) && group_all_fresh(core, choice);
}

static enum push_verdict
lead_group(struct push_group *group, const struct core *core)
{
    struct group_choice choice;
    choose_members(core, &choice);
    if (group_due(group, core, &choice)) {
        propose_group(group, core, &choice);
        return PUSH_REGROUPED;
    }
    propose_again(group, core);
    return PUSH_AS_BEFORE;
}

/* --- Which history stays -------------------------------------------------------------------------- */

/* Is the history of the group that peers[i] leads to stay rather than that of this node? Of two that have gone on from
 * one group, one without the other, the one that has; else the one with more tickets done. That is judged when it has
 * been so for a while: a leader that was stopped claims to lead until it has read what its members said meanwhile. Only
 * who `decides` for its group compares tickets: a member knows of fewer than its leader does, and forgets when that one
 * does. */
enum yields { STAYS, MAY_YIELD, YIELDS };

static enum yields
yields_to(const struct core *core, int i, bool decides)
{
    const struct push *push = &core->push;
    const struct proto_claim *said = &push->group.of[i].said;
    uint64_t ours = push_set_count(&push->leases.done);
    if (!counts(core, i) || !said->leads || said->base == 0 || said->final_hash != 0 ||
        one_history(standing_of(core, -1), standing_of(core, i)) ||
        push_group_was_in(&push->group, said->base))
        return STAYS;
    if (went_on_with(core, i))
        return YIELDS;
    bool lower = core->peers.peers[i].node.id < core->config.self.id;
    return decides && said->tickets + lower > ours ? MAY_YIELD : STAYS;
}

static enum yields
yields(const struct core *core)
{
    const struct push *push = &core->push;
    bool decides = push->group.leads || (push->group.hash == 0 && push->group.base != 0);
    bool looks = decides;
    enum yields most = STAYS;
    for (int i = 0; i < core->peers.high; i++)
        looks |= went_on(core, i);
    for (int i = 0; i < core->peers.high; i++) {
        bool finished = push->final_hash && push_group_finished(core, i);
        if (finished && push->group.of[i].said.final_hash > push->final_hash)
            return YIELDS;
        enum yields one = looks && !push->final_hash ? yields_to(core, i, decides) : STAYS;
        most = one > most ? one : most;
    }
    return most;
}

/* Tickets are done, and nobody in the group ever had one of the ranges: who did them was alone, and is lost before
 * others got its ranges. None of these has computed anything, as who computes reads all ranges. All members see the
 * same, for all have told. */
static bool
nothing_came(const struct push_group *group, const struct core *core)
{
    const struct push *push = &core->push;
    if (!push_group_stands(group) || group->base == group->hash || group->now.base == 0 ||
        push->work.state >= PUSH_FINISHING || push->leases.done.floor == push->config.first)
        return false;
    for (unsigned k = 0; k < push->config.range_count; k++)
        if (push->ranges.of[k].best_holding == 0)
            return true;
    return false;
}

static bool
yields_now(struct push_group *group, const struct core *core)
{
    enum yields now = yields(core);
    if (now != MAY_YIELD)
        group->yields_at.us = 0;
    else if (group->yields_at.us == 0)
        group->yields_at = core->awake;
    return now == YIELDS ||
           (now == MAY_YIELD && awake_since(core->awake, group->yields_at) >= PUSH_SETTLE_US);
}

static enum push_verdict
yield_history(struct push_group *group, const struct core *core)
{
    group->forgot_at = core->awake;
    return PUSH_FORGET;
}

/* At least so many tickets of this node's group are not in the other one. None are, as far as is known, when those who
 * were with this node went on while it was stopped. */
static uint64_t
lost_tickets(const struct push_group *group, const struct core *core)
{
    uint64_t done = push_set_count(&core->push.leases.done);
    for (int i = 0; i < core->peers.high; i++)
        if (counts(core, i) && went_on_with(core, i))
            return 0;
    return done > group->apart ? done - group->apart : 0;
}

/* Who comes from an older checkpoint, and has done nothing since, loses nothing. */
static void
tell_yields(const struct push_group *group, const struct core *core)
{
    unsigned long long lost = lost_tickets(group, core);
    if (lost)
        core_log(core, 4,
                 "the nodes were separated; the other group got further, so this node continues "
                 "from its model: at least %llu %s computed here meanwhile %s not count",
                 lost, lost == 1 ? "gradient that was" : "gradients that were",
                 lost == 1 ? "does" : "do");
    else
        core_log(core, 6, "another node has a newer model: this node continues from that");
}

enum push_verdict
push_group_step(struct push_group *group, const struct core *core)
{
    const struct push *push = &core->push;
    if (yields_now(group, core)) {
        tell_yields(group, core);
        return yield_history(group, core);
    }
    if (nothing_came(group, core)) {
        core_log(
            core, 4,
            "push: the nodes that did the first %llu tickets are gone, and no other node has got "
            "a copy of every range: these tickets are computed again",
            (unsigned long long)push->leases.done.floor);
        return yield_history(group, core);
    }
    /* All that is left to do is to take its model, though this node may have been starved, and is not heard yet. */
    for (int i = 0; i < core->peers.high; i++)
        if (!core->view.of[i].suspected && group->of[i].known && group->of[i].said.final_hash)
            return PUSH_AS_BEFORE;
    return push->final_hash || push->work.state >= PUSH_FINISHING ? PUSH_AS_BEFORE
                                                                  : lead_group(group, core);
}

bool
push_group_all_done(const struct core *core, int i)
{
    const struct push_group *group = &core->push.group;
    const struct proto_claim *said = &group->of[i].said;
    return group->of[i].known && group->hash && said->group_hash == group->hash &&
           proto_node_equal(group->now.leader, group_node(core, i)) &&
           said->tickets == core->push.config.tickets;
}

void
push_group_forget(struct push_group *group)
{
    group->now = group->base_group = (struct proto_group){.count = 0};
    group->hash = group->base = group->told = 0;
    group->leads = false;
}

/* --- Messages ------------------------------------------------------------------------------------- */

enum push_verdict
push_group_on_group(struct push_group *group, const struct core *core, int from,
                    const struct proto_group *msg)
{
    const struct push *push = &core->push;
    const struct standing its = {msg->parent, base_of(core, from, msg->base)};
    if (seat_of(msg, core->config.self) < 0 || !push->started || push->final_hash ||
        push->work.state >= PUSH_FINISHING ||
        !proto_node_equal(msg->leader, core->peers.peers[from].node) ||
        msg->counter <= group->counter || msg->counter > PUSH_COUNTER_MAX)
        return PUSH_AS_BEFORE;
    if (group->base != 0 && (its.base == 0 || !one_history(standing_of(core, -1), its)))
        return PUSH_AS_BEFORE;
    /* Its history is what this node forgot. The others will hear of it, and forget it, too. */
    if (just_forgot(group, core) && push_group_was_in(group, msg->base))
        return PUSH_AS_BEFORE;
    take_up(group, core, msg);
    return PUSH_REGROUPED;
}

/* Has the leader of this group, or of the one whose ranges this node holds, forgotten what it held? All of one history
 * do. */
static bool
leader_forgot(const struct core *core, int i)
{
    const struct push_group *group = &core->push.group;
    const struct proto_claim *said = &group->of[i].said;
    const struct proto_group *held = &group->base_group;
    if (said->base != 0 || push_group_rank(core, i) < 0)
        return false;
    bool leads_now = proto_node_equal(group->now.leader, group_node(core, i)),
         led = proto_node_equal(held->leader, group_node(core, i));
    return (leads_now && said->group_hash == 0 && said->counter >= group->counter) ||
           (led && said->group_hash != group->base && said->counter >= held->counter);
}

enum push_verdict
push_group_on_claim(struct push_group *group, const struct core *core, int from,
                    const struct proto_claim *claim)
{
    struct push_claim *of = &group->of[from];
    if ((of->known && claim->number <= of->said.number) || claim->counter > PUSH_COUNTER_MAX)
        return PUSH_AS_BEFORE;
    *of = (struct push_claim){true, *claim};
    bool forgot = leader_forgot(core, from) && !mutant(MUTANT_PUSH_FORGOT);
    return forgot && !core->push.final_hash ? yield_history(group, core) : PUSH_AS_BEFORE;
}

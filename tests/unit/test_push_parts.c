/* test_push_parts.c - parts of the engine push, called one by one: what an owner does with what its backup and the
 * workers say, what a worker does when a range has gone back or a copy of a snapshot comes late, what members do when
 * their leader has forgotten all, or one of them has gone to others, or nobody has what was done, which leader sends
 * its group again, and how long one waits for the only ones who have a range.
 *
 * Two nodes, this one and node 2, and one range. Behind each of these rules stands another one, or what it saves is
 * rare: no schedule of the simulator, or one in many thousands, finds them missing (tests/sim/plants.c). */
#include "tests/support/mutant.h"
#include "tests/support/test.h"

#include "mesh/core/engine.h"
#include "mesh/core/internal.h"
#include "mesh/core/push/push.h"

enum { GROUP = 77, TICKETS = 24, NOW = 1000000, HASH = 5 };

static struct {
    struct core *core;
    struct push *push;
    struct push_range *range;
    struct proto_msg sent, bulk; /* the last ones; type 0: none */
    unsigned taken, copied, read, ended;
    bool saved;
    char log[CORE_LINE_MAX]; /* the last line for people */
} at;

static uint64_t gradient = 3;

static void
on_take(void *ctx, const struct push_taken *taken, const void *from, size_t size)
{
    (void)ctx, (void)taken, (void)from, (void)size;
    at.taken++;
}

static uint64_t
on_hash(void *ctx, unsigned range)
{
    (void)ctx, (void)range;
    return HASH;
}

static const void *
on_gradient(void *ctx, unsigned range, size_t *size)
{
    (void)ctx, (void)range;
    *size = sizeof gradient;
    return &gradient;
}

static void
on_copy(void *ctx, unsigned range, void *out)
{
    (void)ctx, (void)range;
    memset(out, 0, sizeof gradient);
}

static void
on_save_range(void *ctx, unsigned range, const void *copy, uint64_t taken, uint64_t history)
{
    (void)ctx, (void)range, (void)copy, (void)taken, (void)history;
    at.copied++;
}

static void
on_value(void *ctx, unsigned range, bool model, void *out)
{
    (void)model;
    on_copy(ctx, range, out);
}

static void
on_read(void *ctx, unsigned range, bool model, const void *value)
{
    (void)model, (void)ctx, (void)range, (void)value;
    at.read++;
}

static void
on_end(void *ctx, const uint64_t *history)
{
    (void)ctx, (void)history;
}

static void
on_save(void *ctx, uint64_t tickets)
{
    (void)ctx, (void)tickets;
}

static void
on_ended(void *ctx, bool saved)
{
    (void)ctx;
    at.ended++;
    at.saved = saved;
}

static void
on_commit(void *ctx, uint64_t round)
{
    (void)ctx, (void)round;
}

static void
on_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size)
{
    (void)ctx, (void)link, (void)body, (void)size;
    at.sent = *msg;
}

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    (void)ctx, (void)link, (void)body, (void)size, (void)lent;
    at.bulk = *msg;
}

static void
on_frame(void *ctx, struct core_frame *frame)
{
    (void)ctx, (void)frame;
}

static void
on_handle(void *ctx, void *handle)
{
    (void)ctx, (void)handle;
}

static void
on_log(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level;
    snprintf(at.log, sizeof at.log, "%s", line);
}

/* This node is 1, and has rank 0 or 1; its range has taken 4 tickets; node 2 is its only peer. */
static void
open_as(unsigned rank, uint64_t planted)
{
    static const struct push_keeper keeper = {.take = on_take,
                                              .hash = on_hash,
                                              .gradient = on_gradient,
                                              .copy = on_copy,
                                              .value = on_value,
                                              .read = on_read,
                                              .end = on_end,
                                              .save_range = on_save_range,
                                              .save = on_save};
    static const struct core_trainer trainer = {.commit = on_commit, .ended = on_ended};
    static const struct core_wire wire = {
        .send = on_send, .send_bulk = on_send_bulk, .keep = on_frame, .release = on_handle};
    static const struct core_program program = {.log = on_log};
    static const struct push_size size = {sizeof gradient, sizeof gradient, sizeof gradient,
                                          sizeof gradient};
    static const struct push_config config = {.keeper = &keeper,
                                              .tickets = TICKETS,
                                              .per_step = 4,
                                              .bound = PUSH_UNBOUND,
                                              .group = 1,
                                              .range_count = 1,
                                              .size = &size};
    const struct core_config setup = {.engine = &engine_push,
                                      .trainer = &trainer,
                                      .push = &config,
                                      .wire = &wire,
                                      .program = &program,
                                      .self = {1, 1},
                                      .shards = 4,
                                      .peers_min = 1};
    mutants_planted = planted;
    memset(&at, 0, sizeof at);
    assert_int_equal(core_new(&at.core, &setup, NOW), 0);
    struct push *push = at.push = &at.core->push;
    struct peer *peer = &at.core->peers.peers[0];
    *peer = (struct peer){.state = PEER_UP, .node = {2, 1}, .announced = true};
    at.core->peers.high = 1;
    push->started = true;
    push->group.now = (struct proto_group){.counter = 1, .leader = {2, 1}, .count = 2};
    push->group.now.seats[rank].node = (struct proto_node){1, 1};
    push->group.now.seats[1 - rank].node = (struct proto_node){2, 1};
    push->group.base_group = push->group.now;
    push->group.hash = push->group.base = GROUP;
    push->group.rank = rank;
    push->group.counter = 1;
    push->group.told = 3;
    at.range = push->ranges.of;
    at.range->held = true;
    at.range->taken = 4;
    at.range->set.floor = 4;
    at.range->hash = HASH;
    at.range->owner = 0;
    at.range->backup = 1;
    at.range->service = PUSH_SERVING;
}

static void
close_all(void)
{
    core_destroy(&at.core);
    mutants_planted = 0;
}

/* The worker of node 2 pushes ticket 6, which it computed from values of a range that had taken `read`. */
static void
pushes(uint64_t read)
{
    struct proto_msg msg = {
        .type = PROTO_PUSH,
        .push = {.group_hash = GROUP, .ticket = 6, .read = read, .number = 1, .who = {2, 1}}};
    msg.push.check = push_body_check(GROUP, 0, 6, &gradient, sizeof gradient);
    struct core_frame frame = {&gradient, sizeof gradient, &gradient};
    push_range_on_push(at.push, at.core, 0, &msg.push, &frame);
}

/* The backup has applied ticket 6. Does the owner give it a copy, as its bits are others? */
static bool
gives_a_copy(uint64_t hash, uint64_t planted)
{
    open_as(0, planted);
    pushes(4);
    assert_int_equal(at.bulk.type, PROTO_PUSH); /* to the backup */
    const struct proto_applied applied = {
        .group_hash = GROUP, .in_hand = 7, .taken = 5, .hash = hash};
    push_range_on_applied(at.push, at.core, 0, &applied);
    assert_int_equal(at.taken, 1);
    bool gives = at.bulk.type == PROTO_VALUE && at.bulk.value.whole;
    assert_int_equal(at.push->ranges.differ, gives);
    close_all();
    return gives;
}

TEST(owner_and_backup_compare_their_bits)
{
    assert_false(gives_a_copy(HASH, 0));
    assert_true(gives_a_copy(HASH + 1, 0));
    assert_false(gives_a_copy(HASH + 1, MUTANT_PUSH_DIFFER));
}

/* Does the range take it? If not, it says how far it is, so that the worker computes the ticket again. */
static bool
takes(uint64_t read, uint64_t planted)
{
    open_as(0, planted);
    pushes(read);
    bool offered = at.bulk.type == PROTO_PUSH && at.range->offered;
    if (!offered) {
        assert_int_equal(at.sent.type, PROTO_APPLIED);
        assert_int_equal(at.sent.applied.in_hand, 7);
        assert_int_equal(at.sent.applied.taken, 4);
    }
    close_all();
    return offered;
}

TEST(values_newer_than_a_range_has_are_not_counted)
{
    assert_true(takes(4, 0));
    assert_false(takes(5, 0));
    assert_true(takes(5, MUTANT_PUSH_NEWER));
    assert_false(takes(6, MUTANT_PUSH_NEWER));
}

/* The backup has taken 4 tickets. The owner gives it ticket `ticket` as its `taken`-th one. Does the backup say that
 * it has it? */
static bool
backup_says_that_it_has(uint64_t taken, uint64_t ticket)
{
    open_as(1, 0);
    struct proto_msg msg = {.type = PROTO_PUSH,
                            .push = {.group_hash = GROUP,
                                     .ticket = ticket,
                                     .read = 4,
                                     .taken = taken,
                                     .number = 1,
                                     .who = {2, 1}}};
    msg.push.check = push_body_check(GROUP, 0, ticket, &gradient, sizeof gradient);
    struct core_frame frame = {&gradient, sizeof gradient, &gradient};
    push_range_on_push(at.push, at.core, 0, &msg.push, &frame);
    bool says = at.sent.type == PROTO_APPLIED;
    assert_true(!says || (at.sent.applied.taken == taken && at.sent.applied.in_hand == ticket + 1));
    assert_int_equal(at.range->taken, 4 + at.taken);
    assert_int_equal(at.taken, taken == 5 && ticket == 6);
    close_all();
    return says;
}

/* It is asked again when its answer was lost. One that lost a gradient, or is ahead, has another range than its
 * owner. */
TEST(a_backup_says_only_what_it_has)
{
    assert_true(backup_says_that_it_has(5, 6));
    assert_true(backup_says_that_it_has(4, 3)); /* again */
    assert_false(backup_says_that_it_has(6, 6));
    assert_false(backup_says_that_it_has(7, 6));
    assert_false(backup_says_that_it_has(3, 2));
    assert_false(backup_says_that_it_has(5, 3)); /* it has that one, as another of its gradients */
}

/* Ticket 6 is the fifth of the range, and was offered to the backup, which says this. Does the owner take it? */
static bool
owner_takes(uint64_t in_hand, uint64_t taken)
{
    open_as(0, 0);
    pushes(4);
    assert_true(at.range->offered);
    const struct proto_applied applied = {
        .group_hash = GROUP, .in_hand = in_hand, .taken = taken, .hash = HASH};
    push_range_on_applied(at.push, at.core, 0, &applied);
    bool takes = at.taken == 1;
    assert_int_equal(at.range->taken, 4 + takes);
    assert_int_equal(at.range->offered, !takes);
    close_all();
    return takes;
}

/* The backup gets a copy of a range that has taken 4 tickets, and says this. Does the owner serve the range? */
static bool
owner_serves(uint64_t in_hand, uint64_t taken)
{
    open_as(0, 0);
    at.range->service = PUSH_COPYING;
    const struct proto_applied applied = {
        .group_hash = GROUP, .in_hand = in_hand, .taken = taken, .hash = HASH};
    push_range_on_applied(at.push, at.core, 0, &applied);
    bool serves = at.range->service == PUSH_SERVING;
    close_all();
    return serves;
}

TEST(an_answer_of_a_backup_counts_for_what_it_was_asked)
{
    assert_true(owner_takes(7, 5));
    assert_false(owner_takes(7, 4)); /* another count */
    assert_false(owner_takes(7, 6));
    assert_false(owner_takes(6, 5)); /* another ticket */
    assert_false(owner_takes(0, 5)); /* of a copy */
    assert_false(owner_takes(0, 4));
    assert_true(owner_serves(0, 4));
    assert_false(owner_serves(0, 3));
    assert_false(owner_serves(0, 5));
    assert_false(owner_serves(5, 4)); /* of a ticket */
}

/* The owner has ticket 6, or has taken `taken` and so less than this worker had read: is it to be computed again? */
static bool
computes_again(uint64_t taken, uint64_t planted)
{
    open_as(1, planted);
    at.push->work.job[PUSH_PUSHES] =
        (struct push_job){.in_hand = 7, .number = 1, .leased_in = GROUP};
    at.push->work.to_push = 1;
    at.range->behind_read = 5;
    const struct proto_applied applied = {.group_hash = GROUP, .in_hand = 7, .taken = taken};
    push_work_on_applied(at.push, at.core, 0, &applied);
    assert_true(at.range->pushed);
    bool again = at.push->work.again;
    close_all();
    return again;
}

TEST(what_a_range_that_went_back_did_not_take_is_computed_again)
{
    assert_false(computes_again(5, 0));
    assert_true(computes_again(4, 0));
    assert_false(computes_again(4, MUTANT_PUSH_KEEP));
}

/* The range had ticket 6 in the former group: in the next one, is it pushed again? */
static bool
pushed_again(uint64_t planted)
{
    open_as(1, planted);
    at.push->work.job[PUSH_PUSHES] =
        (struct push_job){.in_hand = 7, .number = 1, .leased_in = GROUP};
    at.push->work.to_push = 1; /* another range does not have it yet */
    at.range->pushed = true;
    push_work_group(at.push, at.core);
    bool again = !at.range->pushed && at.push->work.to_push == 1;
    close_all();
    return again;
}

TEST(what_a_range_had_is_pushed_again_in_the_next_group)
{
    assert_true(pushed_again(0));
    assert_false(pushed_again(MUTANT_PUSH_LOST));
}

/* Node 2 leads; it says that it is in no group and holds nothing. */
static enum push_verdict
after_claim(uint64_t base, uint64_t planted)
{
    open_as(1, planted);
    const struct proto_claim claim = {
        .group_hash = base ? GROUP : 0, .base = base, .counter = 1, .number = 1};
    enum push_verdict verdict = push_group_on_claim(&at.push->group, at.core, 0, &claim);
    close_all();
    return verdict;
}

TEST(members_forget_with_a_leader_that_forgot_all)
{
    assert_int_equal(after_claim(GROUP, 0), PUSH_AS_BEFORE);
    assert_int_equal(after_claim(0, 0), PUSH_FORGET);
    assert_int_equal(after_claim(0, MUTANT_PUSH_FORGOT), PUSH_AS_BEFORE);
}

/* This node leads the next group. Node 2, which led the one whose ranges this node holds, says that it is in this
 * group, and holds what this one served. */
static enum push_verdict
after_claim_of_former_leader(uint64_t hash, uint64_t base)
{
    open_as(1, 0);
    at.push->group.now.leader = (struct proto_node){1, 1};
    at.push->group.now.counter = at.push->group.counter = 2;
    at.push->group.hash = GROUP + 1;
    const struct proto_claim claim = {.group_hash = hash, .base = base, .counter = 2, .number = 1};
    enum push_verdict verdict = push_group_on_claim(&at.push->group, at.core, 0, &claim);
    close_all();
    return verdict;
}

TEST(members_forget_with_the_leader_of_what_they_hold)
{
    assert_int_equal(after_claim_of_former_leader(0, 0), PUSH_FORGET);
    assert_int_equal(after_claim_of_former_leader(GROUP + 1, 0), PUSH_FORGET);
    assert_int_equal(after_claim_of_former_leader(GROUP + 1, GROUP), PUSH_AS_BEFORE);
    assert_int_equal(after_claim_of_former_leader(GROUP, 0), PUSH_AS_BEFORE); /* not all told it */
}

/* This node has forgotten what it held, some time ago. Does it take up a group of those who hold what `base` served? */
static bool
comes_back_to(uint64_t base, uint64_t after_us)
{
    open_as(1, 0);
    at.push->group.groups = 1;
    at.push->group.past[0] = GROUP;
    const struct proto_claim claim = {.counter = 1, .number = 1};
    assert_int_equal(push_group_on_claim(&at.push->group, at.core, 0, &claim), PUSH_FORGET);
    struct proto_group next = at.push->group.now;
    push_group_forget(&at.push->group);
    at.core->awake.us += after_us;
    next.counter = 2;
    next.parent = next.base = base;
    bool comes = push_group_on_group(&at.push->group, at.core, 0, &next) == PUSH_REGROUPED;
    close_all();
    return comes;
}

TEST(who_forgot_does_not_come_back_before_the_others_forget)
{
    assert_true(comes_back_to(GROUP + 1, 0));
    assert_false(comes_back_to(GROUP, PUSH_LEAVE_US - 1));
    assert_true(comes_back_to(GROUP, PUSH_LEAVE_US));
}

/* Node 2 told in the group whose ranges this node holds, and has done more tickets. Now it leads another one, and holds
 * what a group of this counter served. */
static enum push_verdict
after_other_group(uint64_t base_counter)
{
    open_as(1, 0);
    at.push->group.groups = 1;
    at.push->group.now.counter = at.push->group.base_group.counter = at.push->group.counter = 2;
    at.core->view.of[0].hears_me = true;
    at.push->group.of[0] = (struct push_claim){true,
                                               {.group_hash = GROUP + 3,
                                                .base = GROUP + 4,
                                                .base_counter = base_counter,
                                                .counter = 3,
                                                .number = 1,
                                                .tickets = TICKETS,
                                                .leads = true}};
    push_group_step(&at.push->group, at.core);
    at.core->awake.us += PUSH_SETTLE_US;
    enum push_verdict verdict = push_group_step(&at.push->group, at.core);
    close_all();
    return verdict;
}

TEST(nobody_yields_to_what_was_served_before)
{
    assert_int_equal(after_other_group(1), PUSH_AS_BEFORE);
    assert_int_equal(after_other_group(3), PUSH_FORGET);
}

/* Node 3, of this node's group, went to another one, which node 4 leads. That has another history, in which more
 * tickets are done than the six that this node knows of; so many of them were done when its group began. */
static enum push_verdict
after_a_member_went(bool leads, uint64_t apart)
{
    open_as(1, 0);
    struct push_group *group = &at.push->group;
    at.push->leases.done.floor = 6;
    group->apart = apart;
    group->now.seats[group->now.count++].node = (struct proto_node){3, 1};
    group->base_group = group->now;
    group->told = 7;
    group->leads = leads;
    at.core->peers.high = 3;
    for (unsigned i = 0; i < 3; i++) {
        at.core->peers.peers[i] =
            (struct peer){.state = PEER_UP, .node = {2 + i, 1}, .announced = true};
        at.core->view.of[i].hears_me = true;
    }
    group->of[0] = (struct push_claim){
        true,
        {.group_hash = GROUP, .base = GROUP, .base_counter = 1, .counter = 1, .leads = !leads}};
    group->of[1] = (struct push_claim){true, {.group_hash = GROUP + 3, .counter = 2}};
    group->of[2] = (struct push_claim){true,
                                       {.group_hash = GROUP + 3,
                                        .base = GROUP + 4,
                                        .counter = 2,
                                        .tickets = TICKETS / 2,
                                        .leads = true}};
    push_group_step(group, at.core);
    at.core->awake.us += PUSH_SETTLE_US;
    enum push_verdict verdict = push_group_step(group, at.core);
    close_all();
    return verdict;
}

TEST(the_leader_alone_compares_the_tickets_of_two_histories)
{
    assert_int_equal(after_a_member_went(false, 0), PUSH_AS_BEFORE);
    assert_int_equal(after_a_member_went(true, 0), PUSH_FORGET);
}

/* Of what was done before it was alone nothing is lost, and of what others had begun nobody knows. */
TEST(who_yields_says_how_many_gradients_are_lost)
{
    assert_int_equal(after_a_member_went(true, 2), PUSH_FORGET);
    assert_non_null(
        strstr(at.log, ": at least 4 gradients that were computed here meanwhile do not count"));
    after_a_member_went(true, 5);
    assert_non_null(
        strstr(at.log, ": at least 1 gradient that was computed here meanwhile does not count"));
    after_a_member_went(true, 6);
    assert_string_equal(at.log, "another node has a newer model: this node continues from that");
    after_a_member_went(true, UINT64_MAX);
    assert_string_equal(at.log, "another node has a newer model: this node continues from that");
}

/* This node made a group, and node 2 has not told what it holds: GROUP may be lost. Meanwhile node 2 is the one to make
 * the next group, as it holds something. */
TEST(group_is_sent_again_by_who_made_it)
{
    open_as(0, 0);
    at.push->group.leads = true;
    at.push->group.told = 1;
    at.push->group.base = 0;
    at.core->view.of[0].hears_me = true;
    at.push->group.of[0] = (struct push_claim){true, {.base = GROUP, .number = 1}};
    at.core->awake.us += PUSH_AGAIN_US;
    assert_int_equal(push_group_step(&at.push->group, at.core), PUSH_AS_BEFORE);
    assert_int_equal(at.sent.type, PROTO_GROUP);
    close_all();
}

/* Node 2 has told what it holds, as had a third one, which did the tickets and is gone. `came`: what is held of the
 * range. */
static enum push_verdict
after_all_have_told(uint64_t came, uint64_t done)
{
    open_as(1, 0);
    at.push->group.now.base = GROUP;
    at.push->group.hash = GROUP + 1;
    at.range->best_holding = came;
    at.push->leases.done.floor = done;
    enum push_verdict verdict = push_group_step(&at.push->group, at.core);
    close_all();
    return verdict;
}

TEST(members_forget_tickets_of_which_a_range_came_to_nobody)
{
    assert_int_equal(after_all_have_told(0, 8), PUSH_FORGET);
    assert_int_equal(after_all_have_told(0, 0), PUSH_AS_BEFORE);
    assert_int_equal(after_all_have_told(1, 8), PUSH_AS_BEFORE);
}

/* Node 2 has the final model, and does not hear this node, which was starved, and is silent itself or not. Does this
 * node make a group without it? */
static bool
goes_on_without_who_has_all(bool silent)
{
    open_as(0, 0);
    at.push->group.groups = 1;
    at.push->group.left_out_at = at.core->awake;
    at.push->group.left_out_us = PUSH_BEHIND_US;
    at.core->awake.us += PUSH_BEHIND_US;
    at.core->view.of[0].suspected = silent;
    at.push->group.of[0] = (struct push_claim){true, {.final_hash = HASH, .number = 1}};
    enum push_verdict verdict = push_group_step(&at.push->group, at.core);
    close_all();
    return verdict == PUSH_REGROUPED;
}

TEST(who_was_starved_makes_no_group_when_all_is_done)
{
    assert_false(goes_on_without_who_has_all(false));
    assert_true(goes_on_without_who_has_all(true));
}

/* Node 2 has been silent for `silent_us`. Does this node, which leads, go on without it? `had`: bitmap of the ranks
 * that have the newest copy of the range; that of node 2 is 0. */
static bool
goes_on_without(uint64_t had, uint64_t silent_us, uint64_t planted)
{
    open_as(1, planted);
    at.push->group.groups = 1;
    at.range->base_before = at.range->base_served = had;
    at.core->view.of[0].suspected = true;
    enum push_verdict verdict = push_group_step(&at.push->group, at.core);
    at.core->awake.us += silent_us;
    if (verdict == PUSH_AS_BEFORE)
        verdict = push_group_step(&at.push->group, at.core);
    bool alone = verdict == PUSH_REGROUPED && at.push->group.now.count == 1;
    close_all();
    return alone;
}

TEST(a_range_is_not_given_up_as_soon_as_all_who_have_it_are_silent)
{
    assert_true(goes_on_without(3, 0, 0)); /* nothing is lost */
    assert_false(goes_on_without(1, PUSH_LOSE_US - 1, 0));
    assert_true(goes_on_without(1, PUSH_LOSE_US, 0));
    assert_true(goes_on_without(1, 0, MUTANT_PUSH_HASTY));
}

/* This node copies the snapshot after 8 tickets. Does it take a range that has all below `floor`, and one above it,
 * or none? */
static bool
takes_a_copy_of(uint64_t floor, uint64_t above)
{
    uint8_t body[PUSH_SET_SIZE + sizeof gradient] = {0};
    struct push_set set = {.floor = floor};
    assert_true(!above || push_set_add(&set, above));
    push_set_write(&set, body);
    open_as(1, 0);
    at.push->snapshot.tickets = 8;
    at.push->snapshot.number = 1;
    struct proto_value value = {.group_hash = GROUP,
                                .number = 1,
                                .taken = push_set_count(&set),
                                .history = 9,
                                .whole = true};
    value.check = push_body_check(GROUP, 0, 1, body, sizeof body);
    struct core_frame frame = {body, sizeof body, body};
    push_snapshot_on_copy(at.push, at.core, 0, &value, &frame);
    bool takes = at.copied == 1;
    close_all();
    return takes;
}

/* An owner gives only exact ones; and what one says who is mistaken counts as little. */
static bool
gives_a_copy_of(uint64_t floor, uint64_t above)
{
    open_as(0, 0);
    at.range->set = (struct push_set){.floor = floor};
    assert_true(!above || push_set_add(&at.range->set, above));
    const struct proto_pull pull = {.group_hash = GROUP, .number = 1, .in_hand = 8, .whole = true};
    push_copy_on_pull(at.push, at.core, 0, &pull);
    bool gives = at.bulk.type == PROTO_VALUE;
    close_all();
    return gives;
}

TEST(a_range_of_a_snapshot_has_its_tickets_and_no_others)
{
    static bool (*const of[])(uint64_t floor, uint64_t above) = {takes_a_copy_of, gives_a_copy_of};
    for (size_t k = 0; k < 2; k++) {
        assert_true(of[k](8, 0));
        assert_false(of[k](8, 10)); /* all below it, and one more */
        assert_false(of[k](7, 0));
        assert_false(of[k](7, 9)); /* as many */
        assert_false(of[k](9, 0));
    }
}

/* This node has the snapshot after 8 tickets, which node 2 may still copy from it, and is told to end. `now`: the
 * snapshot that the leader, this node or node 2, wants all to save then, and later. When does it end? */
enum when { AT_ONCE, WHEN_OVER, LATE };

static void
leader_wants(bool leads, uint64_t snapshot)
{
    if (leads)
        at.push->leases.hold = snapshot;
    at.push->group.of[0] = (struct push_claim){
        true, {.group_hash = GROUP, .number = 1, .snapshot = leads ? 0 : snapshot, .saved = 0}};
}

static enum when
ends(bool leads, uint64_t now, uint64_t later)
{
    open_as(leads ? 0 : 1, 0);
    at.push->group.leads = leads;
    at.push->group.now.leader = (struct proto_node){leads ? 1 : 2, 1};
    at.push->snapshot.saved = at.push->leases.done.floor = at.push->leases.end = 8;
    leader_wants(leads, now);
    if (!push_snapshot_end(at.push, at.core)) {
        close_all();
        return AT_ONCE;
    }
    for (int k = 0; k < 3; k++)
        push_snapshot_step(at.push, at.core);
    assert_int_equal(at.ended, 0);
    leader_wants(leads, later);
    push_snapshot_step(at.push, at.core);
    bool over = at.ended > 0;
    at.core->awake.us += PUSH_END_US;
    push_snapshot_step(at.push, at.core);
    assert_int_equal(at.ended, 1);
    assert_int_equal(at.saved, over);
    close_all();
    return over ? WHEN_OVER : LATE;
}

TEST(who_has_a_snapshot_that_others_copy_ends_when_it_is_over)
{
    for (int leads = 0; leads < 2; leads++) {
        assert_int_equal(ends(leads, 8, 0), WHEN_OVER);
        assert_int_equal(ends(leads, 8, 16), WHEN_OVER);
    }
    assert_int_equal(ends(true, 0, 0), AT_ONCE); /* all that was done is saved, by all */
    assert_int_equal(ends(false, 0, 0), LATE);   /* it waits for one more */
}

/* This node copies the snapshot after 8 tickets. Then, perhaps, all tickets are done, and it asks for the final model.
 * Does it take the copy of the snapshot that comes now? */
static bool
takes_a_copy_of_the_snapshot(bool all_done)
{
    uint8_t body[PUSH_SET_SIZE + sizeof gradient] = {0};
    const struct push_set set = {.floor = 8};
    push_set_write(&set, body);
    open_as(1, 0);
    at.push->snapshot.tickets = 8;
    at.push->snapshot.number = at.push->work.number = 1;
    if (all_done)
        push_set_raise(&at.push->leases.done, TICKETS);
    push_work_step(at.push, at.core);
    assert_int_equal(at.push->work.state, all_done ? PUSH_GATHERING : PUSH_WORKING);
    struct proto_value value = {
        .group_hash = GROUP, .number = 1, .taken = 8, .history = 9, .whole = true};
    value.check = push_body_check(GROUP, 0, 1, body, sizeof body);
    struct core_frame frame = {body, sizeof body, body};
    push_snapshot_on_copy(at.push, at.core, 0, &value, &frame);
    bool takes = at.copied == 1;
    assert_int_equal(at.range->read_history, takes ? 9 : 0);
    close_all();
    return takes;
}

TEST(no_copy_of_a_snapshot_comes_into_the_final_model)
{
    assert_true(takes_a_copy_of_the_snapshot(false));
    assert_false(takes_a_copy_of_the_snapshot(true));
}

/* --- Final models ----------------------------------------------------------------------------------- */

/* A node that was elsewhere asks for the final model of this node, which has number 9: by another number, it gets
 * nothing. */
static bool
gives_its_model(uint64_t model)
{
    open_as(1, 0);
    at.push->final_hash = 9;
    const struct proto_pull pull = {.group_hash = model, .number = 1};
    push_copy_on_pull(at.push, at.core, 0, &pull);
    bool gives = at.bulk.type == PROTO_VALUE && at.bulk.value.group_hash == model;
    close_all();
    return gives;
}

TEST(a_node_gives_the_final_model_that_it_is_asked_for)
{
    assert_true(gives_its_model(9));
    assert_false(gives_its_model(8)); /* it had that one, and took over another */
    assert_false(gives_its_model(0));
}

/* Node 2 says that it has this final model. */
static void
says_final(uint64_t model)
{
    at.core->view.of[0].hears_me = true;
    at.push->group.of[0] = (struct push_claim){true, {.number = 1, .final_hash = model}};
    push_work_step(at.push, at.core);
    assert_int_equal(at.push->work.state, PUSH_GATHERING);
    assert_int_equal(at.sent.type, PROTO_PULL);
    assert_int_equal(at.sent.pull.group_hash, model);
}

/* The range comes from node 2, as it is in this final model. */
static bool
reads(uint64_t model)
{
    uint8_t body[PUSH_SET_SIZE + sizeof gradient] = {0};
    struct proto_value value = {.group_hash = model, .number = at.sent.pull.number, .taken = 8};
    value.check = push_body_check(model, 0, value.number, body, sizeof body);
    struct core_frame frame = {body, sizeof body, body};
    unsigned before = at.read;
    push_work_on_value(at.push, at.core, 0, &value, &frame);
    return at.read > before;
}

TEST(a_final_model_is_read_from_one_and_no_other)
{
    open_as(1, 0);
    says_final(8);
    assert_false(reads(9)); /* it has taken over another one meanwhile, and says so later */
    says_final(9);
    assert_false(reads(8));
    assert_true(reads(9));
    close_all();
}

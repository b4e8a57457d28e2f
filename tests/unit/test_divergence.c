/* Whose state is wrong when nodes tell different hashes before the same round. Node 5 has hash 77 before round 0. */
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

static const unsigned ids[] = {7, 8, 9};

static struct lone *
mesh_with(size_t others, uint64_t planted)
{
    struct lone *lone = LONE(.id = 5, .peers_min = others + 1, .planted = planted);
    for (size_t k = 0; k < others; k++)
        lone_meet(lone, ids[k]);
    return lone;
}

static struct lone *
mesh_of(size_t others)
{
    return mesh_with(others, 0);
}

/* Node `id` is idle and says that its state before `round` has this hash, and since when it computes itself. */
static void
tell_since(struct lone *lone, unsigned id, uint64_t round, uint64_t hash, uint64_t since)
{
    struct proto_msg msg = {
        .type = PROTO_HEARTBEAT,
        .heartbeat = {.round = round, .idle = true, .state_hash = hash, .since = since}};
    struct proto_hears hears = {.count = 1};
    hears.nodes[0].node = lone_node(lone, 5);
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++)
        if (ids[k] != id)
            hears.nodes[hears.count++].node = lone_node(lone, ids[k]);
    lone_say_beat(lone, id, &msg, &hears);
}

static void
tell(struct lone *lone, unsigned id, uint64_t round, uint64_t hash)
{
    tell_since(lone, id, round, hash, 0);
}

TEST(the_odd_one_of_three_is_left_out)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(2);
    tell(lone, 8, 0, 0); /* heard, and no hash yet */
    tell(lone, 7, 0, 66);
    tell(lone, 8, 0, 77);
    lone_run(lone, 50);
    assert_int_equal(lone_logged(lone, "more nodes agree with this one"), 1);
    assert_false(lone->back);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    tell(lone, 7, 0, 77); /* it has gone back */
    assert_non_null(lone_sent(lone, 7, PROTO_PLAN));
}

/* A heartbeat from before node 7 went back and computed again comes after newer ones. */
TEST(what_a_member_of_the_plan_said_long_ago_does_not_count)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    for (; lone->round < 3; lone_train(lone))
        lone_run(lone, 1);
    lone_meet(lone, 7);
    tell(lone, 7, lone->round + 1, 78 + lone->round); /* a round ahead: the plan is held for it */
    lone_train(lone);
    lone_train(lone);
    lone_run(lone, 10);
    assert_int_equal(lone_members(lone), 2);
    tell(lone, 7, 1, 66);
    assert_int_equal(lone_members(lone), 2);
    struct proto_msg drop = {
        .type = PROTO_ABORT,
        .abort = {.plan_hash = proto_plan_hash(&lone_sent(lone, 7, PROTO_PLAN)->msg.plan)}};
    lone_say(lone, 7, &drop); /* no member any more */
    tell(lone, 7, 1, 66);
    lone_run(lone, 2 * DIVERGENCE_GRACE_US / 1000);
    assert_int_equal(lone_logged(lone, "have different weights"), 1);
}

/* Node 7 was wrong long ago. That 8 and 9 had our state then says nothing of a later round, before which 9 has another
 * one. (Engine rounds, seed 6765671 of the simulator.) */
TEST(who_agreed_long_ago_has_no_voice_in_a_later_round)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    for (; lone->round < 3; lone_train(lone))
        lone_run(lone, 1);
    for (unsigned id = 7; id <= 9; id++)
        lone_meet(lone, id);
    lone_train(lone);
    lone_train(lone);
    tell(lone, 8, 1, 78);
    tell(lone, 9, 1, 78);
    tell(lone, 7, 1, 66);
    assert_int_equal(lone_logged(lone, "more nodes agree with this one"), 1);
    tell(lone, 9, lone->round, 67); /* one against one: what has 8 before that round? */
    assert_int_equal(lone_logged(lone, "more nodes agree with this one"), 1);
    assert_false(lone->back);
    lone_run(lone, DIVERGENCE_GRACE_US / 1000 + 20);
    lone_train(lone); /* it finishes what it is at */
    lone_run(lone, 1);
    assert_true(lone_logged(lone, "so both go back") > 0);
}

TEST(who_is_outvoted_goes_back)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(2);
    tell(lone, 8, 0, 0); /* heard, and no hash yet */
    tell(lone, 7, 0, 66);
    assert_false(lone->back); /* one against one: what does 8 say? */
    tell(lone, 8, 0, 66);
    assert_true(lone->back);
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.state_hash, 0);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    struct core_stats stats;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.damages, 1);
}

TEST(the_vote_does_not_wait_for_ever)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(3);
    tell(lone, 8, 0, 0);
    tell(lone, 7, 0, 66);
    lone_run(lone, DIVERGENCE_GRACE_US / 1000 - 20);
    assert_false(lone->back);
    lone_run(lone, 40);
    assert_true(lone->back);
}

TEST(two_who_differ_again_and_again_part)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(1);
    for (int k = 1; k <= DIVERGENCE_TIES; k++) {
        assert_int_equal(lone_logged(lone, "no longer train together"), 0);
        tell(lone, 7, 0, 66);
        for (int again = 0; k < DIVERGENCE_TIES && again < DIVERGENCE_TIES; again++) {
            tell(lone, 7, 0, 66); /* it has not gone back yet */
            lone_train(lone);
            lone_train(lone);
        }
        assert_true(lone_logged(lone, "so both go back") >= (size_t)k || k == DIVERGENCE_TIES);
        tell(lone, 7, 0, 0);
        lone_train(lone);
    }
    assert_int_equal(lone_logged(lone, "no longer train together"), 1);
    tell(lone, 7, 9, 66);
    lone_run(lone, 400);
    lone_up(lone, 7);
    assert_int_equal(lone_sent(lone, 7, PROTO_REFUSE)->msg.refuse.reason, PROTO_REFUSE_EXPELLED);
    assert_null(lone_asked(lone, 7, LONE_TOTAL));
}

/* Who has had enough of it first tells the other one, which would go back for ever. */
TEST(who_refuses_has_no_say)
{
    struct proto_msg msg = {.type = PROTO_REFUSE, .refuse = {.reason = PROTO_REFUSE_EXPELLED}};
    OWNED(lone_destroy) struct lone *lone = mesh_of(1);
    tell(lone, 7, 0, 66);
    assert_true(lone->back);
    lone_say(lone, 7, &msg);
    lone->back = false;
    lone_train(lone);
    lone_run(lone, 400);
    assert_false(lone->back);
    assert_int_equal(lone_logged(lone, "no longer train together"), 1);
}

/* The total of round 0 is not here, says `id`, but that it had the state of this hash before it. */
static void
tell_past(struct lone *lone, unsigned id, uint64_t hash)
{
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .round = 0, .label = hash}};
    msg.give.check = transfer_check(&msg.give, 1, NULL, 0);
    lone_say_bulk(lone, id, &msg, NULL, 0);
}

/* One against one in round 0; node 8 is a round ahead, and is asked which state it had. */
static struct lone *
tie_with_one_ahead(void)
{
    struct lone *lone = mesh_of(2);
    tell(lone, 8, 1, 88);
    tell(lone, 7, 0, 66);
    assert_non_null(lone_asked(lone, 8, LONE_TOTAL));
    assert_false(lone->back);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    return lone;
}

TEST(of_one_against_one_who_is_ahead_decides)
{
    OWNED(lone_destroy) struct lone *lone = tie_with_one_ahead();
    tell_past(lone, 8, 66);
    assert_true(lone->back);
    assert_int_equal(lone_logged(lone, "more agree with it"), 2);
    lone_destroy(&lone);

    lone = tie_with_one_ahead();
    tell_past(lone, 8, 77);
    assert_int_equal(lone_logged(lone, "more nodes agree with this one"), 1);
    lone_run(lone, DIVERGENCE_GRACE_US / 1000 + 20);
    assert_false(lone->back);
    assert_non_null(lone_asked(lone, 8, LONE_COPY)); /* nobody has totals */
    lone_destroy(&lone);

    lone = tie_with_one_ahead(); /* it does not answer */
    lone_run(lone, DIVERGENCE_GRACE_US / 1000 + 20);
    assert_true(lone->back);
    assert_int_equal(lone_logged(lone, "so both go back"), 1);
}

/* Node 5 is behind two others, and its own state has changed: it must not train on with it. */
TEST(who_follows_with_a_wrong_state_goes_back)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(2);
    tell(lone, 7, 1, 88);
    tell(lone, 8, 1, 88);
    unsigned first = lone_asked(lone, 7, LONE_TOTAL) ? 7 : 8;
    tell_past(lone, first, 66);
    assert_false(lone->back); /* what did the other one have? */
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    assert_non_null(lone_asked(lone, 15 - first, LONE_TOTAL));
    tell_past(lone, 15 - first, 66);
    assert_true(lone->back);
}

/* A plan of three. 7 and 8 do not hear node 5 any more, and 7 drops the plan: nobody knows whose state is wrong, it may
 * be that of 5. */
static struct lone *
dropped_and_deaf(uint64_t planted)
{
    struct lone *lone = mesh_with(2, planted);
    tell(lone, 7, 0, 77);
    tell(lone, 8, 0, 77);
    assert_non_null(lone_sent(lone, 7, PROTO_PLAN));
    struct proto_plan plan = lone_sent(lone, 7, PROTO_PLAN)->msg.plan;
    struct proto_msg deaf = {.type = PROTO_HEARTBEAT, .heartbeat = {.state_hash = 77}};
    lone_say_beat(lone, 7, &deaf, &(struct proto_hears){0});
    lone_say_beat(lone, 8, &deaf, &(struct proto_hears){0});
    assert_int_equal(lone_members(lone), 3);
    lone_train(lone); /* its own part of the round */
    lone_return(lone);
    lone_say(lone, 7,
             &(struct proto_msg){.type = PROTO_ABORT,
                                 .abort = {.plan_hash = proto_plan_hash(&plan), .differ = true}});
    return lone;
}

TEST(members_of_a_plan_that_differed_are_heard_before_the_next)
{
    OWNED(lone_destroy) struct lone *lone = dropped_and_deaf(0);
    lone_run(lone, DIVERGENCE_GRACE_US / 1000 - 20);
    assert_int_equal(lone_members(lone), 0);
    lone_run(lone, 40);
    assert_int_equal(lone_members(lone), 1);
}

/* Waiting for them saves time, no more: who goes on alone meanwhile, from the wrong state, goes back below the round of
 * the plan as soon as it is told, and makes no plan with them until then. */
TEST(without_waiting_for_them_the_past_tells)
{
    OWNED(lone_destroy) struct lone *lone = dropped_and_deaf(MUTANT_UNTOLD);
    lone_run(lone, 20);
    assert_int_equal(lone_members(lone), 1);
    lone_forget_sent(lone);
    for (int k = 0; k < 3; k++, lone_run(lone, 10)) {
        lone_train(lone);
        lone_return(lone);
    }
    struct core_stats stats;
    core_stats(lone->core, &stats);
    assert_in_range(stats.round, 1, 3);
    tell(lone, 7, 0, 66);
    tell(lone, 8, 0, 66);
    lone_run(lone, DIVERGENCE_GRACE_US / 1000 + 20);
    while (lone->compute) /* it finishes what it is at */
        lone_train(lone);
    assert_true(lone->back);
    assert_int_equal(lone->round, 0);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
    assert_null(lone_sent(lone, 8, PROTO_PLAN));
}

/* As with two others, but nobody knows who is right, so both compute again. */
TEST(who_follows_one_that_differs_computes_again)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(1);
    tell(lone, 7, 1, 88);
    assert_non_null(lone_asked(lone, 7, LONE_TOTAL));
    tell_past(lone, 7, 66);
    assert_true(lone->back);
    assert_int_equal(lone_logged(lone, "so both go back"), 1);
}

TEST(of_two_ahead_who_differ_neither_is_fetched)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(3);
    tell(lone, 7, 9, 0); /* no hash: nothing to fetch */
    tell(lone, 8, 9, 66);
    assert_non_null(lone_asked(lone, 8, LONE_TOTAL));
    lone_forget_sent(lone);
    tell(lone, 7, 9, 67);
    tell(lone, 8, 9, 66);
    lone_run(lone, 200);
    assert_null(lone_asked(lone, 7, LONE_TOTAL));
    assert_null(lone_asked(lone, 8, LONE_TOTAL));
    tell(lone, 7, 8, 65); /* has gone back, and is believed again */
    tell(lone, 9, 9, 66); /* and 8 has a second voice */
    lone_run(lone, 20);
    assert_non_null(lone_asked(lone, 7, LONE_TOTAL) ? lone_asked(lone, 7, LONE_TOTAL)
                                                    : lone_asked(lone, 9, LONE_TOTAL));
}

/* Does node 5 train while 7 and 8 rest nine rounds ahead, with these states? */
static bool
computes_behind(uint64_t hash_7, uint64_t hash_8)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    for (int k = 0; k < 40 && lone->round < 2; k++) {
        tell(lone, 7, 9, hash_7);
        tell(lone, 8, 9, hash_8);
        lone_run(lone, 50);
        lone_train(lone);
    }
    return lone->round == 2;
}

/* One has expelled the other one, which computes something else. (Engine rounds, --coded, seed 6300027474 of the
 * simulator: a node watched them for ever.) */
TEST(of_two_ahead_who_differ_neither_is_waited_for)
{
    assert_true(computes_behind(66, 67));
    assert_false(computes_behind(66, 66));
}

TEST(who_was_accused_is_not_fetched_from)
{
    OWNED(lone_destroy)
    struct lone *lone = LONE(.id = 5, .peers_min = 3, .audit_share = UINT64_C(1) << 32);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_say(lone, 8,
             &(struct proto_msg){.type = PROTO_ACCUSE,
                                 .accuse = {.plan_hash = 1, .round = 8, .accused = 7}});
    tell(lone, 7, 9, 66);
    lone_run(lone, 400);
    assert_null(lone_asked(lone, 7, LONE_TOTAL));
    tell(lone, 8, 8, 65);
    lone_run(lone, 20);
    assert_non_null(lone_asked(lone, 8, LONE_TOTAL));
}

TEST(who_was_accused_is_not_followed_at_our_own_round)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .audit_share = UINT64_C(1) << 32);
    struct proto_msg accuse = {.type = PROTO_ACCUSE, .accuse = {.plan_hash = 1, .accused = 7}};
    for (unsigned id = 7; id <= 8; id++) {
        lone_meet(lone, id);
        tell(lone, id, 0, lone->core->state_hash);
    }
    lone_say(lone, 8, &accuse);
    assert_false(fetch_fit(lone->core, peers_find(lone->core, lone_node(lone, 7))));
    assert_true(fetch_fit(lone->core, peers_find(lone->core, lone_node(lone, 8))));
}

/* Its accuser is gone, and it rests nine rounds ahead. Does node 9 train, before it is starved? */
static bool
computes_behind_accused(bool accused)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 9, .audit_share = UINT64_C(1) << 32);
    struct proto_msg accuse = {.type = PROTO_ACCUSE, .accuse = {.plan_hash = 1, .round = 8}};
    accuse.accuse.accused = accused ? 7 : 6;
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_say(lone, 8, &accuse);
    lone_down(lone, 8);
    for (int k = 0; k < 12 && lone->round < 2; k++) {
        tell(lone, 7, 9, 66);
        lone_run(lone, 50);
        lone_train(lone);
    }
    assert_int_equal(lone_asked(lone, 7, LONE_TOTAL) == NULL, accused);
    return lone->round == 2;
}

TEST(who_was_accused_is_not_waited_for)
{
    assert_true(computes_behind_accused(true));
    assert_false(computes_behind_accused(false));
}

enum vote { NO_VOTE, KEPT, TIED, LOST };

/* Node 5 has computed four rounds. Then 7 and 8 say that they had another state before the last one, and have computed
 * since these rounds; 9 had ours, and has computed since `ours`, unless that is 9: it is not here. `agreed`: all were
 * heard to have the same state before round 0. */
static enum vote
vote(uint64_t planted, bool agreed, uint64_t since_7, uint64_t since_8, uint64_t ours)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .planted = planted);
    for (size_t k = 0; k < (ours == 9 ? 2 : 3); k++)
        lone_meet(lone, ids[k]);
    for (int k = 0; lone->core->round < 4; k++) {
        assert_in_range(k, 0, 100);
        lone_run(lone, 50);
        lone_train(lone);
    }
    for (int i = 0; agreed && i < lone->core->peers.high; i++)
        lone->core->divergence.of[i].same = 1; /* before round 0 */
    uint64_t hash = lone->core->state_hash;
    enum vote vote = NO_VOTE;
    for (int k = 0; k < 20 && vote == NO_VOTE; k++) {
        tell_since(lone, 7, 4, 66, since_7);
        tell_since(lone, 8, 4, 66, since_8);
        if (ours < 9)
            tell_since(lone, 9, 4, hash, ours);
        lone_run(lone, 50);
        lone_train(lone);
        vote = lone_logged(lone, "so both go back")                             ? TIED
               : lone_logged(lone, "going back")                                ? LOST
               : k == 10 && lone_logged(lone, "more nodes agree with this one") ? KEPT
                                                                                : NO_VOTE;
    }
    return vote;
}

TEST(a_copy_of_a_wrong_state_does_not_outvote_who_computed)
{
    for (int agreed = 0; agreed < 2; agreed++) {
        assert_int_equal(vote(0, agreed, 0, 0, 9), LOST); /* two have computed */
        assert_int_equal(vote(0, agreed, 0, 3, 9), TIED); /* one, and a copy of its state */
        assert_int_equal(vote(0, agreed, 2, 3, 9), TIED); /* copies of a state of who is not here */
        assert_int_equal(vote(0, agreed, 0, 3, 0), KEPT); /* two of ours have computed */
        assert_int_equal(vote(MUTANT_COPY_VOTES, agreed, 0, 3, 9), LOST);
    }
    assert_int_equal(vote(0, true, 0, 3, 2), TIED); /* one of ours is a copy, too */
    assert_int_equal(vote(0, true, 0, 0, 2), LOST);
    assert_int_equal(vote(0, false, 0, 3, 2), KEPT); /* who comes from nowhere ties no mesh */
}

/* Node 5 is behind. */
TEST(copies_of_a_state_are_not_taken_against_who_computed)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(3);
    tell(lone, 7, 9, 66);
    tell_since(lone, 8, 9, 66, 8);
    assert_true(divergence_trusts(lone->core, 9, 66));
    tell(lone, 9, 9, 67);
    assert_false(divergence_trusts(lone->core, 9, 66));
    assert_false(divergence_trusts(lone->core, 9, 67));
    tell(lone, 8, 9, 66);
    assert_true(divergence_trusts(lone->core, 9, 66));
}

/* Node 7 is wrong before round 1, and 8 and 9 have copied that. They go back first, and so compute themselves again:
 * that makes no witnesses of them of what they had. (Engine rounds, --staged, seed 2100181026 of the simulator.) */
TEST(who_went_back_is_no_witness_of_its_copy)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    for (; lone->round < 2; lone_train(lone))
        lone_run(lone, 1);
    for (unsigned id = 7; id <= 9; id++)
        lone_meet(lone, id);
    lone_train(lone);
    tell_since(lone, 8, 1, 66, 1);
    tell_since(lone, 9, 1, 66, 1);
    tell(lone, 8, 0, 77);
    tell(lone, 9, 0, 77);
    tell(lone, 7, 1, 66);
    for (int k = 0; k < 20 && !lone->back; k++) {
        lone_run(lone, DIVERGENCE_GRACE_US / 1000);
        lone_train(lone);
    }
    assert_true(lone_logged(lone, "equally many agree with each") > 0);
    assert_int_equal(lone_logged(lone, "more agree with it"), 0);
}

TEST(the_heartbeat_says_since_when_a_node_computes_itself)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(1);
    tell(lone, 7, 0, 77);
    struct core *core = lone->core;
    assert_int_equal(core->divergence.own_since, 0);
    struct divergence begins;
    divergence_init(&begins);
    core->round = 9;
    divergence_applied(&begins, core, true); /* a checkpoint of its own */
    assert_int_equal(begins.own_since, 0);
    divergence_applied(&core->divergence, core, true); /* a copy */
    assert_int_equal(core->divergence.own_since, 9);
    core->round = 10;
    divergence_applied(&core->divergence, core, false);
    assert_int_equal(core->divergence.own_since, 9);
    lone_forget_sent(lone);
    lone_run(lone, 100);
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.since, 9);
    core->round = 5; /* the trainer went back */
    divergence_applied(&core->divergence, core, false);
    assert_int_equal(core->divergence.own_since, 5);
}

/* Node 5 has trained alone for some rounds when 7 comes, which had another state before round 1. */
static bool
goes_back_for_the_past(bool inexact)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .inexact = inexact);
    lone_meet(lone, 7);
    for (int k = 0; lone->core->round < 4; k++) {
        assert_in_range(k, 0, 100);
        lone_run(lone, 50);
        lone_train(lone);
    }
    for (int k = 0; k < 20 && !lone->back; k++) {
        tell(lone, 7, 1, 66);
        lone_run(lone, 50);
        lone_train(lone);
    }
    return lone->back || lone_logged(lone, "so both go back") > 0;
}

/* With train.exact: no, those who trained apart have different states, and nobody computes anything again. */
TEST(a_past_that_differs_is_no_fault_when_sums_are_inexact)
{
    assert_true(goes_back_for_the_past(false));
    assert_false(goes_back_for_the_past(true));
}

static bool
goes_back_for(uint64_t hash)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 2, .inexact = true);
    lone_meet(lone, 7);
    tell(lone, 7, 0, hash);
    lone_run(lone, 300);
    return lone->back;
}

TEST(of_two_inexact_states_one_is_kept)
{
    assert_true(goes_back_for(66));
    assert_false(goes_back_for(88));
    assert_false(goes_back_for(77));
}

/* Nobody goes back for ever because nothing ahead can be taken. */
TEST(of_two_inexact_states_ahead_one_is_fetched)
{
    for (int inexact = 0; inexact < 2; inexact++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .inexact = inexact);
        lone_meet(lone, 7);
        lone_meet(lone, 8);
        tell(lone, 7, 9, 67);
        tell(lone, 8, 9, 66);
        assert_int_equal(divergence_trusts(lone->core, 9, 66), inexact);
        assert_false(divergence_trusts(lone->core, 9, 67));
    }
}

/* Who is gone does not count: the two that are left must come to the same verdict. */
TEST(who_is_gone_does_not_speak_for_an_inexact_state)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3, .inexact = true);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    for (int k = 0; k < 6; k++) {
        tell(lone, 8, 0, 77); /* ours */
        tell(lone, 7, 0, 66);
        lone_run(lone, 50);
    }
    assert_false(lone->back); /* two against one */
    lone_down(lone, 8);
    for (int k = 0; k < 6; k++) {
        tell(lone, 7, 0, 66);
        lone_run(lone, 50);
    }
    assert_true(lone->back); /* one against one, and the smaller hash is kept */
}

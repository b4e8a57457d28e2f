/* Who was heard and not met, and what is said about it: contact.h, and the endpoints that the user named. */
#include <stdio.h>

#include "mesh/core/sessions/contact.h"
#include "mesh/core/sessions/rendezvous.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { PATIENCE_MS = CONTACT_PATIENCE_US / 1000 + 500 };

/* For `ms`, with what `id` does once in a while. */
static void
run_with(struct lone *lone, unsigned ms, unsigned id, void (*act)(struct lone *lone, unsigned id))
{
    for (unsigned t = 0; t < ms; t += 250) {
        act(lone, id);
        lone_run(lone, 250);
    }
}

static const struct core_status *
status_of(const struct lone *lone)
{
    static struct core_status status;
    core_status(lone->core, &status);
    return &status;
}

static unsigned
unreached(const struct lone *lone)
{
    struct core_stats stats;
    core_stats(lone->core, &stats);
    return stats.unreached;
}

static void
beacon_then_break(struct lone *lone, unsigned id)
{
    lone_found(lone, id);
    lone_down(lone, id);
}

TEST(a_node_that_is_heard_and_not_reached_is_said_once)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    run_with(lone, CONTACT_PATIENCE_US / 1000 - 500, 7, beacon_then_break);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007"), 0);
    assert_int_equal(unreached(lone), 0);
    run_with(lone, 3 * PATIENCE_MS, 7, beacon_then_break);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 is heard, but cannot be reached"), 1);
    assert_int_equal(unreached(lone), 1);
    const struct core_status *status = status_of(lone);
    assert_int_equal(status->contact_count, 1);
    assert_int_equal(status->contacts[0].gap, CORE_GAP_SILENT);
    assert_false(status->contacts[0].met);
    lone_run(lone, CONTACT_HEARD_US / 1000 + 500); /* its beacons cease */
    assert_int_equal(unreached(lone), 0);
    assert_int_equal(status_of(lone)->contact_count, 1); /* it was heard, and is not forgotten */
}

static void
greet_then_break(struct lone *lone, unsigned id)
{
    lone_down(lone, id);
    lone_hello(lone, id, false);
}

TEST(a_node_that_reaches_us_and_we_not_it)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    run_with(lone, 2 * PATIENCE_MS, 7, greet_then_break);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 reaches this node"), 1);
    assert_int_equal(status_of(lone)->contacts[0].gap, CORE_GAP_OURS);
}

static void
beacon_and_link(struct lone *lone, unsigned id)
{
    lone_found(lone, id);
    lone_up(lone, id);
}

TEST(a_node_that_we_reach_and_it_not_us)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    run_with(lone, 2 * PATIENCE_MS, 7, beacon_and_link);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 can be reached, but cannot reach this node"),
                     1);
    assert_int_equal(status_of(lone)->contacts[0].gap, CORE_GAP_THEIRS);
}

TEST(a_session_ends_the_riddle_and_is_remembered)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    assert_int_equal(status_of(lone)->here, 2);
    assert_true(status_of(lone)->contacts[0].here);
    lone_down(lone, 7);
    assert_true(status_of(lone)->contacts[0].met);
    assert_false(status_of(lone)->contacts[0].here);
    run_with(lone, 2 * PATIENCE_MS, 7, beacon_then_break); /* it is heard again, and not reached */
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 is heard, but cannot be reached"), 1);
    assert_true(status_of(lone)->contacts[0].met);
}

TEST(who_says_goodbye_is_no_riddle)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_say(lone, 7, &(struct proto_msg){.type = PROTO_BYE});
    run_with(lone, 2 * PATIENCE_MS, 7, beacon_then_break);
    assert_int_equal(lone_logged(lone, "is heard, but"), 0);
    assert_true(status_of(lone)->contacts[0].settled);
}

TEST(who_was_started_again_at_its_address_takes_the_same_place)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_endpoint at = lone_endpoint(7);
    for (uint64_t id = 100; id < 110; id++)
        core_on_found(lone->core, lone->now, &at, (struct proto_node){id, 1});
    assert_int_equal(status_of(lone)->contact_count, 1);
}

TEST(false_beacons_fill_neither_log_nor_table)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    for (unsigned round = 0; round < 2 * PATIENCE_MS / 100; round++) {
        for (unsigned k = 0; k < 40; k++) {
            struct proto_endpoint at = {"10.9.9.9", (uint16_t)(1000 + k)};
            core_on_found(lone->core, lone->now, &at, (struct proto_node){1000 + k, 1});
        }
        lone_beat(lone, 7, 0, true);
        lone_run(lone, 100);
    }
    assert_int_equal(lone_logged(lone, "is heard, but"), CONTACT_LINES_MAX);
    for (unsigned round = 0; round < 200; round++) {
        struct proto_endpoint at = {"10.9.9.8", (uint16_t)(1000 + round)};
        core_on_found(lone->core, lone->now, &at, (struct proto_node){5000 + round, 1});
        lone_beat(lone, 7, 0, true);
        lone_run(lone, 100);
    }
    const struct core_status *status = status_of(lone);
    assert_int_equal(status->contact_count, CONTACTS_MAX);
    assert_true(
        status->contacts[0].here); /* the one that is here comes first, and kept its place */
    assert_string_equal(status->contacts[0].at.host, "10.0.0.7");
}

TEST(the_first_round_waits_for_as_many_nodes_as_were_asked_for)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 3);
    lone_meet(lone, 7);
    for (unsigned k = 0; k < 20; k++) {
        lone_beat(lone, 7, 0, true);
        lone_run(lone, 100);
    }
    const struct core_status *status = status_of(lone);
    assert_true(status->waiting);
    assert_int_equal(status->here, 2);
    assert_int_equal(status->wanted, 3);
    assert_in_range(status->waiting_us, 1900000, 2200000);
    lone_meet(lone, 8);
    assert_false(status_of(lone)->waiting);
}

TEST(a_named_endpoint_that_does_not_answer_is_said_once_and_when_it_does)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_named(lone, 7);
    lone_run(lone, RENDEZVOUS_PATIENCE_US / 1000 - 500);
    assert_int_equal(lone_logged(lone, "--peer"), 0);
    lone_run(lone, 3 * RENDEZVOUS_PATIENCE_US / 1000);
    assert_int_equal(lone_logged(lone, "no answer from 10.0.0.7:20007 (--peer) for 5 s"), 1);
    assert_int_equal(lone_logged(lone, "--peer"), 1);
    lone_meet(lone, 7);
    lone_run(lone, 100);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 (--peer) answers now"), 1);
}

/* Its machine was slow, or its port opened late. */
TEST(a_named_endpoint_that_is_reached_after_the_complaint_and_does_not_answer_is_said_too)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_named(lone, 7);
    lone_run(lone, RENDEZVOUS_PATIENCE_US / 1000 + 500);
    assert_int_equal(lone_logged(lone, "no answer from 10.0.0.7:20007 (--peer)"), 1);
    lone_run(lone, 1000);
    run_with(lone, RENDEZVOUS_PATIENCE_US / 1000 - 500, 7, lone_up);
    assert_int_equal(lone_logged(lone, "--peer"), 1);
    run_with(lone, 3 * RENDEZVOUS_PATIENCE_US / 1000, 7, lone_up);
    assert_int_equal(
        lone_logged(lone, "10.0.0.7:20007 (--peer) can be reached, but has not answered for 5 s"),
        1);
    assert_int_equal(lone_logged(lone, "--peer"), 2);
    lone_meet(lone, 7);
    lone_run(lone, 100);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 (--peer) answers now"), 1);
}

TEST(a_named_endpoint_that_answers_is_not_mentioned)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_named(lone, 7);
    lone_meet(lone, 7);
    for (unsigned k = 0; k < 100; k++) {
        lone_beat(lone, 7, 0, true);
        lone_run(lone, 100);
    }
    lone_down(lone, 7);
    lone_run(lone, 3 * RENDEZVOUS_PATIENCE_US / 1000); /* that it is gone is said elsewhere */
    assert_int_equal(lone_logged(lone, "--peer"), 0);
}

/* Whom nodes hear: lists that are said when they change, and heartbeats that name them. */
#include <stdio.h>

#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

/* Node 5, which has met 7 and 8. */
static struct lone *
met(void)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 9);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_run(lone, 100);
    lone_forget_sent(lone);
    return lone;
}

static const struct heard *
heard(const struct lone *lone, unsigned id)
{
    return &lone->core->view.of[peers_by_id(lone->core, id)];
}

static struct proto_hears
list_of(const struct lone *lone, unsigned a, unsigned b)
{
    struct proto_hears hears = {.count = 2};
    hears.nodes[0].node = lone_node(lone, a);
    hears.nodes[1].node = lone_node(lone, b);
    return hears;
}

static void
say_list(struct lone *lone, unsigned id, const struct proto_hears *hears)
{
    struct proto_msg msg = {.type = PROTO_HEARS, .hears = *hears};
    lone_say(lone, id, &msg);
}

static void
name_list(struct lone *lone, unsigned id, const struct proto_hears *hears)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT, .heartbeat = {.idle = true}};
    msg.heartbeat.hears_hash = proto_hears_hash(hears);
    lone_say(lone, id, &msg);
}

TEST(a_list_counts_from_the_heartbeat_on_that_names_it)
{
    OWNED(lone_destroy) struct lone *lone = met();
    struct proto_hears all = list_of(lone, 5, 8);
    say_list(lone, 7, &all);
    assert_false(heard(lone, 7)->hears_me);
    name_list(lone, 7, &all);
    assert_true(heard(lone, 7)->hears_me);
    assert_true(heard(lone, 7)->hears >> peers_by_id(lone->core, 8) & 1);
    assert_null(lone_sent(lone, 7, PROTO_WHOM));
}

TEST(a_list_that_was_not_said_is_asked_for_and_the_one_before_counts)
{
    OWNED(lone_destroy) struct lone *lone = met();
    struct proto_hears first = list_of(lone, 5, 8), second = list_of(lone, 8, 9);
    say_list(lone, 7, &first);
    name_list(lone, 7, &first);
    name_list(lone, 7, &second);
    assert_non_null(lone_sent(lone, 7, PROTO_WHOM));
    assert_true(heard(lone, 7)->hears_me);
    say_list(lone, 7, &second);
    assert_true(heard(lone, 7)->hears_me); /* it is a word of the next heartbeat */
    name_list(lone, 7, &second);
    assert_false(heard(lone, 7)->hears_me);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_WHOM), 1);
}

TEST(a_list_that_no_heartbeat_names_is_ignored)
{
    OWNED(lone_destroy) struct lone *lone = met();
    struct proto_hears first = list_of(lone, 5, 8), other = list_of(lone, 8, 9);
    say_list(lone, 7, &first);
    name_list(lone, 7, &first);
    say_list(lone, 7, &other); /* of the future, or of nobody */
    name_list(lone, 7, &first);
    assert_true(heard(lone, 7)->hears_me);
}

TEST(nodes_of_another_incarnation_are_not_heard)
{
    OWNED(lone_destroy) struct lone *lone = met();
    struct proto_hears hears = list_of(lone, 5, 8);
    hears.nodes[0].node.incarnation++;
    hears.nodes[1].node.incarnation++;
    say_list(lone, 7, &hears);
    name_list(lone, 7, &hears);
    assert_false(heard(lone, 7)->hears_me);
    assert_int_equal(heard(lone, 7)->hears, 0);
}

/* It named 8 before this node had met it. */
TEST(a_list_is_read_again_when_a_node_of_it_comes)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 9);
    lone_meet(lone, 7);
    struct proto_hears hears = list_of(lone, 5, 8);
    say_list(lone, 7, &hears);
    name_list(lone, 7, &hears);
    lone_meet(lone, 8);
    name_list(lone, 7, &hears);
    assert_true(heard(lone, 7)->hears >> peers_by_id(lone->core, 8) & 1);
    lone_down(lone, 8);
    assert_int_equal(heard(lone, 7)->hears, 0);
}

TEST(a_node_says_whom_it_hears_when_that_changes_and_when_asked)
{
    OWNED(lone_destroy) struct lone *lone = met();
    const struct proto_msg whom = {.type = PROTO_WHOM};
    lone_run_with(lone, 2000, (unsigned[]){7, 8}, 2, 0, true);
    assert_null(lone_sent(lone, 7, PROTO_HEARS)); /* it did when they met */
    assert_true(lone_sent_count(lone, 7, PROTO_HEARTBEAT) > 5);
    lone_say(lone, 7, &whom);
    lone_say(lone, 7, &whom);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HEARS), 1); /* it was answered a moment ago */
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARS)->msg.hears.count, 2);
    assert_null(lone_sent(lone, 8, PROTO_HEARS));
    lone_forget_sent(lone);
    lone_down(lone, 8);
    const struct lone_sent *list = lone_sent(lone, 7, PROTO_HEARS);
    assert_non_null(list);
    assert_int_equal(list->msg.hears.count, 1);
    assert_true(lone_sent(lone, 7, PROTO_HEARTBEAT)->msg.heartbeat.hears_hash ==
                proto_hears_hash(&list->msg.hears));
}

/* Who leads decides by it whom it leaves out. */
TEST(a_rate_is_told_at_once_when_it_is_known_and_later_when_it_changes)
{
    OWNED(lone_destroy) struct lone *lone = met();
    uint32_t *rate = &lone->core->lines.of[peers_by_id(lone->core, 8)].rate;
    lone_run_with(lone, 100, (unsigned[]){7, 8}, 2, 0, true);
    lone_forget_sent(lone);
    *rate = 50000;
    lone_run_with(lone, 60, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HEARS), 1);
    assert_int_equal(lone_sent(lone, 7, PROTO_HEARS)->msg.hears.nodes[1].rate, 50000);
    *rate = 100000;
    lone_run_with(lone, 150, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HEARS), 1);
    lone_run_with(lone, 400, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HEARS), 2);
}

TEST(one_list_tells_of_many_that_come_at_once)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .peers_min = 90);
    unsigned ids[30];
    for (unsigned k = 0; k < 30; k++)
        lone_meet(lone, ids[k] = 10 + k);
    lone_run_with(lone, 1000, ids, 30, 0, true);
    assert_in_range(lone_sent_count(lone, 10, PROTO_HEARS), 1, 3);
    assert_int_equal(lone_sent(lone, 10, PROTO_HEARS)->msg.hears.count, 30);
}

/* test_pages.c - pages of checkpoints are asked for one by one, from one peer after another, and given to others
 * one at a time. */
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { STEP = 300, ROUND = 333, NUMBER = 7 };

static uint8_t body[PROTO_PAGE_MAX + 1];

/* Node 5 before its first state, in session with the nodes of ids[]. */
static struct lone *
before_the_first_round(const unsigned *ids, size_t count)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 9, .state_size = 10);
    for (size_t i = 0; i < count; i++) {
        lone_meet(lone, ids[i]);
        lone_beat(lone, ids[i], 0, false);
    }
    lone_forget_sent(lone);
    return lone;
}

static void
send_page(struct lone *lone, unsigned from, uint64_t round, uint64_t page, size_t size)
{
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {.object = PROTO_OBJECT_PAGE, .round = round, .label = STEP, .block = page}};
    msg.give.check = transfer_check(&msg.give, 0, body, size);
    lone_say_bulk(lone, from, &msg, body, size);
}

static void
want_page(struct lone *lone, unsigned from, uint64_t page)
{
    struct proto_msg msg = {
        .type = PROTO_FETCH,
        .fetch = {
            .object = PROTO_OBJECT_PAGE, .round = ROUND, .label = STEP, .block = page, .count = 1}};
    lone_say(lone, from, &msg);
}

static unsigned
asked(const struct lone *lone, const unsigned *ids, size_t count)
{
    unsigned all = 0;
    for (size_t i = 0; i < count; i++)
        all += lone_asked_count(lone, ids[i], LONE_PAGE) > 0 ? 1u << i : 0;
    return all;
}

TEST(one_peer_is_asked_and_its_page_handed_over)
{
    const unsigned ids[] = {6, 7, 8};
    OWNED(lone_destroy) struct lone *lone = before_the_first_round(ids, 3);
    core_want(lone->core, lone->now, STEP, 0, NUMBER);
    unsigned who = asked(lone, ids, 3);
    assert_int_equal(__builtin_popcount(who), 1);
    unsigned id = ids[__builtin_ctz(who)];
    const struct lone_sent *sent = lone_asked(lone, id, LONE_PAGE);
    assert_int_equal(sent->msg.fetch.label, STEP);
    assert_int_equal(sent->msg.fetch.round, 0);
    assert_int_equal(sent->msg.fetch.block, NUMBER);
    body[3] = 42;
    send_page(lone, ids[__builtin_ctz(~who)], ROUND, NUMBER, 9); /* of one that was not asked */
    send_page(lone, id, ROUND, NUMBER + 1, 9);                   /* another page */
    assert_false(lone->page_came);
    send_page(lone, id, ROUND, NUMBER, 9);
    assert_true(lone->page_came);
    assert_int_equal(lone->page_size, 9);
    assert_int_equal(lone->page.round, ROUND);
    assert_int_equal(lone->page_body[3], 42);
    send_page(lone, id, ROUND, NUMBER, 9); /* the contract of lone: once */
}

TEST(whoever_has_it_not_is_followed_by_the_next)
{
    const unsigned ids[] = {6, 7, 8};
    OWNED(lone_destroy) struct lone *lone = before_the_first_round(ids, 3);
    core_want(lone->core, lone->now, STEP, ROUND, NUMBER);
    unsigned before = 0;
    for (unsigned k = 0; k < 3; k++) {
        unsigned now = asked(lone, ids, 3), id = ids[__builtin_ctz(now & ~before)];
        assert_int_equal(__builtin_popcount(now), k + 1);
        before = now;
        if (k == 0)
            send_page(lone, id, 0, NUMBER, 0);
        else if (k == 1)
            send_page(lone, id, ROUND + 1, NUMBER, 9);
        else
            send_page(lone, id, ROUND, NUMBER, PROTO_PAGE_MAX + 1);
        assert_false(lone->page_came);
    }
    lone_run_with(lone, PAGES_REST_US / 1000 + 20, ids, 3, 0, false);
    assert_true(lone->page_came);
    assert_int_equal(lone->page_size, 0);
    assert_int_equal(lone_asked_count(lone, 6, LONE_PAGE), 1);
}

TEST(silence_death_and_late_arrival_are_borne)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = before_the_first_round(ids, 1);
    core_want(lone->core, lone->now, STEP, 0, NUMBER);
    assert_int_equal(lone_asked_count(lone, 6, LONE_PAGE), 1);
    lone_run_with(lone, FILES_ASK_US / 1000, ids, 1, 0, false);
    lone_meet(lone, 7);
    lone_beat(lone, 7, 0, false);
    assert_int_equal(lone_asked_count(lone, 7, LONE_PAGE), 0);
    lone_run_with(lone, 200, ids, 2, 0, false); /* 6 has had its time */
    assert_int_equal(lone_asked_count(lone, 7, LONE_PAGE), 1);
    lone_say(lone, 7, &(struct proto_msg){.type = PROTO_BYE});
    lone_run_with(lone, 20, ids, 1, 0, false);
    assert_int_equal(lone_asked_count(lone, 6, LONE_PAGE), 2); /* it may only have been slow */
    assert_false(lone->page_came);
    lone_run_with(lone, PAGES_PATIENCE_US / 1000, ids, 1, 0, false);
    assert_true(lone->page_came);
    assert_int_equal(lone->page_size, 0);
    unsigned before = lone_asked_count(lone, 6, LONE_PAGE);
    lone->page_came = false;
    core_want(lone->core, lone->now, STEP, 0,
              NUMBER); /* nobody is told that all were asked before */
    assert_int_equal(lone_asked_count(lone, 6, LONE_PAGE), before + 1);
}

TEST(alone_the_answer_is_no_after_a_while)
{
    OWNED(lone_destroy) struct lone *lone = before_the_first_round(NULL, 0);
    core_want(lone->core, lone->now, STEP, 0, NUMBER);
    assert_false(lone->page_came);
    lone_run(lone, PAGES_REST_US / 1000 + 20);
    assert_true(lone->page_came);
    assert_int_equal(lone->page_size, 0);
}

TEST(others_are_answered_one_at_a_time)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = before_the_first_round(ids, 2);
    want_page(lone, 6, 1);
    assert_true(lone->page_wanted);
    assert_int_equal(lone->page.step, STEP);
    assert_int_equal(lone->page.round, ROUND);
    assert_int_equal(lone->page.number, 1);
    want_page(lone, 7, 2);
    want_page(lone, 7, 3); /* takes the place of the one before */
    lone->page_wanted = false;
    core_on_page(lone->core, lone->now, ROUND, body, PROTO_PAGE_MAX);
    const struct lone_sent *sent = lone_gave(lone, 6, LONE_PAGE);
    assert_non_null(sent);
    assert_int_equal(sent->body_size, PROTO_PAGE_MAX);
    assert_int_equal(sent->msg.give.round, ROUND);
    assert_int_equal(sent->msg.give.block, 1);
    assert_true(lone->page_wanted);
    assert_int_equal(lone->page.number, 3);
    lone->page_wanted = false;
    core_on_page(lone->core, lone->now, 0, NULL, 0);
    sent = lone_gave(lone, 7, LONE_PAGE);
    assert_int_equal(sent->body_size, 0);
    assert_int_equal(sent->msg.give.round, 0);
    assert_int_equal(lone_gave_count(lone, 7, LONE_PAGE), 1);
}

TEST(one_that_left_is_not_answered)
{
    const unsigned ids[] = {6, 7};
    OWNED(lone_destroy) struct lone *lone = before_the_first_round(ids, 2);
    want_page(lone, 6, 1);
    want_page(lone, 7, 2);
    lone_say(lone, 7, &(struct proto_msg){.type = PROTO_BYE});
    lone_say(lone, 6, &(struct proto_msg){.type = PROTO_BYE});
    lone->page_wanted = false;
    core_on_page(lone->core, lone->now, ROUND, body, 9);
    assert_int_equal(lone_gave_count(lone, 6, LONE_PAGE), 0);
    assert_false(lone->page_wanted);
}

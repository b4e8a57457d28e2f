/* What a node gives to those that are behind: a copy of its state, and the totals since. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mesh/core/internal.h"
#include "tests/support/lone.h"

enum { BLOCKS = 40, SIZE = 39 * PROTO_BLOCK_MAX + 12345 };

static void
ask(struct lone *lone, unsigned id, uint64_t round)
{
    struct proto_msg msg = {.type = PROTO_FETCH, .fetch = {.round = round}};
    lone_say(lone, id, &msg);
}

static void
fetch(struct lone *lone, unsigned id, uint64_t round, uint64_t block, uint16_t count)
{
    struct proto_msg msg = {.type = PROTO_FETCH, .fetch = {round, block, count}};
    lone_say(lone, id, &msg);
}

static void
follow(struct lone *lone, unsigned id, uint64_t round, uint16_t count, bool again)
{
    struct proto_msg msg = {.type = PROTO_FOLLOW, .follow = {round, 0, count, again}};
    lone_say(lone, id, &msg);
}

/* Node 5 at round 4 trains alone; nodes 7 and 8 have come, and are at round 0. */
static struct lone *
ahead(size_t state_size)
{
    struct lone *lone =
        lone_new(&(struct lone_setup){.id = 5, .state_size = state_size, .unstarted = true});
    core_on_applied(lone->core, lone->now, &(struct core_state){.round = 4, .hash = 1004});
    lone_run(lone, 20);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_beat(lone, 7, 0, true);
    lone_beat(lone, 8, 0, true);
    lone_run(lone, 200);
    assert_true(lone->compute);
    return lone;
}

static void
step(struct lone *lone)
{
    uint64_t round = lone->core->round;
    for (int k = 0; k < 10 && lone->core->round == round; k++) {
        lone_train(lone);
        lone_run_with(lone, 50, (unsigned[]){7, 8}, 2, 0, true);
    }
    assert_int_equal(lone->core->round, round + 1);
}

static void
the_copy_is_of_the_round_named_and_equal_for_all(void **state)
{
    (void)state;
    struct lone *lone = ahead(64);
    ask(lone, 7, 5);
    ask(lone, 8, 6);
    lone_run(lone, 50);
    assert_null(lone_sent(lone, 7, PROTO_OFFER));
    step(lone);
    assert_int_equal(lone->core->round, 5);
    assert_int_equal(lone_sent(lone, 7, PROTO_OFFER)->msg.offer.round, 5);
    assert_int_equal(lone_sent(lone, 8, PROTO_OFFER)->msg.offer.round, 5);
    assert_int_equal(lone_sent(lone, 7, PROTO_OFFER)->msg.offer.state_hash, 78 + 4);
    lone->state[3] ^= 1; /* it goes on */
    step(lone);
    assert_int_equal(lone->state_in[3], 0);
    fetch(lone, 7, 5, 0, 1);
    assert_int_equal(lone_sent(lone, 7, PROTO_STATE)->body_size, 64);
    lone_destroy(&lone);
}

static void
a_large_copy_is_made_in_parts_and_complete_before_the_state_changes(void **state)
{
    (void)state;
    struct lone *lone = ahead(SIZE);
    memset(lone->state, 1, SIZE);
    ask(lone, 7, 4);
    assert_int_equal(lone->state_in[0], 1);
    assert_int_equal(lone->state_in[SIZE - 1], 0);
    assert_null(lone_sent(lone, 7, PROTO_OFFER));
    lone->compute = false;
    core_on_bucket(lone->core, lone->now, 0);
    core_on_bucket(lone->core, lone->now, 1);
    assert_true(lone->commit);
    assert_int_equal(lone->state_in[SIZE - 1], 1);
    memset(lone->state, 2, SIZE);
    lone_train(lone);
    assert_int_equal(lone_sent(lone, 7, PROTO_OFFER)->msg.offer.round, 4);
    assert_int_equal(lone_sent(lone, 7, PROTO_OFFER)->body_size, BLOCKS * sizeof(uint64_t));
    fetch(lone, 7, 4, BLOCKS - 2, 1000);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), 2);
    assert_int_equal(lone_sent(lone, 7, PROTO_STATE)->body_size, SIZE % PROTO_BLOCK_MAX);
    for (int k = 0; k < 1000; k++)
        fetch(lone, 7, 4, BLOCKS - 2, 1000); /* a storm */
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), 2);
    fetch(lone, 7, 5, 0, 1); /* no such copy */
    fetch(lone, 7, 4, BLOCKS, 1);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), 3);
    assert_int_equal(lone_sent(lone, 7, PROTO_STATE)->body_size, 0);
    fetch(lone, 7, 4, 0, 1000);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), 3 + SERVE_BLOCKS_MAX);
    lone_destroy(&lone);
}

static void
a_round_that_is_never_reached_is_not_waited_for(void **state)
{
    (void)state;
    struct lone *lone = ahead(64);
    ask(lone, 7, PROTO_ROUND_MAX);
    lone_run_with(lone, 250, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone_sent(lone, 7, PROTO_OFFER)->msg.offer.round, 4);
    lone_destroy(&lone);
}

static void
totals_are_pushed_as_far_as_was_allowed(void **state)
{
    (void)state;
    struct lone *lone = ahead(64);
    follow(lone, 7, 4, 2, true);
    assert_null(lone_sent(lone, 7, PROTO_TOTAL));
    step(lone);
    assert_int_equal(lone_sent(lone, 7, PROTO_TOTAL)->msg.total.round, 4);
    assert_int_equal(lone_sent(lone, 7, PROTO_TOTAL)->body_size, sizeof lone->sum);
    step(lone);
    step(lone);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_TOTAL), 2);
    follow(lone, 7, 5, 2, false);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_TOTAL), 3);
    assert_int_equal(lone_sent(lone, 7, PROTO_TOTAL)->msg.total.round, 6);
    follow(lone, 7, 5, 2, true); /* it lost some */
    assert_int_equal(lone_sent_count(lone, 7, PROTO_TOTAL), 5);
    follow(lone, 8, 9, 2, true); /* is ahead */
    step(lone);
    assert_null(lone_sent(lone, 8, PROTO_TOTAL));
    lone_destroy(&lone);
}

static void
who_is_too_slow_for_the_log_is_told(void **state)
{
    (void)state;
    struct lone *lone = ahead(64);
    follow(lone, 7, 4, 1, true);
    for (int k = 0; k < 6; k++) /* the log has room for four */
        step(lone);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_TOTAL), 1);
    follow(lone, 7, 6, 1, false);
    assert_int_equal(lone_sent(lone, 7, PROTO_TOTAL)->msg.total.round, 6);
    assert_int_equal(lone_sent(lone, 7, PROTO_TOTAL)->body_size, sizeof lone->sum);
    follow(lone, 8, 5, 1, true);
    assert_int_equal(lone_sent(lone, 8, PROTO_TOTAL)->msg.total.round, 5);
    assert_int_equal(lone_sent(lone, 8, PROTO_TOTAL)->body_size, 0);
    lone_destroy(&lone);
}

static void
nothing_is_kept_when_nobody_asks_any_more(void **state)
{
    (void)state;
    struct lone *lone = ahead(64);
    ask(lone, 7, 4);
    assert_true(lone->core->serve.logs);
    lone_run_with(lone, 2500, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->core->serve.state, SERVE_COPIED);
    assert_int_equal(lone->forgets, 0);
    lone_run_with(lone, 1000, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->forgets, 1);
    assert_int_equal(lone->core->serve.state, SERVE_NONE);
    assert_false(lone->core->serve.logs);
    fetch(lone, 7, 4, 0, 1);
    assert_int_equal(lone_sent(lone, 7, PROTO_STATE)->body_size, 0);
    lone_run_with(lone, 4000, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->forgets, 1); /* there was nothing more */
    follow(lone, 7, lone->core->round, 1, true);
    lone_run_with(lone, 4000, (unsigned[]){7, 8}, 2, 0, true);
    assert_int_equal(lone->forgets, 2);
    lone_destroy(&lone);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_copy_is_of_the_round_named_and_equal_for_all),
        cmocka_unit_test(a_large_copy_is_made_in_parts_and_complete_before_the_state_changes),
        cmocka_unit_test(a_round_that_is_never_reached_is_not_waited_for),
        cmocka_unit_test(totals_are_pushed_as_far_as_was_allowed),
        cmocka_unit_test(who_is_too_slow_for_the_log_is_told),
        cmocka_unit_test(nothing_is_kept_when_nobody_asks_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

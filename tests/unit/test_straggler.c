/* Whom a leader leaves out, and what becomes of who was left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mesh/core/group/straggler.h"
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/rand.h"

enum { MS = 1000, FAST = 100000000 }; /* a shard in 10 ms */

/* n equal members that need 1 ms for their lines, and as long for a round as predicted. */
static struct straggler_input
equal(size_t n)
{
    struct straggler_input view = {.n = n, .shards = 12};
    for (size_t a = 0; a < n; a++) {
        view.speed[a] = FAST;
        view.apply_us[a] = MS;
        for (size_t b = 0; b < n; b++)
            view.lag_us[a][b] = a == b ? 0 : MS;
    }
    view.round_us = straggler_predict(&view, (UINT64_C(1) << n) - 1);
    return view;
}

static void
line_of(struct straggler_input *view, size_t m, uint32_t us)
{
    for (size_t k = 0; k < view->n; k++)
        if (k != m)
            view->lag_us[m][k] = view->lag_us[k][m] = us;
    view->round_us = straggler_predict(view, (UINT64_C(1) << view->n) - 1);
}

static void
equals_stay_together(void **state)
{
    (void)state;
    for (size_t n = 1; n < 64; n++) {
        struct straggler_input view = equal(n);
        assert_true(straggler_decide(&view) == 0);
    }
}

static void
who_costs_more_than_it_computes_is_left_out(void **state)
{
    (void)state;
    for (size_t m = 0; m < 4; m++) {
        struct straggler_input view = equal(4); /* 30 ms of computing; 40 without one */
        line_of(&view, m, 10 * MS);
        assert_true(straggler_decide(&view) == 0);
        line_of(&view, m, 100 * MS);
        assert_true(straggler_decide(&view) == UINT64_C(1) << m);
        view.round_us = 45 * MS; /* it overlaps with computing */
        assert_true(straggler_decide(&view) == 0);
    }
}

static void
in_a_ring_the_slow_one_has_two_bad_lines_and_its_neighbours_one(void **state)
{
    (void)state;
    struct straggler_input view = equal(5);
    for (size_t m = 0; m < 5; m++)
        view.lag_us[(m + 1) % 5][m] = 2 * MS;
    view.lag_us[3][2] = 90 * MS;
    view.lag_us[4][3] = 95 * MS;
    view.round_us = 150 * MS;
    assert_true(straggler_decide(&view) == 1 << 3);
}

/* The sender of a slow line has sent little else, and its receiver looks as bad. */
static void
of_a_slow_line_one_end_stays(void **state)
{
    (void)state;
    for (size_t m = 0; m < 4; m++) {
        struct straggler_input view = equal(4);
        view.lag_us[(m + 1) % 4][m] = 100 * MS;
        view.round_us = straggler_predict(&view, 15);
        uint64_t out = straggler_decide(&view);
        assert_true(out == UINT64_C(1) << m || out == UINT64_C(1) << (m + 1) % 4);
    }
    struct straggler_input view = equal(4);
    view.lag_us[3][2] = 100 * MS;
    for (size_t m = 0; m < 4; m++)
        if (m != 1)
            view.lag_us[1][m] = view.lag_us[m][1] = 60 * MS; /* worse in sum */
    view.round_us = straggler_predict(&view, 15);
    uint64_t out = straggler_decide(&view);
    assert_true(out == (1 << 1 | 1 << 2) || out == (1 << 1 | 1 << 3));
}

static void
several_are_left_out_at_once(void **state)
{
    (void)state;
    struct straggler_input view = equal(6);
    line_of(&view, 1, 100 * MS);
    line_of(&view, 4, 120 * MS);
    assert_true(straggler_decide(&view) == (1 << 1 | 1 << 4));
}

static void
a_processor_that_only_applies_slowly_is_left_out(void **state)
{
    (void)state;
    struct straggler_input view = equal(4);
    view.speed[2] = FAST / 10;
    view.apply_us[2] = 60 * MS;
    view.round_us = straggler_predict(&view, 15);
    assert_true(straggler_decide(&view) == 1 << 2);
}

static void
of_two_the_faster_one_stays(void **state)
{
    (void)state;
    struct straggler_input view = equal(2);
    view.speed[1] = 2 * FAST;
    line_of(&view, 0, 200 * MS);
    assert_true(straggler_decide(&view) == 1 << 0);
    line_of(&view, 0, 20 * MS); /* 40 + 20 against 60 */
    assert_true(straggler_decide(&view) == 0);
}

static void
nothing_is_decided_without_speeds(void **state)
{
    (void)state;
    struct straggler_input view = equal(3);
    line_of(&view, 1, 900 * MS);
    memset(view.speed, 0, sizeof view.speed);
    assert_true(straggler_decide(&view) == 0);
    view.speed[0] = FAST;
    assert_true(straggler_decide(&view) == 1 << 1);
}

/* Never everybody, and never without gain, whatever the members say of themselves. */
static void
any_claims_leave_somebody(void **state)
{
    (void)state;
    struct rand rand = {7};
    static struct straggler_input view;
    for (int k = 0; k < 300; k++) {
        memset(&view, 0, sizeof view);
        view.n = (size_t)rand_range(&rand, 1, PROTO_PEERS_MAX);
        view.shards = (unsigned)rand_range(&rand, 1, PROTO_SHARDS_MAX);
        view.round_us = rand_any(&rand);
        for (size_t a = 0; a < view.n; a++) {
            view.speed[a] = (uint32_t)rand_any(&rand);
            view.apply_us[a] = (uint32_t)rand_any(&rand);
            for (size_t b = 0; b < view.n; b++)
                view.lag_us[a][b] = (uint32_t)rand_any(&rand);
        }
        uint64_t all = view.n == 64 ? UINT64_MAX : (UINT64_C(1) << view.n) - 1;
        uint64_t out = straggler_decide(&view);
        assert_true((out & ~all) == 0 && out != all);
        assert_true(!out || straggler_predict(&view, all & ~out) < straggler_predict(&view, all));
    }
}

/* --- Left out ---------------------------------------------------------------------------------- */

static void
benches(struct lone *lone, unsigned id, uint64_t with_us, uint64_t without_us)
{
    struct proto_msg msg = {.type = PROTO_BENCH,
                            .bench = {.with_us = with_us, .without_us = without_us}};
    lone_say(lone, id, &msg);
}

/* The nodes of ids[] beat for `ms` and commit a round with each beat. */
static void
others_train(struct lone *lone, unsigned ms, uint64_t *round)
{
    for (unsigned t = 0; t < ms; t += 50) {
        lone_beat(lone, 5, ++*round, false);
        lone_beat(lone, 6, *round, false);
        lone_run(lone, 50);
    }
}

/* It has a state, and has met nodes 5 and 6, which lead. */
static struct lone *
third_of_three(void)
{
    struct lone *lone = lone_new(&(struct lone_setup){.id = 7, .unstarted = true});
    for (unsigned id = 5; id <= 6; id++)
        lone_meet(lone, id);
    for (unsigned id = 5; id <= 6; id++)
        lone_beat(lone, id, 1, true);
    lone->round = 1;
    core_on_applied(lone->core, lone->now, &(struct core_state){.round = 1, .hash = 78});
    assert_false(lone->compute);
    return lone;
}

static void
who_is_left_out_says_so_and_waits(void **state)
{
    (void)state;
    struct lone *lone = third_of_three();
    uint64_t round = 1;
    benches(lone, 5, 800 * MS, 50 * MS);
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_int_equal(lone_logged(lone, "leave this node out for 2 s"), 1);
    others_train(lone, 1900, &round);
    assert_false(lone->compute); /* not even starved */
    assert_true(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_in_range(lone_sent_count(lone, 5, PROTO_FETCH) + lone_sent_count(lone, 6, PROTO_FETCH),
                    1, 100);
    others_train(lone, 200, &round);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    benches(lone, 5, 800 * MS, 50 * MS);
    assert_int_equal(lone_logged(lone, "leave this node out for 4 s"), 1);
    benches(lone, 5, 0, 0);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    lone_destroy(&lone);
}

static void
who_is_left_out_goes_on_when_nobody_else_does(void **state)
{
    (void)state;
    struct lone *lone = third_of_three();
    uint64_t round = 1;
    benches(lone, 5, 800 * MS, 50 * MS);
    others_train(lone, 1000, &round);
    lone_down(lone, 5);
    lone_down(lone, 6);
    lone_run(lone, 1000);
    assert_true(lone->compute);
    assert_int_equal(lone->shards, (1 << LONE_SHARDS) - 1);
    lone_destroy(&lone);
    lone = third_of_three();
    benches(lone, 5, 800 * MS, 50 * MS); /* they beat, and do nothing */
    lone_run_with(lone, STRAGGLER_MOVED_US / 1000 + 1000, (unsigned[]){5, 6}, 2, 1, true);
    assert_false(lone_sent(lone, 5, PROTO_HEARTBEAT)->msg.heartbeat.benched);
    assert_true(lone->compute);
    lone_destroy(&lone);
}

static void
who_says_it_was_left_out_is_not_planned_for(void **state)
{
    (void)state;
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5, .peers_min = 3});
    lone_meet(lone, 6);
    lone_meet(lone, 7);
    lone_beat(lone, 6, 0, true);
    lone_beat(lone, 7, 0, true);
    lone_beat(lone, 6, 0, true);
    lone_run(lone, 10);
    assert_int_equal(lone_sent(lone, 6, PROTO_PLAN)->msg.plan.count, 3);
    struct proto_msg msg = {.type = PROTO_HEARTBEAT, .heartbeat = {.idle = true, .benched = true}};
    struct proto_hears hears = {.count = 2};
    hears.nodes[0].node = lone_node(lone, 5);
    hears.nodes[1].node = lone_node(lone, 6);
    lone_say_beat(lone, 7, &msg, &hears);
    lone_return(lone);
    struct proto_msg over = {.type = PROTO_ABORT,
                             .abort.plan_hash =
                                 lone_sent(lone, 6, PROTO_REDUCE)
                                     ? lone_sent(lone, 6, PROTO_REDUCE)->msg.chunk.plan_hash
                                     : proto_plan_hash(&lone_sent(lone, 6, PROTO_PLAN)->msg.plan)};
    lone_say(lone, 7, &over);
    lone_beat(lone, 6, 0, true);
    lone_run(lone, 50);
    assert_int_equal(lone_sent(lone, 6, PROTO_PLAN)->msg.plan.count, 2);
    lone_forget_sent(lone);
    for (int k = 0; k < 40; k++) {
        lone_say(lone, 7, &msg);
        lone_beat(lone, 6, 0, false);
        lone_run(lone, 50);
    }
    assert_null(lone_sent(lone, 6, PROTO_HOLD));
    lone_destroy(&lone);
}

/* Rounds of a rationed processor: quick ones, and one in which it is stopped. Is somebody called back who was left out
 * when a round took `before_us`? */
static bool
called_back(uint64_t before_us, uint64_t quick_us, uint64_t stopped_us)
{
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5});
    lone_run(lone, 1000);
    assert_true(lone->core->plan.active && plan_leads(&lone->core->plan, lone->core->config.self));
    struct straggler *s = &lone->core->straggler;
    s->full = true;
    s->before_us = before_us;
    for (int k = 0; s->before_us > 0; k++) {
        assert_in_range(k, 0, 100);
        straggler_round(s, lone->core, k % 4 == 3 ? stopped_us : quick_us);
    }
    bool called = lone_logged(lone, "they may come back") == 1;
    lone_destroy(&lone);
    return called;
}

static void
leaving_out_is_judged_by_what_rounds_take_on_average(void **state)
{
    (void)state;
    assert_true(called_back(79 * MS, 26 * MS, 400 * MS));
    assert_true(called_back(79 * MS, 75 * MS, 75 * MS));
    assert_false(called_back(79 * MS, 26 * MS, 26 * MS));
    assert_false(called_back(79 * MS, 26 * MS, 120 * MS));
}

static void
predictions_are_taken_for_as_wrong_as_the_last_one(void **state)
{
    (void)state;
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5});
    lone_run(lone, 1000);
    struct straggler *s = &lone->core->straggler;
    assert_int_equal(straggler_sober(s, lone->core, 6 * MS), 6 * MS);
    s->full = true;
    s->before_us = 500 * MS;
    s->predicted_us = 10 * MS;
    for (int k = 0; s->before_us > 0; k++) {
        assert_in_range(k, 0, 100);
        straggler_round(s, lone->core, 150 * MS);
    }
    assert_int_equal(straggler_sober(s, lone->core, 6 * MS), 90 * MS);
    lone->core->awake.us += STRAGGLER_ERR_US;
    assert_int_equal(straggler_sober(s, lone->core, 6 * MS), 6 * MS);
    lone_destroy(&lone);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_stay_together),
        cmocka_unit_test(who_costs_more_than_it_computes_is_left_out),
        cmocka_unit_test(in_a_ring_the_slow_one_has_two_bad_lines_and_its_neighbours_one),
        cmocka_unit_test(of_a_slow_line_one_end_stays),
        cmocka_unit_test(several_are_left_out_at_once),
        cmocka_unit_test(a_processor_that_only_applies_slowly_is_left_out),
        cmocka_unit_test(of_two_the_faster_one_stays),
        cmocka_unit_test(nothing_is_decided_without_speeds),
        cmocka_unit_test(any_claims_leave_somebody),
        cmocka_unit_test(who_is_left_out_says_so_and_waits),
        cmocka_unit_test(who_is_left_out_goes_on_when_nobody_else_does),
        cmocka_unit_test(who_says_it_was_left_out_is_not_planned_for),
        cmocka_unit_test(leaving_out_is_judged_by_what_rounds_take_on_average),
        cmocka_unit_test(predictions_are_taken_for_as_wrong_as_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

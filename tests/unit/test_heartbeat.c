/* test_heartbeat.c - a node that is late blames neither the others nor its trainer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mesh/core/internal.h"
#include "mesh/net/actor_starve.h"
#include "tests/support/lone.h"

static const unsigned both[] = {7, 8};

/* Node 5 with 7 and 8, both idle at its round. */
static struct lone *
meet(void)
{
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5});
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_run_with(lone, 300, both, 2, 0, true);
    assert_true(lone->compute);
    return lone;
}

static void
time_without_a_processor_is_not_busy_time(void **state)
{
    (void)state;
    struct lone *lone = meet();
    lone_run_with(lone, 200, both, 2, 0, false);
    uint64_t busy_us = contribution_busy_us(&lone->core->contribution, lone->core->awake);
    assert_true(busy_us > 200000);
    core_on_starved(lone->core, lone->now, 150000);
    assert_int_equal(contribution_busy_us(&lone->core->contribution, lone->core->awake),
                     busy_us - 150000);
    core_on_starved(lone->core, lone->now, 1000000000); /* of several threads, or counted late */
    assert_int_equal(contribution_busy_us(&lone->core->contribution, lone->core->awake), 1);
    lone_run_with(lone, 100, both, 2, 0, false);
    busy_us = contribution_busy_us(&lone->core->contribution, lone->core->awake);
    assert_true(busy_us > 90000);
    core_on_starved(lone->core, lone->now, 0); /* it hangs */
    assert_int_equal(contribution_busy_us(&lone->core->contribution, lone->core->awake), busy_us);
    lone_train(lone);
    core_on_starved(lone->core, lone->now, 1000000000);
    lone_destroy(&lone);
}

/* Messages of 8 come without a break, but the ticks are late: what 7 sent may wait, too. */
static void
late_ticks_stretch_deadlines_though_messages_come(void **state)
{
    (void)state;
    struct lone *lone = meet();
    const struct proto_msg alive = {.type = PROTO_PEERS};
    struct awake awake = lone->core->awake;
    for (unsigned k = 0; k < 100; k++) {
        lone->now += 5000;
        lone_say(lone, 8, &alive);
    }
    core_on_tick(lone->core, lone->now);
    assert_true(awake_since(lone->core->awake, awake) <= CORE_GAP_MAX_US);
    int i = peers_find(lone->core, lone_node(lone, 7));
    assert_true(i >= 0);
    assert_false(lone->core->view.of[i].suspected);
    for (unsigned k = 0; k < 100; k++) { /* and where ticks come in time, 7 is silent */
        lone->now += 5000;
        lone_say(lone, 8, &alive);
        if (k % 2)
            core_on_tick(lone->core, lone->now);
    }
    assert_true(lone->core->view.of[i].suspected);
    lone_destroy(&lone);
}

/* A message that says nothing else keeps a peer alive: its core may be busy. */
static void
an_empty_list_of_peers_says_that_a_node_is_alive(void **state)
{
    (void)state;
    struct lone *lone = meet();
    const struct proto_msg alive = {.type = PROTO_PEERS};
    for (unsigned k = 0; k < 20; k++) {
        lone_say(lone, 7, &alive);
        lone_run(lone, 50);
    }
    int seven = peers_find(lone->core, lone_node(lone, 7));
    int eight = peers_find(lone->core, lone_node(lone, 8));
    assert_false(lone->core->view.of[seven].suspected);
    assert_true(lone->core->view.of[eight].suspected);
    lone_destroy(&lone);
}

static void
threads_that_did_not_wait_add_nothing(void **state)
{
    (void)state;
    struct starve starve = {.count = 0};
    assert_int_equal(starve_us(&starve), 0); /* the first call */
    assert_true(starve.count <= STARVE_THREADS_MAX);
    if (starve.count == 0)
        return;                               /* this system does not count */
    starve.threads[0].waited_ns = UINT64_MAX; /* a number that was taken again */
    assert_true(starve_us(&starve) < 1000000000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_without_a_processor_is_not_busy_time),
        cmocka_unit_test(late_ticks_stretch_deadlines_though_messages_come),
        cmocka_unit_test(an_empty_list_of_peers_says_that_a_node_is_alive),
        cmocka_unit_test(threads_that_did_not_wait_add_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

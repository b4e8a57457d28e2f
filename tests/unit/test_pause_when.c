/* COMMAND of --pause-when is asked again and again, and never waited for. */
#include "node/train/pause_when.h"

#include <stdio.h>
#include <unistd.h>

#include "proto/clock.h"
#include "tests/support/test.h"

enum { PATIENCE_US = 20000000 };

/* Asks, by a clock of its own that each look sets forward by `step_us`, 0: by a second where COMMAND has ended, until
 * the answer is this. */
static bool
asks_until(struct pause_when *when, bool answer, uint64_t step_us, struct why *first)
{
    struct why why;
    uint64_t end_us = clock_us() + PATIENCE_US, now_us = 1;
    *first = (struct why){""};
    while (clock_us() < end_us) {
        now_us += step_us > 0 || when->pid > 0 ? step_us : PAUSE_WHEN_US;
        bool in_use = pause_when_ask(when, now_us, &why);
        if (why.line[0]) {
            assert_string_equal(first->line, "");
            *first = why;
        }
        if (in_use == answer && (when->pid == 0 || when->in_use))
            return true;
        usleep(1000);
    }
    return false;
}

TEST(status_0_says_that_the_machine_is_in_use)
{
    struct why why;
    struct pause_when when = {.command = "true"};
    assert_true(asks_until(&when, true, 0, &why));
    assert_string_equal(why.line, "");
    when.command = "exit 1";
    assert_true(asks_until(&when, false, 0, &why));
    assert_string_equal(why.line, "");
    pause_when_fini(&when);
}

TEST(without_a_command_nobody_is_asked)
{
    struct why why;
    struct pause_when when = {.command = NULL};
    assert_false(pause_when_ask(&when, 1, &why));
    when.command = "";
    assert_false(pause_when_ask(&when, 1, &why));
    assert_int_equal(when.pid, 0);
    pause_when_fini(&when);
}

TEST(a_command_that_does_not_end_is_killed_and_named_once)
{
    struct why why;
    struct pause_when when = {.command = "sleep 1000"};
    assert_true(asks_until(&when, true, 3000000, &why));
    assert_string_equal(
        why.line,
        "--pause-when sleep 1000: it did not end within 10 s, so the machine counts as in use");
    assert_true(asks_until(&when, true, 3000000, &why));
    assert_string_equal(why.line, "");
    pause_when_fini(&when);
    assert_int_equal(when.pid, 0);
}

TEST(a_command_that_is_not_there_is_named_once)
{
    struct why why, later;
    struct pause_when when = {.command = "no-such-command-anywhere"};
    uint64_t end_us = clock_us() + PATIENCE_US;
    for (why.line[0] = '\0'; !why.line[0] && clock_us() < end_us; usleep(1000))
        assert_false(pause_when_ask(&when, clock_us(), &why));
    assert_string_equal(
        why.line, "--pause-when no-such-command-anywhere: sh cannot run it, so the machine never "
                  "counts as in use");
    assert_true(asks_until(&when, false, 0, &later));
    assert_string_equal(later.line, "");
    pause_when_fini(&when);
}

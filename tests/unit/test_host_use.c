/* What Linux says of how much others use this machine, from a folder made for it; and what it gives up for them. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): sched_getaffinity, SCHED_IDLE */
#include "node/base/host_use.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

FOLDER_EACH

TEST(time_without_nice_counts_on_the_cpus_that_this_process_may_use)
{
    char text[512];
    cpu_set_t ours;
    unsigned cpu = 0;
    struct host_use use;
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    while (!CPU_ISSET(cpu, &ours))
        cpu++;
    snprintf(text, sizeof text,
             "cpu  999 999 999 9 9 9 9 0 0 0\ncpu%u 30 700 5 800 1 2 3 0 0 0\n"
             "cpu%d 400 1 50 800 1 2 3 0 0 0\nintr 5 7\n",
             cpu, CPU_SETSIZE + 1);
    folder_text(&folder, "proc/stat", text);
    folder_text(&folder, "proc/pressure/cpu",
                "some avg10=1.50 avg60=0.00 avg300=0.00 total=1234567\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    host_use_read(folder.path, &use);
    assert_int_equal(use.busy_us, 35 * 1000000 / sysconf(_SC_CLK_TCK));
    assert_int_equal(use.waits_us, 1234567);
    assert_true(use.own_us > 0);
    assert_true(use.now_us > 0);
}

TEST(what_is_not_there_is_0)
{
    struct host_use use;
    uint64_t ran_us = 1, waited_us = 1;
    host_use_read("/nonexistent", &use);
    assert_int_equal(use.busy_us + use.waits_us, 0);
    host_use_thread("/nonexistent", 1, &ran_us, &waited_us);
    assert_int_equal(ran_us + waited_us, 0);
    folder_text(&folder, "proc/stat", "nonsense\n");
    folder_text(&folder, "proc/pressure/cpu", "some more\n");
    host_use_read(folder.path, &use);
    assert_int_equal(use.busy_us + use.waits_us, 0);
}

TEST(a_thread_has_run_and_waited)
{
    uint64_t ran_us, waited_us;
    folder_text(&folder, "proc/self/task/17/schedstat", "5000000 7000000 3\n");
    host_use_thread(folder.path, 17, &ran_us, &waited_us);
    assert_int_equal(ran_us, 5000);
    assert_int_equal(waited_us, 7000);
}

/* Last: a process does not come back from there. */
TEST(a_process_gives_up_its_rights)
{
    struct why why;
    const int before = getpriority(PRIO_PROCESS, 0); /* `nice make test` */
    assert_in_range(before + 5, 0, 19);
    assert_int_equal(host_nice(0, &why), 0);
    assert_int_equal(host_nice((unsigned)before + 5, &why), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before + 5);
    assert_int_equal(host_nice((unsigned)before + 3, &why), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before + 5);
    (void)host_idle_disk();
    assert_int_equal(host_idle_thread(), 0);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), 19);
}

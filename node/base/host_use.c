/* host_use.c - reads /proc, and asks Linux for less. See host_use.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): sched_getaffinity, SCHED_IDLE, syscall */
#include "node/base/host_use.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/clock.h"

enum {
    PATH_SIZE = 4096,
    LINE = 512,
    NICE_MOST = 19,
    /* of linux/ioprio.h, which older systems do not have: this thread; class idle, in the upper bits */
    IOPRIO_THREAD = 1,
    IOPRIO_IDLE = 3 << 13,
};

static FILE *
open_proc(const char *root, const char *name)
{
    char path[PATH_SIZE];
    int size = snprintf(path, sizeof path, "%s/proc/%s", root, name);
    return size > 0 && (size_t)size < sizeof path ? fopen(path, "re") : NULL;
}

static bool
is_ours(const cpu_set_t *ours, unsigned cpu)
{
    return cpu < CPU_SETSIZE && CPU_ISSET(cpu, ours);
}

/* "cpu3 user nice system idle ...": user and system, in ticks. */
static uint64_t
busy_ticks(FILE *file, const cpu_set_t *ours)
{
    char line[LINE];
    uint64_t ticks = 0, user, kernel;
    unsigned cpu;
    while (fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0)
        if (sscanf(line, "cpu%u %" SCNu64 " %*u %" SCNu64, &cpu, &user, &kernel) == 3 &&
            is_ours(ours, cpu))
            ticks += user + kernel;
    return ticks;
}

static uint64_t
read_busy(const char *root)
{
    cpu_set_t ours;
    const long per_second = sysconf(_SC_CLK_TCK);
    FILE *file = open_proc(root, "stat");
    if (!file || per_second <= 0 || sched_getaffinity(0, sizeof ours, &ours) != 0) {
        if (file)
            fclose(file);
        return 0;
    }
    uint64_t ticks = busy_ticks(file, &ours);
    fclose(file);
    return ticks * 1000000 / (uint64_t)per_second;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" */
static uint64_t
read_waits(const char *root)
{
    uint64_t total = 0;
    FILE *file = open_proc(root, "pressure/cpu");
    if (!file)
        return 0;
    if (fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%" SCNu64, &total) != 1)
        total = 0;
    fclose(file);
    return total;
}

static uint64_t
own_cpu_us(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void
host_use_read(const char *root, struct host_use *out)
{
    *out = (struct host_use){.now_us = clock_us(),
                             .busy_us = read_busy(root),
                             .waits_us = read_waits(root),
                             .own_us = own_cpu_us()};
}

void
host_use_thread(const char *root, int tid, uint64_t *ran_us, uint64_t *waited_us)
{
    char name[64];
    uint64_t ran_ns = 0, waited_ns = 0;
    snprintf(name, sizeof name, "self/task/%d/schedstat", tid);
    FILE *file = open_proc(root, name);
    bool known = file && fscanf(file, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) == 2;
    if (file)
        fclose(file);
    *ran_us = known ? ran_ns / 1000 : 0;
    *waited_us = known ? waited_ns / 1000 : 0;
}

int
host_idle_thread(void)
{
    const struct sched_param none = {.sched_priority = 0};
    int rc = setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE_MOST);
    rc = rc ? rc : sched_setscheduler(0, SCHED_IDLE, &none);
    return rc ? -errno : 0;
}

int
host_idle_disk(void)
{
    return syscall(SYS_ioprio_set, IOPRIO_THREAD, 0, IOPRIO_IDLE) == 0 ? 0 : -errno;
}

int
host_nice(unsigned nice, struct why *why)
{
    errno = 0;
    int now = getpriority(PRIO_PROCESS, 0);
    bool less = errno == 0 && now < (int)nice;
    if (!less || setpriority(PRIO_PROCESS, 0, (int)nice) == 0)
        return 0;
    return why_error(why, -errno, "--nice %u: %s", nice, strerror(errno));
}

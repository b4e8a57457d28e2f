/* host.c - what this machine offers. See host.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): sched_getaffinity, CPU_COUNT */
#include "node/base/host.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nn/nn.h"
#include "proto/text.h"

void
host_name(const char *name, char *out, size_t size)
{
    char machine[256] = "";
    if (!name[0] && gethostname(machine, sizeof machine - 1) == 0)
        machine[strcspn(machine, ".")] = '\0';
    text_copy(out, size, name[0] ? name : machine);
}

unsigned
host_cpus(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (unsigned)count : 1;
}

/* Alone one gets by with the need. A link takes four; connections of strangers must not use up the wish. */
int
host_descriptors(struct why *why)
{
    enum { NEED = 64, WISH = 4096 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t most = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > WISH ? WISH : limit.rlim_max;
    if (limit.rlim_cur < most) {
        limit.rlim_cur = most;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= NEED)
        return 0;
    return why_error(why, -EMFILE,
                     "at most %ju open files are allowed (ulimit -n), expected at least %d",
                     limit.rlim_cur, NEED);
}

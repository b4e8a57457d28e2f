/* host.c - what this machine offers: CPUs, and what may compute a job's products. See host.h.
 *
 * The variable MESHNODE_PINNED holds the run.numerics that the environment was prepared for: a process
 * that finds it there does not execute itself again, and children inherit all of it. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): sched_getaffinity, CPU_COUNT */
#include "node/commands/host.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nn/nn.h"
#include "proto/text.h"

struct kernel {
    const char *numerics;
    const char *coretype; /* what OpenBLAS calls it; NULL: our own loop */
    const char *needs;    /* for messages */
    bool (*usable)(void);
};

static bool
always(void)
{
    return true;
}

#if defined(__x86_64__)
static bool
has_avx(void)
{
    return __builtin_cpu_supports("avx") != 0;
}

static bool
has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool
has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Where adders stand beside the multipliers, our own loop is as fast as one of fused operations, and faster on
 * the few rows of a shard; on many rows at once OpenBLAS is. */
static bool
own_is_fastest(void)
{
    return __builtin_cpu_is("amd") && !has_avx512();
}
#else
static bool
own_is_fastest(void)
{
    return true;
}
#endif

/* The fastest first. */
static const struct kernel kernels[] = {
#if defined(__x86_64__)
    {"skylakex", "SkylakeX", "AVX-512", has_avx512},
    {"haswell", "Haswell", "AVX2 and FMA", has_avx2},
    {"zen", "Zen", "AVX2 and FMA", has_avx2},
    {"sandybridge", "Sandybridge", "AVX", has_avx},
#endif
    {"portable", NULL, "", always},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };
static const struct kernel *const portable = &kernels[KERNELS - 1];

/* NULL when it is not known here. */
static const struct kernel *
kernel_find(const char *numerics, bool exact)
{
    const struct kernel *kernel = kernels;
    if (strcmp(numerics, "auto") == 0) {
        while (!kernel->usable())
            kernel++;
        return exact && own_is_fastest() ? portable : kernel;
    }
    while (kernel < kernels + KERNELS && strcmp(kernel->numerics, numerics) != 0)
        kernel++;
    return kernel < kernels + KERNELS ? kernel : NULL;
}

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

/* A link takes four descriptors, a mesh of 64 nodes less than the wish; alone one gets by with the need. */
int
host_descriptors(char *why, size_t why_size)
{
    enum { NEED = 64, WISH = 1024 };
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
    snprintf(why, why_size, "at most %llu open files are allowed (ulimit -n), expected at least %d",
             (unsigned long long)limit.rlim_cur, NEED);
    return -EMFILE;
}

/* Idle threads of the library's pool would spin for 2^26 cycles; 2^4 is its least. */
static bool
prepare(const struct kernel *kernel)
{
    bool core = kernel->coretype ? setenv("OPENBLAS_CORETYPE", kernel->coretype, 1) == 0
                                 : unsetenv("OPENBLAS_CORETYPE") == 0;
    return core && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0 &&
           setenv("OPENBLAS_THREAD_TIMEOUT", "4", 1) == 0 &&
           setenv("MESHNODE_PINNED", kernel->numerics, 1) == 0;
}

/* The environment is prepared; a library built for one kernel, or without this one, does not heed it. */
static bool
runs(const struct kernel *kernel)
{
    static const char library[] = "openblas ";
    const char *name = nn_init(kernel->numerics);
    return !kernel->coretype || (strncmp(name, library, sizeof library - 1) == 0 &&
                                 strncasecmp(name + sizeof library - 1, kernel->coretype,
                                             strlen(kernel->coretype)) == 0);
}

bool
host_pinned(void)
{
    return getenv("MESHNODE_PINNED") != NULL;
}

const char *
host_pin(const char *numerics, bool exact, char *const argv[], char *why, size_t why_size)
{
    const struct kernel *kernel = kernel_find(numerics, exact);
    const char *pinned = getenv("MESHNODE_PINNED");
    if (!kernel || !kernel->usable()) {
        snprintf(why, why_size, "run.numerics = %s, this CPU lacks %s; 'portable' runs everywhere",
                 numerics, kernel ? kernel->needs : "such a kernel");
        return NULL;
    }
    if (!pinned || strcmp(pinned, kernel->numerics) != 0) {
        if (prepare(kernel))
            execv("/proc/self/exe", argv);
        snprintf(why, why_size,
                 "cannot execute itself again with run.numerics = %s: %s; is /proc mounted?",
                 kernel->numerics, strerror(errno));
        return NULL;
    }
    if (!runs(kernel) && strcmp(numerics, "auto") == 0)
        kernel = portable;
    if (runs(kernel))
        return kernel->numerics;
    snprintf(why, why_size, "run.numerics = %s, this OpenBLAS lacks it; 'portable' runs everywhere",
             numerics);
    return NULL;
}

/* host.c - what this machine offers: CPUs, and the BLAS kernel a job asks for. See host.h.
 *
 * The variable MESHNODE_PINNED holds the run.numerics that the environment was prepared for: a process
 * that finds it there does not execute itself again, and children inherit all of it. */
#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT */
#include "node/host.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct kernel {
    const char *numerics;
    const char *coretype; /* what OPENBLAS_CORETYPE calls it; NULL: let the library choose */
    const char *needs;    /* for messages */
    bool (*usable)(void); /* NULL: everywhere */
};

#if defined(__x86_64__)
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

static bool
has_sse42(void)
{
    return __builtin_cpu_supports("sse4.2");
}

static const struct kernel kernels[] = {
    {"auto", NULL, "", NULL},
    {"haswell", "Haswell", "AVX2 and FMA", has_avx2},
    {"skylakex", "SkylakeX", "AVX-512", has_avx512},
    {"portable", "Nehalem", "SSE 4.2", has_sse42},
};
#else
static const struct kernel kernels[] = {{"auto", NULL, "", NULL}};
#endif

static const struct kernel *
kernel_find(const char *numerics)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].numerics, numerics) == 0)
            return &kernels[i];
    return NULL;
}

const char *
host_numerics(const char *kernel)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (kernels[i].coretype && strcasecmp(kernels[i].coretype, kernel) == 0)
            return kernels[i].numerics;
    return NULL;
}

unsigned
host_cpus(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (unsigned)count : 1;
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

int
host_pin(const char *numerics, char *const argv[], char *why, size_t why_size)
{
    const struct kernel *kernel = kernel_find(numerics);
    if (!kernel || (kernel->usable && !kernel->usable())) {
        snprintf(why, why_size, "run.numerics = %s, this CPU lacks %s", numerics,
                 kernel ? kernel->needs : "such a kernel");
        return -ENOTSUP;
    }
    const char *pinned = getenv("MESHNODE_PINNED");
    if (pinned && strcmp(pinned, numerics) == 0)
        return 0;
    if (prepare(kernel))
        execv("/proc/self/exe", argv);
    int error = errno;
    snprintf(why, why_size, "cannot start anew with run.numerics = %s: %s", numerics,
             strerror(error));
    return -error;
}

/* simd.c - which instruction set the vector functions use. See simd.h. */
#include "proto/simd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum simd_set simd_set = SIMD_SET_BASE;

static enum simd_set
largest(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return SIMD_SET_BASE;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? SIMD_SET_AVX512 : SIMD_SET_AVX2;
#else
    return SIMD_SET_BASE;
#endif
}

static const char *const names[] = {"base", "avx2", "avx512"};

const char *
simd_name(void)
{
    return names[simd_set];
}

int
simd_choose(const char *name, struct why *why)
{
    static const char *const up_to[] = {"base", "base or avx2", "base, avx2 or avx512"};
    unsigned here = largest(), set = 0;
    simd_set = here;
    if (!name || !*name)
        return 0;
    while (set <= here && strcmp(name, names[set]) != 0)
        set++;
    if (set <= here) {
        simd_set = set;
        return 0;
    }
    return why_error(why, -EINVAL, "MESHNODE_SIMD = %s, expected %s on this CPU", name,
                     up_to[here]);
}

/* Tests and benchmarks obey the variable, too; main() says what is wrong with it. */
static __attribute__((constructor)) void
choose_at_start(void)
{
    struct why why;
    simd_choose(getenv("MESHNODE_SIMD"), &why);
}

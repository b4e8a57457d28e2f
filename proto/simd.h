/* simd.h - one source file becomes one object per instruction set; the program chooses once, when it starts.
 *
 * The Makefile compiles every *_simd.c once per instruction set (base; on x86-64 avx2 and avx512, too) with
 * -DSIMD=<name>. A function f in it is defined as SIMD_NAME(f). The header beside it declares the variants, and callers
 * pick one:
 *
 *     SIMD_DECLARE(uint64_t, hash64, (const void *data, size_t size));      // hash.h: hash64_base, hash64_avx2, ...
 *     SIMD_NAME(hash64)(const void *data, size_t size) { ... }              // hash_simd.c
 *     return SIMD_PICK(hash64)(data, size);                                 // whoever calls it
 *
 * A further set is added here, in enum simd_set and in the Makefile, and nowhere else.
 *
 * Base is what every CPU of the architecture has: SSE2 on x86-64, NEON on ARM64. The variable MESHNODE_SIMD may name a
 * smaller set than the CPU has, for tests and measurements. Every variant must give the same bits: reductions go over
 * a fixed number of lanes, and multiplications are fused with additions only in products (nn/arithmetic/fused.h). */
#ifndef PROTO_SIMD_H
#define PROTO_SIMD_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/why.h"

#define SIMD_PASTE_(f, s) f##_##s
#define SIMD_PASTE(f, s)  SIMD_PASTE_(f, s)
#define SIMD_NAME(f)      SIMD_PASTE(f, SIMD)

/* Each contains those before it. */
enum simd_set {
    SIMD_SET_BASE,
    SIMD_SET_AVX2,   /* with FMA */
    SIMD_SET_AVX512, /* F, BW, DQ and VL */
};

/* The one in use. Set before main(); only simd_choose changes it. */
extern enum simd_set simd_set;
const char *simd_name(void); /* "avx2" */

static inline bool
simd_avx2(void)
{
    return simd_set >= SIMD_SET_AVX2;
}

static inline bool
simd_avx512(void)
{
    return simd_set >= SIMD_SET_AVX512;
}

#if defined(__x86_64__)
#define SIMD_DECLARE(result, f, parameters)                                                        \
    result f##_base parameters;                                                                    \
    result f##_avx2 parameters;                                                                    \
    result f##_avx512 parameters
#define SIMD_PICK(f) (simd_avx512() ? f##_avx512 : simd_avx2() ? f##_avx2 : f##_base)
#else
#define SIMD_DECLARE(result, f, parameters) result f##_base parameters
#define SIMD_PICK(f)                        f##_base
#endif

/* Uses the set called `name` from now on, NULL or "": the largest that this CPU has. The start calls it with
 * MESHNODE_SIMD. Returns 0, or -EINVAL with `why` if there is no such set here; then the largest is used. */
int simd_choose(const char *name, struct why *why);

#endif

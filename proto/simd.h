/* simd.h - one source file becomes one object per instruction set; the program chooses once, when it starts.
 *
 * The Makefile compiles every *_simd.c once per instruction set (base, avx2) with -DSIMD=<name>. Such a file defines
 * SIMD_NAME(f) for each function f. A plain file beside it chooses with simd_avx2():
 *
 *     void SIMD_NAME(exact_add)(...) { ... }                  // exact_simd.c
 *     return simd_avx2() ? exact_add_avx2(...) : exact_add_base(...);   // exact.c
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

/* Only for products (nn/arithmetic/gemm.h). */
static inline bool
simd_avx512(void)
{
    return simd_set >= SIMD_SET_AVX512;
}

/* Uses the set called `name` from now on, NULL or "": the largest that this CPU has. The start calls it with
 * MESHNODE_SIMD. Returns 0, or -EINVAL with `why` if there is no such set here; then the largest is used. */
int simd_choose(const char *name, struct why *why);

#endif

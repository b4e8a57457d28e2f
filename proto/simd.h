/* simd.h - one source file becomes one object per instruction set; the program chooses once, when it runs.
 *
 * The Makefile compiles every *_simd.c once per instruction set (base, avx2) with -DSIMD=<name>. Such a file defines
 * SIMD_NAME(f) for each function f. A plain file beside it chooses with simd_avx2():
 *
 *     void SIMD_NAME(exact_add)(...) { ... }                  // exact_simd.c
 *     return simd_avx2() ? exact_add_avx2(...) : exact_add_base(...);   // exact.c
 *
 * Every variant must give the same bits: no fused multiply-add, and reductions over a fixed number of lanes. Uses
 * nothing. */
#ifndef PROTO_SIMD_H
#define PROTO_SIMD_H

#include <stdbool.h>

#define SIMD_PASTE_(f, s) f##_##s
#define SIMD_PASTE(f, s)  SIMD_PASTE_(f, s)
#define SIMD_NAME(f)      SIMD_PASTE(f, SIMD)

static inline bool
simd_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return false;
#endif
}

/* Only for the product loop (nn/arithmetic/gemm.h). */
static inline bool
simd_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") != 0;
#else
    return false;
#endif
}

#endif

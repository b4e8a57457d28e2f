/* variants.h - a test that compares SIMD_PICK(f) with f_base runs with the widest instruction set, and with AVX2. */
#ifndef SUPPORT_VARIANTS_H
#define SUPPORT_VARIANTS_H

#include "proto/simd.h"
#include "tests/support/test.h"

static enum simd_set variants_widest;

static inline int
variants_narrow(void **state)
{
    (void)state;
    variants_widest = simd_set;
    if (simd_set > SIMD_SET_AVX2)
        simd_set = SIMD_SET_AVX2;
    return 0;
}

static inline int
variants_widen(void **state)
{
    (void)state;
    simd_set = variants_widest;
    return 0;
}

#define TEST_OF_VARIANTS(name)                                                                     \
    static void name(void **test_state);                                                           \
    TEST_ADD(name, #name, name, NULL, NULL, NULL)                                                  \
    TEST_ADD(narrow_##name, #name " (avx2)", name, variants_narrow, variants_widen, NULL)          \
    static void name(void **test_state __attribute__((unused)))

#endif

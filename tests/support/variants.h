/* variants.h - a test that compares SIMD_PICK(f) with f_base runs with the widest instruction set, and with AVX2. */
#ifndef SUPPORT_VARIANTS_H
#define SUPPORT_VARIANTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/simd.h"

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

#define unit_test_of_variants(f)                                                                   \
    cmocka_unit_test(f),                                                                           \
    {                                                                                              \
#f " (avx2)", f, variants_narrow, variants_widen, NULL                                     \
    }

#endif

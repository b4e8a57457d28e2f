/* check_simd.h - the variants of check.h that the Makefile builds from check_simd.c; for check.c and tests. */
#ifndef MESH_CHECK_SIMD_H
#define MESH_CHECK_SIMD_H

#include <stddef.h>
#include <stdint.h>

#define CHECK_VARIANT(name)                                                                        \
    uint64_t check_of_##name(const void *x, size_t n);                                             \
    void check_sum_##name(void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check, \
                          uint64_t *out_check);                                                    \
    void check_sum_copy_##name(int32_t *out, const int32_t *a, void *b, size_t n,                  \
                               uint64_t *a_check, uint64_t *out_check);                            \
    uint64_t check_copy_##name(int32_t *out, const void *b, size_t n);

CHECK_VARIANT(base)
CHECK_VARIANT(avx2)

#endif

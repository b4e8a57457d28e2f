/* check.h - adds, copies and checksums int32 vectors in one pass.
 *
 * The checksum is linear: check(a + b) = check(a) + check(b) in each 32-bit half. So the sum of the contributions'
 * checksums must equal the checksum of the sum. It is Fletcher's checksum (Fletcher, IEEE Trans. Commun. 1982) per
 * lane, modulo 2^32: lane l of CHECK_LANES has A_l = sum of x and B_l = sum of the running A_l. The two halves
 * combine the lanes with odd factors. One flipped bit always changes the checksum. It costs two additions per
 * element and vectorises; a checksum modulo 2^61-1 would cost more than the reduction itself. It does not protect
 * against a forger. Copies of at least CHECK_STREAM elements bypass the caches if `out` is a multiple of 32 bytes.
 * Uses proto/simd.h. */
#ifndef MESH_CHECK_H
#define MESH_CHECK_H

#include <stddef.h>
#include <stdint.h>

enum { CHECK_LANES = 16, CHECK_STREAM = 32768 };

/* Sum of two checksums, half by half modulo 2^32. */
static inline uint64_t
check_add(uint64_t a, uint64_t b)
{
    return ((a & 0xffffffff00000000u) + (b & 0xffffffff00000000u)) | (uint32_t)(a + b);
}

/* Checksum of x[n]; x may be unaligned. */
uint64_t check_of(const int32_t *x, size_t n);
/* out[n] = a[n] + b[n]. Writes the checksum of a to *a_check and that of out to *out_check. `b` is a received frame
 * and may be unaligned. `out` may be the same memory as `b`. */
void check_sum(void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check,
               uint64_t *out_check);
/* b[n] += a[n], out[n] = b[n]; checksums as in check_sum. */
void check_sum_copy(int32_t *out, const int32_t *a, void *b, size_t n, uint64_t *a_check,
                    uint64_t *out_check);
/* out[n] = b[n]; returns its checksum. */
uint64_t check_copy(int32_t *out, const void *b, size_t n);

#endif

/* check.h - add, copy and checksum int32 vectors in one pass.
 *
 * The checksum is linear: check(a + b) = check(a) + check(b) in each 32-bit half, so the sum of the
 * contributions' checksums must equal the checksum of the sum. It is Fletcher's checksum (Fletcher, IEEE
 * Trans. Commun. 1982) kept per lane, modulo 2^32: lane l of CHECK_LANES holds A_l = sum x and
 * B_l = sum of the running A_l; halves combine the lanes with odd factors. One flipped bit always
 * changes it; it costs two additions per element and vectorises, where a checksum modulo 2^61-1 costs
 * more than the reduction itself. It is no protection against a forger. Copies of CHECK_STREAM elements and
 * more bypass the caches if `out` is a multiple of 32 bytes. Uses proto/simd.h. */
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
/* out[n] = a[n] + b[n]; returns the checksum of a into *a_check, of out into *out_check. `b` is a received
 * frame and may be unaligned; `out` may be the same memory. */
void check_sum(void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check,
               uint64_t *out_check);
/* b[n] += a[n], out[n] = b[n]; checksums as in check_sum. */
void check_sum_copy(int32_t *out, const int32_t *a, void *b, size_t n, uint64_t *a_check,
                    uint64_t *out_check);
/* out[n] = b[n]; returns its checksum. */
uint64_t check_copy(int32_t *out, const void *b, size_t n);

#endif

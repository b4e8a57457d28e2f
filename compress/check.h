/* check.h - the linear checksum of int32 vectors, alone and beside a sum or a copy.
 *
 * With x[i] element i, in arithmetic modulo 2^32:
 *
 *     low = sum of x[i]        high = sum of (2i + 1) x[i]        checksum = high * 2^32 + low
 *
 * It is linear: the checksum of a sum is the sum of the checksums, half by half. So the checksums that the
 * contributions had must add up to the checksum of the total, whatever happened meanwhile. All factors are odd, so one
 * flipped bit always changes both halves. Low sees the values, high the order (Fletcher, IEEE Trans. Commun. 1982). It
 * does not protect against a forger.
 *
 * Two sums are enough for it, of x[i] and of i x[i], and those that count from element 0 of a part give the checksum of
 * the part wherever it is (check_from). A vectorised loop has two additions per row of lanes, and check_lanes makes the
 * two sums of them. A checksum modulo 2^61-1 would cost more than the sum that it guards.
 *
 * Copies of at least CHECK_STREAM elements bypass the caches if `out` is a multiple of 32 bytes. Uses proto/simd.h. */
#ifndef COMPRESS_CHECK_H
#define COMPRESS_CHECK_H

#include <stddef.h>
#include <stdint.h>

enum { CHECK_LANES = 16, CHECK_STREAM = 32768 };

/* Modulo 2^32. */
struct check_sums {
    uint32_t plain;    /* of x[i] */
    uint32_t weighted; /* of i * x[i] */
};

/* Takes element i. */
static inline void
check_take(struct check_sums *sums, uint32_t x, size_t i)
{
    sums->plain += x;
    sums->weighted += x * (uint32_t)i;
}

/* Takes `rows` rows of `lanes` elements: a[l] is the sum of lane l, b[l] the sum of a[l] after each row. Row r, the
 * first is 0, is in a[l] once and in b[l] rows - r times. */
static inline void
check_lanes(struct check_sums *sums, const uint32_t *a, const uint32_t *b, uint32_t lanes,
            size_t rows)
{
    uint32_t plain = 0, behind = 0, along = 0;
    for (uint32_t l = 0; l < lanes; l++) {
        plain += a[l];
        behind += b[l];
        along += l * a[l];
    }
    sums->plain += plain;
    sums->weighted += lanes * ((uint32_t)rows * plain - behind) + along;
}

/* The checksum of elements first, first + 1, ... from sums that count from 0. */
static inline uint64_t
check_from(struct check_sums sums, size_t first)
{
    uint32_t high = (2 * (uint32_t)first + 1) * sums.plain + 2 * sums.weighted;
    return (uint64_t)high << 32 | sums.plain;
}

/* The checksum of the same elements when `first` others come before them. */
static inline uint64_t
check_after(uint64_t check, size_t first)
{
    return check + ((uint64_t)(2 * (uint32_t)first * (uint32_t)check) << 32);
}

/* Sum of two checksums, half by half. */
static inline uint64_t
check_add(uint64_t a, uint64_t b)
{
    return ((a & 0xffffffff00000000u) + (b & 0xffffffff00000000u)) | (uint32_t)(a + b);
}

/* Checksum of x[n], elements [first, first+n) of a vector; x may be unaligned. */
uint64_t check_of(const int32_t *x, size_t first, size_t n);
/* Those below are of elements [0, n). */
/* out[n] = a[n] + b[n]. Writes the checksum of a to *a_check and that of out to *out_check. `b` is a received frame
 * and may be unaligned. `out` may be the same memory as `b`. */
void check_sum(void *out, const int32_t *a, const void *b, size_t n, uint64_t *a_check,
               uint64_t *out_check);
/* b[n] += a[n], out[n] = b[n]; checksums as in check_sum. */
void check_sum_copy(int32_t *out, const int32_t *a, void *b, size_t n, uint64_t *a_check,
                    uint64_t *out_check);
/* out[n] = b[n]; returns its checksum. */
uint64_t check_copy(int32_t *out, const void *b, size_t n);
/* The same for what is read soon: `out` stays in the caches. */
uint64_t check_copy_near(int32_t *out, const void *b, size_t n);

#endif

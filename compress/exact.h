/* exact.h - float gradients as 32-bit integers with one power-of-two exponent per block, so that sums
 * are exact and do not depend on order or grouping.
 *
 * A vector is cut into blocks of at most EXACT_BLOCK elements that never straddle two tensors. With
 * exponent e, an element g of one shard becomes q = round-to-nearest-even(g * 2^(bits - e)), where
 * bits = 31 - ceil(log2 shards): |g| < 2^e fits, and the sum over all shards stays below 2^31. An element
 * that does not fit is saturated, to the float below 2^bits, and counted. A NaN or infinity is saturated too
 * (NaN as +infinity) and reported as bad; a step with a bad element is skipped by all, so only that the
 * value is the same everywhere matters. The counters are part of the summed vector, so all nodes see the
 * same ones and raise the same exponents.
 *
 * Exponents are part of the training state, int16_t exponent[exact_blocks], and change by pure functions
 * of the summed vector:
 *     exact_adapt   after a committed sum without overflow. With the block's largest |sum| < 2^x the next
 *                   exponent is x + EXACT_HEADROOM, but at most one bit lower than now; a block whose sum
 *                   is zero keeps its exponent.
 *     exact_settle  the same without the limit on falling: once, after the first sum of a run.
 *     exact_raise   after a sum with overflow, which is redone: EXACT_RAISE bits more for each block that
 *                   overflowed.
 * All then apply the floor: no exponent lies more than EXACT_SPREAD bits below the largest of its tensor,
 * so that a block that was silent (a feature unseen so far) does not overflow again and again when it
 * wakes. At EXACT_EXPONENT_MAX every finite float fits, so redoing ends: a gradient that grows by 2^k
 * needs at most ceil(k / EXACT_RAISE) redone rounds.
 *
 * Error: at most half a unit, 2^(e - bits - 1), per element and shard; reading the sum as float adds its
 * rounding to 24 bits. 4 bytes per element. Measured against float64, relative L2 error with 12 shards:
 * 4e-7 for normally distributed gradients, 1.5e-6 for Student's t with two degrees of freedom
 * (tests/prop/prop_exact_sum.c). Relies on the default rounding mode and on denormals not being flushed.
 *
 * A linear checksum, in arithmetic modulo 2^32 half by half, goes with what is added: with x[i] element i of
 * the vector, low = sum of x[i], high = sum of (2i + 1) x[i]. Sums of checksums are checksums of sums, so
 * the checksums that the shards had when they were quantised must add up to that of the committed total,
 * wherever it has been meanwhile: in a contribution waiting to be sent, in partial sums under way. All
 * factors are odd, so one flipped bit always shows in both halves (Fletcher, IEEE Trans. Commun. 1982).
 *
 * Uses libc and proto/simd.h. No threads, no I/O; only exact_new allocates. */
#ifndef COMPRESS_EXACT_H
#define COMPRESS_EXACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXACT_BLOCK = 1024,
    EXACT_SHARDS_MAX = 64,
    EXACT_EXPONENT_FIRST = 4, /* before anything is known: |g| < 16 */
    EXACT_EXPONENT_MIN = -95, /* both scales, 2^(bits - e) and its inverse, are normal floats */
    EXACT_EXPONENT_MAX = 128, /* every finite float fits */
    EXACT_HEADROOM = 3,
    EXACT_RAISE = 8,   /* bits added to the exponent of a block that overflowed */
    EXACT_SPREAD = 12, /* bits between the largest and the smallest exponent of a tensor */
};

struct exact; /* the block table */

/* `tensor_count[tensors]` elements each, contiguous; shards 1..EXACT_SHARDS_MAX. 0 or -ENOMEM. */
int exact_new(struct exact **out, const size_t *tensor_count, size_t tensors, unsigned shards);
void exact_destroy(struct exact **exact);
size_t exact_blocks(const struct exact *exact);
/* First element of a block; block == exact_blocks: the total. */
size_t exact_block_first(const struct exact *exact, size_t block);
/* The block that holds an element: the last one that does not begin behind it. */
size_t exact_block_of(const struct exact *exact, size_t element);
size_t exact_tensors(const struct exact *exact);
/* First block of a tensor; tensor == exact_tensors: exact_blocks. */
size_t exact_tensor_first(const struct exact *exact, size_t tensor);

/* exponent[blocks] = EXACT_EXPONENT_FIRST. */
void exact_first(const struct exact *exact, int16_t *exponent);
/* Every exponent within its limits? For exponents read from a file or a peer. One outside, which only a bit that flips in
 * memory can bring about, is taken as the nearest one inside by all that follows. */
bool exact_valid(const struct exact *exact, const int16_t *exponent);

/* Add g[n], elements [first, first+n) of one shard's gradient (or of `shards_in` shards already summed,
 * for which the range is as much wider), to own[total]. over[blocks] counts saturated elements per block;
 * *bad grows by one for each block of this call with a NaN or infinity in it. The checksum of what was added to own is added to
 * *check, which may be NULL. */
void exact_add(const struct exact *exact, const int16_t *exponent, size_t first, const float *g,
               size_t n, unsigned shards_in, int32_t *own, int32_t *over, int32_t *bad,
               uint64_t *check);

/* Checksum of x[n], elements [first, first+n) of a vector. */
uint64_t exact_check(const int32_t *x, size_t first, size_t n);
/* Sum of two checksums, half by half. */
static inline uint64_t
exact_check_add(uint64_t a, uint64_t b)
{
    return ((a & 0xffffffff00000000u) + (b & 0xffffffff00000000u)) | (uint32_t)(a + b);
}

/* g[n] = float value of elements [first, first+n) of sum[total]. */
void exact_read(const struct exact *exact, const int16_t *exponent, const int32_t *sum,
                size_t first, float *g, size_t n);

/* Next exponents from a committed sum[total] without overflow. */
void exact_adapt(const struct exact *exact, const int32_t *sum, int16_t *exponent);
void exact_settle(const struct exact *exact, const int32_t *sum, int16_t *exponent);
/* The same in parts: first exact_follow for blocks [block, end), each once, then exact_floor for all. */
void exact_follow(const struct exact *exact, const int32_t *sum, size_t block, size_t end,
                  bool settle, int16_t *exponent);
void exact_floor(const struct exact *exact, int16_t *exponent);
/* Raise the exponents of the blocks with over[block] != 0; returns how many there were. */
size_t exact_raise(const struct exact *exact, const int32_t *over, int16_t *exponent);

#endif

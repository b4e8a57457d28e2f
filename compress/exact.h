/* exact.h - float gradients as 32-bit integers with one power-of-two exponent per block, so that sums
 * are exact and do not depend on order or grouping.
 *
 * A vector is cut into blocks of at most EXACT_BLOCK elements that never straddle two tensors. With
 * exponent e, an element g of one shard becomes round-to-nearest-even(g * 2^(bits - e)), where
 * bits = 31 - 1 - ceil(log2 shards): |g| < 2^e fits and the sum over all shards cannot overflow. An
 * element that does not fit is saturated and counted; a NaN or infinity counts as bad. The counters are
 * part of the summed vector, so all nodes see the same ones and raise the same exponents.
 *
 * Exponents are part of the training state: exact_adapt derives the next ones from the committed sum
 * (headroom EXACT_HEADROOM bits above the largest sum, falling by at most one bit a step).
 *
 * Error: at most half a unit 2^(e - bits) per element and shard. 4 bytes per element. */
#ifndef COMPRESS_EXACT_H
#define COMPRESS_EXACT_H

#include <stddef.h>
#include <stdint.h>

enum {
    EXACT_BLOCK = 1024,
    EXACT_EXPONENT_FIRST = 4, /* before anything is known: |g| < 16 */
    EXACT_EXPONENT_MIN = -100,
    EXACT_EXPONENT_MAX = 100,
    EXACT_HEADROOM = 3,
    EXACT_RAISE = 8, /* bits added to the exponent of a block that overflowed */
};

struct exact; /* the block table */

/* `tensor_count[tensors]` elements each, contiguous. Returns 0 or -ENOMEM. */
int exact_new(struct exact **out, const size_t *tensor_count, size_t tensors, unsigned shards);
void exact_destroy(struct exact **exact);
size_t exact_blocks(const struct exact *exact);
size_t exact_block_first(const struct exact *exact,
                         size_t block); /* block == exact_blocks: the total */

/* Add g[n], elements [first, first+n) of one shard's gradient (or `shards_in` shards already summed, for
 * which the range is as much wider), to own[total]. over[blocks] counts saturations per block, *bad NaN
 * and infinities. exponent[blocks]. */
void exact_add(const struct exact *exact, const int16_t *exponent, size_t first, const float *g,
               size_t n, unsigned shards_in, int32_t *own, int32_t *over, int32_t *bad);

/* g[n] = float value of elements [first, first+n) of the sum. */
void exact_read(const struct exact *exact, const int16_t *exponent, const int32_t *sum,
                size_t first, float *g, size_t n);

/* Next exponents from a committed sum without overflow. */
void exact_adapt(const struct exact *exact, const int32_t *sum, int16_t *exponent);
/* Raise the exponents of the blocks with over[block] != 0; returns how many there were. */
size_t exact_raise(const struct exact *exact, const int32_t *over, int16_t *exponent);

#endif

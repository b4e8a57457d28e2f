/* exact.h - float gradients as 32-bit integers with one power-of-two exponent per block. Sums of them are exact and
 * do not depend on order or grouping.
 *
 * A vector is divided into blocks of at most EXACT_BLOCK elements. A block never contains parts of two tensors. With
 * exponent e, an element g of one shard becomes q = round-to-nearest-even(g * 2^(bits - e)), with bits = 31 -
 * ceil(log2 shards). So |g| < 2^e fits, and the sum over all shards stays below 2^31. An element that does not fit is
 * saturated to the float below 2^bits, and counted. A NaN or infinity is saturated, too (NaN as +infinity), and
 * reported as bad. All nodes skip a step with a bad element, so its value must only be the same everywhere. The
 * counters are part of the summed vector: all nodes see the same counters and raise the same exponents.
 *
 * Exponents are part of the training state: int16_t exponent[exact_blocks]. Pure functions of the summed vector
 * change them:
 *     exact_follow  after a committed sum without overflow. If the largest |sum| of the block is s, an integer, and 2^x
 *                   is the smallest power of two above s * 2^(e - bits), the next exponent is x + EXACT_HEADROOM (of a
 *                   coded block x + EXACT_HEADROOM_CODED), but at most one bit lower than now. With `settle` it may
 *                   fall by any amount: once, after the first sum of a run. A block whose sum is zero keeps its
 *                   exponent.
 *     exact_raise   after a sum with overflow, before the round is repeated: EXACT_RAISE bits more for each block that
 *                   overflowed.
 * After both comes the floor, exact_floor: no exponent is more than EXACT_SPREAD bits (of a coded tensor
 * EXACT_SPREAD_CODED) below the largest of its tensor. Otherwise a block that was zero for long (a feature that did not
 * occur) would overflow when it becomes non-zero. As EXACT_SPREAD is not above EXACT_HEADROOM, a block that becomes as
 * loud as the loudest of its tensor was fits: hardly one round in 1,000 is repeated. At EXACT_EXPONENT_MAX every finite
 * float fits, so the repeats end: a gradient that grows by 2^k needs at most ceil(k / EXACT_RAISE) repeated rounds.
 *
 * Error: at most half a unit, 2^(e - bits - 1), per element and shard. Reading the sum as float adds the rounding to
 * 24 bits. 4 bytes per element. Measured against float64, the relative L2 error with 12 shards is 8e-7 for normally
 * distributed gradients and 3e-6 for Student's t with two degrees of freedom (tests/prop/prop_exact_sum.c). The
 * code needs the default rounding mode, and denormals must not be flushed to zero.
 *
 * With a codec (codec.h) `bits` are those of the codec: the grid is coarser, and the exponents mean the same. Then a
 * few saturated elements do no harm. A round is repeated, with EXACT_RAISE_CODED bits more, only if more than one
 * element in EXACT_CLIPPED of a block is saturated.
 *
 * A codec that says how many elements are to be not zero has one exponent for all blocks of a tensor. It follows the
 * squares of the sums, or how many elements were saturated (exact_adapt). A round is repeated if more than one element
 * in EXACT_CLIPPED_TENSOR of the tensor is saturated; of a product, one in EXACT_CLIPPED.
 *
 * The linear checksum of check.h travels with what is added: the checksums that the shards had when they were quantised
 * must add up to the checksum of the committed total. This finds errors wherever the data was meanwhile: in a
 * contribution that waits to be sent, or in partial sums on their way.
 *
 * Uses libc and proto/simd.h. No threads, no I/O. Only exact_new allocates. */
#ifndef COMPRESS_EXACT_H
#define COMPRESS_EXACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/codec.h"
#include "compress/lowrank.h"

enum {
    EXACT_BLOCK = 1024,
    EXACT_SHARDS_MAX = 64,
    EXACT_EXPONENT_FIRST = 4, /* before any gradient is known: |g| < 16 */
    EXACT_EXPONENT_MIN = -95, /* 2^(bits - e) and its inverse are both normal floats */
    EXACT_EXPONENT_MAX = 128, /* every finite float fits */
    EXACT_HEADROOM = 4,
    EXACT_HEADROOM_CODED = 3,
    EXACT_RAISE = 8, /* bits added to the exponent of a block that overflowed */
    EXACT_RAISE_CODED = 2,
    EXACT_CLIPPED = 64,
    EXACT_CLIPPED_TENSOR = 4,
    EXACT_FINER = 8,
    EXACT_FINER_PRODUCT = 3, /* elements of a matrix are smaller than those of its products */
    EXACT_SPREAD = 4,        /* bits between the largest and the smallest exponent of a tensor */
    EXACT_SPREAD_CODED = 12,
};

struct exact; /* the block table */

/* The grids of a codec: of most steps, and of the last step of a span; NULL: it has no such steps. */
struct codec_grids {
    struct exact *coded, *flush;
};

/* tensor_count[tensors]: elements of each tensor, contiguous; shards 1..EXACT_SHARDS_MAX. Returns 0 or -ENOMEM. */
int exact_new(struct exact **out, const size_t *tensor_count, size_t tensors, unsigned shards);
void exact_destroy(struct exact **exact);
size_t exact_blocks(const struct exact *exact);
/* First element of a block. For block == exact_blocks: the number of all elements. */
size_t exact_block_first(const struct exact *exact, size_t block);
/* The block that contains an element: the last block that begins at or before it. */
size_t exact_block_of(const struct exact *exact, size_t element);
size_t exact_tensors(const struct exact *exact);
/* First block of a tensor. For tensor == exact_tensors: exact_blocks. */
size_t exact_tensor_first(const struct exact *exact, size_t tensor);
/* That of a block. */
size_t exact_tensor_of(const struct exact *exact, size_t block);

/* The blocks of this tensor are coded from now on; of all tensors with the same codec. `rows`: of the tensor as a
 * matrix, 1.. . `flush`: as in the last step of a span of a codec with memory: with the same exponents, on 16 bits and
 * up to EXACT_FINER bits finer. They stay as they are then, but for exact_raise. */
void exact_code(struct exact *exact, size_t tensor, const struct codec *codec, size_t rows,
                bool flush);
/* Not NULL: of this tensor a product is summed (lowrank.h), which lies where the tensor begins; what is behind it is
 * zero. */
const struct lowrank *exact_matrix(const struct exact *exact, size_t tensor);
/* Is there such a tensor? And how long is the longest product? */
size_t exact_product_most(const struct exact *exact);

/* Sets exponent[blocks] = EXACT_EXPONENT_FIRST. */
void exact_first(const struct exact *exact, int16_t *exponent);
/* Is every exponent within its limits? For exponents from a file or a peer. Only a bit flip in memory can put one
 * outside later; then all functions below use the nearest value inside. */
bool exact_valid(const struct exact *exact, const int16_t *exponent);
/* The nearest exponent within the limits: for one from a peer that is to be kept. */
int16_t exact_clamp(int exponent);

/* Adds g[n], elements [first, first+n) of one shard's gradient, to own[total]. Or of `shards_in` shards that are
 * already summed; their range is wider by that factor. over[blocks] counts saturated elements per block. *bad grows
 * by one for each block of this call that contains a NaN or infinity. The checksum of what was added to own is added
 * to *check, which may be NULL. `key`: what a codec draws from; another one for each shard and step. */
void exact_add(const struct exact *exact, const int16_t *exponent, size_t first, const float *g,
               size_t n, unsigned shards_in, uint32_t key, int32_t *own, int32_t *over,
               int32_t *bad, uint64_t *check);

/* The same of one shard and whole blocks, with a codec that has a memory: a[n] is the gradient with what was left out
 * of those before it, and becomes what is left out now: nothing of a block that is not coded. */
void exact_add_kept(const struct exact *exact, const int16_t *exponent, size_t first, float *a,
                    size_t n, uint32_t key, int32_t *own, int32_t *over, int32_t *bad,
                    uint64_t *check);

/* The rule of exact_add for one shard as plain numbers, where such exist (exact_plain): not with a codec that has a
 * memory, rounds floats first, or saturates many elements. scale[blocks]; and of a block the largest |g * scale| that
 * is not saturated, and whether it is rounded by chance: element i up by the chance that MIX24_DEFINE (proto/mix.h)
 * draws from (key + i) * MIX24_STEP, of 2^24. Else it is rounded to nearest, and the limit is an integer. */
bool exact_plain(const struct exact *exact);
void exact_scales(const struct exact *exact, const int16_t *exponent, float *scale);
float exact_limit(const struct exact *exact, size_t block, bool *drawn);
/* g[n] = float value of elements [first, first+n) of sum[total]. */
void exact_read(const struct exact *exact, const int16_t *exponent, const int32_t *sum,
                size_t first, float *g, size_t n);
/* The same of a whole block of sum[total], g[EXACT_BLOCK]. Returns the checksum that these elements of sum have
 * (check.h), and in *bits what exact_follow wants. */
uint64_t exact_take(const struct exact *exact, const int16_t *exponent, const int32_t *sum,
                    size_t block, float *g, uint32_t *bits);

/* Computes the next exponents from a committed sum without overflow: first exact_follow for each block once, with the
 * bits that reading it gave; then exact_floor for all. */
void exact_follow(const struct exact *exact, size_t block, uint32_t bits, bool settle,
                  int16_t *exponent);
void exact_floor(const struct exact *exact, int16_t *exponent);
/* Does the exponent of this block follow its tensor's? Then exact_follow leaves it as it is. After it comes exact_adapt
 * for the tensor, with exact_squares of each of its blocks in squares[exact_blocks], and their saturated elements in
 * over[exact_blocks]. */
bool exact_adapts(const struct exact *exact, size_t block);
uint64_t exact_squares(const struct exact *exact, const int32_t *sum, size_t block);
void exact_adapt(const struct exact *exact, size_t tensor, const uint64_t *squares,
                 const int32_t *over, int16_t *exponent);
/* The unit of the integers of a tensor that has one for all its blocks. */
float exact_unit(const struct exact *exact, const int16_t *exponent, size_t tensor);
/* Before the first step with a codec that has a memory: the exponents of the tensors that have one for all their
 * blocks, from the squares[blocks] of the last sum without it. */
void exact_begin(const struct exact *exact, const double *squares, int16_t *exponent);
/* Raises the exponents of the blocks with over[block] != 0 and returns their number. */
size_t exact_raise(const struct exact *exact, const int32_t *over, int16_t *exponent);

#endif

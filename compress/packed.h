/* packed.h - int32 in as many bits as they need.
 *
 * A vector is divided into blocks of PACKED_BLOCK elements, and a block into groups of PACKED_GROUP. All elements of a
 * group have the width of the widest one, in two's complement: 0 for a group of zeros, 1 for zeros and -1, at most 32.
 * A packed vector has
 *
 *     the widths     a byte for each group of all blocks, then zeros up to a multiple of 4 bytes
 *     each block     16 streams of bits side by side: element i belongs to stream i % 16. A stream is filled from its
 *                    lowest bit on and cut into words of 32 bits; the words w of all streams lie together, w = 0, 1,
 *                    ...
 *
 * If a whole block is shorter in Rice codes (rice.h), it has these. In the place of its widths are 128 + gap, value,
 * count and words, two bytes each with the lower one first, and two zeros.
 *
 * Else each instruction packs the same bits of 16 elements (Lemire and Boytsov, Softw. Pract. Exper. 2015, SIMD-BP128,
 * with wider rows). The last group is filled up with zeros, and so are the last words of a block.
 *
 * Uses proto/simd.h. No allocation; all variants give the same bits. */
#ifndef COMPRESS_PACKED_H
#define COMPRESS_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACKED_BLOCK = 1024, PACKED_GROUP = 128 };

static inline size_t
packed_groups(size_t n)
{
    return (n + PACKED_GROUP - 1) / PACKED_GROUP;
}

/* Elements of the block that begins with element `first` of n. */
static inline size_t
packed_block(size_t n, size_t first)
{
    return n - first < PACKED_BLOCK ? n - first : PACKED_BLOCK;
}

/* Bytes of the widths of n elements. */
static inline size_t
packed_widths_size(size_t n)
{
    return (packed_groups(n) + 3) & ~(size_t)3;
}

/* The most bytes that n packed elements can have. */
static inline size_t
packed_most(size_t n)
{
    return packed_widths_size(n) + packed_groups(n) * PACKED_GROUP * sizeof(int32_t);
}

/* Writes a packed vector block by block. */
struct packed_out {
    uint8_t *to;  /* [packed_most(n)] */
    size_t block; /* the next one */
    size_t size;  /* bytes so far */
    bool quick;   /* no Rice codes of many large elements: they pay on slow lines only */
};

/* Begins a packed vector of n elements in to[packed_most(n)]. */
struct packed_out packed_begin(void *to, size_t n);
/* The next n elements: PACKED_BLOCK, or the rest in the last block. */
void packed_put(struct packed_out *out, const int32_t *x, size_t n);
/* Writes x[n] as a packed vector. Returns its size, at most packed_most(n). */
size_t packed_write(void *to, const int32_t *x, size_t n);

/* The size that packed_write would return. */
size_t packed_size(const int32_t *x, size_t n);

/* Reads one. */
struct packed_in {
    const uint8_t *from;
    size_t block; /* the next one */
    size_t at;    /* where it begins */
};

/* Are these `size` bytes a packed vector of n elements, as far as widths and size tell? */
bool packed_fits(const void *from, size_t size, size_t n);
/* Of a vector of n elements that packed_fits. */
struct packed_in packed_open(const void *from, size_t n);
/* x[n] is the next block. False: bits that must be zero are not. */
bool packed_get(struct packed_in *in, int32_t *x, size_t n);

#endif

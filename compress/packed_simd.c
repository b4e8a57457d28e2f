/* packed_simd.c - groups of 8 rows of 16 elements to and from 16 streams of bits: see packed.h.
 *
 * A group begins at bit 0, 8, 16 or 24 of a word. For each of these and each width there is a loop in which all shifts
 * are constants. */
#include "compress/packed_simd.h"

#include <stdbool.h>
#include <string.h>

#include "compress/packed.h"
#include "compress/row_simd.h"

enum { GROUP_ROWS = PACKED_GROUP / ROW_LANES, FETCH_AHEAD = 2048 };

#define INLINE static inline __attribute__((always_inline))

INLINE struct row
row_or(struct row x, struct row y)
{
    for (int i = 0; i < ROW_VECS; i++)
        x.v[i] |= y.v[i];
    return x;
}

INLINE struct row
row_left(struct row row, unsigned by)
{
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] <<= by;
    return row;
}

INLINE struct row
row_right(struct row row, unsigned by)
{
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] >>= by;
    return row;
}

/* The lowest `width` bits, 1..32. */
INLINE struct row
row_low(struct row row, unsigned width)
{
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] &= UINT32_MAX >> (32 - width);
    return row;
}

/* From two's complement of `width` bits, 1..32. */
INLINE struct row
row_extend(struct row row, unsigned width)
{
    typedef int32_t signed_vec __attribute__((vector_size(ROW_VEC_SIZE)));
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] = (row_vec)((signed_vec)(row.v[i] << (32 - width)) >> (int)(32 - width));
    return row;
}

static inline struct row
row_at(const void *x, size_t r)
{
    return row_load((const unsigned char *)x + r * ROW);
}

static uint32_t
row_any(struct row row)
{
    uint32_t word[ROW_LANES], any = 0;
    memcpy(word, &row, sizeof word);
    for (int i = 0; i < ROW_LANES; i++)
        any |= word[i];
    return any;
}

static size_t
row_total(struct row row)
{
    uint32_t word[ROW_LANES], total = 0;
    memcpy(word, &row, sizeof word);
    for (int i = 0; i < ROW_LANES; i++)
        total += word[i];
    return total;
}

/* --- One group ------------------------------------------------------------------------------------- */

/* Bits that differ from the sign, in any of the rows so far; and the signs, in bit 31. */
struct reach {
    struct row bits, signs;
};

static inline void
reach_take(struct reach *reach, struct row row)
{
    typedef int32_t signed_vec __attribute__((vector_size(ROW_VEC_SIZE)));
    for (int i = 0; i < ROW_VECS; i++) {
        reach->bits.v[i] |= row.v[i] ^ (row_vec)((signed_vec)row.v[i] >> 31);
        reach->signs.v[i] |= row.v[i];
    }
}

/* Adds 1 in each lane that is zero. */
static inline void
row_count_zeros(struct row *zeros, struct row row)
{
    for (int i = 0; i < ROW_VECS; i++)
        zeros->v[i] -= (row_vec)(row.v[i] == 0);
}

/* -1 has no bits that differ from its sign, and needs one. */
static uint8_t
group_width(const int32_t *x, struct row *zeros)
{
    struct reach reach = {0};
    for (size_t r = 0; r < GROUP_ROWS; r++) {
        struct row row = row_at(x, r);
        reach_take(&reach, row);
        row_count_zeros(zeros, row);
    }
    uint32_t bits = row_any(reach.bits);
    if (bits == 0)
        return (uint8_t)(row_any(reach.signs) >> 31);
    return (uint8_t)(33 - __builtin_clz(bits));
}

/* Into the words from `to` on, from bit `first` on. *word is the first word as far as it is filled, and then the last
 * one. */
INLINE void
group_pack(uint8_t *to, struct row *word, const int32_t *x, unsigned first, unsigned width)
{
    struct row at = *word;
#pragma GCC unroll 8
    for (unsigned r = 0; r < GROUP_ROWS; r++) {
        unsigned bit = first + r * width, shift = bit % 32, end = shift + width;
        struct row row = row_low(row_at(x, r), width);
        at = row_or(at, row_left(row, shift));
        if (end < 32)
            continue;
        row_store(to + bit / 32 * ROW, at);
        at = end > 32 ? row_right(row, (32 - shift) & 31) : (struct row){0};
    }
    *word = at;
}

INLINE void
group_unpack(const uint8_t *from, int32_t *x, unsigned first, unsigned width)
{
#pragma GCC unroll 8
    for (unsigned r = 0; r < GROUP_ROWS; r++) {
        unsigned bit = first + r * width, shift = bit % 32;
        struct row row = row_right(row_at(from, bit / 32), shift);
        if (shift + width > 32)
            row = row_or(row, row_left(row_at(from, bit / 32 + 1), (32 - shift) & 31));
        row_store(x + r * ROW_LANES, row_extend(row, width));
    }
}

/* DO(first, width) for each bit where a group may begin, and each width but 0. */
#define WIDTHS_4(DO, first, w) DO(first, w + 1) DO(first, w + 2) DO(first, w + 3) DO(first, w + 4)
#define WIDTHS_16(DO, first, w)                                                                    \
    WIDTHS_4(DO, first, w)                                                                         \
    WIDTHS_4(DO, first, w + 4) WIDTHS_4(DO, first, w + 8) WIDTHS_4(DO, first, w + 12)
#define WIDTHS(DO, first) WIDTHS_16(DO, first, 0) WIDTHS_16(DO, first, 16)
#define ALL(DO)           WIDTHS(DO, 0) WIDTHS(DO, 8) WIDTHS(DO, 16) WIDTHS(DO, 24)

#define CASE_PACK(first, width)                                                                    \
    case (first)*8 + (width):                                                                      \
        group_pack(to, word, x, first, width);                                                     \
        break;
#define CASE_UNPACK(first, width)                                                                  \
    case (first)*8 + (width):                                                                      \
        group_unpack(from, x, first, width);                                                       \
        break;

static void
any_group_pack(uint8_t *to, struct row *word, const int32_t *x, unsigned first, unsigned width)
{
    switch (first * 8 + width) {
        ALL(CASE_PACK)
    }
}

/* Of width 0 come zeros. */
static void
any_group_unpack(const uint8_t *from, int32_t *x, unsigned first, unsigned width)
{
    switch (first * 8 + width) {
        ALL(CASE_UNPACK)
    default:
        memset(x, 0, PACKED_GROUP * sizeof *x);
    }
}

/* --- Blocks ---------------------------------------------------------------------------------------- */

/* The group that begins at x[i] of n: in `room`, filled up with zeros, if it is not whole. */
static inline const int32_t *
group_filled(const int32_t *x, size_t n, size_t i, int32_t room[PACKED_GROUP])
{
    if (n - i >= PACKED_GROUP)
        return x + i;
    memset(room, 0, PACKED_GROUP * sizeof *room);
    memcpy(room, x + i, (n - i) * sizeof *room);
    return room;
}

size_t
SIMD_NAME(packed_measure)(const int32_t *x, size_t n, uint8_t *width)
{
    int32_t room[PACKED_GROUP];
    struct row zeros = {0};
    size_t i = 0;
    for (; i < n; i += PACKED_GROUP)
        *width++ = group_width(group_filled(x, n, i, room), &zeros);
    return i - row_total(zeros);
}

void
SIMD_NAME(packed_pack)(uint8_t *to, const int32_t *x, size_t n, const uint8_t *width)
{
    int32_t room[PACKED_GROUP];
    struct row word = {0};
    unsigned bit = 0;
    for (size_t i = 0; i < n; i += PACKED_GROUP, width++) {
        any_group_pack(to, &word, group_filled(x, n, i, room), bit % 32, *width);
        to += (bit % 32 + GROUP_ROWS * *width) / 32 * ROW;
        bit += GROUP_ROWS * *width;
    }
    if (bit % 32)
        row_store(to, word);
}

/* A received body lies in no near cache. */
static inline void
group_fetch(const uint8_t *from)
{
    for (unsigned r = 0; r < GROUP_ROWS; r++)
        __builtin_prefetch(from + r * ROW);
}

uint32_t
SIMD_NAME(packed_unpack)(int32_t *x, const uint8_t *from, size_t n, const uint8_t *width)
{
    int32_t room[PACKED_GROUP] = {0};
    uint32_t behind = 0;
    unsigned bit = 0;
    for (size_t i = 0; i < n; i += PACKED_GROUP, width++) {
        bool whole = n - i >= PACKED_GROUP;
        group_fetch(from + FETCH_AHEAD);
        any_group_unpack(from, whole ? x + i : room, bit % 32, *width);
        from += (bit % 32 + GROUP_ROWS * *width) / 32 * ROW;
        bit += GROUP_ROWS * *width;
        if (!whole)
            memcpy(x + i, room, (n - i) * sizeof *x);
    }
    for (size_t i = n % PACKED_GROUP; i > 0 && i < PACKED_GROUP; i++)
        behind |= (uint32_t)room[i];
    return bit % 32 ? behind | row_any(row_right(row_load(from), bit % 32)) : behind;
}

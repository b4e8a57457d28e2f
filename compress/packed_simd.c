/* packed_simd.c - rows of 16 elements to and from 16 streams of bits: see packed.h. */
#include "compress/packed_simd.h"

#include <stdbool.h>
#include <string.h>

#include "compress/packed.h"
#include "compress/row_simd.h"

enum { GROUP_ROWS = PACKED_GROUP / ROW_LANES };

/* Row r of x[n]; elements behind the last one are zeros. */
static inline struct row
row_of(const int32_t *x, size_t n, size_t r)
{
    const unsigned char *from = (const unsigned char *)(x + r * ROW_LANES);
    size_t left = n - r * ROW_LANES;
    return left >= ROW_LANES ? row_load(from) : row_tail(from, left);
}

static inline uint32_t
row_any(struct row row)
{
    uint32_t word[ROW_LANES], any = 0;
    memcpy(word, &row, sizeof word);
    for (int i = 0; i < ROW_LANES; i++)
        any |= word[i];
    return any;
}

static inline struct row
row_or(struct row x, struct row y)
{
    for (int i = 0; i < ROW_VECS; i++)
        x.v[i] |= y.v[i];
    return x;
}

/* x in bit 0..30 without its sign, and whether any is negative in bit 31: so -1 differs from 0. */
static inline struct row
row_reach(struct row row)
{
    for (int i = 0; i < ROW_VECS; i++) {
        row_vec sign = row.v[i] & 0x80000000u;
        row.v[i] = (row.v[i] ^ (0 - (row.v[i] >> 31))) | sign;
    }
    return row;
}

static inline uint8_t
width_of(uint32_t reach)
{
    uint32_t bits = reach & 0x7fffffffu;
    if (reach == 0)
        return 0;
    return (uint8_t)(bits ? 33 - __builtin_clz(bits) : 1);
}

void
SIMD_NAME(packed_measure)(const int32_t *x, size_t n, uint8_t *width)
{
    size_t rows = (n + ROW_LANES - 1) / ROW_LANES;
    for (size_t r = 0; r < rows; width++) {
        struct row any = {0};
        for (size_t end = r + GROUP_ROWS; r < end && r < rows; r++)
            any = row_or(any, row_reach(row_of(x, n, r)));
        *width = width_of(row_any(any));
    }
}

static inline struct row
row_left(struct row row, unsigned by)
{
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] <<= by;
    return row;
}

static inline struct row
row_right(struct row row, unsigned by)
{
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] >>= by;
    return row;
}

/* The lowest `width` bits, 1..32. */
static inline struct row
row_low(struct row row, unsigned width)
{
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] &= UINT32_MAX >> (32 - width);
    return row;
}

/* 16 streams that are written: `fill` bits of the present words are there, 0..31. */
struct writing {
    struct row word;
    unsigned fill;
    uint8_t *to;
};

static inline void
row_write(struct writing *w, struct row row, unsigned width)
{
    row = row_low(row, width);
    w->word = row_or(w->word, row_left(row, w->fill));
    w->fill += width;
    if (w->fill < 32)
        return;
    row_store(w->to, w->word);
    w->to += ROW;
    w->fill -= 32;
    w->word = w->fill ? row_right(row, width - w->fill) : (struct row){0};
}

void
SIMD_NAME(packed_pack)(uint8_t *to, const int32_t *x, size_t n, const uint8_t *width)
{
    size_t rows = (n + ROW_LANES - 1) / ROW_LANES;
    struct writing w = {.to = to};
    for (size_t r = 0; r < rows; width++) {
        size_t end = r + GROUP_ROWS < rows ? r + GROUP_ROWS : rows;
        for (; *width && r < end; r++)
            row_write(&w, row_of(x, n, r), *width);
        r = end;
    }
    if (w.fill)
        row_store(w.to, w.word);
}

/* 16 streams that are read: `used` bits of the present words are read, 1..32. */
struct reading {
    struct row word;
    unsigned used;
    const uint8_t *from;
};

static inline struct row
row_read(struct reading *in, unsigned width)
{
    if (in->used == 32) {
        in->word = row_load(in->from);
        in->from += ROW;
        in->used = 0;
    }
    struct row row = row_right(in->word, in->used);
    unsigned have = 32 - in->used;
    in->used += width;
    if (width <= have)
        return row;
    in->word = row_load(in->from);
    in->from += ROW;
    in->used = width - have;
    return row_or(row, row_left(in->word, have));
}

/* From two's complement of `width` bits, 1..32. */
static inline struct row
row_extend(struct row row, unsigned width)
{
    typedef int32_t signed_vec __attribute__((vector_size(ROW_VEC_SIZE)));
    for (int i = 0; i < ROW_VECS; i++)
        row.v[i] = (row_vec)((signed_vec)(row.v[i] << (32 - width)) >> (int)(32 - width));
    return row;
}

static inline void
row_put(int32_t *x, size_t n, size_t r, struct row row)
{
    size_t left = n - r * ROW_LANES;
    memcpy(x + r * ROW_LANES, &row, (left < ROW_LANES ? left : ROW_LANES) * sizeof *x);
}

/* What the row has behind the last element. */
static inline uint32_t
row_behind(size_t n, struct row row)
{
    uint32_t word[ROW_LANES], any = 0;
    memcpy(word, &row, sizeof word);
    for (size_t i = n % ROW_LANES; i > 0 && i < ROW_LANES; i++)
        any |= word[i];
    return any;
}

uint32_t
SIMD_NAME(packed_unpack)(int32_t *x, const uint8_t *from, size_t n, const uint8_t *width)
{
    size_t rows = (n + ROW_LANES - 1) / ROW_LANES, whole = n / ROW_LANES;
    struct reading in = {.used = 32, .from = from};
    struct row row = {0};
    for (size_t r = 0; r < rows; width++) {
        size_t end = r + GROUP_ROWS < rows ? r + GROUP_ROWS : rows;
        for (; r < end; r++) {
            row = *width ? row_extend(row_read(&in, *width), *width) : (struct row){0};
            if (r < whole)
                row_store(x + r * ROW_LANES, row);
            else
                row_put(x, n, r, row);
        }
    }
    uint32_t rest = in.used < 32 ? row_any(row_right(in.word, in.used)) : 0;
    return rest | row_behind(n, row);
}

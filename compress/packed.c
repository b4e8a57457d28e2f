/* packed.c - see packed.h; picks the variant of packed_simd.c that this CPU can run. */
#include "compress/packed.h"

#include <string.h>

#include "compress/packed_simd.h"
#include "compress/rice.h"
#include "proto/mutant.h"

enum {
    STREAMS = 16,
    BLOCK_GROUPS = PACKED_BLOCK / PACKED_GROUP,
    WIDTH_MAX = 32,
    RICE = 0x80, /* in the place of the first width: the block is in Rice codes */
};

/* --- Blocks in Rice codes ------------------------------------------------------------------------- */

static bool
is_rice(size_t n, const uint8_t *width)
{
    return n == RICE_BLOCK && (width[0] & RICE);
}

static void
rice_put(const struct rice *rice, uint8_t width[BLOCK_GROUPS])
{
    const uint8_t put[BLOCK_GROUPS] = {(uint8_t)(RICE | rice->gap), (uint8_t)rice->value,
                                       (uint8_t)rice->count,        (uint8_t)(rice->count >> 8),
                                       (uint8_t)rice->words,        (uint8_t)(rice->words >> 8)};
    memcpy(width, put, sizeof put);
}

static struct rice
rice_get(const uint8_t width[BLOCK_GROUPS])
{
    return (struct rice){.gap = width[0] & ~RICE & 0xffu,
                         .value = width[1],
                         .count = width[2] | (unsigned)width[3] << 8,
                         .words = width[4] | (unsigned)width[5] << 8};
}

static bool
rice_fits(const uint8_t width[BLOCK_GROUPS])
{
    struct rice rice = rice_get(width);
    return rice.gap <= RICE_GAP_MAX && rice.value <= RICE_VALUE_MAX && rice.count <= RICE_BLOCK &&
           rice.words <= RICE_BLOCK && width[6] == 0 && width[7] == 0;
}

/* Few elements that are not zero are shorter so; it takes longer, so that it must save half a byte for each. `quick`,
 * on a fast line: the codes of many large elements take longer than the bytes that they save. */
static bool
rice_pays(const struct rice *rice, size_t packed, bool quick)
{
    if (quick && rice->count > RICE_BLOCK / 8 && packed > RICE_BLOCK)
        return false;
    return 2 * rice->words * sizeof(uint32_t) + rice->count <= 2 * packed;
}

/* Measures the block; `elements` of it are not zero, and its words would have `packed` bytes. */
static bool
rice_chosen(struct rice *rice, const int32_t *x, size_t n, size_t elements, size_t packed,
            bool quick, uint16_t at[RICE_BLOCK])
{
    if (n != RICE_BLOCK || elements == 0 || elements > RICE_BLOCK / 2)
        return false;
    unsigned count = (unsigned)elements, gap = 31 - (unsigned)__builtin_clz(RICE_BLOCK / count);
    struct rice least = {.count = count, .words = count * (gap + 3) / 32};
    if (!rice_pays(&least, packed, quick))
        return false;
    *rice = rice_measure(x, at);
    return rice_pays(rice, packed, quick);
}

/* --- Blocks --------------------------------------------------------------------------------------- */

/* Bytes of the words of a block. */
static size_t
block_size(size_t n, const uint8_t *width)
{
    if (is_rice(n, width))
        return rice_get(width).words * sizeof(uint32_t);
    size_t bits = 0; /* of a stream */
    for (size_t g = 0; g < packed_groups(n); g++)
        bits += PACKED_GROUP / STREAMS * width[g];
    return (bits + 31) / 32 * STREAMS * sizeof(int32_t);
}

/* The widths of the groups. Returns how many elements are not zero. */
static size_t
block_measure(const int32_t *x, size_t n, uint8_t *width)
{
    size_t elements = SIMD_PICK(packed_measure)(x, n, width);
    for (size_t g = 0; mutant(MUTANT_CODING_WIDTH) && g < packed_groups(n); g++)
        width[g] -= width[g] > 0;
    return elements;
}

struct packed_out
packed_begin(void *to, size_t n)
{
    size_t size = packed_widths_size(n);
    if (size > 0)
        memset((uint8_t *)to + size - 4, 0, 4);
    return (struct packed_out){.to = to, .size = size};
}

void
packed_put(struct packed_out *out, const int32_t *x, size_t n)
{
    uint8_t *width = out->to + BLOCK_GROUPS * out->block++, *to = out->to + out->size;
    uint16_t at[RICE_BLOCK];
    struct rice rice;
    size_t elements = block_measure(x, n, width), packed = block_size(n, width);
    if (rice_chosen(&rice, x, n, elements, packed, out->quick, at)) {
        rice_put(&rice, width);
        rice_write(&rice, to, x, at);
    } else {
        SIMD_PICK(packed_pack)(to, x, n, width);
    }
    out->size += block_size(n, width);
}

size_t
packed_write(void *to, const int32_t *x, size_t n)
{
    struct packed_out out = packed_begin(to, n);
    for (size_t i = 0; i < n; i += PACKED_BLOCK)
        packed_put(&out, x + i, packed_block(n, i));
    return out.size;
}

size_t
packed_size(const int32_t *x, size_t n)
{
    size_t size = packed_widths_size(n);
    for (size_t i = 0; i < n; i += PACKED_BLOCK) {
        uint8_t width[BLOCK_GROUPS];
        uint16_t at[RICE_BLOCK];
        struct rice rice;
        size_t count = packed_block(n, i);
        size_t elements = block_measure(x + i, count, width);
        if (rice_chosen(&rice, x + i, count, elements, block_size(count, width), false, at))
            rice_put(&rice, width);
        size += block_size(count, width);
    }
    return size;
}

static bool
block_fits(size_t n, const uint8_t *width)
{
    if (is_rice(n, width))
        return rice_fits(width);
    for (size_t g = 0; g < packed_groups(n); g++)
        if (width[g] > WIDTH_MAX)
            return false;
    return true;
}

bool
packed_fits(const void *from, size_t size, size_t n)
{
    const uint8_t *width = from;
    const size_t widths = packed_widths_size(n);
    size_t need = widths;
    if (size < widths)
        return false;
    for (size_t g = packed_groups(n); g < widths; g++)
        if (width[g] != 0)
            return false;
    for (size_t i = 0; i < n; i += PACKED_BLOCK) {
        if (!block_fits(packed_block(n, i), width + i / PACKED_GROUP))
            return false;
        need += block_size(packed_block(n, i), width + i / PACKED_GROUP);
    }
    return size == need;
}

struct packed_in
packed_open(const void *from, size_t n)
{
    return (struct packed_in){.from = from, .at = packed_widths_size(n)};
}

bool
packed_get(struct packed_in *in, int32_t *x, size_t n)
{
    const uint8_t *width = in->from + BLOCK_GROUPS * in->block++, *from = in->from + in->at;
    in->at += block_size(n, width);
    if (is_rice(n, width)) {
        struct rice rice = rice_get(width);
        return rice_read(&rice, from, x);
    }
    return SIMD_PICK(packed_unpack)(x, from, n, width) == 0;
}

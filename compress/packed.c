/* packed.c - see packed.h; picks the variant of packed_simd.c that this CPU can run. */
#include "compress/packed.h"

#include <string.h>

#include "compress/packed_simd.h"

enum { STREAMS = 16, BLOCK_GROUPS = PACKED_BLOCK / PACKED_GROUP, WIDTH_MAX = 32 };

/* Bytes of the words of a block. */
static size_t
block_size(size_t n, const uint8_t *width)
{
    size_t bits = 0; /* of a stream */
    for (size_t g = 0; g < packed_groups(n); g++)
        bits += PACKED_GROUP / STREAMS * width[g];
    return (bits + 31) / 32 * STREAMS * sizeof(int32_t);
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
    uint8_t *width = out->to + BLOCK_GROUPS * out->block++;
    SIMD_PICK(packed_measure)(x, n, width);
    SIMD_PICK(packed_pack)(out->to + out->size, x, n, width);
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
        SIMD_PICK(packed_measure)(x + i, packed_block(n, i), width);
        size += block_size(packed_block(n, i), width);
    }
    return size;
}

bool
packed_fits(const void *from, size_t size, size_t n)
{
    const uint8_t *width = from;
    size_t need = packed_widths_size(n), groups = packed_groups(n);
    if (size < need)
        return false;
    for (size_t g = 0; g < need; g++)
        if (width[g] > (g < groups ? WIDTH_MAX : 0))
            return false;
    for (size_t i = 0; i < n; i += PACKED_BLOCK)
        need += block_size(packed_block(n, i), width + i / PACKED_GROUP);
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
    const uint8_t *width = in->from + BLOCK_GROUPS * in->block++;
    uint32_t rest = SIMD_PICK(packed_unpack)(x, in->from + in->at, n, width);
    in->at += block_size(n, width);
    return rest == 0;
}

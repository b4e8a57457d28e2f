/* few.c - see few.h. */
#include "compress/few.h"

#include <assert.h>

static uint32_t
size_of(int32_t x)
{
    return x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
}

/* The size of the last one of the largest few, digit by digit from the highest one. *few becomes how many of just this
 * size are among them. */
static uint32_t
least_of(const uint32_t *size, size_t n, size_t *few)
{
    uint64_t least = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint16_t count[256] = {0};
        unsigned digit = 255;
        for (size_t k = 0; k < n; k++)
            if ((size[k] ^ least) >> shift < 256)
                count[size[k] >> shift & 255]++;
        for (; count[digit] < *few; digit--)
            *few -= count[digit];
        least |= (uint64_t)digit << shift;
    }
    return (uint32_t)least;
}

static void
keep_of_block(int32_t *x, const int32_t *also, size_t n, size_t few)
{
    uint32_t size[FEW_BLOCK];
    assert(few >= 1 && few <= n);
    for (size_t k = 0; k < n; k++)
        size[k] = size_of(x[k]);
    uint32_t least = least_of(size, n, &few);
    for (size_t k = 0; k < n; k++) {
        bool same = size[k] == least && few > 0;
        few -= same;
        if (size[k] <= least && !same && !(also && also[k] != 0))
            x[k] = 0;
    }
}

void
few_keep(int32_t *x, const int32_t *also, size_t n, const struct codec *codec)
{
    for (size_t k = 0; k < n; k += FEW_BLOCK) {
        size_t rest = n - k < FEW_BLOCK ? n - k : FEW_BLOCK;
        keep_of_block(x + k, also ? also + k : NULL, rest, codec_few(codec, rest));
    }
}

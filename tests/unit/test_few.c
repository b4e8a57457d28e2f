/* test_few.c - the largest few elements of a block: as sorting them says, the first of equal ones. */
#include "compress/few.h"
#include "proto/mix.h"
#include "tests/support/test.h"

enum { MOST = 2500 };

static int64_t
size_of(int32_t x)
{
    return x < 0 ? -(int64_t)x : x;
}

static size_t
larger(const int32_t *x, size_t n, size_t k)
{
    size_t before = 0;
    for (size_t j = 0; j < n; j++)
        before += size_of(x[j]) > size_of(x[k]) || (j < k && size_of(x[j]) == size_of(x[k]));
    return before;
}

static void
expect_few(const int32_t *x, const int32_t *also, size_t n, double share)
{
    struct codec codec = *codec_of(CODEC_topk);
    int32_t kept[MOST];
    codec.share = share;
    memcpy(kept, x, n * sizeof *x);
    few_keep(kept, also, n, &codec);
    for (size_t first = 0; first < n; first += FEW_BLOCK) {
        size_t count = n - first < FEW_BLOCK ? n - first : FEW_BLOCK;
        for (size_t k = 0; k < count; k++) {
            bool few = larger(x + first, count, k) < codec_few(&codec, count);
            bool stays = few || (also && also[first + k]);
            assert_int_equal(kept[first + k], stays ? x[first + k] : 0);
        }
    }
}

TEST(the_largest_few_of_each_block_stay)
{
    static const size_t counts[] = {1, 2, 100, 1023, 1024, 1025, MOST};
    static const double shares[] = {1e-6, 0.01, 0.3, 1};
    int32_t x[MOST], also[MOST];
    for (unsigned draw = 0; draw < 8; draw++) {
        for (size_t k = 0; k < MOST; k++) { /* from few values, with many equal ones, to all bits */
            x[k] = (int32_t)(uint32_t)mix64_pair(draw, k) >> (draw * 4);
            also[k] = mix64_pair(draw + 100, k) % 50 == 0;
        }
        x[0] = INT32_MIN;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t s = 0; s < sizeof shares / sizeof *shares; s++)
                expect_few(x, draw % 2 ? also : NULL, counts[c], shares[s]);
    }
}

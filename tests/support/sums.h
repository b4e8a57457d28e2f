/* sums.h - gradients that are summed as integers in two ways: element by element with exact_add, and by a product in
 * its registers; rounded to nearest, or by the chance of a codec. Are sums, overflows and checksums equal?
 *
 *     sums_begin(&sums, ...);
 *     for each part: sums_add(&sums.plain, part, first, g, n);
 *     struct product_sum to = sums_to(&sums, end, parts, ld);
 *     ... the product ...
 *     sums_equal(&sums, &to);
 */
#ifndef SUPPORT_SUMS_H
#define SUPPORT_SUMS_H

#include <string.h>

#include "compress/check.h"
#include "compress/exact.h"
#include "nn/arithmetic/product.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { SUMS_MAX = 1 << 19, SUMS_BLOCKS = SUMS_MAX / EXACT_BLOCK + 1, SUMS_PARTS = 16 };

struct sums;

struct sums_way {
    const struct sums *of;
    int32_t sum[SUMS_MAX], over[SUMS_BLOCKS], bad;
    uint64_t check;
};

struct sums {
    struct exact *exact;
    size_t parts_max;
    int16_t exponent[SUMS_BLOCKS];
    float scale[SUMS_BLOCKS];
    uint32_t key[SUMS_PARTS];
    struct sums_way plain, fused;
};

static inline void
sums_way_begin(struct sums_way *way, const struct sums *of)
{
    way->of = of;
    memset(way->sum, 0, sizeof way->sum);
    memset(way->over, 0, sizeof way->over);
    way->bad = 0;
    way->check = 0;
}

/* `wild`: some elements do not fit. One of two is coded. */
static inline void
sums_begin(struct sums *sums, struct rand *rand, size_t count, size_t parts_max, bool wild)
{
    const enum codec_kind kinds[] = {CODEC_int8, CODEC_qsgd, CODEC_sparse};
    assert_true(count <= SUMS_MAX && parts_max <= SUMS_PARTS);
    sums->parts_max = parts_max;
    assert_int_equal(exact_new(&sums->exact, &count, 1, parts_max), 0);
    if (rand_below(rand, 2))
        exact_code(sums->exact, 0, codec_of(kinds[rand_below(rand, 3)]), 1, false);
    assert_true(exact_plain(sums->exact));
    for (size_t p = 0; p < parts_max; p++)
        sums->key[p] = (uint32_t)rand_below(rand, UINT32_MAX);
    for (size_t i = 0; i < exact_blocks(sums->exact); i++)
        sums->exponent[i] = (int16_t)((wild ? 3 : 9) + rand_below(rand, 6));
    exact_scales(sums->exact, sums->exponent, sums->scale);
    sums_way_begin(&sums->plain, sums);
    sums_way_begin(&sums->fused, sums);
}

/* ctx: a struct sums_way. */
static inline void
sums_add(void *ctx, size_t part, size_t first, const float *g, size_t n)
{
    struct sums_way *way = ctx;
    assert_in_range(part, 0, way->of->parts_max - 1);
    exact_add(way->of->exact, way->of->exponent, first, g, n, 1, way->of->key[part], way->sum,
              way->over, &way->bad, &way->check);
}

static inline struct product_sum
sums_to(struct sums *sums, const size_t *end, size_t parts, size_t ld)
{
    bool drawn;
    float limit = exact_limit(sums->exact, 0, &drawn);
    return (struct product_sum){.end = end,
                                .parts = parts,
                                .sum = sums->fused.sum,
                                .ld = ld,
                                .scale = sums->scale,
                                .block = EXACT_BLOCK,
                                .limit = limit,
                                .key = drawn ? sums->key : NULL,
                                .outside = sums_add,
                                .ctx = &sums->fused};
}

static inline void
sums_equal(struct sums *sums, const struct product_sum *to)
{
    struct check_sums inside = {to->plain, to->weighted};
    assert_memory_equal(sums->plain.sum, sums->fused.sum, sizeof sums->plain.sum);
    assert_memory_equal(sums->plain.over, sums->fused.over, sizeof sums->plain.over);
    assert_int_equal(sums->plain.bad != 0, sums->fused.bad != 0);
    assert_true(sums->plain.check == check_add(sums->fused.check, check_from(inside, 0)));
    exact_destroy(&sums->exact);
}

#endif

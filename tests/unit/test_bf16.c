/* test_bf16.c - packed bfloat16 values: every pattern, and every small number of them. */
#include "compress/bf16.h"
#include "compress/bf16_simd.h"
#include "proto/float_bits.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { PATTERNS = 1 << 16 };

static float x[PATTERNS + 1], y[PATTERNS + 1];
static int32_t words[PATTERNS / 2 + 2];

/* NaN among them, so bits are compared, and set as bits. */
static void
fill(uint32_t lower)
{
    for (uint32_t i = 0; i < PATTERNS; i++)
        memcpy(&x[i], &(uint32_t){i << 16 | lower}, sizeof *x);
}

TEST(every_pattern_comes_back)
{
    fill(0);
    memset(y, 0xff, sizeof y);
    bf16_pack(words, x, PATTERNS);
    for (uint32_t i = 0; i < PATTERNS / 2; i++)
        assert_true((uint32_t)words[i] == (2 * i | (2 * i + 1) << 16));
    bf16_unpack(y, words, PATTERNS);
    assert_memory_equal(x, y, PATTERNS * sizeof *x);
}

TEST(lower_halves_are_lost)
{
    fill(0xabcd);
    bf16_pack(words, x, PATTERNS);
    bf16_unpack(y, words, PATTERNS);
    fill(0);
    assert_memory_equal(x, y, PATTERNS * sizeof *x);
}

/* Nothing is written behind the last word or value. */
TEST(any_number_is_packed)
{
    fill(0);
    for (size_t n = 0; n < 300; n++) {
        size_t count = bf16_words(n);
        memset(words, 0xff, sizeof words);
        memset(y, 0xff, sizeof y);
        bf16_pack(words, x + n, n);
        assert_int_equal(count, (n + 1) / 2);
        assert_true(words[count] == -1);
        assert_true(n % 2 == 0 || (uint32_t)words[count - 1] >> 16 == 0);
        bf16_unpack(y, words, n);
        assert_memory_equal(x + n, y, n * sizeof *x);
        assert_true(float_bits(y[n]) == UINT32_MAX);
    }
}

TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    static int32_t other[PATTERNS / 2 + 2];
    fill(0);
    for (size_t n = 0; n < 200; n++) {
        bf16_pack_base(other, x + 16000, n);
        SIMD_PICK(bf16_pack)(words, x + 16000, n);
        assert_memory_equal(words, other, bf16_words(n) * sizeof *words);
        bf16_unpack_base(x, other, n);
        SIMD_PICK(bf16_unpack)(y, words, n);
        assert_memory_equal(x, y, n * sizeof *x);
    }
}

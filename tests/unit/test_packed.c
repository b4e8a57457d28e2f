/* test_packed.c - int32 in as few bits as they need: every width, every number of elements, and what is no packed
 * vector. */
#include <math.h>

#include "compress/packed.h"
#include "compress/packed_simd.h"
#include "compress/rice.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { MOST = 3 * PACKED_BLOCK + 77, ROOM = 4 * MOST + 1024 };

static int32_t x[MOST], y[MOST + 16];
static uint8_t body[ROOM], other[ROOM];

/* Elements of at most `width` bits in two's complement. */
static void
fill(struct rand *rand, size_t n, unsigned width)
{
    for (size_t i = 0; i < n; i++)
        x[i] = width ? (int32_t)(uint32_t)rand_u64(rand) >> (32 - width) : 0;
}

static bool
reads(const uint8_t *from, size_t n)
{
    struct packed_in in = packed_open(from, n);
    bool good = true;
    for (size_t i = 0; i < n; i += PACKED_BLOCK)
        good = packed_get(&in, y + i, n - i < PACKED_BLOCK ? n - i : PACKED_BLOCK) && good;
    return good;
}

static void
comes_back(size_t n)
{
    memset(body, 0xee, sizeof body);
    memset(y, 0xee, sizeof y);
    size_t size = packed_write(body, x, n);
    assert_true(size <= packed_most(n) && body[size] == 0xee);
    assert_int_equal(packed_size(x, n), size);
    assert_true(packed_fits(body, size, n));
    assert_true(reads(body, n));
    assert_memory_equal(x, y, n * sizeof *x);
    assert_true((uint32_t)y[n] == 0xeeeeeeee);
}

TEST(every_number_of_elements_comes_back)
{
    struct rand rand = {1};
    for (size_t n = 0; n <= MOST; n += n < 300 ? 1 : 13) {
        fill(&rand, n, (unsigned)(n % 33));
        comes_back(n);
    }
}

TEST(every_width_needs_its_bits)
{
    struct rand rand = {2};
    for (unsigned width = 0; width <= 32; width++) {
        fill(&rand, PACKED_BLOCK, width);
        x[700] = width ? INT32_MIN >> (32 - width) : 0;
        for (size_t g = 0; g < PACKED_BLOCK; g += PACKED_GROUP)
            x[g] = x[700];
        comes_back(PACKED_BLOCK);
        assert_int_equal(packed_write(body, x, PACKED_BLOCK), 8 + PACKED_BLOCK / 8 * width);
    }
}

TEST(each_group_has_its_own_width)
{
    memset(x, 0, sizeof x);
    x[3 * PACKED_GROUP] = 1 << 20;
    x[4 * PACKED_GROUP] = -1;
    comes_back(PACKED_BLOCK);
    static const uint8_t width[8] = {[3] = 22, [4] = 1};
    comes_back(PACKED_BLOCK - 1); /* a whole block would be in Rice codes */
    assert_memory_equal(body, width, sizeof width);
    assert_int_equal(packed_write(body, x, PACKED_BLOCK - 1), 8 + 16 * 4 * ((8 * 23 + 31) / 32));
}

/* One of `gap` elements is not zero, and has at most `width` bits. */
static void
fill_few(struct rand *rand, size_t n, unsigned gap, unsigned width)
{
    fill(rand, n, width);
    for (size_t i = 0; i < n; i++)
        x[i] = rand_below(rand, gap) == 0 ? x[i] | 1 : 0;
}

static double
entropy(double p)
{
    return -p * log2(p) - (1 - p) * log2(1 - p);
}

/* At most a sixteenth more, two bits for each, and header and last word of a block. */
TEST(few_elements_need_about_their_entropy)
{
    struct rand rand = {7};
    enum { N = 3 * PACKED_BLOCK };
    for (unsigned gap = 8; gap < 1000; gap += 1 + gap / 8)
        for (unsigned width = 2; width <= 32; width++) {
            fill_few(&rand, N, gap, width);
            x[gap] = 1;
            comes_back(N);
            double few = 0;
            for (size_t i = 0; i < N; i++)
                few += x[i] != 0;
            double bits = N * entropy(few / N) + few * (width - 1);
            double size = (double)packed_write(body, x, N);
            assert_true(size <= 1.0625 * bits / 8 + 3 * (8 + 4) + few / 4);
        }
}

/* Of two bits, if one of eight is not zero; else they are packed as before. */
TEST(many_elements_stay_packed)
{
    struct rand rand = {8};
    for (unsigned gap = 1; gap < 4; gap++) {
        fill_few(&rand, PACKED_BLOCK, gap, 2);
        assert_int_equal(packed_write(body, x, PACKED_BLOCK), 8 + PACKED_BLOCK / 8 * 2);
    }
    fill_few(&rand, PACKED_BLOCK, 8, 2);
    assert_true(packed_write(body, x, PACKED_BLOCK) < 8 + PACKED_BLOCK / 8 * 3 / 2);
}

/* The largest gap and the largest value beside small ones: no code is longer than there is room for. */
TEST(extreme_gaps_and_values_come_back)
{
    static const int32_t value[] = {INT32_MIN, INT32_MAX, 1, -1};
    for (unsigned many = 0; many < 200; many += 7)
        for (unsigned v = 0; v < 4; v++) {
            memset(x, 0, sizeof x);
            for (unsigned i = 0; i < many; i++)
                x[i] = i % 2 ? 1 : -1;
            x[PACKED_BLOCK - 1] = value[v];
            comes_back(PACKED_BLOCK);
        }
}

TEST(extreme_values_come_back)
{
    static const int32_t value[] = {INT32_MIN, INT32_MAX, -1, 0, 1, -2, INT32_MIN + 1};
    struct rand rand = {3};
    for (size_t n = 1; n <= MOST; n += 97) {
        for (size_t i = 0; i < n; i++)
            x[i] = value[rand_below(&rand, sizeof value / sizeof *value)];
        comes_back(n);
    }
}

/* A packed vector of one block that is not whole. */
static size_t
some_body(struct rand *rand, size_t n)
{
    fill(rand, n, (unsigned)rand_below(rand, 31) + 1);
    return packed_write(body, x, n);
}

TEST(another_size_is_refused)
{
    struct rand rand = {4};
    for (size_t n = 0; n < 200; n++) {
        size_t size = some_body(&rand, n);
        for (size_t cut = 0; cut < size; cut++)
            assert_false(packed_fits(body, cut, n));
        assert_false(packed_fits(body, size + 1, n));
        assert_false(packed_fits(body, size, n + PACKED_GROUP * 4));
    }
}

/* Each bit of a body: it is refused, or other elements come out. */
TEST(every_flipped_bit_is_seen)
{
    struct rand rand = {5};
    for (size_t n = 1; n < 400; n += 19) {
        size_t size = some_body(&rand, n);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (packed_fits(body, size, n) && reads(body, n))
                assert_memory_not_equal(x, y, n * sizeof *x);
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

TEST(every_flipped_bit_of_few_elements_is_seen)
{
    struct rand rand = {9};
    enum { N = PACKED_BLOCK + 40 };
    for (unsigned width = 2; width <= 32; width += 5) {
        fill_few(&rand, N, 20, width);
        size_t size = packed_write(body, x, N);
        assert_true(body[0] & 0x80);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (packed_fits(body, size, N) && reads(body, N))
                assert_memory_not_equal(x, y, N * sizeof *x);
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* Bits of x[0..count) in these codes, all else is zero. */
static unsigned
rice_words(const struct rice *rice, const uint16_t *at)
{
    uint64_t bits = 0;
    for (unsigned i = 0, next = 0; i < rice->count; next = at[i++] + 1u) {
        uint32_t size = (uint32_t)llabs((int64_t)x[at[i]]) - 1;
        bits += ((at[i] - next) >> rice->gap) + (size >> rice->value) + 3 + rice->gap + rice->value;
    }
    return (unsigned)((bits + 31) / 32);
}

/* x is in these codes what it was; exactly as many bytes are read as there are. */
static void
rice_comes_back(struct rice *rice, const uint16_t *at)
{
    rice->words = rice_words(rice, at);
    size_t size = rice->words * sizeof(uint32_t);
    OWNED(memory_free) uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    rice_write(rice, bytes, x, at);
    memset(y, 0xee, sizeof y);
    if (!rice_read(rice, bytes, y) || memcmp(x, y, RICE_BLOCK * sizeof *x) != 0)
        fail_msg("gap %u, value %u: elements at %u and %u", rice->gap, rice->value, at[0], at[1]);
}

/* Of a code as long as is read at once, and of longer ones, no bit is cut off, wherever they begin: of the size of an
 * element, with as many zeros before it as bits before its code; and of the zeros between two elements. */
TEST(rice_codes_of_every_length_come_back)
{
    for (unsigned k = 0; k <= RICE_VALUE_MAX; k++)
        for (uint64_t zeros = 0; zeros <= 100; zeros++)
            for (uint16_t before = 0; before < 8; before++) {
                uint64_t size = (zeros << k | ((UINT64_C(1) << k) - 1)) + 1;
                const uint16_t at[] = {before, (uint16_t)(before + 3)};
                struct rice rice = {.value = k, .count = 2};
                if (size > INT32_MAX)
                    continue;
                memset(x, 0, RICE_BLOCK * sizeof *x);
                x[at[0]] = before % 2 ? (int32_t)size : -(int32_t)size;
                x[at[1]] = -1;
                rice_comes_back(&rice, at);
            }
    for (unsigned k = 0; k <= RICE_GAP_MAX; k++)
        for (uint16_t zeros = 0; zeros <= 100; zeros++)
            for (int32_t before = 1; before <= 8; before++) {
                uint16_t gap = (uint16_t)(zeros << k | ((1 << k) - 1));
                const uint16_t at[] = {0, (uint16_t)(1 + gap)};
                struct rice rice = {.gap = k, .count = 2};
                if (zeros << k > 1000 - (1 << k))
                    continue;
                memset(x, 0, RICE_BLOCK * sizeof *x);
                x[at[0]] = before;
                x[at[1]] = -2;
                rice_comes_back(&rice, at);
            }
}

/* Any bytes as a block in Rice codes: no read outside of it, and each element is written. */
TEST(any_bytes_are_read_or_refused)
{
    struct rand rand = {10};
    for (int i = 0; i < 20000; i++) {
        struct rice rice = {.gap = (unsigned)rand_below(&rand, RICE_GAP_MAX + 1),
                            .value = (unsigned)rand_below(&rand, RICE_VALUE_MAX + 1),
                            .count = (unsigned)rand_below(&rand, 80),
                            .words = (unsigned)rand_below(&rand, 40)};
        size_t size = rice.words * sizeof(uint32_t);
        OWNED(memory_free) uint8_t *bytes = malloc(size + 1); /* exactly as long as it says */
        assert_non_null(bytes);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)(rand_u64(&rand) & rand_u64(&rand) & rand_u64(&rand));
        memset(y, 0xee, sizeof y);
        rice_read(&rice, bytes, y);
        assert_true((uint32_t)y[PACKED_BLOCK - 1] != 0xeeeeeeee);
    }
}

TEST(a_width_above_32_is_refused)
{
    fill(&(struct rand){11}, PACKED_BLOCK, 20);
    size_t size = packed_write(body, x, PACKED_BLOCK);
    for (unsigned width = 33; width < 256; width++) {
        body[0] = (uint8_t)width;
        assert_false(packed_fits(body, size, PACKED_BLOCK));
    }
}

TEST_OF_VARIANTS(every_variant_gives_the_same_bits)
{
    struct rand rand = {6};
    for (size_t n = 1; n <= PACKED_BLOCK; n += n < 40 ? 1 : 31) {
        uint8_t width[8] = {0}, base[8] = {0};
        fill(&rand, n, (unsigned)(n % 32) + 1);
        memset(body, 0, sizeof body);
        memset(other, 0, sizeof other);
        size_t elements = packed_measure_base(x, n, base);
        assert_int_equal(SIMD_PICK(packed_measure)(x, n, width), elements);
        assert_memory_equal(width, base, sizeof width);
        packed_pack_base(other, x, n, width);
        SIMD_PICK(packed_pack)(body, x, n, width);
        assert_memory_equal(body, other, sizeof body);
        assert_int_equal(packed_unpack_base(y, body, n, width), 0);
        assert_memory_equal(x, y, n * sizeof *x);
        assert_int_equal(SIMD_PICK(packed_unpack)(y, body, n, width), 0);
        assert_memory_equal(x, y, n * sizeof *x);
    }
}

/* test_coding.c - sums of bodies, however they are written: the plain sums and their checksums. */
#include "compress/check.h"
#include "compress/coding.h"
#include "tests/support/mutant.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { MOST = 2 * PACKED_BLOCK + 333 };

static int32_t a[MOST], x[MOST], out[MOST], want[MOST];
static uint8_t body[4 * MOST + 1024], on[4 * MOST + 1024];

/* a and x of n elements, x in the body; returns its size. */
static size_t
draw(struct rand *rand, enum proto_coding coding, size_t n)
{
    unsigned bits = (unsigned)rand_range(rand, 0, 30);
    for (size_t i = 0; i < n; i++) {
        a[i] = (int32_t)(rand_u64(rand) & 0x3fffffff) >> bits;
        x[i] = -((int32_t)(rand_u64(rand) & 0x3fffffff) >> bits);
        want[i] = a[i] + x[i];
    }
    uint64_t check;
    if (coding == PROTO_CODING_PACKED) {
        size_t size = coding_pack(body, x, n, SIZE_MAX, false, &check);
        assert_true(check == check_of(x, 0, n));
        return size;
    }
    memcpy(body, x, n * sizeof *x);
    return n * sizeof *x;
}

/* One in four elements is not zero and large: Rice codes are shorter, and what is written quickly has none, but the
 * same elements. Those of few or small elements it has. */
TEST(quick_bodies_have_no_slow_codes)
{
    uint64_t check, quick_check;
    for (size_t i = 0; i < PACKED_BLOCK; i++)
        x[i] = i % 4 == 0;
    assert_int_equal(coding_pack(body, x, PACKED_BLOCK, SIZE_MAX, true, &check),
                     coding_pack(body, x, PACKED_BLOCK, SIZE_MAX, false, &check));
    for (size_t i = 0; i < PACKED_BLOCK; i++)
        x[i] = i % 32 == 5 ? (int32_t)i * 1000 : 0;
    assert_int_equal(coding_pack(body, x, PACKED_BLOCK, SIZE_MAX, true, &check),
                     coding_pack(body, x, PACKED_BLOCK, SIZE_MAX, false, &check));
    for (size_t i = 0; i < PACKED_BLOCK; i++)
        x[i] = i % 4 == 1 ? (int32_t)i * 1000 : 0;
    size_t size = coding_pack(body, x, PACKED_BLOCK, SIZE_MAX, false, &check);
    size_t quick = coding_pack(on, x, PACKED_BLOCK, SIZE_MAX, true, &quick_check);
    assert_true(size < quick && check == quick_check);
    assert_true(body[0] & 0x80 && !(on[0] & 0x80));
    assert_true(coding_copy(out, PROTO_CODING_PACKED, on, PACKED_BLOCK, &check));
    assert_memory_equal(out, x, PACKED_BLOCK * sizeof *x);
}

static void
check_one(struct rand *rand, enum proto_coding coding, size_t n)
{
    uint64_t check, of_a, of_sum;
    size_t size = draw(rand, coding, n);
    assert_true(coding_fits(coding, body, size, n) && size <= coding_most(n));
    assert_false(coding_fits(coding, body, size + 1, n));
    assert_true(coding_copy(out, coding, body, n, &check));
    assert_memory_equal(out, x, n * sizeof *x);
    assert_true(check == check_of(x, 0, n));
    assert_true(coding_sum(out, a, coding, body, n, &of_a, &of_sum));
    assert_memory_equal(out, want, n * sizeof *x);
    assert_true(of_a == check_of(a, 0, n) && of_sum == check_of(want, 0, n));
}

TEST_OF_VARIANTS(copies_and_sums_are_the_plain_ones)
{
    struct rand rand = {1};
    for (size_t n = 0; n <= MOST; n += n < 130 ? 1 : 101) {
        check_one(&rand, PROTO_CODING_RAW, n);
        check_one(&rand, PROTO_CODING_PACKED, n);
    }
}

/* A sum that goes on is packed, and in memory if that is wanted. */
TEST_OF_VARIANTS(a_sum_goes_on_packed)
{
    struct rand rand = {2};
    for (size_t n = 1; n <= MOST; n += n < 130 ? 1 : 101)
        for (int keep = 0; keep < 2; keep++) {
            uint64_t of_a, of_sum, check;
            size_t size = 0;
            draw(&rand, PROTO_CODING_PACKED, n);
            memset(out, 0, sizeof out);
            assert_true(coding_sum_on(on, &size, keep ? out : NULL, a, body, n,
                                      rand_below(&rand, 2), &of_a, &of_sum));
            assert_true(of_a == check_of(a, 0, n) && of_sum == check_of(want, 0, n));
            assert_true(!keep || memcmp(out, want, n * sizeof *out) == 0);
            assert_true(coding_fits(PROTO_CODING_PACKED, on, size, n));
            assert_true(coding_copy(out, PROTO_CODING_PACKED, on, n, &check));
            assert_memory_equal(out, want, n * sizeof *out);
        }
}

/* The sum may lie where one of its parts was. */
TEST(a_sum_may_replace_its_own_part)
{
    struct rand rand = {3};
    uint64_t of_a, of_sum;
    draw(&rand, PROTO_CODING_PACKED, MOST);
    memcpy(out, a, sizeof a);
    assert_true(coding_sum(out, out, PROTO_CODING_PACKED, body, MOST, &of_a, &of_sum));
    assert_memory_equal(out, want, sizeof want);
    assert_true(of_a == check_of(a, 0, MOST));
}

/* Every flipped bit of a packed body: it does not fit, is refused, or gives another checksum. */
TEST(a_flipped_bit_changes_the_checksum)
{
    struct rand rand = {4};
    for (size_t n = 5; n < 300; n += 59) {
        uint64_t check;
        size_t size = draw(&rand, PROTO_CODING_PACKED, n);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (coding_fits(PROTO_CODING_PACKED, body, size, n) &&
                coding_copy(out, PROTO_CODING_PACKED, body, n, &check))
                assert_true(check != check_of(x, 0, n));
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* Is the sum of a packed body the plain one, and if not, do the checksums tell? */
static void
check_planted(uint64_t planted, bool right)
{
    struct rand rand = {3};
    uint64_t check, of_a, of_sum;
    draw(&rand, PROTO_CODING_RAW, PACKED_GROUP);
    mutants_planted = planted;
    coding_pack(body, x, PACKED_GROUP, SIZE_MAX, false, &check);
    assert_true(coding_sum(out, a, PROTO_CODING_PACKED, body, PACKED_GROUP, &of_a, &of_sum));
    mutants_planted = 0;
    assert_int_equal(memcmp(out, want, PACKED_GROUP * sizeof *want) == 0, right);
    assert_int_equal(check_add(of_a, check) == of_sum, right);
}

TEST(planted_bugs_change_the_sum_and_checksums_tell)
{
    check_planted(0, true);
    check_planted(MUTANT_CODING_WIDTH, false);
    check_planted(MUTANT_CODING_TWICE, false);
}

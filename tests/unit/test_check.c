/* test_check.c - the linear checksum: against its definition, its linearity, and what it finds. */
#include "compress/check.h"
#include "compress/check_simd.h"
#include "proto/simd.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"
#include "tests/support/variants.h"

enum { COUNT_MAX = 4096 };

static int32_t x[COUNT_MAX + 1], y[COUNT_MAX + 1], z[COUNT_MAX + 1], out[COUNT_MAX + 1];

static void
fill(struct rand *rand, int32_t *to, size_t n, uint32_t limit)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (int32_t)((int64_t)rand_below(rand, 2 * (uint64_t)limit + 1) - limit);
}

/* The definition, element by element. */
static uint64_t
naive(const int32_t *v, size_t n)
{
    uint32_t low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low += (uint32_t)v[i];
        high += (uint32_t)v[i] * (uint32_t)(2 * i + 1);
    }
    return (uint64_t)high << 32 | low;
}

TEST(it_follows_its_definition_for_every_count)
{
    fill(&(struct rand){1}, x, COUNT_MAX, INT32_MAX);
    for (size_t n = 0; n < 300; n++)
        assert_true(check_of(x, 0, n) == naive(x, n));
    assert_true(check_of(x, 0, COUNT_MAX) == naive(x, COUNT_MAX));
    assert_true(check_of(x, 0, 0) == 0);
}

TEST(it_never_changes)
{
    /* on the wire: another value would be another protocol version */
    for (int i = 0; i < 100; i++)
        x[i] = i * i - 50;
    assert_true(check_of(x, 0, 100) == UINT64_C(0x02e923460004ef16));
}

TEST(it_is_linear)
{
    struct rand rand = {2};
    for (size_t n = 0; n < 300; n++) {
        fill(&rand, x, n, INT32_MAX / 2);
        fill(&rand, y, n, INT32_MAX / 2);
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] + y[i];
        assert_true(check_add(check_of(x, 0, n), check_of(y, 0, n)) == check_of(z, 0, n));
    }
}

TEST(it_is_linear_where_elements_wrap)
{
    struct rand rand = {3};
    uint64_t x_check, sum_check;
    fill(&rand, x, COUNT_MAX, INT32_MAX);
    fill(&rand, y, COUNT_MAX, INT32_MAX);
    check_sum(z, x, y, COUNT_MAX, &x_check, &sum_check);
    assert_true(check_add(x_check, check_of(y, 0, COUNT_MAX)) == sum_check);
}

TEST(halves_of_a_sum_do_not_mix)
{
    assert_true(check_add(0xffffffffu, 1) == 0);
    assert_true(check_add(UINT64_C(0xffffffff00000002), UINT64_C(0x200000003)) ==
                UINT64_C(0x100000005));
}

TEST(it_finds_every_flipped_bit)
{
    fill(&(struct rand){4}, x, COUNT_MAX, INT32_MAX);
    uint64_t right = check_of(x, 0, COUNT_MAX);
    for (size_t bit = 0; bit < 32 * (size_t)COUNT_MAX; bit++) {
        int32_t kept = x[bit / 32];
        x[bit / 32] = (int32_t)((uint32_t)kept ^ 1U << bit % 32);
        if (check_of(x, 0, COUNT_MAX) == right)
            fail_msg("bit %zu of element %zu went unnoticed", bit % 32, bit / 32);
        x[bit / 32] = kept;
    }
}

TEST(it_finds_swapped_elements)
{
    struct rand rand = {5};
    fill(&rand, x, COUNT_MAX, INT32_MAX);
    uint64_t right = check_of(x, 0, COUNT_MAX);
    for (size_t i = 0; i < COUNT_MAX; i++) {
        size_t j = (size_t)rand_below(&rand, COUNT_MAX);
        int32_t a = x[i], b = x[j];
        x[i] = b, x[j] = a;
        assert_true((check_of(x, 0, COUNT_MAX) == right) == (a == b));
        x[i] = a, x[j] = b;
    }
}

TEST(it_finds_a_missing_or_doubled_row)
{
    fill(&(struct rand){6}, x, COUNT_MAX, INT32_MAX);
    uint64_t right = check_of(x, 0, COUNT_MAX);
    memcpy(y, x, sizeof x);
    memmove(y + CHECK_LANES, y, (COUNT_MAX - CHECK_LANES) * sizeof *y);
    assert_true(check_of(y, 0, COUNT_MAX) != right);
    memset(x + 160, 0, CHECK_LANES * sizeof *x);
    assert_true(check_of(x, 0, COUNT_MAX) != right);
}

TEST(sum_and_copy_agree_with_the_checksum_at_any_alignment)
{
    struct rand rand = {7};
    static uint8_t frame[sizeof x + 8];
    fill(&rand, x, COUNT_MAX, INT32_MAX / 2);
    fill(&rand, y, COUNT_MAX, INT32_MAX / 2);
    for (size_t n = 0; n < 200; n++) {
        const void *body = memcpy(frame + n % 8, y, n * sizeof *y);
        uint64_t x_check, sum_check;
        out[n] = 77;
        check_sum(out, x, body, n, &x_check, &sum_check);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(out[i], x[i] + y[i]);
        assert_true(x_check == naive(x, n));
        assert_true(sum_check == naive(out, n));
        assert_true(check_copy(out, body, n) == naive(y, n));
        assert_memory_equal(out, y, n * sizeof *y);
        assert_int_equal(out[n], 77);
    }
}

TEST(a_sum_may_be_made_in_place)
{
    struct rand rand = {8};
    uint64_t own, sum;
    fill(&rand, x, 1000, INT32_MAX / 2);
    fill(&rand, y, 1000, INT32_MAX / 2);
    check_sum(out, x, y, 1000, &own, &sum);
    check_sum(x, x, y, 1000, &own, &sum);
    assert_memory_equal(x, out, 1000 * sizeof *x);
    assert_true(sum == naive(out, 1000));
}

TEST_OF_VARIANTS(all_variants_give_the_same_bits)
{
    if (!simd_avx2())
        skip();
    struct rand rand = {9};
    for (size_t n = 0; n < 300; n++) {
        uint64_t a[2], sum[2];
        fill(&rand, x, n, INT32_MAX);
        fill(&rand, y, n, INT32_MAX);
        struct check_sums sums[2];
        check_of_base(x, n, &sums[0]);
        SIMD_PICK(check_of)(x, n, &sums[1]);
        assert_memory_equal(&sums[0], &sums[1], sizeof sums[0]);
        check_sum_base(out, x, y, n, &a[0], &sum[0]);
        SIMD_PICK(check_sum)(z, x, y, n, &a[1], &sum[1]);
        assert_true(a[0] == a[1]);
        assert_true(sum[0] == sum[1]);
        assert_memory_equal(out, z, n * sizeof *z);
        assert_true(check_copy_base(out, x, n) == SIMD_PICK(check_copy)(z, x, n));
        assert_memory_equal(out, z, n * sizeof *z);
    }
}

/* Long vectors, some of them past the caches: the same sums, copies and checksums. */
TEST(long_copies_are_the_same)
{
    enum { MOST = CHECK_STREAM + CHECK_LANES + 8 };
    static const size_t counts[] = {CHECK_STREAM - 1, CHECK_STREAM, CHECK_STREAM + 5,
                                    CHECK_STREAM + CHECK_LANES};
    OWNED(memory_free) int32_t *own = aligned_alloc(64, 4 * MOST * sizeof *own);
    assert_non_null(own);
    int32_t *frame = own + MOST, *kept = own + (size_t)2 * MOST, *to = own + (size_t)3 * MOST;
    struct rand rand = {9};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (size_t shift = 0; shift < 2; shift++) {
            size_t n = counts[c];
            uint64_t own_check, sum_check;
            fill(&rand, own, n, INT32_MAX);
            fill(&rand, frame, n, INT32_MAX);
            memcpy(kept, frame, n * sizeof *frame);
            assert_true(check_copy(to + shift, frame, n) == check_of(frame, 0, n));
            assert_memory_equal(to + shift, frame, n * sizeof *frame);
            memset(to + shift, 0, n * sizeof *to);
            assert_true(check_copy_near(to + shift, frame, n) == check_of(frame, 0, n));
            assert_memory_equal(to + shift, frame, n * sizeof *frame);
            check_sum_copy(to + shift, own, frame, n, &own_check, &sum_check);
            assert_memory_equal(to + shift, frame, n * sizeof *frame);
            for (size_t i = 0; i < n; i++)
                assert_true((uint32_t)frame[i] == (uint32_t)own[i] + (uint32_t)kept[i]);
            assert_true(own_check == check_of(own, 0, n));
            assert_true(sum_check == check_of(frame, 0, n));
        }
}

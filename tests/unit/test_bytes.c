/* test_bytes.c - the little-endian cursors, and that an overrun sticks. */
#include "proto/bytes.h"
#include "tests/support/test.h"

TEST(numbers_come_back_little_endian)
{
    uint8_t buffer[32];
    struct bytes_out out = bytes_out(buffer, sizeof buffer);
    bytes_put_u8(&out, 0xab);
    bytes_put_u16(&out, 0x1234);
    bytes_put_u64(&out, UINT64_MAX - 1);
    bytes_put_raw(&out, "end", 3);
    assert_false(out.overrun);
    static const uint8_t expected[] = {0xab, 0x34, 0x12, 0xfe, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0xff, 'e',  'n',  'd'};
    assert_int_equal(bytes_written(&out, buffer), sizeof expected);
    assert_memory_equal(buffer, expected, sizeof expected);
    struct bytes_in in = bytes_in(buffer, sizeof expected);
    assert_int_equal(bytes_u8(&in), 0xab);
    assert_int_equal(bytes_u16(&in), 0x1234);
    assert_true(bytes_u64(&in) == UINT64_MAX - 1);
    assert_int_equal(bytes_left(&in), 3);
    assert_false(bytes_done(&in));
    assert_memory_equal(bytes_raw(&in, 3), "end", 3);
    assert_true(bytes_done(&in));
}

TEST(reading_behind_the_end_gives_nothing_from_then_on)
{
    const uint8_t five[5] = {1, 2, 3, 4, 5};
    struct bytes_in in = bytes_in(five, sizeof five);
    assert_int_equal(bytes_u16(&in), 0x0201);
    assert_int_equal(bytes_u64(&in), 0); /* three are left */
    assert_int_equal(bytes_u8(&in), 0);  /* one would do, but the overrun sticks */
    assert_null(bytes_raw(&in, 0));
    assert_int_equal(bytes_left(&in), 0);
    assert_false(bytes_done(&in));
}

TEST(writing_behind_the_end_writes_nothing_from_then_on)
{
    uint8_t buffer[8] = {0};
    struct bytes_out out = bytes_out(buffer, 5);
    bytes_put_u16(&out, 0x0201);
    bytes_put_u64(&out, UINT64_MAX);
    bytes_put_u8(&out, 9);
    assert_true(out.overrun);
    assert_int_equal(bytes_written(&out, buffer), 2);
    assert_memory_equal(buffer, "\1\2\0\0\0\0\0\0", 8);
}

TEST(huge_lengths_do_not_wrap)
{
    uint8_t buffer[4] = {0};
    struct bytes_in in = bytes_in(buffer, sizeof buffer);
    assert_null(bytes_raw(&in, SIZE_MAX));
    struct bytes_out out = bytes_out(buffer, sizeof buffer);
    bytes_put_raw(&out, buffer, SIZE_MAX);
    assert_true(out.overrun);
}

TEST(nothing_can_be_read_from_nothing)
{
    struct bytes_in in = bytes_in(NULL, 0);
    assert_true(bytes_done(&in));
    assert_non_null(bytes_raw(&in, 0));
    assert_true(bytes_done(&in));
    assert_int_equal(bytes_u8(&in), 0);
    assert_false(bytes_done(&in));
    struct bytes_out out = bytes_out(NULL, 0);
    bytes_put_raw(&out, "", 0);
    assert_false(out.overrun);
    bytes_put_u8(&out, 1);
    assert_true(out.overrun);
}

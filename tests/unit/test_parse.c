/* test_parse.c - numbers, endpoints and names as people type them. */
#include "node/base/parse.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>

#include "tests/support/test.h"

TEST(whole_numbers_are_plain_digits)
{
    static const char *const bad[] = {"",    " 1",  "1 ",    "+1",  "-1", "01", "0x10",
                                      "1e3", "1.0", "1_000", "1k",  "٣",  "½",  "NaN",
                                      "inf", "1\n", "--1",   "0b1", "1,5"};
    uint64_t value = 7;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(parse_uint(bad[i], &value), -EINVAL);
    assert_int_equal(value, 7);
    assert_int_equal(parse_uint("0", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(parse_uint("18446744073709551615", &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(parse_uint("18446744073709551616", &value), -ERANGE);
    assert_int_equal(parse_uint("99999999999999999999999", &value), -ERANGE);
}

TEST(real_numbers_are_decimal_and_finite)
{
    static const char *const bad[] = {"",    ".",    "-",    "1,5", "0x1p3", "inf",  "nan", "1e",
                                      "1e+", " 1.5", "1.5 ", "+1",  "1.5f",  "1..5", "1d3", "--1"};
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0.1", 0.1}, {"1e-3", 1e-3}, {"-2.5E+2", -250},
                {".5", 0.5},  {"5.", 5},      {"007", 7}};
    double value = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(parse_real(bad[i], &value), -EINVAL);
    assert_int_equal(parse_real("1e400", &value), -ERANGE);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse_real(good[i].text, &value), 0);
        assert_true(value == good[i].value);
    }
}

TEST(the_shortest_form_of_a_number_reads_back_the_same)
{
    static const double values[] = {
        0, 0.1, 0.9999, 1.0 / 3, 1e-30, 123456.789, 9007199254740993.0, (double)FLT_MIN};
    char text[PARSE_REAL_MAX];
    double back = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        parse_real_format(text, values[i], false);
        assert_int_equal(parse_real(text, &back), 0);
        assert_true(back == values[i]);
        parse_real_format(text, values[i], true);
        assert_int_equal(parse_real(text, &back), 0);
        assert_true((float)back == (float)values[i]);
    }
    parse_real_format(text, (double)0.1f, true);
    assert_string_equal(text, "0.1");
}

TEST(endpoints_have_a_host_and_a_port)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {
        {"node-1.lan:20000", "node-1.lan", 20000},
        {"10.0.0.1:1", "10.0.0.1", 1},
        {"[::1]:65535", "::1", 65535},
        {"[fe80::1%eth0]:7", "fe80::1%eth0", 7},
    };
    static const char *const bad[] = {
        "",           "host",       "host:",     ":20000",     "host:0",   "host:-1",    "host:+1",
        "host:65536", "host:1x",    "host: 1",   "::1:20",     "[::1]",    "[::1]20",    "[::1:20",
        "[host]:20",  "[]:20",      "a b:20",    "a/b:20",     "-host:20", "host:20:30", "h\n:20",
        "[::1%]:5",   "tcp://h:20", "host:0x50", "[1.2.3.4]:5"};
    struct proto_endpoint got;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse_endpoint(good[i].text, &got), 0);
        assert_string_equal(got.host, good[i].host);
        assert_int_equal(got.control_port, good[i].port);
        char text[PROTO_WHO_MAX];
        assert_string_equal(parse_endpoint_text(&got, text), good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse_endpoint(bad[i], &got) != -EINVAL)
            fail_msg("accepted '%s'", bad[i]);
}

TEST(a_host_of_300_bytes_is_refused)
{
    char text[400];
    struct proto_endpoint got;
    memset(text, 'a', sizeof text);
    snprintf(text + 300, sizeof text - 300, ":20");
    assert_int_equal(parse_endpoint(text, &got), -EINVAL);
    snprintf(text + 253, sizeof text - 253, ":20");
    assert_int_equal(parse_endpoint(text, &got), 0);
}

TEST(what_a_terminal_would_obey_is_escaped)
{
    char out[64];
    parse_escape(out, sizeof out, "\033[31m\a\xc2\x9b grün \xff\xe2\x80\xae");
    assert_string_equal(out, "\\x1b[31m\\x07\\xc2\\x9b grün \\xff\\xe2\\x80\\xae");
    assert_true(parse_printable("grün, 日本"));
    assert_false(parse_printable("a\tb"));
    assert_false(parse_printable("a\xe2\x80\xa8z"));
    assert_false(parse_printable("\xc0\xaf"));
}

TEST(text_is_cut_between_characters)
{
    char out[6];
    assert_int_equal(parse_escape(out, sizeof out, "abcdü"), 4);
    assert_string_equal(out, "abcd");
    assert_int_equal(parse_escape(out, sizeof out, "ab\n\n"), 2);
    assert_int_equal(parse_escape(out, 1, "x"), 0);
    assert_string_equal(out, "");
}

TEST(distance_counts_edits)
{
    assert_int_equal(parse_distance("", ""), 0);
    assert_int_equal(parse_distance("batch", "batch"), 0);
    assert_int_equal(parse_distance("bach", "batch"), 1);
    assert_int_equal(parse_distance("bacth", "batch"), 1);
    assert_int_equal(parse_distance("optimiser", "optimizer"), 1);
    assert_int_equal(parse_distance("", "abc"), 3);
    assert_int_equal(parse_distance("kitten", "sitting"), 3);
}

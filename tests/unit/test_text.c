/* test_text.c - which text may travel. */
#include "proto/text.h"
#include "tests/support/test.h"

static bool
printable(const char *text)
{
    return text_printable(text, strlen(text));
}

TEST(printable_text_is_accepted)
{
    static const char *const good[] = {"",
                                       " ",
                                       "~",
                                       "\xc2\xa0",
                                       "caf\xc3\xa9",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xe2\x82\xac",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(printable(good[i]));
}

TEST(controls_and_broken_utf8_are_refused)
{
    static const char *const bad[] = {
        "\n",
        "\x1b[2J",
        "a\tb",
        "\x7f", /* C0, DEL */
        "\xc2\x80",
        "\xc2\x9f", /* C1 */
        "\x80",
        "\xbf",
        "a\xa0", /* tails alone */
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98", /* cut */
        "\xc3(",
        "\xe2(\xac",
        "\xe2\x82(", /* no tail */
        "\xc0\x80",
        "\xc1\xbf", /* overlong */
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf", /* surrogates */
        "\xf4\x90\x80\x80",
        "\xf7\xbf\xbf\xbf", /* above U+10FFFF */
        "\xf8\x88\x80\x80\x80",
        "\xff",
        "\xfe", /* never in UTF-8 */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(printable(bad[i]));
    assert_false(text_printable("a\0b", 3));
}

TEST(a_character_is_never_read_beyond_what_is_left)
{
    assert_int_equal(text_character("\xe2\x82\xac", 3), 3);
    assert_int_equal(text_character("\xe2\x82\xac", 2), 0);
    assert_int_equal(text_character("a", 0), 0);
}

TEST(hosts_are_names_or_addresses)
{
    static const char *const good[] = {"a", "10.0.0.1", "node-3.example", "fe80::1%eth0", "my_box"};
    static const char *const bad[] = {"", "a b", "a;b", "a/b", "*", "[::1]", "caf\xc3\xa9", "a\n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(text_host(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(text_host(bad[i], strlen(bad[i])));
}

TEST(a_copy_is_cut_at_a_whole_character)
{
    char out[6];
    text_copy(out, sizeof out, "abc\xe2\x82\xac");
    assert_string_equal(out, "abc");
    text_copy(out, sizeof out, "ab\xe2\x82\xac!");
    assert_string_equal(out, "ab\xe2\x82\xac");
    text_copy(out, 1, "abc");
    assert_string_equal(out, "");
    text_copy(out, sizeof out, "");
    assert_string_equal(out, "");
}

TEST(a_copy_replaces_what_may_not_travel)
{
    char out[32];
    text_copy(out, sizeof out, "a\nb\x80\xe2\x82");
    assert_string_equal(out, "a?b???");
    assert_true(printable(out));
}

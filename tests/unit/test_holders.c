/* test_holders.c - who has which stages, in a line. */
#include "node/results/holders.h"

#include <stdio.h>

#include "tests/support/test.h"

static struct core_division division;

static void
member(const char *who, uint64_t holds, uint64_t computes)
{
    struct core_holder *of = &division.of[division.count++];
    snprintf(of->who, sizeof of->who, "%s", who);
    of->holds = holds;
    of->computes = computes;
}

static void
begin(unsigned stages)
{
    division.stages = stages;
    division.count = 0;
}

static void
says(const char *expected)
{
    char text[HOLDERS_TEXT];
    holders_text(&division, text);
    assert_string_equal(text, expected);
}

TEST(each_stage_has_its_nodes)
{
    begin(3);
    member("a", 7, 1);
    member("b", 7, 2);
    member("c", 7, 1);
    member("d", 7, 6);
    says("1 a, c; 2 b, d; 3 d");
}

TEST(who_only_holds_a_stage_is_in_brackets)
{
    begin(2);
    member("a", 1, 1);
    member("b", 3, 2);
    says("1 a (b); 2 b");
    member("c", 3, 0); /* it watches */
    says("1 a (b, c); 2 b (c)");
    begin(PROTO_STAGES_MAX);
    member("a", UINT64_MAX, UINT64_C(1) << 63);
    division.stages = 2;
    says("1 (a); 2 (a)");
}

TEST(a_model_that_is_not_divided_says_nothing)
{
    begin(0);
    says("");
    begin(1);
    member("a", 1, 1);
    says("");
}

TEST(what_is_too_long_is_cut_at_a_name)
{
    char text[HOLDERS_TEXT], name[PROTO_WHO_MAX];
    for (size_t size = 1; size < sizeof name; size++) {
        begin(PROTO_STAGES_MAX);
        memset(name, 'x', size);
        name[size] = '\0';
        for (size_t m = 0; m < PROTO_PEERS_MAX; m++)
            member(name, m % 2 ? UINT64_MAX : 1, 1);
        memset(text, 'y', sizeof text);
        holders_text(&division, text);
        assert_non_null(memchr(text, '\0', sizeof text));
        assert_string_equal(text + strlen(text) - 3, "...");
        assert_non_null(strstr(text, name));
    }
}

/* test_links.c - the lines of the user-space switch do to frames what they were told, and no more. */
#include "tests/support/links.h"
#include "tests/support/test.h"

enum { SIZE = 125, MANY = 10000 };

static struct links *links;

FIXTURE(set_up)
{
    return links_new(&links, 4, 7);
}

FIXTURE(tear_down)
{
    links_destroy(&links);
    return 0;
}

TEST_EACH(set_up, tear_down)

static void
told(const char *text)
{
    struct why why = {""};
    if (links_command(links, text, &why))
        fail_msg("%s", why.line);
}

/* The first bytes behind the header are the frame's number. */
static void
sent(uint64_t now, unsigned from, unsigned to, uint32_t number)
{
    uint8_t data[SIZE] = {0};
    memcpy(data + 16, &number, sizeof number);
    links_send(links, now, from, to, data, sizeof data);
}

static uint32_t
number_of(const struct links_frame *frame)
{
    uint32_t number;
    memcpy(&number, frame->data + 16, sizeof number);
    return number;
}

static unsigned
arrivals(uint64_t now)
{
    unsigned count = 0;
    while (links_next(links, now))
        count++;
    return count;
}

TEST(a_good_line_passes_frames_at_once_in_order_and_intact)
{
    for (uint32_t k = 0; k < 100; k++)
        sent(5, 1, 2, k);
    for (uint32_t k = 0; k < 100; k++) {
        const struct links_frame *frame = links_next(links, 5);
        assert_non_null(frame);
        assert_int_equal(frame->from, 1);
        assert_int_equal(frame->to, 2);
        assert_int_equal(frame->size, SIZE);
        assert_int_equal(number_of(frame), k);
    }
    assert_null(links_next(links, 5));
    assert_true(links_due(links) == UINT64_MAX);
}

TEST(a_cut_goes_one_way)
{
    told("line 0 1 cut=1");
    sent(0, 0, 1, 0);
    assert_int_equal(arrivals(0), 0);
    sent(0, 1, 0, 0);
    sent(0, 0, 2, 0);
    assert_int_equal(arrivals(0), 2);
    told("line * 1 cut=0");
    sent(0, 0, 1, 0);
    assert_int_equal(arrivals(0), 1);
    assert_int_equal(links->line[0][1].count.cut, 1);
}

TEST(groups_are_cut_from_one_another)
{
    told("groups 0,3 1"); /* 2 is alone */
    for (unsigned from = 0; from < 4; from++)
        for (unsigned to = 0; to < 4; to++)
            if (from != to) {
                sent(0, from, to, 0);
                assert_int_equal(arrivals(0), from + to == 3 && from * to == 0);
            }
    told("groups 0,1,2,3");
    sent(0, 2, 1, 0);
    assert_int_equal(arrivals(0), 1);
}

TEST(delay_and_jitter_are_kept)
{
    told("line 0 1 delay=50 jitter=10");
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t k = 0; k < 1000; k++) {
        uint64_t now = k * 1000000;
        sent(now, 0, 1, 0);
        uint64_t took = links_due(links) - now;
        assert_null(links_next(links, now + took - 1));
        assert_int_equal(arrivals(now + took), 1);
        least = took < least ? took : least;
        most = took > most ? took : most;
    }
    assert_in_range(least, 40000, 41000);
    assert_in_range(most, 59000, 60000);
}

TEST(shares_are_kept)
{
    told("line 0 1 loss=20");
    told("line 1 2 dup=20");
    unsigned passed = 0, doubled = 0;
    for (uint32_t k = 0; k < MANY; k++) {
        sent(k, 0, 1, k);
        passed += arrivals(k);
        sent(k, 1, 2, k);
        doubled += arrivals(k) - 1;
    }
    assert_in_range(passed, MANY * 78 / 100, MANY * 82 / 100);
    assert_in_range(doubled, MANY * 18 / 100, MANY * 22 / 100);
    assert_int_equal(links->line[0][1].count.lost, MANY - passed);
}

TEST(corruption_flips_one_bit_behind_the_header)
{
    told("line 0 1 corrupt=100");
    static const uint8_t zero[SIZE];
    for (uint32_t k = 0; k < 1000; k++) {
        links_send(links, k, 0, 1, zero, SIZE);
        const struct links_frame *frame = links_next(links, k);
        int bits = 0;
        for (size_t i = 0; i < SIZE; i++)
            bits += __builtin_popcount(frame->data[i]);
        assert_int_equal(bits, 1);
        assert_memory_equal(frame->data, zero, 14);
    }
}

TEST(a_late_frame_is_overtaken)
{
    told("line 0 1 reorder=50");
    for (uint32_t k = 0; k < 100; k++)
        sent(k, 0, 1, k);
    uint32_t last = 0, overtaken = 0;
    const struct links_frame *frame;
    for (unsigned k = 0; k < 100; k++) {
        assert_non_null(frame = links_next(links, 100 + LINKS_REORDER_US));
        overtaken += number_of(frame) < last;
        last = number_of(frame);
    }
    assert_in_range(overtaken, 1, 1); /* the held ones come in order, after the others */
    assert_in_range(links->line[0][1].count.late, 30, 70);
}

TEST(a_rate_spaces_frames_and_a_full_queue_drops)
{
    told("line 0 1 rate=1000 queue=1000"); /* 125 bytes take 1 ms; 8 wait */
    for (uint32_t k = 0; k < 100; k++)
        sent(0, 0, 1, k);
    for (uint64_t k = 1; k <= 9; k++) {
        assert_true(links_due(links) == k * 1000);
        assert_int_equal(arrivals(k * 1000), 1);
    }
    assert_int_equal(arrivals(UINT64_MAX), 0);
    assert_int_equal(links->line[0][1].count.full, 91);
    sent(20000, 0, 1, 0);
    assert_true(links_due(links) == 21000);
}

TEST(the_rate_of_a_port_is_shared_by_its_lines)
{
    told("port 0 rate=1000");
    sent(0, 0, 1, 0);
    sent(0, 0, 2, 0);
    sent(0, 3, 0, 0); /* the other direction has its own */
    sent(0, 3, 1, 0);
    assert_int_equal(arrivals(0), 1);
    assert_int_equal(arrivals(1000), 2);
    assert_int_equal(arrivals(2000), 1);
}

TEST(a_full_pool_drops)
{
    told("line * * delay=1000");
    for (uint32_t k = 0; k < LINKS_FRAMES + 100; k++)
        sent(0, 0, 1, k);
    assert_int_equal(arrivals(1000000), LINKS_FRAMES);
    sent(0, 0, 1, 0);
    assert_int_equal(arrivals(1000000), 1);
}

TEST(fates_depend_on_the_seed_and_not_on_other_lines)
{
    OWNED(links_destroy) struct links *other;
    assert_int_equal(links_new(&other, 4, 7), 0);
    struct why why;
    told("line * * loss=50");
    assert_int_equal(links_command(other, "line * * loss=50", &why), 0);
    uint8_t data[SIZE] = {0};
    for (uint32_t k = 0; k < 1000; k++) {
        sent(k, 0, 1, k);
        links_send(other, k, 2, 3, data, SIZE);
        while (links_next(other, k))
            continue;
        links_send(other, k, 0, 1, data, SIZE);
        assert_int_equal(arrivals(k), links_next(other, k) != NULL);
    }
}

TEST(bad_commands_are_refused_in_one_line)
{
    static const char *const bad[] = {"cut 0 1",       "line 0",         "line 0 4 cut=1",
                                      "line 0 1 cut",  "line 0 1 loss=", "line 0 1 loss=101",
                                      "line 0 1 x=1",  "port * loss=1",  "groups 0,7",
                                      "line 0 1 a=-1", "line 0 1 cut=1x"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct why why = {""};
        assert_true(links_command(links, bad[k], &why) < 0);
        assert_non_null(strstr(why.line, bad[k]));
    }
    told("");
    told("clear");
}
